"""What `posenc.torch.adopt` makes of tiny models of transformers, and what holds of them after.

    python tools/adopt.py               a line for each model type
    python tools/adopt.py --write       the same into docs/adopt.md and docs/data/adopt.json
    python tools/adopt.py NAME ...      only these model types; with --write the other rows stay
    python tools/adopt.py --compile     counts graph breaks too, which takes some seconds a type

The types are those of which transformers has a causal language model, a model of image and text, or
a classifier of images. The default config of each is made small, part by part, and its model gets
random weights, of a size at which attention depends on positions. It is run before and after it is
adopted and after it is released. Nothing here names a model but the table of substitutes.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import inspect
import math
import multiprocessing
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, DATA = ROOT / "docs" / "adopt.md", ROOT / "docs" / "data" / "adopt.json"
LOGITS = 2e-5  # of the largest logit, in float32 at short positions
SHIFTED = 1e-6  # likewise, after a shift of all positions
FAR = 1_000_000
TOKENS, NEW = 12, 40
SLOWEST = 240  # seconds for one model type
STATES = ("held", "adopted", "refused", "not built")

# Keys that say how large a model is.
LAYERS = re.compile(
    r"^(num_hidden_layers|n_layers?|num_layers|depth|(en|de)coder_layers|num_(en|de)coder_layers|"
    r"n_layer|depths_per_stage|encoder_num_hidden_layers|decoder_num_hidden_layers)$"
)
HEADS = re.compile(
    r"^(num_attention_heads|n_heads?|num_heads|(en|de)coder_attention_heads|attention_heads|"
    r"num_decoder_attention_heads)$"
)
KEY_HEADS = re.compile(r"^(num_key_value_heads|num_kv_heads|n_kv_heads|multi_query_group_num)$")
WIDTHS = ("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "hidden_dim", "model_dim")
WIDE = re.compile(r"size|dim|width|embd|d_model|hidden")
INNER = re.compile(r"intermediate_size|ffn_dim|ffn_hidden_size|n_inner|mlp_dim|mlp_hidden|d_ff")
EXPERTS = re.compile(r"^(num_(local_|total_|routed_)?experts|n_routed_experts|moe_num_experts)$")
CHOSEN = re.compile(r"experts_per_tok|num_selected_experts|moe_topk|moe_k$|top_k_experts")
GROUPS = re.compile(r"^(n_group|topk_group|num_expert_group|topk_groups?)$")
RANKS = re.compile(r"_lora_rank$|lora_rank$")
TOKEN = re.compile(r"token_(id|index)$|_token_ids?$|_(start|end)_id$|^image_token|^boi|^eoi")
VOCAB = re.compile(r"(^|_)vocab_size")
HEAD_COUNT, VOCABULARY = 4, 512

# What the rules above do not make small in a way that fits together.
_MOE = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1}
_HEADS = {"head_dim": 32, "num_key_value_heads": 2}
_MROPE = {"rope_type": "default", "rope_theta": 1e4}
_COMPASS = {
    "layer_types": ["full_attention", "sliding_attention"],
    "num_hidden_layers": 2,
    "rope_parameters": {
        "full_attention": {**_MROPE, "mrope_section": [24, 20, 20]},
        "sliding_attention": dict(_MROPE),
    },
}
_GLM4V = {"rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}}
_QWEN4 = {
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
    "rope_parameters": {**_MROPE, "partial_rotary_factor": 0.25},
}  # fmt: skip
_VOCABULARY_MAP = {"<image>": 101, "<|extra_200|>": 102, "<|image token|>": 103}
SUBSTITUTES: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2, "position_embedding_type": "rope"},
    "deepseek_v2": {**_MOE, "topk_method": "greedy"},
    "dots1": _MOE,
    "cohere_compass_text": _COMPASS,
    "cohere_compass": {"text_config": _COMPASS},
    "glm4v": {"text_config": _GLM4V},
    "glm46v": {"text_config": {"model_type": "glm4v_text", **_GLM4V}},
    "glmga": {"text_config": {"model_type": "glm4v_text", **_GLM4V}},
    "glm4v_moe": {"text_config": {**_GLM4V, "hidden_size": 512, "num_attention_heads": 4}},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "hunyuan_v1_dense": _HEADS,
    "hunyuan_v1_moe": {**_HEADS, "num_experts": 4, "moe_topk": 2},
    "hunyuan_vl": {"text_config": {**_HEADS, "rope_parameters": {**_MROPE, "mrope_section": [4, 4, 4, 4]}}},
    "ministral": _HEADS,
    "nemotron": _HEADS,
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2, "num_dense_layers": 1},
    "minimax_m3_vl_text": {"rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5}},
    "minimax_m3_vl": {
        "text_config": {"rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5}}
    },
    "flint": {"num_hidden_layers": 6},
    "qwen4_exp_text": _QWEN4,
    "qwen4_exp": {"text_config": _QWEN4},
    "chameleon": {"vocabulary_map": _VOCABULARY_MAP},
    "emu3": {"vocabulary_map": _VOCABULARY_MAP},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"], **_MOE}},
    "diffusion_gemma": {"text_config": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64}},
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 0}},
    "granite4_vision": {"deepstack_layer_map": [], "downsample_rate": "1/2"},
    "mamba2": {"num_heads": 4, "head_dim": 128, "hidden_size": 256, "n_groups": 1},
    "molmo2": {"adapter_config": {"vision_feature_layers": [1, 0], "vision_feature_layer": [1, 0]}},
    "reformer": {"is_decoder": True},
    "step3p7": {"text_config": {"sliding_window": 64}},
    "dbrx": {"attn_config": {"rope_theta": 1e4, "kv_n_heads": 1, "clip_qkv": 8.0}},
    "xmod": {"default_language": "en_XX"},
    "musicgen": {"decoder": {"num_codebooks": 1}},
    "musicgen_melody": {"decoder": {"num_codebooks": 1}},
    "nemotron_h_omni": {"vision_config": {"video_temporal_patch_size": 2},
                        "video_temporal_patch_size": 2},
}  # fmt: skip


@dataclasses.dataclass
class Row:
    """What came of one model type."""

    model_type: str
    state: str = "not built"
    why: str = ""
    name: str = ""  # of the class
    replaced: list[str] = dataclasses.field(default_factory=list)
    left: list[str] = dataclasses.field(default_factory=list)
    change: float | None = None
    wrong: int | None = None
    logits: float | None = None
    padded: float | None = None
    generated: bool | None = None
    keys: bool | None = None
    released: bool | None = None
    bits: bool | None = None
    drift: float | None = None
    shifted: float | None = None
    pictures: float | None = None
    idle: list[str] = dataclasses.field(default_factory=list)  # replaced, and not run
    breaks: list[int] | None = None


# --- small models ---------------------------------------------------------------------------------


def model_types() -> dict[str, str]:
    """Each model type, with the name of the class of its model."""
    from transformers.models.auto import modeling_auto as auto

    found: dict[str, str] = {}
    for mapping in (
        auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    ):
        for name, cls in mapping.items():
            found[name] = cls if isinstance(cls, str) else cls[0]
    return dict(sorted(found.items()))


def _sub(config: Any) -> dict[str, Any]:
    return {
        key: value for key, value in vars(config).items()
        if callable(getattr(value, "to_dict", None)) and hasattr(value, "model_type")
    }  # fmt: skip


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _widths(config: Any) -> dict[int, int]:
    """Widths of a config and its parts -> those of the small ones, in the ratio of their heads."""
    found: dict[int, int] = {}
    for sub in _sub(config).values():
        found |= _widths(sub)
    told = {**config.to_dict()}
    heads = next((told[k] for k in told if HEADS.match(k) and _number(told[k])), None)
    for key in WIDTHS:
        value = getattr(config, key, None)
        if _number(value) and heads and value % heads == 0:
            found[value] = value // heads * min(heads, HEAD_COUNT)
            break
    return found


def _layers(config: Any) -> int:
    """So many layers that every type of them is there."""
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or []
    firsts = [types.index(kind) + 1 for kind in set(types)]
    return min(max([2, *firsts]), 12)


def small(config: Any, widths: dict[int, int] | None = None) -> dict[str, Any]:
    """What to change in a config, so that its model is small."""
    widths = _widths(config) if widths is None else widths
    changes: dict[str, Any] = {}
    defaults = config.to_dict()
    heads = next((defaults[k] for k in defaults if HEADS.match(k) and _number(defaults[k])), 1)
    fewer = min(heads, HEAD_COUNT)
    tokens: dict[int, int] = {}
    for key, sub in _sub(config).items():
        if sub.model_type:
            changes[key] = {"model_type": sub.model_type, **small(sub, widths)}
    for key, value in defaults.items():
        if key in changes or not _number(value):
            continue
        if LAYERS.match(key):
            changes[key] = min(value, _layers(config))
        elif HEADS.match(key):
            changes[key] = min(value, HEAD_COUNT)
        elif KEY_HEADS.match(key):
            changes[key] = fewer if value == heads else max(1, math.gcd(fewer, value) // 2)
        elif EXPERTS.match(key):
            changes[key] = min(value, 4)
        elif CHOSEN.search(key):
            changes[key] = min(value, 2)
        elif GROUPS.match(key):
            changes[key] = 1
        elif RANKS.search(key):
            changes[key] = min(value, 32)
        elif VOCAB.search(key):
            changes[key] = min(value, VOCABULARY)
        elif TOKEN.search(key):
            if value >= VOCABULARY:
                changes[key] = tokens.setdefault(value, 100 + (value * 7 + len(tokens)) % 300)
        elif INNER.search(key):
            changes[key] = min(value, 64)
        elif WIDE.search(key) and value in widths:
            changes[key] = widths[value]
    return changes


def merged(given: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both, where dictionaries of the same key are merged too; None takes a key away."""
    made = dict(given)
    for key, value in more.items():
        inside = isinstance(value, dict) and isinstance(made.get(key), dict)
        made[key] = merged(made[key], value) if inside else value
    return {key: value for key, value in made.items() if value != "leave out"}


def built(model_type: str) -> Any:
    """A small model of a type, in float32, with random weights."""
    import torch
    import transformers

    kind = transformers.CONFIG_MAPPING[model_type]
    more = SUBSTITUTES.get(model_type, {})
    changes = merged(small(kind(**copy.deepcopy(more))), copy.deepcopy(more))
    config = kind(**changes)
    cls = getattr(transformers, model_types()[model_type])
    if not isinstance(config, cls.config_class):  # the text, or the decoder, of a whole
        parts = [sub for sub in _sub(config).values() if isinstance(sub, cls.config_class)]
        config = parts[0] if parts else config
    torch.manual_seed(0)
    model = cls(config).float().eval()
    for weight in model.parameters():
        if weight.ndim >= 2:
            torch.nn.init.normal_(weight, std=1.0 / math.sqrt(max(weight.shape[-1], 1)))
        else:  # gates that begin at zero let nothing through
            with torch.no_grad():
                weight.add_(torch.randn_like(weight), alpha=0.1)
    return model


# --- what holds -----------------------------------------------------------------------------------


def given(model: Any, seed: int = 1) -> dict[str, Any]:
    """An input that the model takes: tokens, or a picture."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    if model.main_input_name == "pixel_values":
        config = getattr(model.config, "vision_config", model.config)
        size = getattr(config, "image_size", 224) or 224
        sizes = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        channels = getattr(config, "num_channels", 3)
        return {"pixel_values": torch.randn(1, channels, *sizes, generator=generator)}
    tokens = {"input_ids": torch.randint(10, 99, (2, TOKENS), generator=generator)}
    if model.config.is_encoder_decoder:
        tokens["decoder_input_ids"] = tokens["input_ids"] % 50 + 10
    return tokens


def logits(model: Any, **inputs: Any) -> Any:
    """What it answers."""
    import torch

    with torch.no_grad():
        answer = model(**inputs)
    return answer.logits if hasattr(answer, "logits") else answer[0]


def apart(a: Any, b: Any) -> float:
    """The largest difference, of the largest of both."""
    return float((a - b).abs().max() / b.abs().max())


def generated(model: Any, inputs: dict[str, Any]) -> Any:
    """Tokens that follow, the likeliest each time."""
    return model.generate(
        **inputs, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0
    )


def left_padded(inputs: dict[str, Any]) -> dict[str, Any]:
    """The same tokens, of which the first row has padding on the left; nothing for a picture."""
    import torch

    if "input_ids" not in inputs:
        return {}
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, :5] = 0
    return {**inputs, "attention_mask": mask}


def tie(model: Any, inputs: dict[str, Any], tokens: Any) -> bool | None:
    """None where the first token that differs was chosen among two equal logits; else False."""
    import torch

    other = generated(model, left_padded(inputs))
    line, place = (other != tokens).nonzero()[0].tolist()
    mask = left_padded(inputs)["attention_mask"]
    mask = torch.cat([mask, torch.ones(len(mask), place - TOKENS, dtype=mask.dtype)], dim=1)
    last = logits(model, input_ids=tokens[:, :place], attention_mask=mask)[line, -1]
    first, second = last.topk(2).values
    return None if first - second <= SHIFTED * last.abs().max() else False


def drift(model: Any, inputs: dict[str, Any]) -> float | None:
    """How much the logits depend on a shift of all positions, in float64; None if it takes none."""
    import torch

    places = torch.arange(TOKENS)[None].expand(2, TOKENS)
    experts = None
    with contextlib.suppress(Exception):  # grouped products of matrices know no float64
        experts = model.get_experts_implementation()
        model.set_experts_implementation("eager")
    try:
        near = logits(model.double(), **inputs, position_ids=places)
        return apart(logits(model, **inputs, position_ids=places + FAR), near)
    except Exception:  # noqa: BLE001 - other people's classes raise anything
        return None
    finally:
        model.float()
        if experts is not None:
            model.set_experts_implementation(experts)


def rotary_alone(config: Any) -> bool:
    """Whether rotations are all that its plan says of positions."""
    import posenc

    plan = posenc.from_hf(config, on_error="report")
    kinds = {entry.kind for entry in plan if not entry.layer.startswith("vision")}
    open_notes = plan.errors or any("partly" in text for text in plan.warnings)
    scaled = any(e.logit_scale is not None for e in plan)
    return kinds <= {"rotary", "none"} and not open_notes and not scaled


def towers(model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parts of a model that take pictures, with a picture that they take."""
    import torch
    from transformers import PreTrainedModel

    generator = torch.Generator().manual_seed(2)
    for path, part in model.named_modules():
        if not path or not isinstance(part, PreTrainedModel):
            continue
        config = part.config
        patch, channels = getattr(config, "patch_size", None), getattr(config, "num_channels", 3)
        if not isinstance(patch, int):
            continue
        size = getattr(config, "image_size", None)
        size = size if isinstance(size, int) else 8 * patch
        frames = getattr(config, "temporal_patch_size", 1) or 1
        channels = getattr(config, "in_channels", channels)
        grid = torch.tensor([[1, 4, 8]])
        flat = torch.randn(32, channels * frames * patch**2, generator=generator)
        squares = torch.randn(32, channels, patch, patch, generator=generator)
        picture = torch.randn(1, channels, size, size, generator=generator)
        names = list(inspect.signature(type(part).forward).parameters)[1:]
        for tensor in (picture, flat, squares):
            for key in (
                "grid_thw",
                "image_grid_thw",
                "grid_hws",
                "target_sizes",
                "image_sizes",
                "",
            ):
                if key and key not in names:
                    continue
                sizes = grid if key.endswith("thw") else grid[:, 1:]
                inputs = {names[0]: tensor} | ({key: sizes} if key else {})
                with contextlib.suppress(Exception):
                    seen(part, inputs)
                    yield path, inputs
                    break
            else:
                continue
            break


def seen(part: Any, inputs: dict[str, Any]) -> Any:
    """What a part makes of a picture."""
    import torch

    with torch.no_grad():
        answer = part(**inputs)
    answer = answer if isinstance(answer, torch.Tensor) else answer[0]
    if not torch.isfinite(answer).all():
        raise ValueError("no numbers")
    return answer


@contextlib.contextmanager
def counted(model: Any) -> Iterator[set[str]]:
    """The paths of the modules that were put in and run meanwhile."""
    from posenc.torch.adopted import AdoptedRotary

    ran: set[str] = set()
    hooks = [
        module.register_forward_hook(lambda *_, path=path: ran.add(path))
        for path, module in model.named_modules() if isinstance(module, AdoptedRotary)
    ]  # fmt: skip
    yield ran
    for hook in hooks:
        hook.remove()


def breaks(model: Any, inputs: dict[str, Any]) -> int:
    """How often its graph breaks."""
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    logits(torch.compile(model, backend="eager"), **inputs)
    return sum(counters["graph_break"].values())


def row(model_type: str, *, compiles: bool = False) -> Row:
    """One model type."""
    made = Row(model_type)
    try:
        model = built(model_type)
    except Exception as error:  # noqa: BLE001 - other people's classes raise anything
        made.why = said(error)
        return made
    made.name = type(model).__name__
    try:
        measured(made, model, compiles=compiles)
    except Exception as error:  # noqa: BLE001 - what an adopted model raises is a finding
        made.why = said(error)
        return made
    return made


def said(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]


def measured(made: Row, model: Any, *, compiles: bool) -> None:
    """Fill a row."""
    import torch

    import posenc
    from posenc.torch import adopt, release

    keys = [*model.state_dict()]
    try:
        report = adopt(model)
    except posenc.PosencError as error:
        made.state, made.why = "refused", str(error)
        return
    release(model)
    made.state = "adopted"
    made.replaced = [f"{r.where}: {r.layer}" for r in report.replaced]
    made.left = list(report.left)
    made.change = max(r.change for r in report.replaced)
    made.wrong = min((r.wrong for r in report.replaced if r.wrong is not None), default=None)

    inputs = given(model)
    before = logits(model, **inputs)
    if not torch.equal(before, logits(model, **inputs)) or not torch.isfinite(before).all():
        raise ValueError("it does not answer twice the same, or not in numbers")
    masked = left_padded(inputs)
    tokens = padded = shifted = None
    with contextlib.suppress(Exception):
        padded = logits(model, **masked)[0, 5:] if masked else None
    with contextlib.suppress(Exception):
        tokens = generated(model, masked) if model.can_generate() and masked else None
    if masked and rotary_alone(model.config):
        shifted = drift(model, inputs)
    pictures = [(path, inner, seen(model.get_submodule(path), inner))
                for path, inner in towers(model)]  # fmt: skip
    if compiles:
        made.breaks = [breaks(model, inputs)]
    before = logits(model, **inputs)

    adopt(model)
    with counted(model) as ran:
        made.logits = apart(logits(model, **inputs), before)
        if padded is not None:
            made.padded = apart(logits(model, **masked)[0, 5:], padded)
        if tokens is not None:
            made.generated = torch.equal(generated(model, masked), tokens)
        for path, inner, old in pictures:
            change = apart(seen(model.get_submodule(path), inner), old)
            made.pictures = max(change, made.pictures or 0.0)
    paths = dict.fromkeys(r.where for r in report.replaced)
    ran |= {r.where for r in report.replaced if r.what == "rows" and made.logits > 0}
    made.idle = [path for path in paths if path not in ran]
    if shifted is not None:
        made.drift, made.shifted = shifted, drift(model, inputs)
    if made.generated is False:
        made.generated = tie(model, inputs, tokens)
    if made.breaks is not None:
        made.breaks.append(breaks(model, inputs))
    made.keys = [*model.state_dict()] == keys
    release(model)
    made.released = torch.equal(logits(model, **inputs), before)
    adopt(model, phase="float32")
    made.bits = torch.equal(logits(model, **inputs), before)
    made.why = "; ".join(broken(made))
    made.state = "adopted" if made.why else "held"


def broken(made: Row) -> Iterator[str]:
    """What does not hold of a model that was adopted."""
    if made.logits is None or not made.logits <= LOGITS:
        yield f"logits change by {made.logits:.2g}"
    if made.padded is not None and not made.padded <= LOGITS:
        yield f"logits change by {made.padded:.2g} beside left padding"
    if made.pictures is not None and not made.pictures <= LOGITS:
        yield f"what is seen of a picture changes by {made.pictures:.2g}"
    if made.shifted is not None and not made.shifted <= SHIFTED:
        yield f"a shift of all positions changes logits by {made.shifted:.2g}"
    if len(made.idle) == len({place.partition(": ")[0] for place in made.replaced}):
        yield "nothing that was replaced was run"
    if made.generated is False:
        yield f"other tokens within {NEW}"
    if not made.keys:
        yield "other keys in the state dict"
    if not made.released:
        yield "other bits after release"
    if made.breaks is not None and made.breaks[1] > made.breaks[0]:
        yield f"{made.breaks[1]} graph breaks for {made.breaks[0]}"


# --- telling --------------------------------------------------------------------------------------


def task(job: tuple[str, bool]) -> Row:
    """One model type in a process of its own, which ends after a while."""
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)

    def ring(*_: object) -> None:
        raise TimeoutError(f"more than {SLOWEST} s")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(SLOWEST)
    try:
        return row(job[0], compiles=job[1])
    except Exception as error:  # noqa: BLE001 - other people's classes raise anything
        return Row(job[0], why=f"{type(error).__name__}: {error}"[:200])
    finally:
        signal.alarm(0)


def line(made: Row) -> str:
    """A row as text."""
    numbers = [made.logits, made.padded, made.pictures, made.drift, made.shifted]
    told = " ".join("-" if n is None else f"{n:.1e}" for n in numbers)
    flags = f"tokens={made.generated} bits={made.bits} breaks={made.breaks} idle={len(made.idle)}"
    return f"{made.state:9} {made.model_type:24} {told} {flags} {made.why[:300]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="into the page and its data")
    parser.add_argument("--compile", action="store_true", help="count graph breaks too")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    jobs = [(name, options.compile) for name in options.names or model_types()]
    context = multiprocessing.get_context("spawn")
    rows = []
    with context.Pool(options.jobs, maxtasksperchild=20) as pool:
        for made in pool.imap_unordered(task, jobs):
            rows.append(made)
            print(line(made), flush=True)
    if options.write:
        sys.exit("not yet")


if __name__ == "__main__":
    main()

"""What `posenc.torch.adopt` makes of tiny models of transformers, and what holds of them after.

    python tools/models/adopt.py            a line for each model type
    python tools/models/adopt.py --write    the same into docs/adopt.md and docs/data/adopt.json
    python tools/models/adopt.py NAME ...   only these model types; with --write the other rows stay
    python tools/models/adopt.py --compile  counts graph breaks too, which takes some seconds a type

The types are those of which transformers has a causal language model, a model of image and text, or
a classifier of images, and those of all other modelling files with rotary code. The default config
of each is made small, part by part, and its model gets random weights, of a size at which attention
depends on positions. It is run before and after it is adopted and after it is released.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import inspect
import itertools
import json
import multiprocessing
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.models.small_inputs import INPUTS  # noqa: E402
from tools.models.small_models import IDLE, UNBUILT, built, model_types  # noqa: E402
from tools.pages import shelf  # noqa: E402

PAGE, DATA = ROOT / "docs" / "adopt.md", ROOT / "docs" / "data" / "adopt.json"
LOGITS = 2e-5  # of the largest logit, in float32 at short positions
UNIT = 2.4e-7  # the width of what rounding does to a cosine
ROOM = 4  # times what rounding changes, where random weights make more of it than LOGITS
SHIFTED = 1e-6  # likewise, after a shift of all positions
FAR, NEAR = 1_000_000, 64
# A shift by NEAR with the model's own angles, or by FAR where nothing turns, changes no logits by
# more than this, or the model reads positions elsewhere: a norm after the rotation, a state, a
# temperature.
ABSOLUTE = 1e-4
TOKENS, NEW = 12, 40
SLOWEST = 240  # seconds for one model type
STATES = ("held", "adopted", "refused", "not built")


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
    absolute: float | None = None  # what a shift changes that is not of angles
    noise: float | None = None  # what a unit in the last place of cosines changes, where asked
    pictures: float | None = None
    idle: list[str] = dataclasses.field(default_factory=list)  # replaced, and not run
    breaks: list[int] | None = None


# --- what holds -----------------------------------------------------------------------------------


def inputs_of(model: Any, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Inputs that a model may take: a picture, tokens, or both."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    if (special := INPUTS.get(model.config.model_type)) is not None:
        yield special(model, generator)
        return
    tokens = {"input_ids": torch.randint(10, 99, (2, TOKENS), generator=generator)}
    if model.config.is_encoder_decoder:
        tokens["decoder_input_ids"] = tokens["input_ids"] % 50 + 10
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "image_size", 224) or 224
    sizes = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    channels = getattr(config, "num_channels", 3)
    picture = {"pixel_values": torch.randn(1, channels, *sizes, generator=generator)}
    names = inspect.signature(type(model).forward).parameters
    if model.main_input_name == "pixel_values":
        yield picture
    if "input_ids" in names or model.main_input_name != "pixel_values":
        yield tokens
    yield from _by_names(model.config, names, generator)
    if "image_attention_mask" in names:  # several pictures beside each text
        pictures = picture["pixel_values"].expand(2, 1, channels, *sizes)
        seen_by = torch.ones(2, TOKENS, 1, dtype=torch.int64)
        yield {**tokens, "pixel_values": pictures, "image_attention_mask": seen_by}


def _by_names(config: Any, names: Any, generator: Any) -> Iterator[dict[str, Any]]:
    """Sounds, videos, numbers and hidden states, by the names of a model's arguments."""
    import torch

    def size(*keys: str) -> Any:
        parts = [config, *(v for v in vars(config).values() if hasattr(v, "model_type"))]
        return next((getattr(p, k) for k in keys for p in parts if getattr(p, k, None)), 80)

    bins = size("num_mel_bins", "feature_projection_input_dim", "feature_size")
    image, frames = size("image_size"), size("num_frames", "frames_per_clip")
    ids = torch.randint(10, 30, (2, TOKENS), generator=generator)
    ways: dict[str, list[tuple[int, ...]]] = {
        "input_features": [(1, bins, 96), (1, 96, bins), (1, bins, 3000)],
        "input_values": [(1, 6400), (1, 1, 6400)],
        "pixel_values_videos": [(1, frames, 3, image, image)],
        "past_values": [(2, 512)],
        "inputs_embeds": [(2, TOKENS, size("hidden_size"))],
        "noise_embeds": [(2, TOKENS, size("hidden_size"))],
        "latents": [(1, size("hidden_size"), 24), (1, 24, size("hidden_size"))],
    }
    asked = [key for key in ways if key in names]
    for key in ("context_hidden_states",):
        if key in names:
            ways[key] = [(2, TOKENS, n * size("hidden_size")) for n in (1, 2, 3, 4, 5, 6)]
            asked.append(key)
    if "pixel_values" in names and asked == []:
        asked, ways = ["pixel_values"], {"pixel_values": [(1, 3, image, image)]}
    tokens = {key: ids for key in ("input_ids", "decoder_input_ids") if key in names}
    if hasattr(size("decoder_config"), "num_channels"):
        tokens["decoder_input_ids"] = ids[..., None].expand(
            2, TOKENS, config.decoder_config.num_channels
        )
    for several in ([key] for key in asked), [asked]:
        for keys in several:
            for shapes in itertools.product(*(ways[key] for key in keys)):
                made = {key: torch.randn(shape, generator=generator) for key, shape in
                        zip(keys, shapes, strict=True)}  # fmt: skip
                yield {**tokens, **made}
                yield made
                yield {k: t[:1] for k, t in tokens.items()} | made


def given(model: Any) -> dict[str, Any]:
    """An input that the model takes."""
    reasons: list[Exception] = []
    for inputs in inputs_of(model):
        try:
            logits(model, **inputs)
        except Exception as error:  # noqa: BLE001 - other people's classes raise anything
            reasons.append(error)
        else:
            return inputs
    raise reasons[-1]


def logits(model: Any, **inputs: Any) -> Any:
    """What it answers."""
    import torch

    with torch.no_grad():
        answer = model(**inputs)
    if hasattr(answer, "logits"):
        return answer.logits
    parts = answer if isinstance(answer, (tuple, list)) else [*answer.values()]
    parts = [one[0] if isinstance(one, (tuple, list)) else one for one in parts]
    return next(
        one for one in parts
        if isinstance(one, torch.Tensor) and one.is_floating_point() and one.abs().max() > 0
    )  # fmt: skip


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


def drift(model: Any, inputs: dict[str, Any], by: int = FAR) -> float | None:
    """How much the logits depend on a shift of all positions, in float64; None if it takes none."""
    import torch

    places = torch.arange(TOKENS)[None].expand(2, TOKENS)
    experts = None
    with contextlib.suppress(Exception):  # grouped products of matrices know no float64
        experts = model.get_experts_implementation()
        model.set_experts_implementation("eager")
    try:
        near = logits(model.double(), **inputs, position_ids=places)
        return apart(logits(model, **inputs, position_ids=places + by), near)
    except Exception:  # noqa: BLE001 - other people's classes raise anything
        return None
    finally:
        model.float()
        if experts is not None:
            model.set_experts_implementation(experts)


@contextlib.contextmanager
def stilled(model: Any) -> Iterator[None]:
    """Nothing that was put in turns meanwhile."""
    import torch

    from posenc.torch.adopted import AdoptedRotary

    def still(*call: Any) -> Any:
        answer = call[-1]
        if isinstance(answer, torch.Tensor):
            return torch.ones_like(answer)
        return torch.ones_like(answer[0]), torch.zeros_like(answer[1])

    hooks = [
        m.register_forward_hook(still) for m in model.modules() if isinstance(m, AdoptedRotary)
    ]
    yield
    for hook in hooks:
        hook.remove()


def noise(model: Any, inputs: dict[str, Any]) -> float:
    """What half a unit in the last place of all cosines and sines changes, the most of three."""
    import torch

    from posenc.torch.adopted import AdoptedRotary

    generator = torch.Generator().manual_seed(3)

    def shaken(one: Any) -> Any:
        if isinstance(one, tuple):
            return tuple(map(shaken, one))
        real = torch.view_as_real(one) if one.is_complex() else one
        real = real + (torch.rand(real.shape, generator=generator) - 0.5).to(one.device) * UNIT
        return torch.view_as_complex(real) if one.is_complex() else real

    plain = logits(model, **inputs)
    hooks = [m.register_forward_hook(lambda *call: shaken(call[-1])) for m in model.modules()
             if isinstance(m, AdoptedRotary)]  # fmt: skip
    changes = [apart(logits(model, **inputs), plain) for _ in range(3)]
    for hook in hooks:
        hook.remove()
    return max(changes)


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
        side = patch * (getattr(config, "spatial_merge_size", 1) or 1)
        merged = torch.randn(32, side, side, channels, generator=generator)
        names = list(inspect.signature(type(part).forward).parameters)[1:]
        for tensor in (picture, flat, squares, merged):
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
        made.why = UNBUILT.get(model_type, "") or unread(model_type)
        made.state = "refused" if model_type not in UNBUILT and made.why else "not built"
        made.why = made.why or said(error)
        return made
    made.name = type(model).__name__
    try:
        measured(made, model, compiles=compiles)
    except Exception as error:  # noqa: BLE001 - what an adopted model raises is a finding
        made.why = said(error)
        return made
    return made


def unread(model_type: str) -> str:
    """Why the config of a model says of no encoding, where that is so."""
    from transformers import CONFIG_MAPPING

    import posenc

    plan = posenc.from_hf(CONFIG_MAPPING[model_type](), on_error="report")
    return "" if any(entry.spec is not None for entry in plan) else "; ".join(plan.errors)


def said(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]


class Before(NamedTuple):
    """What a model answers as it is."""

    inputs: dict[str, Any]
    logits: Any
    padded: Any = None
    tokens: Any = None
    far: float | None = None  # what a shift by FAR changes, and one by NEAR
    near: float | None = None
    pictures: Sequence[tuple[str, dict[str, Any], Any]] = ()


def before_it(model: Any, places: list[str]) -> Before:
    """What a model answers before modules at some places are replaced."""
    import torch

    inputs = given(model)
    first = logits(model, **inputs)
    if not torch.equal(first, logits(model, **inputs)) or not torch.isfinite(first).all():
        raise ValueError("it does not answer twice the same, or not in numbers")
    masked = left_padded(inputs)
    tokens = padded = far = near = None
    with contextlib.suppress(Exception):
        padded = logits(model, **masked)[0, 5:] if masked else None
        padded = padded if padded is not None and padded.numel() else None
    with contextlib.suppress(Exception):
        tokens = generated(model, masked) if model.can_generate() and masked else None
    if masked and rotary_alone(model.config):
        far, near = (drift(model, inputs, by) for by in (FAR, NEAR))
    pictures = [
        (path, inner, seen(model.get_submodule(path), inner)) for path, inner in towers(model)
        if any(place.startswith(f"{path}.") for place in places)
    ]  # fmt: skip
    return Before(inputs, logits(model, **inputs), padded, tokens, far, near, pictures)


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
    made.replaced = [f"{r.path}: {r.layer}" for r in report.replaced]
    made.left = list(report.left)
    made.change = max(r.change for r in report.replaced)
    made.wrong = min((r.wrong for r in report.replaced if r.wrong is not None), default=None)
    before = before_it(model, [r.path for r in report.replaced])
    inputs, masked = before.inputs, left_padded(before.inputs)
    if compiles:
        made.breaks = [breaks(model, inputs)]

    adopt(model)
    with counted(model) as ran:
        made.logits = apart(logits(model, **inputs), before.logits)
        if made.logits > LOGITS:
            made.noise = noise(model, inputs)
        if before.padded is not None:
            made.padded = apart(logits(model, **masked)[0, 5:], before.padded)
        if before.tokens is not None:
            made.generated = torch.equal(generated(model, masked), before.tokens)
        for path, inner, old in before.pictures:
            change = apart(seen(model.get_submodule(path), inner), old)
            made.pictures = max(change, made.pictures or 0.0)
    paths = dict.fromkeys(r.path for r in report.replaced)
    ran |= {r.path for r in report.replaced if r.what == "rows" and made.logits > 0}
    made.idle = [path for path in paths if path not in ran]
    if before.far is not None:
        with stilled(model):
            made.absolute = max(before.near or 0.0, drift(model, inputs) or 0.0)
        made.drift = before.far
        made.shifted = drift(model, inputs) if made.absolute <= ABSOLUTE else None
    if made.generated is False:
        made.generated = tie(model, inputs, before.tokens)
    if made.breaks is not None:
        made.breaks.append(breaks(model, inputs))
    made.keys = [*model.state_dict()] == keys
    release(model)
    made.released = torch.equal(logits(model, **inputs), before.logits)
    adopt(model, phase="float32")
    made.bits = torch.equal(logits(model, **inputs), before.logits)
    made.why = "; ".join(broken(made))
    made.state = "adopted" if made.why else "held"


def broken(made: Row) -> Iterator[str]:
    """What does not hold of a model that was adopted."""
    room = max(LOGITS, ROOM * (made.noise or 0.0))
    if made.logits is None or not made.logits <= room:
        yield f"logits change by {made.logits:.2g}"
    if made.padded is not None and not made.padded <= room:
        yield f"logits change by {made.padded:.2g} beside left padding"
    if made.pictures is not None and not made.pictures <= LOGITS:
        yield f"what is seen of a picture changes by {made.pictures:.2g}"
    if made.shifted is not None and not made.shifted <= SHIFTED:
        yield f"a shift of all positions changes logits by {made.shifted:.2g}"
    if len(made.idle) == len({place.partition(": ")[0] for place in made.replaced}):
        yield IDLE.get(made.model_type, "nothing that was replaced was run")
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


def versions() -> dict[str, str]:
    """What the rows are of."""
    import torch
    import transformers

    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
    }


def merged_rows(rows: list[Row]) -> list[dict[str, Any]]:
    """The rows among those that are stored, of the same versions; graph breaks are kept."""
    stored: dict[str, dict[str, Any]] = {}
    if DATA.exists():
        data = json.loads(DATA.read_text(encoding="utf-8"))
        if data["versions"] == versions():
            stored = {one["model_type"]: one for one in data["rows"]}
    for made in rows:
        fresh = dataclasses.asdict(made)
        before = stored.get(made.model_type, {})
        if fresh["breaks"] is None and fresh["state"] == before.get("state") == "held":
            fresh["breaks"] = before["breaks"]
        stored[made.model_type] = fresh
    return [stored[name] for name in sorted(stored)]


def number(value: float | None) -> str:
    """A figure of a table."""
    return "" if value is None else "0" if value == 0 else f"{value:.1e}"


def tables(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    version = versions()
    by = {state: [r for r in rows if r["state"] == state] for state in STATES}
    held = by["held"]
    calm = [r for r in held if r.get("noise") is None]
    worst = {key: max((r[key] for r in calm if r[key] is not None), default=None)
             for key in ("logits", "padded", "pictures", "shifted")}  # fmt: skip
    loud = {r["model_type"]: r["logits"] / r["noise"] for r in held if r.get("noise") is not None}
    amplified = f"of what rounded cosines change in {_names(loud)}, whose weights make more of it"
    drifts = [r["drift"] for r in held if r["shifted"] is not None and r["drift"]]
    own = sum(r["drift"] is not None and r["shifted"] is None for r in held)
    least, most = (number(f(drifts, default=None)) for f in (min, max))
    compiled = [r["breaks"] for r in held if r["breaks"] is not None]
    tokens = sum(r["generated"] is True for r in held)
    ties = sum(r["generated"] is None and r["padded"] is not None for r in held)
    lines = [
        f"transformers {version['transformers']}, torch {version['torch']}, {len(rows)} types:",
        "",
        "| | model types |",
        "|---|---|",
        f"| adopted, and everything held | {len(held)} |",
        f"| adopted, and something did not hold, or it could not be run | {len(by['adopted'])} |",
        f"| refused | {len(by['refused'])} |",
        f"| its small model does not build | {len(by['not built'])} |",
        "",
        "Of those that held:",
        "",
        "| | |",
        "|---|---|",
        f"| largest change of logits, of the largest logit | {number(worst['logits'])} |",
        f"| … beside left padding | {number(worst['padded'])} |",
        f"| … {amplified} | {max(loud.values(), default=0):.1f} |",
        f"| largest change of what a vision tower returns | {number(worst['pictures'])} |",
        f"| {NEW} tokens of `generate` equal | {tokens} |",
        f"| … or chosen otherwise between two equal logits, or not generated | {ties} |",
        f"| state dict keys equal | {sum(r['keys'] is True for r in held)} |",
        f"| bits equal after `release` | {sum(r['released'] is True for r in held)} |",
        f'| bits equal under `phase="float32"` | {sum(r["bits"] is True for r in held)} |',
        f"| change of logits by a shift of {FAR:,} positions, before | {least} to {most} |",
        f"| … after, in {len(drifts)} types that only rotate | {number(worst['shifted'])} |",
        f"| … not asked, as logits depend on absolute positions for another reason | {own} |",
        f"| graph breaks counted, none more than before | {len(compiled)} |",
        "",
        "### Adopted",
        "",
        "| type | replaced | cos and sin | wrong from | logits | padded | tower | shift | then |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in held:
        cells = (
            f"`{r['model_type']}`", str(len(r["replaced"])), number(r["change"]),
            "" if r["wrong"] is None else f"{r['wrong']:,}", number(r["logits"]),
            number(r["padded"]), number(r["pictures"]), number(r["drift"]), number(r["shifted"]),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    for state, title in (("adopted", "Adopted, and not held"), ("refused", "Refused"),
                         ("not built", "Not built")):  # fmt: skip
        lines += ["", f"### {title}", "", "| model type | why |", "|---|---|"]
        lines += [f"| `{r['model_type']}` | {_cell(r['why'])} |" for r in by[state]]
    return "\n".join([*lines, ""])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no type"


def _cell(why: str) -> str:
    why = why.partition("got none: ")[2] or why
    why = why if len(why) <= 260 else f"{why[:257]}..."
    return why.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="into the page and its data")
    parser.add_argument("--compile", action="store_true", help="count graph breaks too")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    known = model_types()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no model types: {', '.join(unknown)}")
    jobs = [(name, options.compile) for name in options.names or known]
    context = multiprocessing.get_context("spawn")
    rows = []
    with context.Pool(options.jobs, maxtasksperchild=20) as pool:
        for made in pool.imap_unordered(task, jobs):
            rows.append(made)
            print(line(made), flush=True)
            if options.write:  # a run that is cut short keeps what it has
                every = merged_rows([made])
                data = {"versions": versions(), "rows": every}
                DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if options.write:
        pattern = re.compile("(<!-- generated: zoo -->\n).*?(<!-- end -->)", re.DOTALL)
        page = PAGE.read_text(encoding="utf-8")
        text, files = shelf.shelved(tables(every), "zoo", long=5, keep=1)
        PAGE.write_text(pattern.sub(lambda m: m[1] + text + m[2], page), encoding="utf-8")
        shelf.put(PAGE.parent, "zoo", files)


if __name__ == "__main__":
    main()

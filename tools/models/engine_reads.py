"""What engines make of the rotary parameters of a config: `configs/engines.json`.

    TORCHDYNAMO_DISABLE=1 python tools/models/engine_reads.py ENGINE FOLDER [TYPE ...]

ENGINE is vLLM or SGLang, whose unpacked wheel is FOLDER, or llama.cpp, of a checkout that has
`conversion/` and `gguf-py/`. With types of models it prints theirs and writes nothing.

Each writes the part of its engine. The engine's own class of every model type is made from small
configs that differ in one rotary parameter: where its numbers stay, the key is not read. Then the
rule is sought that our reader has to be told, with those keys, to give the same numbers in every
such config; a rule without one is left out, and so is a type whose class does not build behind the
stand-ins (`tests/golden/vllm_stand_ins.py`). Of llama.cpp the converter runs, and the header that
it would write is read by `posenc.from_gguf`, whose rows are those of llama.cpp's graphs. Types that
no class was run for are in `READ`, from the engine's source, and say so.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tools.models.small_models import SUBSTITUTES, merged, small

import posenc
from posenc._core.errors import PosencError
from posenc.detect.facts import facts

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "posenc" / "presets" / "configs" / "engines.json"
LENGTH, TRAINED, THETA, SHARE = 2048, 512, 101.0, 0.5
NEAR, FAR = 256, 8192  # texts below and beyond every length
WHOLE = "rope_theta as a whole number"
EVERY = frozenset(range(10**4))  # layers
CLOSE = 2e-5  # of float32 angles at position 1, relative
KEYS = ("rope_parameters", "rope_scaling", "rope_theta")


class Rule(NamedTuple):
    """A rule of scaling: what its dictionary states, and one other value for each key."""

    stated: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]]


def rules(pairs: int) -> dict[str, Rule]:
    """The rules that are tried; each of `others` is one changed config."""
    base = {"rope_theta": {"rope_theta": THETA}, WHOLE: {"rope_theta": THETA + 0.5}}
    share = {"partial_rotary_factor": {"partial_rotary_factor": SHARE}}
    original = {"original_max_position_embeddings": {"original_max_position_embeddings": 1024}}
    trained = {"original_max_position_embeddings": TRAINED}
    factor = {"factor": {"factor": 8.0}}
    llama3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **trained}
    both = {"mscale": 0.7, "mscale_all_dim": 1.3}
    lists = {
        "short_factor": [1.0 + 0.01 * j for j in range(pairs)],
        "long_factor": [1.5 + 0.1 * j for j in range(pairs)],
    }
    return {
        "default": Rule({}, {**base, **share}),
        "linear": Rule({"factor": 4.0}, {**factor, **base, **share}),
        "dynamic": Rule({"factor": 4.0}, {**factor, **base, **share}),
        "llama3": Rule(llama3, {
            **factor, **base, **share, **original, "low_freq_factor": {"low_freq_factor": 1.5},
            "high_freq_factor": {"high_freq_factor": 6.0},
        }),
        "yarn": Rule({"factor": 4.0, **trained}, {
            **factor, **base, **share, **original,
            "attention_factor": {"attention_factor": 1.75}, "beta_fast": {"beta_fast": 8.0},
            "beta_slow": {"beta_slow": 3.0}, "truncate": {"truncate": False},
            "mscale": both, "mscale_all_dim": {**both, "mscale_all_dim": 0.9},
        }),
        "longrope": Rule({**lists, "factor": 4.0, **trained}, {
            **base, **share,
            "short_factor": {"short_factor": [2 * x for x in lists["short_factor"]]},
            "long_factor": {"long_factor": [2 * x for x in lists["long_factor"]]},
            "attention_factor": {"attention_factor": 1.75},
        }),
    }  # fmt: skip


class Rotation(NamedTuple):
    """The numbers of one rotation: frequencies in short and in long texts, and what else it is."""

    near: np.ndarray
    far: np.ndarray
    factor: float
    order: str
    layers: frozenset[int]
    sections: tuple[int, ...] = ()  # of an engine's module: pairs of each axis

    def like(self, other: Rotation) -> bool:
        """Whether two are the same."""
        ladders = ((self.near, other.near), (self.far, other.far))
        return (
            all(a.shape == b.shape and np.allclose(a, b, rtol=CLOSE, atol=1e-9) for a, b in ladders)
            and abs(self.factor - other.factor) < CLOSE
            and self.order == other.order
        )


# --- our reader -----------------------------------------------------------------------------------


def ours(config: Mapping[str, Any]) -> list[Rotation]:
    """What `posenc.from_hf` makes of a config; without an answer for some layer, nothing."""
    plan = facts(config).plan
    return [] if plan.errors else readings(plan)


def readings(plan: Any) -> list[Rotation]:
    """The rotations of a plan."""
    found = []
    for entry in plan:
        if entry.kind != "rotary" or entry.label.startswith("vision"):
            continue
        near, far = (entry.spec.at(length) for length in (NEAR, FAR))  # type: ignore[union-attr]
        found.append(
            Rotation(
                np.asarray(posenc.frequencies(near)), np.asarray(posenc.frequencies(far)),
                float(far.attention_factor), entry.permuted or far.channels.order,
                EVERY if entry.indices is None else frozenset(entry.indices),
            )
        )  # fmt: skip
    return found


def alike(made: list[Rotation], read: list[Rotation]) -> bool:
    """Whether every layer that turns by our reading turns alike in the engine, and none else.

    An attention inside of layers, such as an indexer, is one of several there.
    """
    mine = frozenset().union(*(one.layers for one in read))
    inside = [other for other in made if other.layers & mine]
    return bool(made and read) and all(
        any(a.layers & b.layers and a.like(b) for b in others)
        for group, others in ((read, inside), (inside, read)) for a in group
    )  # fmt: skip


# --- engines --------------------------------------------------------------------------------------


def language_types() -> dict[str, str]:
    """Model type -> the architecture of its language model."""
    from transformers.models.auto import modeling_auto as auto

    found = dict(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    # Parts of models that see: the engines make them by the class of another type.
    parts = {
        "qwen2_vl_text": "Qwen2ForCausalLM", "qwen2_5_vl_text": "Qwen2ForCausalLM",
    }  # fmt: skip
    return {k: v if isinstance(v, str) else v[0] for k, v in {**found, **parts}.items()}


def small_config(kind: str, architecture: str) -> dict[str, Any]:
    """A small config of a type, as its file would state it, with a base and lengths of ours."""
    import transformers

    cls = transformers.CONFIG_MAPPING[kind]
    more = {**SUBSTITUTES.get(kind, {}), **STATED.get(kind, {})}
    config = cls(**more)
    config = cls(**merged(small(config), more))
    data = {k: v for k, v in config.to_dict().items() if v is not None and not k.startswith("_")}
    data |= {"model_type": kind, "architectures": [architecture]}
    data = {k: v for k, v in data.items() if k not in ("transformers_version", "torch_dtype")}
    for key in ("max_position_embeddings", "n_positions", "original_max_position_embeddings"):
        if key in data:
            data[key] = TRAINED if key.startswith("original") else LENGTH
    return json.loads(json.dumps(data))  # type: ignore[no-any-return]


AXES = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [16, 24, 24]}
# Keys that files state and that a class has no default for.
STATED: dict[str, dict[str, Any]] = {
    "glm4_moe": {"head_dim": 128}, "glm4_moe_lite": {"first_k_dense_replace": 1},
    "minimax_m2": {"rotary_dim": 64, "head_dim": 128, "scoring_func": "softmax"},
    "hunyuan_v1_dense": {"head_dim": 32},
    "deepseek_v2": {"moe_layer_freq": 1, "first_k_dense_replace": 99},
    "qwen2_vl_text": {"rope_parameters": AXES}, "qwen2_5_vl_text": {"rope_parameters": AXES},
    "gemma2": {"hidden_act": "gelu_pytorch_tanh"},
    "glm_moe_dsa": {"indexer_rope_interleave": True},
    "mellum": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    },
    "hy_v3": {"first_k_dense_replace": 1, "expert_hidden_dim": 64, "route_norm": False},
    "mimo_v2_flash": {"hybrid_layer_pattern": [0, 1] * 24, "moe_layer_freq": [0] * 48},
    "lfm2": {"block_dim": 64}, "qwen3_next": {"shared_expert_intermediate_size": 0},
    "qwen3_5_moe_text": {"shared_expert_intermediate_size": 0},
}  # fmt: skip


def sorts(model: Any) -> bool:
    """Whether a model sorts weights, which its file has as neighbours, into halves on loading."""
    return any("permute_qk_weight_for_rotary" in vars(cls) for cls in type(model).__mro__)


class Behind:
    """An engine of Python classes, behind stand-ins."""

    def __init__(self, folder: str) -> None:
        from tests.golden import make_models, vllm_stand_ins

        self.folder, self.stand_ins, self.models = folder, vllm_stand_ins, make_models

    def rotations(self, data: dict[str, Any]) -> list[Rotation]:
        """The rotations of the model of a config."""
        model = self.model(data)
        found: dict[int, Any] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            buffers = {*getattr(module, "_buffers", ())}
            if "inv_freq" in buffers:
                raise TypeError(f"{path} may turn in place of the modules of get_rope")
            if {"cos_sin_cache", self.models.LONG} & buffers:
                where = re.search(r"(?:layers|h|blocks)\.(\d+)\.", path)
                own = found.setdefault(id(module), (module, set()))
                own[1].update({int(where[1])} if where else range(10**4))
        read = [self.rotation(module, layers) for module, layers in found.values()]
        own = {"order": "interleaved"} if sorts(model) else {}
        return [one._replace(**own) for one in read]

    def rotation(self, module: Any, layers: set[int]) -> Rotation:
        """The numbers of a rotary module."""
        row = self.models.rotary_row("", module, [0, 1])
        near = row["frequencies"]
        order = self.models.pairing(module)["pairing"]
        far, axes = row.get("beyond", near), tuple(getattr(module, "mrope_section", None) or ())
        return Rotation(near, far, row["factor"], order, frozenset(layers), axes)

    def model(self, data: dict[str, Any]) -> Any:
        """The model of a config."""
        raise NotImplementedError

    def symbol(self, model: Any) -> str:
        """Its file and class."""
        cls = type(model)
        file = Path(sys.modules[cls.__module__].__file__ or "").resolve()
        loads = ", which sorts weights into halves as it loads them" * sorts(model)
        return f"{file.relative_to(Path(self.folder).resolve())}, {cls.__name__}{loads}"


class VLLM(Behind):
    """vLLM's classes."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        import torch

        torch.cuda.Event = self.stand_ins.StandIn  # type: ignore[misc, assignment]
        self.stand_ins.prepare(folder)
        self.real = importlib.import_module("vllm.transformers_utils.config")
        self.stand_ins.parts(lambda config: self.models.patched(config, self.real), folder)
        self.layers = importlib.import_module("vllm.model_executor.layers.rotary_embedding")
        text = Path(folder, "vllm/_version.py").read_text("utf-8")
        self.release = re.search(r"__version__ = version = '([^']+)'", text)[1]  # type: ignore[index]

    def model(self, data: dict[str, Any]) -> Any:
        """The class of the registry, from the config of transformers that vLLM repairs."""
        self.layers._ROPE_DICT.clear()
        cls = self.stand_ins.model_class(self.folder, data["architectures"][0])
        if cls.__name__.startswith("Transformers"):
            return cls
        config = self.models.patched(self.models.config_of(data, self.real), self.real)
        if not hasattr(config, "tie_word_embeddings"):
            config.tie_word_embeddings = False
        settings = self.stand_ins.engine(config)
        settings.model_config.use_mla = hasattr(config, "index_topk")  # an indexer asks for it
        try:
            return cls(vllm_config=settings, prefix="model")
        except (AttributeError, AssertionError):  # it asks a setting of the cache
            settings.cache_config = self.stand_ins._Settings(
                kv_sharing_fast_prefill=False, cache_dtype="fp8"
            )
            return cls(vllm_config=settings, prefix="model")


class Device(str):
    """The name of a device, which has a device."""

    __slots__ = ()
    device = "cpu:0"  # whose rotary classes are those of any GPU


class SGLang(Behind):
    """SGLang's classes."""

    REAL = ("sglang.srt.layers.rotary_embedding", "sglang.srt.models")
    PACKAGES = (
        "sglang",
        "sglang.srt",
        "sglang.srt.layers",
        "sglang.srt.utils",
        "sglang.srt.models",
    )

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        import torch

        torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
        known = self.stand_ins.KNOWN
        known |= {
            "BaseFusedOp": self.stand_ins.CustomOp, "MultiPlatformOp": self.stand_ins.CustomOp,
            "make_layers": make_layers, "make_pp_layers": functools.partial(make_layers, pp_rank=0),
            "get_rope_config": self.models.symbols_of(
                Path(folder, "sglang/srt/utils/hf_transformers/common.py").read_text("utf-8"),
                ("get_rope_config",),
            )["get_rope_config"],
            "declare_ffn": lambda *_, **given: self.stand_ins._Settings(**given),
            "get_moe_impl_class": lambda *_, **__: self.stand_ins.StandIn,
            "append_stages": lambda *_, **__: (self.stand_ins.STAND_IN,) * 2,
            "add_prefix": lambda name, prefix: f"{prefix}.{name}",
            "is_hip": lambda: False, "is_cuda": lambda: False, "is_npu": lambda: False,
            "get_bool_env_var": lambda *_, **__: False, "is_cpu": lambda: True,
            "cpu_has_amx_support": lambda: False, "is_xpu": lambda: False,
            "is_musa": lambda: False, "get_device": lambda *_: Device("cpu:0"),
            "get_parallel": lambda: self.stand_ins._Settings(
                pp_group=self.stand_ins.GROUP, tp_size=1, tp_rank=0, attn_tp_size=1,
                attn_tp_rank=0, pp_size=1, pp_rank=0, dp_size=1, ep_size=1, moe_ep_size=1,
                moe_tp_size=1, attn_cp_size=1, moe_dp_size=1,
            ),
        }  # fmt: skip
        known |= {
            f"get_{kind}{what}_{word}": self.stand_ins._constant(number)
            for kind in ("", "attn_", "attention_", "moe_", "moe_expert_parallel_")
            for what in ("tp", "tensor_model_parallel", "pp", "ep", "dp", "tensor_parallel")
            for word, number in (("size", 1), ("rank", 0), ("world_size", 1))
        }
        self.layers = self.stand_ins.prepare(folder, self.REAL, self.PACKAGES)
        self.factory = importlib.import_module("sglang.srt.layers.rotary_embedding.factory")
        self.release = "0.5.23"
        self.files: dict[str, str] = {}
        for file in Path(folder, "sglang/srt/models").rglob("*.py"):
            text = file.read_text("utf-8")
            entry = re.search(r"^EntryClass\s*=\s*(.*?)(?=^\S|\Z)", text, re.S | re.M)
            rest = text[entry.start() :] if entry else ""
            for name in re.findall(r"\w+", rest):
                if re.search(rf"^class {name}\b", text, re.M):
                    module = file.relative_to(folder).with_suffix("")
                    self.files[name] = ".".join(module.parts)

    def model(self, data: dict[str, Any]) -> Any:
        """The class that a file enters, from the config of transformers."""
        import transformers

        self.factory._ROPE_DICT.clear()
        name = data["architectures"][0]
        cls = getattr(importlib.import_module(self.files[name]), name)
        config = transformers.CONFIG_MAPPING[data["model_type"]].from_dict(data)
        if not hasattr(config, "tie_word_embeddings"):
            config.tie_word_embeddings = False
        return cls(config=config)


class LlamaCpp:
    """The converter of llama.cpp, and what `posenc.from_gguf` says of the header that it writes."""

    release = "0c1e57098"  # inside the source package of llama-cpp-python 0.3.36

    def __init__(self, folder: str) -> None:
        from tests.golden import make_gguf

        self.folder, self.made = Path(folder), make_gguf
        self.scratch = Path(tempfile.mkdtemp())

    def header(self, data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[float]]]:
        """The keys and small tensors."""
        return self.made.header(self.folder, data)

    def model(self, data: dict[str, Any]) -> Any:
        """The architecture that the converter names."""
        return self.header(data)[0]["general.architecture"]

    def symbol(self, model: Any) -> str:
        """The architecture in the file."""
        return f"conversion, architecture {model}"

    def rotations(self, data: dict[str, Any]) -> list[Rotation]:
        """The rotations of the header; weights stand in the order of before the conversion."""
        from tests.detect.explain.test_gguf import written

        keys, tensors = self.header(data)
        architecture = keys["general.architecture"]
        own = {
            key.removeprefix(f"{architecture}.").replace(".", "__"): value
            for key, value in keys.items()
            if key.startswith(f"{architecture}.") and value != []
        }
        arrays = {name: np.array(values, np.float32) for name, values in tensors.items()}
        path = written(self.scratch / f"{os.getpid()}.gguf", architecture, arrays, words=5, **own)
        return readings(posenc.from_gguf(path))


def make_layers(
    num_hidden_layers: int, layer_fn: Any, pp_rank: int | None = None, *_: Any, prefix: str = "",
    return_tuple: bool = False, **__: Any,
) -> Any:  # fmt: skip
    """As SGLang's, in one process."""
    import torch

    layers = torch.nn.ModuleList(
        layer_fn(idx=i, prefix=f"{prefix}.{i}") for i in range(num_hidden_layers)
    )
    return layers if pp_rank is None and not return_tuple else (layers, 0, num_hidden_layers)


# --- probing --------------------------------------------------------------------------------------


def put(data: Mapping[str, Any], kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A config with rotary parameters, of all layers or of those of one kind."""
    config = {k: copy.deepcopy(v) for k, v in data.items() if k not in KEYS}
    if kind:
        stated = copy.deepcopy(dict(data["rope_parameters"]))
        stated[kind] = {**parameters}
        return {**config, "rope_parameters": stated}
    return {**config, "rope_parameters": {**parameters}}


def kinds_of(data: Mapping[str, Any]) -> list[str]:
    """Kinds of layers with rotary parameters of their own; one empty name for none."""
    stated = data.get("rope_parameters") or {}
    return [k for k, v in stated.items() if isinstance(v, dict)] or [""]


def probed(engine: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Of each rule what `one_rule` finds, where it is the same for all kinds of layers."""
    pairs = max((len(one.near) for one in ours(data)), default=32)
    own = dict(data.get("rope_parameters") or {})
    found: dict[str, Any] = {}
    every = rules(pairs)
    for name, rule in every.items():
        results = {}
        for kind in kinds_of(data):
            one = one_rule(engine, data, kind, name, rule, own)
            if one.get("follows", name) != name:  # the keys of that rule may be read too
                more = {**every[one["follows"]].others, **rule.others}
                one = one_rule(engine, data, kind, name, rule._replace(others=more), own)
            results[kind] = one
        first = next(iter(results.values()))
        alike = all(one == first for one in results.values())
        found[name] = first if alike else {"kinds": results}
    return found


# What an engine may need: keys that a rule of another name has.
NEEDED = {
    "factor": 4.0, "original_max_position_embeddings": TRAINED, "beta_fast": 32.0,
    "beta_slow": 1.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip


def one_rule(
    engine: Any, data: dict[str, Any], kind: str, name: str, rule: Rule, own: dict[str, Any]
) -> dict[str, Any]:
    """What an engine makes of a rule for a kind of layers.

    `follows` is the rule that our reader is told, `reads` the keys, `needs` those without which the
    engine stops, `passes` those that change nothing, `unlike` those with which no rule of ours
    gives its numbers; or `stops`, an error. Nothing where no rule of ours gives its numbers.
    """
    inner = own.get(kind, {}) if kind else own
    base = {k: v for k, v in inner.items() if k.startswith(("mrope", "partial"))}
    base = {**base, "rope_theta": 10_000.0, "rope_type": name, **rule.stated}
    needs: list[str] = []
    while True:
        plain = tried(engine, put(data, kind, base))
        missing = str(plain).strip("'\"") if isinstance(plain, KeyError) else ""
        if missing not in NEEDED or missing in base:
            break
        base[missing] = NEEDED[missing]
        needs.append(missing)
    if isinstance(plain, Exception):
        if not isinstance(plain, (KeyError, ValueError)):  # what stands in may be at fault
            return {}
        text = " ".join(str(plain).split()).strip('"').partition(": {")[0]  # no set of words
        return {"stops": text[:90]} if re.search("rope|neox|RoPE", text) else {}
    if not plain:
        return {}
    cases = {key: {**base, **more} for key, more in rule.others.items()}
    cases |= {key: {**base, key: 2 * base[key]} for key in needs}
    made = {key: tried(engine, put(data, kind, case)) for key, case in cases.items()}
    if kind and isinstance(made["rope_theta"], list) and same(made["rope_theta"], plain):
        return {}  # no layer of the small model is of this kind
    read = {"partial_rotary_factor"} & {*inner}
    sections = base.get("mrope_section")
    kept = sections is not None and all(one.sections == tuple(sections) for one in plain)
    read |= {"mrope_section"} if kept else set()
    read.add("rope_theta")  # harmless where it is not: the config with another one shows it
    for key, result in made.items():
        before = made["mscale"] if key == "mscale_all_dim" else plain
        if isinstance(result, list) and isinstance(before, list) and not same(result, before):
            read.add(key)
    cases, made = {"": base, **cases}, {"": plain, **made}
    candidates = {"default": ("default", "yarn")[: 1 + bool(needs)],
                  "dynamic": ("default", "dynamic", "yarn")}  # fmt: skip
    follows = (name, "yarn", "default") if read & {*rule.stated} else ("default", name)
    for told in dict.fromkeys(candidates.get(name, follows)):
        wrong = unlike(data, kind, told, cases, made, read)
        wrong |= {"mrope_section"} if sections is not None and not kept else set()
        if not {"", "rope_theta"} & wrong:
            whole = ["rope_theta"] * (WHOLE in wrong and "rope_theta" not in wrong)
            wrong.discard(WHOLE)
            tried_keys = ({*cases, *rule.stated, *needs} - {"", WHOLE}) - read - wrong
            row = {"follows": told, "reads": sorted(read - wrong - {WHOLE}), "needs": needs,
                   "passes": sorted(tried_keys), "unlike": sorted(wrong),
                   "integers": whole}  # fmt: skip
            return {k: v for k, v in row.items() if v or k == "reads"}
    return {}


def tried(engine: Any, config: dict[str, Any]) -> Any:
    """The rotations, or what was raised."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return engine.rotations(config)
    except Exception as error:  # noqa: BLE001 - whatever code of somebody else raises
        return error


def same(a: list[Rotation], b: list[Rotation]) -> bool:
    """Whether two models turn alike."""
    return len(a) == len(b) and all(x.like(y) for x, y in zip(a, b, strict=True))


def unlike(
    data: dict[str, Any], kind: str, told: str, cases: Mapping[str, Any],
    made: Mapping[str, Any], read: set[str],
) -> set[str]:  # fmt: skip
    """The keys with which our reading of what is read gives other numbers; empty for the rest."""
    wrong = set()
    for key, parameters in cases.items():
        if isinstance(made[key], Exception):
            wrong.add(key)
            continue
        kept = {k: v for k, v in parameters.items() if k in read or k == "rope_theta"}
        try:
            mine = ours(put(data, kind, {**kept, "rope_type": told}))
        except (PosencError, AssertionError):
            mine = []
        if not alike(made[key], mine):
            wrong.add(key)
    return wrong


# Types whose class takes the rotary class of DeepSeek for every rule.
LATENT = (
    "axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2",
)  # fmt: skip
# Keys that are read where a config has them, and what is taken where it lacks them (models/
# deepseek_v2.py of both: the indexer is neox-style unless the key says otherwise).
ABSENT = {
    ("vLLM", "glm_moe_dsa"): {"indexer_rope_interleave": False},
    ("SGLang", "glm_moe_dsa"): {"indexer_rope_interleave": False},
}
# What was read, not run: keys that other releases read otherwise, models whose scores a scaling
# changes, and what becomes of a rule in the draft model of speculative decoding.
NOTES: dict[str, dict[str, Any]] = {
    "vLLM": {
        "since": {
            "keys": ["attention_factor", "mscale", "mscale_all_dim"],
            "except_types": list(LATENT),
            "text": "vLLM 0.33.0 reads it, and 0.25.0 passed it over without a word "
            "(vllm-project/vllm#48351, #48621)",
        },
        "draft": "puts --hf-overrides over the model alone (vllm-project/vllm#58080) and has no "
        "option for the draft, so write the rule into the draft's config.json: posenc extend DRAFT "
        "LENGTH --rule RULE -o longer.json",
    },
    "SGLang": {
        "since": {
            "keys": ["mscale", "mscale_all_dim"],
            "except_types": list(LATENT),
            "text": "SGLang 0.5.23 reads it; a release of April 2026 did not "
            "(sgl-project/sglang#22711)",
        },
        "draft": "puts the override over the draft's config too, its base and length among it, and "
        "has no option for the draft alone",
    },
    "llama.cpp": {
        "scores": {
            "config_key": "qk_rope_head_dim",
            "model_types": ["deepseek2", "deepseek32", "glm-dsa"],
            "source": "src/models/deepseek2.cpp, deepseek32.cpp, glm-dsa.cpp: kq_scale takes the "
            "factor's logarithm too",
        },
        "draft": "gives the options to the draft too, and has none for the draft alone",
    },
}
SOURCES = {
    "vLLM": "vllm-project/vllm {}, each class made and its rotary modules asked on the CPU",
    "SGLang": "sgl-project/sglang {}, each class made and its rotary modules asked on the CPU",
    "llama.cpp": "ggml-org/llama.cpp {}, the converter run, its header read by posenc.from_gguf",
}
TRANSFORMERS = "huggingface/transformers {}, by running each class: configs/classes.json, reads"


COLUMNS = ("windows", "scales")  # of `engine_scores.py`


def packed(name: str, release: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an engine: each rule once, and types of which the same is made together."""
    rules: list[dict[str, Any]] = []
    groups: dict[str, dict[str, Any]] = {}
    for kind, row in found.items():
        numbers = {}
        for rule, one in row.get("rules", {}).items():
            if one and any(one.get("kinds", {"": one}).values()):
                if one not in rules:
                    rules.append(one)
                numbers[rule] = rules.index(one)
        body = {"rules": numbers} if "rules" in row else {"as_transformers": True}
        body |= {"absent": ABSENT[name, kind]} if (name, kind) in ABSENT else {}
        if numbers or "rules" not in row:
            group = groups.setdefault(json.dumps(body), {"sources": {}, **body})
            group["sources"][kind] = row["class"]
    return {
        "release": release, "source": SOURCES[name].format(release), **NOTES[name],
        "rules": rules, "families": [*groups.values()],
    }  # fmt: skip


def write(name: str, part: dict[str, Any]) -> None:
    """Put the part of an engine in its place, a row a line."""
    whole = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    version = json.loads(DATA.with_name("classes.json").read_text(encoding="utf-8"))["version"]
    whole["transformers"] = {
        "release": version, "source": TRANSFORMERS.format(version), "rules": [],
        "families": [{"sources": {}, "as_transformers": True}],
    }  # fmt: skip
    whole[name] = part | {k: v for k, v in whole.get(name, {}).items() if k in COLUMNS}
    blocks = []
    for engine in ("transformers", *SOURCES):
        keys = []
        for key, value in whole.get(engine, {}).items():
            rows = isinstance(value, list) and value
            text = ",\n      ".join(json.dumps(row) for row in value) if rows else ""
            keys.append(
                f'    "{key}": ' + (f"[\n      {text}\n    ]" if rows else json.dumps(value))
            )
        blocks.append(f'  "{engine}": {{\n' + ",\n".join(keys) + "\n  }")
    DATA.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def row_of(named: tuple[str, str]) -> tuple[str, Any]:
    """A type, and its row or why there is none."""
    (kind, architecture), engine = named, PREPARED[0]
    try:
        data = small_config(kind, architecture)
        if any(isinstance(v, dict) and "model_type" in v for v in data.values()):
            return kind, "a wrapper, whose parts have rows of their own"
        model = engine.model(copy.deepcopy(data))
        if isinstance(model, type):
            return kind, {"class": model.__name__}
        return kind, {"class": engine.symbol(model), "rules": probed(engine, data)}
    except Exception as error:  # noqa: BLE001 - of a type whose class does not build
        return kind, f"{type(error).__name__}: {str(error)[:100]}"


PREPARED: list[Any] = []  # the engine, which forked processes have from the first
# Types without a class in transformers, and the type whose architecture their files name.
NAMED = {"kimi_k2": "deepseek_v3"}


def main() -> int:
    """Write the part of an engine."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    name, folder, *only = sys.argv[1:]
    engine = {"vLLM": VLLM, "SGLang": SGLang, "llama.cpp": LlamaCpp}[name](folder)
    PREPARED.append(engine)
    engine.model(small_config("llama", "LlamaForCausalLM"))  # what it imports, once for all
    types = {k: v for k, v in sorted(language_types().items()) if not only or k in only}
    rows: dict[str, Any] = {}
    # Each type in a process of its own: what stands in remembers the classes of others.
    pool = multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1)
    for kind, row in pool.imap(row_of, types.items()):
        print(kind, json.dumps(row) if isinstance(row, dict) else row, flush=True)
        if isinstance(row, dict):
            rows[kind] = row
    rows |= {
        kind: {**rows[other], "class": f"{rows[other]['class']}, which its files name"}
        for kind, other in NAMED.items() if other in rows
    }  # fmt: skip
    if not only:
        write(name, packed(name, engine.release, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What each engine has to be told, so that a model's rotations follow a rule."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc._core.errors import PosencError
from posenc.detect.explain import from_hf, to_hf
from posenc.detect.extend.rules import RULES, enlarged
from posenc.scaling.base import Scaling
from posenc.scaling.dynamic_ntk import DynamicNTK
from posenc.scaling.linear import Linear
from posenc.scaling.llama3 import Llama3
from posenc.scaling.yarn import YaRN

__all__ = ["Wanted", "lines_of", "patched", "wanted_of"]

LENGTH_KEYS = ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length")
# Read in vLLM 0.33.0, `rotary_embedding/__init__.py`.
FIXED = "vLLM reads `dynamic` as one fixed base, so there is no such line for it, nor for SGLang."
SECTIONS = (
    "vLLM keeps M-RoPE's sections under no scaling and under YaRN alone, so there is no such line "
    "for it, nor for SGLang."
)
NESTED = (
    "SGLang replaces a part of a config, such as text_config, by what an override says of it: "
    "write the config.json instead."
)
TENSOR = (
    "llama.cpp reads Llama 3's factors from a tensor of the GGUF file, which its converter writes."
)
CAP = (
    "llama-server holds a slot to the trained length, but for YaRN in builds from 2026-08-30 on "
    "(ggml-org/llama.cpp#28030): --override-kv lifts it; ARCH is general.architecture of the file."
)


class Wanted(NamedTuple):
    """What a rule asks for: the rotation of each kind of layer, and the lengths."""

    specs: Mapping[str, Any]  # by the name of the layer, and of the attention inside it
    changed: frozenset[str]
    base: float | None  # the new base, where that is the rule
    scaling: Scaling | None
    length: int

    @property
    def growing(self) -> bool:
        """Whether every length has frequencies of its own."""
        return isinstance(self.scaling, DynamicNTK)


def wanted_of(spec: Any, name: str, factor: float, trained: int, length: int) -> Wanted | None:
    """What a rule asks of one rotation without a config; None where no engine has the rule."""
    if name in ("none", "yarn_paper"):
        return None
    if name == "ntk":
        base = enlarged(spec, factor)
        return Wanted({"": spec}, frozenset({""}), base, None, length)
    rule = RULES[name].make(factor, trained)
    return Wanted({"": spec}, frozenset({""}), None, rule, length)


class Written(NamedTuple):
    """A config in which a rule stands."""

    config: dict[str, Any]
    change: dict[str, Any]  # what it adds to the one it came from
    gone: tuple[str, ...]  # keys of that one which it has no more


def patched(config: Mapping[str, Any], dialect: str, wanted: Wanted) -> Written | None:
    """A config with the rule in it, in a dialect of transformers.

    None where the dialect cannot say it: what was written is read, and each rotation compared.
    """
    translated = to_hf(config, dialect).config  # type: ignore[arg-type]
    for path in _places(translated):
        made = copy.deepcopy(translated)
        inner = made if not path else made[path]
        change = _change(inner, dialect, wanted)
        inner.update(change)
        if _reads_as(made, wanted):
            before = config if not path else config[path]
            gone = tuple(key for key in before if key not in inner)
            return Written(made, change if not path else {path: change}, gone)
    return None


def _places(config: Mapping[str, Any]) -> list[str]:
    """Where the rotations of the text may stand: the config itself or a part, as they do now."""
    parts = [
        key for key, value in config.items() if isinstance(value, dict) and "model_type" in value
    ]
    stand = ("rope_parameters", "rope_scaling", "rope_theta")
    return sorted(
        ["", *parts], key=lambda path: not {*stand} & {*(config[path] if path else config)}
    )


def _change(config: Mapping[str, Any], dialect: str, wanted: Wanted) -> dict[str, Any]:
    key = next((name for name in LENGTH_KEYS if name in config), LENGTH_KEYS[0])
    # Dynamic scaling starts from the declared length, so that stays.
    lengths = {} if wanted.growing else {key: wanted.length}
    if dialect == "hf4":
        said: dict[str, Any] = dict(config.get("rope_scaling") or {})
        written = _parameters(said, wanted)
        base = written.pop("rope_theta", None)
        scaled = None if written.get("rope_type") == "default" else written
        told = {} if base is None else {"rope_theta": base}
        return {**told, "rope_scaling": scaled, **lengths}
    said = dict(config.get("rope_parameters") or {})
    kinds = [name for name, value in said.items() if isinstance(value, dict)]
    if kinds:
        ends = {name.rsplit(".", 1)[-1] for name in wanted.changed}
        for name in kinds:
            if name in ends:
                said[name] = _parameters(said[name], wanted)
        return {"rope_parameters": said, **lengths}
    if "rope_theta" not in said and wanted.specs:
        said["rope_theta"] = next(iter(wanted.specs.values())).base
    return {"rope_parameters": _parameters(said, wanted), **lengths}


def _parameters(said: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The rotary parameters of a config under the rule."""
    kept = {key: value for key, value in said.items() if key not in ("type", "rope_type")}
    if wanted.base is not None:
        return {**kept, "rope_theta": wanted.base, "rope_type": "default"}
    rule = wanted.scaling
    if rule is None:
        return {**kept, "rope_type": said.get("rope_type", said.get("type", "default"))}
    own: dict[str, Any] = {"factor": rule.factor}  # type: ignore[attr-defined]
    if isinstance(rule, Linear):
        name = "linear"
    elif isinstance(rule, YaRN):
        name, own["original_max_position_embeddings"] = "yarn", rule.original_length
    elif isinstance(rule, Llama3):
        name, own["original_max_position_embeddings"] = "llama3", rule.original_length
        own |= {"low_freq_factor": rule.low_freq_factor, "high_freq_factor": rule.high_freq_factor}
    else:
        name = "dynamic"
    return {**kept, "rope_type": name, **own}


def _reads_as(config: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether our reader finds the wanted rotation in every layer of the config."""
    try:
        plan = from_hf(config, on_error="report")
    except PosencError:
        return False
    read: dict[str, Any] = {layer.label: layer.spec for layer in plan if layer.kind == "rotary"}
    return all(
        name in read and read[name].at(wanted.length) == spec.at(wanted.length)
        for name, spec in wanted.specs.items()
    )


def lines_of(
    config: Mapping[str, Any] | None, wanted: Wanted, architecture: str = "ARCH"
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Lines to write or to type, by the engine, and sentences on why one is missing.

    Without a config nothing is read back, and the rotary parameters stand alone.
    """
    lines: dict[str, str] = {}
    notes: list[str] = []
    if config is None:
        spec = next(iter(wanted.specs.values()))
        told = _parameters({"rope_theta": spec.base}, wanted)
        lines["transformers 5, rope_parameters"] = json.dumps(told)
    else:
        newest = patched(config, "hf5", wanted)
        for name, written in (
            ("transformers 5", newest),
            ("transformers 4", patched(config, "hf4", wanted)),
        ):
            if written is None:
                notes.append(f"A config of {name} cannot say it: read back, it is another plan.")
                continue
            place = f", in place of {', '.join(written.gone)}" if written.gone else ""
            lines[f"{name}, in config.json{place}"] = json.dumps(written.change)
        if newest is not None:
            more, missing = _servers(newest.change, wanted)
            lines |= more
            notes += missing
    options, why = _llama_cpp(wanted)
    if options:
        cap = f"--override-kv {architecture}.context_length=int:{wanted.length}"
        lines["llama.cpp"] = f"{options} --ctx-size {wanted.length} {cap}"
    return lines, (*notes, *why)


def _servers(change: dict[str, Any], wanted: Wanted) -> tuple[dict[str, str], list[str]]:
    """The options of vLLM and SGLang, which put a change into the config that they loaded."""
    if wanted.growing:
        return {}, [FIXED]
    if _several_axes(wanted):
        return {}, [SECTIONS]
    override = shlex.quote(json.dumps(change))
    lines = {"vLLM": f"--hf-overrides {override} --max-model-len {wanted.length}"}
    if any(isinstance(value, dict) and "rope_parameters" in value for value in change.values()):
        return lines, [NESTED]
    told = f"--json-model-override-args {override} --context-length {wanted.length}"
    return {**lines, "SGLang": told}, []


def _several_axes(wanted: Wanted) -> bool:
    """Whether a rotation has sections that vLLM would forget under the rule."""
    kept = wanted.scaling is None or isinstance(wanted.scaling, YaRN)
    return not kept and any(len(spec.arrangement.axes) > 1 for spec in wanted.specs.values())


def _llama_cpp(wanted: Wanted) -> tuple[str, tuple[str, ...]]:
    """The options of llama.cpp, if any, and what to know."""
    rule: Any = wanted.scaling
    if len(wanted.changed) < len(wanted.specs) and wanted.changed:
        return "", ("llama.cpp's options reach every layer, and some here stay as they are.",)
    if wanted.base is not None:
        return f"--rope-freq-base {wanted.base:.9g}", (CAP,)
    if isinstance(rule, Linear):
        return f"--rope-scaling linear --rope-scale {rule.factor:.9g}", (CAP,)
    if isinstance(rule, Llama3):
        return "", (TENSOR,)
    if not isinstance(rule, YaRN):
        return "", () if rule is None else ("llama.cpp has no dynamic NTK.",)
    fast, slow, length = rule.beta_fast, rule.beta_slow, rule.original_length
    if rule != YaRN(rule.factor, original_length=length, beta_fast=fast, beta_slow=slow):
        return "", ("llama.cpp's options cannot say this YaRN: its ramp or its magnitude.",)
    told = f"--rope-scaling yarn --rope-scale {rule.factor:.9g} --yarn-orig-ctx {length}"
    if (fast, slow) != (32.0, 1.0):
        told += f" --yarn-beta-fast {fast:g} --yarn-beta-slow {slow:g}"
    return told, (CAP,)

"""What each engine has to be told, so that a model's rotations follow a rule."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc import scaling
from posenc._core.errors import PosencError
from posenc.detect.explain import ATTENTION_KEYS, to_hf
from posenc.detect.extend.rules import RULES, enlarged
from posenc.detect.facts import facts
from posenc.detect.facts.engines import (
    DICTIONARY,
    as_read,
    inner,
    places,
    release_of,
    warnings_of,
)
from posenc.presets.families import class_defaults, engines

LENGTH_KEYS = ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length")
NESTED = (
    "SGLang merges an override of a part, such as text_config, in 0.5.23, and replaced the part "
    "before: write the config.json instead."
)
READ_BACK = (
    "posenc read each config line back with its own reader and its tables of what the class in "
    "transformers, {} read. A line that would give another rotation is left out."
)
DRAFT = "A draft model (speculative decoding) has its own config, which needs the same rule."
LAYERS = (
    "llama.cpp gets no line: its options cannot tell layers with a window from layers without one."
)
TENSOR = (
    "llama.cpp reads Llama 3's factors from a tensor of the GGUF file, which its converter writes."
)
CAP = (
    "llama-server limits a slot to the trained length, except for YaRN in builds from 2026-08-30 "
    "on (ggml-org/llama.cpp#28030). --override-kv lifts the limit; ARCH is general.architecture of "
    "the GGUF file."
)


class Wanted(NamedTuple):
    """What a rule asks for: the rotation of each kind of layer, and the lengths."""

    specs: Mapping[str, Any]  # by the name of the layer, and of the attention inside it
    changed: frozenset[str]
    base: float | None  # the new base, where that is the rule
    rule: scaling.Scaling | None
    length: int

    @property
    def growing(self) -> bool:
        """Whether every length has frequencies of its own."""
        return isinstance(self.rule, scaling.DynamicNTK)


def wanted_of(spec: Any, name: str, factor: float, trained: int, length: int) -> Wanted | None:
    """What a rule asks of one rotation without a config; None where no engine has the rule."""
    if name in ("none", "yarn_paper"):
        return None
    base = enlarged(spec, factor) if name == "ntk" else None
    rule = RULES[name].make(factor, trained) if base is None else None
    return Wanted({"": spec}, frozenset({""}), base, rule, length)


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
    for path in places(translated):
        rewritten = copy.deepcopy(translated)
        part = rewritten[path] if path else rewritten
        change = _change(part, dialect, wanted)
        part.update(change)
        if _reads_as(rewritten, wanted):
            return Written(
                rewritten,
                {path: change} if path else change,
                tuple(key for key in inner(config, path) if key not in part),
            )
    return None


def _change(config: Mapping[str, Any], dialect: str, wanted: Wanted) -> dict[str, Any]:
    key = next((name for name in LENGTH_KEYS if name in config), LENGTH_KEYS[0])
    # Dynamic scaling starts from the declared length, so that stays.
    lengths = {} if wanted.growing else {key: wanted.length}
    if dialect == "hf4":
        written = _parameters(config.get("rope_scaling") or {}, wanted)
        base = written.pop("rope_theta", None)
        return {
            **({} if base is None else {"rope_theta": base}),
            "rope_scaling": None if written.get("rope_type") == "default" else written,
            **lengths,
        }
    stated: dict[str, Any] = dict(config.get("rope_parameters") or {})
    if kinds := {name for name, value in stated.items() if isinstance(value, dict)}:
        for name in kinds & {name.rsplit(".", 1)[-1] for name in wanted.changed}:
            stated[name] = _parameters(stated[name], wanted)
        return {"rope_parameters": stated, **lengths}
    if wanted.specs:
        stated.setdefault("rope_theta", next(iter(wanted.specs.values())).base)
    defaults = class_defaults(config.get("model_type"))
    if defaults is not None and defaults.share != 1 and "partial_rotary_factor" not in config:
        # An engine that puts this over what it loaded does not ask the class again.
        stated.setdefault("partial_rotary_factor", defaults.share)
    return {"rope_parameters": _parameters(stated, wanted), **lengths}


def _parameters(stated: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The rotary parameters of a config under the rule."""
    kept = {key: value for key, value in stated.items() if key not in ("type", "rope_type")}
    if wanted.base is not None:
        return {**kept, "rope_theta": wanted.base, "rope_type": "default"}
    if (rule := wanted.rule) is None:
        return {**kept, "rope_type": stated.get("rope_type", stated.get("type", "default"))}
    own: dict[str, Any] = {"factor": rule.factor}  # type: ignore[attr-defined]
    name = "linear" if isinstance(rule, scaling.Linear) else "dynamic"
    if isinstance(rule, scaling.YaRN):
        name, own["original_max_position_embeddings"] = "yarn", rule.original_length
        stated = wanted.specs[min(wanted.changed)].magnitude.attention_factor
        kept = {key: value for key, value in kept.items() if key not in ATTENTION_KEYS}
        own |= {} if stated is None else {ATTENTION_KEYS[0]: stated}
    elif isinstance(rule, scaling.Llama3):
        name, own["original_max_position_embeddings"] = "llama3", rule.original_length
        own |= {"low_freq_factor": rule.low_freq_factor, "high_freq_factor": rule.high_freq_factor}
    return {**kept, "rope_type": name, **own}


def _reads_as(config: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether our reader finds the wanted rotation in every layer of the config."""
    try:
        plan = facts(config).plan
    except PosencError:
        return False
    read: dict[str, Any] = {layer.label: layer.spec for layer in plan if layer.kind == "rotary"}
    return all(
        name in read and _stated(read[name], wanted.length) == _stated(spec, wanted.length)
        for name, spec in wanted.specs.items()
    )


def _stated(spec: Any, length: int) -> Any:
    """A rotation at a length, with its attention factor as a number, stated or not."""
    fixed = spec.at(length)
    return fixed.replace(magnitude=fixed.magnitude.replace(attention_factor=fixed.attention_factor))


def lines_of(
    config: Mapping[str, Any] | None, wanted: Wanted, architecture: str = "ARCH"
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Lines to write or to type, by the engine, and sentences on why one is missing.

    Without a config nothing is read back, and the rotary parameters stand alone.
    """
    lines: dict[str, str] = {}
    notes: list[str] = []
    if config is None:
        stated = {"rope_theta": next(iter(wanted.specs.values())).base}
        lines["transformers 5, rope_parameters"] = json.dumps(_parameters(stated, wanted))
    else:
        newest = patched(config, "hf5", wanted)
        differs = "" if newest is None else _differs("transformers", newest, wanted)
        for name, written in (
            ("transformers 5", newest),
            ("transformers 4", patched(config, "hf4", wanted)),
        ):
            if written is None:
                notes.append(f"A config of {name} cannot say it: read back, it is another plan.")
            elif differs:
                notes += [differs] if name.endswith("5") else []
            else:
                place = f", in place of {', '.join(written.gone)}" if written.gone else ""
                lines[f"{name}, in config.json{place}"] = json.dumps(written.change)
        if newest is not None:
            more, missing = _servers(newest, wanted)
            lines |= more
            notes += missing
            if lines:
                notes.append(READ_BACK.format(" and ".join(map(release_of, ("vLLM", "SGLang")))))
    options, why = _llama_cpp(wanted, config or {"model_type": architecture})
    if options:
        cap = f"--override-kv {architecture}.context_length=int:{wanted.length}"
        lines["llama.cpp"] = f"{options} --ctx-size {wanted.length} {cap}"
    drafts = [
        f"For a draft, {release_of(name)} {engines()[name]['draft']}."
        for name in lines
        if name in engines()
    ]
    return lines, (*notes, *why, *((DRAFT, *drafts) if lines else ()))


def _servers(written: Written, wanted: Wanted) -> tuple[dict[str, str], list[str]]:
    """The options of vLLM and SGLang, which put a change into the config that they loaded."""
    path = places(written.config)[0]
    override = shlex.quote(json.dumps(written.change))
    lines: dict[str, str] = {}
    notes = []
    for engine, option, length in (
        ("vLLM", "--hf-overrides", "--max-model-len"),
        ("SGLang", "--json-model-override-args", "--context-length"),
    ):
        if why := _differs(engine, written, wanted):
            notes.append(why)
        elif path and engine == "SGLang":
            notes.append(NESTED)
        else:
            lines[engine] = f"{option} {override} {length} {wanted.length}"
            notes += warnings_of(engine, inner(written.config, path))
    return lines, notes


def _differs(engine: str, written: Written, wanted: Wanted) -> str:
    """Why there is no line for an engine: what it makes of one is not known, or something else."""
    part = inner(written.config, places(written.config)[0])
    reading = as_read(engine, written.config)
    axes = max((len(spec.arrangement.axes) for spec in wanted.specs.values()), default=1)
    # The class in transformers knows its sections, an engine only those that are stated.
    lost = engine != "transformers" and axes > 1 and "mrope_section" not in part[DICTIONARY]
    if reading.config is not None and not lost and _reads_as(reading.config, wanted):
        return ""
    why = reading.why or "; ".join(reading.changes) or "it does not follow the rule"
    return f"{reading.release}, type {part.get('model_type')}: {why}. So there is no line for it."


def _llama_cpp(wanted: Wanted, config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The options of llama.cpp, if any, and what to know."""
    rule: Any = wanted.rule
    text = next((v for k, v in config.items() if k.endswith("text_config") and v), config)
    scores = engines()["llama.cpp"]["scores"]
    if rule is not None and (
        text.get("model_type") in scores["model_types"] or scores["config_key"] in text
    ):
        why = f"reads a scaling otherwise for models of this class ({scores['source']})"
        return "", (f"{release_of('llama.cpp')} {why}, so there is no line for it.",)
    if len(wanted.changed) < len(wanted.specs) and wanted.changed:
        return "", (LAYERS,)
    if wanted.base is not None:
        return f"--rope-freq-base {wanted.base:.9g}", (CAP,)
    if isinstance(rule, scaling.Linear):
        return f"--rope-scaling linear --rope-scale {rule.factor:.9g}", (CAP,)
    if isinstance(rule, scaling.Llama3):
        return "", (TENSOR,)
    if not isinstance(rule, scaling.YaRN):
        return "", () if rule is None else ("llama.cpp has no dynamic NTK.",)
    fast, slow, length = rule.beta_fast, rule.beta_slow, rule.original_length
    if rule != scaling.YaRN(rule.factor, original_length=length, beta_fast=fast, beta_slow=slow):
        return "", ("llama.cpp's options cannot say this YaRN: its ramp or its magnitude.",)
    options = f"--rope-scaling yarn --rope-scale {rule.factor:.9g} --yarn-orig-ctx {length}"
    betas = f" --yarn-beta-fast {fast:g} --yarn-beta-slow {slow:g}"
    return options if (fast, slow) == (32.0, 1.0) else options + betas, (CAP,)

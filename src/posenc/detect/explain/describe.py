"""A plan in words and numbers: what each layer does, how far it reaches, where that was read."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc._core.numeric.ladder import FLOAT
from posenc._core.reading import Layer, Reading
from posenc._core.spec.answers import brief
from posenc._core.spec.plan import Entry, Plan
from posenc._core.spec.spec import Value, to_json
from posenc.detect.explain.config.view import is_open
from posenc.detect.explain.layers.groups import has_window, window_words
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import wavelengths
from posenc.scaling import YaRN

ORIGINS = {
    "config": "the config",
    "preset": "the family's row",
    "class": "the class, as the config leaves it out",
    "format": "the format's default",
    "caller": "the caller",
    "code": "posenc's default",
    "file": "the modelling file beside it, read as text",
    "record": "the record of a conversion",
}

RESTS = {
    "config": "stated in the config",
    "preset": "known of the family",
    "format": "a default of the format",
    "file": "said by the modelling file beside it, read as text",
    "record": "recorded by a conversion of the weights",
    "class": "a default of the class in transformers",
}


def describe(plan: Reading) -> dict[str, Any]:
    """The plan as plain JSON types, with the numbers that follow from it."""
    return {
        "model": plan.model,
        "sure": _sure(plan),
        "layers": [_entry(entry) for entry in plan],
        "notes": [
            {"level": note.level, "layer": note.layer, "text": note.text} for note in plan.notes
        ],
        "plan": json.loads(to_json(plan)),
    }


def _sure(plan: Reading) -> str:
    """How far the plan is settled, and by what."""
    if plan.errors:
        return "not settled: see the errors"
    left = [note for note in plan.notes if is_open(note)]
    if left:
        first = f"{left[0].layer}: " if left[0].layer else ""
        more = f", and {len(left) - 1} more, see the warnings" if len(left) > 1 else ""
        return f"partly, and this is left out: {first}{left[0].text}{more}"
    sources = {(s.origin, s.field) for entry in plan for s in entry.sources}
    origins = {origin for origin, _ in sources}
    if "caller" in origins:
        return "as far as the caller is right: not everything is stated or known"
    rests = [words for origin, words in RESTS.items() if origin in origins]
    said = "settled, with warnings" if plan.warnings else "settled"
    assumed = sorted(field for origin, field in sources if origin == "class")
    more = f"; left out, so as its class has it: {', '.join(assumed)}" if assumed else ""
    return f"{said}: {' and '.join(rests) or 'nothing of it needs a source'}{more}"


def _entry(entry: Layer) -> dict[str, Any]:
    found: dict[str, Any] = {"layer": entry.layer, "kind": entry.kind}
    if entry.attention:
        found["attention"] = entry.attention
    if entry.indices is not None:
        found["indices"] = list(entry.indices)
    for name in ("length", "convolution", "logit_scale", "scale", "positions", "permuted"):
        if (value := getattr(entry, name)) not in (None, ""):
            found[name] = value.to_dict() if isinstance(value, Value) else value
    if entry.windows:
        found["windows"] = [{"size": size, "layers": layers} for size, layers in entry.windows]
    if isinstance(entry.spec, RotarySpec):
        found |= _rotary(entry.spec, entry.length)
    elif entry.spec is not None:
        found["spec"] = entry.spec.to_dict()
    found["sources"] = {s.field: f"{s.origin}: {s.where}" for s in entry.sources}
    return found


def _rotary(spec: RotarySpec, length: int | None) -> dict[str, Any]:
    channels = spec.channels
    found: dict[str, Any] = {
        "width": spec.dim,
        "pairing": channels.to_dict(),
        "axes": list(spec.axes),
    }
    scalings = spec.scalings if isinstance(spec, RoPE) else ()
    if isinstance(spec, RoPE):
        found["base"] = list(spec.base) if isinstance(spec.base, tuple) else spec.base
        found["scaling"] = [value.to_dict() for value in scalings]
    lengths = _lengths(spec, length)
    fixed = spec.at(max(lengths)) if spec.needs_length and lengths else spec
    if fixed.needs_length:
        return found
    found["attention_factor"] = fixed.attention_factor
    found["acts"] = fixed.magnitude_of_scores.at
    found["logit_factor"] = fixed.logit_factor
    temperature = fixed.magnitude_of_scores.temperature
    if temperature is not None:
        found["temperature"] = temperature.to_dict()
    if not hasattr(fixed, "matrix"):  # its frequencies are learned
        return found
    waves = wavelengths(fixed)
    turning = waves[np.isfinite(waves)]
    if turning.size:
        found["wavelengths"] = {"shortest": float(turning.min()), "longest": float(turning.max())}
    found["pairs_that_do_not_turn"] = int(waves.size - turning.size)
    turns: dict[str, Any] = {}
    for reach in lengths:
        own, said = spec.at(reach) if spec.needs_length else fixed, f"within {reach} positions"
        if isinstance(own, RoPE) and reach == lengths[0] < lengths[-1]:
            own, said = own.replace(scaling=()), f"{said}, before the extension"
        turns[said] = int((wavelengths(own) <= reach).sum())
    if turns:
        found["pairs_with_a_turn"] = {**turns, "of": spec.pairs}
    ramp = _ramp(spec) if isinstance(spec, RoPE) else None
    if ramp is not None:
        found["ramp"] = ramp
    return found


def _lengths(spec: RotarySpec, length: int | None) -> list[int]:
    """The trained and the extended lengths, as far as they are known, the trained one first."""
    found = set() if length is None else {length}
    for scaling in spec.scalings if isinstance(spec, RoPE) else ():
        original = getattr(scaling, "original_length", None)
        factor = getattr(scaling, "factor", None)
        if original is not None:
            found.add(original)
            if isinstance(factor, float):
                found.add(math.ceil(original * factor))
        elif length is not None and isinstance(factor, float) and factor > 1:
            found.add(max(1, int(length / factor)))
    return sorted(found)


def _ramp(spec: RoPE) -> dict[str, Any] | None:
    for scaling in spec.scalings:
        if isinstance(scaling, YaRN) and scaling.ramp == "index" and isinstance(spec.base, float):
            low, high = scaling.bounds(spec.base, spec.dim, FLOAT)
            pairs = range(spec.pairs)
            kept = sum(j <= low for j in pairs)
            slowed = sum(j >= high for j in pairs)
            return {
                "low": float(low),
                "high": float(high),
                "kept": kept,
                "between": spec.pairs - kept - slowed,
                "interpolated": slowed,
            }
    return None


# --- for people -----------------------------------------------------------------------------------


def lines(plan: Reading) -> list[str]:
    """The plan as lines of text."""
    found = describe(plan)
    text = [f"{found['model'] or 'a model without a name'}: {found['sure']}"]
    for entry, told in zip(plan, found["layers"], strict=True):
        inner = f"{entry.attention}, inside " if entry.attention else ""
        text += ["", f"{inner}{entry.layer}{_where(entry)}"]
        text += [f"  {line}" for line in _told(entry, told)]
    for level, title in (("error", "errors"), ("warning", "warnings"), ("remark", "remarks")):
        notes = [note for note in plan.notes if note.level == level]
        if notes:
            text += ["", title]
            text += [f"  {f'{n.layer}: ' if n.layer else ''}{n.text}" for n in notes]
    return text


def plan_lines(plan: Plan) -> list[str]:
    """What each layer of a plan does, as lines of text."""
    text = [f"{len(plan)} layer{'' if len(plan) == 1 else 's'}: {_schedule(plan)}"]
    if plan.embeddings is not None:
        text += ["", f"{plan.embeddings.name} (before the first layer)"]
        text += [f"  {line}" for line in _entry_lines(plan.embeddings)]
    for entry in plan.entries:
        indices = tuple(i for i, name in enumerate(plan.layers) if name == entry.name)
        text += ["", f"{entry.name}{_where(Layer(entry.name, indices=indices))}"]
        text += [f"  {line}" for line in _entry_lines(entry)]
    return text


def _schedule(plan: Plan) -> str:
    """The shortest period and what is over: `3 rope, 1 nope; 12 times, then 2 rope`."""
    names, count = plan.layers, len(plan.layers)
    for size in range(1, count // 2 + 1):
        if all(name == names[i % size] for i, name in enumerate(names)):
            over = _runs(names[: count % size])
            said = f"{_runs(names[:size])}; {count // size} times" if size > 1 else _runs(names)
            return f"{said}, then {over}" if over else said
    return _runs(names)


def _runs(names: Sequence[str]) -> str:
    return ", ".join(f"{len(list(run))} {name}" for name, run in itertools.groupby(names))


def _entry_lines(entry: Entry) -> list[str]:
    layers = [Layer(entry.name, spec=spec) for spec in entry.specs]
    if entry.convolution is not None:
        layers.append(Layer(entry.name, convolution=entry.convolution))
    warm = entry.temperature
    made = []
    for layer in layers or [Layer(entry.name)]:
        told = _entry(layer)
        made += _told(layer, told)
    if warm is not None:
        made.append(f"scores of a query grow with its position: {_brief(warm)}")
    if entry.window is not None:
        made.append(f"sees {window_words(entry.window)}")
    if entry.scale is not None:
        made.append(_scale(entry.scale))
    if entry.share == "model":
        made.append("its layers share one set of parameters")
    for inner in entry.attentions:
        made += [f"{inner.name}, an attention inside it"]
        made += [f"  {line}" for line in _entry_lines(inner)]
    return made


def _scale(scale: float) -> str:
    return f"scores times {scale:g}, not divided by the root of the width"


def _where(entry: Layer) -> str:
    if entry.indices is None:
        return ""
    if not entry.indices:
        return " (no layer)"
    shown = ", ".join(map(str, entry.indices[:8]))
    more = ", …" if len(entry.indices) > 8 else ""
    count = len(entry.indices)
    return f" (layer{'s' if count > 1 else ''} {shown}{more}; {count} in all)"


def _told(entry: Layer, told: dict[str, Any]) -> list[str]:
    if entry.kind == "none":
        made = ["no positions"]
    elif entry.kind == "convolution":
        made = [f"a convolution stands for positions: {entry.convolution}"]
    elif isinstance(entry.spec, RotarySpec):
        made = _rotary_lines(entry.spec, told)
    else:
        made = [f"{entry.kind}: {_brief(entry.spec)}" if entry.spec is not None else entry.kind]
    if entry.logit_scale is not None:
        made.append(f"scores of a query grow with its position: {_brief(entry.logit_scale)}")
    if entry.scale is not None:
        made.append(_scale(entry.scale))
    if entry.positions is not None:
        made.append(f"positions: {entry.positions}")
    if entry.permuted:
        made.append(f"reordered from {entry.permuted} with the weights, when the file was written")
    for size, own in entry.windows if has_window(entry) or len(entry.windows) > 1 else ():
        made.append(f"sees {window_words(size)}{_where(entry.replace(indices=own))}")
    by_origin: dict[str, list[str]] = {}
    for source in entry.sources:
        by_origin.setdefault(source.origin, []).append(f"{source.field} ({source.where})")
    made += [f"from {ORIGINS[origin]}: {', '.join(fields)}" for origin, fields in by_origin.items()]
    return made


def _rotary_lines(spec: RotarySpec, told: dict[str, Any]) -> list[str]:
    channels = spec.channels
    made = [f"rotary, {spec.dim} channels of each head turn, as {spec.pairs} pairs"]
    pairs = {"half": "j and j + d/2", "interleaved": "2j and 2j + 1"}[channels.order]
    extra = [
        f"the {channels.part} channels",
        *(["result in the order of halves"] if channels.output != "same" else []),
        *(["by the negative angle"] if channels.direction == "backward" else []),
        *([f"targets {', '.join(channels.targets)}"] if channels.targets != ("q", "k") else []),
    ]
    made.append(f"pairing {channels.order} (channels {pairs}); {', '.join(extra)}")
    if len(spec.axes) > 1:
        arrangement = getattr(spec, "arrangement", None)
        rule = "" if arrangement is None else f", dealt {arrangement.rule}"
        sizes = getattr(arrangement, "sizes", None)
        made.append(f"axes {', '.join(spec.axes)}{rule}{'' if sizes is None else f' {sizes}'}")
    if "base" in told:
        bases = spec.bases if isinstance(spec, RoPE) else ()
        each = f" for {', '.join(spec.axes)}" if len(bases) > 1 else ""
        made.append(f"base {', '.join(f'{base:.10g}' for base in bases)}{each}")
    scalings = spec.scalings if isinstance(spec, RoPE) else ()
    made += [f"scaling {_brief(value)}" for value in scalings] or ["no scaling"]
    if "ramp" in told:
        ramp = told["ramp"]
        made.append(
            f"ramp between pairs {ramp['low']:.4g} and {ramp['high']:.4g}: {ramp['kept']} kept, "
            f"{ramp['between']} between, {ramp['interpolated']} interpolated"
        )
    if "attention_factor" in told:
        made.append(_magnitude(told))
    if "temperature" in told:
        made.append("scores of a query grow with its position (temperature)")
    if "wavelengths" in told:
        waves = told["wavelengths"]
        still = told["pairs_that_do_not_turn"]
        made.append(
            f"wavelengths {waves['shortest']:.4g} to {waves['longest']:.4g} positions"
            + (f"; {still} pairs do not turn" if still else "")
        )
    counts = told.get("pairs_with_a_turn", {})
    reached = [f"{number} {name}" for name, number in counts.items() if name != "of"]
    if reached:
        made.append(f"pairs that complete a turn, of {counts['of']}: {'; '.join(reached)}")
    return made


def _magnitude(told: dict[str, Any]) -> str:
    factor, where = told["attention_factor"], told["acts"]
    places = {
        "cos_sin": "on cosines and sines, so squared on scores",
        "softmax": "squared, on the softmax scale",
        "none": "left out",
    }
    said = f"attention factor {factor:.6g}"
    if factor != 1 or where != "cos_sin":
        said += f", {places[where]}"
    if told["logit_factor"] != 1:
        said += f"; softmax scale times {told['logit_factor']:.6g}"
    return said


def _brief(value: Any) -> str:
    """A value in brief, its long fields cut."""
    return brief(value, _cut)


def _cut(found: Any) -> str:
    text = _brief(found) if isinstance(found, Value) else repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."

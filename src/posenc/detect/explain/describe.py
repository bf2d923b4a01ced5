"""A plan in words and numbers: what each layer does, how far it reaches, where that was read."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc._core.grouping import grouped
from posenc._core.numeric.ladder import FLOAT
from posenc._core.reading import Layer, Note, Reading
from posenc._core.spec.answers import brief
from posenc._core.spec.plan import Entry, Plan
from posenc._core.spec.spec import Value
from posenc.detect.explain.config.view import is_open
from posenc.detect.explain.layers.groups import has_window, window_words
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import wavelengths
from posenc.scaling import Llama3, YaRN

ORIGINS = {
    "config": "the config",
    "preset": "posenc's entry for the family",
    "class": "the default of the class, as the config leaves the key out",
    "format": "the format's default",
    "caller": "the caller",
    "code": "posenc's default",
    "file": "the modelling file beside it, read as text",
    "record": "the record of a conversion",
}

RESTS = {
    "config": "the config",
    "preset": "what is known of the family",
    "format": "the format's default",
    "file": "the modelling file beside it, read as text",
    "record": "the record of a conversion of the weights",
}

# Where an attention factor acts.
PLACES = {
    "cos_sin": "multiplies cosines and sines, so its square multiplies scores",
    "softmax": "its square multiplies the softmax scale",
    "none": "not applied",
}


def describe(plan: Reading) -> dict[str, Any]:
    """How sure the plan is, and the numbers that follow from it, in plain JSON types."""
    return {"sure": _sure(plan), "layers": [_entry(entry) for entry in plan]}


def _sure(plan: Reading) -> str:
    """How far the plan is settled, and by what."""
    if plan.errors:
        return "not settled: see the errors"
    if left := [note for note in plan.notes if is_open(note)]:
        more = f", and {len(left) - 1} more, see the warnings" if len(left) > 1 else ""
        return f"read in part; left out: {_note(left[0])}{more}"
    fields = grouped((source.origin, source.field) for entry in plan for source in entry.sources)
    if "caller" in fields:
        return "as far as the caller is right: not everything is stated or known"
    rests = [words for origin, words in RESTS.items() if origin in fields]
    assumed = sorted({*fields.get("class", ())})
    rests += bool(assumed) * [
        (
            f"the class's default{'s' * (len(assumed) > 1)} of {_listed(assumed)}, "
            "which the config leaves out"
        )
    ]
    follows = f"every choice follows from {_listed(rests)}" if rests else "it needs no source"
    return f"settled{', with warnings' if plan.warnings else ''}: {follows}"


def _listed(words: Sequence[Any]) -> str:
    """The words of a list, with `and` before the last."""
    return " and ".join(filter(None, (", ".join(map(str, words[:-1])), *map(str, words[-1:]))))


def _note(note: Note) -> str:
    return f"{note.layer}: {note.text}" if note.layer else note.text


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
    found: dict[str, Any] = {
        "width": spec.dim,
        "pairing": spec.channels.to_dict(),
        "axes": list(spec.axes),
    }
    if isinstance(spec, RoPE):
        found["base"] = list(spec.base) if isinstance(spec.base, tuple) else spec.base
        found["scaling"] = [value.to_dict() for value in spec.scalings]
    lengths = _lengths(spec, length)
    fixed = spec.at(max(lengths)) if spec.needs_length and lengths else spec
    if fixed.needs_length:
        return found
    scores = fixed.magnitude_of_scores
    found |= {
        "attention_factor": (
            [*fixed.attention_factors]
            if isinstance(fixed, RoPE) and fixed.uneven
            else fixed.attention_factor
        ),
        "acts": scores.at,
        "logit_factor": fixed.logit_factor,
    }
    if scores.temperature is not None:
        found["temperature"] = scores.temperature.to_dict()
    if not hasattr(fixed, "matrix"):  # its frequencies are learned
        return found
    waves = wavelengths(fixed)
    turning = waves[np.isfinite(waves)]
    if turning.size:
        found["wavelengths"] = {"shortest": float(turning.min()), "longest": float(turning.max())}
    found["pairs_that_do_not_turn"] = int(waves.size - turning.size)
    turns: dict[str, Any] = {}
    for reach in lengths:
        own, words = spec.at(reach) if spec.needs_length else fixed, f"within {reach} positions"
        if isinstance(own, RoPE) and reach == lengths[0] < lengths[-1]:
            own, words = own.replace(scaling=()), f"{words}, before the extension"
        elif isinstance(own, RoPE) and len(lengths) > 1:
            words = f"{words}, with it"
        turns[words] = int((wavelengths(own) <= reach).sum())
    if turns:
        found["pairs_with_a_turn"] = {**turns, "of": spec.pairs}
    if isinstance(spec, RoPE) and (ramp := _ramp(spec)) is not None:
        found["ramp"] = ramp
    return found


def _lengths(spec: RotarySpec, length: int | None) -> list[int]:
    """The trained and the extended lengths, as far as they are known, the trained one first."""
    found = set() if length is None else {length}
    for scaling in spec.scalings if isinstance(spec, RoPE) else ():
        original = getattr(scaling, "original_length", None)
        factor: Any = getattr(scaling, "factor", None)
        scaled = isinstance(factor, float)
        if original is not None:
            found |= {original, math.ceil(original * factor)} if scaled else {original}
        elif length is not None and scaled and factor > 1:
            found.add(max(1, int(length / factor)))
    return sorted(found)


def _by_index(scaling: Any) -> Any:
    """The YaRN whose ramp begins and ends at the same pairs, of a Llama3 that has one."""
    if not isinstance(scaling, Llama3) or scaling.low_freq_factor == scaling.high_freq_factor:
        return scaling
    return YaRN(
        scaling.factor,
        original_length=scaling.original_length,
        beta_fast=scaling.high_freq_factor,
        beta_slow=scaling.low_freq_factor,
        rounding="none",
    )


def _ramp(spec: RoPE) -> dict[str, Any] | None:
    for scaling in map(_by_index, spec.scalings):
        if isinstance(scaling, YaRN) and scaling.ramp == "index" and isinstance(spec.base, float):
            low, high = scaling.bounds(spec.base, spec.dim, FLOAT)
            kept = sum(j <= low for j in range(spec.pairs))
            slowed = sum(j >= high for j in range(spec.pairs))
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
    text = [f"{plan.model or 'a model without a name'}: {found['sure']}"]
    for entry, told in zip(plan, found["layers"], strict=True):
        inner = f"{entry.attention}, inside " if entry.attention else ""
        text += _under(f"{inner}{entry.layer}{_where(entry.indices)}", _told(entry, told))
    for level in ("error", "warning", "remark"):
        if notes := [_note(note) for note in plan.notes if note.level == level]:
            text += _under(f"{level}s", notes)
    return text


def _under(title: str, inside: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in inside)]


def plan_lines(plan: Plan) -> list[str]:
    """What each layer of a plan does, as lines of text."""
    text = [f"{len(plan)} layer{'' if len(plan) == 1 else 's'}: {_schedule(plan)}"]
    if (first := plan.embeddings) is not None:
        text += _under(f"{first.name} (before the first layer)", _entry_lines(first))
    for entry in plan.entries:
        indices = tuple(i for i, name in enumerate(plan.layers) if name == entry.name)
        text += _under(f"{entry.name}{_where(indices)}", _entry_lines(entry))
    return text


def _schedule(plan: Plan) -> str:
    """The shortest period and what is over: `(3 rope, 1 nope) repeated 12 times; then 2 rope`."""
    names, count = plan.layers, len(plan.layers)
    for size in range(1, count // 2 + 1):
        if all(name == names[i % size] for i, name in enumerate(names)):
            said = (
                f"({_runs(names[:size])}) repeated {count // size} times"
                if size > 1
                else _runs(names)
            )
            return "; then ".join(filter(None, (said, _runs(names[: count % size]))))
    return _runs(names)


def _runs(names: Sequence[str]) -> str:
    return ", ".join(f"{len(list(run))} {name}" for name, run in itertools.groupby(names))


def _entry_lines(entry: Entry) -> list[str]:
    layers = [Layer(entry.name, spec=spec) for spec in entry.specs]
    if entry.convolution is not None:
        layers.append(Layer(entry.name, convolution=entry.convolution))
    made = [line for layer in layers or [Layer(entry.name)] for line in _told(layer, _entry(layer))]
    made += _on_scores(entry.temperature)
    if entry.window is not None:
        made.append(f"attends to {window_words(entry.window)}")
    made += _on_scores(scale=entry.scale)
    if entry.share == "model":
        made.append("its layers share one set of parameters")
    for inner in entry.attentions:
        made += _under(f"{inner.name}, an attention inside it", _entry_lines(inner))[1:]
    return made


def _on_scores(warm: Value | None = None, scale: float | None = None) -> list[str]:
    """What scores are multiplied by."""
    growing = (
        "" if warm is None else f"the scores of a query grow with its position: {_brief(warm)}"
    )
    by = (
        ""
        if scale is None
        else f"scores are multiplied by {scale:g}, not divided by the square root of the width"
    )
    return [line for line in (growing, by) if line]


def _where(indices: tuple[int, ...] | None) -> str:
    if not indices:
        return "" if indices is None else " (no layer)"
    shown, count = ", ".join(map(str, indices[:8])), len(indices)
    more = ", …" if count > 8 else ""
    return f" (layer{'s' if count > 1 else ''} {shown}{more}; {count} in all)"


def _told(entry: Layer, told: dict[str, Any]) -> list[str]:
    if entry.kind == "none":
        made = ["no positions"]
    elif entry.kind == "convolution":
        made = [f"a convolution takes the place of positions: {entry.convolution}"]
    elif isinstance(entry.spec, RotarySpec):
        made = _rotary_lines(entry.spec, told)
    else:
        start = getattr(entry.spec, "start", 0) * (entry.kind == "table")
        row = f"position p is row p + {start}: the first token takes row {start}"
        named = f"{entry.kind}: {_brief(entry.spec)}" if entry.spec is not None else entry.kind
        made = [named, *[row] * bool(start)]
    made += _on_scores(entry.logit_scale, entry.scale)
    if entry.positions is not None:
        made.append(f"positions: {entry.positions}")
    if entry.permuted:
        made.append(f"the file was written with its weights reordered from {entry.permuted}")
    for size, own in entry.windows if has_window(entry) or len(entry.windows) > 1 else ():
        made.append(f"attends to {window_words(size)}{_where(own)}")
    by_origin = grouped(
        (s.origin, f"{'the kind of encoding' if s.field == 'kind' else s.field} ({s.where})")
        for s in entry.sources
    )
    made += [f"from {ORIGINS[origin]}: {', '.join(fields)}" for origin, fields in by_origin.items()]
    return made


def _rotary_lines(spec: RotarySpec, told: dict[str, Any]) -> list[str]:
    channels = spec.channels
    pairs = {
        "half": "j and j + d/2 turn together, GPT-NeoX style",
        "interleaved": "2j and 2j + 1 turn together, GPT-J style",
    }[channels.order]
    extra = [
        f"the channels that turn are the {channels.part} ones of the head",
        *(["the result is in the order of halves"] if channels.output != "same" else []),
        *(["they turn by the negative angle"] if channels.direction == "backward" else []),
        *([f"what turns: {', '.join(channels.targets)}"] if channels.targets != ("q", "k") else []),
    ]
    made = [
        f"rotary: {spec.dim} channels of each head turn, as {spec.pairs} pairs",
        f"pairing {channels.order}: channels {pairs}; {', '.join(extra)}",
    ]
    if len(spec.axes) > 1:
        arrangement = getattr(spec, "arrangement", None)
        order, sizes = (getattr(arrangement, name, None) for name in ("order", "sizes"))
        own = dict(zip(order or spec.axes, sizes or (), strict=False))  # stated in the order
        share = f"with {_listed([*map(own.get, spec.axes)])} pairs" if own else "sharing the pairs"
        made.append(
            f"axes {', '.join(spec.axes)}"
            + ("" if arrangement is None else f", {share}, by the rule {arrangement.rule}")
        )
    scalings = []
    if isinstance(spec, RoPE):
        each = f" for {', '.join(spec.axes)}" if len(spec.bases) > 1 else ""
        made.append(f"base {', '.join(f'{base:.10g}' for base in spec.bases)}{each}")
        scalings = [f"scaling {_brief(value)}" for value in spec.scalings]
    made += scalings or ["no scaling"]
    if ramp := told.get("ramp"):
        made.append(
            f"ramp from pair {ramp['low']:.4g} to {ramp['high']:.4g}: {ramp['kept']} pairs kept, "
            f"{ramp['between']} in between, {ramp['interpolated']} interpolated"
        )
    if "attention_factor" in told:
        made.append(_magnitude(told))
    if "temperature" in told:
        made.append("the scores of a query grow with its position (temperature)")
    if waves := told.get("wavelengths"):
        still = f"; {count} pairs do not turn" if (count := told["pairs_that_do_not_turn"]) else ""
        made.append(
            f"wavelengths from {_of_positions(waves['shortest'])} to "
            f"{_of_positions(waves['longest'])} positions{still}"
        )
    counts = told.get("pairs_with_a_turn", {})
    for reach, number in counts.items():
        if reach != "of":
            within = re.sub(r"\d+", lambda digits: f"{int(digits[0]):,}", reach)
            made.append(f"{number} of {counts['of']} pairs complete a turn {within}")
    return made


def _of_positions(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.4g}"


def _magnitude(told: dict[str, Any]) -> str:
    factor, where, logits = told["attention_factor"], told["acts"], told["logit_factor"]
    place = f": {PLACES[where]}" if factor != 1 or where != "cos_sin" else ""
    if isinstance(factor, list):
        factors = ", ".join(f"{one:.6g}" for one in factor)
        return f"attention factors {factors}, each on the pairs of its axis"
    scale = f"; the softmax scale is multiplied by {logits:.6g}" if logits != 1 else ""
    return f"attention factor {factor:.6g}{place}{scale}"


def _brief(value: Any) -> str:
    """A value in brief, its long fields cut."""
    return brief(value, _cut)


def _cut(found: Any) -> str:
    text = _brief(found) if isinstance(found, Value) else repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."

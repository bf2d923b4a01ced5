"""Two sides, part by part: which parts belong together, and how each pair of them differs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc._core.spec import Spec
from posenc.detect.contract.asked import Asked, CannotSay
from posenc.detect.contract.checks import sequences
from posenc.detect.contract.contract import Part
from posenc.detect.contract.fields import PLACES, changed, numbers, variants, words
from posenc.detect.contract.sides import Side
from posenc.detect.contract.turns import (
    NEAR,
    SEEN,
    Finding,
    Seen,
    of_frequencies,
    of_rotations,
    probes,
    why,
)
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE

__all__ = ["Found", "compared"]

FAR = (4095, 4096, 4097, 131_071, 2**20)
LEFT_OVER = 0.02  # of a rotated query, that no pairing explains: more than bfloat16 rounds
DENSE = np.arange(4098)
Row = tuple[str, Finding]


@dataclass
class Found:
    """What a comparison gathers; `ours` is the side that comes first."""

    differences: list[Row] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def turned(self) -> Found:
        """With the sides exchanged."""
        rows = [(w, d._replace(ours=d.theirs, theirs=d.ours)) for w, d in self.differences]
        return Found(rows, self.looked, self.unseen)


def compared(a: Side, b: Side) -> Found:
    """How two sides differ; the first has specs if one of them has."""
    found = Found()
    if not a.describes:
        _two_answers(a, b, found)
    elif b.describes:
        _two_descriptions(a, b, found)
    else:
        _answers(a, b, found)
    return found


# --- two descriptions -----------------------------------------------------------------------------


def _two_descriptions(a: Side, b: Side, found: Found) -> None:
    for where, mine, theirs in _matched(a, b):
        if mine is None or theirs is None:
            there, name = (theirs, a) if mine is None else (mine, b)
            assert there is not None  # noqa: S101 - one of them is there
            if not name.whole or (there.kind == "none"):
                found.unseen.append(f"{where}: {name.name} says nothing of it")
                continue
            told = (_what(mine), _what(theirs))
            found.differences.append((where, Finding("layers", *told)))
            continue
        _two_parts(where, mine, theirs, found)
    # Layers that are mistaken for each other come first, and near positions before far ones.
    found.differences.sort(key=lambda row: row[1].field != "layers")


def _what(part: Part | None) -> str:
    if part is None:
        return "nothing"
    if part.spec is None:
        return f"the convolution {part.convolution}" if part.convolution else "no positions"
    return words(part.spec)


def _two_parts(where: str, a: Part, b: Part, found: Found) -> None:
    if a.spec is None or b.spec is None:
        if _what(a) == _what(b):
            found.looked.append(f"{where}: {_what(a)}, on both sides")
        else:
            found.differences.append((where, Finding("layers", _what(a), _what(b))))
        return
    if a.kind != b.kind:
        found.differences.append((where, Finding("kind", _what(a), _what(b))))
        return
    for name, mine, theirs, swapped in changed(a.spec, b.spec):
        size, position, what = _effect(a.spec if swapped is None else swapped, b.spec)
        row = Finding(name, words(mine), words(theirs), size, position, what)
        found.differences.append((where, row))
    for name in ("positions", "temperature", "window", "scale"):
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine is not None and theirs is not None and mine != theirs:
            found.differences.append((where, Finding(name, words(mine), words(theirs))))
        elif (mine is None) != (theirs is None):
            if name in ("temperature", "scale"):
                found.differences.append((where, Finding(name, words(mine), words(theirs))))
            else:
                found.unseen.append(f"{where}: {name}, which one side states alone")
    found.looked.append(f"{where}: {_looked(a.spec)}")
    if a.length != b.length and None not in (a.length, b.length):
        found.unseen.append(
            f"{where}: declared for {a.length} and {b.length} positions, which changes no angle"
        )


def _looked(spec: Spec) -> str:
    if isinstance(spec, RoPE):
        lengths = "at a short and a long length" if spec.needs_length else "at every length"
        return (
            f"each field of the spec; the frequencies of {spec.pairs} pairs in float64, {lengths}; "
            f"factors, pairing and channels"
        )
    if numbers(spec) is not None:
        return f"each field of the spec; numbers in float64 to distance or position {PLACES[-1]}"
    return "each field of the spec, no numbers"


def _effect(a: Spec, b: Spec) -> tuple[float, int | None, str]:
    """How far numbers are apart, where that begins, and which numbers."""
    if isinstance(a, RotarySpec) and isinstance(b, RotarySpec):
        if a.axes != b.axes:
            return math.nan, None, ""
        where = DENSE if len(a.axes) == 1 else np.stack([DENSE] * len(a.axes), axis=-1)
        if a.pairs == b.pairs:
            one, two = _complex(a, where), _complex(b, where)
            off = np.abs(one - two).max(axis=1)
            if off.max() > 1e-12:
                return *_begins(off, DENSE), "cos and sin"
        width = max(a.dim, b.dim) * (1 if a.channels.part == b.channels.part else 2)
        x = probes(width, len(NEAR))[:1]
        near = NEAR if len(a.axes) == 1 else np.stack([NEAR] * len(a.axes), axis=-1)
        turned = [
            np.asarray(functional.rotate(s.at(len(DENSE)), x[0], positions=near)) for s in (a, b)
        ]
        off = np.abs(turned[0] - turned[1]).max(axis=(0, 1, 3))
        if off.max() > 0:
            return *_begins(off, NEAR), "a rotated query"
        return math.nan, None, ""
    one_, two_ = numbers(a), numbers(b)
    if one_ is None or two_ is None or one_.shape != two_.shape:
        return math.nan, None, ""
    off = np.abs(one_ - two_)
    if off.ndim == 3:
        return float(np.nanmax(off)), None, "biases"
    return *_begins(off.max(axis=-1), PLACES[: len(off)]), "rows"


def _complex(spec: RotarySpec, where: np.ndarray) -> np.ndarray:
    cos, sin = functional.cos_sin(spec.at(len(DENSE)), where, dtype="float64")
    return np.asarray(cos) + 1j * np.asarray(sin)


def _begins(off: np.ndarray, positions: np.ndarray) -> tuple[float, int]:
    return float(off.max()), int(positions[off > min(SEEN, off.max() / 2)][0])


# --- which parts belong together ------------------------------------------------------------------


def _matched(a: Side, b: Side) -> Iterator[tuple[str, Part | None, Part | None]]:
    """Parts that act in the same layers, with these layers in words."""
    ours, theirs = _by_place(a), _by_place(b)
    # A config of the text alone is held against the text of a whole model.
    for mine, other, whole in ((ours, theirs, b), (theirs, ours, a)):
        extra = {place[0] for place in other} - {place[0] for place in mine}
        if {place[0] for place in mine} == {""} and extra and "" not in {p[0] for p in other}:
            like = max(extra, key=lambda p: len(_names(mine, "") & _names(other, p)))
            if not whole.whole or _names(mine, "") & _names(other, like):
                for place in list(mine):
                    mine[like, *place[1:]] = mine.pop(place)
    for place in dict.fromkeys((*ours, *theirs)):
        yield from _in_place(ours.get(place, []), theirs.get(place, []), a)


Place = tuple[str, str, str]


def _names(places: dict[Place, list[Part]], inside: str) -> set[str]:
    return {p.name.rpartition(".")[2] for place, parts in places.items() for p in parts
            if place[0] == inside}  # fmt: skip


def _by_place(side: Side) -> dict[Place, list[Part]]:
    """(part of the model, attention inside a layer, kind of place) -> its parts."""
    found: dict[Place, list[Part]] = {}
    for part in side.parts:
        name, _, attention = part.name.partition("#")[0].partition(":")
        where = "rows" if part.kind in ("table", "convolution") else "layers"
        kind = part.kind if where == "layers" and part.kind != "none" else where
        kind = "layers" if kind in ("rotary", "none") else kind
        found.setdefault((name.rpartition(".")[0], attention, kind), []).append(part)
    return found


def _in_place(
    ours: list[Part], theirs: list[Part], a: Side
) -> Iterator[tuple[str, Part | None, Part | None]]:
    if all(p.layers is None for p in (*ours, *theirs)):
        names = {part.name: part for part in theirs}
        left = list(theirs)
        pairs: list[tuple[Part, Part | None]] = []
        for part in ours:
            other = names.get(part.name)
            if other is None and len(ours) == len(theirs) == 1:
                other = theirs[0]
            if other is None and not a.whole:
                other = next((p for p in left if p.kind == part.kind), None)
            if other in left:
                left.remove(other)
            pairs.append((part, other))
        for part, other in pairs:
            yield part.name if a.whole else (other or part).name, part, other
        for part in left:
            mine = ours[0] if len(ours) == 1 and not a.whole else None
            yield part.name, mine, part
        return
    count = 1 + max(i for p in (*ours, *theirs) for i in p.layers or (0,))
    groups: dict[tuple[Part | None, Part | None], list[int]] = {}
    for layer in range(count):
        mine, other = _at(ours, layer), _at(theirs, layer)
        groups.setdefault((mine, other), []).append(layer)
    for (mine, other), layers in groups.items():
        if mine is not None or other is not None:
            name = (mine or other).name  # type: ignore[union-attr]
            if not a.whole and other is not None:
                name = other.name
            yield f"{name} ({_layers(layers)})", mine, other


def _at(parts: Sequence[Part], layer: int) -> Part | None:
    return next((p for p in parts if p.layers is None or layer in p.layers), None)


def _layers(layers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    told = [str(r[0]) if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs]
    shown = ", ".join(told[:6]) + (", …" if len(told) > 6 else "")
    return f"layer{'' if len(layers) == 1 else 's'} {shown}"


# --- a description and answers --------------------------------------------------------------------


def _answers(a: Side, b: Side, found: Found) -> None:
    assert b.answers is not None  # noqa: S101 - it does not describe
    for part in a.parts:
        if part.spec is None:
            found.unseen.append(f"{part.name}: {_what(part)}, which {b.name} was not asked about")
            continue
        try:
            others = [
                (p.name, p.spec) for p in a.parts
                if p is not part and isinstance(p.spec, RotarySpec) and p.spec != part.spec
            ]  # fmt: skip
            rows, looked, unseen = _one_part(part, b.answers(part), others)
        except CannotSay as error:
            found.unseen.append(f"{part.name}: {error}")
            continue
        found.differences += [(_where(part), row) for row in rows]
        found.looked += [f"{part.name}: {line}" for line in looked]
        found.unseen += [f"{part.name}: {line}" for line in unseen]
    _sequences(a, b, found)
    found.differences.sort(key=lambda row: row[1].field != "layers")


def _one_part(part: Part, asked: Asked, others: Sequence[tuple[str, RotarySpec]]) -> Told:
    if isinstance(part.spec, RotarySpec):
        return _rotary(part, part.spec, asked, others)
    if part.kind == "table":
        return _table(part, asked)
    if part.kind == "bias":
        return _bias(part, asked)
    raise CannotSay(f"a {part.kind} encoding needs content, and is not asked for")


def _where(part: Part) -> str:
    return part.name if part.layers is None else f"{part.name} ({_layers(part.layers)})"


def _asked(asked: Asked, method: str, *given: Any, part: Part, length: int | None = None) -> Any:
    """An answer, where whatever other people's code raises is in words."""
    takes = method in asked.methods and asked.takes(method, "length")
    try:
        return asked.ask(method, *given, layer=part.name, length=length if takes else None)
    except (CannotSay, MemoryError):
        raise
    except Exception as error:
        raise CannotSay(f"{method} raises {type(error).__name__}: {str(error)[:100]}") from error


def _object(asked: Asked) -> Any:
    """Whose methods are asked; None for a function."""
    return getattr(next(iter(asked.methods.values())), "__self__", None)


class _Differs(Exception):  # noqa: N818
    """A difference after which nothing more can be asked."""

    def __init__(self, row: Finding) -> None:
        super().__init__(row.field)
        self.row = row


Told = tuple[list[Finding], list[str], list[str]]


def _rotary(
    part: Part, spec: RotarySpec, asked: Asked, others: Sequence[tuple[str, RotarySpec]]
) -> Told:
    offered = [m for m in ("rotate", "cos_sin", "frequencies") if m in asked.methods]
    if not offered:
        raise CannotSay("it offers neither rotate, cos_sin nor frequencies")
    rows: list[Finding] = []
    looked: list[str] = []
    unseen: list[str] = []
    for method in offered:
        try:
            made, far = _looked_at(part, spec, asked, method, others)
        except _Differs as error:
            made, far = [error.row], "until it was seen to differ"
        except CannotSay as error:
            unseen.append(str(error))
            continue
        rows += [row for row in made if row.field not in {r.field for r in rows}]
        looked.append(f"{method}, {far}")
        if any(row.field == "state" for row in rows):
            break  # what it remembers would be in every other answer
    if not looked:
        raise CannotSay("; ".join(unseen))
    if "rotate" not in offered:
        unseen.append("pairing and channels, as it turns no vectors")
    if spec.logit_factor != 1 or spec.magnitude_of_scores.temperature is not None:
        unseen.append("factors on the scores")
    return rows, looked, unseen


def _near(spec: RotarySpec) -> np.ndarray:
    if len(spec.axes) == 1:
        return NEAR
    same = np.stack([NEAR] * len(spec.axes), axis=-1)
    apart = np.array(
        [[(7 * (i + 1) * (k + 2)) % 61 for k in range(len(spec.axes))] for i in range(4)]
    )
    return np.concatenate([same, apart])


def _looked_at(
    part: Part,
    spec: RotarySpec,
    asked: Asked,
    method: str,
    others: Sequence[tuple[str, RotarySpec]],
) -> tuple[list[Finding], str]:
    rows: list[Finding] = []
    fitted = [spec]

    def turned(where: np.ndarray, length: int) -> Seen:
        width = int(getattr(_object(asked), "head_dim", 0) or spec.dim)
        x = probes(width, len(where))
        y = np.stack([_asked(asked, "rotate", one, where, part=part, length=length) for one in x])
        if y.shape != x.shape:
            raise CannotSay(f"rotate returns {y.shape[1:]} for {x.shape[1:]}")
        flat = (x[:, 0, 0], y[:, 0, 0])
        candidate, values, left = of_rotations(spec, *flat)
        if not np.all(np.isfinite(y)):
            values = np.where(np.isfinite(y).all(axis=(0, 1, 2, 4))[:, None], values, np.nan)
        elif left > LEFT_OVER:
            told = ("one that is known", "vectors turned in no way that is known")
            raise _Differs(Finding("pairing", *told, left, what="a rotated query"))
        fitted[0] = candidate
        return Seen(where, values, length)

    def cosines(where: np.ndarray, length: int) -> Seen:
        cos, sin = _asked(asked, "cos_sin", where, part=part, length=length)
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in (cos, sin))
        pairs = cos.shape[-1] // 2
        if cos.shape[-1] != spec.pairs and np.array_equal(cos[:, :pairs], cos[:, pairs:]):
            cos, sin = cos[:, :pairs], sin[:, :pairs]
        elif cos.shape[-1] != spec.pairs and np.array_equal(cos[:, ::2], cos[:, 1::2]):
            cos, sin = cos[:, ::2], sin[:, ::2]
        return Seen(where, cos + 1j * sin, length)

    if method == "frequencies":
        values = _asked(asked, method, part=part, length=len(NEAR)).reshape(-1)
        seen = of_frequencies(values, int(NEAR[-1]) + 1)
        return why(spec, [seen], others), f"{values.size} numbers, of one length"
    see = turned if method == "rotate" else cosines
    where = _near(spec)
    first = see(where, int(where.max()) + 1)
    if method == "rotate" and fitted[0] != spec:
        for name, mine, theirs, _ in changed(spec, fitted[0])[:1]:
            told = (words(mine), words(theirs), *_effect(spec, fitted[0])[:2], "a rotated query")
            rows.append(Finding(name, *told))
    every, last = [first], int(where.max())
    known = part.length or 0
    more = {p for p in (*FAR, *(known - 1, part.original_length or 0)) if p > last}
    for position in sorted(more):
        if known and position >= max(known, 2) and position not in FAR[:3]:
            continue
        place = np.array([position] if len(spec.axes) == 1 else [[position] * len(spec.axes)])
        try:
            every.append(see(place, position + 1))
            last = position
        except CannotSay as error:
            if known and position < known:
                rows.append(
                    Finding("length", f"{known} positions", f"no position {position} ({error})")
                )
            break
    rows += why(fitted[0], every, others)
    with contextlib.suppress(CannotSay):
        again = see(where, int(where.max()) + 1)
        off = np.abs(again.values - first.values).max(axis=1)
        alike = (off <= 1e-6) | np.isnan(first.values).any(axis=1)  # NaN is told already
        if not np.all(alike):
            begins = int(again.first[~alike][0])
            same, other = "the same after a longer sequence", f"others after position {last}"
            rows.append(Finding("state", same, other, float(off.max()), begins))
    reach = (
        f"{first.values.shape[1]} pairs of one head, positions {int(where.min())} to "
        f"{int(where.max())} in one call, single ones to {last:,}, and the first call again"
    )
    return rows, reach


def _table(part: Part, asked: Asked) -> Told:
    spec: Any = part.spec
    if len(getattr(spec, "axes", ("p",))) > 1:
        raise CannotSay("a table of several axes is not asked for")
    stored = getattr(_object(asked), "shape", None)
    if spec.parameters():
        length, start = getattr(spec, "length", None), getattr(spec, "start", 0)
        if stored is None or not isinstance(length, int):
            raise CannotSay("its rows are learned, and their number is not told")
        ours, given = (f"{n} rows of {dim}" for n, dim in ((length + start, spec.dim), stored))
        rows = [] if ours == given else [Finding("length", ours, given)]
        return rows, ["the number of rows and their width, as they are learned"], []
    last = (stored[0] if stored else part.length or 512) - 1
    where = PLACES[min(last, 511) >= PLACES]
    theirs = _asked(asked, "table", where, part=part)
    mine = np.asarray(functional.table(spec, where, dtype="float64"))
    looked = [f"table, positions 0 to {where[-1]}, {mine.shape[1]} columns"]
    return _rows(spec, where, mine, theirs), looked, []


def _rows(spec: Any, where: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> list[Finding]:
    """The change of a table that explains its rows; none where they are its own."""
    if theirs.shape != mine.shape:
        sizes = f"{mine.shape[1]} columns", f"shape {theirs.shape}"
        return [Finding("dim", *sizes, what="rows")]
    off = np.abs(theirs - mine).max(axis=1)
    room = 1e-4 * max(1.0, float(np.abs(mine).max()))
    if np.all(off <= room):
        return []
    effect = (*_begins(np.where(np.isfinite(off), off, np.inf), where), "rows")
    for shift in sorted(range(-8, 9), key=abs):
        moved = where + shift
        with contextlib.suppress(PosencError):
            made = np.asarray(functional.table(spec, np.abs(moved), dtype="float64"))
            if shift and np.all(np.abs(made - theirs)[moved >= 0] <= room):
                told = f"that of position p {'+' if shift > 0 else '-'} {abs(shift)}"
                return [Finding("positions", "the row of position p", told, *effect)]
    for name, said, other in variants(spec):
        with contextlib.suppress(PosencError):
            made = np.asarray(functional.table(other, where, dtype="float64"))  # type: ignore[arg-type]
            if made.shape == theirs.shape and np.all(np.abs(made - theirs) <= room):
                return [Finding(name, _now(spec, name), said, *effect)]
    return [Finding("table", "its own rows", "others, that no one change explains", *effect)]


def _now(spec: Any, name: str) -> str:
    for step in name.split("."):
        spec = spec[0] if isinstance(spec, tuple) and len(spec) == 1 else spec
        spec = getattr(spec, step, spec)
    return words(spec)


def _bias(part: Part, asked: Asked) -> Told:
    spec: Any = part.spec
    if spec.parameters():
        raise CannotSay("its values are learned, and are in the checkpoint")
    where = np.array([0, 1, 2, 7, 8, 9, 20, 63, 130, 300])
    keys = where[where <= 130]
    theirs = _asked(asked, "bias", where, keys, part=part)

    def made(one: Any) -> np.ndarray:
        return np.asarray(
            functional.bias(one, q_positions=where, k_positions=keys, dtype="float64")
        )

    mine = made(spec)
    heads = mine.shape[0]
    if theirs.shape != mine.shape:
        return (
            [Finding("heads", f"shape {mine.shape}", f"shape {theirs.shape}", what="biases")],
            ["the shape of the biases"],
            [],
        )
    past = keys[None, :] <= where[:, None]
    looked = [f"bias, {heads} heads, queries to {where[-1]}, keys to {keys[-1]}"]

    def relative(biases: np.ndarray) -> np.ndarray:
        # What is added to all keys of a query changes no softmax.
        return (biases - biases[..., :1])[:, past]

    def alike(one: np.ndarray, other: np.ndarray) -> bool:
        return one.shape == other.shape and np.allclose(one, other, rtol=1e-5, atol=1e-5)

    if alike(mine, theirs):
        return [], looked, []
    ours, given = relative(mine), relative(theirs)
    if alike(ours, given):
        return [], looked, ["biases of the future, and what is the same for all keys of a query"]
    off = float(np.max(np.abs(ours - given)))
    row = Finding("bias", "its own", "others, that no one change explains", off, what="biases")
    for name, said, other in variants(spec):
        with contextlib.suppress(PosencError):
            one = made(other)
            if one.shape == theirs.shape and alike(relative(one), given):
                return [row._replace(field=name, ours=_now(spec, name), theirs=said)], looked, []
    first, second = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs))
    if np.all(first != 0) and alike(ours * (second / first)[:, None], given):
        told = [", ".join(f"{s:.4g}" for s in slopes[:3]) + ", …" for slopes in (first, second)]
        row = row._replace(field="slopes", ours=told[0], theirs=told[1])
    return [row], looked, []


def _sequences(a: Side, b: Side, found: Found) -> None:
    """Which token stands where: left padding, packed sequences, a cached step."""
    assert b.answers is not None  # noqa: S101 - it does not describe
    names = {part.name: part for part in a.parts}
    silent: dict[str, None] = {}
    for check in sequences(a.parts):
        part, case = names.get(check.part, a.parts[0]), str(check["case"])
        given = {k: v for k, v in check.to_dict().items() if k != "positions"}
        try:
            asked = b.answers(part)
            if "position_ids" not in asked.methods:
                silent[case] = None
                continue
            theirs = _asked(asked, "position_ids", given, part=part).reshape(-1)
        except CannotSay as error:
            found.unseen.append(f"{check.part}: positions of {case}: {error}")
            continue
        mine = np.asarray(check["positions"]).reshape(-1)
        counted = np.ones(mine.size, bool)
        if "mask" in check:  # what padding gets is nobody's business
            counted = np.asarray(check["mask"]).reshape(-1).astype(bool)
        found.looked.append(f"{check.part}: positions of {case}")
        if theirs.shape != mine.shape or np.any(theirs[counted] != mine[counted]):
            told = [words(tuple(p.astype(int).tolist())) for p in (mine, theirs)]
            row = Finding("positions", f"{case}: {told[0]}", told[1])
            found.differences.append((check.part, row))
    if silent:
        found.unseen.append(f"positions of {', '.join(silent)}: no position_ids is offered")


# --- two that only answer -------------------------------------------------------------------------


def _two_answers(a: Side, b: Side, found: Found) -> None:
    assert a.answers is not None  # noqa: S101 - neither describes
    assert b.answers is not None  # noqa: S101
    part = Part("attention", kind="rotary")
    for method, given in (("frequencies", ()), ("cos_sin", (NEAR,)), ("table", (NEAR,))):
        try:
            answers = [
                np.asarray(_asked(side.answers(part), method, *given, part=part))  # type: ignore[misc]
                for side in (a, b)
            ]
        except CannotSay as error:
            found.unseen.append(f"{method}: {error}")
            continue
        one, two = answers
        if one.shape != two.shape:
            found.differences.append(("both", Finding("dim", str(one.shape), str(two.shape))))
            continue
        found.looked.append(f"{method}, to position {NEAR[-1]}")
        off = np.abs(one - two)
        if not np.all(off <= 1e-4):
            told = ("the numbers of A", "those of B, and no spec to name the field by")
            found.differences.append(
                ("both", Finding(method, *told, float(np.nanmax(off)), what="numbers"))
            )

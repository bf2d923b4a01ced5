"""What an implementation answers for one part of a description, and how that differs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc.detect.contract.asked import Asked, CannotSay
from posenc.detect.contract.contract import Part
from posenc.detect.contract.effect import begins, effect
from posenc.detect.contract.fields import PLACES, changed, value_of, variants, words
from posenc.detect.contract.seen import (
    NEAR,
    Finding,
    Seen,
    of_frequencies,
    of_rotations,
    probes,
)
from posenc.detect.contract.why import why
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["ask", "ask_part"]

FAR = (4095, 4096, 4097, 131_071, 2**20)
LEFT_OVER = 0.02  # of a rotated query, that no pairing explains: more than bfloat16 rounds
Told = tuple[list[Finding], list[str], list[str]]  # differences, what was looked at, what was not


def ask_part(part: Part, asked: Asked, others: Sequence[tuple[str, RotarySpec]]) -> Told:
    """The differences of a part, what was looked at, and what was not."""
    if isinstance(part.spec, RotarySpec):
        return _rotary(part, part.spec, asked, others)
    if part.kind == "table":
        return _table(part, asked)
    if part.kind == "bias":
        return _bias(part, asked)
    raise CannotSay(f"a {part.kind} encoding needs content, and is not asked for")


def ask(asked: Asked, method: str, *given: Any, part: Part, length: int | None = None) -> Any:
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
        y = np.stack([ask(asked, "rotate", one, where, part=part, length=length) for one in x])
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
        cos, sin = ask(asked, "cos_sin", where, part=part, length=length)
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in (cos, sin))
        pairs = cos.shape[-1] // 2
        if cos.shape[-1] != spec.pairs and np.array_equal(cos[:, :pairs], cos[:, pairs:]):
            cos, sin = cos[:, :pairs], sin[:, :pairs]
        elif cos.shape[-1] != spec.pairs and np.array_equal(cos[:, ::2], cos[:, 1::2]):
            cos, sin = cos[:, ::2], sin[:, ::2]
        return Seen(where, cos + 1j * sin, length)

    if method == "frequencies":
        values = ask(asked, method, part=part, length=len(NEAR)).reshape(-1)
        seen = of_frequencies(values, int(NEAR[-1]) + 1)
        return why(spec, [seen], others), f"{values.size} numbers, of one length"
    see = turned if method == "rotate" else cosines
    where = _near(spec)
    first = see(where, int(where.max()) + 1)
    if method == "rotate" and fitted[0] != spec:
        for name, mine, theirs, _ in changed(spec, fitted[0])[:1]:
            told = (words(mine), words(theirs), *effect(spec, fitted[0])[:2], "a rotated query")
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
    theirs = ask(asked, "table", where, part=part)
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
    effect = (*begins(np.where(np.isfinite(off), off, np.inf), where), "rows")
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
                return [Finding(name, value_of(spec, name), said, *effect)]
    return [Finding("table", "its own rows", "others, that no one change explains", *effect)]


def _bias(part: Part, asked: Asked) -> Told:
    spec: Any = part.spec
    if spec.parameters():
        raise CannotSay("its values are learned, and are in the checkpoint")
    where = np.array([0, 1, 2, 7, 8, 9, 20, 63, 130, 300])
    keys = where[where <= 130]
    theirs = ask(asked, "bias", where, keys, part=part)

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
                return (
                    [row._replace(field=name, ours=value_of(spec, name), theirs=said)],
                    looked,
                    [],
                )
    first, second = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs))
    if np.all(first != 0) and alike(ours * (second / first)[:, None], given):
        told = [", ".join(f"{s:.4g}" for s in slopes[:3]) + ", …" for slopes in (first, second)]
        row = row._replace(field="slopes", ours=told[0], theirs=told[1])
    return [row], looked, []

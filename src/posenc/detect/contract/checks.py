"""The records of a part: what its encoding computes, at positions near and far, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc import positions as _positions
from posenc._core.array import library
from posenc._core.errors import PosencError
from posenc._core.positions import Positions
from posenc._core.spec import Spec
from posenc.detect.contract import tolerances
from posenc.detect.contract.contract import Check, Part
from posenc.encodings.bias.base import BiasSpec
from posenc.encodings.relative.base import RelativeSpec
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.encodings.rotary.pairing import Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.rotary.xpos import XPos
from posenc.encodings.table.base import TableSpec
from posenc.encodings.table.learned import Learned

__all__ = ["KEY", "QUERY", "checks_of", "ruled", "sequences"]

PLACES = (0, 1, 2, 257, 4095, 4096, 4097, 131_071, 2**20)
NEAR = tuple(range(6))
MOST = 2**18  # numbers in one record
MOST_LEARNED = 2**23  # parameters that numbers are computed from
QUERY, KEY = (7, 3, 17), (5, 1, 13)
PAST = 257
MASK = ((0, 0, 1, 1, 1), (1, 1, 1, 1, 1))
CUMULATIVE = (0, 3, 5, 9)
PICTURE = (3, (1, 2, 3), 2)
# What follows a video that lasts longer than it is wide differs between implementations.
SHORT, LONG = (2, (3, 2, 3), 2), (2, (3, 2, 2), 2)


class _LeftOut(Exception):  # noqa: N818
    """What no record states, in words."""


def ruled(count: int, rule: tuple[int, int, int] = QUERY) -> np.ndarray:
    """Numbers that any language can compute, exact in every dtype: ((a c + b) mod n - h) / 8."""
    factor, shift, modulus = rule
    counted = (factor * np.arange(count, dtype=np.int64) + shift) % modulus
    return (counted - modulus // 2) / 8.0


def checks_of(part: Part) -> tuple[list[Check], list[str]]:
    """The records of a part, and what they leave out."""
    makers = {RotarySpec: _rotary, TableSpec: _table, BiasSpec: _bias, RelativeSpec: _relative}
    made: list[Check] = []
    left_out: list[str] = []
    maker = next((m for kind, m in makers.items() if isinstance(part.spec, kind)), None)
    try:
        if maker is not None:
            made += maker(part)
    except _LeftOut as why:
        left_out.append(str(why))
    except PosencError as error:
        left_out.append(f"its numbers cannot be computed: {error}")
    if maker is not None and not made and not left_out:
        left_out.append("its numbers: no position that is tried here is within its reach")
    if part.temperature is not None:
        where = np.array(_places(part))
        factors = part.temperature.factors(where, dtype=np.float64, xp=library(np))
        made.append(_check(part, "temperature", positions=where, factors=factors))
    return made, left_out


def _check(part: Part, check: str, state: str = "any", **data: Any) -> Check:
    flat = {}
    for name, value in data.items():
        if isinstance(value, (np.ndarray, list, tuple)):
            array = np.array(value).reshape(-1)  # a copy of its own
            array = array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)
            array.setflags(write=False)
            flat[name] = array
        else:
            flat[name] = value.item() if isinstance(value, np.generic) else value
    return Check(check, part.name, state, flat)


def _places(part: Part) -> list[int]:
    length = part.original_length or part.length
    own = () if length is None else (length - 1, length, length + 1)
    return sorted({*PLACES, *(p for p in own if p >= 0)})


def _points(part: Part, axes: int) -> np.ndarray:
    """Positions (n, axes): on all axes at once, and then places whose coordinates differ."""
    rows = [[p] * axes for p in _places(part)]
    if axes > 1:
        rows += [[(a == b) * 3 for b in range(axes)] for a in range(axes)]
        rows += [[257, 31, 5, 2][:axes], [5, 257, 31, 3][:axes]]
        rows = [row + [0] * (axes - len(row)) for row in rows]
    return np.array(rows, dtype=np.int64)


def _bounds(prefix: str, bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{dtype}": value for dtype, value in bounds.items()}


# --- rotations ------------------------------------------------------------------------------------


def _rotary(part: Part) -> Iterator[Check]:
    spec = part.spec
    if not isinstance(spec, (RoPE, XPos)):
        raise _LeftOut(f"angles: those of {type(spec).__name__} are learned, or differ by head")
    if spec.phase == "float32":
        spec = spec.replace(phase="exact")  # the rounding of its angles is a tolerance here
    for state, length in _states(part, spec):
        yield from _turns(part, spec.at(length or 1), state, length)


def _states(part: Part, spec: RotarySpec) -> Iterator[tuple[str, int | None]]:
    if not spec.needs_length or spec.lengths is None:
        yield "any", None
        return
    first, _ = spec.lengths
    yield "short", first
    yield "long", max(part.length or 0, 2 * first)


def _turns(part: Part, spec: Any, state: str, length: int | None) -> Iterator[Check]:
    sided = isinstance(spec, XPos)
    known = {} if length is None else {"length": length}
    axis = (0,) * spec.pairs if sided else spec.arrangement.layout(spec.pairs).axis
    start = 0 if sided else spec.arrangement.start
    frequencies = functional.frequencies(spec)
    factor, magnitude = float(spec.attention_factor), spec.magnitude_of_scores
    query, key = ruled(spec.dim), ruled(spec.dim, KEY)
    yield _check(
        part,
        "frequencies",
        state,
        **known,
        width=spec.dim,
        channels=spec.channels.part,
        pairing=spec.channels.order,
        **_channels(spec.channels, spec.dim),
        sign=-1 if spec.channels.direction == "backward" else 1,
        axes=len(spec.axes),
        axis=axis,
        start=start,
        frequencies=frequencies,
        frequencies_float32=frequencies.astype(np.float32),
        **({} if sided else {"attention_factor": factor}),
        logit_factor=float(spec.logit_factor),
        acts=magnitude.at,
        query=query,
        key=key,
    )
    where = _points(part, len(spec.axes))
    if length is not None:
        where = where[where.max(-1) < length]
    if sided:  # its sizes leave the range of numbers
        where = where[np.abs(where - spec.centre).max(-1) <= spec.reach("float32")]
    bare = where if len(spec.axes) > 1 else where[:, 0]
    cos, sin = functional.cos_sin(spec, bare, dtype="float64")
    inputs: tuple[tuple[Role, np.ndarray], ...] = (("query", query), ("key", key))
    queries, keys = (
        functional.rotate(spec, np.tile(x, (len(where), 1)), positions=bare, role=role)
        for role, x in inputs
    )
    angles = (where + start)[:, list(axis)] * frequencies
    warm = np.ones(len(where))
    if magnitude.temperature is not None:
        warm = magnitude.temperature.factors(where[:, 0], dtype=np.float64, xp=library(np))
    size = max(1.0, float(np.abs([queries, keys]).max())) if sided else factor
    bounds = tolerances.of_angles(angles, frequencies, size)
    off = {dtype: bound.max(-1) for dtype, bound in bounds.items()}
    after = tolerances.of_turned(off, size)
    for i, row in enumerate(where):
        yield _check(
            part,
            "angles",
            state,
            **known,
            position=row,
            **({} if sided else {"cos": cos[i], "sin": sin[i]}),
            rotated_query=queries[i],
            rotated_key=keys[i],
            temperature=warm[i],
            **_bounds("tolerance", {dtype: float(b[i]) for dtype, b in off.items()}),
            **_bounds("rotated_tolerance", {dtype: float(b[i]) for dtype, b in after.items()}),
        )
    factors = (float(spec.logit_factor) * warm)[:, None]
    scores = factors * (queries @ keys.T)
    yield _check(
        part,
        "scores",
        state,
        **known,
        positions=where,
        scores=scores,
        **_bounds("tolerance", tolerances.of_scores(queries, keys, after, np.abs(factors))),
    )


def _channels(pairing: Pairing, dim: int) -> dict[str, list[int]]:
    order = "half" if pairing.output == "half" else pairing.order
    into = pairing.channels(dim)
    out = pairing.replace(order=order).channels(dim)
    return {
        "first": [a for a, _ in into],
        "second": [b for _, b in into],
        "first_out": [a for a, _ in out],
        "second_out": [b for _, b in out],
    }


# --- tables ---------------------------------------------------------------------------------------


def _table(part: Part) -> Iterator[Check]:
    spec = part.spec
    assert isinstance(spec, TableSpec)  # noqa: S101 - for the type checker
    if isinstance(spec, Learned):
        yield _rows(part, spec)
        return
    if spec.shapes:
        raise _LeftOut(f"rows: those of {type(spec).__name__} are learned")
    axes = len(spec.axes)
    points = _points(part, axes)
    if part.positions is not None and part.positions.builder == "grid":
        sizes = dict(zip(part.positions.axes or spec.axes, (2, 3, 2, 2), strict=False))
        points = np.unique(part.positions.build(sizes, **_real(spec)), axis=0)
    places = [p for p in points if _stands(spec, p)]
    width = spec.dim if spec.width == spec.dim else spec.width - spec.dim
    if width > MOST // max(1, len(places)):
        raise _LeftOut(f"rows: {len(places)} of {width} numbers are too many for a file")
    where = np.array(places)
    rows = functional.table(spec, where if axes > 1 else where[:, 0], dtype="float64")
    bounds = _of_rows(spec, where, rows)
    for i, row in enumerate(rows):
        off = {dtype: float(bound[i]) for dtype, bound in bounds.items()}
        known = {"position": where[i], "row": row, "embedding_scale": spec.embedding_scale}
        yield _check(part, "table", **known, **_bounds("tolerance", off))


def _real(spec: TableSpec) -> dict[str, str]:
    return {} if spec.coordinates == "integer" else {"dtype": "float64"}


def _stands(spec: TableSpec, position: np.ndarray) -> bool:
    """Whether a table has a row at a position."""
    try:
        functional.table(spec, position[None] if len(spec.axes) > 1 else position, dtype="float64")
    except PosencError:
        return False
    return True


def _of_rows(spec: Any, where: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Bounds of rows of sines; none for other tables, whose engines may compute them otherwise."""
    if not hasattr(spec, "matrix"):
        return {}
    frequencies = functional.frequencies(spec)
    if frequencies.ndim != 1:
        return {}
    # Whichever coordinate a pair reads, it is at most the largest.
    angles = np.abs(where).max(-1)[:, None] * frequencies
    size = max(1.0, float(np.abs(rows).max()))
    bounds = tolerances.of_angles(angles, frequencies, size)
    return {dtype: bound.max(-1) for dtype, bound in bounds.items()}


def _rows(part: Part, spec: Learned) -> Check:
    if len(spec.axes) > 1:
        raise _LeftOut(f"rows: a position has the coordinates {', '.join(spec.axes)}")
    limit = spec.limits[0]
    where = [p for p in sorted({*_places(part), limit - 1}) if p < limit]
    data: dict[str, Any] = {"positions": where, "rows": [p + spec.start for p in where]}
    data |= {"length": limit, "start": spec.start, "width": spec.dim}
    data |= {} if spec.pad is None else {"pad": spec.pad}
    return _check(part, "rows", **data)


# --- scores ---------------------------------------------------------------------------------------


def _learnt(spec: Spec, what: str) -> dict[str, np.ndarray]:
    """Parameters by the rule of queries, as a model's own are in its checkpoint."""
    count = sum(math.prod(shape) for shape in spec.shapes.values())
    if count > MOST_LEARNED:
        raise _LeftOut(f"{what}: {type(spec).__name__} has {count} parameters")
    return {k: ruled(math.prod(shape)).reshape(shape) for k, shape in spec.shapes.items()}


def _given(params: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {f"shape_{name}": values.shape for name, values in params.items() if values.ndim}


def _bias(part: Part) -> Iterator[Check]:
    spec = part.spec
    assert isinstance(spec, BiasSpec)  # noqa: S101 - for the type checker
    params = _learnt(spec, "biases")
    for q, k in _sides(part, spec, spec.heads):
        try:
            found = functional.bias(spec, q, k, params=params or None, dtype="float64")
        except PosencError:  # the far positions of a window, or of a table that ends
            continue
        yield _scores(part, "bias", (q, k), params, found, heads=spec.heads, place=spec.place)


def _relative(part: Part) -> Iterator[Check]:
    spec = part.spec
    assert isinstance(spec, RelativeSpec)  # noqa: S101 - for the type checker
    params = _learnt(spec, "scores")
    heads: int = getattr(spec, "count", 1) if spec.heads is None else spec.heads
    q, k = next(_sides(part, spec, heads))
    shape = (heads, len(q), spec.dim)
    queries = ruled(math.prod(shape)).reshape(shape)
    keys = ruled(math.prod(shape), KEY).reshape(shape)
    found = functional.relative(spec, queries, keys, q, k, params=params or None)
    told = {"heads": heads, "width": spec.dim, "place": spec.place}
    yield _scores(part, "relative", (q, k), params, found, **told)


def _sides(part: Part, spec: Any, heads: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions of queries and keys: a small square, and the row of a late query."""
    axes = len(spec.axes)
    if axes > 1:
        window = getattr(spec, "window", None)
        sizes = window if isinstance(window, tuple) and len(window) == axes else (2, 3, 2, 1)
        cells = _positions.grid([min(n, 3) for n in (*sizes, *[1] * axes)][:axes])
        yield cells, cells
        return
    near = np.array(NEAR, dtype=np.int64)
    yield near, near
    last = (part.original_length or part.length or 4097) - 1
    far = [p for p in _places(part) if p <= last]
    if last > NEAR[-1] and heads * len(far) <= MOST:
        yield np.array([last], dtype=np.int64), np.array(far, dtype=np.int64)


def _scores(
    part: Part,
    check: str,
    sides: tuple[np.ndarray, np.ndarray],
    params: Mapping[str, np.ndarray],
    found: np.ndarray,
    **told: Any,
) -> Check:
    if found.size > MOST:
        raise _LeftOut(f"{check}: {found.size} numbers are too many for a file")
    finite = np.isfinite(found)
    size = max(1.0, float(np.abs(found[finite]).max(initial=0.0)))
    units = {**tolerances.UNITS, **tolerances.HALVES}
    bounds = {dtype: 8 * unit * size for dtype, unit in units.items()}
    values = {check: np.where(finite, found, -np.finfo(np.float64).max)}
    q, k = sides
    axes = q.shape[1] if q.ndim > 1 else 1
    data = {"q_positions": q, "k_positions": k, "axes": axes, **told, **_given(params), **values}
    return _check(part, check, **data, **_bounds("tolerance", bounds))


# --- which token stands where ---------------------------------------------------------------------


def sequences(parts: Sequence[Part]) -> Iterator[Check]:
    """Positions of padded, packed and cached tokens, and of pictures among text."""
    for part in parts:
        spec = part.spec
        if spec is None or getattr(spec, "coordinates", "integer") != "integer":
            continue
        axes = tuple(spec.axes)  # type: ignore[attr-defined]
        rule = part.positions
        if len(axes) == 1 and (rule is None or rule.builder in ("arange", "from_mask")):
            yield from _counted(part, rule)
        elif axes == ("t", "h", "w") and (rule is None or rule.builder == "multimodal"):
            yield from _pictures(part, rule or Positions("multimodal"))


def _counted(part: Part, rule: Positions | None) -> Iterator[Check]:
    mask = np.array(MASK)
    first = 0 if rule is None else int(rule.start or 0)
    warm = (
        part.temperature or getattr(part.spec, "magnitude_of_scores", RotaryMagnitude()).temperature
    )
    # A rotation and a bias see distances alone, which are the same wherever a row begins to count.
    near = part.kind in ("rotary", "bias", "relative") and warm is None
    if rule is not None and rule.builder == "arange" and not near:
        padded = np.tile(rule.build(mask.shape[1]), (len(mask), 1))
    else:
        padded = (Positions("from_mask") if rule is None or near else rule).build(mask)
    shift = {"shift": "any"} if near else {}
    packed = _positions.packed(np.array(CUMULATIVE)) + first
    cases: dict[str, dict[str, Any]] = {
        "left padding": {"shape": mask.shape, "mask": mask, **shift, "positions": padded},
        "packed": {"shape": packed.shape, "cumulative_lengths": CUMULATIVE, "positions": packed},
        "cached step": {"shape": (1,), "past": PAST, "tokens": 1, "positions": [PAST + first]},
    }
    for case, data in cases.items():
        yield _check(part, "positions", case=case, **data)


def _pictures(part: Part, rule: Positions) -> Iterator[Check]:
    video = SHORT if rule.after is None else LONG
    for case, layout in (("text and picture", PICTURE), ("text and video", video)):
        made = rule.build(layout)
        triples = [(n, 0, 0) if isinstance(n, int) else n for n in layout]
        data = {"shape": made.shape, "layout": triples, "positions": made}
        yield _check(part, "positions", case=case, **data)

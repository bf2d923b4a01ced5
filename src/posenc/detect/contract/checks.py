"""The records of a part: what its encoding computes, at positions near and far, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posenc import functional, positions as _positions
from posenc._core.arrays.array import library
from posenc._core.errors import PosencError
from posenc._core.positions.builder import Positions
from posenc._core.positions.scene import SceneRule
from posenc._core.spec.spec import Spec
from posenc.detect.contract.contract import Check, Part
from posenc.detect.fit import tolerances, turns
from posenc.detect.subject import refuse_if
from posenc.encodings.api import BiasSpec, RelativeSpec, RotaryMagnitude, RotarySpec, TableSpec
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.rotary.xpos import XPos
from posenc.encodings.table.learned import Learned

PLACES = (0, 1, 2, 257, 4095, 4096, 4097, 131_071, 2**20)
NEAR = np.arange(6, dtype=np.int64)
MOST = 2**18  # numbers in one record
MOST_LEARNED = 2**23  # parameters that numbers are computed from
QUERY, KEY = (7, 3, 17), (5, 1, 13)
PAST = 257
MASK = np.array(((0, 0, 1, 1, 1), (1, 1, 1, 1, 1)))
SCENE = {"video": (3, 4, 6), "reference": (1, 3, 6)}  # frames, rows and columns
CUMULATIVE = (0, 3, 5, 9)
PICTURE = (3, (1, 2, 3), 2)
# What follows a video that lasts longer than it is wide differs between implementations.
SHORT, LONG = (2, (3, 2, 3), 2), (2, (3, 2, 2), 2)


class _LeftOut(Exception):  # noqa: N818
    """What no record states, in words."""


def ruled(count: int, rule: tuple[int, int, int] = QUERY) -> np.ndarray:
    """Numbers that any language can compute, exact in every dtype: ((a c + b) mod n - h) / 8."""
    factor, shift, modulus = rule
    return ((factor * np.arange(count, dtype=np.int64) + shift) % modulus - modulus // 2) / 8.0


def records(parts: Sequence[Part]) -> tuple[tuple[Part, ...], tuple[Check, ...]]:
    """The parts, with what is left out of each, and what can be computed of them."""
    stated, checks = [], []
    for part in parts:
        own, left_out = _records(part)
        stated.append(part.replace(left_out=tuple(left_out)))
        checks += own
    return tuple(stated), (*checks, *sequences(parts))


def _records(part: Part) -> tuple[list[Check], list[str]]:
    makers = {RotarySpec: _rotary, TableSpec: _table, BiasSpec: _scores, RelativeSpec: _scores}
    maker = next((m for kind, m in makers.items() if isinstance(part.spec, kind)), None)
    checks: list[Check] = []
    left_out: list[str] = []
    try:
        if maker is not None:
            checks += maker(part, part.spec)
    except _LeftOut as reason:
        left_out.append(str(reason))
    except PosencError as error:
        left_out.append(f"its numbers cannot be computed: {error}")
    if maker is not None and not checks and not left_out:
        left_out.append("its numbers: no position that is tried here is within its reach")
    if part.temperature is not None:
        places = np.array(_places(part))
        factors = factors_of(part.temperature, places)
        checks.append(_check(part, "temperature", positions=places, factors=factors))
    return checks, left_out


def alike(value: Any, own: Any, rtol: float, atol: float) -> bool:
    """Whether two values of records are the same, numbers and lists of them but for rounding."""
    if type(own) in (str, type(None)):
        return type(value) is type(own) and bool(value == own)
    return np.shape(value) == np.shape(own) and np.allclose(value, own, rtol=rtol, atol=atol)


def factors_of(temperature: Any, positions: np.ndarray) -> np.ndarray:
    """The factors on the scores of queries at positions."""
    if temperature is None:
        return np.ones(len(positions))
    return np.asarray(temperature.factors(positions, dtype=np.float64, xp=library(np)))


def _check(part: Part, check: str, state: Any = "any", **data: Any) -> Check:
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
        rows += [(row + [0] * axes)[:axes] for row in ([257, 31, 5, 2], [5, 257, 31, 3])]
    return np.array(rows, dtype=np.int64)


def _bounds(bounds: Mapping[str, Any], *at: int, prefix: str = "tolerance") -> dict[str, Any]:
    """Bounds by dtype as keys of a record, each at one place where one is named."""
    return {f"{prefix}_{dtype}": float(b[at]) if at else b for dtype, b in bounds.items()}


# --- rotations ------------------------------------------------------------------------------------


def _rotary(part: Part, spec: Any) -> Iterator[Check]:
    if not isinstance(spec, (RoPE, XPos)):
        own = spec.shapes or spec.per_head is not None
        why = "are learned, or differ by head" if own else "follow no ladder that a file can tell"
        why = "of queries stand apart from those of keys" if spec.quarters else why
        raise _LeftOut(f"angles: those of {type(spec).__name__} {why}")
    refuse_if(
        spec.dim > MOST // 16,
        f"angles: a width of {spec.dim} is too many numbers for a file",
        _LeftOut,
    )
    if spec.phase == "float32":
        spec = spec.replace(phase="exact")  # the rounding of its angles is a tolerance here
    if not spec.needs_length or spec.lengths is None:
        yield from _turns(part, spec.at(1), "any", {})
        return
    first = spec.lengths[0]
    for state, length in (("short", first), ("long", max(part.length or 0, 2 * first))):
        yield from _turns(part, spec.at(length), state, {"length": length})


def _turns(part: Part, spec: Any, state: str, known: dict[str, int]) -> Iterator[Check]:
    sided, magnitude, pairing = isinstance(spec, XPos), spec.magnitude_of_scores, spec.channels
    axis = [0] * spec.pairs if sided else list(spec.arrangement.layout(spec.pairs).axis)
    start = 0 if sided else spec.arrangement.start
    frequencies, factor = functional.frequencies(spec), float(spec.attention_factor)
    first, second = np.array(pairing.channels(spec.dim)).T
    order = "half" if pairing.output == "half" else pairing.order
    first_out, second_out = np.array(pairing.replace(order=order).channels(spec.dim)).T
    query, key = ruled(spec.dim), ruled(spec.dim, KEY)
    yield _check(
        part, "frequencies", state, **known, width=spec.dim, channels=pairing.part,
        pairing=pairing.order, first=first, second=second, first_out=first_out,
        second_out=second_out, sign=-1 if pairing.direction == "backward" else 1,
        axes=len(spec.axes), axis=axis, start=start, frequencies=frequencies,
        frequencies_float32=frequencies.astype(np.float32),
        **({} if sided else {"attention_factor": factor}),
        logit_factor=float(spec.logit_factor), acts=magnitude.at, query=query, key=key,
    )  # fmt: skip
    spots = _points(part, len(spec.axes))
    if known:
        spots = spots[spots.max(-1) < known["length"]]
    if sided:  # its sizes leave the range of numbers
        spots = spots[np.abs(spots - spec.centre).max(-1) <= spec.reach("float32")]
    bare = spots if len(spec.axes) > 1 else spots[:, 0]
    cos, sin = functional.cos_sin(spec, bare, dtype="float64")
    tall = (len(spots), 1)
    queries = functional.rotate(spec, np.tile(query, tall), positions=bare, role="query")
    keys = functional.rotate(spec, np.tile(key, tall), positions=bare, role="key")
    warm = factors_of(magnitude.temperature, spots[:, 0])
    size = max(1.0, float(np.abs([queries, keys]).max())) if sided else factor
    bounds = tolerances.of_angles((spots + start)[:, axis] * frequencies, frequencies, size)
    off = {dtype: bound.max(-1) for dtype, bound in bounds.items()}
    after = tolerances.of_turned(off, size)
    for i, row in enumerate(spots):
        yield _check(
            part, "angles", state, **known, position=row,
            **({} if sided else {"cos": cos[i], "sin": sin[i]}), rotated_query=queries[i],
            rotated_key=keys[i], temperature=warm[i], **_bounds(off, i),
            **_bounds(after, i, prefix="rotated_tolerance"),
        )  # fmt: skip
    factors = (float(spec.logit_factor) * warm)[:, None]
    rounded = tolerances.of_scores(queries, keys, after, np.abs(factors))
    # Summed by NumPy, in an order that no processor changes, as one does that of `@`.
    scores = factors * (queries[:, None] * keys).sum(-1)
    yield _check(part, "scores", state, **known, positions=spots, scores=scores, **_bounds(rounded))


# --- tables ---------------------------------------------------------------------------------------


def _table(part: Part, spec: Any) -> Iterator[Check]:
    if isinstance(spec, Learned):
        yield _rows(part, spec)
        return
    refuse_if(spec.shapes, f"rows: those of {type(spec).__name__} are learned", _LeftOut)
    points, several = _points(part, len(spec.axes)), len(spec.axes) > 1
    if isinstance(part.positions, Positions) and part.positions.builder == "grid":
        sizes = dict(zip(part.positions.axes or spec.axes, (2, 3, 2, 2), strict=False))
        real = {} if spec.coordinates == "integer" else {"dtype": "float64"}
        points = np.unique(part.positions.build(sizes, **real), axis=0)

    def rows_at(spots: np.ndarray) -> np.ndarray:
        return np.asarray(
            functional.table(spec, spots if several else spots[:, 0], dtype="float64")
        )

    # Where the table has a row.
    spots = np.array([p for p in points if turns.attempt(rows_at, p[None]) is not None])
    width = spec.dim if spec.width == spec.dim else spec.width - spec.dim
    refuse_if(
        width > MOST // max(1, len(spots)),
        f"rows: {len(spots)} of {width} numbers are too many for a file",
        _LeftOut,
    )
    rows = rows_at(spots)
    bounds = row_bounds(spec, spots, rows)
    for i, row in enumerate(rows):
        yield _check(
            part, "table", position=spots[i], row=row, embedding_scale=spec.embedding_scale,
            **_bounds(bounds, i),
        )  # fmt: skip


def row_bounds(spec: Any, spots: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Bounds of rows of sines; none for other tables, whose engines may compute them otherwise."""
    frequencies = functional.frequencies(spec) if hasattr(spec, "matrix") else np.empty((0, 0))
    if frequencies.ndim != 1:
        return {}
    # Whichever coordinate a pair reads, it is at most the largest.
    angles = np.abs(spots).max(-1)[:, None] * frequencies
    return {
        dtype: bound.max(-1)
        for dtype, bound in tolerances.of_angles(
            angles, frequencies, max(1.0, float(np.abs(rows).max()))
        ).items()
    }


def _rows(part: Part, spec: Learned) -> Check:
    refuse_if(
        len(spec.axes) > 1, f"rows: a position has the coordinates {', '.join(spec.axes)}", _LeftOut
    )
    limit = spec.limits[0]
    places = np.array([p for p in sorted({*_places(part), limit - 1}) if p < limit])
    return _check(
        part, "rows", positions=places, rows=places + spec.start, length=limit, start=spec.start,
        width=spec.dim, **({} if spec.pad is None else {"pad": spec.pad}),
    )  # fmt: skip


# --- scores ---------------------------------------------------------------------------------------


def _scores(part: Part, spec: Any) -> Iterator[Check]:
    """Biases, or what positions add to products of queries and keys."""
    check = spec.kind
    count = sum(map(math.prod, spec.shapes.values()))
    what = "biases" if check == "bias" else "scores"
    refuse_if(
        count > MOST_LEARNED, f"{what}: {type(spec).__name__} has {count} parameters", _LeftOut
    )
    # By the rule of queries, as a model's own are in its checkpoint.
    params = {k: ruled(math.prod(shape)).reshape(shape) for k, shape in spec.shapes.items()}
    shapes = {f"shape_{name}": shape for name, shape in spec.shapes.items() if shape}
    heads: int = getattr(spec, "count", 1) if spec.heads is None else spec.heads
    sides = list(_sides(part, spec, heads))
    for q, k in sides if check == "bias" else sides[:1]:
        if check == "bias":
            try:
                numbers = functional.bias(spec, q, k, params=params or None, dtype="float64")
            except PosencError:  # the far positions of a window, or of a table that ends
                continue
        else:
            shape = (heads, len(q), spec.dim)
            queries, keys = (ruled(math.prod(shape), r).reshape(shape) for r in (QUERY, KEY))
            numbers = functional.relative(spec, queries, keys, q, k, params=params or None)
        refuse_if(
            numbers.size > MOST,
            f"{check}: {numbers.size} numbers are too many for a file",
            _LeftOut,
        )
        finite = np.isfinite(numbers)
        size = max(1.0, float(np.abs(numbers[finite]).max(initial=0.0)))
        yield _check(
            part, check, q_positions=q, k_positions=k, axes=q.shape[1] if q.ndim > 1 else 1,
            heads=heads, **({} if check == "bias" else {"width": spec.dim}), place=spec.place,
            **shapes,
            **{check: np.where(finite, numbers, -np.finfo(np.float64).max)},
            **_bounds({dtype: 8 * unit * size for dtype, unit in tolerances.ROUNDING.items()}),
        )  # fmt: skip


def _sides(part: Part, spec: Any, heads: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions of queries and keys: a small square, and the row of a late query."""
    axes = len(spec.axes)
    if axes > 1:
        window = getattr(spec, "window", None)
        sizes = window if isinstance(window, tuple) and len(window) == axes else (2, 3, 2, 1)
        cells = _positions.grid([min(n, 3) for n in (*sizes, *[1] * axes)][:axes])
        yield cells, cells
        return
    yield NEAR, NEAR
    last = (part.original_length or part.length or 4097) - 1
    far = np.array([p for p in _places(part) if p <= last], dtype=np.int64)
    if last > NEAR[-1] and heads * len(far) <= MOST:
        yield np.array([last], dtype=np.int64), far


# --- which token stands where ---------------------------------------------------------------------


def sequences(parts: Sequence[Part]) -> Iterator[Check]:
    """Positions of padded, packed and cached tokens, and of pictures among text."""
    for part in parts:
        spec: Spec | None = part.spec
        if isinstance(rule := part.positions, SceneRule):
            yield from _scene(part, rule)
            continue
        if spec is None or getattr(spec, "coordinates", "integer") != "integer":
            continue
        axes = tuple(spec.axes)
        if len(axes) == 1 and (rule is None or rule.builder in ("arange", "from_mask")):
            yield from _counted(part, rule)
        elif axes == ("t", "h", "w") and (rule is None or rule.builder == "multimodal"):
            yield from _pictures(part, rule or Positions("multimodal"))


def _scene(part: Part, rule: SceneRule) -> Iterator[Check]:
    """Positions of a scene that has every part of the rule once."""
    sizes = {one.name: SCENE.get(one.name, (1, 4, 6)) if one.is_grid else 5 for one in rule.parts}
    facts: dict[str, Any] = {
        name: (1.0, 1.0, 1.0) if fact == "required" else fact for name, fact in rule.facts
    }
    scene = ", ".join(f"{name} {size}" for name, size in sizes.items())
    placed = rule.replace(ends=()).build([*sizes.items()], **facts)  # as angles, beyond a table
    for name, rows in placed.items():
        yield _check(
            part, "positions", case=f"scene: {name}", scene=scene, order=", ".join(placed.order),
            shape=rows.shape, positions=rows,
            facts=", ".join(f"{fact}={value}" for fact, value in facts.items()),
        )  # fmt: skip


def _counted(part: Part, rule: Positions | None) -> Iterator[Check]:
    first = 0 if rule is None else int(rule.start or 0)
    magnitude = getattr(part.spec, "magnitude_of_scores", RotaryMagnitude())
    # A rotation and a bias see distances alone, which are the same wherever a row begins to count.
    near = (
        part.kind in ("rotary", "bias", "relative")
        and (part.temperature or magnitude.temperature) is None
    )
    if rule is not None and rule.builder == "arange" and not near:
        padded = np.tile(rule.build(MASK.shape[1]), (len(MASK), 1))
    else:
        padded = (Positions("from_mask") if rule is None or near else rule).build(MASK)
    shift = {"shift": "any"} if near else {}
    packed = _positions.packed(np.array(CUMULATIVE)) + first
    yield from (
        _check(part, "positions", **data)
        for data in (
            {"case": "left padding", "shape": MASK.shape, "mask": MASK, **shift,
             "positions": padded},
            {"case": "packed", "shape": packed.shape, "cumulative_lengths": CUMULATIVE,
             "positions": packed},
            {"case": "cached step", "shape": (1,), "past": PAST, "tokens": 1,
             "positions": [PAST + first]},
        )
    )  # fmt: skip


def _pictures(part: Part, rule: Positions) -> Iterator[Check]:
    video = SHORT if rule.after is None else LONG
    for case, layout in (("text and picture", PICTURE), ("text and video", video)):
        ids = rule.build(layout)
        triples = [(n, 0, 0) if isinstance(n, int) else n for n in layout]
        yield _check(part, "positions", case=case, shape=ids.shape, layout=triples, positions=ids)

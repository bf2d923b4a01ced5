"""The laws that any implementation can be held to, from its numbers alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from posenc.testing.lab import EPSILONS, FAR, NEAR, Broken, Lab, law
from posenc.testing.subject import NotOffered

__all__: list[str] = []

Found = tuple[float, float]
PLACES = (0, 1, 2, 3, 17, 100, 255, 256, 257, 1000)
FAR_PLACES = {"2^17": 2**17, "2^20": 2**20, "2^24": 2**24, "2^31": 2**31}


def largest(x: np.ndarray) -> float:
    """The largest entry, which bounds are multiples of."""
    return float(np.max(np.abs(x), initial=0.0))


# --- rotations ----------------------------------------------------------------------------------


@law("norm", "every position turns: lengths change by one factor", "rotary")
def norm(lab: Lab) -> Found:
    """A rotation keeps lengths; an attention factor is the same at every position."""
    x = lab.x(200)
    y = lab.rotate(x, np.arange(200))
    ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x.astype(np.float64), axis=-1)
    return lab.same(ratio, np.full_like(ratio, ratio[0, 0, 0]), 1e-5, positions=np.arange(200))


@law("linear", "the turn of a sum is the sum of the turns", "rotary")
def linear(lab: Lab) -> Found:
    """Nothing but the position decides the rotation."""
    places = np.arange(20)
    x, y = lab.x(20), lab.x(20, seed=1)
    got = lab.rotate(2 * x + y, places)
    want = 2 * lab.rotate(x, places) + lab.rotate(y, places)
    return lab.same(got, want, 1e-5 * largest(want), positions=places, seeds=[0, 1])


@law("shift", "scores depend on the distance of query and key alone", "rotary")
def shift(lab: Lab) -> Found:
    """<R(m) q, R(n) k> = <R(m + s) q, R(n + s) k>, from one sequence of equal tokens."""
    length = 920
    q, k = lab.x(1, batch=1, heads=1), lab.x(1, batch=1, heads=1, seed=1)
    turned = [lab.rotate(np.repeat(x, length, axis=2), np.arange(length))[0, 0] for x in (q, k)]
    scores = turned[0] @ turned[1].T
    size = float(np.linalg.norm(q) * np.linalg.norm(k))
    found = (0.0, NEAR * size)
    for m, n, s in ((0, 0, 7), (5, 2, 1), (3, 90, 100), (17, 4, 900)):
        near, far = scores[m : m + 1, n], scores[m + s : m + s + 1, n + s]
        given: dict[str, Any] = {"query at": [m, m + s], "key at": [n, n + s]}
        found = max(found, lab.same(far, near, NEAR * size, **given))
    return found


@law("heads", "heads do not see each other: 1, 3 and 12 of them", "rotary")
def heads(lab: Lab) -> Found:
    """Head h of many is what it would be alone."""
    places = np.arange(9)
    x = lab.x(9, heads=12)
    alone = np.concatenate([lab.rotate(x[:, h : h + 1], places) for h in range(12)], axis=1)
    worst = lab.same(lab.rotate(x, places), alone, 1e-6 * largest(x), heads=12)
    return max(worst, lab.same(lab.rotate(x[:, :3], places), alone[:, :3], worst[1], heads=3))


@law("decode", "one token at a time gives the rows of the whole", "rotary")
def decode_rotary(lab: Lab) -> Found:
    """What a cached key was turned by is what it would be turned by in a prefill."""
    x = lab.x(24)
    whole = lab.rotate(x, np.arange(24))
    steps = [lab.rotate(x[:, :, p : p + 1], [p]) for p in range(24)]
    return lab.same(np.concatenate(steps, axis=2), whole, 1e-6 * largest(x), length=24)


@law("history", "an answer does not depend on the calls before it", "rotary")
def history_rotary(lab: Lab) -> Found:
    """A length, a longer one, the first again; for a short length and one of middle size."""
    x = lab.x(300)
    found = (0.0, 0.0)
    for few in (8, 100):
        made = lab.subject.build()
        first = lab.rotate(x[:, :, :few], np.arange(few), made=made)
        lab.rotate(x, np.arange(300), made=made)
        again = lab.rotate(x[:, :, :few], np.arange(few), made=made)
        found = lab.same(again, first, 0.0, calls=f"{few} tokens, 300 tokens, {few} tokens")
    return found


@law("history of dtypes", "half precision first leaves later float32 exact", "rotary")
def history_of_dtypes_rotary(lab: Lab) -> Found:
    """A table made for a half-precision call must not serve float32."""
    made = lab.subject.build()
    x = lab.x(600)
    places = np.arange(600)
    lab.rotate(x, places, dtype="bfloat16", made=made)
    after = lab.rotate(x, places, made=made)
    fresh = lab.rotate(x, places, made=lab.subject.build())
    given = {"calls": "bfloat16, then float32", "positions": places}
    return lab.same(after, fresh, 1e-5 * largest(x), **given)


@law("padding", "left padding does not move the tokens behind it", "rotary")
def padding(lab: Lab) -> Found:
    """Rows with 3 and 0 padding tokens, their positions counted from the first real one."""
    x = lab.x(12)
    places = np.stack([np.maximum(np.arange(12) - 3, 0), np.arange(12)])
    y = lab.rotate(x, places)
    alone = lab.rotate(x[:1, :, 3:], np.arange(9))
    return lab.same(y[:1, :, 3:], alone, 1e-6 * largest(x), positions=places)


@law("packing", "packed sequences count from 0 each", "rotary")
def packing(lab: Lab) -> Found:
    """Three sequences in one row."""
    x = lab.x(12, batch=1)
    places = np.array([0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5])
    y = lab.rotate(x, places)
    parts = [lab.rotate(x[:, :, a:b], np.arange(b - a)) for a, b in ((0, 4), (4, 6), (6, 12))]
    return lab.same(y, np.concatenate(parts, axis=2), 1e-6 * largest(x), positions=places)


@law("rows", "each row of a batch has positions of its own", "rotary")
def rows_rotary(lab: Lab) -> Found:
    """As in a batch of decoding steps."""
    x = lab.x(1, batch=3)
    places = np.array([[5], [0], [900]])
    y = lab.rotate(x, places)
    alone = np.concatenate([lab.rotate(x[b : b + 1], places[b]) for b in range(3)])
    return lab.same(y, alone, 1e-6 * largest(x), positions=places)


@law("offset", "a sequence may start anywhere", "rotary")
def offset_rotary(lab: Lab) -> Found:
    """Positions 500, 501, … as part of a longer sequence."""
    x = lab.x(510)
    whole = lab.rotate(x, np.arange(510))
    part = lab.rotate(x[:, :, 500:], np.arange(500, 510))
    return lab.same(part, whole[:, :, 500:], NEAR * largest(x), positions=np.arange(500, 510))


@law("negative", "a negative position turns back", "rotary", refusable=True)
def negative(lab: Lab) -> Found:
    """R(-p) R(p) = 1, up to a common factor squared."""
    x = lab.x(4)
    places = np.array([1, 2, 3, 4])
    back = lab.rotate(lab.rotate(x, places).astype(np.float32), -places[::-1][::-1])
    factor = float(np.linalg.norm(back) / np.linalg.norm(x))
    return lab.same(back, factor * x, 1e-5 * largest(x) * factor, positions=-places)


def _far(power: str) -> Any:
    def check(lab: Lab) -> Found:
        """Against the named spec, or by the law R(a + b) = R(a) R(b)."""
        near = FAR_PLACES[power]
        places = np.arange(near - 5, near - 1)
        x = lab.x(4)
        got = lab.rotate(x, places)
        try:
            want = lab.truth(x, places)
            how = "the spec"
        except NotOffered:
            half = places // 2
            want = lab.rotate(lab.rotate(x, half).astype(np.float32), places - half)
            factor = np.linalg.norm(lab.rotate(x, [0] * 4)) / np.linalg.norm(x)
            want, how = want / factor, "R(a) R(b)"
        return lab.same(got, want, FAR * largest(x), positions=places, against=how)

    return check


for _power in FAR_PLACES:
    law(f"near {_power}", f"exact below {_power}", "rotary", refusable=True)(_far(_power))


def _half(dtype: str) -> Any:
    def check(lab: Lab) -> Found:
        """Within the rounding of the inputs and outputs of what float32 gives."""
        x = lab.x(5000, batch=1, heads=1)
        x = lab.subject.numpy(lab.subject.array(x, dtype)).astype(np.float32)
        places = np.arange(5000)
        got = lab.rotate(x, places, dtype=dtype)
        try:
            want = lab.truth(x, places)
        except NotOffered:
            want = lab.rotate(x, places)
        # cos and sin, two products and a sum may each be rounded, no more.
        bound = 3 * EPSILONS[dtype] * largest(x)
        return lab.same(got, want, bound, positions=places, dtype=dtype)

    return check


for _dtype in ("bfloat16", "float16"):
    law(_dtype, f"{_dtype} costs its own rounding, no more", "rotary")(_half(_dtype))


@law("dtype", "the answer has the dtype of the input", "rotary")
def dtype_kept(lab: Lab) -> None:
    """float32 in, float32 out; and so for half precision."""
    for dtype in ("float32", "bfloat16", "float16"):
        x = lab.subject.array(lab.x(2), dtype)
        y = lab.subject.call(lab.made, x, np.arange(2))
        if y.dtype != x.dtype:
            raise Broken(f"{dtype} becomes {y.dtype}", {"dtype": dtype}, None, None)


@law("input", "the input is not written to, whatever its strides", "rotary")
def input_kept(lab: Lab) -> Found:
    """A transposed view, as attention makes it, gives what a copy gives."""
    values = np.ascontiguousarray(lab.x(6).transpose(0, 2, 1, 3))
    given = lab.subject.array(values, "float32")
    swapped = given.swapaxes(1, 2)
    got = lab.subject.numpy(lab.subject.call(lab.made, swapped, np.arange(6)))
    kept = lab.subject.numpy(given)
    lab.same(kept, values.astype(np.float64), 0.0, view="(batch, seq, heads, dim) transposed")
    want = lab.rotate(values.transpose(0, 2, 1, 3), np.arange(6))
    return lab.same(got, want, 1e-6 * largest(values), view="(batch, seq, heads, dim) transposed")


@law("spec", "equal to the named spec at positions below 1024", "rotary")
def spec_rotary(lab: Lab) -> Found:
    """In float32, against float64."""
    x, places = lab.x(1024, batch=1, heads=2), np.arange(1024)
    want = lab.truth(x, places)
    return lab.same(lab.rotate(x, places), want, NEAR * largest(x), positions=places)


@law("odd width", "an odd width is turned or refused", "rotary", refusable=True)
def odd_rotary(lab: Lab) -> Found:
    """No channel may be lost, and lengths must be kept."""
    odd = lab.at(dim=lab.subject.dim + 1)
    x = odd.x(20)
    y = odd.rotate(x, np.arange(20))
    ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x.astype(np.float64), axis=-1)
    given = {"dim": odd.subject.dim}
    return odd.same(ratio, np.full_like(ratio, ratio[0, 0, 0]), 1e-5, **given)


# --- tables -------------------------------------------------------------------------------------


def _places(lab: Lab, count: int, start: int = 0) -> np.ndarray:
    """Positions start, start + 1, …, or for several axes the cells of a grid that is not square."""
    axes = lab.subject.axes
    if axes == 1:
        return np.arange(start, start + count)
    sizes = (3, 5, 7)[:axes]
    cells = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1)
    return cells.reshape(-1, axes) + start


@law("distinct", "no two positions below 256 share a row", "table")
def distinct(lab: Lab) -> Found:
    """Otherwise a model cannot tell them apart."""
    places = _places(lab, 256)
    rows = lab.rows(places)
    away = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    np.fill_diagonal(away, np.inf)
    i, j = np.unravel_index(int(np.argmin(away)), away.shape)
    nearest, least = float(away[i, j]), 1e-6 * max(1e-30, largest(rows))
    if nearest <= least:
        a, b = places[i].tolist(), places[j].tolist()
        raise Broken(f"positions {a} and {b} have one row", {"positions": [a, b]}, nearest, least)
    return nearest, least


@law("decode", "one position at a time gives the rows of the whole", "table")
def decode_table(lab: Lab) -> Found:
    """A step of decoding adds what a prefill would have added."""
    places = _places(lab, 24)
    whole = lab.rows(places)
    steps = np.concatenate([lab.rows(places[p : p + 1]) for p in range(len(places))])
    return lab.same(steps, whole, 1e-6 * largest(whole), positions=places)


@law("rows", "each row of a batch has positions of its own", "table")
def rows_table(lab: Lab) -> Found:
    """As with left padding, or in a batch of decoding steps."""
    places = np.array([[0, 0, 1, 2], [0, 1, 2, 3]])
    if lab.subject.axes > 1:
        raise NotOffered("a grid is the same in every row")
    whole = lab.rows(np.arange(4))
    return lab.same(lab.rows(places), whole[places], 1e-6 * largest(whole), positions=places)


@law("offset", "a sequence may start anywhere", "table")
def offset_table(lab: Lab) -> Found:
    """Positions 100, 101, … as part of a longer sequence."""
    if lab.subject.axes > 1:
        raise NotOffered("a grid starts at 0 on each axis")
    whole = lab.rows(np.arange(110))
    return lab.same(lab.rows(np.arange(100, 110)), whole[100:], NEAR * largest(whole), start=100)


@law("history", "an answer does not depend on the calls before it", "table")
def history_table(lab: Lab) -> Found:
    """Short, long, short again."""
    made, few, many = lab.subject.build(), _places(lab, 8), _places(lab, 300)
    first = lab.rows(few, made=made)
    lab.rows(many, made=made)
    return lab.same(lab.rows(few, made=made), first, 0.0, calls="few, many, few")


@law("history of dtypes", "half precision first leaves later float32 exact", "table")
def history_of_dtypes_table(lab: Lab) -> Found:
    """A table cached for a half-precision call must not serve float32."""
    made, places = lab.subject.build(), _places(lab, 300)
    lab.rows(places, dtype="bfloat16", made=made)
    after = lab.rows(places, made=made)
    fresh = lab.rows(places, made=lab.subject.build())
    return lab.same(after, fresh, 1e-6 * largest(fresh), calls="bfloat16, then float32")


@law("axes", "every axis of a grid leaves its mark", "table")
def axes(lab: Lab) -> Found:
    """A step along any one axis changes the row; widths 2, 4, 6, 8, 12 and the asked one."""
    count = lab.subject.axes
    if count == 1:
        raise NotOffered("positions have one axis")
    worst = np.inf
    for dim in (lab.subject.dim, 12, 8, 6, 4, 2):
        bench = lab if dim == lab.subject.dim else lab.at(dim=dim)
        try:
            origin = bench.rows(np.zeros((1, count)))
            stepped = [bench.rows(np.eye(count, dtype=np.int64)[a : a + 1]) for a in range(count)]
        except Broken:
            raise
        except Exception:  # noqa: BLE001, S112
            continue  # a width that is refused loses nothing
        for axis, rows in enumerate(stepped):
            away = largest(rows - origin)
            if away < 1e-6:
                says = f"a step along axis {axis} of {count} changes nothing at width {dim}"
                raise Broken(says, {"dim": dim, "axis": axis}, away, 1e-6)
            worst = min(worst, away)
    return worst, 1e-6


@law("grid", "a cell has one row, whatever the size of the grid around it", "table")
def grid(lab: Lab) -> Found:
    """Cells of a 3 by 5 grid, alone and inside a larger one that is wider than high."""
    count = lab.subject.axes
    if count == 1:
        raise NotOffered("positions have one axis")
    small = _places(lab, 0)
    corner = np.full((1, count), 9)
    corner[0, 0] = 4
    inside = lab.rows(np.concatenate([small, corner]))[:-1]
    return lab.same(lab.rows(small), inside, 1e-6 * largest(inside), cells=small)


def _far_table(power: str) -> Any:
    def check(lab: Lab) -> Found:
        """Against the named spec."""
        near = FAR_PLACES[power]
        if lab.subject.axes > 1:
            raise NotOffered("a grid of that size is not built")
        places = np.arange(near - 5, near - 1)
        want = lab.truth(places)
        return lab.same(lab.rows(places), want, FAR * largest(want), positions=places)

    return check


for _power in FAR_PLACES:
    law(f"near {_power}", f"exact below {_power}", "table", refusable=True)(_far_table(_power))


def _half_table(dtype: str) -> Any:
    def check(lab: Lab) -> Found:
        """Within one rounding of what float32 gives."""
        places = _places(lab, 1000)
        try:
            want = lab.truth(places)
        except NotOffered:
            want = lab.rows(places)
        got = lab.rows(places, dtype=dtype)
        return lab.same(got, want, EPSILONS[dtype] * largest(want), positions=places, dtype=dtype)

    return check


for _dtype in ("bfloat16", "float16"):
    law(_dtype, f"{_dtype} costs its own rounding, no more", "table")(_half_table(_dtype))


@law("spec", "equal to the named spec", "table")
def spec_table(lab: Lab) -> Found:
    """In float32, against float64, at the first 256 positions."""
    places = _places(lab, 256)
    want = lab.truth(places)
    return lab.same(lab.rows(places), want, NEAR * largest(want), positions=places)


@law("odd width", "an odd width is filled or refused", "table", refusable=True)
def odd_table(lab: Lab) -> Found:
    """No position may lose its mark."""
    return distinct(lab.at(dim=lab.subject.dim + 1 - lab.subject.dim % 2))


# --- biases -------------------------------------------------------------------------------------


@law("shift", "a bias depends on the distance alone", "bias")
def shift_bias(lab: Lab) -> Found:
    """b(m + s, n + s) = b(m, n)."""
    places = np.arange(120)
    whole = lab.bias(places, places)
    bound = 1e-6 * largest(whole)
    return lab.same(whole[:, 100:, 100:], whole[:, :20, :20], bound, shift=100)


@law("decode", "the bias of one query is its row of the whole", "bias")
def decode_bias(lab: Lab) -> Found:
    """A single row of queries must neither be stretched nor start at 0."""
    k = np.arange(16)
    whole = lab.bias(k, k)
    for p in (15, 7):
        row = lab.bias([p], k[: p + 1])
        found = lab.same(row, whole[:, p : p + 1, : p + 1], 1e-6 * largest(whole), query=p)
    return found


@law("rectangle", "fewer queries than keys: the last rows of the whole", "bias")
def rectangle(lab: Lab) -> Found:
    """As with a cache of earlier keys."""
    k = np.arange(16)
    whole = lab.bias(k, k)
    return lab.same(lab.bias(k[12:], k), whole[:, 12:], 1e-6 * largest(whole), queries=k[12:])


@law("history", "an answer does not depend on the calls before it", "bias")
def history_bias(lab: Lab) -> Found:
    """Short, long, short again."""
    made = lab.subject.build()
    first = lab.bias(np.arange(6), np.arange(6), made=made)
    lab.bias(np.arange(40), np.arange(40), made=made)
    again = lab.bias(np.arange(6), np.arange(6), made=made)
    return lab.same(again, first, 0.0, calls="6 tokens, 40 tokens, 6 tokens")


@law("rows", "each row of a batch has positions of its own", "bias")
def rows_bias(lab: Lab) -> Found:
    """As with left padding."""
    q = np.array([[0, 1, 2], [7, 8, 9], [0, 0, 1]])
    got = lab.bias(q, q)
    alone = np.stack([lab.bias(row, row) for row in q])
    return lab.same(got, alone, 1e-6 * largest(alone), positions=q)


@law("far", "distances of 4095 and 65535 keep their bias", "bias", refusable=True)
def far_bias(lab: Lab) -> Found:
    """Against the named spec."""
    q, k = np.array([65_535]), np.array([0, 1, 61_440, 65_534, 65_535])
    want = lab.truth(q, k)
    return lab.same(lab.bias(q, k), want, 1e-6 * max(1.0, largest(want)), queries=q, keys=k)


@law("head counts", "1, 2, 3, 8, 12, 20 and 71 heads have the slopes of the spec", "bias")
def head_counts(lab: Lab) -> Found:
    """Counts that are no power of two are where recipes differ."""
    q = k = np.arange(9)
    found = (0.0, 1e-6)
    for count in (1, 2, 3, 8, 12, 20, 71):
        bench = lab.at(heads=count)
        want = bench.truth(q, k)
        bound = 1e-6 * max(1.0, largest(want))
        found = max(found, bench.same(bench.bias(q, k), want, bound, heads=count))
    return found


@law("spec", "equal to the named spec", "bias")
def spec_bias(lab: Lab) -> Found:
    """In float32, against float64, for 64 by 64 positions."""
    q = k = np.arange(64)
    want = lab.truth(q, k)
    return lab.same(lab.bias(q, k), want, 1e-6 * max(1.0, largest(want)), queries=q)


@law("settings", "implementations of other bases do not share answers", "rotary", "table")
def settings(lab: Lab) -> Found:
    """One of base 10,000, then one of base 500,000, then the first again."""
    plain = answer(lab, lab.subject.build(base=10_000))
    other = answer(lab, lab.subject.build(base=500_000))
    away = largest(plain - other)
    if away < 1e-3:
        says = "the second has the answers of the first"
        raise Broken(says, {"bases": [10_000, 500_000]}, away, 1e-3)
    again = answer(lab, lab.subject.build(base=10_000))
    lab.same(again, plain, 0.0, bases=[10_000, 500_000, 10_000])
    return away, 1e-3


# --- of every kind ------------------------------------------------------------------------------


def answer(lab: Lab, made: Any) -> np.ndarray:
    """What `made` gives for the standard question of its kind."""
    if lab.subject.kind == "rotary":
        return lab.rotate(lab.x(40), np.arange(40), made=made)
    if lab.subject.kind == "table":
        return lab.rows(_places(lab, 40), made=made)
    return lab.bias(np.arange(20), np.arange(20), made=made)


@law("repeat", "two calls, and two instances, give the same bits", "rotary", "table", "bias")
def repeat(lab: Lab) -> Found:
    """Unless its parameters are drawn at random, which a state dict then carries over."""
    first = answer(lab, lab.made)
    lab.same(answer(lab, lab.made), first, 0.0, calls=2)
    other = lab.subject.build()
    if hasattr(other, "load_state_dict"):
        other.load_state_dict(lab.made.state_dict())
    return lab.same(answer(lab, other), first, 0.0, instances=2)


@law("deepcopy", "a deep copy answers alike", "rotary", "table", "bias")
def deepcopied(lab: Lab) -> Found:
    """As models are copied for an average of their weights."""
    first = answer(lab, lab.made)
    return lab.same(answer(lab, copy.deepcopy(lab.made)), first, 0.0)

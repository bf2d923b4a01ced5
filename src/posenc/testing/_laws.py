"""The laws that any implementation can be held to, from its numbers alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from posenc.testing.lab import EPSILONS, FAR, LONG, NEAR, Broken, Lab, law
from posenc.testing.subject import NotOffered

__all__: list[str] = []

Found = tuple[float, float]
PLACES = (0, 1, 2, 3, 17, 100, 255, 256, 257, 1000)
# A factor on all lengths is an attention factor, but none is this near 1.
LEAST_FACTOR = 2e-3
LENGTHS = (1, 2, 3, 5, 7, 13, 16, 17, 31, 33, 63, 64, 65, 127, 129)
FAR_PLACES = {"2^17": 2**17, "2^20": 2**20, "2^24": 2**24, "2^31": 2**31}


def largest(x: np.ndarray) -> float:
    """The largest entry, which bounds are multiples of."""
    return float(np.max(np.abs(x), initial=0.0))


# --- rotations ----------------------------------------------------------------------------------


@law("norm", "every position turns: lengths change by one factor, or not at all", "rotary")
def norm(lab: Lab) -> Found:
    """A rotation keeps lengths; an attention factor is the same at every position.

    Each channel is tried alone, so that one faulty pair of many is seen.
    """
    dim, places = lab.subject.dim, np.arange(200)
    x = lab.x(200)
    y = lab.rotate(x, places)
    ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x.astype(np.float64), axis=-1)
    factor = float(ratio[0, 0, 0])
    found = lab.same(ratio, np.full_like(ratio, factor), 1e-5, positions=places)
    alone = np.broadcast_to(np.eye(dim, dtype=np.float32)[:, None, None], (dim, 1, 24, dim))
    sizes = np.linalg.norm(lab.rotate(np.ascontiguousarray(alone), np.arange(24)), axis=-1)
    expected = np.where(np.abs(sizes - 1) < np.abs(sizes - factor), 1.0, factor)
    found = max(found, lab.same(sizes, expected, 1e-5, channel="one at a time"))
    if 1e-5 < abs(factor - 1) < LEAST_FACTOR:
        says = f"lengths are multiplied by {factor:.7g}, and no attention factor is so near to 1"
        raise Broken(says, {"positions": "0 to 199"}, abs(factor - 1), 1e-5)
    return found


@law("linear", "the turn of a sum is the sum of the turns", "rotary")
def linear(lab: Lab) -> Found:
    """Nothing but the position decides the rotation."""
    places = np.arange(20)
    x, y = lab.x(20), lab.x(20, seed=1)
    received = lab.rotate(2 * x + y, places)
    one = lab.rotate(x, places)
    expected = 2 * one + lab.rotate(y, places)
    found = lab.same(received, expected, 1e-5 * largest(expected), positions=places, seeds=[0, 1])
    for size in (2.0**10, 2.0**-10):
        received = lab.rotate(np.float32(size) * x, places) / size
        found = max(found, lab.same(received, one, 1e-6 * largest(one), times=size))
    return found


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


@law("heads", "heads do not see each other: 1, 3 and 72 of them", "rotary")
def heads(lab: Lab) -> Found:
    """Head h of many is what it would be alone."""
    places = np.arange(9)
    x = lab.x(9, heads=72)
    bound = 1e-6 * largest(x)
    whole = lab.rotate(x, places)
    # All heads at once as rows of a batch with one head, which is 1 call for 72.
    rows = lab.rotate(x.transpose(1, 0, 2, 3).reshape(-1, 1, *x.shape[2:]), places)
    alone = rows.reshape(72, 2, *x.shape[2:]).transpose(1, 0, 2, 3)
    found = lab.same(whole, alone, bound, heads=72)
    for h in (0, 1, 15, 16, 71):
        one = lab.rotate(x[:, h : h + 1], places)
        found = max(found, lab.same(whole[:, h : h + 1], one, bound, head=h, heads=72))
    return max(found, lab.same(lab.rotate(x[:, :3], places), whole[:, :3], bound, heads=3))


@law("batch", "rows of a batch do not see each other: 1, 2, 5 and 33 of them", "rotary")
def batch(lab: Lab) -> Found:
    """Row b of many is what it would be alone."""
    places = np.arange(7)
    x = lab.x(7, batch=33)
    whole = lab.rotate(x, places)
    found = (0.0, 1e-6 * largest(x))
    for count in (1, 2, 5):
        received = lab.rotate(x[-count:], places)
        found = max(found, lab.same(received, whole[-count:], found[1], rows=count))
    for b in (0, 1, 16, 32):
        one = lab.rotate(x[b : b + 1], places)
        found = max(found, lab.same(whole[b : b + 1], one, found[1], row=b))
    return found


@law("lengths", "a shorter sequence gives the first rows of a longer one", "rotary")
def lengths(lab: Lab) -> Found:
    """Odd lengths, powers of two, and their neighbours."""
    x = lab.x(130)
    whole = lab.rotate(x, np.arange(130))
    found = (0.0, 1e-6 * largest(x))
    for n in LENGTHS:
        received = lab.rotate(x[:, :, :n], np.arange(n))
        found = max(found, lab.same(received, whole[:, :, :n], found[1], length=n))
    return found


def _long(length: int) -> list[tuple[int, int, int, int]]:
    """(query, key, query, key): pairs of equal distances, near 0 and across powers of two."""
    found = []
    for power in range(8, length.bit_length()):
        edge = 2**power
        for q, k in ((7, 2), (90, 3), (edge // 2, 5)):
            if edge + q < length:
                found.append((q, k, edge + q - 4, edge + k - 4))
    return found


@law(
    "long",
    "scores depend on the distance alone, within 2^-7 of the lengths, in up to 133,000 tokens",
    "rotary",
)
def long_rotary(lab: Lab) -> Found:
    """One sequence of equal tokens, or the longest that is not refused."""
    # Small changes of an angle count most where no channel of one token outweighs the others.
    q, k = (np.sign(lab.x(1, batch=1, heads=1, seed=seed)) for seed in (0, 1))

    def ask(length: int) -> Any:
        places = np.arange(length)
        return [lab.rotate(np.repeat(x, length, axis=2), places)[0, 0] for x in (q, k)]

    length, turned = lab.longest(ask, LONG)
    bound = FAR * float(np.linalg.norm(q) * np.linalg.norm(k))
    found = (0.0, bound)
    for m, n, i, j in _long(length):
        near, far = turned[0][m] @ turned[1][n], turned[0][i] @ turned[1][j]
        given = {"query at": [m, i], "key at": [n, j], "length": length}
        found = max(found, lab.same(np.array([far]), np.array([near]), bound, **given))
    # A token that does not turn is not at the distance that it has from others, either.
    return max(found, _moves(lab, turned[0], q[0, 0, 0], length))


def _moves(lab: Lab, turned: np.ndarray, x: np.ndarray, length: int) -> Found:
    """Neighbours differ as they do at the start, wherever they are."""
    first = float(np.linalg.norm(turned[1] - turned[0]))
    away = np.linalg.norm(np.diff(turned, axis=0), axis=1)
    bound = FAR * float(np.linalg.norm(x))
    return lab.same(away, np.full_like(away, first), 4 * bound, length=length)


@law("widths", "the same share of a head turns at other widths: 32, 64, 128 and 256", "rotary")
def widths(lab: Lab) -> Found:
    """By the laws of `norm`, with the spec if it is named; else by how many channels turn."""
    share = _turning(lab) / lab.subject.dim
    tried, found = 0, (0.0, NEAR)
    for dim in (32, 64, 128, 256):
        bench = lab.at(dim=dim)
        try:
            bench.made  # noqa: B018 - made here, so that a width may be refused
            count = _turning(bench)
        except (Broken, NotOffered):
            raise
        except Exception:  # noqa: BLE001, S112 - a width that is refused turns nothing wrongly
            continue
        tried += 1
        if count not in (round(share * dim), _turning(lab)):
            says = f"{count} of {dim} channels turn, and {share:.3g} of {lab.subject.dim}"
            raise Broken(says, {"dim": dim}, float(count), share * dim)
        x, places = bench.x(40, batch=1, heads=2), np.arange(40)
        y = bench.rotate(x, places)
        ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x.astype(np.float64), axis=-1)
        found = max(found, bench.same(ratio, np.full_like(ratio, ratio[0, 0, 0]), 1e-5, dim=dim))
        if bench.subject.spec is not None:
            expected = bench.truth(x, places)
            found = max(found, bench.same(y, expected, 1e-5 * largest(x), dim=dim))
    if not tried:
        raise NotOffered("it has one width")
    return found


def _turning(lab: Lab) -> int:
    """How many channels turn within 2^20 positions, or as far as is not refused."""
    dim = lab.subject.dim
    x = np.broadcast_to(np.eye(dim, dtype=np.float32)[:, None, None], (dim, 1, 3, dim))

    def ask(start: int) -> np.ndarray:
        return lab.rotate(np.ascontiguousarray(x), np.arange(start, start + 3))[:, 0]

    first = ask(0)[:, 0]
    try:
        _, later = lab.longest(ask, (2**20, 2**17, 4_000, 700))
    except NotOffered:
        rows = np.ascontiguousarray(np.broadcast_to(x[:, :, :1], (dim, 1, 700, dim)))
        later = lab.rotate(rows, np.arange(700))[:, 0, -3:]
    return int((np.abs(later - first[:, None]).max(axis=(1, 2)) > 1e-5).sum())


@law("kept", "an answer stays what it was when others are asked", "rotary")
def kept(lab: Lab) -> Found:
    """A buffer that the next call writes over is no answer."""
    x, y = (lab.subject.array(lab.x(6, seed=seed), "float32") for seed in (0, 1))
    first = lab.subject.call(lab.made, x, np.arange(6))
    before = lab.subject.numpy(first).copy()
    lab.looked.at(np.arange(6), width=lab.subject.dim, heads=3, rows=2)
    lab.subject.call(lab.made, y, np.arange(6))
    return lab.same(lab.subject.numpy(first), before, 0.0, calls="x, y")


@law("decode", "one token at a time gives the rows of the whole", "rotary")
def decode_rotary(lab: Lab) -> Found:
    """What a cached key was turned by is what it would be turned by in a prefill."""
    x = lab.x(24)
    whole = lab.rotate(x, np.arange(24))
    steps = [lab.rotate(x[:, :, p : p + 1], [p]) for p in range(24)]
    return lab.same(np.concatenate(steps, axis=2), whole, 1e-6 * largest(x), length=24)


@law("history", "an answer does not depend on the calls before it", "rotary")
def history_rotary(lab: Lab) -> Found:
    """A length, longer ones up to 133,000, far positions, and after each the first again."""
    x = lab.x(1, batch=1, heads=1)
    found = (0.0, 0.0)
    for few in (8, 100):
        made, places = lab.subject.build(), np.arange(few)
        short = lab.x(few)
        first = lab.rotate(short, places, made=made)
        for many in (300, *reversed(LONG)):
            try:
                lab.rotate(np.repeat(x, many, axis=2), np.arange(many), made=made)
            except Exception as error:
                if many <= 300:
                    raise
                lab.refused(many, error)
                break
            again = lab.rotate(short, places, made=made)
            found = lab.same(again, first, 0.0, calls=f"{few} tokens, {many} tokens, {few} tokens")
        for far in (5_000, 200_000):
            try:
                lab.rotate(short, places + far, made=made)
            except Exception as error:  # noqa: BLE001 - an offset or a length that it has not
                lab.refused(far, error)
                break
            again = lab.rotate(short, places, made=made)
            found = lab.same(again, first, 0.0, calls=f"position 0, position {far}, position 0")
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
    found = lab.same(part, whole[:, :, 500:], NEAR * largest(x), positions=np.arange(500, 510))
    for start in (500, 5_000, 140_000):
        places = np.arange(start, start + 3)
        try:
            several = lab.rotate(x[:, :, :3], places)
        except Exception as error:  # noqa: BLE001 - at a length that it refuses
            lab.refused(start, error)
            break
        alone = [lab.rotate(x[:, :, i : i + 1], places[i : i + 1]) for i in range(3)]
        bound = max(NEAR, start * 2.0**-23) * largest(x)
        received = np.concatenate(alone, axis=2)
        found = max(
            found, lab.same(received, several, bound, positions=places, tokens="one by one")
        )
    return found


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
        """Against the named spec, or by the law R(a + b) = R(a) R(b), for small a."""
        near = FAR_PLACES[power]
        places = np.arange(near - 5, near - 1)
        x = lab.x(4)
        received = lab.rotate(x, places)
        bound = FAR * largest(x)
        if lab.subject.spec is not None:
            expected = lab.truth(x, places)
            return lab.same(received, expected, bound, positions=places, against="the spec")
        factor = np.linalg.norm(lab.rotate(x, [0] * 4)) / np.linalg.norm(x)
        found = (0.0, bound)
        # Steps that no rounding of the position shares: half of it would be rounded alike.
        for step in (1, 3, 10, 1_000, 99_991):
            part = lab.rotate(x, places - step).astype(np.float32)
            expected = lab.rotate(part, np.full(4, step)) / factor
            how = f"R({step}) R(position - {step})"
            found = max(found, lab.same(received, expected, bound, positions=places, against=how))
        return found

    return check


for _power in FAR_PLACES:
    law(f"near {_power}", f"within 2^-7 of exact below {_power}", "rotary", refusable=True)(
        _far(_power)
    )


def _half(dtype: str) -> Any:
    def check(lab: Lab) -> Found:
        """Within the rounding of the inputs and outputs of what float32 gives."""
        x = lab.x(5000, batch=2, heads=3)
        x = lab.subject.numpy(lab.subject.array(x, dtype)).astype(np.float32)
        places = np.arange(5000)
        received = lab.rotate(x, places, dtype=dtype)
        try:
            expected = lab.truth(x, places)
        except NotOffered:
            expected = lab.rotate(x, places)
        # cos and sin, two products and a sum may each be rounded, no more.
        bound = 3 * EPSILONS[dtype] * largest(x)
        return lab.same(received, expected, bound, positions=places, dtype=dtype)

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
    received = lab.subject.numpy(lab.subject.call(lab.made, swapped, np.arange(6)))
    kept = lab.subject.numpy(given)
    lab.same(kept, values.astype(np.float64), 0.0, view="(batch, seq, heads, dim) transposed")
    whole = lab.x(6)
    plain = lab.subject.array(whole, "float32")
    lab.subject.call(lab.made, plain, np.arange(6))
    lab.looked.at(np.arange(6), width=lab.subject.dim, heads=3, rows=2)
    lab.same(lab.subject.numpy(plain), whole.astype(np.float64), 0.0, view="no view")
    expected = lab.rotate(values.transpose(0, 2, 1, 3), np.arange(6))
    return lab.same(
        received, expected, 1e-6 * largest(values), view="(batch, seq, heads, dim) transposed"
    )


@law("spec", "equal to the named spec: sizes to 1e-5, entries to 2e-4 below 1024", "rotary")
def spec_rotary(lab: Lab) -> Found:
    """In float32, against float64; 17 rows of 33 heads, and 9,000 tokens of one."""
    x, places = lab.x(1024, batch=1, heads=2), np.arange(1024)
    expected, received = lab.truth(x, places), lab.rotate(x, places)
    found = lab.same(received, expected, NEAR * largest(x), positions=places)
    own, wanted = (np.linalg.norm(y, axis=-1) for y in (received, expected))
    found = max(found, lab.same(own, wanted, 1e-5 * largest(wanted), sizes="of tokens"))
    # Near 0 an angle is as exact as its frequency.
    near = lab.same(received[:, :, :9], expected[:, :, :9], 1e-5 * largest(x), positions=places[:9])
    many, few = lab.x(5, batch=17, heads=33), np.arange(5)
    bound = 1e-5 * largest(many)
    near = max(near, lab.same(lab.rotate(many, few), lab.truth(many, few), bound, heads=33))
    one = lab.x(1, batch=1, heads=1)

    def ask(length: int) -> np.ndarray:
        return lab.rotate(np.repeat(one, length, axis=2), np.arange(length))

    length, received = lab.longest(ask, (9_000, 4_200, 1_024))
    expected = lab.truth(np.repeat(one, length, axis=2), np.arange(length))
    # The rounding of angles grows with the position.
    bound = max(NEAR, NEAR * length / 1024) * largest(one)
    return max(found, near, lab.same(received, expected, bound, length=length))


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
    made, few = lab.subject.build(), _places(lab, 8)
    first = lab.rows(few, made=made)
    found = (0.0, 0.0)
    for many in (300,) if lab.subject.axes > 1 else (300, *reversed(LONG)):
        try:
            lab.rows(_places(lab, many), made=made)
        except Exception as error:
            if many <= 300:
                raise
            lab.refused(many, error)
            break
        again = lab.rows(few, made=made)
        found = lab.same(again, first, 0.0, calls=f"8 positions, {many} positions, 8 positions")
    return found


@law("long", "rows of a long sequence are those of their positions alone, up to 133,000", "table")
def long_table(lab: Lab) -> Found:
    """Rows differ from those before, too: an end that is held or wrapped is seen."""

    def along(places: np.ndarray) -> np.ndarray:
        if lab.subject.axes == 1:
            return places
        return np.stack([places, *[0 * places] * (lab.subject.axes - 1)], axis=-1)

    length, whole = lab.longest(lambda n: lab.rows(along(np.arange(n))), LONG)
    bound = 1e-6 * largest(whole)
    found = (0.0, bound)
    for power in range(8, length.bit_length()):
        places = np.arange(2**power - 2, min(2**power + 3, length))
        received = lab.rows(along(places))
        found = max(found, lab.same(received, whole[places], bound, positions=places))
    steps = np.linalg.norm(np.diff(whole, axis=0), axis=1)
    still = int(np.argmin(steps))
    if steps[still] <= 1e-6 * largest(whole):
        says = f"positions {still} and {still + 1} have one row"
        raise Broken(says, {"length": length}, float(steps[still]), bound)
    for power in range(8, length.bit_length() - 1):
        away = np.linalg.norm(whole[2**power : 2**power + 64] - whole[:64], axis=1)
        if largest(whole) and float(away.max()) <= 1e-6 * largest(whole):
            says = f"positions from {2**power} have the rows of those from 0"
            raise Broken(says, {"length": length}, float(away.max()), bound)
    return found


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
        expected = lab.truth(places)
        return lab.same(lab.rows(places), expected, FAR * largest(expected), positions=places)

    return check


for _power in FAR_PLACES:
    law(f"near {_power}", f"within 2^-7 of exact below {_power}", "table", refusable=True)(
        _far_table(_power)
    )


def _half_table(dtype: str) -> Any:
    def check(lab: Lab) -> Found:
        """Within one rounding of what float32 gives."""
        places = _places(lab, 1000)
        try:
            expected = lab.truth(places)
        except NotOffered:
            expected = lab.rows(places)
        received = lab.rows(places, dtype=dtype)
        return lab.same(
            received, expected, EPSILONS[dtype] * largest(expected), positions=places, dtype=dtype
        )

    return check


for _dtype in ("bfloat16", "float16"):
    law(_dtype, f"{_dtype} costs its own rounding, no more", "table")(_half_table(_dtype))


@law("spec", "equal to the named spec: to 2e-4, and to 1e-5 at the first positions", "table")
def spec_table(lab: Lab) -> Found:
    """In float32, against float64, at the first 256 positions; the first 9 have exact angles."""
    places = _places(lab, 256)
    expected, received = lab.truth(places), lab.rows(places)
    found = lab.same(received[:9], expected[:9], 1e-5 * largest(expected), positions=places[:9])
    return max(found, lab.same(received, expected, NEAR * largest(expected), positions=places))


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
    few = np.arange(6)
    first = lab.bias(few, few, made=made)
    found = (0.0, 0.0)
    for many in (40, 700, 133_000):
        keys = np.arange(many)
        try:
            lab.bias(keys if many < 1000 else keys[-1:], keys, made=made)
        except Exception as error:
            if many <= 40:
                raise
            lab.refused(many, error)
            break
        again = lab.bias(few, few, made=made)
        found = lab.same(again, first, 0.0, calls=f"6 tokens, {many} tokens, 6 tokens")
    return found


@law("long", "the bias of the last query of up to 133,000 tokens is that of its distances", "bias")
def long_bias(lab: Lab) -> Found:
    """A row of a short sequence is the end of that of a long one."""
    short = np.arange(60)
    expected = lab.bias(short[-1:], short)

    def ask(length: int) -> np.ndarray:
        keys = np.arange(length)
        return lab.bias(keys[-1:], keys)

    length, received = lab.longest(ask, LONG)
    bound = 1e-6 * max(1.0, largest(expected))
    last = received[..., -60:]
    # A bias that counts keys, as a causal softmax allows, differs by a number for each head.
    last = last - (last[..., -1:] - expected[..., -1:])
    return lab.same(last, expected, max(bound, 1e-6 * largest(received)), length=length)


@law("rows", "each row of a batch has positions of its own", "bias")
def rows_bias(lab: Lab) -> Found:
    """As with left padding."""
    q = np.array([[0, 1, 2], [7, 8, 9], [0, 0, 1]])
    received = lab.bias(q, q)
    alone = np.stack([lab.bias(row, row) for row in q])
    return lab.same(received, alone, 1e-6 * largest(alone), positions=q)


@law("far", "distances of 4095 and 65535 keep their bias", "bias", refusable=True)
def far_bias(lab: Lab) -> Found:
    """Against the named spec."""
    q, k = np.array([65_535]), np.array([0, 1, 61_440, 65_534, 65_535])
    expected = lab.truth(q, k)
    return lab.same(lab.bias(q, k), expected, 1e-6 * max(1.0, largest(expected)), queries=q, keys=k)


@law("head counts", "1, 2, 3, 8, 12, 20 and 71 heads have the slopes of the spec", "bias")
def head_counts(lab: Lab) -> Found:
    """Counts that are no power of two are where recipes differ."""
    q = k = np.arange(9)
    found = (0.0, 1e-6)
    for count in (1, 2, 3, 8, 12, 20, 71):
        bench = lab.at(heads=count)
        expected = bench.truth(q, k)
        bound = 1e-6 * max(1.0, largest(expected))
        found = max(found, bench.same(bench.bias(q, k), expected, bound, heads=count))
    return found


@law("spec", "equal to the named spec", "bias")
def spec_bias(lab: Lab) -> Found:
    """In float32, against float64, for 64 by 64 positions."""
    q = k = np.arange(64)
    expected = lab.truth(q, k)
    return lab.same(lab.bias(q, k), expected, 1e-6 * max(1.0, largest(expected)), queries=q)


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
    for calls in range(2, 8):
        lab.same(answer(lab, lab.made), first, 0.0, calls=calls)
    other = lab.subject.build()
    if hasattr(other, "load_state_dict"):
        other.load_state_dict(lab.made.state_dict())
    return lab.same(answer(lab, other), first, 0.0, instances=2)


@law("deepcopy", "a deep copy answers alike", "rotary", "table", "bias")
def deepcopied(lab: Lab) -> Found:
    """As models are copied for an average of their weights."""
    first = answer(lab, lab.made)
    return lab.same(answer(lab, copy.deepcopy(lab.made)), first, 0.0)

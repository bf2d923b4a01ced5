"""The laws of rotations, from their numbers alone."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from posenc.testing._laws import (
    LEAST_FACTOR,
    LENGTHS,
    Found,
    largest,
    one_factor,
)
from posenc.testing.lab import FAR, LONG, NEAR, Broken, Lab, law
from posenc.testing.subject import NotOffered


@law("norm", "every position turns: lengths change by one factor, or not at all", "rotary")
def norm(lab: Lab) -> Found:
    """A rotation keeps lengths; an attention factor is the same at every position.

    Each channel is tried alone, so that one faulty pair of many is seen.
    """
    dim, places = lab.subject.dim, np.arange(200)
    x = lab.x(200)
    worst, factor = one_factor(lab, x, lab.rotate(x, places), positions=places)
    alone = np.broadcast_to(np.eye(dim, dtype=np.float32)[:, None, None], (dim, 1, 24, dim))
    sizes = np.linalg.norm(lab.rotate(np.ascontiguousarray(alone), np.arange(24)), axis=-1)
    expected = np.where(np.abs(sizes - 1) < np.abs(sizes - factor), 1.0, factor)
    worst = max(worst, lab.same(sizes, expected, 1e-5, channel="one at a time"))
    if 1e-5 < abs(factor - 1) < LEAST_FACTOR:
        says = f"lengths are multiplied by {factor:.7g}, and no attention factor is so near to 1"
        raise Broken(says, {"positions": "0 to 199"}, abs(factor - 1), 1e-5)
    return worst


@law("linear", "the turn of a sum is the sum of the turns", "rotary")
def linear(lab: Lab) -> Found:
    """Nothing but the position decides the rotation."""
    places = np.arange(20)
    x, y = lab.x(20), lab.x(20, seed=1)
    received = lab.rotate(2 * x + y, places)
    one = lab.rotate(x, places)
    expected = 2 * one + lab.rotate(y, places)
    worst = lab.same(received, expected, 1e-5 * largest(expected), positions=places, seeds=[0, 1])
    for size in (2.0**10, 2.0**-10):
        received = lab.rotate(np.float32(size) * x, places) / size
        worst = max(worst, lab.same(received, one, 1e-6 * largest(one), times=size))
    return worst


@law("shift", "scores depend on the distance of query and key alone", "rotary")
def shift(lab: Lab) -> Found:
    """<R(m) q, R(n) k> = <R(m + s) q, R(n + s) k>, from one sequence of equal tokens."""
    length = 920
    q, k = lab.x(1, batch=1, heads=1), lab.x(1, batch=1, heads=1, seed=1)
    turned = [lab.rotate(np.repeat(x, length, axis=2), np.arange(length))[0, 0] for x in (q, k)]
    scores = turned[0] @ turned[1].T
    size = float(np.linalg.norm(q) * np.linalg.norm(k))
    worst = (0.0, NEAR * size)
    for m, n, s in ((0, 0, 7), (5, 2, 1), (3, 90, 100), (17, 4, 900)):
        near, far = scores[m : m + 1, n], scores[m + s : m + s + 1, n + s]
        places: dict[str, Any] = {"query at": [m, m + s], "key at": [n, n + s]}
        worst = max(worst, lab.same(far, near, NEAR * size, **places))
    return worst


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
    together = lab.same(whole, alone, bound, heads=72)
    single = max(
        lab.same(whole[:, [h]], lab.rotate(x[:, h : h + 1], places), bound, head=h, heads=72)
        for h in (0, 1, 15, 16, 71)
    )
    few = lab.same(lab.rotate(x[:, :3], places), whole[:, :3], bound, heads=3)
    return max(together, single, few)


@law("batch", "rows of a batch do not see each other: 1, 2, 5 and 33 of them", "rotary")
def batch(lab: Lab) -> Found:
    """Row b of many is what it would be alone."""
    places = np.arange(7)
    x = lab.x(7, batch=33)
    whole = lab.rotate(x, places)
    bound = 1e-6 * largest(x)
    several = max(
        lab.same(lab.rotate(x[-count:], places), whole[-count:], bound, rows=count)
        for count in (1, 2, 5)
    )
    alone = max(
        lab.same(whole[b : b + 1], lab.rotate(x[b : b + 1], places), bound, row=b)
        for b in (0, 1, 16, 32)
    )
    return max(several, alone)


@law("lengths", "a shorter sequence gives the first rows of a longer one", "rotary")
def lengths(lab: Lab) -> Found:
    """Odd lengths, powers of two, and their neighbours."""
    x = lab.x(130)
    whole = lab.rotate(x, np.arange(130))
    bound = 1e-6 * largest(x)
    return max(
        lab.same(lab.rotate(x[:, :, :n], np.arange(n)), whole[:, :, :n], bound, length=n)
        for n in LENGTHS
    )


def _long(length: int) -> list[tuple[int, int, int, int]]:
    """(query, key, query, key): pairs of equal distances, near 0 and across powers of two."""
    edges = [2**power for power in range(8, length.bit_length())]
    return [
        (q, k, edge + q - 4, edge + k - 4)
        for edge in edges
        for q, k in ((7, 2), (90, 3), (edge // 2, 5))
        if edge + q < length
    ]


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
    worst = (0.0, bound)
    for m, n, i, j in _long(length):
        near, far = turned[0][m] @ turned[1][n], turned[0][i] @ turned[1][j]
        places = {"query at": [m, i], "key at": [n, j], "length": length}
        worst = max(worst, lab.same(np.array([far]), np.array([near]), bound, **places))
    # A token that does not turn is not at the distance that it has from others, either.
    return max(worst, _moves(lab, turned[0], q[0, 0, 0], length))


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
    tried, worst = 0, (0.0, NEAR)
    for dim in (32, 64, 128, 256):
        bench = lab.at(dim=dim)
        try:
            bench.target  # noqa: B018 - made here, so that a width may be refused
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
        worst = max(worst, one_factor(bench, x, y, dim=dim)[0])
        if bench.subject.spec is not None:
            expected = bench.truth(x, places)
            worst = max(worst, bench.same(y, expected, 1e-5 * largest(x), dim=dim))
    if not tried:
        raise NotOffered("it has one width")
    return worst


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
    first = lab.subject.answer(lab.target, x, np.arange(6))
    before = lab.subject.numpy(first).copy()
    lab.looked.at(np.arange(6), width=lab.subject.dim, heads=3, rows=2)
    lab.subject.answer(lab.target, y, np.arange(6))
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
    return max(_history(lab, x, few) for few in (8, 100))


def _history(lab: Lab, x: np.ndarray, few: int) -> Found:
    target, places, short = lab.subject.build(), np.arange(few), lab.x(few)

    def at(start: int) -> np.ndarray:
        return lab.rotate(short, places + start, target=target)

    def other(many: int) -> np.ndarray:
        return lab.rotate(np.repeat(x, many, axis=2), np.arange(many), target=target)

    ask = functools.partial(at, 0)
    first, calls = ask(), f"{few} tokens, {{}} tokens, {few} tokens"
    worst = lab.unmoved(first, ask, other, (300, *reversed(LONG)), calls, least=300)
    far = lab.unmoved(first, ask, at, (5_000, 200_000), "position 0, position {}, position 0")
    return max(worst, far)


@law("history of dtypes", "half precision first leaves later float32 exact", "rotary")
def history_of_dtypes_rotary(lab: Lab) -> Found:
    """A table made for a half-precision call must not serve float32."""
    target = lab.subject.build()
    x = lab.x(600)
    places = np.arange(600)
    lab.rotate(x, places, dtype="bfloat16", target=target)
    after = lab.rotate(x, places, target=target)
    fresh = lab.rotate(x, places, target=lab.subject.build())
    calls = {"calls": "bfloat16, then float32", "positions": places}
    return lab.same(after, fresh, 1e-5 * largest(x), **calls)


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
    worst = lab.same(part, whole[:, :, 500:], NEAR * largest(x), positions=np.arange(500, 510))
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
        worst = max(
            worst, lab.same(received, several, bound, positions=places, tokens="one by one")
        )
    return worst

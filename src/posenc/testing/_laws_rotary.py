"""The laws of rotations, from their numbers alone and beside a named spec."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from posenc.testing.lab import (
    FAR,
    FAR_PLACES,
    LEAST_FACTOR,
    LONG,
    NEAR,
    Broken,
    Found,
    Lab,
    broken_where,
    largest,
    law,
    one_factor,
)
from posenc.testing.subject import NotOffered, not_offered_where


@law("norm", "every position turns: lengths change by one factor, or not at all", "rotary")
def norm(lab: Lab) -> Found:
    """A rotation keeps lengths; an attention factor is the same at every position.

    Each channel is tried alone, so that one faulty pair of many is seen.
    """
    x, places = lab.x(200), np.arange(200)
    worst, factor = one_factor(lab, x, lab.rotate(x, places), positions=places)
    sizes = np.linalg.norm(lab.rotate(_one_channel(lab, 24), np.arange(24)), axis=-1)
    expected = np.where(np.abs(sizes - 1) < np.abs(sizes - factor), 1.0, factor)
    worst = max(worst, lab.same(sizes, expected, 1e-5, channel="one at a time"))
    broken_where(
        1e-5 < abs(factor - 1) < LEAST_FACTOR,
        f"lengths are multiplied by {factor:.7g}, and no attention factor is so near to 1",
        {"positions": "0 to 199"},
        abs(factor - 1),
        1e-5,
    )
    return worst


@law("linear", "the turn of a sum is the sum of the turns", "rotary")
def linear(lab: Lab) -> Found:
    """Nothing but the position decides the rotation."""
    places = np.arange(20)
    x, y = lab.x(20), lab.x(20, seed=1)
    received = lab.rotate(2 * x + y, places)
    expected = 2 * lab.rotate(x, places) + lab.rotate(y, places)
    return lab.same(received, expected, 1e-5 * largest(expected), positions=places, seeds=[0, 1])


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
    "in up to 133,000 tokens, scores depend on the distance alone, to within 2^-7 of |q| |k|",
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
        places = {"query at": f"{m} and key at {n}, against query at {i} and key at {j}"}
        worst = max(worst, lab.same(np.array([far]), np.array([near]), bound, **places))
    # A token that does not turn is not at the distance that it has from others, either:
    # neighbours differ as they do at the start, wherever they are.
    away = np.linalg.norm(np.diff(turned[0], axis=0), axis=1)
    first = np.full_like(away, float(np.linalg.norm(turned[0][1] - turned[0][0])))
    bound = 4 * FAR * float(np.linalg.norm(q))
    return max(worst, lab.same(away, first, bound, length=length))


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
        broken_where(
            count not in (round(share * dim), _turning(lab)),
            f"{count} of {dim} channels turn, and {share:.3g} of {lab.subject.dim}",
            {"dim": dim},
            float(count),
            share * dim,
        )
        x, places = bench.x(40, batch=1, heads=2), np.arange(40)
        y = bench.rotate(x, places)
        worst = max(worst, one_factor(bench, x, y, dim=dim)[0])
        if bench.subject.spec is not None:
            worst = max(worst, bench.same(y, bench.truth(x, places), 1e-5 * largest(x), dim=dim))
    not_offered_where(not tried, "it has one width")
    return worst


def _one_channel(lab: Lab, count: int) -> np.ndarray:
    """Inputs of so many positions, each with one channel that is not zero."""
    return np.repeat(np.eye(lab.subject.dim, dtype=np.float32)[:, None, None], count, axis=2)


def _turning(lab: Lab) -> int:
    """How many channels turn within 2^20 positions, or as far as is not refused."""

    def ask(start: int, count: int = 3) -> np.ndarray:
        return lab.rotate(_one_channel(lab, count), np.arange(start, start + count))[:, 0]

    first = ask(0)[:, 0]
    try:
        _, later = lab.longest(ask, (2**20, 2**17, 4_000, 700))
    except NotOffered:
        later = ask(0, 700)[:, -3:]
    return int((np.abs(later - first[:, None]).max(axis=(1, 2)) > 1e-5).sum())


@law("kept", "an answer does not change when other calls follow", "rotary")
def kept(lab: Lab) -> Found:
    """A buffer that the next call writes over is no answer."""
    x, y = (lab.subject.array(lab.x(6, seed=seed), "float32") for seed in (0, 1))
    first = lab.subject.answer(lab.target, x, np.arange(6))
    before = lab.subject.numpy(first).copy()
    lab.subject.answer(lab.target, y, np.arange(6))
    return lab.same(lab.subject.numpy(first), before, 0.0, calls="x, y")


@law("history", "an answer does not depend on the calls before it", "rotary")
def history_rotary(lab: Lab) -> Found:
    """A length, longer ones up to 133,000, far positions, and after each the first again."""
    return max(_history(lab, lab.x(1, batch=1, heads=1), few) for few in (8, 100))


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


# --- precision, dtypes, and the named spec --------------------------------------------------------


@law("negative", "a negative position turns back", "rotary", refusable=True)
def negative(lab: Lab) -> Found:
    """R(-p) R(p) = 1, up to a common factor squared."""
    x, places = lab.x(4), np.array([1, 2, 3, 4])
    back = lab.rotate(lab.rotate(x, places).astype(np.float32), -places)
    factor = float(np.linalg.norm(back) / np.linalg.norm(x))
    return lab.same(back, factor * x, 1e-5 * largest(x) * factor, positions=-places)


def _far(power: str) -> Any:
    def check(lab: Lab) -> Found:
        """Against the named spec, or by the law R(a + b) = R(a) R(b), for small a."""
        x, places = lab.x(4), FAR_PLACES[power] + np.arange(-5, -1)
        received, bound = lab.rotate(x, places), FAR * largest(x)
        if lab.subject.spec is not None:
            expected = lab.truth(x, places)
            return lab.same(received, expected, bound, positions=places, against="the spec")
        factor = np.linalg.norm(lab.rotate(x, [0] * 4)) / np.linalg.norm(x)
        worst = (0.0, bound)
        # Steps that no rounding of the position shares: half of it would be rounded alike.
        for step in (1, 3, 10, 1_000, 99_991):
            part = lab.rotate(x, places - step).astype(np.float32)
            expected = lab.rotate(part, np.full(4, step)) / factor
            how = f"R({step}) R(position - {step})"
            worst = max(worst, lab.same(received, expected, bound, positions=places, against=how))
        return worst

    return check


for _power in FAR_PLACES:
    law(f"near {_power}", f"below {_power}, exact to within 2^-7", "rotary", refusable=True)(
        _far(_power)
    )


@law("dtype", "the answer has the dtype of the input", "rotary")
def dtype_kept(lab: Lab) -> None:
    """float32 in, float32 out; and so for half precision."""
    for dtype in ("float32", "float16", "bfloat16"):
        x = lab.subject.array(lab.x(2), dtype)
        y = lab.subject.answer(lab.target, x, np.arange(2))
        broken_where(y.dtype != x.dtype, f"{dtype} becomes {y.dtype}", {"dtype": dtype})


@law("input", "the input is not written to, whatever its strides", "rotary")
def input_kept(lab: Lab) -> Found:
    """A transposed view, as attention makes it, gives what a copy gives."""
    values = np.ascontiguousarray(lab.x(6).transpose(0, 2, 1, 3))
    inputs = lab.subject.array(values, "float32")
    view, places = "(batch, seq, heads, dim) transposed", np.arange(6)
    received = lab.subject.numpy(lab.subject.answer(lab.target, inputs.swapaxes(1, 2), places))
    lab.same(lab.subject.numpy(inputs), values.astype(np.float64), 0.0, view=view)
    whole = lab.x(6)
    plain = lab.subject.array(whole, "float32")
    lab.subject.answer(lab.target, plain, places)
    lab.same(lab.subject.numpy(plain), whole.astype(np.float64), 0.0, view="no view")
    expected = lab.rotate(values.transpose(0, 2, 1, 3), places)
    return lab.same(received, expected, 1e-6 * largest(values), view=view)


@law("odd width", "an odd width is turned or refused", "rotary", refusable=True)
def odd_rotary(lab: Lab) -> Found:
    """No channel may be lost, and lengths must be kept."""
    odd = lab.at(dim=lab.subject.dim + 1)
    x = odd.x(20)
    return one_factor(odd, x, odd.rotate(x, np.arange(20)), dim=odd.subject.dim)[0]

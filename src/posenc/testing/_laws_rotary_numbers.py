"""The laws of rotations about precision, dtypes, and the named spec."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.testing._laws import (
    FAR_PLACES,
    Found,
    exact,
    largest,
    one_factor,
)
from posenc.testing.lab import EPSILONS, FAR, NEAR, Broken, Lab, law


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
        expected = exact(lab, x, places)
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
        y = lab.subject.answer(lab.target, x, np.arange(2))
        if y.dtype != x.dtype:
            raise Broken(f"{dtype} becomes {y.dtype}", {"dtype": dtype})


@law("input", "the input is not written to, whatever its strides", "rotary")
def input_kept(lab: Lab) -> Found:
    """A transposed view, as attention makes it, gives what a copy gives."""
    values = np.ascontiguousarray(lab.x(6).transpose(0, 2, 1, 3))
    inputs = lab.subject.array(values, "float32")
    swapped = inputs.swapaxes(1, 2)
    received = lab.subject.numpy(lab.subject.answer(lab.target, swapped, np.arange(6)))
    kept = lab.subject.numpy(inputs)
    lab.same(kept, values.astype(np.float64), 0.0, view="(batch, seq, heads, dim) transposed")
    whole = lab.x(6)
    plain = lab.subject.array(whole, "float32")
    lab.subject.answer(lab.target, plain, np.arange(6))
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
    worst = lab.same(received, expected, NEAR * largest(x), positions=places)
    own, wanted = (np.linalg.norm(y, axis=-1) for y in (received, expected))
    worst = max(worst, lab.same(own, wanted, 1e-5 * largest(wanted), sizes="of tokens"))
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
    return max(worst, near, lab.same(received, expected, bound, length=length))


@law("odd width", "an odd width is turned or refused", "rotary", refusable=True)
def odd_rotary(lab: Lab) -> Found:
    """No channel may be lost, and lengths must be kept."""
    odd = lab.at(dim=lab.subject.dim + 1)
    x = odd.x(20)
    return one_factor(odd, x, odd.rotate(x, np.arange(20)), dim=odd.subject.dim)[0]

"""The laws of rotations about precision, dtypes, and the named spec."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.testing._laws import (
    FAR_PLACES,
    Found,
    largest,
    one_factor,
)
from posenc.testing.lab import FAR, Broken, Lab, law


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
    lab.same(lab.subject.numpy(plain), whole.astype(np.float64), 0.0, view="no view")
    expected = lab.rotate(values.transpose(0, 2, 1, 3), np.arange(6))
    return lab.same(
        received, expected, 1e-6 * largest(values), view="(batch, seq, heads, dim) transposed"
    )


@law("odd width", "an odd width is turned or refused", "rotary", refusable=True)
def odd_rotary(lab: Lab) -> Found:
    """No channel may be lost, and lengths must be kept."""
    odd = lab.at(dim=lab.subject.dim + 1)
    x = odd.x(20)
    return one_factor(odd, x, odd.rotate(x, np.arange(20)), dim=odd.subject.dim)[0]

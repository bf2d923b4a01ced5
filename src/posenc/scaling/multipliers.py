"""A number for every frequency, as data."""

from __future__ import annotations

import operator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc._core.arrays.array import device_of
from posenc._core.errors import bad_spec
from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling


@final
@dataclass(frozen=True)
class Multipliers(Scaling):
    """Explicit factors, one for each rung of the ladder.

        multiply   f'[j] = f[j] * values[j]
        divide     f'[j] = f[j] / values[j]

    Parameters
    ----------
    values : tuple of float
        One for each rung; positive where they divide.
    use : {"multiply", "divide"}
        How they act.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.Multipliers((1.0, 0.5))
    >>> posenc.frequencies(posenc.RoPE(4, pairing="half", scaling=scaling))
    array([1.   , 0.005])
    """

    values: tuple[float, ...]
    _: KW_ONLY
    use: Literal["multiply", "divide"] = "multiply"
    stretches: ClassVar[bool] = False

    def check(self) -> None:
        """Raise `SpecError` for divisors that are not positive."""
        self._require(
            self.use == "multiply" or min(self.values, default=1) > 0, "values", "positive divisors"
        )

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        require_count(self.values, len(rungs.frequencies), "Multipliers: values")
        act = operator.truediv if self.use == "divide" else operator.mul
        return rungs.with_frequencies(
            [*map(act, rungs.frequencies, map(rungs.numbers.number, self.values))]
        )

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        values = beside(self.values, rungs.frequencies, xp)
        divided = self.use == "divide"
        return 1.0 / (values * rungs.periods) if divided else rungs.frequencies * values


def require_count(values: tuple[float, ...], count: int, caller: str) -> None:
    """Raise unless there is one value for each rung."""
    if len(values) != count:
        raise bad_spec(caller, f"{count} numbers, one for each frequency", len(values))


def beside(values: tuple[float, ...], array: Array, xp: Any) -> Array:
    """float32 values as an array of the library, on the device of `array`."""
    return xp.asarray(list(values), dtype=xp.float32, device=device_of(array))

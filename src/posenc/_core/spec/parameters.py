"""What learned encodings learn: the shape of each parameter and how it begins, as data."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np

from posenc._core.spec.checks import at_least
from posenc._core.spec.spec import Value


@final
@dataclass(frozen=True)
class Init(Value):
    """The first values of a parameter.

        normal      N(0, scale ** 2)
        uniform     U(-scale, scale)
        constant    scale

    Parameters
    ----------
    rule : {"normal", "uniform", "constant"}
        The rule.
    scale : float
        Standard deviation, bound, or value. BERT, GPT-2 and vision transformers begin with a normal
        of 0.02; `Init("constant", scale=0)` is zeros.

    Raises
    ------
    SpecError
        If a standard deviation or bound is negative.

    Examples
    --------
    >>> import posenc
    >>> posenc.init(posenc.Learned(2, length=1, init=posenc.Init("constant", scale=0)))
    {'weight': array([[0., 0.]], dtype=float32)}
    """

    rule: Literal["normal", "uniform", "constant"] = "normal"
    _: KW_ONLY
    scale: float = 0.02

    def check(self) -> None:
        """Raise `SpecError` when a spread is negative."""
        if self.rule != "constant":
            at_least(f"Init({self.rule!r})", 0, scale=self.scale)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """First values of a shape, float32."""
        if self.rule == "constant":
            return np.full(shape, self.scale, dtype=np.float32)
        values = (
            rng.standard_normal(shape, dtype=np.float32)
            if self.rule == "normal"
            else 2 * rng.random(shape, dtype=np.float32) - 1
        )
        return np.asarray(values * np.float32(self.scale), dtype=np.float32)

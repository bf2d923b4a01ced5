"""Sines of a time with learned frequencies and phases, beside a learned trend (Time2Vec)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc.encodings.table.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    TableSpec,
    astype,
    positive,
    width_of,
)


@final
@dataclass(frozen=True)
class Time2Vec(TableSpec):
    """A learned vector of a time (Kazemi et al. 2019, arXiv:1907.05321, section 4).

        t2v(t)[0] = w[0] t + b[0]
        t2v(t)[i] = sin(w[i] t + b[i])        1 <= i < dim

    Without the trend and with cosines it is the functional time encoding of Xu et al. (2020,
    arXiv:2002.07962), cos(w[i] t + b[i]), which temporal graph networks use.

    Parameters
    ----------
    dim : int
        Width of a row, the trend included.
    wave : {"sin", "cos"}
        The periodic function.
    trend : {"first", "last", "none"}
        Where the channel stands that is linear in the time.
    init : Init or Ladder
        First frequencies: a rule, or a ladder of `base` in radians per unit of time.
    shift : Init
        First phases, in radians.
    base : float
        Of the ladder.

    Raises
    ------
    SpecError
        If no channel is left for a wave, or the base is not positive.

    Notes
    -----
    The parameters are `frequency` and `shift`, both (dim,), and gradients flow to them and to the
    times. Times may be integers, float32 or float64. The angle is a product of floats, so in
    float32 the error of a wave is about 1.2e-7 * (1 + `|w t + b|`).

    Examples
    --------
    >>> import numpy as np, posenc
    >>> params = {"frequency": np.array([0.5, np.pi]), "shift": np.array([1.0, 0.0])}
    >>> posenc.table(posenc.Time2Vec(2), [0.0, 0.5], params=params)
    array([[1.  , 0.  ],
           [1.25, 1.  ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    wave: Literal["sin", "cos"] = "sin"
    trend: Literal["first", "last", "none"] = "first"
    init: Init | Ladder = Init("normal", scale=1.0)
    shift: Init = Init("normal", scale=1.0)
    base: float = 10_000.0

    example = Example(points=lambda: np.linspace(0, 8, 64), where="times 0 to 8")
    paper = "kazemi2019time2vec"
    coordinates = "real"
    axes = ("time",)

    def check(self) -> None:
        """Raise `SpecError` when no wave is left, or the base cannot be."""
        width_of("Time2Vec", 1 if self.trend == "none" else 2, dim=self.dim)
        positive("Time2Vec", base=self.base)
        if isinstance(self.init, Ladder) and self.init.cos_shift:
            raise self._mismatch(
                "init",
                "a ladder with cos_shift=0: each frequency has one wave",
                self.init.cos_shift,
            )

    def parameters(self) -> dict[str, Parameter]:
        """The frequency and the phase of each channel."""
        rule = self.init if isinstance(self.init, Init) else Init()
        shape = (self.dim,)
        return {"frequency": Parameter(shape, rule), "shift": Parameter(shape, self.shift)}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first values of one parameter, float32."""
        if name == "shift" or isinstance(self.init, Init):
            return super().initial(name, rng)
        rungs = self.init.rungs(self.base, count=self.dim, width=self.dim)
        return np.array([float(rung) for rung in rungs], dtype=np.float32)

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., 1) -> (..., dim)."""
        frequency, shift = (astype(constants[name], dtype, xp) for name in self.shapes)
        angle = astype(positions, dtype, xp) * frequency + shift
        wave = xp.sin if self.wave == "sin" else xp.cos
        if self.trend == "none":
            return wave(angle)
        if self.trend == "first":
            return xp.concat([angle[..., :1], wave(angle[..., 1:])], axis=-1)
        return xp.concat([wave(angle[..., :-1]), angle[..., -1:]], axis=-1)

"""Rotations whose frequencies go on from head to head (LRPE)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from posenc._core.numeric.matrix import DenseMatrix
from posenc._core.numeric.phase import cos_sin
from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Example,
    HeadedRotarySpec,
    Init,
    Ladder,
    PairingField,
    Parameter,
    Role,
    bad_argument,
    lift,
    positive,
)
from posenc.encodings.rotary.mixed import mixed_phasors


@final
@dataclass(frozen=True)
class LRPE(HeadedRotarySpec):
    """Linearized relative positional encoding (Qin et al. 2023, arXiv:2307.09270).

        f[h, j] = base ** (-2 (h n + j) / (heads d))        n pairs in each head, d channels
        doubled   x'[j]  = x[j] cos(p f[h, j]),  x'[d+j] = x[j] sin(p f[h, j])
        turned    x'[pair j] = R(p f[h, j]) x[pair j]

    The family of unitary transformations that the paper describes has many members; these are those
    of its authors' language models. One ladder runs through all heads, so that no two heads see the
    same distances. `doubled` is the form that linear attention uses: each channel is a pair whose
    second channel is 0, scores are the sum of q[j] k[j] cos((m - n) f[j]), and heads are twice as
    wide afterwards.

    Parameters
    ----------
    dim : int
        The rotated width d; even if turned.
    heads : int
        Number of heads.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair, of the result if doubled.
    base : float
        10000 in those models.
    form : {"doubled", "turned"}
        As above.
    learned : {"nothing", "frequencies"}
        Whether the frequencies are parameters; they begin as above.

    Raises
    ------
    SpecError
        If a number cannot be, or a doubled form has blocks.

    Notes
    -----
    Fixed frequencies have exact phases. Learned ones, `frequencies` of shape (heads, 1, pairs),
    take the path of floats: 1.2e-7 * (1 + `|angle|`) in float32. A doubled form has no inverse.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.LRPE(2, heads=2, pairing="half")
    >>> posenc.rotate(spec, np.ones((2, 1, 2)), offset=1).round(2)
    array([[[0.54, 1.  , 0.84, 0.01]],
    <BLANKLINE>
           [[1.  , 1.  , 0.  , 0.  ]]])
    """

    dim: int
    _: KW_ONLY
    heads: int
    pairing: PairingField
    base: float = 10_000.0
    form: Literal["doubled", "turned"] = "doubled"
    learned: Literal["nothing", "frequencies"] = "nothing"

    example = Example({"heads": 1})
    paper = "qin2023lrpe"
    by_head: ClassVar = {"step": 1, "frequencies": 0}

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        self._require(
            self.dim >= 1 and (self.form != "turned" or self.dim % 2 == 0),
            "dim",
            "an even width if turned, at least 1 if doubled",
        )
        positive("LRPE", base=self.base)
        if self.form == "turned":
            self.channels.sizes(self.pairs)
        elif self.channels.blocks:
            raise self._mismatch(
                "pairing", "one block of channels, as form='doubled'", self.channels.blocks
            )

    @property
    def pairs(self) -> int:
        """Number of pairs of each head."""
        return self.dim if self.form == "doubled" else self.dim // 2

    @property
    def output_dim(self) -> int:
        """Channels that the rotated part has afterwards."""
        return 2 * self.pairs

    @property
    def sided(self) -> bool:
        """Whether cosines and sines do not tell all: if doubled, a pair has one channel."""
        return self.form == "doubled"

    @property
    def matrix(self) -> DenseMatrix:
        """The phases of the pairs of all heads, head by head."""
        waves = _HeadWaves(self.base, self.heads * self.dim)
        return DenseMatrix(waves, 1, self.heads * self.pairs, "exact")

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs of each head: (1, heads, pairs)."""
        if self.learned == "frequencies":
            return {}
        return {"step": self.matrix.constants()["step"].reshape(1, self.heads, self.pairs)}

    def parameters(self) -> dict[str, Parameter]:
        """The frequencies of each head, where they are learned."""
        frequencies = Parameter((self.heads, 1, self.pairs), Init())
        return {} if self.learned == "nothing" else {"frequencies": frequencies}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        """The first frequencies, float32: those of the ladder."""
        frequencies = np.array(self.matrix.frequencies(), dtype=object).astype(np.float64)
        return frequencies.reshape(self.heads, 1, self.pairs).astype(np.float32)

    def phasors(
        self, positions: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines of the angles: (..., 1) -> two arrays (..., pairs)."""
        if self.learned == "nothing":
            return cos_sin(positions, constants["step"], dtype=dtype, xp=xp)
        return mixed_phasors(positions, constants["frequencies"], dtype=dtype, xp=xp)

    def turned(
        self,
        x: Array,
        cos: Array,
        sin: Array,
        role: Role,
        constants: Constants,
        *,
        inverse: bool,
        xp: Any,
    ) -> Array:
        """The rotated part of an input, (..., dim) -> (..., output_dim)."""
        if self.form == "turned":
            return super().turned(x, cos, sin, role, constants, inverse=inverse, xp=xp)
        if inverse:
            raise bad_argument(
                "LRPE: inverse", "False", inverse, "form='doubled' has no way back: use 'turned'."
            )
        return lift(x, cos, sin, self.channels, xp=xp)


class _HeadWaves(NamedTuple):
    """A ladder that runs through all heads."""

    base: float
    width: int

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:  # noqa: ARG002
        """The frequencies in radians per position, head by head."""
        return [list(Ladder().rungs(self.base, count=pairs, width=self.width))]

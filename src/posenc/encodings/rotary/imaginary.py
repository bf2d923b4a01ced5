"""Rotation whose scores are the imaginary part of the complex product (RoPE++)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, final

from posenc._core.numeric.matrix import PhaseMatrix
from posenc.encodings.rotary.base import Ladder, PairingField, RotarySpec
from posenc.encodings.rotary.rope import RoPE


@final
@dataclass(frozen=True)
class ImaginaryRoPE(RotarySpec):
    """The imaginary heads of RoPE++ (Liu et al. 2025, arXiv:2512.07525).

        RoPE            q'[j] k'[j]* = q[j] k[j]* exp(i (m - n) f[j]), of which the score is the
                        real part; j counts pairs as complex numbers
        ImaginaryRoPE   the score is the imaginary part: queries turn by m f[j] - pi / 2

    Keys turn as those of `RoPE`, so that both kinds of heads share one KV cache. RoPE++ is
    attention whose heads are real and imaginary in turn, of the same queries: rotate them with
    both, and stack. RoPE++ EC does so with all queries and has twice the heads, RoPE++ EH has half
    the queries and keys.

    Parameters
    ----------
    dim : int
        The rotated width d, even.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    base : float
        10000 in RoFormer.
    ladder : Ladder
        How the frequencies follow from the base.

    Raises
    ------
    SpecError
        If the width is odd, or a number does not belong to its range.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> real, imaginary = (kind(4, pairing="half") for kind in (posenc.RoPE, posenc.ImaginaryRoPE))
    >>> q = np.ones((2, 3, 4))  # two heads of three tokens
    >>> heads = np.stack([posenc.rotate(real, q), posenc.rotate(imaginary, q)], axis=1)
    >>> heads.reshape(4, 3, 4)[:, 0]
    array([[ 1.,  1.,  1.,  1.],
           [ 1.,  1., -1., -1.],
           [ 1.,  1.,  1.,  1.],
           [ 1.,  1., -1., -1.]])
    """

    dim: int
    _: KW_ONLY
    pairing: PairingField
    base: float = 10_000.0
    ladder: Ladder = Ladder()

    quarters: ClassVar[int] = -1
    paper = "liu2025beyond"
    sided = True  # queries turn further

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        _ = self.rope

    @property
    def rope(self) -> RoPE:
        """The rotation of the keys."""
        return RoPE(self.dim, pairing=self.pairing, base=self.base, ladder=self.ladder)

    @property
    def matrix(self) -> PhaseMatrix:
        """The phases of the pairs."""
        return self.rope.matrix

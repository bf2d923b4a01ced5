"""Rotations in a learned basis: the most general encoding that knows displacements alone."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Example,
    Init,
    PairingField,
    Parameter,
    Role,
    SpatialRotarySpec,
    arange,
    astype,
    at_least,
    device_of,
    distinct,
    even_width,
    moveaxis,
    positive,
    product,
)
from posenc.encodings.rotary.mixed import mixed_phasors


@final
@dataclass(frozen=True)
class STRING(SpatialRotarySpec):
    """Cayley-STRING (Schenck et al. 2025, arXiv:2502.02562, section 3.2).

        x'             = R(position) P x
        angle[h, p, j] = sum over axes a of  position[p, a] * frequencies[h, a, j]
        P              = (I - S) (I + S) ** -1        S = generator - generator transposed

    with a rotation P of all channels that each head learns. Every encoding by matrices whose scores
    depend on displacements alone, and smoothly, is of the form P' R(position) P, and P' cancels in
    the scores.

    Parameters
    ----------
    dim : int
        The rotated width, even.
    heads : int
        Heads, each with a basis and frequencies of its own; 1 where all share them.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    space : tuple of str
        Names of the axes of a position.
    base : float
        Of the first frequencies, base ** (-2j / d).
    start : {"repeated", "axial"}
        First frequencies: the ladder along every axis, or equal shares of the pairs along each.
    spread : float
        Deviation of the first generators, which are normal numbers; 0 begins with P = I.

    Raises
    ------
    SpecError
        If the width is odd, or the axes cannot share the pairs.

    Notes
    -----
    The parameters are `frequencies`, (heads, axes, pairs), and `generator`, (heads, dim, dim).
    Gradients flow to both. Positions may be real. Angles are products of floats: the error of
    cosines and sines is about 1.2e-7 * (1 + `|angle|`) in float32.

    P is the same at all positions: once trained, it can be multiplied into the projections of
    queries and keys, and what is left is `MixedRoPE`.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.STRING(4, heads=1, pairing="half", space=("x",))
    >>> params = posenc.init(spec, seed=0)
    >>> x = np.random.default_rng(0).normal(size=(1, 3, 4))
    >>> y = posenc.rotate(spec, x, positions=[0.5, 1.5, 2.5], params=params)
    >>> bool(np.allclose(np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1)))
    True
    """

    dim: int
    _: KW_ONLY
    heads: int
    pairing: PairingField
    space: tuple[str, ...] = ("x", "y")
    base: float = 100.0
    start: Literal["repeated", "axial"] = "repeated"
    spread: float = 0.02

    example = Example({"heads": 1})
    paper = "schenck2025string"
    by_head: ClassVar = {"frequencies": 0, "generator": 0}
    sided = True  # the basis turns as well

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        even_width("STRING", dim=self.dim)
        positive("STRING", base=self.base)
        at_least("STRING", 0, spread=self.spread)
        distinct("STRING", space=self.space)
        self._require(
            self.start != "axial" or self.pairs % len(self.space) == 0,
            "start='axial'",
            f"a number of pairs divisible by {len(self.space)}",
            self.pairs,
        )
        self.channels.sizes(self.pairs)

    def parameters(self) -> dict[str, Parameter]:
        """The frequencies and the generator of the basis of each head."""
        spread = Init("normal", scale=self.spread)
        return {
            "frequencies": Parameter((self.heads, len(self.space), self.pairs), Init()),
            "generator": Parameter((self.heads, self.dim, self.dim), spread),
        }

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first values of one parameter, float32."""
        if name == "generator":
            return super().initial(name, rng)
        axes = len(self.space)
        share = self.pairs if self.start == "repeated" else self.pairs // axes
        sizes = self.base ** (-np.arange(share) / share)
        rows = (
            np.tile(sizes, (axes, 1)) if self.start == "repeated" else np.kron(np.eye(axes), sizes)
        )
        return np.tile(rows, (self.heads, 1, 1)).astype(np.float32)

    def phasors(
        self, positions: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines of the angles: (..., axes) -> two arrays (..., pairs)."""
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
        """The rotated part of an input, in the basis of its head: (..., dim) -> (..., dim)."""
        generator = astype(constants["generator"], x.dtype, xp)
        skew = generator - xp.matrix_transpose(generator)
        number = arange(self.dim, xp=xp, device=device_of(x))
        unit = astype(number[:, None] == number[None, :], x.dtype, xp)
        # Rows are multiplied by P transposed, (I - S) ** -1 (I + S).
        basis = xp.linalg.solve(unit - skew, unit + skew)
        if not inverse:
            x = _in_basis(x, basis, xp)
        x = super().turned(x, cos, sin, role, constants, inverse=inverse, xp=xp)
        return _in_basis(x, xp.matrix_transpose(basis), xp) if inverse else x


def _in_basis(x: Array, basis: Array, xp: Any) -> Array:
    """Rows times the matrix of their head, wherever the input has its heads."""
    if len(basis.shape) == 4:  # heads before the sequence: (heads, 1, dim, dim)
        return product(x, basis[:, 0, ...], xp=xp)
    if len(basis.shape) == 2:
        return product(x, basis, xp=xp)
    swapped = product(moveaxis(x, -2, -3, xp=xp), basis, xp=xp)
    return moveaxis(swapped, -3, -2, xp=xp)

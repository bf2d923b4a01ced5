"""Relative positions of Transformer-XL (Dai et al. 2019), and of Conformers after it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import pair_steps
from posenc._core.numeric.phase import cos_sin
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    HeadedRelativeSpec,
    Init,
    Parameter,
    Places,
    arange,
    astype,
    clipped,
    device_of,
    positive,
    product,
    query_products,
    sums_of_angles,
)


@final
@dataclass(frozen=True)
class TransformerXL(HeadedRelativeSpec):
    """Relative positions of Transformer-XL (Dai et al. 2019, arXiv:1901.02860).

        scores[h, m, n] = ((q + u[h]) . k + (q + v[h]) . W[h] R(m - n)) / sqrt(d)

    where R is a sinusoidal table. The sines of m - n are sums of products of those of m and n, so
    the second product is one of a turned query with the table at n: no table of distances, no
    shift, any positions, and memory that does not grow with the width.

    Queries that were pooled have the positions of their pools. Where a model also reads backwards,
    negate the positions of those sequences: then R takes n - m.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads.
    width : int
        Width of the table R, that of the model.
    base : float
        As for sinusoidal tables.
    ladder : Ladder
        Rule of the frequencies; `Ladder(denominator="n-1")` is that of tensor2tensor.
    clamp : int, optional
        Distances beyond it, in both directions, are taken for it. There is then a row for each
        distance up to the clamp, and no rule of sums of angles.
    order : {"sin_cos", "interleaved"}
        Order of the channels of R: sines and then cosines as in the paper, or in turn as in
        Conformers (Gulati et al. 2020, arXiv:2005.08100).
    init : Init
        First values of W; u and v begin as zeros.

    Raises
    ------
    SpecError
        If the width is odd, or a number is out of range.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.TransformerXL(64, count=8, width=512)
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'u': (8, 64), 'v': (8, 64), 'projection': (8, 64, 512)}
    """

    dim: int
    _: KW_ONLY
    count: int
    width: int
    base: float = 10_000.0
    ladder: Ladder = Ladder()
    clamp: int | None = None
    order: Literal["sin_cos", "interleaved"] = "sin_cos"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"u": 0, "v": 0, "projection": 0}
    example = Example({"count": 1, "width": 64})
    paper = "dai2019transformerxl"

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        self._require(self.width >= 2 and self.width % 2 == 0, "width", "an even number")
        positive("TransformerXL", base=self.base)
        self._require(
            not self.ladder.cos_shift,
            "ladder.cos_shift",
            "0, as sines and cosines of one angle are summed",
        )
        self._require(
            self.clamp is None or 0 < self.clamp < 2**20,
            "clamp",
            "a distance of at least 1, below 2**20",
        )

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs of the table R."""
        return {"step": pair_steps(self.base, self.width, self.ladder)}

    def parameters(self) -> dict[str, Parameter]:
        """The two biases on the query and the projection of the table, for each head."""
        bias = Parameter((self.count, self.dim), Init("constant", scale=0.0))
        matrix = Parameter((self.count, self.dim, self.width), self.init)
        return {"u": bias, "v": bias, "projection": matrix}

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """U . k + (q + v) . W R(m - n)."""
        u, v, w = (astype(constants[name], dtype, xp) for name in self.shapes)
        of_keys = product(u[:, None, :], xp.matrix_transpose(k), xp=xp)
        asked = product(q + v[:, None, :], w, xp=xp)
        if self.order == "sin_cos":
            s, c = asked[..., : self.width // 2], asked[..., self.width // 2 :]
        else:
            s, c = asked[..., 0::2], asked[..., 1::2]
        if self.clamp is not None:
            return of_keys + self._clamped(s, c, at, constants["step"], xp=xp)
        step, n = constants["step"], xp.matrix_transpose(at.k[0])
        m_waves, n_waves = (cos_sin(p, step, dtype=dtype, xp=xp) for p in (at.q[0], n))
        return sums_of_angles(s, c, m_waves, n_waves, xp=xp) + of_keys

    def _clamped(self, s: Array, c: Array, at: Places, step: Array, *, xp: Any) -> Array:
        """S sin(r) + c cos(r) for the distances r = m - n within the clamp."""
        farthest = self.clamp or 0
        row = clipped(-at.rel, -farthest, farthest, xp=xp) + farthest
        lines = arange(2 * farthest + 1, xp=xp, device=device_of(row)) - farthest
        cos, sin = cos_sin(lines[:, None], step, dtype=s.dtype, xp=xp)
        asked, table = xp.concat([s, c], axis=-1), xp.concat([sin, cos], axis=-1)
        return query_products(asked, table, row, xp=xp)

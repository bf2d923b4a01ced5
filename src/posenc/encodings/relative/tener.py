"""Direction- and distance-aware attention (Yan et al. 2019)."""

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
    astype,
    even_width,
    positive,
    product,
    sums_of_angles,
)


@final
@dataclass(frozen=True)
class TENER(HeadedRelativeSpec):
    """Direction- and distance-aware attention (Yan, Deng, Li and Qiu 2019, arXiv:1911.04474).

        paper   scores[h, m, n] = (q + u[h]) . k + (q + v[h]) . R(m - n)
        code    scores[h, m, n] = (q + u[h]) . k + (q + v[h]) . R(n - m) + k . R(m - n)

    where R(r) is a row of sines and then cosines of the width of a head. Unlike Transformer-XL it
    is not projected, and the scores are not divided by sqrt(d).

    Parameters
    ----------
    dim : int
        Width d of a head, even.
    count : int
        Number of heads.
    base : float
        As for sinusoidal tables.
    ladder : Ladder
        Rule of the frequencies; the authors' code has d/2 - 1 in the exponent's denominator.
    terms : {"code", "paper"}
        Which of the two equations.
    scaling : {"none", "root"}
        Whether the scores are divided by sqrt(d) after all.
    init : Init
        First values of u and v.

    Raises
    ------
    SpecError
        If the width is odd, or a number is out of range.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.TENER(64, count=8)
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'u': (8, 64), 'v': (8, 64)}
    """

    dim: int
    _: KW_ONLY
    count: int
    base: float = 10_000.0
    ladder: Ladder = Ladder(denominator="n-1")
    terms: Literal["code", "paper"] = "code"
    scaling: Literal["none", "root"] = "none"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"u": 0, "v": 0}
    example = Example({"count": 1})
    paper = "yan2019tener"

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        least = 4 if self.ladder == Ladder(denominator="n-1") else 2
        even_width("TENER", least, dim=self.dim)
        positive("TENER", base=self.base)
        self._require(
            not self.ladder.cos_shift,
            "ladder.cos_shift",
            "0, as sines and cosines of one angle are summed",
        )

    @property
    def scale(self) -> float:
        """1, or 1 / sqrt(d)."""
        return 1.0 if self.scaling == "none" else float(1 / self.dim**0.5)

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs of R."""
        return {"step": pair_steps(self.base, self.dim, self.ladder)}

    def parameters(self) -> dict[str, Parameter]:
        """The two biases on the query, for each head."""
        bias = Parameter((self.count, self.dim), self.init)
        return {"u": bias, "v": bias}

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """U . k, and products of queries and keys with R, by sums of angles."""
        u, v = (astype(constants[name], dtype, xp)[:, None, :] for name in ("u", "v"))
        step, n = constants["step"], xp.matrix_transpose(at.k[0])
        m_waves, n_waves = (cos_sin(p, step, dtype=dtype, xp=xp) for p in (at.q[0], n))
        total, half = product(u, xp.matrix_transpose(k), xp=xp), self.dim // 2
        s, c = (q + v)[..., :half], (q + v)[..., half:]
        if self.terms == "paper":
            return total + sums_of_angles(s, c, m_waves, n_waves, xp=xp)
        # R(n - m) is R(m - n) with the sines negated.
        asked = sums_of_angles(-s, c, m_waves, n_waves, xp=xp)
        back = sums_of_angles(-k[..., :half], k[..., half:], n_waves, m_waves, xp=xp)
        return total + asked + xp.matrix_transpose(back)

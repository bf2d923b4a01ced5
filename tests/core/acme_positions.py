"""A package of somebody else, which `test_register.py` installs: an encoding of each kind.

It imports nothing of posenc but what is offered to authors.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import ClassVar, Literal, final

import numpy as np

from posenc.encodings import api


@final
@dataclass(frozen=True)
class Teeth(api.Value):
    """How many teeth a wheel has."""

    count: int = 12


@final
@dataclass(frozen=True)
class Clockwork(api.TableSpec):
    """A hand for each pair, which goes round once in as many positions as its wheel has teeth.

        PE(p) = sin(2 pi p / (teeth (j+1))), cos(2 pi p / (teeth (j+1)))

    Its hands meet again after some time.
    """

    dim: int
    _: KW_ONLY
    teeth: Teeth = Teeth()
    order: Literal["interleaved", "sin_cos"] = "interleaved"

    bibtex = "@misc{clockwork, title = {A clockwork}}"

    def check(self):
        api.even_width("Clockwork", dim=self.dim)
        api.at_least("Clockwork", 2, teeth=self.teeth.count)

    def constants(self):
        exact = api.context()
        turn = exact.multiply(2, api.pi())
        wheels = [self.teeth.count * (j + 1) for j in range(self.dim // 2)]
        hands = [exact.divide(turn, wheel) for wheel in wheels]
        return {"step": api.steps(hands)[None, :]}

    def rows(self, positions, constants, *, dtype, xp):
        cos, sin = api.cos_sin(positions, constants["step"], dtype=dtype, xp=xp)
        return api.columns(cos, sin, self.order, self.dim, (self.dim // 2,), xp=xp)


@final
@dataclass(frozen=True)
class Harmonic(api.RotarySpec):
    """Pairs that turn at the harmonics of one frequency.

        angle[j] = p (j + 1) / slowest

    The pairs are those of an overtone series.
    """

    dim: int
    _: KW_ONLY
    pairing: api.Pairing | Literal["half", "interleaved"]
    slowest: float = 1000.0

    bibtex = "@misc{harmonic, title = {Harmonics}}"

    def check(self):
        api.even_width("Harmonic", dim=self.dim)
        api.positive("Harmonic", slowest=self.slowest)

    def constants(self):
        exact = api.context()
        unit = exact.divide(1, Decimal(self.slowest))
        return {
            "step": api.steps([exact.multiply(j, unit) for j in range(1, self.pairs + 1)])[None]
        }

    def cos_sin(self, positions, constants, *, dtype, xp):
        return api.cos_sin(positions, constants["step"], dtype=dtype, xp=xp)


@final
@dataclass(frozen=True)
class Ramp(api.BiasSpec):
    """A slope for each head, steeper from head to head, that begins anew after some positions.

        bias = -(h + 1) (|m - n| mod reach) / H

    Each head has its slope among the constants.
    """

    heads: int
    _: KW_ONLY
    reach: int = 16

    by_head: ClassVar[dict[str, int]] = {"slopes": 0}
    bibtex = "@misc{ramp, title = {A ramp}}"

    def check(self):
        super().check()
        api.at_least("Ramp", reach=self.reach)

    def constants(self):
        return {"slopes": np.arange(1, self.heads + 1) / self.heads}

    def score(self, q, k, head, constants, *, dtype, xp):
        climbed = xp.abs(api.distance(q, k)) % self.reach
        slope = api.astype(api.lookup(constants["slopes"], head, xp=xp), dtype, xp)
        return -slope * api.astype(climbed, dtype, xp)


@final
@dataclass(frozen=True)
class Neighbour(api.RelativeSpec):
    """A learned vector for the key before a query, that at it, and that after it.

        score = q . w[clip(n - m, -1, 1)]

    All heads share it.
    """

    dim: int

    bibtex = "@misc{neighbour, title = {Neighbours}}"

    def check(self):
        api.width_of("Neighbour", dim=self.dim)

    def parameters(self):
        return {"weight": api.Parameter((3, self.dim), api.Init())}

    def score(self, q, k, at, constants, *, dtype, xp):
        weight = api.astype(constants["weight"], dtype, xp)
        products = api.product(q, xp.permute_dims(weight, (1, 0)), xp=xp)  # (..., heads, q, 3)
        step = xp.clip(at.rel, -1, 1) + 1
        return api.along(products, step, xp=xp)

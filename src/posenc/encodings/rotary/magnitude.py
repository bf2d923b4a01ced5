"""How a rotary embedding changes the size of attention scores, apart from turning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, final

from posenc._core.spec.checks import positive
from posenc._core.spec.spec import Value

Array = Any


@final
@dataclass(frozen=True, kw_only=True)
class Temperature(Value):
    """A factor on the scores of a query that grows with its position.

        log         max(1, ln(p + start) / ln(length))
        log_floor   1 + strength * ln(1 + floor((p + start) / length))

    Parameters
    ----------
    rule : {"log", "log_floor"}
        The formula.
    length : int
        Positions up to which the factor is 1.
    strength : float
        Slope of `log_floor`.
    start : int
        Added to the position: 1 where a model counts tokens from one.

    Examples
    --------
    >>> import posenc
    >>> rule = posenc.Temperature(rule="log_floor", length=8192, strength=0.1)
    >>> posenc.logit_scale(rule, [0, 8191, 8192]).round(4)
    array([1.    , 1.    , 1.0693], dtype=float32)
    """

    rule: Literal["log", "log_floor"]
    length: int
    strength: float = 0.1
    start: int = 0

    def check(self) -> None:
        """Raise `SpecError` for a length without a logarithm."""
        self._require(self.length >= 2, "length", "at least 2 positions")

    def factors(self, positions: Array, *, dtype: Any, xp: Any) -> Array:
        """The factor at each position: integers (...) -> (...) in `dtype`."""
        # Nothing is added to a position, which may be the largest that its integers hold.
        if self.rule == "log_floor":
            # The division stays in integers: float32 would miscount blocks beyond 2**24.
            blocks = positions // self.length
            blocks = blocks + (positions - blocks * self.length + self.start) // self.length
            return 1.0 + self.strength * xp.log1p(xp.astype(blocks, dtype))
        beyond = positions > self.length - self.start
        safe = xp.where(beyond, positions, xp.full_like(positions, self.length))
        counted = xp.astype(safe, dtype) + self.start
        logarithm = xp.log(counted) * (1 / math.log(self.length))
        return xp.where(beyond, logarithm, xp.ones_like(logarithm))


@final
@dataclass(frozen=True, kw_only=True)
class RotaryMagnitude(Value):
    """The factors that come with a rotation, each with the place where it acts.

        cos_sin    cos and sin are multiplied by the attention factor m, so scores by m ** 2
        softmax    the softmax scale is multiplied by m ** 2
        none       the factor is left out

    Parameters
    ----------
    attention_factor : float, optional
        The number m; by default the one that the scaling asks for (1 without a scaling).
    at : {"cos_sin", "softmax", "none"}
        Where it acts.
    logit_factor : float or "scaling"
        A further factor on the softmax scale; "scaling" takes the one that the scaling asks for.
    temperature : Temperature, optional
        A factor on the scores of each query, from its position.

    Notes
    -----
    What acts on the softmax scale is given by `posenc.logit_scale`; the verbs that turn queries and
    keys do not apply it.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.YaRN(40, original_length=4096, mscale_all_dim=0.707, mscale=0.707)
    >>> magnitude = posenc.RotaryMagnitude(logit_factor="scaling")
    >>> rope = posenc.RoPE(64, pairing="interleaved", scaling=scaling, magnitude=magnitude)
    >>> rope.attention_factor, round(posenc.logit_scale(rope), 4)
    (1.0, 1.5896)
    """

    attention_factor: float | None = None
    at: Literal["cos_sin", "softmax", "none"] = "cos_sin"
    logit_factor: float | Literal["scaling"] = 1.0
    temperature: Temperature | None = None

    def check(self) -> None:
        """Raise `SpecError` for factors that are not positive."""
        for name in ("attention_factor", "logit_factor"):
            value = getattr(self, name)
            if isinstance(value, float):
                positive("RotaryMagnitude", **{name: value})

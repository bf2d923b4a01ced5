"""Rotary position embedding with every choice that published code makes of it."""

from __future__ import annotations

import functools
import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.numeric.arrangement import Arrangement, RungLayout
from posenc._core.numeric.matrix import PhaseMatrix
from posenc._core.numeric.phase import evaluate, turns
from posenc._core.tracing import compile_time
from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Ladder,
    PairingField,
    RotarySpec,
    bad_argument,
    device_of,
    even_width,
    positive,
)
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.scaling.base import Scaling, contradiction
from posenc.scaling.per_axis import PerAxis


@final
@dataclass(frozen=True)
class RoPE(RotarySpec):
    """Rotary position embedding (Su et al. 2021, arXiv:2104.09864).

        q'[2j]   = q[2j]   cos(p f[j]) - q[2j+1] sin(p f[j])
        q'[2j+1] = q[2j+1] cos(p f[j]) + q[2j]   sin(p f[j])         f[j] = base ** (-2j / d)

    so that the product of a query at m and a key at n depends on n - m alone.

    Parameters
    ----------
    dim : int
        The rotated width d, even. A wider head passes the rest of its channels through.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair. Required, as it belongs to the weights.
    base : float or tuple of float
        10000 in the paper; "theta" in many configs. A tuple has one for each axis, in their order.
    scaling : Scaling or tuple of Scaling
        What extends the context: `posenc.scaling.YaRN(...)` and others, applied in order.
    ladder : Ladder
        How the frequencies follow from the base.
    arrangement : Arrangement
        Which axis and rung each pair uses: grids of 2 and 3 axes, M-RoPE sections, pairs that do
        not turn.
    magnitude : RotaryMagnitude
        The attention factor and where it acts; factors on the logits.
    phase : {"exact", "float32", "real"}
        `exact`: integer positions, right at every one of them. `real`: float32 and float64
        coordinates too (pixel centres, seconds). `float32`: the classic arithmetic and its error,
        to continue a checkpoint bit by bit.

    Raises
    ------
    SpecError
        If the width is odd, sections do not add up, axes lack a base, or scalings contradict each
        other.

    Notes
    -----
    Cosines and sines are right to 1e-7 in float32 at every position up to 2**31. Rotations are
    computed in float32 (float64 for float64 inputs) and rounded once, to the dtype of the input.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope = posenc.RoPE(4, pairing="interleaved")
    >>> posenc.rotate(rope, np.array([[1.0, 0, 1, 0]] * 2)).round(4)
    array([[1.    , 0.    , 1.    , 0.    ],
           [0.5403, 0.8415, 1.    , 0.01  ]])
    """

    dim: int
    _: KW_ONLY
    pairing: PairingField
    base: float | tuple[float, ...] = 10_000.0
    scaling: Scaling | tuple[Scaling, ...] = ()
    ladder: Ladder = Ladder()
    arrangement: Arrangement = Arrangement()
    magnitude: RotaryMagnitude = RotaryMagnitude()
    phase: Literal["exact", "float32", "real"] = "exact"

    paper = "su2021roformer"

    def __post_init__(self) -> None:  # type: ignore[override]  # see `PairingField`
        if isinstance(self.scaling, Scaling):
            object.__setattr__(self, "scaling", (self.scaling,))
        super().__post_init__()

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        todo = "`dim` is the rotated width; a wider head passes its other channels through."
        even_width("RoPE", 2, todo, dim=self.dim)
        for base in self.bases:
            positive("RoPE", base=base)
        self.channels.sizes(self.pairs)
        layout = self.arrangement.layout(self.pairs)
        if isinstance(self.base, tuple) and len(self.base) != len(self.axes):
            raise self._mismatch(
                "base", f"one base for each of the axes {self.axes}", f"{len(self.base)} of them"
            )
        self._require(
            self.arrangement.pad is None,
            "arrangement",
            "no `pad`: rotations have no rows",
            "pad",
        )
        self._require(
            not self.ladder.cos_shift,
            "ladder",
            "one frequency for the cosine and sine of a pair",
            f"cos_shift={self.ladder.cos_shift}",
        )
        for scaling in self.scalings:
            if isinstance(scaling, PerAxis):
                self._check_axes(scaling, layout)
        bases = self.base if isinstance(self.base, tuple) else (self.base,) * len(self.axes)
        for axis, base in enumerate(bases):
            self._check_rules(axis, base)
        if self.needs_length:
            self.at(1)  # whose constants hold the rules to the number of pairs

    def _check_axes(self, scaling: PerAxis, layout: RungLayout) -> None:
        """Raise unless each axis has a rule and a ladder of its own."""
        rules, axes = scaling.rules, self.axes
        self._require(
            len(rules) == len(axes),
            "scaling",
            f"{len(axes)} rules, one or None for each of the axes {axes}",
            f"{len(rules)} of them",
        )
        first = {a for a, j in zip(layout.axis, layout.index, strict=True) if j == 0}
        self._require(
            first >= {*layout.axis},
            "scaling",
            "one rule for the ladder that the axes share",
            "a PerAxis",
            f"With rule={self.arrangement.rule!r} each axis has a part of one ladder: "
            "give one rule, or scale the positions of an axis.",
        )
        self._require(
            not scaling.uneven or self.magnitude.at != "softmax",
            "magnitude",
            "at='cos_sin' for attention factors of single axes",
            "at='softmax', where all pairs have one",
        )

    def _check_rules(self, axis: int, base: float) -> None:
        """Raise unless the rules of an axis act on its ladder, and together."""
        rules = self.rules_of(axis)
        why = contradiction(rules)
        self._require(
            not why,
            "scaling",
            "rules that go together",
            why,
            "Each of them extends the context by itself.",
        )
        for rule in rules:
            self._require(
                not rule.geometric or (self.ladder.spacing == "geometric" and base != 1),
                "ladder",
                f"a geometric ladder, as {type(rule).__name__} needs its base",
                f"spacing={self.ladder.spacing!r} with base {base}",
            )

    @property
    def scalings(self) -> tuple[Scaling, ...]:
        """The scalings in order."""
        return self.scaling if isinstance(self.scaling, tuple) else (self.scaling,)

    def rules_of(self, axis: int) -> tuple[Scaling, ...]:
        """What acts on the ladder of one axis, in order."""
        return tuple(rule for scaling in self.scalings for rule in scaling.of_axis(axis))

    @property
    def bases(self) -> tuple[float, ...]:
        """The base of each axis, or the one of all."""
        return self.base if isinstance(self.base, tuple) else (self.base,)

    @property
    def coordinates(self) -> Literal["integer", "real"]:
        """Whether positions are integers, or may be real."""
        return "real" if self.phase == "real" else "integer"

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first and last length with frequencies of their own, while the length is open."""
        # At most one scaling depends on the length, as each stretches the context of its axes.
        return next((s.lengths for s in self.scalings if s.needs_length), None)

    def at(self, length: int) -> RoPE:
        """The same encoding for sequences of `length` positions, its length-dependent rules fixed.

        Parameters
        ----------
        length : int
            Number of positions of the sequence, cached ones included.

        Returns
        -------
        RoPE
            A spec whose verbs need no `length`; itself where nothing depends on it.
        """
        lengths = self.lengths
        if lengths is None:
            return self
        if not isinstance(length, (int, np.integer)):
            raise bad_argument(
                "RoPE.at: length",
                "a number",
                type(length).__name__,
                "Pass it to the verb: posenc.rotate(spec, x, length=...).",
            )
        first, last = lengths
        # Lengths of one set of frequencies are one spec, and one compiled graph.
        length = max(length, first) if last is None else min(max(length, first), last)
        return _at(self, length)

    @property
    def magnitude_of_scores(self) -> RotaryMagnitude:
        """The factors as declared."""
        return self.magnitude

    def _factor(self) -> float:
        if self.magnitude.attention_factor is not None:
            return self.magnitude.attention_factor
        self._require_length()
        factor = 1.0  # compilers follow no product of a generator
        for scaling in self.scalings:
            factor *= scaling.attention_factor()
        return factor

    @property
    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        return self._factor() if self.magnitude.at == "cos_sin" else 1.0

    @property
    def uneven(self) -> bool:
        """Whether pairs have attention factors of their own, by their axis."""
        own = self.magnitude.attention_factor is None and self.magnitude.at == "cos_sin"
        return own and any(scaling.uneven for scaling in self.scalings)

    @property
    def attention_factors(self) -> tuple[float, ...]:
        """The factor on cosines and sines of the pairs of each axis."""
        if not self.uneven:
            return (self.attention_factor,) * len(self.axes)
        self._require_length()
        rules = map(self.rules_of, range(len(self.axes)))
        return tuple(
            math.prod((rule.attention_factor() for rule in own), start=1.0) for own in rules
        )

    def amplitude(self, like: Array, *, dtype: Any, xp: Any) -> Array | float:
        """The factor on cosines and sines: a number, or (pairs,) on the device of `like`."""
        if not self.uneven:
            return self.attention_factor
        return xp.asarray([*_pair_factors(self)], dtype=dtype, device=device_of(like))

    @property
    def logit_factor(self) -> float:
        """The constant factor on the softmax scale."""
        factor = self.magnitude.logit_factor
        if isinstance(factor, str):
            factor = 1.0
            for scaling in self.scalings:
                factor *= scaling.logit_factor()
        return factor * self._factor() ** 2 if self.magnitude.at == "softmax" else factor

    def _require_length(self) -> None:
        if self.needs_length:
            caller = " and ".join(type(s).__name__ for s in self.scalings if s.needs_length)
            raise bad_argument(
                f"RoPE with {caller}",
                "the length of the sequence",
                None,
                "Fix it: `spec.at(length)`.",
            )

    @property
    def matrix(self) -> PhaseMatrix:
        """The phases of the pairs."""
        self._require_length()
        return PhaseMatrix(
            self.base,
            self.ladder,
            self.arrangement,
            self.pairs,
            self.dim,
            "float32" if self.phase == "float32" else "exact",
            self.coordinates,
            self.scalings,
        )

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs; none while the length is open."""
        return {} if self.needs_length else self.matrix.constants()

    def phasors(
        self, positions: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines of the angles: (..., axes) -> two arrays (..., pairs)."""
        if self.phase == "exact" and "step" in constants:
            turn = turns(positions, constants["step"], constants.get("origin"))
            return evaluate(turn, dtype=dtype, xp=xp)
        return super().phasors(positions, constants, dtype=dtype, xp=xp)


@compile_time
@functools.lru_cache(maxsize=256)
def _at(spec: RoPE, length: int) -> RoPE:
    return spec.replace(scaling=tuple(scaling.at(length) for scaling in spec.scalings))


@compile_time
@functools.lru_cache(maxsize=64)
def _pair_factors(spec: RoPE) -> tuple[float, ...]:
    """The attention factor of each pair, which is that of its axis."""
    factors = spec.attention_factors
    return tuple(factors[axis] for axis in spec.arrangement.layout(spec.pairs).axis)

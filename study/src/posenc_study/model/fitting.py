"""How the constants of the papers become those of a small model.

The constants of the papers belong to sequences of hundreds or thousands of tokens. Here they are
brought to the length L that a task trains on, by these rules and no others:

    T5                 up to 32 buckets for distances up to L / 2, or 8
    clipped distances  the same reach (Shaw, NEZHA, DeBERTa, clipped tables)
    learned tables     rows up to the longest test; those beyond L stay untrained
    randomised         positions drawn from twice the longest test
    RoPE, sinusoidal   base 10000, a setting of the task (`base`)
    YaRN               pairs that turn more than L / 16 times in L are kept, as many as 32 at most;
                       those that turn less than once are stretched
    FIRE               threshold L
    xPos               scale L / 2, as 512 is to a trained length of 1024
    ALiBi              unchanged

Nothing else is chosen for one encoding: all have the same model, batches, steps and rate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import posenc
from posenc._core.errors import PosencError
from posenc._core.spec.spec import Spec
from posenc.registry import lookup


@dataclass(frozen=True)
class FittedSizes:
    """What an encoding is fitted to.

    Parameters
    ----------
    width, heads, layers : int
        Of the model.
    length : int
        The longest sequence that is trained on.
    longest : int
        The longest sequence that is tested.
    base : float
        Of sinusoids and rotations.
    """

    width: int
    heads: int
    layers: int
    length: int
    longest: int
    base: float = 10_000.0

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.width // self.heads

    @property
    def half(self) -> int:
        """Half the trained length, or 8."""
        return max(8, self.length // 2)


Make = Callable[[FittedSizes, bool], "Spec | None"]


def rope(sizes: FittedSizes, *scaling: Any) -> Spec:
    """Rotations of whole heads."""
    return posenc.RoPE(sizes.head_dim, pairing="half", base=sizes.base, scaling=scaling)


def sinusoidal(sizes: FittedSizes, causal: bool) -> Spec:
    """The table of the paper."""
    del causal
    return posenc.Sinusoidal(sizes.width, base=sizes.base)


def learned(sizes: FittedSizes, causal: bool, *, rows: int | None = None) -> Spec:
    """A row for each position, as many as the longest test has by default."""
    del causal
    # The deviation of the embeddings before they are multiplied by sqrt(width).
    init = posenc.Init("normal", scale=sizes.width**-0.5)
    return posenc.Learned(sizes.width, length=rows or sizes.longest, init=init)


def t5(sizes: FittedSizes, causal: bool) -> Spec:
    """Buckets up to half the trained length."""
    # As many buckets as distances, but no more than the published 32, half of them for each
    # direction where there are two.
    even = sizes.half // 2 * 2
    return posenc.T5(
        sizes.heads,
        buckets=min(32, even if causal else 2 * even),
        max_distance=even,
        direction="causal" if causal else "bidirectional",
    )


def yarn(sizes: FittedSizes, length: int) -> Spec:
    """Rotations for a length beyond the trained one."""
    factor = length / sizes.length
    fast = float(min(32, max(2, sizes.length // 16)))
    return rope(sizes, posenc.scaling.YaRN(factor, original_length=sizes.length, beta_fast=fast))


def of(name: str, /, **choices: Field) -> Make:
    """A spec of a class whose fields are functions of the sizes."""

    def make(sizes: FittedSizes, causal: bool) -> Spec:
        del causal
        fields = {field: value(sizes) for field, value in choices.items()}
        kind: Any = lookup(name)
        lead = {"table": sizes.width, "bias": sizes.heads}.get(kind.kind, sizes.head_dim)
        spec: Spec = kind(lead, **fields)
        return spec

    return make


def for_heads(spec: Any, count: int) -> Any:
    """The spec for `count` heads, by whichever field says how many have numbers of their own."""

    def stated(spec: Any) -> int | None:
        number: int | None = spec.per_head if spec.kind == "rotary" else spec.heads
        return number

    if spec.kind == "table" or stated(spec) in (None, count):
        return spec
    values = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}
    for name in (name for name, value in values.items() if value == stated(spec)):
        with contextlib.suppress(PosencError):
            other = spec.replace(**{name: count})
            if stated(other) == count:
                return other
    return spec


# Fields of specs as functions of the sizes.
Field = Callable[[FittedSizes], Any]
heads: Field = attrgetter("heads")
width: Field = attrgetter("width")
head_dim: Field = attrgetter("head_dim")
length: Field = attrgetter("length")
longest: Field = attrgetter("longest")
half: Field = attrgetter("half")
base: Field = attrgetter("base")


def just(value: Any) -> Field:
    """The same for all sizes."""
    return lambda sizes: value  # noqa: ARG005


pairing: Field = just("half")
axis: Field = just(("x",))


def line(sizes: FittedSizes) -> tuple[int]:
    """The lengths of a window along the only axis, which holds the longest test."""
    return (sizes.longest,)


def waves(sizes: FittedSizes) -> posenc.Ladder:
    """The range of waves: half a wave over all positions to half a wave between two of them."""
    return posenc.Ladder(spacing="linear", first=math.pi, last=math.pi * sizes.longest)

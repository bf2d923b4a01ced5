"""The encodings of the study by name, and how a name becomes the plans of a model.

The constants of the papers belong to sequences of hundreds or thousands of tokens. Here they are
brought to the length L that a task trains on, by these rules and no others:

    T5                 up to 32 buckets for distances up to L / 2, or 8
    clipped distances  the same reach (Shaw, NEZHA, DeBERTa, clipped tables)
    learned tables     rows up to the longest test; those beyond L stay untrained
    randomised         positions drawn from twice the longest test
    RoPE, sinusoidal   base 10000, a setting of the task (`base`)
    YaRN               pairs that turn more than L / 16 times in L are kept, as many as 32 at most;
                       those that turn less than once are stretched
    FIRE               threshold L; xPos decays over 8 L, its published ratio of 512 to ~64
    ALiBi              unchanged

Nothing else is chosen for one encoding: all have the same model, batches, steps and rate.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import posenc
from posenc import Entry, Plan
from posenc._core.errors import ArgumentError, explain, suggest
from posenc._core.spec import Spec
from posenc.registry import SPECS
from posenc.study.model import Scheme

__all__ = ["ENCODINGS", "UNSUITED", "Encoding", "Sizes", "encoding"]


@dataclass(frozen=True)
class Sizes:
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


Make = Callable[[Sizes, bool], "Spec | None"]


@dataclass(frozen=True)
class Encoding:
    """An encoding of the study.

    Parameters
    ----------
    words : str
        What it is, in a line.
    make : callable
        (sizes, whether the stack is causal) -> Spec, or None for no positions.
    pattern : str
        Entries of the layers, repeated: `with`, and `without` for layers without positions.
    drawn : bool
        Whether positions are drawn from a longer range instead of counted.
    shared : bool
        Whether all layers learn one set of parameters.
    window : bool
        Whether layers `with` positions see the last L / 2 keys only.
    stretched : callable, optional
        (sizes, length) -> Spec that a trained model has for a test of that length.

    Examples
    --------
    >>> from posenc.study.encodings import ENCODINGS, Sizes
    >>> sizes = Sizes(width=64, heads=4, layers=2, length=64, longest=512)
    >>> ENCODINGS["alibi"].scheme(sizes).decoder[0].specs
    (ALiBi(4),)
    """

    words: str
    make: Make
    pattern: str = "with"
    drawn: bool = False
    shared: bool = False
    window: bool = False
    stretched: Callable[[Sizes, int], Spec] | None = None

    def scheme(self, sizes: Sizes, *, at: int | None = None) -> Scheme:
        """The plans of a model.

        Parameters
        ----------
        sizes : Sizes
            What they are fitted to.
        at : int, optional
            The length of a test: encodings that are stretched for it differ from the trained ones.

        Returns
        -------
        Scheme
            With a plan for an encoder and one for a decoder.
        """
        if self.stretched is not None and at is not None and at > sizes.length:
            stretched, length = self.stretched, at
            other = replace(self, make=lambda sizes, _: stretched(sizes, length), stretched=None)
            return other.scheme(sizes)
        encoder, decoder = (self._plan(sizes, causal) for causal in (False, True))
        drawn = 2 * sizes.longest if self.drawn else None
        return Scheme(encoder, decoder, drawn=drawn, reach=sizes.longest)

    def _plan(self, sizes: Sizes, causal: bool) -> Plan:
        spec = self.make(sizes, causal)
        embeddings, inside = None, spec
        if spec is not None and spec.kind == "table":
            embeddings, inside = Entry("embeddings", specs=(spec,)), None
        entry = Entry(
            "with",
            specs=() if inside is None else (inside,),
            window=sizes.half if self.window else None,
            share="model" if self.shared else "layer",
        )
        entries = (entry, Entry("without"))
        return Plan.repeat(entries, self.pattern, layers=sizes.layers, embeddings=embeddings)


# --- what the papers' constants become ------------------------------------------------------------


def _rope(sizes: Sizes, *scaling: Any) -> Spec:
    return posenc.RoPE(sizes.head_dim, pairing="half", base=sizes.base, scaling=scaling)


def _sinusoidal(sizes: Sizes, causal: bool) -> Spec:
    del causal
    return posenc.Sinusoidal(sizes.width, base=sizes.base)


def _learned(sizes: Sizes, causal: bool, *, rows: int | None = None) -> Spec:
    del causal
    # The deviation of the embeddings before they are multiplied by sqrt(width).
    init = posenc.Init("normal", scale=sizes.width**-0.5)
    return posenc.Learned(sizes.width, length=rows or sizes.longest, init=init)


def _t5(sizes: Sizes, causal: bool) -> Spec:
    # As many buckets as distances, but no more than the published 32, half of them for each
    # direction where there are two.
    even = sizes.half // 2 * 2
    return posenc.T5(
        sizes.heads,
        buckets=min(32, even if causal else 2 * even),
        max_distance=even,
        direction="causal" if causal else "bidirectional",
    )


def _yarn(sizes: Sizes, length: int) -> Spec:
    factor = length / sizes.length
    fast = float(min(32, max(2, sizes.length // 16)))
    return _rope(sizes, posenc.scaling.YaRN(factor, original_length=sizes.length, beta_fast=fast))


def _class(name: str) -> Any:
    return getattr(importlib.import_module(SPECS[name]), name)


def _of(name: str, /, **choices: Callable[[Sizes], Any]) -> Make:
    """A spec of a class whose fields are functions of the sizes."""

    def make(sizes: Sizes, causal: bool) -> Spec:
        del causal
        fields = {field: value(sizes) for field, value in choices.items()}
        kind = _class(name)
        lead = {"table": sizes.width, "bias": sizes.heads}.get(kind.kind, sizes.head_dim)
        spec: Spec = kind(lead, **fields)
        return spec

    return make


def _heads(sizes: Sizes) -> int:
    return sizes.heads


def _half(sizes: Sizes) -> int:
    return sizes.half


def _longest(sizes: Sizes) -> int:
    return sizes.longest


def _line(sizes: Sizes) -> tuple[int]:
    return (sizes.longest,)


def _pairing(sizes: Sizes) -> str:
    del sizes
    return "half"


def _length(sizes: Sizes) -> int:
    return sizes.length


def _width(sizes: Sizes) -> int:
    return sizes.width


def _head_dim(sizes: Sizes) -> int:
    return sizes.head_dim


def _x(sizes: Sizes) -> tuple[str]:
    del sizes
    return ("x",)


def _base(sizes: Sizes) -> float:
    return sizes.base


def _just(value: Any) -> Callable[[Sizes], Any]:
    return lambda sizes: value  # noqa: ARG005


ENCODINGS: dict[str, Encoding] = {
    "none": Encoding("no positions at all", lambda sizes, causal: None),  # noqa: ARG005
    "sinusoidal": Encoding("sines and cosines, added to the embeddings", _sinusoidal),
    "learned": Encoding("a learned row for each position, added to the embeddings", _learned),
    "rope": Encoding("rotations of queries and keys", lambda sizes, _: _rope(sizes)),
    "alibi": Encoding("slopes that fall with distance", _of("ALiBi")),
    "t5": Encoding("learned biases of buckets of distances", _t5, shared=True),
    "kerple": Encoding("learned logarithms of distance", _of("KERPLE")),
    "fire": Encoding(
        "a learned function of relative distance",
        _of("FIRE", threshold=lambda sizes: float(sizes.length)),
    ),
    "xpos": Encoding(
        "rotations that fade with distance",
        _of("XPos", pairing=_pairing, base=_base, scale=lambda sizes: 8.0 * sizes.length),
    ),
    "sandwich": Encoding("products of sinusoids, as a bias", _of("Sandwich", dim=_width)),
    "shaw": Encoding("learned vectors of clipped distances", _of("Shaw", clip=_half)),
    "transformer-xl": Encoding(
        "sinusoids of distances, met by queries",
        _of("TransformerXL", count=_heads, width=_width),
    ),
    "cope": Encoding("positions counted by gates", _of("CoPE", length=lambda s: s.length)),
    "concatenated": Encoding(
        "sines and cosines beside the embeddings",
        lambda sizes, causal: posenc.Concatenated(sizes.width, table=_sinusoidal(sizes, causal)),  # type: ignore[arg-type]
    ),
    "randomised-sinusoidal": Encoding("sinusoids at drawn positions", _sinusoidal, drawn=True),
    "randomised-learned": Encoding(
        "learned rows at drawn positions",
        lambda sizes, causal: _learned(sizes, causal, rows=2 * sizes.longest),
        drawn=True,
    ),
    "randomised-rope": Encoding(
        "rotations by drawn positions", lambda sizes, _: _rope(sizes), drawn=True
    ),
    "rope-and-none": Encoding(
        "layers with rotations and a window, then one without positions",
        lambda sizes, _: _rope(sizes),
        pattern="with without",
        window=True,
    ),
    "partial-rope": Encoding(
        "rotations of three quarters of the pairs, the slow quarter still",
        lambda sizes, _: _rope(sizes, posenc.scaling.Proportional(0.75)),
    ),
    "rope-linear": Encoding(
        "rotations, positions pressed together in longer tests",
        lambda sizes, _: _rope(sizes),
        stretched=lambda sizes, n: _rope(sizes, posenc.scaling.Linear(n / sizes.length)),
    ),
    "rope-ntk": Encoding(
        "rotations, of a larger base in longer tests",
        lambda sizes, _: _rope(sizes),
        stretched=lambda sizes, n: _rope(sizes, posenc.scaling.NTK(n / sizes.length)),
    ),
    "rope-yarn": Encoding(
        "rotations, pressed together by parts in longer tests",
        lambda sizes, _: _rope(sizes),
        stretched=_yarn,
    ),
}


# --- all others of the registry -------------------------------------------------------------------

SPELLED = {
    "RoPE": "rope", "XPos": "xpos", "ALiBi": "alibi", "CoPE": "cope", "PoPE": "pope",
    "FoPE": "fope", "MixedRoPE": "mixed-rope", "GoldenGateRoPE": "golden-gate-rope",
    "LogCPB": "log-cpb", "Time2Vec": "time2vec", "ALiBi2D": "alibi-2d", "IRPEBias": "irpe-bias",
    "Sphere2Vec": "sphere2vec",
}  # fmt: skip


def kebab(name: str) -> str:
    """The name of a class as the study writes it: TransformerXL is transformer-xl.

    Parameters
    ----------
    name : str
        Of a class.
    """
    return SPELLED.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _waves(sizes: Sizes) -> posenc.Ladder:
    # From half a wave over all positions to half a wave between two of them.
    return posenc.Ladder(spacing="linear", first=math.pi, last=math.pi * sizes.longest)


_OTHERS: dict[str, dict[str, Callable[[Sizes], Any]]] = {
    "Fourier": {"ladder": _waves},
    "Timestep": {},
    "Time2Vec": {},
    "SoftPosition": {"space": _x},
    "LearnedFourier": {"features": _width, "hidden": _width, "space": _x},
    "HashGrid": {
        "levels": _just(4),
        "log2_size": _just(10),
        "coarsest": _just(4),
        "finest": _longest,
        "space": _x,
    },
    "GoldenGateRoPE": {
        "heads": _heads,
        "pairing": _pairing,
        "lowest": lambda sizes: 1 / sizes.length,
        "highest": _just(1.0),
        "space": _x,
    },
    "MixedRoPE": {"heads": _heads, "pairing": _pairing, "space": _x, "init": _just("normal")},
    "STRING": {"heads": _heads, "pairing": _pairing, "space": _x},
    "LRPE": {"heads": _heads, "pairing": _pairing, "base": _base},
    "PoPE": {"heads": _heads, "pairing": _pairing, "base": _base},
    "FoPE": {"heads": _heads, "pairing": _pairing, "length": _length, "base": _base},
    "WindowTable": {"window": _line},
    "LogCPB": {
        "window": _line,
        "trained_window": lambda sizes: (sizes.length,),
        "hidden": _width,
    },
    "TUPE": {"dim": _head_dim, "length": _longest},
    "Decay": {},
    "TISA": {},
    "OffsetTable": {"size": _line},
    "ClippedTable": {"clip": _half},
    "AdaptiveSpan": {"length": _length, "ramp": _half, "start": _just(0.5)},
    "RotaryBias": {"dim": _head_dim, "base": _base},
    "DynamicBias": {"window": _line, "width": _head_dim},
    "MusicTransformer": {"count": _heads, "length": _longest},
    "Disentangled": {"count": _heads, "max_distance": _half},
    "Decomposed": {"size": _line},
    "GatedBuckets": {"count": _heads, "buckets": _length, "max_distance": _length},
    "PositionSensitive": {"length": _longest},
    "NEZHA": {"clip": _half},
    "TENER": {"count": _heads},
    "DAPE": {"count": _heads},
    "ForgetGates": {"count": _heads},
}
ENCODINGS |= {kebab(name): Encoding(name, _of(name, **f)) for name, f in _OTHERS.items()}

_GRID = "its positions are cells of a grid, not places in a sequence"
_SPHERE = "its positions are places on a sphere"

# Encodings of the registry that have no place in a sequence of tokens, and why.
UNSUITED: dict[str, str] = {
    "integrated-fourier": "Its positions are regions of space, with a variance.",
    "grid-cells": f"Unsuited: {_GRID}.",
    "spherical-harmonics": f"Unsuited: {_SPHERE}.",
    "sphere2vec": f"Unsuited: {_SPHERE}.",
    "tree-positions": "Its positions are paths in a tree.",
    "summed": "It sums tables of several axes, and a sequence has one.",
    "alibi-2d": f"Unsuited: {_GRID}.",
    "quadratic": f"Unsuited: {_GRID}.",
    "irpe-bias": f"Unsuited: {_GRID}.",
    "irpe": f"Unsuited: {_GRID}.",
    "spatial-buckets": "Its positions are boxes on a page.",
    "complex-offsets": "Its positions are residues and tokens of molecules.",
    "relative-segments": "Its positions are numbers of segments.",
}


def encoding(name: str) -> Encoding:
    """An encoding of the study by its name, or by the name that posenc has for it.

    Parameters
    ----------
    name : str
        Such as "t5", "transformer-xl" or "TransformerXL".

    Raises
    ------
    ArgumentError
        If there is none, or it has no place in sequences of text; the message says why.
    """
    wanted = name if name in ENCODINGS else kebab(name)
    if wanted in UNSUITED:
        want = "an encoding for sequences of tokens"
        raise ArgumentError(explain("study", want, name, UNSUITED[wanted]))
    if wanted not in ENCODINGS:
        todo = suggest(name, ENCODINGS)
        raise ArgumentError(explain("study", "the name of an encoding", repr(name), todo))
    return ENCODINGS[wanted]

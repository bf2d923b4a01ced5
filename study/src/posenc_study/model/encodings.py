"""The encodings of the study by name.

Their constants are fitted to small models and short sequences by the rules of `fitting`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import posenc
from posenc import Entry, Plan
from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc._core.io import inputs
from posenc._core.spec.checks import USUAL
from posenc._core.spec.spec import Spec
from posenc.registry import specs
from posenc_study.model.fitting import (
    FittedSizes,
    Make,
    axis,
    base,
    for_heads,
    half,
    head_dim,
    heads,
    just,
    learned,
    length,
    line,
    longest,
    of,
    pairing,
    rope,
    sinusoidal,
    t5,
    waves,
    width,
    yarn,
)
from posenc_study.model.inputs import Scheme


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
    >>> from posenc_study.model.encodings import ENCODINGS, FittedSizes
    >>> sizes = FittedSizes(width=64, heads=4, layers=2, length=64, longest=512)
    >>> ENCODINGS["alibi"].scheme(sizes).decoder[0].spec("bias").heads
    4
    """

    words: str
    make: Make
    pattern: str = "with"
    drawn: bool = False
    shared: bool = False
    window: bool = False
    stretched: Callable[[FittedSizes, int], Spec] | None = None

    def scheme(self, sizes: FittedSizes, *, at: int | None = None) -> Scheme:
        """The plans of a model."""
        if self.stretched is not None and at is not None and at > sizes.length:
            stretched, length = self.stretched, at
            other = replace(self, make=lambda sizes, _: stretched(sizes, length), stretched=None)
            return other.scheme(sizes)
        encoder, decoder = (self._plan(sizes, causal) for causal in (False, True))
        drawn = 2 * sizes.longest if self.drawn else None
        return Scheme(encoder, decoder, drawn=drawn, reach=sizes.longest)

    def _plan(self, sizes: FittedSizes, causal: bool) -> Plan:
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


ENCODINGS: dict[str, Encoding] = {
    "none": Encoding("no positions at all", lambda sizes, causal: None),  # noqa: ARG005
    "sinusoidal": Encoding("sines and cosines, added to the embeddings", sinusoidal),
    "learned": Encoding("a learned row for each position, added to the embeddings", learned),
    "rope": Encoding("rotations of queries and keys", lambda sizes, _: rope(sizes)),
    "alibi": Encoding("slopes that fall with distance", of("ALiBi")),
    "t5": Encoding("learned biases of buckets of distances", t5, shared=True),
    "kerple": Encoding("learned logarithms of distance", of("KERPLE")),
    "fire": Encoding(
        "a learned function of relative distance",
        of("FIRE", threshold=lambda sizes: float(sizes.length)),
    ),
    "xpos": Encoding(
        "rotations that fade with distance",
        of("XPos", pairing=pairing, base=base, scale=lambda sizes: sizes.length / 2),
    ),
    "sandwich": Encoding("products of sinusoids, as a bias", of("Sandwich", dim=width)),
    "shaw": Encoding("learned vectors of clipped distances", of("Shaw", clip=half)),
    "transformer-xl": Encoding(
        "sinusoids of distances, met by queries",
        of("TransformerXL", count=heads, width=width),
    ),
    "cope": Encoding("positions counted by gates", of("CoPE", length=lambda s: s.length)),
    "concatenated": Encoding(
        "sines and cosines beside the embeddings",
        lambda sizes, causal: posenc.Concatenated(sizes.width, table=sinusoidal(sizes, causal)),  # type: ignore[arg-type]
    ),
    "randomised-sinusoidal": Encoding("sinusoids at drawn positions", sinusoidal, drawn=True),
    "randomised-learned": Encoding(
        "learned rows at drawn positions",
        lambda sizes, causal: learned(sizes, causal, rows=2 * sizes.longest),
        drawn=True,
    ),
    "randomised-rope": Encoding(
        "rotations by drawn positions", lambda sizes, _: rope(sizes), drawn=True
    ),
    "rope-and-none": Encoding(
        "layers with rotations and a window, then one without positions",
        lambda sizes, _: rope(sizes),
        pattern="with without",
        window=True,
    ),
    "partial-rope": Encoding(
        "rotations of three quarters of the pairs, the slow quarter still",
        lambda sizes, _: rope(sizes, posenc.scaling.Proportional(0.75)),
    ),
    "rope-linear": Encoding(
        "rotations, positions pressed together in longer tests",
        lambda sizes, _: rope(sizes),
        stretched=lambda sizes, n: rope(sizes, posenc.scaling.Linear(n / sizes.length)),
    ),
    "rope-ntk": Encoding(
        "rotations, of a larger base in longer tests",
        lambda sizes, _: rope(sizes),
        stretched=lambda sizes, n: rope(sizes, posenc.scaling.NTK(n / sizes.length)),
    ),
    "rope-yarn": Encoding(
        "rotations, pressed together by parts in longer tests",
        lambda sizes, _: rope(sizes),
        stretched=yarn,
    ),
    "rope-100": Encoding(
        "rotations of base 100", lambda sizes, _: rope(replace(sizes, base=100.0))
    ),
    "rope-1000": Encoding(
        "rotations of base 1000", lambda sizes, _: rope(replace(sizes, base=1000.0))
    ),
}


# --- all others of the registry -------------------------------------------------------------------

SPELLED = {
    "XPos": "xpos", "CoPE": "cope", "PoPE": "pope", "FoPE": "fope", "PaTH": "path",
    "LogCPB": "log-cpb", "Time2Vec": "time2vec", "ALiBi2D": "alibi-2d", "IRPEBias": "irpe-bias",
    "Sphere2Vec": "sphere2vec",
}  # fmt: skip


def kebab(name: str) -> str:
    """The name of a class as the study writes it: TransformerXL is transformer-xl."""
    words = name.replace("RoPE", "Rope").replace("ALiBi", "Alibi")
    return SPELLED.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", words).lower()


# Fields that follow from the sizes; whatever else a class needs is as in its example.
FITTED: dict[str, dict[str, Callable[[FittedSizes], Any]]] = {
    "Fourier": {"ladder": waves},
    "SoftPosition": {"space": axis},
    "LearnedFourier": {"features": width, "hidden": width, "space": axis},
    "HashGrid": {
        "levels": just(4),
        "log2_size": just(10),
        "coarsest": just(4),
        "finest": longest,
        "space": axis,
    },
    "GoldenGateRoPE": {
        "heads": heads,
        "pairing": pairing,
        "lowest": lambda sizes: 1 / sizes.length,
        "highest": just(1.0),
        "space": axis,
    },
    "MixedRoPE": {"heads": heads, "pairing": pairing, "space": axis, "init": just("normal")},
    "STRING": {"heads": heads, "pairing": pairing, "space": axis},
    "LRPE": {"heads": heads, "pairing": pairing, "base": base},
    "PoPE": {"heads": heads, "pairing": pairing, "base": base},
    "FoPE": {"heads": heads, "pairing": pairing, "length": length, "base": base},
    "WindowTable": {"window": line},
    "LogCPB": {
        "window": line,
        "trained_window": lambda sizes: (sizes.length,),
        "hidden": width,
    },
    "TUPE": {"dim": head_dim, "length": longest},
    "OffsetTable": {"size": line},
    "ClippedTable": {"clip": half},
    "AdaptiveSpan": {"length": length, "ramp": half, "start": just(0.5)},
    "RotaryBias": {"dim": head_dim, "base": base},
    "DynamicBias": {"window": line, "width": head_dim},
    "MusicTransformer": {"count": heads, "length": longest},
    "Disentangled": {"count": heads, "max_distance": half},
    "Decomposed": {"size": line},
    "GatedBuckets": {"count": heads, "buckets": length, "max_distance": length},
    "PositionSensitive": {"length": longest},
    "NEZHA": {"clip": half},
    "DAPE": {"count": heads},
}


# The size that comes first, which follows from the kind.
LEADS = {"table": "dim", "rotary": "dim", "bias": "heads", "relative": "dim"}


def _fitted(cls: type[Spec]) -> Encoding:
    if cls.__name__ in FITTED:
        return Encoding(cls.__name__, of(cls.__name__, **FITTED[cls.__name__]))
    example = {**USUAL[cls.kind], **cls.example.fields}
    small = of(cls.__name__, **{k: just(v) for k, v in example.items() if k != LEADS[cls.kind]})
    return Encoding(
        cls.__name__, lambda sizes, causal: for_heads(small(sizes, causal), sizes.heads)
    )


# Encodings of the registry that have no place in a sequence of tokens, and why.
UNSUITED: dict[str, str] = {
    kebab(cls.__name__): cls.example.unsuited for cls in specs() if cls.example.unsuited
}
ENCODINGS |= {
    name: _fitted(cls)
    for name, cls in ((kebab(cls.__name__), cls) for cls in specs())
    if name not in ENCODINGS and name not in UNSUITED
}


def name_of(text: str) -> str:
    """The name that the study has for a class or a name; of a spec its JSON, in one order."""
    if not text.startswith("{"):
        return text if text in ENCODINGS else kebab(text)
    fields = inputs.parse(text, "study", inputs.SPEC, error=ArgumentError)
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise ArgumentError(mismatch("study", 'the JSON of a spec, with its "type"', text))
    return json.dumps(fields, sort_keys=True)


def encoding(text: str) -> Encoding:
    """An encoding of the study by its name, that of its class, or the JSON of a spec.

    Sizes that JSON leaves out are fitted, and the first one is that of the model.
    """
    name = name_of(text)
    if name.startswith("{"):
        fields: Any = inputs.parse(name, "study", inputs.SPEC)
        usual = encoding(fields["type"])

        def make(sizes: FittedSizes, causal: bool) -> Spec:
            fitted: Any = usual.make(sizes, causal)
            stated = {key: value for key, value in fields.items() if key != LEADS[fitted.kind]}
            return cast("Spec", posenc.from_json(json.dumps({**fitted.to_dict(), **stated})))

        return Encoding(name, make)
    if name in UNSUITED:
        expected = "an encoding for sequences of tokens"
        raise ArgumentError(mismatch("study", expected, text, UNSUITED[name]))
    if name not in ENCODINGS:
        todo = suggest(text, ENCODINGS)
        raise ArgumentError(mismatch("study", "the name of an encoding", repr(text), todo))
    return ENCODINGS[name]

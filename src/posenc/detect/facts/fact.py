"""A fact of a model, with its source and what it rests on; and two of which one is wrong."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

from posenc._core.spec.answers import Displayed

Name = Literal[
    "spec", "pairing", "window", "length", "heads", "layers", "rows", "buckets", "frequencies",
    "permuted", "format",
]  # fmt: skip
FactSource = Literal[
    "config", "row", "class", "format", "code", "stamp", "header", "buffer", "weights", "caller"
]


MOST_SHOWN = 3  # numbers


@final
@dataclass(frozen=True)
class Fact(Displayed):
    """One thing that is known of a model.

    Parameters
    ----------
    name : str
        What it is about: `spec`, `pairing`, `window`, `length`, `heads`, `layers`, `rows`,
        `buckets`, `frequencies`, `permuted` or `format`.
    value : object
        What holds: a spec, a word, a number of positions or rows, a shape.
    source : str
        `config`; `row`: that of the family; `class`: what its class in transformers takes where the
        config leaves it out; `format`: a default of the file format; `code`: the modelling file,
        read as text; `stamp`: what a conversion recorded; `header`: the shape of a tensor;
        `buffer`: its numbers; `weights`: evidence; `caller`.
    rests_on : str
        Where it was read, or what was measured.
    layer : str
        The type of layer, as in `Reading`; empty for the whole model.
    layers : tuple of int, optional
        The layers; None where all share it, or they are not known.

    Examples
    --------
    >>> import posenc
    >>> known = posenc.facts({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4})
    >>> known.of("pairing")[0].text
    "half by posenc's row for llama"
    """

    name: Name
    value: Any
    _: KW_ONLY
    source: FactSource
    rests_on: str
    layer: str = ""
    layers: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        """The fact as a clause."""
        value = self.value
        if isinstance(value, tuple) and len(value) > MOST_SHOWN:
            value = (
                f"({', '.join(f'{n:.4g}' for n in value[:MOST_SHOWN])}, …), {len(value)} of them"
            )
        return f"{value} by {self.rests_on}"


@final
@dataclass(frozen=True)
class Contradiction(Displayed):
    """Two facts of one model that exclude each other.

    Parameters
    ----------
    one, other : Fact
        What is stated, and what was found against it.
    todo : str
        The way out.
    why : str
        Both in a clause, where there is more to say than what each says.

    Examples
    --------
    >>> import posenc
    >>> stated = posenc.Fact("rows", (512, 16), source="config", rests_on="the config")
    >>> other = posenc.Fact("rows", (64, 16), source="header", rests_on="wpe.weight")
    >>> posenc.Contradiction(stated, other, "Mend one.").text
    'rows: (512, 16) by the config, but (64, 16) by wpe.weight. Mend one.'
    """

    one: Fact
    other: Fact
    todo: str
    why: str = ""

    @property
    def text(self) -> str:
        """What excludes what, and the way out, in a sentence."""
        place = f" of {self.one.layer}" * bool(self.one.layer)
        why = self.why or f"{self.one.text}, but {self.other.text}"
        return f"{self.one.name}{place}: {why}. {self.todo}"

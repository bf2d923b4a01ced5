"""What a contract holds: kinds of layers, and records of plain numbers about each of them.

A `Part` says what a kind of layer does, a `Check` states numbers that follow from it. A check is
flat: each of its values is a number, a text, or a list of numbers, so that a language without a
JSON library can read it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any, Literal, final

import numpy as np

from posenc._core.errors import bad_argument, bad_spec, suggest
from posenc._core.positions.builder import Positions
from posenc._core.positions.scene import SceneRule
from posenc._core.reading import Note
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec, Value
from posenc.encodings.rotary.magnitude import Temperature


def canonical(value: Any) -> str:
    """The text of a value of plain JSON types in canonical form (RFC 8785); floats are finite.

    Keys are sorted, nothing is between the marks, and numbers are written as JavaScript writes
    them, so that any language gets the same bytes, whatever an editor or another program did to the
    layout.
    """
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        pairs = (f"{encode_basestring(key)}:{canonical(value[key])}" for key in keys)
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        items = (_number(each) if type(each) is float else canonical(each) for each in value)
        return f"[{','.join(items)}]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(float(value))  # beyond 2**53 they would not be the same in every language
    return encode_basestring(value) if type(value) is str else json.dumps(value)


def digest(value: Any) -> str:
    """The SHA-256 of the canonical form in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _number(value: float) -> str:
    """As `Number.prototype.toString` of ECMAScript, from the shortest digits that round back."""
    if value == 0:
        return "0"
    shown = repr(value)
    if "e" not in shown and abs(value) < 1e16:
        return shown.removesuffix(".0")
    sign, digits, exponent = Decimal(shown).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    if 0 < point <= 21:
        shown = text.ljust(point, "0")
        shown = shown[:point] + (f".{shown[point:]}" if len(shown) > point else "")
    elif -6 < point <= 0:
        shown = f"0.{'0' * -point}{text}"
    else:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        shown = f"{text[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"-{shown}" if sign else shown


# --- the values -----------------------------------------------------------------------------------


FORMAT, VERSION = "posenc contract", 2
MOST_LAYERS = 2**16
UNTOLD = (("whole", False), ("permuted", ""))  # as older files do not have them
Kind = Literal["table", "rotary", "bias", "relative", "convolution", "none"]


@final
@dataclass(frozen=True)
class Part(Value):
    """What one kind of layer, or one named attention inside it, does about positions.

    Parameters
    ----------
    name : str
        By which checks and sides refer to it: the kind of layer, with `:attention` behind it for an
        attention of its own inside the layer (`attention:indexer`), and `#2` for a second encoding
        of the same layers.
    kind : {"table", "rotary", "bias", "relative", "convolution", "none"}
        Where it acts.
    layers : tuple of int, optional
        The layers of this kind, from 0; None where all layers of that part of the model share it.
    spec : Spec, optional
        The encoding.
    length : int, optional
        Number of positions that the model is declared for, extensions included.
    original_length : int, optional
        The length that it was trained for before an extension, where a scaling states one.
    positions : Positions or SceneRule, optional
        How the model makes its positions; None where that is not known.
    temperature : Temperature, optional
        A factor on the scores that depends on the position, where `spec` does not hold it.
    window : int, optional
        The layers attend to keys less than this far from the query.
    whole : bool
        Whether it is known that they attend to the whole sequence.
    scale : float, optional
        What scores are multiplied by, where it is not 1 / sqrt(head width).
    convolution : str
        The name of a convolution that stands for positions.
    states : tuple of str
        `("any",)`, or `("short", "long")` where the frequencies depend on the length of the
        sequence. Checks of each state name its length.
    left_out : tuple of str
        What no check states, and why.
    permuted : str
        How queries and keys were paired before the channels of the file were reordered.
    """

    name: str
    _: KW_ONLY
    kind: Kind
    layers: tuple[int, ...] | None = None
    spec: Spec | None = None
    length: int | None = None
    original_length: int | None = None
    positions: Positions | SceneRule | None = None
    temperature: Temperature | None = None
    window: int | None = None
    whole: bool = False
    scale: float | None = None
    convolution: str = ""
    states: tuple[str, ...] = ("any",)
    left_out: tuple[str, ...] = ()
    permuted: Literal["", "half", "interleaved"] = ""

    def check(self) -> None:
        """Raise `SpecError` when the kind is not that of the spec, or a number cannot be."""
        layers = self.layers or ()
        if list(layers) != sorted({*layers}) or not all(0 <= i < MOST_LAYERS for i in layers):
            expected = f"layers from 0 to {MOST_LAYERS - 1}, each once and in order"
            raise bad_spec(f"Part {self.name!r}: layers", expected, repr(layers)[:80])
        for name in ("length", "original_length", "window"):
            if (number := getattr(self, name)) is not None and not 0 < number < 2**53:
                raise bad_spec(f"Part {self.name!r}: {name}", "a count", repr(number)[:40])
        if self.spec is not None and self.spec.kind != self.kind:
            expected = f"{self.spec.kind!r}, the kind of its {type(self.spec).__name__}"
            raise bad_spec(f"Part {self.name!r}: kind", expected, repr(self.kind))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON types; `whole` and `permuted` where it is so."""
        return {k: v for k, v in super().to_dict().items() if (k, v) not in UNTOLD}


@final
@dataclass(frozen=True, eq=False)
class Check:
    """A record of numbers: what one part of a model computes at one place.

    Parameters
    ----------
    check : str
        What is stated: `frequencies`, `angles`, `scores`, `table`, `rows`, `bias`, `temperature`,
        or `positions`.
    part : str
        The name of the `Part`; empty for what concerns the whole model.
    state : str
        One of the states of the part.
    data : mapping
        Numbers, texts and arrays of one axis, float64 or int64, by name.
    """

    check: str
    part: str
    state: str
    data: Mapping[str, float | int | str | np.ndarray]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON types."""
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self.data.items()}
        return {"check": self.check, "part": self.part, "state": self.state, **plain}


@final
@dataclass(frozen=True, eq=False)
class Contract(Displayed):
    """The numbers of a model's positions, for engines and ports to hold themselves to.

    Two contracts are equal if their fingerprints are.

    Parameters
    ----------
    model : str
        The family, in the words of the source; may be empty.
    parts : tuple of Part
        Each kind of layer once.
    checks : tuple of Check
        What they compute.
    notes : tuple of Note
        Warnings and remarks of the reader of the source.
    settled : str
        How far the source settles the plan, in words.

    Examples
    --------
    >>> import posenc
    >>> contract = posenc.golden(posenc.RoPE(8, pairing="half"))
    >>> [check["cos"][1].round(4) for check in contract.of("spec", "angles")][:3]
    [np.float64(1.0), np.float64(0.995), np.float64(0.9801)]
    """

    model: str
    parts: tuple[Part, ...]
    checks: tuple[Check, ...]
    notes: tuple[Note, ...] = ()
    settled: str = ""

    def __getitem__(self, name: str) -> Part:
        """The part of that name."""
        parts = {part.name: part for part in reversed(self.parts)}
        if name not in parts:
            todo = suggest(name, parts) if parts else "The contract has no parts."
            raise bad_argument("Contract", "the name of a part", repr(name), todo)
        return parts[name]

    def __str__(self) -> str:
        about = f"kind{'s' * (len(self.parts) != 1)} of layer, {len(self.checks)} records"
        model = self.model or "a model without a name"
        return f"{model}, {len(self.parts)} {about}; {self.settled}"

    def of(self, part: str, check: str = "", state: str = "") -> tuple[Check, ...]:
        """The checks of a part, of one sort and state where these are given."""
        return tuple(
            c
            for c in self.checks
            if c.part == part and check in ("", c.check) and state in ("", c.state)
        )

    def to_dict(self) -> dict[str, Any]:
        """The contract as plain JSON types, without its fingerprint."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model,
            "settled": self.settled,
            "notes": [note.to_dict() for note in self.notes],
            "parts": [part.to_dict() for part in self.parts],
            "checks": [check.to_dict() for check in self.checks],
        }

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits: the SHA-256 of the canonical form (RFC 8785) of `to_dict()`."""
        return digest(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contract) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: Literal["json", "safetensors", "both"] | None = None,  # noqa: A002
        existing: Literal["refuse", "replace"] = "refuse",
    ) -> tuple[str, ...]:
        """Write the contract to a file.

        Parameters
        ----------
        path : path
            Where to.
        format : {"json", "safetensors", "both"}, optional
            By default what the name ends in, `.safetensors` or any other for JSON. `both` writes
            `path` as JSON and the other beside it, with the ending `.safetensors`.
        existing : {"refuse", "replace"}
            What happens to files that exist.

        Returns
        -------
        tuple of str
            The names of the files.

        Raises
        ------
        FileExistsError
            If a file exists that is not to be replaced.
        """
        from posenc.detect.contract.files import save

        return save(self, path, format, existing)

"""Which encoding the command line means: a class and its fields, a preset, or JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import click

from posenc._core.errors import DataError, PosencError, bad_argument, suggest
from posenc._core.io import inputs
from posenc._core.spec.spec import Value
from posenc.cli.options.common import (
    Positive,
    WordChoice,
    encoding_names,
    grouped,
    preset_names,
    refuse,
)
from posenc.cli.options.flags import encoding_advice
from posenc.cli.options.specs import spec_of
from posenc.encodings.table.base import TableSpec
from posenc.registry import from_json, lookup, names, spelled

FIELDS = ("dim", "base", "heads", "order", "odd", "pairing")
NAMES = ("encoding", "preset", "spec", "table")  # of which one names the encoding
LARGEST_DIM = 2**19  # a spec works its frequencies out to 50 digits each
HEADS = 8  # where an encoding needs them and nobody says


@dataclasses.dataclass(frozen=True)
class EncodingChoice:
    """What the command line says about one encoding."""

    encoding: str | None = None
    dim: int | None = None
    base: float | None = None
    heads: int | None = None
    order: str | None = None
    odd: str | None = None
    pairing: str | None = None
    field: tuple[str, ...] = ()
    preset: str | None = None
    spec: str | None = None


# Name and settings of what names an encoding.
OPTIONS: dict[str, dict[str, Any]] = {
    "encoding": {
        "metavar": "NAME",
        "help": "A class; see `posenc list`.",
        "shell_complete": encoding_names,
    },
    "dim": {"type": click.IntRange(1, LARGEST_DIM), "help": "Width of the encoding."},
    "base": {"type": Positive(), "help": "Base of the frequencies. [default: 10000]"},
    "heads": {"type": click.IntRange(1), "help": "Heads of a bias. [default: 8]"},
    "order": {
        "type": WordChoice(("interleaved", "sin_cos", "cos_sin")),
        "help": "Order of the channels.",
    },
    "odd": {
        "type": WordChoice(("sin_extra", "zero_pad", "cut", "error")),
        "help": "What happens at an odd width.",
    },
    "pairing": {"type": WordChoice(("half", "interleaved")), "help": "Of a rotation."},
    "field": {"multiple": True, "metavar": "NAME=JSON", "help": "Any other field of the class."},
    "preset": {
        "metavar": "NAME",
        "help": "A family of models; see `posenc list`.",
        "shell_complete": preset_names,
    },
    "spec": {
        "metavar": "JSON|FILE",
        "help": 'JSON, "Sinusoidal(512)", or a file: of such JSON, or a config.',
    },
}
encoding_options = grouped(
    EncodingChoice,
    "choice",
    *(click.option(f"--{name}", **settings) for name, settings in OPTIONS.items()),
)


def make_spec(choice: EncodingChoice, *, width: int | None = None, default: int) -> TableSpec:
    """The table that the options describe."""
    if width is not None:
        refuse(
            choice.dim not in (None, width),
            f"--dim is {choice.dim}, but the data are {width} wide.",
        )
        if width > LARGEST_DIM:
            raise bad_argument("encode", f"a width up to {LARGEST_DIM:,}", width)
        if choice.spec is None:
            choice = dataclasses.replace(choice, dim=width)
    spec = any_spec(choice, width=default)
    if not isinstance(spec, TableSpec):
        raise click.UsageError(
            f"{type(spec).__name__} is no table: this command adds tables to embeddings. "
            + encoding_advice(type(spec).__name__)
        )
    if width is not None and spec.dim != width:
        raise bad_argument("encode", f"data {spec.dim} wide, as the spec", f"{width}")
    return spec


def any_spec(choice: EncodingChoice, *, width: int | None = None) -> Any:
    """The encoding that the options describe, of any kind."""
    dim = choice.dim or width
    refuse(dim is None and choice.spec is None, "--dim says how wide the encoding is.")
    return spec_from(
        choice, dim or 0, {"type": "Sinusoidal" if choice.pairing is None else "RoPE", "dim": dim}
    )


def spec_from(choice: EncodingChoice, dim: int, example: Mapping[str, Any]) -> Any:
    """The encoding that is named, or the example with the fields that are given."""
    named = [name for name in NAMES if getattr(choice, name, None) is not None]
    refuse(len(named) > 1, " or ".join(f"--{name}" for name in named) + ", not both.")
    fields = fields_of(choice)
    if choice.spec is not None:
        _none_beside("--spec", fields)
        return spec_of(choice.spec, "--spec")
    try:
        if choice.preset is not None:
            return _preset(choice.preset, fields, dim)
        named_or_example = {**example, **fields}
        if choice.encoding is not None:
            named_or_example = _sized(choice.encoding, fields, dim)
        return from_json(json.dumps(named_or_example))
    except PosencError as error:  # whose fields are options
        raise click.UsageError(
            re.sub(rf"^(?:from_json: )?\w+: ({'|'.join(FIELDS)}): ", r"--\1: ", str(error))
        ) from error


def _preset(name: str, fields: Mapping[str, Any], dim: int) -> Any:
    from posenc.presets import preset, row

    _none_beside("--preset", [name for name in fields if name not in ("dim", "heads")])
    size = row(name).size
    return preset(name, fields.get(size, HEADS if size == "heads" else dim))


def _sized(name: str, fields: Mapping[str, Any], dim: int) -> dict[str, Any]:
    """The fields, with those that the class needs and nobody gave: as in its example.

    The name of the class may be in any case of letters.
    """
    if not (spelling := spelled(name)):
        raise click.UsageError(f"no encoding {name[:60]!r}. {suggest(name, names())}")
    cls: Any = lookup(spelling)
    needed = {
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    usual = {"dim": dim, "pairing": "half", **cls.example.fields, "heads": HEADS, "length": 512}
    return {
        "type": spelling,
        **{key: _plain(usual[key]) for key in usual if key in needed},
        **fields,
    }


def _plain(value: Any) -> Any:
    """A field as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Value) else value


def fields_of(choice: EncodingChoice) -> dict[str, Any]:
    """The fields that are given."""
    fields = {name: getattr(choice, name) for name in FIELDS if getattr(choice, name) is not None}
    if "pairing" in fields:
        fields["pairing"] = {"type": "Pairing", "order": fields["pairing"]}
    for text in choice.field:
        name, equals, value = text.partition("=")
        refuse(
            not equals or not name.isidentifier(),
            f"--field {text[:60]!r}: write NAME=JSON, such as buckets=64.",
        )
        try:
            fields[name] = inputs.parse(value, f"--field {name}", inputs.PAGE)
        except DataError:
            fields[name] = value
    return fields


def _none_beside(option: str, fields: Collection[str]) -> None:
    if fields:
        listed = ", ".join(f"--{name}" for name in fields)
        raise click.UsageError(f"{option} says everything: leave out {listed}.")


def table_width(spec: TableSpec) -> int:
    """Numbers in a row of the table itself: of one that is appended, what it adds to the width."""
    return spec.dim if spec.width == spec.dim else spec.width - spec.dim

"""Which encoding the command line means: a class and its fields, a preset, or JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from posenc._core.errors import ArgumentError, DataError, PosencError, mismatch, suggest
from posenc._core.io import inputs
from posenc._core.spec.spec import Value
from posenc.cli.options.common import (
    Positive,
    WordChoice,
    encoding_names,
    grouped,
    preset_names,
    spec_of,
)
from posenc.encodings.table.base import TableSpec
from posenc.registry import from_json, lookup, names, spelled

ORDERS = ("interleaved", "sin_cos", "cos_sin")
ODDS = ("sin_extra", "zero_pad", "cut", "error")
PAIRINGS = ("half", "interleaved")
FIELDS = ("dim", "base", "heads", "order", "odd", "pairing")
SIZES = ("dim", "heads")
NAMES = ("encoding", "preset", "spec", "table")  # of which one names the encoding
LARGEST_DIM = 2**19  # a spec works its frequencies out to 50 digits each
HEADS = 8  # where an encoding needs them and nobody says


class EncodingChoice(NamedTuple):
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
    "order": {"type": WordChoice(ORDERS), "help": "Order of the channels."},
    "odd": {"type": WordChoice(ODDS), "help": "What happens at an odd width."},
    "pairing": {"type": WordChoice(PAIRINGS), "help": "Of a rotation."},
    "field": {"multiple": True, "metavar": "NAME=JSON", "help": "Any other field of the class."},
    "preset": {
        "metavar": "NAME",
        "help": "A family of models; see `posenc list`.",
        "shell_complete": preset_names,
    },
    "spec": {"metavar": "JSON|FILE", "help": "The JSON of a spec, or a file that holds it."},
}
encoding_options = grouped(
    EncodingChoice,
    "choice",
    *(click.option(f"--{name}", **settings) for name, settings in OPTIONS.items()),
)


def make_spec(choice: EncodingChoice, *, width: int | None = None, default: int) -> TableSpec:
    """The table that the options describe."""
    if width is not None and choice.dim not in (None, width):
        raise click.UsageError(f"--dim is {choice.dim}, but the data are {width} wide.")
    if width is not None and width > LARGEST_DIM:
        raise ArgumentError(mismatch("encode", f"a width up to {LARGEST_DIM}", width))
    if width is not None and choice.spec is None:
        choice = choice._replace(dim=width)
    spec = any_spec(choice, width=default)
    if not isinstance(spec, TableSpec):
        name = type(spec).__name__
        raise click.UsageError(f"{name} is no table: this command adds tables to embeddings.")
    if width is not None and spec.dim != width:
        raise ArgumentError(mismatch("encode", f"data {spec.dim} wide, as the spec", f"{width}"))
    return spec


def any_spec(choice: EncodingChoice, *, width: int | None = None) -> Any:
    """The encoding that the options describe, of any kind."""
    dim = choice.dim or width
    if dim is None and choice.spec is None:
        raise click.UsageError("--dim says how wide the encoding is.")
    example = {"type": "Sinusoidal", "dim": dim}
    if choice.pairing is not None:
        example["type"] = "RoPE"
    return spec_from(choice, dim or 0, example)


def spec_from(choice: Any, dim: int, example: Mapping[str, Any]) -> Any:
    """The encoding that is named, or the example with the fields that are given."""
    named = [name for name in NAMES if getattr(choice, name, None) is not None]
    if len(named) > 1:
        raise click.UsageError(" or ".join(f"--{name}" for name in named) + ", not both.")
    fields = fields_of(choice)
    if choice.spec is not None:
        _none_beside("--spec", fields)
        return spec_of(choice.spec, "--spec")
    try:
        if choice.preset is not None:
            return _preset(choice.preset, fields, dim)
        if choice.encoding is None:
            return from_json(json.dumps({**example, **fields}))
        return from_json(json.dumps(_sized(_named(choice.encoding), fields, dim)))
    except PosencError as error:
        raise click.UsageError(_of_options(error)) from error


def _preset(name: str, fields: Mapping[str, Any], dim: int) -> Any:
    from posenc.presets import preset, row

    _none_beside("--preset", {key: v for key, v in fields.items() if key not in SIZES})
    size = row(name).size
    return preset(name, fields.get(size, HEADS if size == "heads" else dim))


def _named(name: str) -> str:
    """The class of a name, in any case of letters."""
    if not (spelling := spelled(name)):
        raise click.UsageError(f"no encoding {name[:60]!r}. {suggest(name, names())}")
    return spelling


def _sized(name: str, fields: Mapping[str, Any], dim: int) -> dict[str, Any]:
    """The fields, with those that the class needs and nobody gave: as in its example."""
    cls: Any = lookup(name)
    needed = {
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    usual = {"dim": dim, "pairing": "half", **cls.example.fields, "heads": HEADS, "length": 512}
    return {"type": name, **{key: _plain(usual[key]) for key in usual if key in needed}, **fields}


def _plain(value: Any) -> Any:
    """A field as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Value) else value


def fields_of(choice: Any) -> dict[str, Any]:
    """The fields that are given."""
    fields = {name: getattr(choice, name) for name in FIELDS if getattr(choice, name) is not None}
    if "pairing" in fields:
        fields["pairing"] = {"type": "Pairing", "order": fields["pairing"]}
    for text in choice.field:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--field {text[:60]!r}: write NAME=JSON, such as buckets=64.")
        try:
            fields[name] = inputs.parse(value, f"--field {name}", inputs.PAGE)
        except DataError:
            fields[name] = value
    return fields


def _none_beside(option: str, fields: Mapping[str, Any]) -> None:
    if fields:
        listed = ", ".join(f"--{name}" for name in fields)
        raise click.UsageError(f"{option} says everything: leave out {listed}.")


def _of_options(error: PosencError) -> str:
    """An error of a spec whose fields are options."""
    return re.sub(rf"^(?:from_json: )?\w+: ({'|'.join(FIELDS)}): ", r"--\1: ", str(error))


def table_width(spec: TableSpec) -> int:
    """Numbers in a row of the table itself: of one that is appended, what it adds to the width."""
    return spec.dim if spec.width == spec.dim else spec.width - spec.dim

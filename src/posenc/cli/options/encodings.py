"""Which encoding the command line means: a class and its fields, a preset, or a text of a spec.

Such a text is JSON, a file of it, the config of a model, or a call as Python writes it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from posenc._core.errors import DataError, PosencError, bad_argument, closest, suggest
from posenc._core.foreign import meant
from posenc._core.foreign_names import NAMES as OTHERS
from posenc._core.io import inputs
from posenc._core.spec.spec import plain
from posenc.cli.options.common import (
    Positive,
    WordChoice,
    encoding_names,
    file_there,
    grouped,
    is_json,
    looks_like_a_file,
    preset_names,
    refuse,
)
from posenc.cli.options.flags import SpecTextError, encoding_advice
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
    "pairing": {"type": WordChoice(("half", "interleaved")), "help": "Pairs of a rotation."},
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
            f"{type(spec).__name__} is no table, which is what this command is for. "
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


OWN = (
    " Commands know a class of your own by an entry point of an installed package "
    "(docs/adding.md); what posenc.register is given is known to its own process alone."
)


def _sized(name: str, fields: Mapping[str, Any], dim: int) -> dict[str, Any]:
    """The fields, with those that the class needs and nobody gave: as in its example.

    The name of the class may be in any case of letters.
    """
    if not (spelling := spelled(name)):
        near = closest(name, names(), cutoff=0.8)  # "NoPE" is no misspelt "RoPE"
        todo = (near is None and meant(name, OTHERS)) or suggest(name, names())
        todo += OWN * (near is None)
        raise click.UsageError(f"no encoding {name[:60]!r}. {todo}")
    cls: Any = lookup(spelling)
    needed = {
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    usual = {"dim": dim, "pairing": "half", **cls.example.fields, "heads": HEADS, "length": 512}
    return {
        "type": spelling,
        **{key: plain(usual[key]) for key in usual if key in needed},
        **fields,
    }


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


# --- specs as texts -------------------------------------------------------------------------------


AS_PYTHON = "write it as Python does, such as \"RoPE(64, pairing='half')\", of plain values."
BEGUN = re.compile(r"\s*(?:posenc\.)?([^\W\d]\w*)\(")
CALL = re.compile(rf"{BEGUN.pattern}.*\)\s*", re.DOTALL)


def is_spec(text: str) -> bool:
    """Whether an argument is a spec itself, not the name of a file or a preset."""
    call = CALL.fullmatch(text)
    return is_json(text) or (call is not None and bool(spelled(call[1])))


def spec_of(text: str, option: str) -> Any:
    """What a text says: JSON, `RoPE(64, pairing="half")`, a file, or a folder of one."""
    refuse(not text, f"{option} is empty: give the JSON of a spec, or a file of it.")
    if not is_spec(text):
        try:
            return _of_file(file_there(text), option)
        except click.BadParameter as error:
            if not BEGUN.match(text) or looks_like_a_file(text):
                raise click.UsageError(f"{option}: {error.message}") from error
            call = CALL.fullmatch(text)
            why = "is no whole spec" if call is None else f"is no spec, as {call[1]} is no encoding"
            raise SpecTextError(f"{option} {text[:80]!r} {why}: {AS_PYTHON}") from error
    try:
        return (
            from_json(text) if is_json(text) else _value(ast.parse(text.strip(), mode="eval").body)
        )
    except PosencError as error:
        kind = click.UsageError if is_json(text) else SpecTextError
        raise kind(f"{option}: {error}") from error
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise SpecTextError(f"{option} {text[:80]!r} is no spec: {AS_PYTHON}") from error


def named_spec(text: str, option: str) -> Any:
    """The spec that an argument writes as Python does; None where it is something else."""
    return spec_of(text, option) if is_spec(text) and not is_json(text) else None


def stated_length(text: str) -> int | None:
    """The length that a config states beside a rotation without a scaling; None of another text."""
    from posenc.detect.facts import explain

    if is_spec(text) or b'"model_type"' not in inputs.content(text, inputs.SPEC):
        return None
    return next((i.length for i in explain(text).layers if not getattr(i.spec, "scaling", 1)), None)


def _value(node: ast.AST) -> Any:
    """A class of the registry with plain values; nothing else is called."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = ast.unparse(node.func).rpartition(".")[2]
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("** names no field")
    return lookup(spelled(name) or name)(
        *map(_value, node.args),
        **{str(keyword.arg): _value(keyword.value) for keyword in node.keywords},
    )


def _of_file(name: str, option: str) -> Any:
    """The spec of a file: of JSON that has a type, or of a config with one encoding."""
    text = b"" if Path(name).is_dir() else inputs.content(name, inputs.SPEC)
    if text and b'"model_type"' not in text:
        return from_json(text)
    from posenc.detect.facts import explain

    specs = list(dict.fromkeys(layer.spec for layer in explain(name).layers if layer.spec))
    refuse(
        len(specs) != 1, f"{option}: {name} has {len(specs)} encodings: write one of {specs[:4]}."
    )
    return specs[0]

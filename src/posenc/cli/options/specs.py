"""Specs as texts: JSON, a file of it, the config of a model, or a call as Python writes it."""

from __future__ import annotations

import ast
import re
from typing import Any

import click

from posenc._core.errors import PosencError
from posenc._core.io import inputs
from posenc.cli.options.common import file_there, is_json, looks_like_a_file, refuse

AS_PYTHON = "write it as Python does, such as \"RoPE(64, pairing='half')\", of plain values."
BEGUN = re.compile(r"\s*(?:posenc\.)?([^\W\d]\w*)\(")
CALL = re.compile(rf"{BEGUN.pattern}.*\)\s*", re.DOTALL)


class SpecTextError(click.UsageError):
    """A mistake in a spec that was written as Python writes it, whose fields are no flags."""


def is_spec(text: str) -> bool:
    """Whether an argument is a spec itself, not the name of a file or a preset."""
    from posenc.registry import spelled

    call = CALL.fullmatch(text)
    return is_json(text) or (call is not None and bool(spelled(call[1])))


def spec_of(text: str, option: str) -> Any:
    """What a text says: JSON, `RoPE(64, pairing="half")`, or a file of the JSON or of a config."""
    from posenc.registry import from_json

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


def _value(node: ast.AST) -> Any:
    """A class of the registry with plain values; nothing else is called."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    from posenc.registry import lookup, spelled

    name = ast.unparse(node.func).rpartition(".")[2]
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("** names no field")
    fields = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    return lookup(spelled(name) or name)(*map(_value, node.args), **fields)


def _of_file(name: str, option: str) -> Any:
    """The spec of a file: of JSON that has a type, or of a config with one encoding."""
    text = inputs.content(name, inputs.SPEC)
    if b'"model_type"' not in text:
        from posenc.registry import from_json

        return from_json(text)
    from posenc.detect.facts import explain

    specs = list(dict.fromkeys(layer.spec for layer in explain(name).layers if layer.spec))
    refuse(
        len(specs) != 1, f"{option}: {name} has {len(specs)} encodings: write one of {specs[:4]}."
    )
    return specs[0]

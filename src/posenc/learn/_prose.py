"""Sentences with named values: `{last_wavelength:,.0f}`."""

from __future__ import annotations

import numbers
import re
import string
from collections.abc import Mapping
from typing import Any, Literal

from posenc._core.errors import DataError, mismatch, suggest

MINUS = "\N{MINUS SIGN}"
FIELD = re.compile(r"\{[^{}]*\}")
# Links and file names are addresses, not numbers.
ADDRESS = re.compile(r"\]\([^)]*\)")
# Names that hold a digit, and one symbol.
NAMES = re.compile(r"\b(2π|T5|Qwen2|bfloat16|float32|tensor2tensor)\b")


class _Filler(string.Formatter):
    """Plain names only, and numbers with the sign that the reader's medium has."""

    def __init__(self, values: Mapping[str, Any], signs: str, caller: str) -> None:
        self.values, self.signs, self.caller = values, signs, caller

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        if field_name not in self.values:
            todo = suggest(field_name, self.values) if self.values else ""
            raise DataError(mismatch(self.caller, "names of facts", repr(field_name), todo))
        return self.values[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        text = str(format(value, format_spec))
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return text.replace("-", MINUS) if number and self.signs == "typeset" else text


def fill(
    template: str,
    values: Mapping[str, Any],
    caller: str,
    signs: Literal["typeset", "plain"] = "typeset",
) -> str:
    """The sentences with the values in them."""
    try:
        return _Filler(values, signs, caller).vformat(template, (), {}).strip("\n")
    except ValueError as error:
        raise DataError(mismatch(caller, "formats that fit", f"{error} in {template!r}")) from error


def fields(template: str) -> set[str]:
    """The names in a template."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def digits_typed(template: str) -> list[str]:
    """The numbers that an author typed, outside of fields: there should be none."""
    return re.findall(r"\S*\d\S*", NAMES.sub("", ADDRESS.sub("", FIELD.sub("", template))))

"""What the texts of content files hold, for the tests."""

from __future__ import annotations

import re
import string

FIELD = re.compile(r"\{[^{}]*\}")
# Links and file names are addresses, not numbers.
ADDRESS = re.compile(r"\]\([^)]*\)")
# Names that hold a digit, and one symbol.
NAMES = re.compile(r"\b(2π|T5|Qwen2|bfloat16|float32|tensor2tensor)\b")


def fields(template: str) -> set[str]:
    """The names in a template."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def digits_typed(template: str) -> list[str]:
    """The numbers that an author typed, outside of fields: there should be none."""
    return re.findall(r"\S*\d\S*", NAMES.sub("", ADDRESS.sub("", FIELD.sub("", template))))

"""Whole numbers as people write lengths and positions: `131072`, `131_072`, `128k`, `1M`."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"([+-]?)(\d[\d_]*)(\.\d{1,9})?\s?([kKmM]?)")
_UNITS = {"": 1, "k": 2**10, "m": 2**20}


def whole(text: str) -> int | None:
    """The number that a text is, k being 1024 and M 1024²; None where it is none."""
    match = _NUMBER.fullmatch(text.strip()[:60])
    if match is None:
        return None
    sign, digits, rest, unit = match.groups()
    size = _UNITS[unit.lower()]
    part = float(rest or 0) * size
    is_real = (rest and not unit) or part != int(part)  # another kind of position
    return None if is_real else int(f"{sign}1") * (int(digits) * size + int(part))


def counted(value: Any) -> Any:
    """A text as the number that it is; every other value, and every other text, as it came."""
    number = whole(value) if isinstance(value, str) else None
    return value if number is None else number

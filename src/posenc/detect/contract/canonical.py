"""The canonical form of a JSON value (RFC 8785), of which a fingerprint is the digest.

Keys are sorted, nothing is between the marks, and numbers are written as JavaScript writes them, so
that any language gets the same bytes, whatever an editor or another program did to the layout.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any


def canonical(value: Any) -> str:
    """The text of a value of plain JSON types; floats are finite."""
    return "".join(_pieces(value))


def digest(value: Any) -> str:
    """The SHA-256 of the canonical form in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        mark = "{"
        for key in sorted(value, key=lambda key: key.encode("utf-16-be")):
            yield f"{mark}{encode_basestring(key)}:"
            yield from _pieces(value[key])
            mark = ","
        yield "{}" if mark == "{" else "}"
    elif isinstance(value, (list, tuple)):
        mark = "["
        for item in value:
            yield mark
            yield from (_number(item),) if type(item) is float else _pieces(item)
            mark = ","
        yield "[]" if mark == "[" else "]"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield _number(float(value))  # beyond 2**53 they would not be the same in every language
    else:
        yield encode_basestring(value) if type(value) is str else json.dumps(value)


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

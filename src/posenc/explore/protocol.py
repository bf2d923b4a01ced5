"""The one message of the explorer: a header in JSON and the arrays it names, in one piece.

    4 bytes    length of the header, little-endian
    header     JSON, padded with spaces so that the arrays begin at a multiple of 8
    arrays     little-endian, each at a multiple of 8 bytes after the header

An array in the header is a text `@0`, `@1`, …; `arrays` has its dtype, shape and offset.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["Message", "pack", "unpack"]

DTYPES = ("u1", "i4", "f4", "f8")


@dataclasses.dataclass(frozen=True)
class Message:
    """A message taken apart: the header, and the arrays by their names.

    Parameters
    ----------
    header : dict
        What the JSON says.
    arrays : dict of str to numpy.ndarray
        The arrays, as views of the bytes.

    Examples
    --------
    >>> from posenc.explore import frame, unpack
    >>> unpack(frame({"v": "table"})).header["view"]
    'table'
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack(header: Mapping[str, Any]) -> bytes:
    """A header of plain types, dataclasses and arrays as bytes.

    Parameters
    ----------
    header : mapping
        Dataclasses become objects of their fields, and arrays the names they are found by.

    Returns
    -------
    bytes
        What `unpack` reads.
    """
    writer = _Writer()
    try:
        text = writer.text(header)
    except ValueError:  # a number that is not finite, for which JSON has no word but null
        writer = _Writer()
        text = writer.text(_finite(header))
    pieces: list[bytes] = []
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    offset = 0
    for number, array in enumerate(writer.arrays):
        code = array.dtype.str[1:]
        if code not in DTYPES:
            raise TypeError(f"protocol: expected an array of {', '.join(DTYPES)}, got {code}")
        data = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
        places[f"@{number}"] = (code, array.shape, offset)
        padded = data + bytes(-len(data) % 8)
        pieces.append(padded)
        offset += len(padded)
    # The arrays are known once the rest has been written, so they come last.
    inner = text[:-1] + ("," if len(text) > 2 else "")
    whole = f'{inner}"arrays":{json.dumps(places, separators=(",", ":"))}}}'.encode()
    whole += b" " * (-(len(whole) + 4) % 8)
    return b"".join((struct.pack("<I", len(whole)), whole, *pieces))


class _Writer:
    """JSON of one header; arrays become names and are kept in order."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def text(self, header: Any) -> str:
        return json.dumps(header, allow_nan=False, separators=(",", ":"), default=self.plain)

    def plain(self, value: Any) -> Any:
        """What JSON does not know: an array, a number of NumPy, a mapping, a dataclass."""
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return f"@{len(self.arrays) - 1}"
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            return dict(value)
        return {name: getattr(value, name) for name in _sent(type(value))}


def unpack(data: bytes) -> Message:
    """Take a message apart.

    Parameters
    ----------
    data : bytes
        What `frame` returned.

    Returns
    -------
    Message
        The header and its arrays.

    Examples
    --------
    >>> from posenc.explore import frame, unpack
    >>> message = unpack(frame({"d": "8", "L": "4"}))
    >>> message.arrays[message.header["panels"][0]["tile"]].shape
    (4, 8)
    """
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    arrays = {}
    for name, (code, shape, offset) in header["arrays"].items():
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(data, dtype=f"<{code}", count=count, offset=4 + length + offset)
        arrays[name] = flat.reshape(shape)
    return Message(header, arrays)


def _finite(value: Any) -> Any:
    """The same with null for what is not finite."""
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, np.ndarray, np.generic)):
        return value
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return {name: _finite(getattr(value, name)) for name in _sent(type(value))}


_SENT: dict[Any, tuple[str, ...]] = {}


def _sent(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass that travel."""
    if cls not in _SENT:
        fields = dataclasses.fields(cls)
        _SENT[cls] = tuple(f.name for f in fields if not f.metadata.get("here"))
    return _SENT[cls]

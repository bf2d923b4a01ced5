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
    arrays: list[np.ndarray] = []
    plain = {key: _plain(value, arrays) for key, value in header.items()}
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    pieces: list[bytes] = []
    offset = 0
    for number, array in enumerate(arrays):
        code = array.dtype.str[1:]
        if code not in DTYPES:
            raise TypeError(f"protocol: expected an array of {', '.join(DTYPES)}, got {code}")
        data = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
        places[f"@{number}"] = (code, array.shape, offset)
        padded = data + bytes(-len(data) % 8)
        pieces.append(padded)
        offset += len(padded)
    plain["arrays"] = places
    text = json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join((struct.pack("<I", len(text)), text, *pieces))


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


def _plain(value: Any, arrays: list[np.ndarray]) -> Any:
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no other word for it
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return f"@{len(arrays) - 1}"
    if isinstance(value, (list, tuple)):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item, arrays) for key, item in value.items()}
    if isinstance(value, np.generic):
        return _plain(value.item(), arrays)
    return {name: _plain(getattr(value, name), arrays) for name in _sent(type(value))}


_SENT: dict[Any, tuple[str, ...]] = {}


def _sent(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass that travel."""
    if cls not in _SENT:
        known = dataclasses.fields(cls)
        _SENT[cls] = tuple(f.name for f in known if not f.metadata.get("here"))
    return _SENT[cls]

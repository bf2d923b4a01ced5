"""The one message of the explorer: a header in JSON and the arrays it names, in one piece.

    4 bytes    length of the header, little-endian
    header     JSON, padded with spaces so that the arrays begin at a multiple of 8
    arrays     little-endian, each at a multiple of 8 bytes after the header

An array in the header is a text such as `@Zk3v0a`, which names its content: equal arrays have one
name, in every message. `arrays` has dtype, shape and offset of those that follow. A picture has all
of them; a step has the header's changes alone, and the arrays that the picture before lacks.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

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


class Head(NamedTuple):
    """A header in plain types, and the names of its arrays."""

    tree: Any
    arrays: tuple[str, ...]


class Envelope:
    """A header of plain types, dataclasses and arrays as JSON, with the arrays it names."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        try:
            self.text = self._text(header)
        except ValueError:  # a number that is not finite, for which JSON has no word but null
            self.arrays = {}
            self.text = self._text(_finite(header))
        self.id = _name(self.text.encode())

    def whole(self) -> bytes:
        """The picture: all of the header and all arrays."""
        return _joined(self.text, self.id, self.arrays)

    @functools.cached_property
    def head(self) -> Head:
        """What a later picture is compared with."""
        return Head(json.loads(self.text), tuple(self.arrays))

    def since(self, before: Head) -> bytes:
        """The step from another picture: what differs from it, and no more."""
        return _joined(
            json.dumps(
                {
                    "steps": list(changes(before.tree, self.head.tree)),
                    "gone": [name for name in before.arrays if name not in self.arrays],
                },
                separators=(",", ":"),
            ),
            self.id,
            {name: array for name, array in self.arrays.items() if name not in before.arrays},
        )

    def _text(self, header: Any) -> str:
        return json.dumps(header, allow_nan=False, separators=(",", ":"), default=self._plain)

    def _plain(self, value: Any) -> Any:
        """What JSON does not know: an array, a number of NumPy, a mapping, a dataclass."""
        if isinstance(value, np.ndarray):
            kept = np.asarray(value, value.dtype.newbyteorder("<"), order="C")
            name = "@" + _name(
                kept.data.cast("B") if kept.size else b"", f"{kept.dtype.str}{kept.shape}".encode()
            )
            self.arrays[name] = kept
            return name
        return value.item() if isinstance(value, np.generic) else dict(_items(value))


def _name(data: Any, more: bytes = b"") -> str:
    """A short name of a content."""
    digest = hashlib.blake2b(data, digest_size=9)
    digest.update(more)
    return base64.urlsafe_b64encode(digest.digest()).decode()


def changes(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """The places of a header where it differs from another, outermost where its shape does."""
    if old == new:
        return
    keys: Any = ()
    if isinstance(new, dict) and isinstance(old, dict) and old.keys() == new.keys():
        keys = new
    elif isinstance(new, list) and isinstance(old, list) and len(old) == len(new):
        # A list of plain values is shorter than the places of several.
        keys = range(len(new)) if any(isinstance(item, (dict, list)) for item in new) else ()
    for key in keys:
        yield from changes(old[key], new[key], (*path, key))
    if not len(keys):
        yield path, new


def _joined(text: str, name: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    pieces: list[bytes] = []
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    offset = 0
    for key, array in arrays.items():
        code = array.dtype.str[1:]
        if code not in DTYPES:
            raise TypeError(f"protocol: expected an array of {', '.join(DTYPES)}, got {code}")
        places[key] = (code, array.shape, offset)
        pieces.append(array.tobytes() + bytes(-array.nbytes % 8))
        offset += len(pieces[-1])
    # The arrays are known once the rest has been written, so they come last.
    last = json.dumps({"id": name, "arrays": places}, separators=(",", ":"))
    header = f"{text[:-1]}{',' if len(text) > 2 else ''}{last[1:]}".encode()
    header += b" " * (-(len(header) + 4) % 8)
    return b"".join((struct.pack("<I", len(header)), header, *pieces))


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
    >>> message = unpack(frame({"v": "table", "d": "8", "L": "4"}))
    >>> message.arrays[message.header["panels"][0]["tile"]].shape
    (4, 8)
    """
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    arrays = {
        name: np.frombuffer(
            data,
            dtype=f"<{code}",
            count=int(np.prod(shape, dtype=np.int64)),
            offset=4 + length + offset,
        ).reshape(shape)
        for name, (code, shape, offset) in header["arrays"].items()
    }
    return Message(header, arrays)


def _finite(value: Any) -> Any:
    """The same with null for what is not finite."""
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, np.ndarray, np.generic)):
        return value
    return (
        [_finite(item) for item in value]
        if isinstance(value, (list, tuple))
        else {key: _finite(item) for key, item in _items(value)}
    )


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    """The keys of a mapping, or the fields of a dataclass that travel, with their values."""
    return (
        value.items()
        if isinstance(value, Mapping)
        else [(name, getattr(value, name)) for name in _sent(value.__class__)]
    )


@functools.cache
def _sent(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass that travel, and what else of it does."""
    return tuple(f.name for f in dataclasses.fields(cls) if not f.metadata.get("here")) + tuple(
        getattr(cls, "SENT", ())
    )

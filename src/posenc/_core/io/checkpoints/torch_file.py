"""Where the tensors of a PyTorch file lie, without PyTorch and without running its pickle.

The file is a zip of `data.pkl`, a pickle that says which tensor is which part of which storage, and
`data/0`, `data/1`, …, the storages, uncompressed. A pickle is a program for a small machine. Here
the machine has no functions: the names that PyTorch uses to rebuild tensors become descriptions,
every other name becomes a `Foreign`, and calling one makes another. So nothing of the file runs.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, refuse_data
from posenc._core.io.headers import LARGEST_RANK, STORED

LARGEST_PICKLE = 2**23
MOST_OPERATIONS = 2**20
MOST_PARTS = 2**15
LONGEST_NAME = 1000
DEEPEST = 8
# The classes of storages: name -> dtype.
STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
}
SIZES = {name: np.dtype(stored).itemsize for name, stored in STORED.items()}
# Those without a storage of their own: a tensor of untyped bytes says which it is.
FLOAT8 = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")
UNTYPED = {**{f"float8_{n}": 1 for n in FLOAT8}, "uint16": 2, "uint32": 4, "uint64": 8}


class TensorWindow(NamedTuple):
    """A tensor: a window on a storage."""

    storage: str  # the name of the member that holds it
    dtype: str
    shape: tuple[int, ...]
    begin: int  # elements from the start of the storage
    contiguous: bool


class Foreign(NamedTuple):
    """What the file names and this reader does not run."""

    name: str


class _Storage(NamedTuple):
    key: str
    dtype: str
    entries: int


class _Machine:
    """The stack machine of pickles, less everything that could act."""

    def __init__(self, data: bytes, caller: str) -> None:
        self.data, self.caller, self.at = data, caller, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.foreign: set[str] = set()

    def fail(self, why: str) -> DataError:
        return DataError(f"{self.caller}: its pickle {why}, at byte {self.at}")

    def take(self, count: int) -> bytes:
        data = self.data[self.at : self.at + count]
        if count < 0 or len(data) != count:
            raise self.fail("ends before it is complete")
        self.at += count
        return data

    def number(self, code: str) -> int:
        value: int = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return value

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.fail("ends before it is complete")
        return str(self.take(end + 1 - self.at)[:-1], "utf-8", "replace")

    def pop(self) -> Any:
        if not self.stack or (self.marks and len(self.stack) <= self.marks[-1]):
            raise self.fail("takes from an empty stack")
        return self.stack.pop()

    def last(self, count: int) -> tuple[Any, ...]:
        return tuple(reversed([self.pop() for _ in range(count)]))

    def since_mark(self) -> list[Any]:
        if not self.marks:
            raise self.fail("has no mark to go back to")
        begin = self.marks.pop()
        items = self.stack[begin:]
        del self.stack[begin:]
        return items

    def run(self) -> Any:
        """The description of what the pickle would make."""
        for _ in range(MOST_OPERATIONS):
            code = self.take(1)[0]
            if code == 0x2E:  # STOP
                return self.pop()
            action = _ACTIONS.get(code)
            if action is None:
                raise self.fail(f"has the operation {code:#04x}, which tensors do not need")
            try:
                action(self)
            except DataError:
                raise
            except (ValueError, TypeError, struct.error, IndexError, OverflowError):
                raise self.fail("does not hold together") from None
        raise self.fail(f"takes more than {MOST_OPERATIONS:,} operations")

    def put(self, key: int) -> None:
        self.memo[key] = self.stack[-1]

    def get(self, key: int) -> Any:
        if key not in self.memo:
            raise self.fail("recalls what it never kept")
        return self.memo[key]

    def name(self, module: Any, name: Any) -> Any:
        if not isinstance(name, str) or not isinstance(module, str):  # else a text of any length
            raise self.fail("names a function by what is no text")
        if (module, name) == ("torch.storage", "UntypedStorage") or (
            module == "torch" and name in STORAGES
        ):
            return _Storage("", STORAGES.get(name, ""), 0)
        full = f"{module[:120]}.{name[:120]}"[:120]
        if not full.startswith("torch.") and full != "collections.OrderedDict":
            self.foreign.add(full)
        return Foreign(full)

    def call(self, function: Any, arguments: Any) -> Any:
        name = function.name if isinstance(function, Foreign) else ""
        if name == "collections.OrderedDict":
            return {}
        if name.startswith("torch._utils._rebuild_tensor") and isinstance(arguments, tuple):
            return self.tensor(arguments)
        is_parameter = name == "torch._utils._rebuild_parameter" and isinstance(arguments, tuple)
        return arguments[0] if is_parameter and arguments else Foreign(name)

    def tensor(self, arguments: tuple[Any, ...]) -> Any:
        storage, begin, shape, strides = arguments[:4]
        # The lengths come first: one long tuple may stand in any number of calls.
        sizes = all(isinstance(s, tuple) and len(s) <= LARGEST_RANK for s in (shape, strides))
        numbers = (*shape, *strides, begin) if sizes else (None,)
        if not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
            raise self.fail("describes a tensor whose sizes are none")
        dtype = getattr(arguments[6], "name", "") if len(arguments) > 6 else ""
        dtype = dtype.removeprefix("torch.")
        if isinstance(storage, _Storage) and not storage.dtype and dtype in UNTYPED:
            storage = _Storage(storage.key, dtype, storage.entries // UNTYPED[dtype])
        if not getattr(storage, "dtype", "") or len(shape) != len(strides):
            return Foreign("a tensor without a storage of numbers")
        end = begin + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if math.prod(shape) and end > storage.entries:
            raise self.fail("describes a tensor that ends after its storage")
        steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        together = all(n == 1 or s == e for n, s, e in zip(shape, strides, steps, strict=True))
        return TensorWindow(storage.key, storage.dtype, shape, begin, together)

    def persistent(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) >= 5 and key[0] == "storage":
            kind, name, count = key[1], key[2], key[4]
            if isinstance(kind, _Storage) and isinstance(name, str) and type(count) is int:
                return _Storage(name, kind.dtype, count)
        return Foreign("a storage of another kind")

    def fill(self, items: Sequence[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, dict):
            target.update(_dict(items))
        elif isinstance(target, list):
            target.extend(items)


def _push(make: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(make(m))


def _text(code: str) -> Callable[[_Machine], None]:
    return _push(lambda m: str(m.take(m.number(code)), "utf-8", "replace"))


def _dict(items: Sequence[Any]) -> dict[Any, Any]:
    # Texts, and indices; integers of any size could be chosen to meet in one place of a table.
    return {
        k: v
        for k, v in zip(items[0::2], items[1::2], strict=True)
        if isinstance(k, str) or (type(k) is int and 0 <= k < 2**32)
    }


_ACTIONS: dict[int, Callable[[_Machine], object]] = {
    0x80: lambda m: m.take(1),  # PROTO
    0x95: lambda m: m.take(8),  # FRAME
    0x28: lambda m: m.marks.append(len(m.stack)),  # MARK
    0x30: lambda m: m.pop(),  # POP
    0x31: lambda m: m.since_mark(),  # POP_MARK
    0x4E: _push(lambda _: None),
    0x88: _push(lambda _: True),
    0x89: _push(lambda _: False),
    0x4A: _push(lambda m: m.number("i")),
    0x4B: _push(lambda m: m.number("B")),
    0x4D: _push(lambda m: m.number("H")),
    0x8A: _push(lambda m: int.from_bytes(m.take(m.number("B")), "little", signed=True)),
    0x47: _push(lambda m: struct.unpack(">d", m.take(8))[0]),
    0x58: _text("I"),
    0x8C: _text("B"),
    0x8D: _text("Q"),
    0x42: _push(lambda m: m.take(m.number("I"))),
    0x43: _push(lambda m: m.take(m.number("B"))),
    0x55: _text("B"),
    0x54: _text("I"),
    0x7D: _push(lambda _: {}),
    0x5D: _push(lambda _: []),
    0x29: _push(lambda _: ()),
    0x8F: _push(lambda _: []),  # a set, kept as a list
    0x85: _push(lambda m: m.last(1)),
    0x86: _push(lambda m: m.last(2)),
    0x87: _push(lambda m: m.last(3)),
    0x74: _push(lambda m: tuple(m.since_mark())),
    0x6C: _push(lambda m: m.since_mark()),
    0x64: _push(lambda m: _dict(m.since_mark())),
    0x65: lambda m: m.fill(m.since_mark()),
    0x75: lambda m: m.fill(m.since_mark()),
    0x90: lambda m: m.fill(m.since_mark()),
    0x61: lambda m: m.fill(m.last(1)),
    0x73: lambda m: m.fill(m.last(2)),
    0x71: lambda m: m.put(m.number("B")),
    0x72: lambda m: m.put(m.number("I")),
    0x94: lambda m: m.put(len(m.memo)),
    0x68: _push(lambda m: m.get(m.number("B"))),
    0x6A: _push(lambda m: m.get(m.number("I"))),
    0x63: _push(lambda m: m.name(m.line(), m.line())),
    0x93: _push(lambda m: m.name(*m.last(2))),
    0x52: _push(lambda m: m.call(*m.last(2))),
    0x81: _push(lambda m: m.call(*m.last(2))),  # NEWOBJ
    0x62: lambda m: m.pop(),  # the state of an object: what has one is not made
    0x51: lambda m: m.stack.append(m.persistent(m.pop())),
}


def parts(
    archive: zipfile.ZipFile, caller: str
) -> tuple[str, dict[str, TensorWindow], tuple[str, ...]]:
    """The tensors that a PyTorch file describes."""
    pickles = [n for n in archive.namelist() if n == "data.pkl" or n.endswith("/data.pkl")]
    refuse_data(len(pickles) != 1, caller, "one data.pkl inside", len(pickles))
    folder = pickles[0].removesuffix("data.pkl")
    with archive.open(pickles[0]) as file:
        data = file.read(LARGEST_PICKLE + 1)
    refuse_data(
        len(data) > LARGEST_PICKLE,
        f"{caller}: data.pkl",
        f"at most {LARGEST_PICKLE:,} bytes",
        "more",
    )
    machine = _Machine(data, caller)
    tensors: dict[str, TensorWindow] = {}
    for name, part in _walk(machine.run(), caller, "", 0, set()):
        tensors.setdefault(name or "tensor", part)
        refuse_data(len(tensors) > MOST_PARTS, caller, f"at most {MOST_PARTS:,} tensors", "more")
    return folder, tensors, tuple(sorted(machine.foreign))


def _walk(
    value: Any, caller: str, name: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, TensorWindow]]:
    """Every tensor of nested mappings and lists; each container once, as it may hold itself."""
    if isinstance(value, TensorWindow):
        yield name, value
        return
    if not isinstance(value, (dict, list)) or depth > DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if not isinstance(item, (TensorWindow, dict, list)):
            continue
        longer = f"{name}.{key}" if name else str(key)
        refuse_data(
            len(longer) > LONGEST_NAME,
            caller,
            f"names of at most {LONGEST_NAME:,} characters",
            "more",
        )
        yield from _walk(item, caller, longer, depth + 1, seen)

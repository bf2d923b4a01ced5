"""Every file that posenc reads is opened here, and every JSON text is parsed here.

A path is somebody else's choice: it may name a pipe that never answers, a device that never ends,
or a file of terabytes. So a file is opened without waiting, is read only if it is a regular file,
and only as far as its kind may be long. A short text can still stand for a great many objects;
those are counted before they are made.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from posenc._core.errors import DataError, PosencError, bad_data, mismatch, refuse_data
from posenc._core.foreign import hub_advice

PIECE = 2**20
DEEPEST = 64  # of a config; composite models nest four or five deep
CONFIG_FILE = "config.json"
PIPELINE = "model_index.json"  # of diffusers, which names the parts in the folders beside it
ADAPTER = "adapter_config.json"  # which names the model that it adapts
# Of which a folder holds one; those behind the pipeline are of other formats.
CONFIGS = (CONFIG_FILE, ADAPTER, PIPELINE, "params.json", "model_config.yaml", "config.yaml")
OTHERS = (".yaml", ".yml", ".toml")  # of configs that are no JSON
BLANK = "\ufeff \t\r\n"  # before the text, a byte order mark among them
MOST_MEMORY = 2**27  # bytes of a text in memory, where one wide letter makes all letters wide


class FileKind(NamedTuple):
    """What a file is for."""

    name: str
    largest: int
    most: int = 0


CONFIG = FileKind("a config", 2**24, 2**18)
SPEC = FileKind("the JSON of a spec", 2**23, 2**18)
# Quantised experts: the largest published ones have 300,000 tensors.
INDEX = FileKind("an index of files", 3 * 2**24, 2**20 + 2**10)
RECORD = FileKind("the record of a conversion", 2**22, 2**18)
TOKENIZER = FileKind("a tokenizer", 2**26, 2**22)
VECTOR = FileKind("a text of numbers", 2**19)
TEXT = FileKind("a text", 2**26)
TABLE = FileKind("a table of results", 2**26)
PAGE = FileKind("a text of settings", 2**20, 2**16)
SCHEDULER = FileKind("the file of a scheduler", 2**16, 2**12)


# The folder that files are read from, where it is one alone; the process decides once.
below: list[str] = []


class State(NamedTuple):
    """Which file it was, and as of when: what a change of its bytes changes too."""

    device: int
    inode: int
    size: int
    modified: int  # in nanoseconds


def state_of(file: IO[bytes]) -> State:
    """The state of an open file."""
    status = os.fstat(file.fileno())
    return State(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def opened(path: str | os.PathLike[str], kind: FileKind | None = None) -> IO[bytes]:
    """A file open for reading, without a buffer."""
    name = os.fspath(path)
    if "\0" in name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name.replace("\0", "?"))
    _check_regular(name, Path(name).stat().st_mode)  # before, as opening a device may act on it
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _check_regular(name, status.st_mode)  # and after, as the name may mean another file now
        _check_size(name, kind, status.st_size)
        _check_place(name, descriptor)
        return os.fdopen(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def named(path: object, caller: str) -> Path:
    """A path that names something; `DataError` for what is blank, or no path at all.

    An empty name would be the folder that the program runs in.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fsdecode(path).strip():
        raise bad_data(caller, "the name of a file or a folder", repr(path)[:60])
    return Path(path)


def _check_regular(name: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    received, todo = {
        stat.S_IFDIR: ("a folder", "Name a file in it; posenc.identify(FOLDER) looks at all."),
        stat.S_IFIFO: ("a pipe", "Write what it gives to a file first."),
        stat.S_IFSOCK: ("a socket", ""),
    }.get(stat.S_IFMT(mode), ("a device", ""))
    raise bad_data(name, "a regular file", received, todo)


def _check_place(name: str, descriptor: int) -> None:
    link = f"/proc/self/fd/{descriptor}"  # the file itself, whatever its name means by now
    place = link if below and os.path.lexists(link) else name
    if below and not Path(os.path.realpath(place)).is_relative_to(below[0]):
        raise bad_data(name, f"a file below {below[0]}", "one outside it")


def _check_size(name: str, kind: FileKind | None, size: int) -> None:
    if kind is not None and size > kind.largest:
        raise _too_large(name, kind, size)


def _too_large(caller: str, kind: FileKind, size: object) -> DataError:
    return DataError(mismatch(caller, f"{kind.name} of at most {kind.largest:,} bytes", size))


def content(path: str | os.PathLike[str], kind: FileKind) -> bytes:
    """All bytes of a file of a kind; errors as of `opened`."""
    with opened(path, kind) as file:
        return _bounded(file, os.fspath(path), kind)


def text_of(path: str | os.PathLike[str], kind: FileKind) -> str:
    """The text of a file of a kind, in UTF-8; errors as of `opened`, and `DataError` for others."""
    return _decoded(content(path, kind), os.fspath(path))


def standard_input(kind: FileKind) -> str:
    """The text that comes on standard input."""
    caller = "standard input"
    return _decoded(b"" if sys.stdin is None else _bounded(sys.stdin.buffer, caller, kind), caller)


def _bounded(file: IO[bytes], caller: str, kind: FileKind) -> bytes:
    # The size that the system states is not believed: files of /proc have none, others grow.
    pieces: list[bytes] = []
    left = kind.largest
    while True:
        piece = file.read(min(PIECE, left + 1))
        if piece is None:
            raise bad_data(caller, "a file that can be read at once", "one that waits")
        if not piece:
            return b"".join(pieces)
        left -= len(piece)
        if left < 0:
            raise _too_large(caller, kind, "more")
        pieces.append(piece)


def _decoded(data: bytes, caller: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        received = f"the byte {data[error.start]:#04x} at {error.start}"
        raise bad_data(caller, "text in UTF-8", received, reader_of(caller)) from None


@contextlib.contextmanager
def unchanged(path: str | os.PathLike[str], state: State) -> Iterator[IO[bytes]]:
    """A file open for reading, which nobody may write to until the block ends."""
    with opened(path) as file:
        _check_state(path, file, state)
        yield file
        _check_state(path, file, state)


def _check_state(path: str | os.PathLike[str], file: IO[bytes], state: State) -> None:
    refuse_data(
        state_of(file) != state,
        os.fspath(path),
        "a file that stays as it is",
        "one that was changed meanwhile",
        "Try again when nothing writes to it.",
    )


# --- JSON -----------------------------------------------------------------------------------------


def check_count(
    text: str, caller: str, kind: FileKind, *, error: type[PosencError] = DataError
) -> None:
    """Raise if a JSON text stands for too many values, before any is made."""
    # Each value but the first follows one of these marks, so the count is never too low.
    plain = text.replace("\\\\", "").replace('\\"', "")
    marks = quotes = 0
    for begin in range(0, len(plain), PIECE):
        parts = plain[begin : begin + PIECE].split('"')
        outside = "".join(parts[quotes % 2 :: 2])  # of the texts between quotes
        marks, quotes = marks + sum(map(outside.count, ",:[{")), quotes + len(parts) - 1
        if max(marks, quotes // 2 - 1) > kind.most:
            raise error(mismatch(caller, f"{kind.name} of at most {kind.most:,} values", "more"))


def parse(
    text: str | bytes,
    caller: str,
    kind: FileKind,
    *,
    error: type[PosencError] = DataError,
    constant: Any = None,
) -> Any:
    """The value of a JSON text."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise error(mismatch(caller, "each key once", f"{twice[:80]!r} more than once"))
        return data

    if len(text) > kind.largest:
        raise error(str(_too_large(caller, kind, len(text))))
    try:
        if not isinstance(text, str):
            wide = re.search(rb"[\xf0-\xff]", text), re.search(rb"[\xc4-\xef]", text)
            size = len(text) * (4 if wide[0] else 2 if wide[1] else 1)
            if size > MOST_MEMORY:
                raise error(mismatch(caller, f"a text of {MOST_MEMORY:,} bytes in memory", size))
            text = bytes(text).decode("utf-8-sig")
        plain = text
        check_count(plain, caller, kind, error=error)
        return json.loads(plain, object_pairs_hook=once, parse_constant=constant)
    except PosencError:
        raise
    except RecursionError:
        raise error(f"{caller}: its JSON is nested deeper than can be read") from None
    except UnicodeDecodeError as found:
        raise error(f"{caller} is not JSON: {found}") from None
    except json.JSONDecodeError as found:
        more = (
            ", where the text ends: it is empty, or was cut off"
            if found.pos >= len(plain.rstrip()) or found.msg.startswith("Unterminated")
            else ""
        )
        raise error(f"{caller} is not JSON: {found}{more}") from None
    except ValueError:  # the limit of Python for integers
        raise error(f"{caller}: its JSON holds a number of too many digits") from None


# What code raises that reads the values of somebody else's file as if they were in order.
_MISREADINGS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@contextlib.contextmanager
def understood(caller: str, expected: str) -> Iterator[None]:
    """A block that reads values of a file, whose failures become errors of the file."""
    try:
        yield
    except PosencError as error:
        raise DataError(str(error) if caller in str(error) else f"{caller}: {error}") from error
    except _MISREADINGS as error:
        raise bad_data(caller, expected, f"others ({str(error)[:120]})") from error


# --- configs --------------------------------------------------------------------------------------


def load(config: Any, caller: str) -> dict[str, Any]:
    """The config as a dictionary of plain JSON types."""
    if isinstance(config, Mapping):
        return _plain_config(dict(config), caller)
    if isinstance(config, str) and config.lstrip(BLANK)[:1] in ("{", "["):
        return _config_of(config.lstrip(BLANK), caller, "the text")
    if isinstance(config, (str, Path)):
        return _read_config(named(config, caller), caller)
    own = getattr(config, "config", None)
    if isinstance(own, Mapping) and hasattr(config, "named_parameters"):  # a model of diffusers
        return load({**own, "_class_name": type(config).__name__}, caller)
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        return load(to_dict(), caller)
    raise bad_data(
        caller,
        "a config",
        type(config).__name__,
        "Pass a dictionary, the text or path of a config.json, or a config object.",
    )


def folder_of(config: Any) -> Path | None:
    """The folder that the file of a config lies in; None for what is no file."""
    is_text = isinstance(config, str) and config.lstrip(BLANK)[:1] in ("{", "[")
    if is_text or not isinstance(config, (str, Path)):
        return None
    return Path(config) if Path(config).is_dir() else Path(config).parent


def _read_config(path: Path, caller: str) -> dict[str, Any]:
    if path.is_dir():
        inside = next(
            (path / name for name in CONFIGS if (path / name).is_file()),
            None,
        )
        if inside is None:
            expected = f"a folder that holds {CONFIG_FILE} or {PIPELINE}"
            raise bad_data(caller, expected, repr(str(path)))
        path = inside
    if not path.exists():  # the advice imports all presets
        raise bad_data(
            caller,
            "a file that exists",
            repr(str(path)[:200]),
            hub_advice(str(path)) or "A text is taken for JSON if it begins with a brace.",
        )
    other = path.suffix in (".py", ".csv", ".npy")
    refuse_data(other, caller, "the config of a model", path, reader_of(path))
    data = _config_of(text_of(path, CONFIG), caller, path.name, path.suffix.lower())
    return data | _parts_of(path.parent, data, caller) if path.name == PIPELINE else data


def _parts_of(folder: Path, data: Mapping[str, Any], caller: str) -> dict[str, Any]:
    """The configs of the parts that a pipeline names, each in a folder of its name."""
    files = ((part.name, part / CONFIG_FILE) for part in folder.iterdir() if part.name in data)
    return {name: _read_config(file, caller) for name, file in files if file.is_file()}


# Endings of files, and what reads them.
READERS = {
    ".py": "`posenc infer FILE:NAME` says what code follows, `posenc check FILE:NAME` tries it.",
    ".npy .npz .safetensors .bin .pt .pth": "`posenc identify FILE` says what arrays follow.",
    ".json .gguf .yaml .yml .toml": "`posenc explain FILE` reads the config of a model.",
    ".csv .tsv .txt": "An array is written by np.save('rows.npy', np.loadtxt('FILE', "
    "delimiter=',')), and read by `posenc identify rows.npy`.",
}


def reader_of(path: str | os.PathLike[str]) -> str:
    """What reads a file of this ending; nothing for others."""
    ending = Path(path).suffix.lower()
    return next(
        (todo for endings, todo in READERS.items() if ending in endings.split()), ""
    ).replace("FILE", os.fspath(path))


def _config_of(text: str, caller: str, source: str, ending: str = "") -> dict[str, Any]:
    named = f"{caller}: {source}"
    if ending in OTHERS:
        from posenc._core.io import yaml_text

        data = (
            yaml_text.parse_toml(text, named)
            if ending == ".toml"
            else yaml_text.parse_yaml(text, named, CONFIG.most)
        )
    else:
        data = parse(text, named, CONFIG)
    if not isinstance(data, dict):
        todo = 'A config is {"model_type": …}; numbers are for posenc.identify.'
        raise bad_data(named, "keys, each with a value", repr(data)[:40], todo)
    return _plain_config(data, caller)


def _plain_config(data: dict[str, Any], caller: str) -> dict[str, Any]:
    try:
        return {str(key): _plain(value, str(key), caller, 1) for key, value in data.items()}
    except RecursionError:
        raise DataError(f"{caller}: nested deeper than {DEEPEST:,} levels") from None


def _plain(value: Any, key: str, caller: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise DataError(f"{caller}: nested deeper than {DEEPEST:,} levels")
    if isinstance(value, Mapping):
        return {str(k): _plain(v, f"{key}.{k}", caller, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, key, caller, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        # Python's JSON writes NaN and Infinity; a mask value may be one, an angle may not.
        refuse_data("rope" in key or "theta" in key, f"{caller}: {key}", "a finite number", value)
        return None
    if type(value) is int and abs(value) > sys.float_info.max:
        return "an integer beyond every float"  # a text, so that whoever reads it finds no number
    return value

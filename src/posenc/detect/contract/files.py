"""A contract as a file, and back: JSON for people and any language, safetensors for long arrays.

A file is somebody else's: what it states is believed if it is whole, if its fingerprint is that of
its contents, and its numbers are those of its specs. From version 2 on a text ends with the number
of its records and the SHA-256 of every byte before that digest, and a file of tensors with one more
SHA-256, its last tensor. So a program without posenc sees whether something was cut off or changed;
the fingerprint stays that of the contents, whatever their layout.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from posenc import registry
from posenc._core.errors import bad_argument, bad_data, one_of, refuse_data
from posenc._core.grouping import grouped
from posenc._core.io import files, headers, inputs, outputs
from posenc._core.reading import Note
from posenc._core.spec.spec import from_dict
from posenc.detect.contract.checks import alike, records
from posenc.detect.contract.contract import (
    FORMAT,
    VERSION,
    Check,
    Contract,
    Part,
    digest,
)

CONTRACT = inputs.FileKind("a contract", 2**26, 2**22)
FORMATS = ("json", "safetensors", "both")
LONG = 8  # numbers from which a list becomes a tensor
METADATA = "contract"
HEAD = ("format", "version", "fingerprint")
COUNT, DIGEST = "records", "sha256"
END = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n')
ENDED = 79  # bytes that it matches
WITHOUT = 1  # the version that has neither count nor digest
CLOSE = 1e-9  # numbers of another machine, whose sines may end otherwise


# --- writing --------------------------------------------------------------------------------------


def targets(path: str | os.PathLike[str], format: str | None) -> dict[str, Path]:  # noqa: A002
    """The files that a format stands for, by `json` and `safetensors`."""
    path = inputs.named(path, "Contract.save")
    if format is None:
        format = "safetensors" if path.suffix == ".safetensors" else "json"  # noqa: A001
    one_of(format, FORMATS, "save: format")
    if format != "both":
        return {format: path}
    if (beside := path.with_suffix(".safetensors")) == path:
        raise bad_argument(
            "save: path",
            "another ending than .safetensors",
            path,
            "The file of tensors gets its ending.",
        )
    return {"json": path, "safetensors": beside}


def save(
    contract: Contract, path: str | os.PathLike[str], format: str | None,  # noqa: A002
    existing: Literal["refuse", "replace"],
) -> tuple[str, ...]:  # fmt: skip
    """Write the files, or none of them; parameters as of `Contract.save`."""
    paths = targets(path, format)
    with contextlib.ExitStack() as stack:
        for kind, file in [
            (kind, stack.enter_context(outputs.replacing(target, existing=existing)))
            for kind, target in paths.items()
        ]:
            _write(contract, kind, file)
    return tuple(map(str, paths.values()))


def text_of(contract: Contract, checks: Iterable[Mapping[str, Any]] | None = None) -> str:
    """The JSON of a contract, each part and each record on a line of its own."""
    records = {} if checks is None else {"checks": checks}
    data = {"fingerprint": contract.fingerprint, **contract.to_dict(), **records}
    lines = []
    for key in (*HEAD, *(key for key in data if key not in HEAD)):
        text = json.dumps(data[key], allow_nan=False)
        if key in ("notes", "parts", "checks") and data[key]:
            rows = ",\n".join(json.dumps(row, allow_nan=False) for row in data[key])
            text = f"[\n{rows}\n]"
        lines.append(f"{json.dumps(key)}: {text}")
    text = "{\n" + ",\n".join([*lines, f'"{COUNT}": {len(data["checks"])}', ""])
    return f'{text}"{DIGEST}": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'


def _write(contract: Contract, kind: str, file: IO[bytes]) -> None:
    if kind == "json":
        files.write(file, 0, text_of(contract).encode())
        return
    tensors: dict[str, np.ndarray] = {}
    rows = [check.to_dict() for check in contract.checks]
    for i, check in enumerate(contract.checks):
        for name, values in check.data.items():
            if isinstance(values, np.ndarray) and values.size >= LONG:
                tensors[f"{i}.{name}"] = values
                del rows[i][name]
    kinds = {name: (values.dtype.name, values.shape) for name, values in tensors.items()}
    header = headers.safetensors_header(
        {**kinds, DIGEST: ("uint8", (32,))}, {METADATA: text_of(contract, rows)}
    )
    whole = header + b"".join(
        values.astype(values.dtype.newbyteorder("<")).tobytes() for values in tensors.values()
    )
    files.write(file, 0, whole + hashlib.sha256(whole).digest())


# --- reading --------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> Contract:
    """Read a contract that was saved."""
    path = inputs.named(path, "a contract")
    if path.suffix == ".safetensors":
        return _contract(_of_tensors(path), str(path))
    return parsed(inputs.content(path, CONTRACT), str(path))


def parsed(text: bytes, caller: str) -> Contract:
    """The contract of a JSON text; errors as of `read`."""
    return _contract(_whole(text, caller), caller)


def _whole(text: bytes, caller: str) -> Any:
    """The values of a JSON text, but for its count and digest, which hold."""
    data = inputs.parse(text, caller, CONTRACT)
    if not _is_ended(data):
        return data
    end = END.fullmatch(text[-ENDED:])
    _agree(f"{caller}: {DIGEST}", text[:-ENDED], end[1].decode() if end else "no such end")
    with inputs.understood(caller, "a list of records, and how many"):
        count, stated = len(data["checks"]), data.pop(COUNT, None)
    refuse_data(
        type(stated) is not int or stated != count,
        f"{caller}: {COUNT}",
        f"{count}, the number of them",
        stated,
    )
    return {key: value for key, value in data.items() if key != DIGEST}


def _is_ended(data: Any) -> bool:
    """Whether the version is one with a count and a digest."""
    return isinstance(data, dict) and (data.get("format"), data.get("version")) == (FORMAT, VERSION)


def _agree(caller: str, data: bytes, stated: str) -> None:
    """Raise unless a digest is that of the bytes before it."""
    refuse_data(
        (own := hashlib.sha256(data).hexdigest()) != stated,
        caller,
        f"{own}, the digest of all bytes before it, and nothing behind",
        stated,
        "The file was cut or changed (an editor, or git's line ends); write it anew.",
    )


def _contract(data: Any, caller: str) -> Contract:
    """The contract of plain JSON types."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise bad_data(
            caller,
            f"a contract, with the format {FORMAT!r}",
            sorted(map(str, data))[:8] if isinstance(data, dict) else type(data).__name__,
            "`posenc golden` writes one.",
        )
    version = data.get("version")
    refuse_data(
        type(version) is not int or version not in (WITHOUT, VERSION),
        f"{caller}: version",
        f"{WITHOUT} or {VERSION}, of this posenc",
        repr(version)[:40],
        "Write it anew by `posenc golden`, or use the posenc that wrote it.",
    )
    with inputs.understood(caller, "numbers, texts and lists"):
        computed = digest({key: value for key, value in data.items() if key != "fingerprint"})
    if data.get("fingerprint") != computed:
        todo = "It was changed after it was written; write it anew."
        stated = f"{str(data.get('fingerprint'))[:16]}…, which it states"
        raise bad_data(caller, f"the fingerprint {computed[:16]}… of its contents", stated, todo)
    with inputs.understood(caller, "what docs/golden.md describes"):
        values = {
            name: tuple(
                _value(cls, row, f"{caller}: {name}[{i}]") for i, row in enumerate(data[name])
            )
            for name, cls in (("parts", Part), ("notes", Note))
        }
        checks = tuple(map(_check, data["checks"]))
        if type(data["model"]) is not str or type(data["settled"]) is not str:
            raise TypeError("a text for each key that is one")
        contract = Contract(data["model"], checks=checks, settled=data["settled"], **values)
        _hold(contract, {*data} - {*HEAD, *contract.to_dict()}, caller)
    return contract


def _value(cls: type[Any], data: object, caller: str) -> Any:
    value = from_dict(data, lambda name: Part if name == "Part" else registry.lookup(name), caller)
    refuse_data(not isinstance(value, cls), caller, f"a {cls.__name__}", type(value).__name__)
    return value


def _check(data: Mapping[str, Any]) -> Check:
    def plain(value: Any) -> Any:
        types = set(map(type, value)) if isinstance(value, list) else {type(value)} - {str}
        if types - {int, float}:
            raise TypeError(f"{value!r:.60} where numbers stand")
        if not isinstance(value, list):
            return value
        array = np.array(value, dtype=np.int64 if types == {int} else np.float64)
        array.setflags(write=False)
        return array

    rest = {
        name: plain(value) for name, value in data.items() if name not in {"check", "part", "state"}
    }
    return Check(data["check"], data["part"], data["state"], rest)


def _hold(contract: Contract, unknown: set[str], caller: str) -> None:
    """Raise `DataError` unless the records are those that the specs of the parts give."""
    stated = grouped((check.part, check) for check in contract.checks)
    for part in contract.parts:  # one by one, so that few bytes never stand for much to compute
        two = getattr(part.spec, "needs_length", False)
        refuse_data(
            part.states != (("short", "long") if two else ("any",)),
            caller,
            f"the states of the spec of {part.name!r}",
            part.states,
        )
        pairs = itertools.zip_longest(stated.pop(part.name, ()), records((part,))[1])
        for i, (check, own) in enumerate(pairs):
            wrong = "more or fewer of them"
            if check and own:
                one, other = ({**vars(c), **c.data, "data": ""} for c in (check, own))
                names = (
                    n for n in one | other if not alike(one.get(n), other.get(n), CLOSE, CLOSE)
                )
                wrong = next((f"another {n!r} in number {i} of them" for n in names), "")
            refuse_data(wrong, caller, f"the records of the spec of {part.name!r}", wrong[:200])
    refuse_data(
        unknown or stated,
        caller,
        "the keys of a contract, and a part of its own for every record",
        sorted({*unknown, *stated}),
    )


def _of_tensors(path: Path) -> Any:
    """The JSON of a safetensors file, with its tensors in their places."""
    caller = str(path)
    with inputs.opened(path, inputs.FileKind(CONTRACT.name, CONTRACT.largest)) as file:
        layout = files.read_open_layout(path, file)
        if (text := layout.metadata.get(METADATA)) is None:
            raise bad_data(
                f"{caller}: metadata",
                f"the key {METADATA!r}",
                "none",
                "`posenc golden` writes one.",
            )
        data, tensors = _whole(text.encode(errors="surrogatepass"), caller), dict(layout.tensors)
        if _is_ended(data):
            last = tensors.pop(DIGEST, None)
            ends = last is not None and last.shape == (32,) and last.end == layout.size
            whole = files.read(file, 0, layout.size, "|u1").tobytes()
            _agree(
                f"{caller}: {DIGEST}", whole[:-32], whole[-32:].hex() if ends else "no such tensor"
            )
        with inputs.understood(caller, "tensors named by the number of a record and a key"):
            for name, tensor in tensors.items():
                index, _, key = name.partition(".")
                row = data["checks"][int(index)]
                if tensor.dtype not in ("float64", "int64") or len(tensor.shape) != 1 or key in row:
                    expected = "float64 or int64 of one axis, and each key once"
                    received = f"{tensor.dtype} {tensor.shape}{', twice' if key in row else ''}"
                    raise bad_data(f"{caller}: {name[:80]!r}", expected, received)
                row[key] = files.read(
                    file, tensor.begin, math.prod(tensor.shape), str(tensor.stored)
                ).tolist()
    return data

"""A contract as a file: JSON for people and any language, safetensors for arrays as they are."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc._core.io import files
from posenc._core.io.outputs import replacing
from posenc.detect.contract.contract import Contract

__all__ = ["FORMATS", "LONG", "METADATA", "save", "targets"]

FORMATS = ("json", "safetensors", "both")
LONG = 8  # numbers from which a list becomes a tensor
METADATA = "contract"


def targets(path: str | os.PathLike[str], format: str | None) -> dict[str, Path]:  # noqa: A002
    """The files that a format stands for, by `json` and `safetensors`."""
    path = Path(path)
    if format is None:
        format = "safetensors" if path.suffix == ".safetensors" else "json"  # noqa: A001
    if format not in FORMATS:
        todo = suggest(format, FORMATS)
        raise ArgumentError(mismatch("save: format", "one of its names", repr(format), todo))
    if format != "both":
        return {format: path}
    beside = path.with_suffix(".safetensors")
    if beside == path:
        todo = "The file of tensors gets its ending."
        raise ArgumentError(mismatch("save: path", "another ending than .safetensors", path, todo))
    return {"json": path, "safetensors": beside}


def save(
    contract: Contract,
    path: str | os.PathLike[str],
    *,
    format: Literal["json", "safetensors", "both"] | None,  # noqa: A002
    existing: Literal["refuse", "replace"],
) -> tuple[str, ...]:
    """Write the files, or none of them; parameters as of `Contract.save`."""
    writers = {"json": _json, "safetensors": _safetensors}
    found = targets(path, format)
    with contextlib.ExitStack() as stack:
        opened = [
            (kind, stack.enter_context(replacing(target, existing=existing)))
            for kind, target in found.items()
        ]
        for kind, file in opened:
            writers[kind](contract, file)
    return tuple(map(str, found.values()))


def _json(contract: Contract, file: IO[bytes]) -> None:
    files.write(file, 0, text_of(contract).encode())


def text_of(contract: Contract, *, records: list[dict[str, Any]] | None = None) -> str:
    """The JSON of a contract, each part and each record on a line of its own."""
    data = {"fingerprint": contract.fingerprint, **contract.to_dict()}
    if records is not None:
        data["checks"] = records
    first = ("format", "version", "fingerprint")
    head = {key: data[key] for key in (*first, *(k for k in data if k not in first))}
    lines = []
    for key, value in head.items():
        if key in ("notes", "parts", "checks") and value:
            rows = ",\n".join(json.dumps(row, allow_nan=False) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _safetensors(contract: Contract, file: IO[bytes]) -> None:
    tensors: dict[str, np.ndarray] = {}
    records = []
    for i, check in enumerate(contract.checks):
        record = check.to_dict()
        for name, values in check.data.items():
            if isinstance(values, np.ndarray) and values.size >= LONG:
                tensors[f"{i}.{name}"] = values
                del record[name]
        records.append(record)
    kinds = {name: (values.dtype.name, values.shape) for name, values in tensors.items()}
    text = text_of(contract, records=records)
    header = files.safetensors_header(kinds, {METADATA: text})
    files.write(file, 0, header)
    at = len(header)
    for name, values in tensors.items():
        stored = values.astype(np.dtype(kinds[name][0]).newbyteorder("<"))
        files.write(file, at, stored)
        at += stored.nbytes

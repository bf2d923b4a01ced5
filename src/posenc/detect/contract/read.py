"""A file -> the contract in it; the file is somebody else's, and checked before it is believed."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from posenc import registry
from posenc._core import files, inputs
from posenc._core.errors import DataError, SpecError, mismatch, suggest
from posenc._core.reading import Note
from posenc._core.spec import Value, from_dict
from posenc.detect.contract.canonical import digest
from posenc.detect.contract.contract import FORMAT, VERSION, Check, Contract, Part
from posenc.detect.contract.schema import violation
from posenc.detect.contract.write import METADATA

__all__ = ["CONTRACT", "parsed", "read", "schema"]

CONTRACT = inputs.FileKind("a contract", 2**26, 2**22)
# Lists of one record that are as long as each other.
ALIKE = {
    "frequencies": ("frequencies", "frequencies_float32", "first", "second", "axis"),
    "angles": ("cos", "sin"),
    "rows": ("positions", "rows"),
    "temperature": ("positions", "factors"),
}


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON Schema of the format."""
    data = resources.files("posenc.detect.contract").joinpath("contract.schema.json")
    found: dict[str, Any] = json.loads(data.read_text(encoding="utf-8"))
    return found


def read(path: str | os.PathLike[str]) -> Contract:
    """Read a contract that was saved.

    Parameters
    ----------
    path : path
        A JSON or safetensors file.

    Returns
    -------
    Contract
        As it was written.

    Raises
    ------
    DataError
        If it is no contract, of another version, or its numbers are not those that were written.
    OSError
        If it cannot be opened.
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        return parsed(_of_tensors(path), str(path))
    return parsed(inputs.parse(inputs.text_of(path, CONTRACT), str(path), CONTRACT), str(path))


def parsed(data: object, caller: str) -> Contract:
    """The contract of plain JSON types; errors as of `read`."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        received = (
            f"keys {sorted(map(str, data))[:8]}" if isinstance(data, dict) else type(data).__name__
        )
        todo = "`posenc golden` writes one."
        raise DataError(mismatch(caller, f"a contract, with the format {FORMAT!r}", received, todo))
    if data.get("version") != VERSION:
        todo = "Write it anew by `posenc golden`, or use the posenc that wrote it."
        received = repr(data.get("version"))[:40]
        raise DataError(
            mismatch(f"{caller}: version", f"{VERSION}, of this posenc", received, todo)
        )
    wrong = violation(data, schema())
    if wrong is not None:
        raise DataError(f"{caller}: {wrong}")
    try:
        parts = tuple(
            _value(Part, part, f"{caller}: parts[{i}]") for i, part in enumerate(data["parts"])
        )
        notes = tuple(
            _value(Note, note, f"{caller}: notes[{i}]") for i, note in enumerate(data["notes"])
        )
    except SpecError as error:
        raise DataError(str(error)) from error
    states = {part.name: part.states for part in parts}
    if len(states) != len(parts):
        raise DataError(mismatch(f"{caller}: parts", "distinct names", [p.name for p in parts]))
    checks = tuple(
        _check(check, states, f"{caller}: checks[{i}]") for i, check in enumerate(data["checks"])
    )
    made = Contract(data["model"], parts, checks, notes, data["settled"])
    stated = {key: value for key, value in data.items() if key != "fingerprint"}
    with inputs.understood(caller, "numbers of 64 bits"):
        found = digest(stated)
    if found != data["fingerprint"]:
        todo = "It was changed after it was written; write it anew."
        received = f"{found[:16]}…, of its contents"
        expected = f"the fingerprint {data['fingerprint'][:16]}… that it states"
        raise DataError(mismatch(caller, expected, received, todo))
    return made


def _value(cls: type[Any], data: Mapping[str, Any], caller: str) -> Any:
    def resolve(name: str) -> type[Value]:
        return Part if name == "Part" else registry.lookup(name)

    made = from_dict(data, resolve, caller)
    if not isinstance(made, cls):
        raise DataError(mismatch(caller, f"a {cls.__name__}", type(made).__name__))
    return made


def _check(data: Mapping[str, Any], states: Mapping[str, tuple[str, ...]], caller: str) -> Check:
    part, state = data["part"], data["state"]
    if part not in states:
        todo = suggest(part, states) if states else "There are no parts."
        raise DataError(mismatch(f"{caller}: part", "the name of a part", repr(part)[:80], todo))
    if state != "any" and state not in states[part]:
        raise DataError(mismatch(f"{caller}: state", f"one of {states[part]}", repr(state)[:80]))
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, list):
            flat[name] = _array(value, f"{caller}: {name}")
        elif name not in ("check", "part", "state"):
            flat[name] = value
    sizes = {name: flat[name].size for name in ALIKE.get(data["check"], ()) if name in flat}
    if len(set(sizes.values())) > 1:
        raise DataError(mismatch(caller, "lists of one length", sizes))
    for name, size in _sizes(data["check"], flat).items():
        if name in flat and flat[name].size != size:
            raise DataError(mismatch(f"{caller}: {name}", f"{size} numbers", flat[name].size))
    return Check(data["check"], part, state, flat)


def _sizes(check: str, flat: Mapping[str, Any]) -> dict[str, int]:
    """How long the lists of a record are that others settle."""
    if check in ("bias", "relative"):
        queries, keys = (flat[side].size for side in ("q_positions", "k_positions"))
        axes = max(1, int(flat.get("axes", 1)))
        return {check: int(flat["heads"]) * (queries // axes) * (keys // axes)}
    if check == "scores":
        count = math.isqrt(flat["scores"].size) ** 2
        return {"scores": count, **{k: count for k in flat if k.startswith("tolerance_")}}
    if check == "frequencies":
        return {"query": int(flat["width"]), "key": int(flat["width"])}
    if check == "positions":
        return {"positions": math.prod(int(n) for n in flat["shape"])}
    return {}


def _array(values: list[Any], caller: str) -> np.ndarray:
    whole = all(isinstance(value, int) for value in values) and bool(values)
    try:
        array = np.array(values, dtype=np.int64 if whole else np.float64)
    except OverflowError:
        raise DataError(mismatch(caller, "numbers of 64 bits", "a larger one")) from None
    if not whole and not np.isfinite(array).all():
        raise DataError(mismatch(caller, "finite numbers", "NaN or infinity"))
    array.setflags(write=False)
    return array


def _of_tensors(path: Path) -> Any:
    """The JSON of a safetensors file, with its tensors in their places."""
    caller = str(path)
    with inputs.opened(path, inputs.FileKind(CONTRACT.name, CONTRACT.largest)) as file:
        layout = files.read_open_layout(path, file)
        text = layout.metadata.get(METADATA)
        if text is None:
            todo = "`posenc golden` writes one."
            raise DataError(mismatch(f"{caller}: metadata", f"the key {METADATA!r}", "none", todo))
        data = inputs.parse(text, caller, CONTRACT)
        with inputs.understood(caller, "tensors named by the number of a record and a key"):
            for name, tensor in layout.tensors.items():
                index, _, key = name.partition(".")
                if tensor.dtype not in ("float64", "int64") or len(tensor.shape) != 1:
                    expected = "float64 or int64 of one axis"
                    received = f"{tensor.dtype} {tensor.shape}"
                    raise DataError(mismatch(f"{caller}: {name[:80]!r}", expected, received))
                count = math.prod(tensor.shape)
                values = files.read(file, tensor.begin, count, str(tensor.stored)).tolist()
                if key in data["checks"][int(index)]:
                    raise DataError(
                        mismatch(f"{caller}: {name[:80]!r}", "each key once", "it twice")
                    )
                data["checks"][int(index)][key] = values
    return data

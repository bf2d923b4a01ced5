"""Whatever can be compared, as a side: what it says of each part of a model, or answers when asked.

A side that describes a model (config, plan, spec, preset, GGUF, contract) has specs. Any other
(a function, a loaded model, the buffers of a checkpoint, an engine) only has numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.io import inputs
from posenc._core.plan import Plan
from posenc._core.reading import Layer, Reading
from posenc._core.spec import Spec
from posenc.detect.contract.asked import METHODS, Asked, Library
from posenc.detect.contract.buffers import of_checkpoint, of_model
from posenc.detect.contract.contract import Contract
from posenc.detect.contract.engines import of_engine, of_folder
from posenc.detect.contract.make import PREFIXES, described, parts_of
from posenc.detect.contract.side import Side
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["is_code", "side_of"]

ENGINE, FOLDER = "engine:", "hf:"
ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".npy", ".index.json")


def side_of(
    source: Any, *, name: str = "", dim: int | None = None, library: Library = "numpy"
) -> Side:
    """A source as a side.

    Parameters
    ----------
    source : object
        As of `posenc.diff`.
    name : str
        What it is called; by default its text or type.
    dim : int, optional
        Of `preset:NAME`: its width, or number of heads.
    library : {"numpy", "torch", "jax"}
        Whose arrays an implementation takes.

    Raises
    ------
    ArgumentError
        If it is nothing that can be compared.
    DataError
        If it cannot be read.
    DependencyError
        If a library is missing.
    """
    if isinstance(source, Side):
        return source
    if isinstance(source, (str, Path)):
        return _of_text(str(source), name or _short(str(source)), dim)
    if isinstance(source, (Contract, Reading, Plan, Spec, Mapping, Layer)):
        return _description(source, name or _title(source), dim)
    if callable(getattr(source, "named_buffers", None)) and not _answers(source):
        return of_model(source, name or type(source).__name__)
    if callable(getattr(source, "to_dict", None)) and not _answers(source):
        return _description(source, name or _title(source), dim)
    asked = Asked(source, library)
    return Side(name or asked.name, whole=False, answers=lambda _: asked)


def _answers(source: Any) -> bool:
    return any(callable(getattr(source, method, None)) for method in METHODS)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _title(source: Any) -> str:
    if isinstance(source, Mapping):
        return f"config of {source.get('model_type', 'a model')}"
    model = getattr(source, "model", "") or getattr(source, "model_type", "")
    return f"{type(source).__name__}{f' of {model}' if model else ''}"


def _description(source: Any, name: str, dim: int | None) -> Side:
    if isinstance(source, Layer):
        source = Reading((source,))
    preset = isinstance(source, str) and source.startswith("preset:")
    found = described(source, dim=dim if preset else None)
    if isinstance(found, Reading) and found.errors:
        expected = "a plan that leaves nothing open"
        raise DataError(mismatch(f"diff: {name}", expected, "; ".join(found.errors)))
    notes = getattr(found, "notes", ())
    told = tuple(f"{name}: {note.text}" for note in notes if note.level == "warning")
    if isinstance(found, Contract):
        _hold(found, name)
    # A spec speaks of one encoding, and not of the layers of a model.
    single = preset or isinstance(found, Spec)
    return Side(name, parts_of(found), not single, remarks=told)


def _hold(contract: Contract, name: str) -> None:
    """Raise `DataError` if the frequencies of a contract are not those of its specs."""
    from posenc import functional

    for part in contract.parts:
        for check in contract.of(part.name, "frequencies"):
            spec = part.spec
            if not isinstance(spec, RotarySpec):
                continue
            fixed = spec.at(int(check["length"])) if "length" in check else spec
            wanted = functional.frequencies(fixed)
            stated = np.asarray(check["frequencies"])
            if wanted.shape != stated.shape or not np.allclose(wanted, stated, rtol=1e-12, atol=0):
                expected = f"the frequencies of the spec of {part.name!r}"
                raise DataError(
                    mismatch(f"diff: {name}", expected, "others: its numbers were changed")
                )


# --- texts ----------------------------------------------------------------------------------------


def is_code(text: str) -> bool:
    """Whether a text is MODULE:NAME, code to import, and none of the other sides."""
    others = (*PREFIXES, FOLDER, ENGINE)
    module, _, name = text.rpartition(":")
    if text.startswith(others) or text.lstrip().startswith("{") or not (module and name):
        return False
    return not Path(text).exists()


def _of_text(text: str, name: str, dim: int | None) -> Side:
    if text.startswith(PREFIXES) or text.lstrip().startswith("{"):
        return _description(text, name, dim)
    if text.startswith(FOLDER):
        return of_folder(text.removeprefix(FOLDER), name)
    if text.startswith(ENGINE):
        return of_engine(text.removeprefix(ENGINE), name)
    path = Path(text)
    if text and path.exists():
        if path.name.endswith(ENDINGS) and not _is_contract(path):
            return of_checkpoint(path, name)
        return _description(path, name, dim)
    todo = (
        "A side is a file or folder, JSON, preset:NAME:WIDTH, plan:NAME, hf:FOLDER, "
        "engine:vllm=CONFIG or, of the command, MODULE:NAME."
    )
    raise ArgumentError(mismatch("diff", "a side that is there", repr(name), todo))


def _is_contract(path: Path) -> bool:
    if path.suffix != ".safetensors":
        return False
    with inputs.opened(path) as file:
        start = file.read(2**16) or b""
    return b'"posenc contract"' in start or b'\\"posenc contract\\"' in start

"""Whatever can be compared, as a side: what it says of each part of a model, or answers when asked.

A side that describes a model (config, plan, spec, preset, GGUF, contract) has specs. Any other
(a function, a loaded model, the buffers of a checkpoint, an engine) only has numbers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, bad_argument
from posenc._core.guard import why_no_code
from posenc._core.io import inputs
from posenc._core.reading import Layer, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.contract.make import PREFIXES, described, parts_of
from posenc.detect.contract.sides.engines import of_engine
from posenc.detect.contract.sides.models import apart, of_checkpoint, of_folder, of_model
from posenc.detect.contract.sides.side import (
    Comparand,
    Implementation,
    Library,
    methods_of,
    of_rows,
)
from posenc.detect.subject import Subject, refuse_if
from posenc.detect.subject.arrays import numbers
from posenc.presets import diffusion

ENGINE, FOLDER = "engine:", "hf:"
ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".npy", ".index.json")


def side_of(
    source: Any, *, name: str = "", library: Library | None = None, other: Any = None
) -> Comparand:
    """A source as a side, and what it is called; parameters and errors as of `posenc.diff`.

    `other` is the other side, whose config an engine gets that states none.
    """
    if isinstance(source, Comparand):
        return source
    if isinstance(source, (str, Path)):
        text = str(source)
        return _of_text(text, name or (text if len(text) <= 60 else f"{text[:57]}..."), other)
    if hasattr(source, "shape") and hasattr(source, "ndim"):
        return of_rows(name or type(source).__name__, source)
    buffers = isinstance(source, Mapping) and any(hasattr(v, "shape") for v in source.values())
    answers = buffers or isinstance(source, Subject) or bool(methods_of(source))
    loaded = not isinstance(source, type) and callable(getattr(source, "named_buffers", None))
    if loaded and not answers:
        named = name or type(source).__name__
        return of_transformer(source, named) or of_model(source, named)
    if (isinstance(source, (Contract, Reading, Plan, Spec, Mapping, Layer)) and not buffers) or (
        not answers and callable(getattr(source, "to_dict", None))
    ):
        return _description(source, name or _title(source))
    return of_code(Implementation(source, library), name)


def of_code(code: Implementation, name: str = "") -> Comparand:
    """An implementation that answers for every part."""
    return Comparand(name or code.name, whole=False, answers=lambda *_: (code,), shared=True)


def _title(source: Any) -> str:
    if isinstance(source, Mapping):
        return f"config of {source.get('model_type', 'a model')}"
    model = getattr(source, "model", "") or getattr(source, "model_type", "")
    return f"{type(source).__name__}{f' of {model}' if model else ''}"


def _description(source: Any, name: str) -> Comparand:
    preset = isinstance(source, str) and source.startswith("preset:")
    source = Reading((source,)) if isinstance(source, Layer) else source
    model = described(source, f"diff: {name}")
    remarks = tuple(
        f"{name}: {note.text}" for note in getattr(model, "notes", ()) if note.level == "warning"
    )
    # A spec speaks of one encoding, and not of the layers of a model.
    return Comparand(
        name, parts_of(model), not preset and not isinstance(model, Spec), remarks=remarks,
        model=model,
    )  # fmt: skip


# --- texts ----------------------------------------------------------------------------------------


def is_code(text: str) -> bool:
    """Whether a text is MODULE:NAME, code to import, and none of the other sides."""
    if text.lower().startswith((*PREFIXES, FOLDER, ENGINE, "peer:")) or text.lstrip()[:1] == "{":
        return False
    why = "" if Path(text).exists() else why_no_code(text)
    if why.endswith("is not there.") or "an address" in why:
        raise ArgumentError(why)
    return not why and not Path(text).exists()


def _of_text(text: str, name: str, other: Any) -> Comparand:
    if text.startswith(PREFIXES) or text.lstrip().startswith("{"):
        return _description(text, name)
    if text.startswith(FOLDER):
        return of_folder(text.removeprefix(FOLDER), name)
    if text.startswith(ENGINE):
        return of_engine(text.removeprefix(ENGINE), name, other)
    if text and (path := Path(text)).exists():
        if path.name.endswith(ENDINGS) and not _is_contract(path):
            return of_checkpoint(path, name)
        return _description(path, name)
    todo = (
        "A side is a file or folder, JSON, preset:NAME:WIDTH, plan:NAME, hf:FOLDER, "
        "engine:NAME=CONFIG or, of the command, MODULE:NAME."
    )
    raise bad_argument("diff", "a side that is there", repr(name), todo)


def _is_contract(path: Path) -> bool:
    if path.suffix != ".safetensors":
        return False
    with inputs.opened(path) as file:
        return b"posenc contract" in (file.read(2**16) or b"")


# --- transformers of diffusers, by the rotary modules that rows of their classes name -------------

IDS = ("ids", "position_ids", "pos")  # arguments of a module that takes positions
LARGEST = 2**16  # cells of latents that a module is asked for


def of_transformer(model: Any, name: str) -> Comparand | None:
    """A transformer of diffusers by its rotary modules; None for any other model."""
    cls = type(model).__name__
    if not isinstance(getattr(model, "config", None), Mapping) or (
        (row := diffusion.transformer(cls)) is None
    ):
        return None
    paths = {
        rule.get("name", "attention"): rule.get("modules", {}).get(cls, rule.get("module"))
        for rule in row["entries"]
    }

    def answers(part: Part, _: Sequence[str]) -> list[Implementation]:
        module = getattr(model, paths.get(part.name) or "", None)
        absent = f"{cls} has no module {paths.get(part.name)!r}, which its class has in diffusers"
        handed = f"{cls} has no module for it: the rotation is handed to its forward"
        refuse_if(module is None, absent if paths.get(part.name) else handed)
        code = Implementation(
            SimpleNamespace(cos_sin=functools.partial(_cos_sin, module, part)), "numpy"
        )
        code.name = f"{paths[part.name]}, a {type(module).__name__}"
        return [code]

    return Comparand(name, whole=False, answers=answers)


def _cos_sin(module: Any, part: Part, positions: np.ndarray) -> Any:
    """Cosines and sines, or complex numbers, of a module, as its forward takes positions."""
    import torch

    own = apart(module) if isinstance(module, torch.nn.Module) else module
    asked = [*inspect.signature(getattr(own, "forward", own)).parameters]
    with torch.no_grad():
        if asked in ([one] for one in IDS):
            ids = torch.as_tensor(positions)
            try:
                return _pairs(own(ids), len(positions))
            except (IndexError, ValueError):  # it takes a batch
                return _pairs(own(ids[None]), len(positions))
        refuse_if(
            asked[0] != "hidden_states" or {"num_frames", "attention_mask"} & {*asked},
            f"{type(own).__name__} takes {', '.join(asked)}, and no positions",
        )
        sizes = [int(size) + 1 for size in positions.max(0)]
        if np.prod(sizes) > LARGEST:
            raise IndexError(f"a picture of {sizes} tokens is more than is asked for")
        patch = own.patch_size
        step = [getattr(own, "patch_size_t", 1), patch, patch][-len(sizes) :]
        step = [*patch] if isinstance(patch, (tuple, list)) else step
        shape = (size * by for size, by in zip(sizes, step, strict=True))
        table = _pairs(own(torch.zeros(1, 1, *shape)), int(np.prod(sizes)))
    rule: Any = part.positions
    scene, grid = next(one.name for one in rule.parts if one.is_grid), (1, *sizes)[-3:]
    cells = {tuple(row): i for i, row in enumerate(rule.build([(scene, grid)])[scene])}
    places = [cells.get(tuple(row), LARGEST) for row in positions]  # beyond the table
    return tuple(one[places] for one in table) if isinstance(table, tuple) else table[places]


def _pairs(answer: Any, count: int) -> Any:
    """What a module returns, as complex numbers or as cosines and sines, a row for each token."""
    if isinstance(answer, (tuple, list)):
        cos, sin = (numbers(one).reshape(count, -1) for one in answer)
        return cos, sin
    rows = numbers(answer)
    if rows.shape[-2:] == (2, 2):
        rows = rows[..., 0, 0] + 1j * rows[..., 1, 0]
    return rows.reshape(count, -1)

"""Whatever can be compared, as a side: what it says of each part of a model, or answers when asked.

A side that describes a model (config, plan, spec, preset, GGUF, contract) has specs. Any other
(a function, a loaded model, the buffers of a checkpoint, an engine) only has numbers.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, PosencError, bad_argument, bad_data, refuse_argument
from posenc._core.guard import why_no_code
from posenc._core.io import inputs
from posenc._core.reading import Layer, Note, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.contract.checks import records
from posenc.detect.contract.comparison.compare import comparison
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.contract.make import PREFIXES, described, parts_of
from posenc.detect.contract.sides.mlx import of_mlx
from posenc.detect.contract.sides.models import apart, of_checkpoint, of_folder, of_model
from posenc.detect.contract.sides.side import (
    Comparand,
    Implementation,
    Library,
    methods_of,
    of_rows,
)
from posenc.detect.facts import facts
from posenc.detect.facts.engines import TABLES, asked, known_reading
from posenc.detect.fit.rotations.pairs import NotARotationError, turns_of
from posenc.detect.fit.rotations.rotation import rotations_of
from posenc.detect.subject import CannotAsk, Subject, refuse_if
from posenc.detect.subject.arrays import numbers
from posenc.presets import diffusion

ENGINE, FOLDER = "engine:", "hf:"
SPEC = "rotations that a spec gives"
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
        return f"config of {str(source.get('model_type', 'a model'))[:80]}"
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
        todo = f"{text}:NAME is a function or class in it."
        refuse_argument(path.suffix == ".py", "diff", "a side", f"the file {name!r}", todo)
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
        (row := diffusion.transformers().get(cls)) is None
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
            raise IndexError(f"a picture of {sizes} tokens is larger than those that are asked for")
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


# --- what an engine computes, as a contract -------------------------------------------------------


def contract_of(source: str, caller: str) -> Contract:
    """What a table says; or the rotations of a class: those of its config, or what its numbers fit.

    Either way the class is held against them; what differs still is an error.
    """
    engine, path = asked(source, caller, ENGINES)
    side = of_engine(source.removeprefix(ENGINE), f"{ENGINE}{engine}", caller=caller)
    own = side_of(Path(path))
    model = getattr(own.model, "model", "")
    if side.answers is None:
        notes = tuple(Note("remark", text) for text in side.remarks)
        return Contract(model, *records(side.parts), notes, "settled: by a table of the engine")
    for fitted in (False, True):
        parts = own._replace(parts=tuple(_asked(own, side, fitted=fitted)))
        compared = comparison(parts, side)
        if compared.compared and not compared.rows:
            texts = (
                *compared.remarks,
                *(f"not compared: {text}" for text in compared.not_compared),
            )
            notes = tuple(Note("remark", text) for text in texts)
            return Contract(model, *records(parts.parts), notes, "settled: its class was asked")
    received = "; ".join([*(row.text for row in compared.rows), *compared.not_compared])
    raise bad_data(caller, SPEC, received or "none that is asked")


def _asked(own: Comparand, side: Comparand, *, fitted: bool) -> Iterator[Part]:
    """The parts that a class answers for, with nothing that rotations do not tell."""
    names = [part.name for part in own.parts]
    for each in own.parts:
        part, why = (side.narrowed or (lambda part: (part, "")))(each) if each.spec else (each, "")
        with contextlib.suppress(CannotAsk):
            codes = side.answers(part, names) if part.kind in ("rotary", "none") else ()  # type: ignore[misc]
            yield from (
                part.replace(
                    window=None, whole=False, positions=None, temperature=None, scale=None,
                    left_out=(why,) * bool(why), **_fitted(part, code) if fitted else {},
                )
                for code in codes[:1]
            )  # fmt: skip


def _fitted(part: Part, code: Implementation) -> dict[str, Any]:
    """The rotation that code turns by."""
    axes = getattr(part.spec, "axes", ("position",))
    width, method = getattr(part.spec, "dim", code.code.head_dim), next(iter(code.methods))
    try:
        turns = turns_of(code.subject(method, part, width, len(axes), None), len(axes), 1.0)
        spec = rotations_of(turns, axes, None, 1.0)[0].spec
    except NotARotationError as why:
        raise bad_data(f"{part.name} of {code.name}", SPEC, str(why)) from None
    return {"kind": "rotary", "spec": spec, "states": ("any",), "original_length": None}


# --- engines: what one makes of the config of a model ---------------------------------------------

UNASKED = "whether its softmax scale grows with the scaling is not known"
TOWERS = ("vision", "audio", "encoder")  # of which the tables say nothing


def of_engine(text: str, name: str, other: Any = None, *, caller: str = "diff") -> Comparand:
    """An engine as a side: `NAME=CONFIG`, or `NAME` for the config that the other side is."""
    engine, path = asked(text, caller, ENGINES)
    config = None
    source = Path(path) if path else other
    try:
        config = None if source is None else facts(source).config
    except PosencError:
        if path:
            raise
    if config is None:
        todo = f"Write engine:{text.partition('=')[0]}=CONFIG."
        raise bad_argument(caller, "a config for the engine", f"{name} alone", todo)
    return ENGINES[engine](config, name, caller=caller)


def of_table(config: Any, name: str, *, engine: str, caller: str) -> Comparand:
    """What the table of an engine says that it makes of a config, in the words of the specs."""
    reading = known_reading(engine, config, f"{caller}: {name}")
    plan = facts(reading.config).plan
    parts = tuple(
        part.replace(positions=None, **_window(part, reading.window))
        for part in parts_of(plan)
        if part.kind == "rotary" and not part.name.startswith(TOWERS)
    )
    says = f"{name}: {reading.release}, {reading.source}: a table of its rotations, which was asked"
    grows = any(getattr(part.spec, "logit_factor", 1) != 1 for part in parts)
    unasked = (UNASKED,) * (grows and not reading.scaled)
    changes = (f"{name}: {change}" for change in (*reading.changes, *unasked))
    return Comparand(name, parts, whole=False, remarks=(says, *changes), model=plan)


def _window(part: Part, more: int | str | None) -> dict[str, Any]:
    """The window that an engine makes of one of a config, or that it takes none; or nothing."""
    if part.window is None or more is None:
        return {"window": None, "whole": part.whole and more is not None}
    return {"window": part.window + more} if isinstance(more, int) else {
        "window": None, "whole": True,
    }  # fmt: skip


# An engine by its name: the side that it is for a config, which is called by another name.
ENGINES: dict[str, Callable[..., Comparand]] = {
    name: functools.partial(of_table, engine=engine) for name, engine in TABLES.items()
} | {"mlx": of_mlx}

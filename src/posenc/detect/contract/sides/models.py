"""Modules of loaded models, as subjects, and numbers of other people's checkpoints and engines."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.io.checkpoints import open_store
from posenc._names import HANDED
from posenc.detect.contract.checks import ruled
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import (
    Buffer,
    Comparand,
    Implementation,
    digest_of,
    of_buffers,
    of_rows,
    of_tensors,
)
from posenc.detect.facts.arrays import COSINES, FREQUENCIES, ROWS, SINES
from posenc.detect.facts.folders import building, on_meta
from posenc.detect.facts.loaded import unused_modules
from posenc.detect.subject import CannotAsk, Subject, refuse_if
from posenc.detect.subject.arrays import numbers
from posenc.detect.subject.ask import WIDTH, protocol

# --- modules that are called with position ids, as transformers does ------------------------------

# How (batch, seq, axes) becomes position ids: where the axes stand, and whether one row is asked.
PLACES = {"each": "module", "first": "module", "last": "module", "rows": "module_of_row",
          "columns": "module_of_row"}  # fmt: skip


class RotaryModule(NamedTuple):
    """A module that returns cosines and sines of position ids, for a type of layer if it asks."""

    module: Any
    layer: str | None = None
    place: str = "each"

    def answer(self, x: Any, positions: Any) -> Any:
        """What a copy of it returns, so that the module itself remembers nothing."""
        import torch

        own = apart(self.module)
        ids = positions.movedim(-1, 0) if self.place in ("first", "columns") else positions
        device = next((buffer.device for buffer in own.buffers()), torch.device("cpu"))
        refuse_if(device.type == "meta", "it is on the meta device, and has no numbers yet")
        more = {"layer_type": self.layer} if self.layer else {}
        with torch.no_grad():
            return own(x.to(device), ids.to(device), **more)

    def subject(self, dim: int, axes: int = 1, apply: Callable[..., Any] | None = None) -> Subject:
        """Something to ask: it, or the function that turns queries by what it returns."""

        def turned(x: Any, positions: Any) -> Any:
            tables = self.answer(
                x, positions if (PLACES[self.place] == "module_of_row") else positions[None]
            )
            # What turns queries expects (batch, seq, channels) of tables.
            return apply(x, x, *(t[None] if t.ndim == 2 else t for t in tables))[0]  # type: ignore[misc]

        build = functools.partial(protocol, dim=dim, axes=axes, library="torch")
        if apply is None:
            return build(self.answer, PLACES[self.place], name=type(self.module).__name__)
        line = np.zeros((3, axes)[: 1 + (axes > 1)], dtype=np.int64)
        for order in ("rotate", "rotate_tokens"):
            subject = build(turned, order, name=apply.__name__)
            with contextlib.suppress(CannotAsk):
                subject.rotate(np.ones((1, 2, 3, dim)), line)
                return subject
        raise CannotAsk(f"{apply.__name__} takes other arguments")


def answering(module: Any, layer: str | None, axes: int = 1) -> list[RotaryModule]:
    """The forms in which a module answers, those that give most first; or why there is none."""
    line = np.zeros((5, axes)[: 1 + (axes > 1)], dtype=np.int64)
    forms: list[tuple[int, RotaryModule]] = []
    why: CannotAsk | None = None
    for place in (*PLACES,)[1:] if axes > 1 else ("each",):
        asked = RotaryModule(module, layer, place)
        try:  # a form that is misunderstood drops an axis
            forms.append((asked.subject(2, axes).built(line)[0].shape[-1], asked))
        except CannotAsk as error:
            why = why or error
    refuse_if(not forms, f"it answers no positions ({why})")
    return [asked for _, asked in sorted(forms, key=lambda pair: -pair[0])]


def apart(module: Any) -> Any:
    """A module with settings and buffers of its own, which calls may change."""
    own = copy.copy(module)
    vars(own)["_buffers"] = {
        key: b if b is None else b.clone() for key, b in module._buffers.items()
    }
    return own


def rebuilt(module: Any, config: Any = None) -> Any:
    """A module as its config, or one, makes it, on the CPU; None where that is not all it takes."""
    import torch

    # Whatever code of somebody else raises.
    with contextlib.suppress(Exception), torch.device("cpu"):
        return type(module)(getattr(module, "config", config))
    return None


SLOPED = re.compile(r"build_\w*alibi\w*$")  # functions that make biases of slopes
LARGEST = 2**22  # numbers of a buffer
MOST = 2**26  # biases that a module is asked for at once


# --- models that are loaded -----------------------------------------------------------------------


def of_model(model: Any, name: str) -> Comparand:
    """A loaded model, by its buffers and modules."""
    named: list[Buffer | str] = []
    unused = sorted(unused_modules(model, _turns))
    for path, module in model.named_modules():
        named += () if path in unused else _tensors(module, path, name)
        named += _biases(module, path or name)
    weightless = any(parameter.is_meta for parameter in model.parameters())
    return of_buffers(name, [*named, *_slopes(model)])._replace(
        remarks=tuple(f"{path} stands unused: no forward calls it" for path in unused),
        traced=None if weightless else lambda other: HANDED["trace"]((model, other)),
    )


def _turns(module: Any) -> bool:
    """Whether a module holds frequencies, or cosines, under names that are known."""
    names = (*vars(module), *module._buffers)
    return any(kind.search(key) for key in names for kind in (FREQUENCIES, COSINES))


def _tensors(module: Any, path: str, name: str) -> Iterator[Buffer | str]:
    """What a module holds under names that are known."""
    import torch

    state = {**vars(module), **dict(module.named_buffers(recurse=False))}
    tensors = {key: t for key, t in state.items() if isinstance(t, torch.Tensor)}
    # Modules that differ in code answer otherwise from the same numbers.
    settings = [repr(v) for v in state.values() if isinstance(v, (float, tuple, list))]
    small = (numbers(t) for t in tensors.values() if not t.is_meta)
    unlike = type(module), state.get("forward"), *settings, digest_of(*small)

    def turning(_: str, layer: str, tensor: Any) -> Buffer:
        code = _ModuleCode(path or name, module, layer)
        return Buffer(code.name, layer, tensor.shape[-1], code, unlike=unlike)

    own = {**tensors, **dict(module.named_parameters(recurse=False))}
    yield from of_tensors({f"{path}.{key}".lstrip("."): t for key, t in own.items()}, turning)


class _ModuleCode(Implementation):
    """A rotary module, and the function of its file that turns queries by what it returns."""

    def __init__(self, path: str, module: Any, layer: str) -> None:
        super().__init__(module, "torch")
        self.name, self.layer, self.apply = path, layer, _rotates(module)
        self.methods = dict.fromkeys(("cos_sin", "rotate") if self.apply else ("cos_sin",), module)

    def subject(
        self, method: str, part: Part, width: int | None, axes: int, heads: int | None
    ) -> Subject:
        if method not in self.methods:
            return super().subject(method, part, width, axes, heads)
        try:
            asked = answering(self.code, self.layer, axes)[0]
        except CannotAsk as error:
            raise CannotAsk(f"{self.name} ({type(self.code).__name__}): {error}") from error
        return asked.subject(width or WIDTH, axes, self.apply if method == "rotate" else None)


def _rotates(module: Any) -> Callable[..., Any] | None:
    home = sys.modules.get(type(module).__module__)
    names = [name for name in dir(home) if name.startswith("apply_") and "rot" in name]
    function = getattr(home, names[0]) if len(names) == 1 else None
    first = [*inspect.signature(function).parameters][:4] if function is not None else []
    return function if first == ["q", "k", "cos", "sin"] else None


def _biases(module: Any, path: str) -> Iterator[Buffer]:
    """Learned biases of a module, which looks them up by its own code.

    Numbers that tell all entries apart stand in for its weights, in a copy that shares the rest.
    """
    import torch

    compute = next((name for name in ("compute_bias", "compute_position_bias")
                    if callable(getattr(module, name, None))), "")  # fmt: skip
    index = getattr(module, "relative_position_index", None)
    table = getattr(module, "relative_position_bias_table", None)
    embedded = getattr(getattr(module, "relative_attention_bias", None), "weight", None)
    fresh = object.__new__(type(module))
    fresh.__dict__.update(module.__dict__, _modules=dict(module._modules))
    if table is not None and index is not None and not index.is_meta:
        shape, cells = tuple(table.shape), math.isqrt(index.numel())

        def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> Any:
            side = math.isqrt(cells)
            q, k = (p @ side ** np.arange(p.shape[1])[::-1] for p in (q_positions, k_positions))
            return values[index.cpu().numpy().reshape(cells, cells)[np.ix_(q, k)]].transpose(
                2, 0, 1
            )

    elif compute and embedded is not None:
        shape = tuple(embedded.shape)

        def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> Any:
            first, last = int(q_positions.min()), int(q_positions.max())
            options = inspect.signature(getattr(fresh, compute)).parameters
            if "past_seen_tokens" not in options:
                first, last = 0, max(last, int(k_positions.max()))
            sizes = last - first + 1, last + 1 if "x" in options else int(k_positions.max()) + 1
            refuse_if(
                shape[1] * math.prod(sizes) > MOST,
                f"{path} would make {shape[1]} × {sizes[0]} × {sizes[1]} biases",
            )
            past = {"past_seen_tokens": first} if "past_seen_tokens" in options else {}
            arguments = (torch.zeros(1, sizes[0], 1),) if "x" in options else sizes
            with torch.no_grad():
                biases = getattr(fresh, compute)(*arguments, **past)
            return biases.reshape(shape[1], *sizes)[:, q_positions - first][..., k_positions]
    else:
        return
    values = ruled(math.prod(shape), (1, 0, math.prod(shape) + 1)).reshape(shape)
    if table is None:
        embedding = torch.nn.Embedding(*shape)
        embedding.weight.data = torch.from_numpy(values).float()
        fresh._modules["relative_attention_bias"] = embedding
    settings = sorted(
        (key, value) for key, value in vars(module).items()
        if type(value) in (int, float, bool, str) and key not in ("layer_idx", "training")
    )  # fmt: skip
    code = SimpleNamespace(bias=bias, params={"weight": values})
    yield Buffer(path, "", shape[1], code, "bias", (type(module), shape, *settings))


def _slopes(model: Any) -> Iterator[Buffer]:
    """Linear biases that a model makes in a function of its class or file."""
    import torch

    makers = (
        (where, module.num_heads, getattr(at, name))
        for where, module in model.named_modules()
        if isinstance(getattr(module, "num_heads", None), int)
        for at in (module, sys.modules.get(type(module).__module__))
        for name in dir(at)
        if SLOPED.search(name)
    )
    where, heads, function = next(makers, ("", 0, None))
    if function is None or not getattr(model.get_submodule(where), "use_alibi", True):
        return

    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> Any:
        keys = int(k_positions.max()) + 1
        arguments = {
            "attention_mask": torch.ones(1, keys, dtype=torch.int64), "num_heads": heads,
            "sequence_length": keys, "dtype": torch.float32,
        }  # fmt: skip
        taken = arguments.keys() & inspect.signature(function).parameters.keys()
        biases = function(**{name: arguments[name] for name in taken}).reshape(heads, -1, keys)
        return biases[..., k_positions].expand(heads, len(q_positions), len(k_positions))

    path = f"{where}.{function.__name__}".lstrip(".")
    yield Buffer(path, "", heads, SimpleNamespace(bias=bias), "bias")


# --- checkpoints ----------------------------------------------------------------------------------


def of_checkpoint(path: Path, name: str) -> Comparand:
    """A checkpoint, by its buffers."""
    kinds = (FREQUENCIES, COSINES, ROWS, SINES)
    with open_store(path) as store:
        arrays = {
            key: array.whole() for key, array in store.arrays.items()
            if array.fetch is not None and 0 < array.size <= LARGEST
            and any(kind.search(key) for kind in kinds)
        }  # fmt: skip
        mute = [key for key in store.arrays if COSINES.search(key) and key not in arrays]
        if store.format == "npy" and not arrays:  # which has no names
            return of_rows(name, next(iter(store.arrays.values())).whole())

    def turning(key: str, layer: str, array: np.ndarray) -> Buffer:
        values = array.reshape(-1)
        return Buffer(key, layer, values.size, SimpleNamespace(frequencies=lambda: values),
                      unlike=digest_of(values))  # fmt: skip

    return of_buffers(name, [*of_tensors(arrays, turning), *mute])


# --- other people's libraries ---------------------------------------------------------------------


def of_folder(folder: str, name: str) -> Comparand:
    """The rotary modules of the class that a folder's config names, without its own code."""
    model = on_meta(Path(folder), f"diff: {name}")
    with building(f"diff: {name}"):
        materialise(model)
    side = of_model(model, name)
    return side._replace(remarks=(f"{name}: weights were not read", *side.remarks))


def materialise(model: Any) -> None:
    """Build what is computed from configs again, in a model on the meta device."""
    for path, module in list(model.named_modules()):
        keys = [key for key, _ in module.named_buffers(recurse=False)]
        index = getattr(module, "_create_relative_position_index", None)
        if "relative_position_index" in keys and index is not None:
            module.relative_position_index = index()
        computed = any(kind.search(key) for key in keys for kind in (FREQUENCIES, COSINES))
        if not computed or sum(buffer.numel() for buffer in module.buffers(recurse=False)) > MOST:
            continue
        fresh = rebuilt(module)
        if fresh is not None:  # or else it stays on the meta device, and says so when asked
            parent, _, leaf = path.rpartition(".")
            setattr(model.get_submodule(parent), leaf, fresh)

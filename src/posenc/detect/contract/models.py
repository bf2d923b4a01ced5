"""Numbers of other people's models: loaded modules, buffers of checkpoints, and engines."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, DataError, DependencyError, mismatch
from posenc.detect.contract.contract import Part
from posenc.detect.contract.make import parts_of
from posenc.detect.contract.side import CannotSay, Comparand, Implementation
from posenc.detect.explain import from_hf, to_hf
from posenc.detect.files import open_store
from posenc.detect.files.config_json import load
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["materialise", "of_checkpoint", "of_engine", "of_folder", "of_model"]

# Buffers of other people's modules, by the last words of their names.
FREQUENCIES = re.compile(r"(?:^|[._])(?:(?P<layer>\w*?)_)?(inv_freq|inv_freqs|inv_timescales)$")
COSINES = re.compile(r"(?:^|[._])cos_cached$|(?:^|[._])cos_sin_cache$")
ROWS = re.compile(r"(embed_positions|position_embeddings?|pos_embed|wpe)(\.weights?)?$")
LARGEST = 2**22  # numbers of a buffer
REFUSED = (TypeError, ValueError, RuntimeError, IndexError)  # by modules with other arguments


class _Buffer(NamedTuple):
    """Something of a model that answers: its place, the type of layer it names, its width."""

    path: str
    layer: str
    width: int  # pairs of a rotation, columns of rows
    code: Any
    kind: str = "rotary"

    @property
    def place(self) -> str:
        """Its path, which is the same in every layer as far as names go."""
        return re.sub(r"\d+", "*", self.path)


class _Buffers:
    """What was seen of a model: of layers that are alike the first."""

    def __init__(self) -> None:
        self.found: list[_Buffer] = []
        self._numbers: dict[str, list[np.ndarray]] = {}

    def add(self, buffer: _Buffer, numbers: np.ndarray) -> None:
        """Note a buffer, unless one of its place has the same numbers."""
        known = self._numbers.setdefault(f"{buffer.place} {buffer.layer}", [])
        if not any(np.array_equal(numbers, one, equal_nan=True) for one in known):
            known.append(numbers)
            self.found.append(buffer)


def _of_buffers(name: str, buffers: list[_Buffer]) -> Comparand:
    if not buffers:
        expected = "frequencies, cosines or rows of positions under a name that is known"
        todo = "Write a function: MODULE:NAME."
        raise DataError(mismatch(f"diff: {name}", expected, "none", todo))

    left = dict.fromkeys(one.path for one in buffers)

    def answers(part: Part) -> list[Implementation]:
        codes = []
        for one in _chosen(part, [one for one in buffers if one.kind == part.kind]):
            codes.append(Implementation(one.code))
            codes[-1].name = one.path
            left.pop(one.path, None)
        return codes

    return Comparand(name, whole=False, answers=answers, unasked=lambda: tuple(left))


def _chosen(part: Part, buffers: list[_Buffer]) -> list[_Buffer]:
    """Which of them act in a part, by names and, where these say nothing, by widths."""
    if not buffers:
        raise CannotSay(f"nothing that stands for a {part.kind} is known in it")
    words = re.split(r"[.: ]", part.name)
    left = [one for one in buffers if one.layer and one.layer in words]
    left = left or [one for one in buffers if not one.layer]
    stem = "lang" if words[0] == "text" else words[0][:3]
    inside = [one for one in left if stem in one.path.lower() or words[0] in one.path.lower()]
    if not inside and len(words) > 1 and "." in part.name and words[0] != "text":
        raise CannotSay(f"nothing in it that is known is named after {words[0]}")
    left = inside or left
    if not left:
        raise CannotSay("nothing in it is known to stand for these layers")
    spec: Any = part.spec
    width = spec.pairs if isinstance(spec, RotarySpec) else getattr(spec, "dim", 0)
    alike = [one for one in left if one.width == width]
    if part.kind == "table" and (len(buffers) > 1 or not inside):
        rows = getattr(spec, "length", None) or part.length or 0
        rows = rows + getattr(spec, "start", 0) if isinstance(rows, int) else 0
        alike = [one for one in alike if one.code.shape[0] == rows]
    named = part.kind == "rotary" or bool(inside) or {"embeddings", "spec"} & {*words}
    if spec is not None and (len(buffers) > 1 or not named) and not alike:
        raise CannotSay(f"none of {', '.join(one.path for one in left[:4])} has its size")
    first = (alike or left)[0]
    return [first, *(one for one in left if one.place == first.place and one is not first)]


def _rows(path: str, tensor: Any) -> _Buffer:
    """A table with a row for each position, the reserved ones included."""

    def table(positions: np.ndarray) -> Any:
        if getattr(tensor, "is_meta", False):
            raise CannotSay(f"{path} is on the meta device")
        return tensor[np.asarray(positions)]

    code = SimpleNamespace(table=table, shape=tuple(tensor.shape))
    return _Buffer(path, "", tensor.shape[-1], code, "table")


def _cosines(cos: np.ndarray, sin: np.ndarray) -> Any:
    """Rows of cosines and sines, one for each position."""
    return SimpleNamespace(cos_sin=lambda positions: (cos[positions], sin[positions]))


# --- models that are loaded -----------------------------------------------------------------------


def of_model(model: Any, name: str) -> Comparand:
    """A loaded model, by its buffers and modules."""
    buffers = _Buffers()
    for path, module in model.named_modules():
        factor = getattr(module, "attention_scaling", None)
        for key, buffer in module.named_buffers(recurse=False):
            match = FREQUENCIES.search(key)
            if match and not key.endswith("original_inv_freq"):
                layer = match["layer"] or ""
                code = _module(module, layer, path)
                values = np.empty(0) if buffer.is_meta else buffer.detach().cpu().double().numpy()
                numbers = np.append(values, factor if isinstance(factor, float) else 1.0)
                buffers.add(_Buffer(path or name, layer, buffer.shape[-1], code), numbers)
    for path, tensor in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        if ROWS.search(path) and tensor.ndim == 2:
            buffers.found.append(_rows(path, tensor))
    return _of_buffers(name, buffers.found)


def _module(module: Any, layer: str, path: str) -> Any:
    """A rotary module that returns cosines and sines of position ids, as in transformers.

    Where its file has one function that turns queries and keys by them, that is asked too.
    """
    import torch

    def cos_sin(positions: np.ndarray) -> Any:
        frequencies = getattr(module, f"{layer}_inv_freq" if layer else "inv_freq")
        if frequencies.is_meta:
            raise CannotSay(f"{path} is on the meta device")
        if positions.ndim == 2 and positions.shape[1] != 3:
            raise CannotSay(f"{path} takes the sizes of pictures, not positions")
        x = torch.zeros(1, len(positions), 2, dtype=torch.float32, device=frequencies.device)
        ids = torch.from_numpy(np.ascontiguousarray(positions)).to(x.device)
        ids = ids[None] if ids.ndim == 1 else ids.T[:, None]
        try:
            cos, sin = module(x, ids, **({"layer_type": layer} if layer else {}))
        except REFUSED as error:
            reason = f"{type(error).__name__}: {str(error)[:80]}"
            raise CannotSay(f"{path} answers no positions ({reason})") from error
        return cos.reshape(len(positions), -1), sin.reshape(len(positions), -1)

    apply = _rotates(module)
    if apply is None:
        return SimpleNamespace(cos_sin=cos_sin)

    def rotate(x: np.ndarray, positions: np.ndarray) -> Any:
        cos, sin = cos_sin(positions)
        q = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(cos.device)
        try:
            return apply(q, q, cos[None], sin[None])[0]
        except REFUSED as error:
            raise CannotSay(f"{apply.__name__} takes other arguments") from error

    return SimpleNamespace(cos_sin=cos_sin, rotate=rotate)


def _rotates(module: Any) -> Callable[..., Any] | None:
    home = sys.modules.get(type(module).__module__)
    names = [name for name in dir(home) if name.startswith("apply_") and "rot" in name]
    if len(names) != 1:
        return None
    function: Callable[..., Any] = getattr(home, names[0])
    first = list(inspect.signature(function).parameters)[:4]
    return function if first == ["q", "k", "cos", "sin"] else None


# --- checkpoints ----------------------------------------------------------------------------------


def of_checkpoint(path: Path, name: str) -> Comparand:
    """A checkpoint, by its buffers."""
    buffers = _Buffers()
    with open_store(path) as store:
        arrays = {key: array for key, array in store.arrays.items() if array.fetch is not None}
        for key, array in arrays.items():
            match = FREQUENCIES.search(key)
            if not 0 < array.size <= LARGEST:
                continue
            if match:
                values = array.whole().reshape(-1)
                code = SimpleNamespace(frequencies=lambda values=values: values)
                buffers.add(_Buffer(key, match["layer"] or "", array.size, code), values)
            elif COSINES.search(key) and len(array.shape) >= 2:
                pair = _pair(key, arrays)
                if pair is not None:
                    rows = _Buffer(key, "", pair[0].shape[-1], _cosines(*pair))
                    buffers.add(rows, np.stack(pair))
            elif ROWS.search(key) and len(array.shape) >= 2:
                buffers.found.append(_rows(key, array.whole().reshape(-1, array.shape[-1])))
    return _of_buffers(name, buffers.found)


def _pair(key: str, arrays: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    whole = arrays[key].whole()
    whole = whole.reshape(-1, whole.shape[-1])
    if key.endswith("cos_sin_cache"):
        cos, sin = np.array_split(whole, 2, axis=-1)
        return cos, sin
    other = f"{key.removesuffix('cos_cached')}sin_cached"
    if other not in arrays or arrays[other].shape != arrays[key].shape:
        return None
    return whole, arrays[other].whole().reshape(whole.shape)


# --- other people's libraries ---------------------------------------------------------------------


def of_folder(folder: str, name: str) -> Comparand:
    """The rotary modules of the class that a folder's config names, without its own code."""
    torch = _library("torch", "which transformers builds its models with")
    transformers = _library("transformers", "whose class hf:FOLDER asks")
    if not Path(folder).is_dir():
        raise ArgumentError(mismatch("diff", "hf: and a folder that is there", repr(folder)))
    data = load(Path(folder), f"diff: {name}")
    if "auto_map" in data and data.get("model_type") not in transformers.CONFIG_MAPPING:
        expected = "a class of transformers"
        raise DataError(mismatch(f"diff: {name}", expected, "code of the model's own"))
    trust = {"trust_remote_code": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, **trust)
            with torch.device("meta"):
                model = transformers.AutoModel.from_config(config, **trust)
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            expected = "a model that transformers builds"
            raise DataError(mismatch(f"diff: {name}", expected, reason)) from error
        materialise(model)
    return of_model(model, name)._replace(remarks=(f"{name}: weights were not read",))


def materialise(model: Any) -> None:
    """Build the rotary modules of a model on the meta device again, from their configs."""
    for path, module in list(model.named_modules()):
        keys = [key for key, _ in module.named_buffers(recurse=False)]
        if any(map(FREQUENCIES.search, keys)) and getattr(module, "config", None) is not None:
            try:
                fresh = type(module)(module.config)
            except (TypeError, ValueError, AttributeError, KeyError):
                continue  # it stays on the meta device, and says so when asked
            parent, _, leaf = path.rpartition(".")
            setattr(model.get_submodule(parent), leaf, fresh)


def of_engine(text: str, name: str) -> Comparand:
    """The rotary classes of vLLM for the parts of a config."""
    engine, _, path = text.replace(" ", "=", 1).partition("=")
    if engine != "vllm" or not path:
        raise ArgumentError(mismatch("diff", "engine:vllm=CONFIG", repr(name)))
    layers = _library("vllm.model_executor.layers.rotary_embedding", "whose classes are asked")
    torch = _library("torch", "which vLLM is built with")
    data = to_hf(Path(path), "hf5").config
    data = data.get("text_config", data)
    parts = {part.name: part for part in parts_of(from_hf(data))}

    def answers(part: Part) -> tuple[Implementation]:
        own = parts.get(part.name)
        if own is None or not isinstance(own.spec, RotarySpec):
            raise CannotSay("vLLM's rotary classes have nothing for it")
        try:
            width = data.get("head_dim") or data["hidden_size"] // data["num_attention_heads"]
            length, rope = data["max_position_embeddings"], data["rope_parameters"]
            rope = dict(rope.get(part.name.rpartition(".")[2], rope))
            half = own.spec.channels.order == "half"
            module = layers.get_rope(width, length, half, rope, torch.float32)
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:80]}"
            raise CannotSay(f"vLLM makes no rotation of its config ({reason})") from error
        turn = getattr(module, "forward_native", module.forward)

        def rotate(x: np.ndarray, positions: np.ndarray) -> Any:
            # vLLM has tokens first, and the channels of all heads behind each other.
            tokens = torch.from_numpy(np.ascontiguousarray(x[0].swapaxes(0, 1), dtype=np.float32))
            query = tokens.reshape(len(positions), -1)
            ids = torch.from_numpy(np.ascontiguousarray(positions.T))
            return turn(ids, query, query.clone())[0].reshape(tokens.shape).transpose(0, 1)[None]

        return (Implementation(SimpleNamespace(rotate=rotate, head_dim=width)),)

    remark = f"{name}: get_rope was asked, and not the model classes, which may change parameters"
    return Comparand(name, whole=False, answers=answers, remarks=(remark,))


def _library(name: str, why: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        todo = "Install it, or compare a function: MODULE:NAME."
        raise DependencyError(mismatch("diff", f"{name}, {why}", str(error)[:100], todo)) from error

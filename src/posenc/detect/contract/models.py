"""Numbers of other people's models: loaded modules, buffers of checkpoints, and engines."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, DataError, DependencyError, mismatch
from posenc.detect.contract.checks import ruled
from posenc.detect.contract.contract import Part
from posenc.detect.contract.make import parts_of
from posenc.detect.contract.side import CannotSay, Comparand, Implementation
from posenc.detect.explain import from_hf, to_hf
from posenc.detect.files import open_store
from posenc.detect.files.config_json import load
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["materialise", "of_checkpoint", "of_engine", "of_folder", "of_model"]

# Buffers of other people's modules, by the last words of their names.
FREQUENCIES = re.compile(
    r"(?:^|[._])(?:(?P<layer>\w*?)_)?(inv_freq|inv_freqs|inv_timescales)$|(?:^|\.)rope\.freqs$"
)
COSINES = re.compile(r"(?:^|[._])(cos_cached|cos_sin_cache|freqs_cis?|freqs_complex)$")
SINES = re.compile(r"(?:^|[._])sin_cached$")
ROWS = re.compile(r"(embed_positions|position_embeddings?|pos_embed|wpe)(\.weights?)?$")
SLOPED = re.compile(r"build_\w*alibi\w*$")  # functions that make biases of slopes
LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)(?=\.|$)")
LARGEST = 2**22  # numbers of a buffer
MOST = 2**26  # biases that a module is asked for at once
REFUSED = (TypeError, ValueError, RuntimeError, IndexError, AttributeError)  # by other arguments


class _Buffer(NamedTuple):
    """Something of a model that answers: its place, the type of layer it names, its width."""

    path: str
    layer: str
    width: int  # pairs of a rotation, columns of rows, heads of biases
    code: Any
    kind: str = "rotary"
    unlike: Any = None  # what tells it from those of other layers

    @property
    def place(self) -> str:
        """Its path, which is the same in every layer as far as names go."""
        return re.sub(r"\d+", "*", self.path)


def _digest(*numbers: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(n).tobytes() for n in numbers)).hexdigest()


def _of_buffers(name: str, buffers: list[_Buffer], mute: list[str]) -> Comparand:
    """What answers for each part; `mute` has a name that is known, and no numbers that are."""
    if not buffers:
        expected = "frequencies, cosines, rows or biases of positions under a name that is known"
        todo = "Write a function: MODULE:NAME."
        raise DataError(mismatch(f"diff: {name}", expected, ", ".join(mute[:4]) or "none", todo))
    left = dict.fromkeys([*(one.path for one in buffers), *mute])

    def answers(part: Part) -> list[Implementation]:
        codes: dict[Any, Implementation] = {}
        for one in _chosen(part, [one for one in buffers if one.kind == part.kind]):
            left.pop(one.path, None)
            if (one.place, one.unlike) not in codes:
                codes[one.place, one.unlike] = Implementation(one.code)
                codes[one.place, one.unlike].name = one.path
        return [*codes.values()]

    return Comparand(name, whole=False, answers=answers, unasked=lambda: tuple(left))


def _chosen(part: Part, buffers: list[_Buffer]) -> list[_Buffer]:
    """Which of them act in a part, by names and layers and, where these say nothing, by widths."""
    if not buffers:
        raise CannotSay(f"nothing that stands for a {part.kind} is known in it")
    words = re.split(r"[.: ]", part.name)
    left = [one for one in buffers if one.layer and one.layer in words]
    left = left or [one for one in buffers if not one.layer]
    stem = "lang" if words[0] == "text" else words[0][:3]
    inside = [one for one in left if stem in one.path.lower() or words[0] in one.path.lower()]
    if not inside and len(words) > 1 and "." in part.name and words[0] != "text":
        raise CannotSay(f"nothing in it that is known is named after {words[0]}")
    inner = part.name.partition(", ")[2]  # one of several encodings in the same place
    if inner and not any(word in one.path for one in left for word in inner.split()[-1:]):
        raise CannotSay(f"nothing in it that is known is named after {inner}")
    left = [one for one in inside or left if _acts_in(part, one)]
    if not left:
        raise CannotSay("nothing in it is known to stand for these layers")
    spec: Any = part.spec
    if spec is None:
        return left
    sizes = {spec.heads if part.kind == "bias" else getattr(spec, "dim", 0)}
    if isinstance(spec, RotarySpec):  # frequencies may be those of one axis
        sizes = {spec.pairs, spec.pairs / len(spec.axes)}
    alike = [one for one in left if one.width in sizes]
    several = len({(one.place, one.unlike) for one in buffers}) > 1
    if part.kind == "table" and (several or not inside):
        rows = next((shape[0] for shape in spec.shapes.values()), part.length)
        alike = [one for one in alike if one.code.shape[0] == rows]
    named = part.kind == "rotary" or bool(inside) or {"embeddings", "spec"} & {*words}
    if (several or not named) and not alike:
        raise CannotSay(f"none of {', '.join(one.path for one in left[:4])} has its size")
    if part.kind == "bias":  # stages have heads of their own
        return alike or left
    places = {one.place for one in alike or left[:1]}
    return [one for one in left if one.place in places]


def _acts_in(part: Part, one: _Buffer) -> bool:
    layers = LAYER.findall(one.path)  # a stage and a block inside of it do not tell
    return part.layers is None or len(layers) != 1 or int(layers[0]) in part.layers


def _rows(path: str, tensor: Any) -> _Buffer:
    """A table with a row for each position, the reserved ones included."""

    def table(positions: np.ndarray) -> Any:
        if getattr(tensor, "is_meta", False):
            raise CannotSay(f"{path} is on the meta device")
        return tensor[np.asarray(positions)]

    code = SimpleNamespace(table=table, shape=tuple(tensor.shape))
    return _Buffer(path, "", tensor.shape[-1], code, "table", path)


def _cosines(path: str, values: np.ndarray) -> _Buffer:
    """Rows of complex numbers, for each position or for each cell of a square picture."""
    values = values.reshape(-1, values.shape[-1])
    side = math.isqrt(len(values))

    def cos_sin(positions: np.ndarray) -> Any:
        if positions.ndim > 1:
            positions = positions @ (side ** np.arange(positions.shape[1]))
        return values[positions]

    code = SimpleNamespace(cos_sin=cos_sin, side=side)
    return _Buffer(path, "", values.shape[-1], code, unlike=_digest(values))


def _complex(key: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Cosines + i sines under a name; None where it has no numbers of these."""
    array = arrays[key]
    if array.dtype.kind == "c":
        return array
    if key.endswith("cos_sin_cache"):
        cos, sin = np.array_split(array, 2, axis=-1)
    elif key.endswith("cos_cached"):
        cos, sin = array, arrays.get(f"{key.removesuffix('cos_cached')}sin_cached", array[:0])
    elif array.ndim > 2 and array.shape[-1] == 2:  # as `view_as_real` has them
        cos, sin = array[..., 0], array[..., 1]
    else:
        return None
    return cos + 1j * sin if cos.shape == sin.shape else None


# --- models that are loaded -----------------------------------------------------------------------


def of_model(model: Any, name: str) -> Comparand:
    """A loaded model, by its buffers and modules."""
    import torch

    buffers: list[_Buffer] = []
    mute: list[str] = []
    for path, module in model.named_modules():
        own = {**vars(module), **dict(module.named_buffers(recurse=False))}
        tensors = {key: t for key, t in own.items() if isinstance(t, torch.Tensor)}
        numbers = {key: _numpy(t) for key, t in tensors.items() if not t.is_meta}
        # Modules that differ in code answer otherwise from the same numbers.
        settings = [repr(v) for v in own.values() if isinstance(v, (float, tuple, list))]
        unlike = type(module), own.get("forward"), *settings, _digest(*numbers.values())
        for key, tensor in tensors.items():
            match, where = FREQUENCIES.search(key), f"{path}.{key}".lstrip(".")
            if match and not key.endswith("original_inv_freq"):
                layer = match["layer"] or ""
                code = _module(module, layer, path)
                buffers.append(_Buffer(path or name, layer, tensor.shape[-1], code, unlike=unlike))
            elif COSINES.search(key):
                values = _complex(key, numbers) if key in numbers else None
                if values is None:
                    mute.append(where)
                else:
                    buffers.append(_cosines(where, values))
        buffers += _biases(module, path or name)
    for path, tensor in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        if ROWS.search(path) and tensor.ndim >= 2:
            buffers.append(_rows(path, tensor.reshape(-1, tensor.shape[-1])))
    return _of_buffers(name, [*buffers, *_slopes(model)], mute)


def _numpy(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return np.asarray(tensor if tensor.is_complex() else tensor.double())


def _module(module: Any, layer: str, path: str) -> Any:
    """A rotary module that returns cosines and sines of position ids, as in transformers.

    Where its file has one function that turns queries and keys by them, that is asked too.
    """
    import torch

    def shaped(ids: Any) -> Iterator[Any]:
        """Position ids as modules take them: axes first or last, with a batch or without."""
        yield from (ids[None],) if ids.ndim == 1 else (ids.T[:, None], ids, ids[None], ids.T)

    def cos_sin(positions: np.ndarray) -> Any:
        frequencies = getattr(module, f"{layer}_inv_freq" if layer else "inv_freq")
        if frequencies.is_meta:
            raise CannotSay(f"{path} is on the meta device")
        ids = torch.from_numpy(np.ascontiguousarray(positions)).to(frequencies.device)
        x = torch.zeros(1, len(ids), 2, dtype=torch.float32, device=ids.device)
        reason, widest = "", None
        for form in shaped(ids):
            try:
                answer = module(x, form, **({"layer_type": layer} if layer else {}))
            except REFUSED as error:
                reason = reason or f"{type(error).__name__}: {str(error)[:80]}"
                continue
            parts = answer if isinstance(answer, tuple) else (answer,)
            if all(part.shape[:-1].numel() == len(ids) for part in parts):
                parts = tuple(part.reshape(len(ids), -1) for part in parts)
                if widest is None or parts[0].shape[1] > widest[0].shape[1]:
                    widest = parts  # a form that is misunderstood drops an axis
            else:
                reason = f"it returns shape {tuple(parts[0].shape)} for {len(ids)} positions"
        if widest is not None:
            return widest if len(widest) > 1 else widest[0]
        raise CannotSay(f"{path} ({type(module).__name__}) answers no positions ({reason})")

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


def _biases(module: Any, path: str) -> Iterator[_Buffer]:
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
            if shape[1] * math.prod(sizes) > MOST:
                raise CannotSay(f"{path} would make {shape[1]} × {sizes[0]} × {sizes[1]} biases")
            told = {"past_seen_tokens": first} if "past_seen_tokens" in options else {}
            given = (torch.zeros(1, sizes[0], 1),) if "x" in options else sizes
            with torch.no_grad():
                biases = getattr(fresh, compute)(*given, **told)
            return biases.reshape(shape[1], *sizes)[:, q_positions - first][..., k_positions]
    else:
        return
    values = ruled(math.prod(shape), (1, 0, math.prod(shape) + 1)).reshape(shape)
    if table is None:
        fresh._modules["relative_attention_bias"] = torch.nn.Embedding.from_pretrained(
            torch.from_numpy(values).float()
        )
    settings = sorted((k, v) for k, v in vars(module).items() if type(v) in (int, float, bool, str))
    settings = [(key, value) for key, value in settings if key not in ("layer_idx", "training")]
    code = SimpleNamespace(bias=bias, params={"weight": values})
    yield _Buffer(path, "", shape[1], code, "bias", (type(module), shape, *settings))


def _slopes(model: Any) -> Iterator[_Buffer]:
    """Linear biases that a model makes in a function of its class or file."""
    import torch

    for path, module in model.named_modules():
        home, heads = sys.modules.get(type(module).__module__), getattr(module, "num_heads", None)
        names = [(at, name) for at in (module, home) for name in dir(at) if SLOPED.search(name)]
        if names and isinstance(heads, int):
            break
    else:
        return
    if not getattr(module, "use_alibi", True):
        return
    function: Callable[..., Any] = getattr(*names[0])

    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> Any:
        keys = int(k_positions.max()) + 1
        known = {
            "attention_mask": torch.ones(1, keys, dtype=torch.int64), "num_heads": heads,
            "sequence_length": keys, "dtype": torch.float32,
        }  # fmt: skip
        taken = inspect.signature(function).parameters
        made = function(**{name: value for name, value in known.items() if name in taken})
        biases = made.reshape(heads, -1, keys)[..., k_positions]
        return biases.expand(heads, len(q_positions), len(k_positions))

    where = f"{path}.{names[0][1]}".lstrip(".")
    yield _Buffer(where, "", heads, SimpleNamespace(bias=bias), "bias")


# --- checkpoints ----------------------------------------------------------------------------------


def of_checkpoint(path: Path, name: str) -> Comparand:
    """A checkpoint, by its buffers."""
    buffers: list[_Buffer] = []
    mute: list[str] = []
    with open_store(path) as store:
        arrays = {
            key: array.whole() for key, array in store.arrays.items()
            if array.fetch is not None and 0 < array.size <= LARGEST
            and any(kind.search(key) for kind in (FREQUENCIES, COSINES, ROWS, SINES))
        }  # fmt: skip
        mute += [key for key in store.arrays if COSINES.search(key) and key not in arrays]
    for key, array in arrays.items():
        match = FREQUENCIES.search(key)
        if match and not key.endswith("original_inv_freq"):
            values = array.reshape(-1)
            code = SimpleNamespace(frequencies=lambda values=values: values)
            unlike = _digest(values)
            buffers.append(_Buffer(key, match["layer"] or "", values.size, code, unlike=unlike))
        elif COSINES.search(key):
            pair = _complex(key, arrays)
            if pair is None or pair.ndim < 2:
                mute.append(key)
            else:
                buffers.append(_cosines(key, pair))
        elif ROWS.search(key) and array.ndim >= 2:
            buffers.append(_rows(key, array.reshape(-1, array.shape[-1])))
    return _of_buffers(name, buffers, mute)


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
    """Build what is computed from configs again, in a model on the meta device."""
    for path, module in list(model.named_modules()):
        keys = [key for key, _ in module.named_buffers(recurse=False)]
        index = getattr(module, "_create_relative_position_index", None)
        if "relative_position_index" in keys and index is not None:
            module.relative_position_index = index()
        elif any(kind.search(key) for key in keys for kind in (FREQUENCIES, COSINES)):
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

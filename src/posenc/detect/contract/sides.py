"""Whatever can be compared, as a side: what it says of each part of a model, or answers when asked.

A side that describes a model (config, plan, spec, preset, GGUF, contract) has specs. Any other
(a function, a loaded model, the buffers of a checkpoint, an engine) only has numbers.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core import inputs
from posenc._core.errors import ArgumentError, DataError, DependencyError, explain
from posenc._core.plan import Plan
from posenc._core.reading import Layer, Reading
from posenc._core.spec import Spec
from posenc.detect.contract.asked import METHODS, Asked, CannotSay, Library
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.contract.make import PREFIXES, described, parts_of
from posenc.detect.explain import from_hf
from posenc.detect.files import open_store
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["Side", "is_code", "materialise", "side_of"]

# Buffers of other people's modules, by the last words of their names.
FREQUENCIES = re.compile(r"(?:^|[._])(?:(?P<layer>\w*?)_)?(inv_freq|inv_freqs|inv_timescales)$")
COSINES = re.compile(r"(?:^|[._])(cos|sin)_cached$|(?:^|[._])(cos_sin_cache)$")
ROWS = re.compile(r"(embed_positions|position_embeddings?|pos_embed|wpe)(\.weights?)?$")
ENGINE, FOLDER = "engine:", "hf:"
ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".npy", ".index.json")


class Side(NamedTuple):
    """One of the two things that are compared."""

    name: str
    parts: tuple[Part, ...] = ()  # what it describes
    whole: bool = True  # whether what it does not describe is absent
    answers: Callable[[Part], Asked] | None = None  # numbers, for a part that the other describes
    remarks: tuple[str, ...] = ()

    @property
    def describes(self) -> bool:
        """Whether it has specs."""
        return self.answers is None


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
        return _model(source, name or type(source).__name__)
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
    found = described(source, dim=dim)
    if isinstance(found, Reading) and found.errors:
        want = "a plan that leaves nothing open"
        raise DataError(explain(f"diff: {name}", want, "; ".join(found.errors)))
    notes = getattr(found, "notes", ())
    told = tuple(f"{name}: {note.text}" for note in notes if note.level == "warning")
    if isinstance(found, Contract):
        _hold(found, name)
    # A spec speaks of one encoding, and not of the layers of a model.
    single = isinstance(found, Spec) or (isinstance(source, str) and source.startswith("preset:"))
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
                want = f"the frequencies of the spec of {part.name!r}"
                raise DataError(explain(f"diff: {name}", want, "others: its numbers were changed"))


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
        if text.startswith("preset:") and text.count(":") == 2 and dim is None:
            text, _, size = text.rpartition(":")
            if not size.isdecimal():
                want = "preset:NAME or preset:NAME:WIDTH"
                raise ArgumentError(explain("diff", want, repr(name)))
            dim = int(size)
        return _description(text, name, dim)
    if text.startswith(FOLDER):
        return _folder(text.removeprefix(FOLDER), name)
    if text.startswith(ENGINE):
        return _engine(text.removeprefix(ENGINE), name)
    path = Path(text)
    if text and path.exists():
        if path.name.endswith(ENDINGS) and not _is_contract(path):
            return _checkpoint(path, name)
        return _description(path, name, dim)
    todo = (
        "A side is a file or folder, JSON, preset:NAME:WIDTH, plan:NAME, hf:FOLDER, "
        "engine:vllm=CONFIG or, of the command, MODULE:NAME."
    )
    raise ArgumentError(explain("diff", "a side that is there", repr(name), todo))


def _is_contract(path: Path) -> bool:
    if path.suffix != ".safetensors":
        return False
    with inputs.opened(path) as file:
        start = file.read(2**16) or b""
    return b'"posenc contract"' in start or b'\\"posenc contract\\"' in start


# --- modules and buffers --------------------------------------------------------------------------


class _Numbers(NamedTuple):
    """Something of a model that answers: its place, the type of layer it names, its pairs."""

    path: str
    layer: str
    pairs: int
    answer: Any


def _chosen(part: Part, known: list[_Numbers]) -> _Numbers:
    """Which of them acts in a part, by names and, where these say nothing, by widths."""
    words = re.split(r"[.: ]", part.name)
    typed = [one for one in known if one.layer and one.layer in words]
    left = typed or [one for one in known if not one.layer]
    stem = "lang" if words[0] == "text" else words[0][:3]
    inside = [one for one in left if stem in one.path.lower() or words[0] in one.path.lower()]
    if inside:
        left = inside
    elif len(words) > 1 and "." in part.name and words[0] != "text":
        raise CannotSay(f"nothing in it that is known is named after {words[0]}")
    spec: Any = part.spec
    pairs = spec.pairs if isinstance(spec, RotarySpec) else getattr(spec, "dim", 0)
    alike = [one for one in left if one.pairs == pairs]
    if not left:
        raise CannotSay("nothing in it is known to stand for these layers")
    if part.kind == "table" and (len(known) > 1 or not inside):
        rows = getattr(spec, "length", None) or part.length or 0
        rows = rows + getattr(spec, "start", 0) if isinstance(rows, int) else 0
        alike = [one for one in alike if one.answer.shape[0] == rows]
    named = part.kind == "rotary" or bool(inside) or {"embeddings", "spec"} & {*words}
    if (len(known) > 1 or not named) and not alike:
        raise CannotSay(f"none of {', '.join(one.path for one in left[:4])} has its size")
    return (alike or left)[0]


def _model(model: Any, name: str) -> Side:
    rotary: list[_Numbers] = []
    rows: list[_Numbers] = []
    for path, module in model.named_modules():
        buffers = dict(module.named_buffers(recurse=False))
        for key, buffer in buffers.items():
            match = FREQUENCIES.search(key)
            if match and not key.endswith("original_inv_freq"):
                layer = match["layer"] or ""
                apply = _rotates(module)
                answer = _Module(module, layer, path)
                if apply is not None:
                    answer = _Turning(module, layer, path, apply)
                rotary.append(_Numbers(path or name, layer, buffer.shape[-1], answer))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for path, tensor in tensors.items():
        if ROWS.search(path) and tensor.ndim == 2:
            rows.append(_Numbers(path, "", tensor.shape[-1], _Rows(path, tensor)))
    return _of_numbers(name, rotary, rows)


def _of_numbers(name: str, rotary: list[_Numbers], rows: list[_Numbers]) -> Side:
    if not rotary and not rows:
        want = "frequencies, cosines or rows of positions under a name that is known"
        raise DataError(explain(f"diff: {name}", want, "none", "Write a function: MODULE:NAME."))

    def answers(part: Part) -> Asked:
        if part.kind == "rotary" and rotary:
            return Asked(_chosen(part, rotary).answer)
        if part.kind == "table" and rows:
            return Asked(_chosen(part, rows).answer)
        raise CannotSay(f"nothing that stands for a {part.kind} is known in it")

    return Side(name, whole=False, answers=answers)


class _Module:
    """A rotary module that returns cosines and sines of position ids, as in transformers."""

    def __init__(self, module: Any, layer: str, path: str) -> None:
        self.module, self.layer, self.path = module, layer, path

    def cos_sin(self, positions: np.ndarray) -> Any:
        import torch

        name = f"{self.layer}_inv_freq" if self.layer else "inv_freq"
        frequencies = getattr(self.module, name)
        if frequencies.is_meta:
            raise CannotSay(f"{self.path} is on the meta device")
        x = torch.zeros(1, len(positions), 2, dtype=torch.float32, device=frequencies.device)
        if positions.ndim == 2 and positions.shape[1] != 3:
            raise CannotSay(f"{self.path} takes the sizes of pictures, not positions")
        ids = torch.from_numpy(np.ascontiguousarray(positions)).to(x.device)
        ids = ids[None] if ids.ndim == 1 else ids.T[:, None]
        more = {"layer_type": self.layer} if self.layer else {}
        try:
            cos, sin = self.module(x, ids, **more)
        except (TypeError, ValueError, RuntimeError) as error:
            said = f"{type(error).__name__}: {str(error)[:80]}"
            raise CannotSay(f"{self.path} answers no positions ({said})") from error
        return cos.reshape(len(positions), -1), sin.reshape(len(positions), -1)


class _Turning(_Module):
    """The same where the file of the module has one function that turns queries and keys."""

    def __init__(self, module: Any, layer: str, path: str, apply: Callable[..., Any]) -> None:
        super().__init__(module, layer, path)
        self.apply = apply

    def rotate(self, x: np.ndarray, positions: np.ndarray) -> Any:
        import torch

        cos, sin = self.cos_sin(positions)
        q = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(cos.device)
        try:
            return self.apply(q, q, cos[None], sin[None])[0]
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise CannotSay(f"{self.apply.__name__} takes other arguments") from error


def _rotates(module: Any) -> Callable[..., Any] | None:
    home = sys.modules.get(type(module).__module__)
    found = [
        getattr(home, name) for name in dir(home) if name.startswith("apply_") and "rot" in name
    ]
    if len(found) != 1:
        return None
    names = list(inspect.signature(found[0]).parameters)
    return found[0] if names[:4] == ["q", "k", "cos", "sin"] else None


class _Frequencies:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def frequencies(self) -> np.ndarray:
        """As they are stored."""
        return self.values


class _Cosines:
    """Rows of cosines and sines, one for each position."""

    def __init__(self, cos: np.ndarray, sin: np.ndarray) -> None:
        self.cos, self.sin = cos, sin

    def cos_sin(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As they are stored."""
        return self.cos[positions], self.sin[positions]


class _Rows:
    """A table with a row for each position, the reserved ones included."""

    def __init__(self, path: str, tensor: Any) -> None:
        self.path, self.tensor = path, tensor

    def table(self, positions: np.ndarray) -> Any:
        """As they are stored."""
        if getattr(self.tensor, "is_meta", False):
            raise CannotSay(f"{self.path} is on the meta device")
        return self.tensor[np.asarray(positions)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and width."""
        return tuple(self.tensor.shape)


def _checkpoint(path: Path, name: str) -> Side:
    rotary: dict[str, _Numbers] = {}
    rows: list[_Numbers] = []
    with open_store(path) as store:
        found = {key: array for key, array in store.arrays.items() if array.fetch is not None}
        for key, array in found.items():
            match, cosines = FREQUENCIES.search(key), COSINES.search(key)
            small = array.size <= 2**22
            place = re.sub(r"\d+", "*", key)  # the same in every layer, as far as names go
            if match and array.size and small and place not in rotary:
                layer = match["layer"] or ""
                values = _Frequencies(array.whole().reshape(-1))
                rotary[place] = _Numbers(key, layer, array.size, values)
            elif cosines and small and len(array.shape) >= 2 and not key.endswith("sin_cached"):
                made = _cosines(key, found)
                if made is not None and place not in rotary:
                    rotary[place] = _Numbers(key, "", made.cos.shape[-1], made)
            elif ROWS.search(key) and len(array.shape) >= 2 and small:
                table = array.whole().reshape(-1, array.shape[-1])
                rows.append(_Numbers(key, "", table.shape[-1], _Rows(key, table)))
    return _of_numbers(name, list(rotary.values()), rows)


def _cosines(key: str, found: Mapping[str, Any]) -> _Cosines | None:
    whole = found[key].whole()
    whole = whole.reshape(-1, whole.shape[-1])
    if key.endswith("cos_sin_cache"):
        half = whole.shape[-1] // 2
        return _Cosines(whole[:, :half], whole[:, half:])
    other = f"{key.removesuffix('cos_cached')}sin_cached"
    if other not in found or found[other].shape != found[key].shape:
        return None
    return _Cosines(whole, found[other].whole().reshape(whole.shape))


# --- libraries ------------------------------------------------------------------------------------


def _library(name: str, why: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        todo = "Install it, or compare a function: MODULE:NAME."
        raise DependencyError(explain("diff", f"{name}, {why}", str(error)[:100], todo)) from error


def _folder(folder: str, name: str) -> Side:
    """The rotary modules of the class that a folder's config names, without its own code."""
    _library("torch", "which transformers builds its models with")
    transformers = _library("transformers", "whose class hf:FOLDER asks")
    import torch

    if not Path(folder).is_dir():
        raise ArgumentError(explain("diff", "hf: and a folder that is there", repr(folder)))
    data = _json(Path(folder))
    if "auto_map" in data and data.get("model_type") not in transformers.CONFIG_MAPPING:
        raise DataError(
            explain(f"diff: {name}", "a class of transformers", "code of the model's own")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = transformers.AutoConfig.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
            with torch.device("meta"):
                model = transformers.AutoModel.from_config(config, trust_remote_code=False)
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise DataError(
                explain(f"diff: {name}", "a model that transformers builds", said)
            ) from error
        materialise(model)
    return _model(model, name)._replace(remarks=(f"{name}: weights were not read",))


def materialise(model: Any) -> None:
    """Build the rotary modules of a model on the meta device again, from their configs."""
    for path, module in list(model.named_modules()):
        keys = [key for key, _ in module.named_buffers(recurse=False)]
        if (
            not any(FREQUENCIES.search(key) for key in keys)
            or getattr(module, "config", None) is None
        ):
            continue
        try:
            made = type(module)(module.config)
        except (TypeError, ValueError, AttributeError, KeyError):
            continue  # it stays on the meta device, and says so when asked
        parent, _, leaf = path.rpartition(".")
        setattr(model.get_submodule(parent), leaf, made)


def _engine(text: str, name: str) -> Side:
    """The rotary classes of vLLM for the parts of a config."""
    engine, _, config = text.replace(" ", "=", 1).partition("=")
    if engine != "vllm" or not config:
        raise ArgumentError(explain("diff", "engine:vllm=CONFIG", repr(name)))
    layers = _library("vllm.model_executor.layers.rotary_embedding", "whose classes are asked")
    import torch

    data = _json(Path(config))
    data = data.get("text_config", data)
    parts = {part.name: part for part in parts_of(from_hf(data))}

    def answers(part: Part) -> Asked:
        own = parts.get(part.name)
        if own is None or not isinstance(own.spec, RotarySpec):
            raise CannotSay("vLLM's rotary classes have nothing for it")
        flat = {"rope_type": "default", "rope_theta": data.get("rope_theta")}
        rope = data.get("rope_parameters") or flat | (data.get("rope_scaling") or {})
        nested = rope.get(part.name.rpartition(".")[2])
        head = data.get("head_dim") or data["hidden_size"] // data["num_attention_heads"]
        length = data.get("max_position_embeddings", 4096)
        neox = own.spec.channels.order == "half"
        rope = dict(nested if isinstance(nested, dict) else rope)
        table = layers.get_rope(head, length, neox, rope, torch.float32).cos_sin_cache
        rows = table.double().numpy()
        return Asked(_Cosines(*np.split(rows, 2, axis=-1)))

    return Side(name, whole=False, answers=answers)


def _json(path: Path) -> dict[str, Any]:
    """The JSON of a config, or of the config of a folder."""
    path = path / "config.json" if path.is_dir() else path
    found = inputs.parse(inputs.text_of(path, inputs.CONFIG), str(path), inputs.CONFIG)
    if not isinstance(found, dict):
        raise DataError(explain(str(path), "a JSON object", type(found).__name__))
    return found

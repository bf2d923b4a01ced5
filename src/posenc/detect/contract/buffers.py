"""Numbers of other people's models: modules that are loaded, and buffers of checkpoints."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, mismatch
from posenc.detect.contract.asked import Asked, CannotSay
from posenc.detect.contract.contract import Part
from posenc.detect.contract.side import Side
from posenc.detect.files import open_store
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["FREQUENCIES", "Cosines", "of_checkpoint", "of_model"]

# Buffers of other people's modules, by the last words of their names.
FREQUENCIES = re.compile(r"(?:^|[._])(?:(?P<layer>\w*?)_)?(inv_freq|inv_freqs|inv_timescales)$")
COSINES = re.compile(r"(?:^|[._])(cos|sin)_cached$|(?:^|[._])(cos_sin_cache)$")
ROWS = re.compile(r"(embed_positions|position_embeddings?|pos_embed|wpe)(\.weights?)?$")


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


def of_model(model: Any, name: str) -> Side:
    """A loaded model, by its buffers and modules."""
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
        expected = "frequencies, cosines or rows of positions under a name that is known"
        raise DataError(
            mismatch(f"diff: {name}", expected, "none", "Write a function: MODULE:NAME.")
        )

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


class Cosines:
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


def of_checkpoint(path: Path, name: str) -> Side:
    """A checkpoint, by its buffers."""
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


def _cosines(key: str, found: Mapping[str, Any]) -> Cosines | None:
    whole = found[key].whole()
    whole = whole.reshape(-1, whole.shape[-1])
    if key.endswith("cos_sin_cache"):
        half = whole.shape[-1] // 2
        return Cosines(whole[:, :half], whole[:, half:])
    other = f"{key.removesuffix('cos_cached')}sin_cached"
    if other not in found or found[other].shape != found[key].shape:
        return None
    return Cosines(whole, found[other].whole().reshape(whole.shape))

"""Numbers of other people's models under the names of their buffers, and where they act."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import bad_data
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import Comparand, Implementation
from posenc.detect.facts.arrays import FREQUENCIES, ROWS
from posenc.detect.facts.tables import COSINES, SINES, complex_of
from posenc.detect.subject import CannotAsk
from posenc.detect.subject.arrays import numbers
from posenc.encodings.rotary.base import RotarySpec

NEAR = 16  # rows that tell sines beside cosines from other tables
LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)(?=\.|$)")


class Buffer(NamedTuple):
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


def digest_of(*arrays: Any) -> str:
    """What tells arrays apart, NaN included."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(n).tobytes() for n in arrays)).hexdigest()


def of_tensors(
    tensors: Mapping[str, Any], turning: Callable[[str, str, Any], Buffer]
) -> Iterator[Buffer | str]:
    """Those under names that are known; a name alone where there are no numbers.

    `turning` makes something that answers of a name, the layer in it, and frequencies.
    """
    arrays = {
        key: numbers(tensor) for key, tensor in tensors.items()
        if not getattr(tensor, "is_meta", False) and (COSINES.search(key) or SINES.search(key))
    }  # fmt: skip
    for key, tensor in tensors.items():
        match = FREQUENCIES.search(key)
        if match and not key.endswith("original_inv_freq"):
            yield turning(key, match["layer"] or "", tensor)
        elif COSINES.search(key):
            pair = complex_of(key, arrays) if key in arrays else None
            yield key if pair is None or pair.ndim < 2 else cosines(key, pair)
        elif ROWS.search(key) and tensor.ndim > 1:
            yield from tables(key, tensor.reshape(-1, tensor.shape[-1]))


def of_buffers(name: str, named: list[Buffer | str]) -> Comparand:
    """What answers for each part; a name alone is known, and has no numbers that are."""
    buffers = [one for one in named if isinstance(one, Buffer)]
    mute = [one for one in named if isinstance(one, str)]
    if not buffers:
        raise bad_data(
            f"diff: {name}",
            "frequencies, cosines, rows or biases of positions under a name that is known",
            ", ".join(mute[:4]) or "none",
            "Write a function: MODULE:NAME.",
        )
    left = dict.fromkeys([*(one.path for one in buffers), *mute])

    def answers(part: Part, names: Sequence[str]) -> list[Implementation]:
        codes: dict[Any, Implementation] = {}
        for one in _chosen(part, [one for one in buffers if one.kind == part.kind], names):
            left.pop(one.path, None)
            if (one.place, one.unlike) not in codes:
                codes[one.place, one.unlike] = (
                    one.code if isinstance(one.code, Implementation) else Implementation(one.code)
                )
                codes[one.place, one.unlike].name = one.path
        return [*codes.values()]

    return Comparand(name, whole=False, answers=answers, unasked=lambda: tuple(left))


def _chosen(part: Part, buffers: list[Buffer], names: Sequence[str]) -> list[Buffer]:
    """Which of them act in a part, by names and layers and, where these say nothing, by widths."""
    if not buffers:
        raise CannotAsk(f"nothing that stands for a {part.kind} is known in it")
    words = re.split(r"[.: ]", part.name)
    left = [one for one in buffers if one.layer and one.layer in words]
    left = left or [one for one in buffers if not one.layer]
    stem = "lang" if words[0] == "text" else words[0][:3]
    inside = [one for one in left if stem in one.path.lower() or words[0] in one.path.lower()]
    if not inside and len(words) > 1 and "." in part.name and words[0] != "text":
        raise CannotAsk(f"nothing in it that is known is named after {words[0]}")
    # One of several encodings in the same layers.
    inner = part.name.partition(", ")[2] if part.layers is None else ""
    if inner and not any(word in one.path for one in left for word in inner.split()[-1:]):
        raise CannotAsk(f"nothing in it that is known is named after {inner}")
    others = {re.split(r"[.: ,]", name)[0] for name in names} - {words[0]}
    elsewhere = [one for one in left if any(name in one.path.lower() for name in others)]
    close = inside or [one for one in left if one not in elsewhere] or left
    # A stage and a block inside of it do not tell.
    layers = {one.path: LAYER.findall(one.path) for one in close if part.layers is not None}
    left = [one for one in close if len(own := layers.get(one.path, ())) != 1
            or int(own[0]) in (part.layers or ())]  # fmt: skip
    if not left:
        raise CannotAsk("nothing in it is known to stand for these layers")
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
    general = len(names) < 2 or part.layers is not None or "attention" in words[-1]
    named = inside or {"embeddings", "spec", "text"} & {*words}
    if (several or not (named or (part.kind == "rotary" and general))) and not alike:
        raise CannotAsk(f"none of {', '.join(one.path for one in left[:4])} has its size")
    if part.kind != "rotary":  # stages have sizes of their own
        return alike or left
    places = {one.place for one in alike or left[:1]}
    return [one for one in left if one.place in places]


def rows(path: str, tensor: Any) -> Buffer:
    """A table with a row for each position, the reserved ones included."""

    def table(positions: np.ndarray) -> Any:
        if getattr(tensor, "is_meta", False):
            raise CannotAsk(f"{path} is on the meta device")
        return tensor[np.asarray(positions)]

    code = SimpleNamespace(table=table, shape=tuple(tensor.shape))
    return Buffer(path, "", tensor.shape[-1], code, "table", path)


def tables(path: str, tensor: Any) -> list[Buffer]:
    """A table: its rows and, where these are sines beside cosines, what pairs turn by."""
    if tensor.shape[-1] % 2 or getattr(tensor, "is_meta", False):
        return [rows(path, tensor)]
    sin, cos = np.split(numbers(tensor[:NEAR]), 2, axis=-1)
    if not np.allclose(np.r_[cos[0] - 1, (sin**2 + cos**2 - 1).ravel()], 0, atol=0.02):
        return [rows(path, tensor)]
    sin, cos = np.split(numbers(tensor), 2, axis=-1)
    return [rows(path, tensor), cosines(path, cos + 1j * sin)]


def cosines(path: str, values: np.ndarray) -> Buffer:
    """Rows of complex numbers, for each position or for each cell of a square picture."""
    values = values.reshape(-1, values.shape[-1])
    side = math.isqrt(len(values))

    def cos_sin(positions: np.ndarray) -> Any:
        if positions.ndim > 1:
            positions = positions @ (side ** np.arange(positions.shape[1]))
        return values[positions]

    code = SimpleNamespace(cos_sin=cos_sin, shape=(side, side))
    return Buffer(path, "", values.shape[-1], code, unlike=digest_of(values))

"""One of the two things that `diff` compares: it describes encodings, or answers for them.

What answers is somebody else's code, which is asked as a subject; `docs/golden.md` has the protocol
of objects whose methods say by their names what they answer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_argument, mismatch
from posenc._core.guard import foreign
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.counting import counting
from posenc.detect.facts.arrays import COSINES, FREQUENCIES, ROWS, SINES, complex_of
from posenc.detect.subject import CannotAsk, Subject, asked, refuse_if
from posenc.detect.subject.arrays import carried, numbers, parts_of
from posenc.detect.subject.ask import WIDTH, protocol
from posenc.encodings.rotary.base import RotarySpec

Library = Literal["numpy", "torch", "jax", "mlx"]
METHODS = ("frequencies", "cos_sin", "rotate", "logit_scale", "table", "bias", "position_ids")
NEAR = 16  # rows that tell sines beside cosines from other tables
LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)(?=\.|$)")


class Implementation:
    """An object with some of the methods of the protocol, or whatever else can be asked.

    It computes in a dtype of `tolerances.ROUNDING`; what a strict one raises is raised, rather than
    said in words. `ArgumentError` is raised for what has none of the methods and cannot be called.
    """

    def __init__(
        self, code: Any, library: Library | None = None, dtype: str = "float32", *,
        strict: bool = False,
    ) -> None:  # fmt: skip
        self.library, self.dtype, self.strict = library, dtype, strict
        self.code = code = code() if isinstance(code, type) and methods_of(code) else code
        self.name = str(getattr(code, "__qualname__", type(code).__name__))
        self.methods: dict[str, Callable[..., Any]] = methods_of(code)
        plain = inspect.isfunction(code) or inspect.ismethod(code)
        # A function that takes nothing, but for the name of a layer or a length.
        if not self.methods and plain and {*_parameters(code)} <= {"layer", "length"}:
            self.methods = {"frequencies": code}
        self.counts = counting(self.methods.get("position_ids") or (None if self.methods else code))
        self.methods.update({"position_ids": self.counts} if self.counts else {})
        if not (self.methods or callable(code) or isinstance(code, (tuple, Mapping, Subject))):
            expected = f"an object with any of the methods {', '.join(METHODS)}"
            todo = "A function may be one of them: of (x, positions), say."
            raise bad_argument("a side", expected, self.name, todo)

    def takes(self, method: str, name: str) -> bool:
        """Whether a method is there and has a parameter."""
        function = self.methods.get(method, None if self.methods else self.code)
        return name in _parameters(function) or "**" in _parameters(function)

    def keeps(self, method: str) -> bool:
        """Whether a method is there, and answers alike for all layers."""
        return (method in self.methods or not self.methods) and not self.takes(method, "layer")

    def subject(
        self, method: str, part: Part, width: int | None, axes: int, heads: int | None
    ) -> Subject:
        """What answers for a part: a method, or all there is."""
        if not self.methods:
            return self._found(part, width, axes, heads)
        if method == "cos_sin" and {*self.methods} == {"frequencies"}:
            return asked({"inv_freq": self.numbers("frequencies", part=part)}, dim=width)
        refuse_if(
            method not in self.methods,
            "the code offers no rotation, so how it pairs channels is not seen"
            if method == "rotate"
            else "the code does not offer it",
        )
        width = int(getattr(self.code, "head_dim", 0) or width or WIDTH)
        return protocol(
            self._of_layer(method, part),
            method,
            dim=width,
            axes=axes,
            library=self.library or "numpy",
        )

    def _found(self, part: Part, width: int | None, axes: int, heads: int | None) -> Subject:
        """Code of any form, for a part."""
        code = self.code
        if callable(code) and "layer" in _parameters(code):
            code = functools.partial(code, layer=part.name)
        options: dict[str, Any] = {"library": self.library, "layout": None, "axes": axes}
        try:
            return asked(code, dim=width, heads=heads, kind=None, **options)
        except CannotAsk as why:
            own = why.__cause__ and why.__cause__.__cause__
            if self.strict and own is not None:
                raise own from None
            if why.arguments != 2 or part.kind != "bias":
                raise
            return asked(code, dim=width, heads=heads, kind="bias", **options)

    def _of_layer(self, method: str, part: Part) -> Callable[..., Any]:
        """A method with the name of the part and the length of the sequence, if it takes them."""
        function = self.methods[method]

        def answer(*arguments: Any) -> Any:
            out = function(*arguments, **self._more(method, part, int(arguments[-1].max()) + 1))
            kinds = "".join(p.dtype.kind for p in parts_of(out)) if method == "cos_sin" else "c"
            refuse_if(
                kinds not in ("ff", "c"),
                "it returns no cosines and sines: two arrays, or complex numbers",
            )
            return out

        return functools.wraps(function)(answer)

    def numbers(
        self, method: str, *arguments: Any, part: Part, length: int | None = None
    ) -> np.ndarray:
        """What a method answers that is no encoding: frequencies, factors, positions of a batch."""
        refuse_if(method not in self.methods, "the code does not offer it")
        passed = [a if isinstance(a, Mapping) else carried(a, self.library or "numpy")
                 for a in arguments]  # fmt: skip
        with self.refusing(method), foreign(f"a call of {self.name}"):
            answer = numbers(self.methods[method](*passed, **self._more(method, part, length)))
        refuse_if(
            answer.dtype.kind == "c" or not answer.size,
            f"it returns complex numbers or none, of shape {answer.shape}",
        )
        return answer.reshape(-1)

    def _more(self, method: str, part: Part, length: int | None) -> dict[str, Any]:
        """The name of the part and the length of the sequence, if a method takes them."""
        return {
            k: v
            for k, v in {"layer": part.name, "length": length}.items()
            if v is not None and self.takes(method, k)
        }

    @contextlib.contextmanager
    def refusing(self, method: str) -> Iterator[None]:
        """Say in words what a call raises; a strict one raises it."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            if (own := error.__cause__ if isinstance(error, CannotAsk) else error) is None:
                raise
            if isinstance(own, NotImplementedError):
                raise CannotAsk(str(own) or "it raises NotImplementedError") from None
            if self.strict:
                raise own from None
            says = f"{type(own).__name__}: {' '.join(str(own).split())[:100]}"
            raise CannotAsk(f"{method} raises {says}") from None


def methods_of(code: Any) -> dict[str, Callable[..., Any]]:
    """The methods of the protocol that an object has; a subject is asked as one."""
    names = METHODS if not isinstance(code, Subject) else ()
    return {name: getattr(code, name) for name in names if callable(getattr(code, name, None))}


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of arguments; `**` for any other."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple("**" if p.kind is p.VAR_KEYWORD else p.name for p in parameters)


class Comparand(NamedTuple):
    """One of the two things that are compared."""

    name: str
    parts: tuple[Part, ...] = ()  # what it describes
    whole: bool = True  # whether what it does not describe is absent
    # For a part that the other describes, among the names of all: one, or one for each of its
    # layers that are unlike.
    answers: Callable[[Part, Sequence[str]], Sequence[Implementation]] | None = None
    unasked: Callable[[], Sequence[str]] = tuple  # what would answer, and was asked for no part
    remarks: tuple[str, ...] = ()
    shared: bool = False  # whether one implementation answers for every part
    model: Any = None  # what the parts are of: a `Contract`, `Reading`, `Plan` or `Spec`
    # What its attentions do in a run, held against what the other is of: a `Trace`.
    traced: Callable[[Any], Any] | None = None
    # A part as this side can be asked of it, and what of it cannot be.
    narrowed: Callable[[Part], tuple[Part, str]] | None = None
    # What turns queries in a part that the other leaves without positions, where that is known.
    turning: Callable[[Part, Sequence[str]], Sequence[str]] | None = None


# --- numbers of other people's models, under the names of their buffers ---------------------------


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
    refuse_if(
        not buffers,
        mismatch(
            f"diff: {name}",
            "frequencies, cosines, rows or biases of positions under a name that is known",
            ", ".join(mute[:4]) or "none",
            "Write a function: MODULE:NAME.",
        ),
        DataError,
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
    refuse_if(not buffers, f"it holds nothing that posenc knows to stand for a {part.kind}")
    words = re.split(r"[.: ]", part.name)
    left = [one for one in buffers if one.layer and one.layer in words] or [
        one for one in buffers if not one.layer
    ]
    stem = "lang" if words[0] == "text" else words[0][:3]
    inside = [one for one in left if stem in one.path.lower() or words[0] in one.path.lower()]
    refuse_if(
        not inside and len(words) > 1 and "." in part.name and words[0] != "text",
        f"none of its known parts is named after {words[0]}",
    )
    # One of several encodings in the same layers.
    inner = part.name.partition(", ")[2] if part.layers is None else ""
    refuse_if(
        inner and not any(word in one.path for one in left for word in inner.split()[-1:]),
        f"none of its known parts is named after {inner}",
    )
    others = {re.split(r"[.: ,]", name)[0] for name in names} - {words[0]}
    elsewhere = [one for one in left if any(name in one.path.lower() for name in others)]
    close = inside or [one for one in left if one not in elsewhere] or left
    # A stage and a block inside of it do not tell.
    layers = {one.path: LAYER.findall(one.path) for one in close if part.layers is not None}
    left = [one for one in close if len(own := layers.get(one.path, [])) != 1
            or int(own[0]) in (part.layers or ())]  # fmt: skip
    refuse_if(not left, "it holds nothing that posenc knows to stand for these layers")
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
    refuse_if(
        (several or not (named or (part.kind == "rotary" and general))) and not alike,
        f"none of {', '.join(one.path for one in left[:4])} has its size",
    )
    if part.kind != "rotary":  # stages have sizes of their own
        return alike or left
    places = {one.place for one in alike or left[:1]}
    return [one for one in left if one.place in places]


def rows(path: str, tensor: Any) -> Buffer:
    """A table with a row for each position, the reserved ones included."""

    def table(positions: np.ndarray) -> Any:
        refuse_if(getattr(tensor, "is_meta", False), f"{path} is on the meta device")
        return tensor[np.asarray(positions)]

    code = SimpleNamespace(table=table, shape=tuple(tensor.shape))
    return Buffer(path, "", tensor.shape[-1], code, "table", path)


def of_rows(name: str, array: Any) -> Comparand:
    """An array without a name, taken for a table whose row p is that of position p."""
    expected, received = "an array (rows, dim), whose row p is that of position p", str(array.shape)
    refuse_if(array.ndim != 2, mismatch(f"diff: {name}", expected, received), DataError)
    remark = f"{name}: an array without a name; its row p is taken for position p"
    return of_buffers(name, [rows(name, array)])._replace(remarks=(remark,))


def tables(path: str, tensor: Any) -> list[Buffer]:
    """A table: its rows and, where these are sines beside cosines, what pairs turn by."""
    if tensor.shape[-1] % 2 or getattr(tensor, "is_meta", False):
        return [rows(path, tensor)]
    near = np.hypot(*np.split(numbers(tensor[:NEAR]), 2, axis=-1))
    if not np.ptp(near) < 0.02 * near.max():  # of one size, from whatever position on
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

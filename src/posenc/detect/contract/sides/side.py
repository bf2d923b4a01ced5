"""One of the two things that `diff` compares: it describes encodings, or answers for them.

What answers is somebody else's code, which is asked as a subject; `docs/golden.md` has the protocol
of objects whose methods say by their names what they answer.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import bad_argument
from posenc._core.guard import foreign
from posenc.detect.contract.contract import Part
from posenc.detect.subject import CannotAsk, Subject, ask, asked
from posenc.detect.subject.arrays import Library, carried, numbers, parts_of
from posenc.detect.subject.ask import protocol

METHODS = ("frequencies", "cos_sin", "rotate", "logit_scale", "table", "bias", "position_ids")


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

    def subject(self, method: str, part: Part, width: int, axes: int, heads: int | None) -> Subject:
        """What answers for a part: a method, or all there is."""
        if not self.methods:
            return self._found(part, width, axes, heads)
        if method == "cos_sin" and {*self.methods} == {"frequencies"}:
            return ask({"inv_freq": self.numbers("frequencies", part=part)}, dim=width)
        if method not in self.methods:
            raise CannotAsk(
                "it is not offered" + ", so that no pairing is seen" * (method == "rotate")
            )
        width = int(getattr(self.code, "head_dim", 0) or width)
        function = self._of_layer(method, part)
        return protocol(function, method, dim=width, axes=axes, library=self.library or "numpy")

    def _found(self, part: Part, width: int, axes: int, heads: int | None) -> Subject:
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
            if kinds not in ("ff", "c"):
                raise CannotAsk("it returns no cosines and sines: two arrays, or complex numbers")
            return out

        return functools.wraps(function)(answer)

    def numbers(
        self, method: str, *arguments: Any, part: Part, length: int | None = None
    ) -> np.ndarray:
        """What a method answers that is no encoding: frequencies, factors, positions of a batch."""
        if method not in self.methods:
            raise CannotAsk("it is not offered")
        passed = [a if isinstance(a, Mapping) else carried(a, self.library or "numpy")
                 for a in arguments]  # fmt: skip
        with self.refusing(method), foreign(f"a call of {self.name}"):
            answer = numbers(self.methods[method](*passed, **self._more(method, part, length)))
        if answer.dtype.kind == "c" or not answer.size:
            raise CannotAsk(f"it returns complex numbers or none, of shape {answer.shape}")
        return answer.reshape(-1)

    def _more(self, method: str, part: Part, length: int | None) -> dict[str, Any]:
        """The name of the part and the length of the sequence, if a method takes them."""
        spoken = {"layer": part.name, "length": length}
        return {k: v for k, v in spoken.items() if v is not None and self.takes(method, k)}

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

"""Implementations as functions of arrays, whatever their framework and layout, and recordings."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import dtype_name, is_torch
from posenc._core.errors import ArgumentError, mismatch
from posenc._core.guard import foreign

Array = Any
FRAMEWORKS = ("torch", "numpy", "jax")


class Style(NamedTuple):
    """How an implementation wants its arguments.

    `x` is (batch, ..., channels); the letters of `layout` name its axes: b batch, h heads, s
    sequence, t tokens of all sequences in one.
    """

    framework: str
    layout: str  # "bhs", "bsh", "bs", "t", "th"
    positions: str  # "s", "1s", "bs", "t", or "" for implementations that count themselves

    @property
    def words(self) -> str:
        """The same for people."""
        names = {"b": "batch", "h": "heads", "s": "seq", "t": "tokens"}
        axes = ", ".join(names[letter] for letter in self.layout)
        return f"called with {self.framework} arrays of shape ({axes}, channels)"


class RefusedError(Exception):
    """The implementation took none of the ways to call it."""


class RotationProbe:
    """An implementation of a rotation, called with arrays of NumPy."""

    def __init__(self, function: Callable[..., Any], framework: str | None) -> None:
        self.function = function
        self.frameworks = (framework,) if framework else FRAMEWORKS
        self.calls = 0
        self.style: Style | None = None
        self.refusals: list[str] = []
        self.double = False  # whether the last output was of float64
        self.second: np.ndarray | None = None  # what it returned beside the last output

    def __call__(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Turn x (batch, heads, seq, channels) by positions (seq,) or (seq, axes)."""
        for style in self._styles():
            try:
                turned = self._called(style, x, positions)
            except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
                self.refusals.append(f"{type(failure).__name__}: {str(failure)[:120]}")
                continue
            if turned is not None:
                self.style = style
                return turned
        number = -1 if self.style is not None else 0
        raise RefusedError(self.refusals[number] if self.refusals else "it takes no arrays")

    def _styles(self) -> Iterator[Style]:
        if self.style is not None:
            yield self.style
            return
        counted = needed_arguments(self.function) == 1
        # Layouts outside, so that the usual one is found after a call for each framework.
        for layout in ("bhs", "bsh", "bs", "th", "t"):
            flat = "t" in layout
            alone: tuple[str, ...] = () if flat else ("",)
            for form in alone if counted else ("t",) if flat else ("s", "1s", "bs"):
                for framework in filter(_loaded, self.frameworks):
                    yield Style(framework, layout, form)

    def _called(self, style: Style, x: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
        batch, heads, seq, width = x.shape
        shapes = {
            "bhs": (batch, heads, seq, width),
            "bsh": (batch, seq, heads, width),
            "bs": (batch, seq, width),
            "th": (batch * seq, heads, width),
            "t": (batch * seq, width),
        }
        inside = style.layout in ("bhs", "bs", "t")  # heads before the sequence, or none
        indices = {
            "": None,
            "s": positions,
            "1s": positions[None],
            "bs": np.repeat(positions[None], batch, axis=0),
            "t": np.concatenate([positions] * batch),
        }[style.positions]
        tokens = (x if inside else np.swapaxes(x, 1, 2)).reshape(shapes[style.layout])
        self.calls += 1
        arguments = [_carried(tokens, style.framework)]
        if indices is not None:
            arguments.append(_carried(indices, style.framework))
        with foreign(_a_call(self.function)):
            out = self.function(*arguments)
        several = isinstance(out, (tuple, list))
        first = out[0] if several else out
        self.double = hasattr(first, "dtype") and dtype_name(first.dtype) == "float64"
        turned = as_numpy(first)
        if turned.shape != tokens.shape:
            self.refusals.append(f"x of shape {tokens.shape} became {turned.shape}")
            return None
        self.second = None
        if several and len(out) == 2 and tuple(np.shape(out[1])) == tokens.shape:
            self.second = _back(as_numpy(out[1]), x.shape, inside=inside)
        return _back(turned, x.shape, inside=inside)


def _back(turned: np.ndarray, shape: tuple[int, ...], *, inside: bool) -> np.ndarray:
    """An output as (batch, heads, seq, channels)."""
    batch, heads, seq, width = shape
    if inside:
        return turned.reshape(shape)
    return np.swapaxes(turned.reshape(batch, seq, heads, width), 1, 2)


def _a_call(function: Any) -> str:
    """What is said of a call that does not end."""
    return f"a call of {getattr(function, '__name__', type(function).__name__)}"


def needed_arguments(function: Callable[..., Any]) -> int:
    """How many arguments a function must be given."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    return sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )


def _loaded(framework: str) -> bool:
    """Whether a framework is there; one that nobody loaded is not what a function takes."""
    import sys

    return framework == "numpy" or framework in sys.modules


def _carried(array: np.ndarray, framework: str) -> Array:
    if framework == "numpy":
        return array.copy()
    module = importlib.import_module(framework)
    if framework == "torch":
        return module.from_numpy(array.copy())
    if array.dtype == np.int64:
        array = array.astype(np.int32)
    return module.numpy.asarray(array)


def as_numpy(out: Any) -> np.ndarray:
    """An array of any library as float64."""
    if is_torch(out):
        out = out.detach().cpu().double().numpy()
    array = np.asarray(out)
    if array.dtype.kind not in "fiu" and dtype_name(array.dtype) != "bfloat16":
        raise ArgumentError(mismatch("infer_spec", "an array of real numbers", str(array.dtype)))
    return array.astype(np.float64)


class PositionProbe:
    """A table or a bias as a function of positions, called in the form that it takes."""

    def __init__(self, function: Callable[..., Any], arguments: int, framework: str | None) -> None:
        self.function = function
        self.arguments = arguments
        self.frameworks = (framework,) if framework else FRAMEWORKS
        self.calls = 0
        self.form: tuple[str, str] | None = None  # framework, and how positions are given

    @property
    def counts(self) -> bool:
        """Whether it takes a number of positions, and counts from 0."""
        return self.form is not None and self.form[1] == "count"

    def __call__(self, positions: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        """Rows (seq, channels), or biases (heads, queries, keys), at positions (seq,)."""
        refusals = []
        count = len(positions)
        both = (positions, positions if keys is None else keys)[: self.arguments]
        for framework, form in self._forms():
            self.calls += 1
            try:
                arguments: list[Any] = [
                    len(p)
                    if form == "count"
                    else _carried(p[None] if form == "batch" else p, framework)
                    for p in both
                ]
                with foreign(_a_call(self.function)):
                    out = as_numpy(self.function(*arguments))
            except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
                refusals.append(f"{type(failure).__name__}: {str(failure)[:120]}")
                continue
            values = self._fits(out, tuple(len(p) for p in both))
            if values is not None:
                self.form = framework, form
                return values
            refusals.append(f"{count} positions became shape {out.shape}")
        raise RefusedError(refusals[0] if refusals else "it takes no arrays")

    def _forms(self) -> list[tuple[str, str]]:
        if self.form is not None:
            return [self.form]
        forms = ("positions", "batch", "count") if self.arguments == 1 else ("positions", "count")
        return [(name, form) for name in filter(_loaded, self.frameworks) for form in forms]

    def _fits(self, out: np.ndarray, counts: tuple[int, ...]) -> np.ndarray | None:
        if self.arguments == 2:
            fits = out.ndim >= 2 and out.shape[-2:] == counts
            return out.reshape(-1, *counts) if fits else None
        # Axes of one, a batch or heads, may stand in front.
        alone = out.ndim >= 2 and out.shape[-2] == counts[0] and math.prod(out.shape[:-2]) == 1
        return out.reshape(out.shape[-2:]) if alone else None

"""Implementations as functions of arrays, whatever their framework and layout, and recordings."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.array import dtype_name, is_torch
from posenc._core.errors import ArgumentError, explain

__all__ = ["Probe", "RefusedError", "Style", "as_numpy", "biases_of", "needed_arguments", "rows_of"]

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
    """The implementation took none of the ways to call it; how many calls told that."""

    def __init__(self, why: str, calls: int = 0) -> None:
        super().__init__(why)
        self.calls = calls


class Probe:
    """An implementation of a rotation, called with arrays of NumPy.

    Parameters
    ----------
    function : callable
        `function(x, positions)`, or `function(x)` where positions are 0, 1, ...
    framework : str, optional
        Which arrays it takes; tried out by default.
    axes : int
        Coordinates of a position.
    """

    def __init__(self, function: Callable[..., Any], framework: str | None, axes: int) -> None:
        self.function = function
        self.frameworks = (framework,) if framework else FRAMEWORKS
        self.axes = axes
        self.calls = 0
        self.style: Style | None = None
        self.refusals: list[str] = []

    def __call__(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Turn x (batch, seq, channels) by positions (seq,) or (seq, axes)."""
        for style in self._styles(self.function):
            try:
                found = self._called(style, x, positions)
            except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
                self.refusals.append(f"{type(failure).__name__}: {str(failure)[:120]}")
                continue
            if found is not None:
                self.style = style
                return found
        raise RefusedError(self.refusals[0] if self.refusals else "it takes no arrays")

    def _styles(self, function: Callable[..., Any]) -> Iterator[Style]:
        if self.style is not None:
            yield self.style
            return
        counted = needed_arguments(function) == 1
        # Layouts outside, so that the usual one is found after a call for each framework.
        for layout in ("bhs", "bsh", "bs", "th", "t"):
            forms: tuple[str, ...] = ("t",) if "t" in layout else ("s", "1s", "bs")
            if counted:
                forms = () if "t" in layout else ("",)
            for form in forms:
                for framework in filter(_loaded, self.frameworks):
                    yield Style(framework, layout, form)

    def _called(self, style: Style, x: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
        batch, seq, width = x.shape
        shapes = {
            "bhs": (batch, 1, seq, width),
            "bsh": (batch, seq, 1, width),
            "bs": (batch, seq, width),
            "th": (batch * seq, 1, width),
            "t": (batch * seq, width),
        }
        where = {
            "": None,
            "s": positions,
            "1s": positions[None],
            "bs": np.repeat(positions[None], batch, axis=0),
            "t": np.concatenate([positions] * batch),
        }[style.positions]
        given = x.reshape(shapes[style.layout])
        self.calls += 1
        arguments = [_carried(given, style.framework)]
        if where is not None:
            arguments.append(_carried(where, style.framework))
        out = self.function(*arguments)
        out = out[0] if isinstance(out, (tuple, list)) else out
        found = as_numpy(out)
        if found.shape != given.shape:
            self.refusals.append(f"x of shape {given.shape} became {found.shape}")
            return None
        return found.reshape(x.shape)


def needed_arguments(function: Callable[..., Any]) -> int:
    """How many arguments a function must be given."""
    import inspect

    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    needed = [
        p
        for p in found
        if p.default is inspect.Parameter.empty
        and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed)


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
    found = np.asarray(out)
    if found.dtype.kind not in "fiu" and dtype_name(found.dtype) != "bfloat16":
        raise ArgumentError(explain("infer_spec", "an array of real numbers", str(found.dtype)))
    return found.astype(np.float64)


def rows_of(
    function: Callable[..., Any], count: int, framework: str | None
) -> tuple[np.ndarray, int]:
    """The first rows of a table by a function of positions; how many calls that took."""
    positions = np.arange(count)

    def rows(out: np.ndarray) -> np.ndarray | None:
        # Axes of one, a batch or heads, may stand in front.
        alone = out.ndim >= 2 and out.shape[-2] == count and math.prod(out.shape[:-2]) == 1
        return out.reshape(out.shape[-2:]) if alone else None

    return _answer(function, 1, (positions, positions[None], count), rows, framework)


def biases_of(
    function: Callable[..., Any], count: int, framework: str | None
) -> tuple[np.ndarray, int]:
    """(heads, queries, keys) by a function of query and key positions; the calls it took."""

    def biases(out: np.ndarray) -> np.ndarray | None:
        square = out.ndim >= 2 and out.shape[-2:] == (count, count)
        return out.reshape(-1, count, count) if square else None

    return _answer(function, 2, (np.arange(count), count), biases, framework)


def _answer(
    function: Callable[..., Any],
    arguments: int,
    forms: tuple[np.ndarray | int, ...],
    fits: Callable[[np.ndarray], np.ndarray | None],
    framework: str | None,
) -> tuple[np.ndarray, int]:
    """What a function of positions gives for the first form that it takes; the calls it took."""
    calls = 0
    refusals = []
    count = np.size(forms[0])
    for name in filter(_loaded, (framework,) if framework else FRAMEWORKS):
        for given in forms:
            calls += 1
            try:
                where = given if isinstance(given, int) else _carried(given, name)
                out = as_numpy(function(*[where] * arguments))
            except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
                refusals.append(f"{type(failure).__name__}: {str(failure)[:120]}")
                continue
            found = fits(out)
            if found is not None:
                return found, calls
            refusals.append(f"{count} positions became shape {out.shape}")
    raise RefusedError(refusals[0] if refusals else "it takes no arrays", calls)

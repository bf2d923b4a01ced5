"""Somebody's code, asked for what a contract states; `docs/golden.md` has the protocol."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, mismatch

__all__ = ["METHODS", "Asked", "CannotSay", "Library"]

METHODS = ("frequencies", "cos_sin", "rotate", "logit_scale", "table", "bias", "position_ids")
Library = Literal["numpy", "torch", "jax"]
SPOKEN = ("layer", "length")  # what a method may leave out


class CannotSay(Exception):  # noqa: N818
    """What a side does not offer, in words."""


class Asked:
    """An object with some of the methods of the protocol, or a function that is one of them.

    Parameters
    ----------
    side : object
        The implementation; a class is called without arguments first.
    library : {"numpy", "torch", "jax"}
        Whose arrays it takes.

    Raises
    ------
    ArgumentError
        If it has none of the methods, and is no function whose parameters tell which one it is.
    """

    def __init__(self, side: Any, library: Library = "numpy") -> None:
        self.library = library
        side = side() if isinstance(side, type) else side
        self.name = getattr(side, "__qualname__", type(side).__name__)
        self.methods: dict[str, Callable[..., Any]] = {
            name: getattr(side, name) for name in METHODS if callable(getattr(side, name, None))
        }
        if not self.methods and callable(side):
            self.methods = dict.fromkeys(_meant(side), side)
        if not self.methods:
            expected = f"an object with any of the methods {', '.join(METHODS)}"
            todo = "A function may be one of them, by the names of its parameters: (x, positions)."
            raise ArgumentError(mismatch("a side", expected, self.name, todo))

    def takes(self, method: str, name: str) -> bool:
        """Whether a method has a parameter."""
        known = inspect.signature(self.methods[method]).parameters
        return name in known or any(p.kind is p.VAR_KEYWORD for p in known.values())

    def ask(self, method: str, *given: Any, layer: str, length: int | None = None) -> Any:
        """What a method answers: an array of float64, or a pair of them.

        Parameters
        ----------
        method : str
            One of `METHODS`.
        *given : array or mapping
            What it takes, in NumPy's arrays.
        layer : str
            The name of the part.
        length : int, optional
            Length of the sequence, where the answer depends on it.

        Raises
        ------
        CannotSay
            If the side does not offer it.
        """
        if method not in self.methods:
            raise CannotSay("it is not offered")
        spoken = {"layer": layer, "length": length}
        if length is not None and not self.takes(method, "length"):
            raise CannotSay("it takes no `length`, on which the frequencies depend")
        more = {k: v for k, v in spoken.items() if v is not None and self.takes(method, k)}
        try:
            answer = self.methods[method](*[self._array(value) for value in given], **more)
        except NotImplementedError as error:
            raise CannotSay(str(error) or "it raises NotImplementedError") from error
        pair = (
            isinstance(answer, (tuple, list)) and len(answer) == 2 and hasattr(answer[0], "shape")
        )
        if pair != (method == "cos_sin"):
            raise CannotSay(f"it returns {'two arrays' if pair else 'one array'}")
        return tuple(map(_numbers, answer)) if pair else _numbers(answer)

    def _array(self, value: Any) -> Any:
        if isinstance(value, Mapping) or self.library == "numpy":
            return value
        value = value if value.dtype.kind == "i" else value.astype(np.float32)
        if self.library == "torch":
            return importlib.import_module("torch").from_numpy(np.array(value))
        return importlib.import_module("jax.numpy").asarray(value)


def _meant(side: Callable[..., Any]) -> tuple[str, ...]:
    """Which methods a function can be, by its parameters."""
    try:
        names = [name for name in inspect.signature(side).parameters if name not in SPOKEN]
    except (TypeError, ValueError):
        return ()
    if names[:2] in (["q_positions", "k_positions"], ["q", "k"]):
        return ("bias",)
    if len(names) == 2 and names[1] in ("positions", "position_ids"):
        return ("rotate",)
    if len(names) == 1 and names[0] in ("positions", "position_ids"):
        return ("cos_sin", "table")
    return () if names else ("frequencies",)


def _numbers(answer: Any) -> np.ndarray:
    """An array of any library in float64."""
    if hasattr(answer, "detach"):
        answer = answer.detach().to("cpu").double().numpy()
    return np.asarray(answer, dtype=np.float64)

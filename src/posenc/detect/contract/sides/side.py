"""One of the two things that `diff` compares: it describes encodings, or answers for them.

What answers is somebody else's code; `docs/golden.md` has its protocol.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc._core.guard import foreign
from posenc.detect.contract.contract import Part

METHODS = ("frequencies", "cos_sin", "rotate", "logit_scale", "table", "bias", "position_ids")
Library = Literal["numpy", "torch", "jax"]


class CannotSay(Exception):  # noqa: N818
    """What a side does not offer, in words."""


class Implementation:
    """An object with some of the methods of the protocol, or a function that is one of them.

    It takes arrays of a library, and computes in a dtype of `tolerances.ROUNDING`; what a strict
    one raises is raised, rather than said in words. `ArgumentError` is raised for what has none of
    the methods, and is no function whose parameters tell which one it is.
    """

    def __init__(
        self, code: Any, library: Library = "numpy", dtype: str = "float32", *, strict: bool = False
    ) -> None:
        self.library, self.dtype, self.strict = library, dtype, strict
        self.code = code = code() if isinstance(code, type) else code
        self.name = getattr(code, "__qualname__", type(code).__name__)
        self.methods: dict[str, Callable[..., Any]] = {
            name: getattr(code, name) for name in METHODS if callable(getattr(code, name, None))
        }
        if not self.methods and callable(code):
            self.methods = dict.fromkeys(_meant(code), code)
        if not self.methods:
            expected = f"an object with any of the methods {', '.join(METHODS)}"
            todo = "A function may be one of them, by the names of its parameters: (x, positions)."
            raise ArgumentError(mismatch("a side", expected, self.name, todo))

    def takes(self, method: str, name: str) -> bool:
        """Whether a method is there and has a parameter."""
        if method not in self.methods:
            return False
        parameters = inspect.signature(self.methods[method]).parameters
        return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def keeps(self, method: str) -> bool:
        """Whether a method is there, and answers alike for all layers."""
        return method in self.methods and not self.takes(method, "layer")

    def ask(self, method: str, *arguments: Any, part: Part, length: int | None = None) -> Any:
        """What a method answers of a part: an array of float64, or a pair of them.

        `length` is that of the sequence, for methods that take it. `CannotSay` is raised where it
        is not offered, and for whatever other people's code raises.
        """
        if method not in self.methods:
            seen = ", so that no pairing is seen" if method == "rotate" else ""
            raise CannotSay(f"it is not offered{seen}")
        spoken = {"layer": part.name, "length": length}
        more = {k: v for k, v in spoken.items() if v is not None and self.takes(method, k)}
        try:
            with foreign(f"a call of {self.name}"):
                answer = self.methods[method](*map(self._array, arguments), **more)
                several = isinstance(answer, (tuple, list)) and hasattr(answer[0], "shape")
                numbers = [numbers_of(each) for each in (answer if several else (answer,))]
        except (CannotSay, MemoryError):
            raise
        except NotImplementedError as error:
            raise CannotSay(str(error) or "it raises NotImplementedError") from None
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:100]}"
            raise CannotSay(f"{method} raises {text}") from error
        if method == "cos_sin" and len(numbers) == 1 and numbers[0].dtype.kind == "c":
            numbers = [numbers[0].real, numbers[0].imag]  # as `freqs_cis` has them
        shapes = [each.shape for each in numbers]
        if len(numbers) != (2 if method == "cos_sin" else 1):
            counts = {1: "one array", 2: "two arrays"}
            raise CannotSay(f"it returns {counts.get(len(numbers), f'{len(numbers)} arrays')}")
        if any(each.dtype.kind == "c" or not each.size for each in numbers) or () in shapes:
            raise CannotSay(
                f"it returns complex numbers, none or a single one, of shape {shapes[0]}"
            )
        return tuple(numbers) if method == "cos_sin" else numbers[0]

    def _array(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value
        if self.library == "numpy":
            return value.copy()  # code may write into what it gets
        value = value if value.dtype.kind == "i" else value.astype(np.float32)
        if self.library == "torch":
            return importlib.import_module("torch").from_numpy(np.array(value))
        return importlib.import_module("jax.numpy").asarray(value)


def _meant(code: Callable[..., Any]) -> Sequence[str]:
    """Which methods a function can be, by its parameters."""
    try:
        parameters = inspect.signature(code).parameters
    except (TypeError, ValueError):
        return ()
    names = [name for name in parameters if name not in ("layer", "length")]
    if names[:2] in (["q_positions", "k_positions"], ["q", "k"]):
        return ("bias",)
    if len(names) in (1, 2) and names[-1] in ("positions", "position_ids"):
        return ("rotate",) if len(names) == 2 else ("cos_sin", "table")
    return () if names else ("frequencies",)


def numbers_of(answer: Any) -> np.ndarray:
    """An array of any library, in double precision."""
    if hasattr(answer, "detach"):
        answer = answer.detach().to("cpu")
        answer = (answer if answer.is_complex() else answer.double()).numpy()
    answer = np.asarray(answer)
    return answer.astype(np.complex128 if answer.dtype.kind == "c" else np.float64)


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

"""A forward probe: scores of random inputs before and after a conversion, in float64.

    s[m, n] = (R(a_m) W_q x_m) · (R(a_n) W_k x_n)

with random x, and for each position and pair a random angle. R pairs the channels of the source by
the old pairing and those of the result by the new one; the scores must agree. The rotation is the
library's verb, not the order by which the weights were moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from posenc._core import files
from posenc._core.errors import DataError, explain
from posenc.detect._checkpoint import Stored
from posenc.detect._projections import Attention, Held
from posenc.encodings.rotary.pairing import Pairing
from posenc.functional import apply_rotary

__all__ = ["Probe", "probe"]

POSITIONS = 3
# Both sides add the same products in another order.
AGREE = 1e-9


class Probe(NamedTuple):
    """What a forward probe saw."""

    layers: int
    heads: int
    worst: float  # difference of scores as a part of their size


def probe(
    attentions: tuple[Attention, ...],
    converted: Mapping[str, Stored],
    target: Callable[[Pairing], Pairing],
    *,
    seed: int = 0,
) -> Probe:
    """Compare the scores of the source with those of the result.

    Parameters
    ----------
    attentions : tuple of Attention
        The layers of the source that were converted.
    converted : mapping of str to Stored
        The tensors of the result.
    target : callable
        The new pairing, from the old one.
    seed : int
        Of the random inputs and angles.

    Raises
    ------
    DataError
        If a score differs: the conversion is wrong and must not be used.
    """
    rng = np.random.default_rng(seed)
    count, worst = 0, 0.0
    for attention in attentions:
        channels, rotated = attention.heads.channels, attention.heads.rotated
        angles = rng.uniform(0, 2 * np.pi, (POSITIONS, rotated // 2))
        state = rng.bit_generator.state
        sides = []
        with np.errstate(all="ignore"):
            for tensors, pairing in (({}, channels), (converted, target(channels))):
                rng.bit_generator.state = state  # the same inputs on both sides
                heads = {part: _heads(attention, tensors, part, rng) for part in ("q", "k")}
                turned = {
                    part: None if rows is None else _turned(rows, rotated, pairing, angles)
                    for part, rows in heads.items()
                }
                sides.append(_scores(turned, pairing, rng))
            size = np.sqrt(np.mean(np.square(sides[0]), axis=(-2, -1), keepdims=True))
            difference = np.abs(sides[1] - sides[0]) / np.where(size > 0, size, 1)
        # Weights that are not finite give scores that are not; they must be so on both sides.
        same = np.isfinite(sides[0]) == np.isfinite(sides[1])
        largest = float(np.max(np.where(np.isfinite(difference), difference, 0), initial=0))
        if not same.all() or largest > AGREE:
            todo = "Nothing was written."
            raise DataError(explain(f"probe of {attention.name}", "equal scores", largest, todo))
        worst, count = max(worst, largest), count + len(sides[0])
    return Probe(len(attentions), count, worst)


def _heads(
    attention: Attention, tensors: Mapping[str, Stored], part: str, rng: np.random.Generator
) -> np.ndarray | None:
    """The queries or keys of all heads at a few random inputs: (heads, positions, width)."""
    made = None
    for kind in ("weight", "bias", "scale", "gain", "shift"):
        for held in attention.held:
            if held.kind != kind or not held.of(part):
                continue
            stored = tensors.get(held.name, held.stored)
            value = _projected(held, stored, rng) if kind == "weight" else stored.array()
            value = value.reshape(-1, held.view[1])
            rows = np.stack([value[:, s.begin : s.begin + s.width] for s in held.of(part)])
            if made is None:
                made = rows
            elif kind in ("gain", "scale"):
                made = made * rows
            else:
                made = made + rows
    return made


def _projected(held: Held, stored: Stored, rng: np.random.Generator) -> np.ndarray:
    """Random inputs through a weight, in pieces: (positions, channels)."""
    before, channels, behind = held.view
    if before > 1:  # inputs first
        x = rng.standard_normal((POSITIONS, before)) / np.sqrt(before)
        total = np.zeros((POSITIONS, channels))
        step = max(1, files.PIECE // (8 * channels))
        for start in range(0, before, step):
            rows = min(step, before - start)
            piece = stored.numbers(start * channels, rows * channels).reshape(rows, channels)
            total += x[:, start : start + rows] @ piece
        return total
    x = rng.standard_normal((POSITIONS, behind)) / np.sqrt(max(1, behind))
    step = max(1, files.PIECE // (8 * max(1, behind)))
    pieces = []
    for start in range(0, channels, step):
        rows = min(step, channels - start)
        pieces.append(x @ stored.numbers(start * behind, rows * behind).reshape(rows, behind).T)
    return np.concatenate(pieces, axis=1)


class _Turned(NamedTuple):
    """Heads at a few positions: the channels that turn, turned, and the others."""

    turned: np.ndarray
    others: np.ndarray


def _turned(heads: np.ndarray, rotated: int, pairing: Pairing, angles: np.ndarray) -> _Turned:
    begin = heads.shape[-1] - rotated if pairing.part == "trailing" else 0
    part = np.ascontiguousarray(heads[..., begin : begin + rotated])
    turned = pairing.replace(part="leading", output="same")
    part = apply_rotary(part, np.cos(angles), np.sin(angles), pairing=turned)
    return _Turned(part, np.delete(heads, np.s_[begin : begin + rotated], axis=-1))


def _scores(
    heads: Mapping[str, _Turned | None], pairing: Pairing, rng: np.random.Generator
) -> np.ndarray:
    """(heads, positions, positions); random vectors stand for queries or keys that are absent.

    Channels that do not turn meet a random vector of their own, as heads of queries and of a latent
    key need not be of one width.
    """
    q, k = heads["q"], heads["k"]
    found = [side.turned for side in (q, k) if side is not None]
    if len(found) == 1:
        found.append(_random(found[0].shape[:-1], found[0].shape[-1], pairing, rng))
    first, second = found
    second = np.repeat(second, first.shape[0] // second.shape[0], axis=0)
    scores = first @ np.swapaxes(second, -1, -2)
    for side, axis in ((q, -1), (k, -2)):
        if side is not None and side.others.shape[-1]:
            more = side.others @ rng.standard_normal(side.others.shape[-1])
            more = np.repeat(more, scores.shape[0] // more.shape[0], axis=0)
            scores = scores + np.expand_dims(more, axis)
    return np.asarray(scores)


def _random(
    shape: tuple[int, ...], rotated: int, pairing: Pairing, rng: np.random.Generator
) -> np.ndarray:
    """Random vectors, the same in every pairing, written pair by pair into their channels."""
    pairs = rng.standard_normal((*shape, rotated // 2, 2))
    rows = np.empty((*shape, rotated))
    for j, (first, second) in enumerate(pairing.channels(rotated)):
        rows[..., first], rows[..., second] = pairs[..., j, 0], pairs[..., j, 1]
    return rows
"""Implementations as functions of arrays, whatever their framework and layout, and recordings."""
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from posenc._core.array import dtype_name, is_torch
from posenc._core.errors import ArgumentError, explain
__all__ = ["Probe", "RefusedError", "Style", "as_numpy", "biases_of", "needed_arguments", "rows_of"]
Array = Any
FRAMEWORKS = ("torch", "numpy", "jax")
class Style(NamedTuple):
    """How an implementation wants its arguments.
    `x` is (batch, ..., channels); the letters of `layout` name its axes: b batch, h heads, s
    sequence, t tokens of all sequences in one.
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
class Probe:
    """An implementation of a rotation, called with arrays of NumPy.
    function : callable
        `function(x, positions)`, or `function(x)` where positions are 0, 1, ...
    framework : str, optional
        Which arrays it takes; tried out by default.
    axes : int
        Coordinates of a position.
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
    function: Callable[..., Any], positions: np.ndarray, framework: str | None
) -> tuple[np.ndarray, int]:
    """The rows of a table by a function of positions; how many calls that took."""
    calls = 0
    refusals = []
    for name in (framework,) if framework else FRAMEWORKS:
        if not _loaded(name):
            continue
        for given in (positions, positions[None], len(positions)):
            calls += 1
            try:
                where = given if isinstance(given, int) else _carried(given, name)
                out = as_numpy(function(where))
            except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
                refusals.append(f"{type(failure).__name__}: {str(failure)[:120]}")
            out = out.reshape(out.shape[-2:]) if out.ndim > 2 and out.size else out
            if out.ndim == 2 and len(out) == len(positions):
                return out, calls
            refusals.append(f"{len(positions)} positions became shape {out.shape}")
    raise RefusedError(refusals[0] if refusals else "it takes no arrays")
def biases_of(
    function: Callable[..., Any], positions: np.ndarray, framework: str | None
) -> tuple[np.ndarray, int]:
    """(heads, queries, keys) by a function of query and key positions; the calls it took."""
    calls = 0
    refusals = []
    count = len(positions)
    for name in (framework,) if framework else FRAMEWORKS:
        if not _loaded(name):
            continue
        options: Sequence[Any] = (positions, count)
        for given in options:
            calls += 1
            try:
                where = given if isinstance(given, int) else _carried(given, name)
                out = as_numpy(function(where, where))
            except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
                refusals.append(f"{type(failure).__name__}: {str(failure)[:120]}")
            if out.ndim >= 2 and out.shape[-2:] == (count, count):
                return out.reshape(-1, count, count), calls
            refusals.append(f"{count} positions became shape {out.shape}")
    raise RefusedError(refusals[0] if refusals else "it takes no arrays")

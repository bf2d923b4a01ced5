"""The bench on which laws are tried: seeded inputs, calls, and comparisons that name the input."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.errors import DependencyError
from posenc._core.guard import foreign, of_pytest
from posenc.detect.subject import Reach
from posenc.testing.places import expected_of, learned_by
from posenc.testing.subject import Kind, NotOffered, Result, Subject
from posenc.testing.target import of_spec

# A unit in the last place of a number just above 1.
EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}

# float32 arithmetic near position 0: a few roundings, and the rounding of an angle below 1024,
# which is 6e-5.
NEAR = 2e-4
# Far from it: a departure that one rounding to bfloat16 would hide. The statements name it.
FAR = 2.0**-7
# Of a sequence, or an offset: the longest original length that is published, and more.
LONG = (133_000, 40_000, 9_000, 4_200, 920)
# A factor on all lengths is an attention factor, but none is this near 1.
LEAST_FACTOR = 2e-3
FAR_PLACES = {"2^17": 2**17, "2^20": 2**20, "2^24": 2**24, "2^31": 2**31}
Found = tuple[float, float]


class Broken(Exception):  # noqa: N818
    """A law that does not hold: by how much, for which input."""

    def __init__(
        self,
        says: str,
        case: dict[str, Any],
        measured: float | None = None,
        bound: float | None = None,
    ) -> None:
        super().__init__(says)
        self.fields = {"says": says, "input": case, "measured": measured, "bound": bound}


def broken_where(bad: object, *broken: Any) -> None:
    """Raise `Broken`, of what it says, the case and the numbers, where something is bad."""
    if bad:
        raise Broken(*broken)


@dataclass(frozen=True)
class Law:
    """One law of the battery.

    Parameters
    ----------
    name : str
        How it is chosen.
    statement : str
        What must hold, in words.
    kinds : tuple of str
        Of implementations that it is a law for.
    check : callable
        Takes a `Lab`; returns the measured departure and the bound, or None; raises `Broken`.
    refusable : bool
        Whether an error of the implementation is a fair answer.
    """

    name: str
    statement: str
    kinds: tuple[Kind, ...]
    check: Callable[[Lab], tuple[float, float] | None]
    refusable: bool = False


LAWS: list[Law] = []


def law(
    name: str, statement: str, *kinds: Kind, refusable: bool = False
) -> Callable[[Callable[[Lab], Any]], Callable[[Lab], Any]]:
    """Register a law."""

    def register(check: Callable[[Lab], Any]) -> Callable[[Lab], Any]:
        LAWS.append(Law(name, statement, kinds, check, refusable))
        return check

    return register


class Lab:
    """An implementation on the bench."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.reach: Reach | None = None  # of a survey
        self.short = ""  # how much less was looked at than the statement says

    @functools.cached_property
    def target(self) -> Any:
        """An implementation that the laws share."""
        return self.subject.build()

    def at(self, **changes: Any) -> Lab:
        """The same bench for another width, number of heads or base."""
        return Lab(self.subject.resized(**changes))

    # --- inputs ---------------------------------------------------------------------------------

    def x(self, seq: int, *, batch: int = 2, heads: int = 3, seed: int = 0) -> np.ndarray:
        """Standard normal queries (batch, heads, seq, dim), as float32 holds them."""
        own = getattr(self.subject.spec, "per_head", None)  # each turns in its own way
        shape = (batch, own or heads, seq, self.subject.dim)
        return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)

    # --- calls ----------------------------------------------------------------------------------

    def rotate(
        self, x: np.ndarray, positions: Any, *, dtype: str = "float32", target: Any = None
    ) -> np.ndarray:
        """The implementation's answer for queries `x`, as float64."""
        indices = np.asarray(positions, dtype=np.int64)
        out = self._answer(target, self.subject.array(x, dtype), indices)
        return _shaped(out, x.shape, x=x.shape, positions=_short(indices))

    def rows(self, positions: Any, *, dtype: str = "float32", target: Any = None) -> np.ndarray:
        """The rows of a table at positions, (..., dim), as float64."""
        indices = np.asarray(positions, dtype=np.int64)
        lead = indices.shape if self.subject.axes == 1 else indices.shape[:-1]
        out = self._answer(target, indices, dtype)
        return _shaped(out, (*lead, self.subject.dim), positions=_short(indices))

    def bias(self, q: Any, k: Any, *, target: Any = None) -> np.ndarray:
        """The bias between positions, (..., heads, q, k), as float64."""
        q, k = (np.asarray(p, dtype=np.int64) for p in (q, k))
        out = self._answer(target, q, k)
        expected = (self.subject.heads, q.shape[-1], k.shape[-1])
        if out.ndim == len(expected) + 1 and out.shape[0] == 1 and q.ndim == 1:
            out = out[0]
        broken_where(
            out.shape != (*q.shape[:-1], *expected),
            f"it answers with shape {out.shape}, where {expected} was asked",
            {"q_positions": _short(q), "k_positions": _short(k)},
        )
        return out

    def _answer(self, target: Any, *arguments: Any) -> np.ndarray:
        made = self.target if target is None else target
        return self.subject.numpy(self.subject.answer(made, *arguments))

    # --- truth ----------------------------------------------------------------------------------

    def truth(self, *args: Any) -> np.ndarray:
        """What the named spec gives in float64, as `init` begins; `NotOffered` without one."""
        spec = self.subject.spec
        if spec is None:
            raise NotOffered("no spec was named to compare with")
        params, places = learned_by(spec, self.target), self.subject.places
        ask = expected_of(spec, self.subject.kind, places, params)
        if self.subject.kind != "rotary":
            return np.asarray(ask(*map(np.asarray, args)))
        x, positions = args
        rows = np.broadcast_to(positions, (len(x), np.shape(positions)[-1]))
        rows = rows if places is not None else along_first(rows, len(spec.axes))
        return np.asarray(ask(x.astype(np.float64), rows))

    # --- as far as it goes ----------------------------------------------------------------------

    def longest(self, ask: Callable[[int], Any], lengths: Sequence[int]) -> tuple[int, Any]:
        """The longest of some lengths, descending, that is not refused, and what was answered.

        An implementation may have an end: whatever it raises beyond it is a fair answer, but not
        at the shortest of the lengths.
        """
        for length in lengths[:-1]:
            try:
                return length, ask(length)
            except (Broken, NotOffered):
                raise
            except Exception as error:
                if of_pytest(error):
                    raise
                self.refused(length, error)
        return lengths[-1], ask(lengths[-1])

    def refused(self, length: int, error: Exception) -> None:
        """Say in the card that a law went less far than its statement."""
        self.short = f"not seen at {length} and beyond, where {_message(error)}"

    # --- comparisons ----------------------------------------------------------------------------

    def unmoved(
        self,
        first: np.ndarray,
        ask: Callable[[], np.ndarray],
        other: Callable[[int], Any],
        counts: Iterable[int],
        calls: str,
        least: int = 0,
    ) -> Found:
        """The first answer again after each of other calls, which may be refused beyond `least`.

        `calls` says what was asked, with `{}` for the count.
        """
        worst = (0.0, 0.0)
        for count in counts:
            try:
                other(count)
            except Exception as error:
                if count <= least:
                    raise
                self.refused(count, error)
                break
            worst = self.same(ask(), first, 0.0, calls=calls.format(count))
        return worst

    def same(self, received: np.ndarray, expected: np.ndarray, bound: float, **case: Any) -> Found:
        """The largest difference, which must not exceed `bound`."""
        if received.shape != expected.shape:
            raise Broken(f"shape {received.shape}, expected {expected.shape}", case)
        if not received.size:
            return 0.0, bound
        with np.errstate(invalid="ignore"):
            away = np.where(received == expected, 0.0, np.abs(received - expected))
        away = np.where(np.isnan(away), np.inf, away)
        worst = np.unravel_index(int(np.argmax(away)), away.shape)
        measured = float(away[worst])
        if measured > bound:
            entry = (
                f"entry {[int(i) for i in worst]} is {against(received[worst], expected[worst])}"
            )
            shown = {key: _short(value) for key, value in case.items()}
            raise Broken(entry, shown, measured, bound)
        return measured, bound


def against(received: float, expected: float) -> str:
    """Two numbers in words; NaN is never what is expected, also where other calls answer it."""
    return f"{received:.6g}, expected {'a number' if np.isnan(expected) else f'{expected:.6g}'}"


def largest(x: np.ndarray) -> float:
    """The largest entry, which bounds are multiples of."""
    return float(np.max(np.abs(x), initial=0.0))


def one_factor(lab: Lab, x: np.ndarray, y: np.ndarray, **case: Any) -> tuple[Found, float]:
    """How far lengths are from having changed by one factor, and that factor."""
    ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x.astype(np.float64), axis=-1)
    factor = float(ratio[0, 0, 0])
    return lab.same(ratio, np.full_like(ratio, factor), 1e-5, **case), factor


def places_of(lab: Lab, count: int, start: int = 0) -> np.ndarray:
    """Positions start, start + 1, …, or for several axes the cells of a grid that is not square."""
    axes = lab.subject.axes
    if axes == 1:
        return np.arange(start, start + count)
    cells = np.stack(np.meshgrid(*map(np.arange, (3, 5, 7)[:axes]), indexing="ij"), axis=-1)
    return cells.reshape(-1, axes) + start


def answer(lab: Lab, target: Any) -> np.ndarray:
    """What `target` gives for the standard question of its kind."""
    if lab.subject.kind == "rotary":
        return lab.rotate(lab.x(40), np.arange(40), target=target)
    return (
        lab.rows(places_of(lab, 40), target=target)
        if lab.subject.kind == "table"
        else lab.bias(np.arange(20), np.arange(20), target=target)
    )


def exact(lab: Lab, *args: Any) -> np.ndarray:
    """What the named spec gives; without one, what the implementation gives in float32."""
    try:
        return lab.truth(*args)
    except NotOffered:
        return lab.rotate(*args) if lab.subject.kind == "rotary" else lab.rows(*args)


def along_first(places: np.ndarray, axes: int) -> np.ndarray:
    """Positions along the first of some axes; the others stand still."""
    return places if axes == 1 else np.stack([places, *[0 * places] * (axes - 1)], axis=-1)


def _shaped(out: np.ndarray, expected: tuple[int, ...], **case: Any) -> np.ndarray:
    broken_where(out.shape != expected, f"it answers with shape {out.shape}", case)
    return out


@foreign("check")
def run(law: Law, subject: Subject) -> Result:
    """Try one law, on a fresh implementation: what one law breaks is not held against the next.

    A law that the named spec breaks as well is none of its own; its numbers are held to `calls`.
    """
    result = _tried(law, subject)
    if result.status != "fail" or subject.spec is None or law.name == "calls":
        return result
    own = _tried(law, of_spec(subject.spec, library="numpy"))
    if own.status != "fail":
        return result
    says = f"no law of {type(subject.spec).__name__}, which breaks it too: {own.says}"
    return Result(law.name, law.statement, "not offered", says=says)


def _tried(law: Law, subject: Subject) -> Result:
    lab = Lab(subject)

    def result(status: Any, **more: Any) -> Result:
        return Result(law.name, law.statement, status, reach=lab.reach, **more)

    try:
        with _quietly():
            measured = law.check(lab)
    except NotOffered as reason:
        return result("not offered", says=str(reason))
    except Broken as broken:
        return result("fail", **broken.fields)
    except DependencyError as missing:
        return result("not offered", says=f"not asked, because {missing}")
    except Exception as error:
        if of_pytest(error):
            raise
        if (below := _under(error)) is not None:
            return result("not offered", says=str(below))
        return result("refused" if law.refusable else "fail", says=_message(error))
    departure, bound = measured or (None, None)
    return result("pass", measured=departure, bound=bound, says=lab.short)


def _under(error: BaseException | None) -> NotOffered | None:
    """What an adapter raised, under what a compiler made of it."""
    while error is not None and not isinstance(error, NotOffered):
        error = error.__cause__ or error.__context__
    return error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what implementations and compilers print; deprecations are not on trial."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _message(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    text = text if len(text) <= 200 else text[:199] + "…"
    return f"it raises {type(error).__name__}: {text}"


def _short(value: Any) -> Any:
    """An input in few words: all of a short array, the ends of a long one."""
    if not isinstance(value, (np.ndarray, list, tuple)):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "iu" and array.ndim == 1 and array.size > 8:
        return f"{array[0]}, {array[1]}, … {array[-1]} ({array.size} of them)"
    return array.tolist() if array.size <= 32 else f"an array of shape {array.shape}"

"""From what somebody hands over to a subject."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, mismatch, one_of
from posenc._core.guard import foreign
from posenc._core.spec.spec import Spec
from posenc.detect.subject.arrays import LAYOUTS, LIBRARIES, numbers, parts_of
from posenc.detect.subject.code import (
    LONGEST,
    Callee,
    CannotAsk,
    Slot,
    code_of,
    codes_of,
    copied,
    instance,
    name_of,
)
from posenc.detect.subject.discovery import Found, Search
from posenc.detect.subject.forms import CallCounter, Form, Inquiry, call
from posenc.detect.subject.forms import built as made_by
from posenc.detect.subject.names import role_of
from posenc.detect.subject.subject import KINDS, WORDS, Subject

OTHERS = 40  # calls to find further forms
ORDER = ("rotary", "bias", "cos_sin", "angles", "table")  # what says most of an object


@foreign("ask")
def ask(
    target: Any,
    *,
    dim: int = 64,
    heads: int | None = None,
    kind: str | None = None,
    library: str | None = None,
    layout: str | None = None,
) -> Subject:
    """Anybody's implementation of positions as something that can be asked.

        y = subject.rotate(x, positions)

    The form of its call is found by its names and by what it does: the widest form that answers is
    taken. Neither what is expected nor any known encoding takes part, so that wrong code is asked,
    too.

    Parameters
    ----------
    target : object
        A function, method, object, class or module; a pair of what makes tables and what applies
        them; a mapping with buffers (`inv_freq`, `cos_cached` and `sin_cached`, `freqs_cis`,
        `cos_sin_cache`); a model with `(model, "path.of.a.module")`; a `posenc.testing.Subject`.
    dim : int
        Channels of a head, or of a row.
    heads : int, optional
        The number of heads, where the code has one of its own.
    kind : {"rotary", "cos_sin", "angles", "table", "bias"}, optional
        What it computes, where that is not to be found out; a bias without a name is found by it.
    library : {"numpy", "torch", "jax"}, optional
        Whose arrays it takes.
    layout : str, optional
        The order of the axes of x: `"bhsd"`, `"bshd"`, …

    Returns
    -------
    Subject
        `kind`, `how`, and the answers.

    Raises
    ------
    CannotAsk
        If no form answers: what was tried, its own error, and what to hand over.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half")
    >>> subject = posenc.ask(lambda q, k, positions: posenc.rotate(rope, q, positions=positions))
    >>> subject.kind, subject.calls < 6
    ('rotary', True)
    """
    for name, value, choices in (
        ("kind", kind, KINDS), ("library", library, LIBRARIES), ("layout", layout, LAYOUTS),
    ):  # fmt: skip
        if value is not None:
            one_of(value, choices, f"ask: {name}")
    if not 1 <= dim <= 2**16:
        raise ArgumentError(mismatch("ask: dim", "1 to 65,536", dim))
    return asked(target, dim=dim, heads=heads, kind=kind, library=library, layout=layout)


def asked(target: Any, *, axes: int = 1, **options: Any) -> Subject:
    """`ask`, with positions of several axes."""
    if isinstance(target, Subject):
        return target
    search = Search(CallCounter(), axes=axes, **options)
    if isinstance(target, Spec):
        raise CannotAsk("ask: a spec is no code: hand over posenc.testing.of_spec(spec)")
    if all(hasattr(target, name) for name in ("kind", "make", "call", "answer", "build")):
        return _of_battery(target, search)
    names = ("input", "output", "positions")
    if isinstance(target, Mapping) and {*names} <= {*target}:
        target = tuple(target[name] for name in names)
    if isinstance(target, (tuple, list)) and len(target) == 3 and not any(map(callable, target)):
        return _of_recording([*map(numbers, target)], search)
    codes, anew = _codes(target, search)
    choice, others = _best(codes, search)
    if choice is None:
        raise _refusal(target, codes, search)
    subject = subject_of(choice, search, others, None)
    subject._target, subject._options = target, options
    if anew is not None:
        subject._anew = lambda: _anew(subject, anew)
    return subject


def _anew(subject: Subject, anew: Callable[[], list[Callee]]) -> Subject:
    choice: Found = subject._found
    code = next(code for code in anew() if code.name == choice.form.code.name)
    choice = choice._replace(form=choice.form._replace(code=code))
    return dataclasses.replace(subject, _found=choice, _counter=CallCounter(), _others=[])


def _codes(target: Any, search: Search) -> tuple[list[Callee], Any]:
    """What can be called of a target, and what makes it anew."""
    sizes = {"dim": search.dim, "heads": search.heads or 8}
    if isinstance(target, type):
        return list(codes_of(instance(target, sizes))), lambda: list(
            codes_of(instance(target, sizes))
        )
    if isinstance(target, Mapping):
        return [_of_buffers(target)], None
    if isinstance(target, (tuple, list)) and len(target) == 2:
        one, two = target
        if isinstance(two, str):
            return _codes(one.get_submodule(two), search)
        return [_of_pair(one, two, search)], None
    if hasattr(target, "named_buffers") and (inner := _rotary_of(target)) is not None:
        return _codes(inner, search)
    if hasattr(target, "named_buffers"):
        return list(codes_of(copied(target))), lambda: list(codes_of(copied(target)))
    codes = list(codes_of(target))
    if not codes:
        expected = "a function, a class, an object, a pair of functions or buffers"
        raise CannotAsk(mismatch("ask", expected, f"{type(target).__name__}: {str(target)[:60]}"))
    return codes, None


def _rotary_of(model: Any) -> Any:
    """The module of a model that holds frequencies or cosines; None where it is that itself."""
    holds = (path.rpartition(".")[0] for path, _ in model.named_buffers()
             if role_of(path.rpartition(".")[2]) in ("tables", "cos"))  # fmt: skip
    path = next(holds, "")
    return model.get_submodule(path) if path and hasattr(model, "config") else None


def _best(codes: list[Callee], search: Search) -> tuple[Found | None, Any]:
    """The form that says most, and what gives the others of its function."""
    best: Found | None = None
    rest: Iterator[Found] = iter(())
    for code in codes:
        forms = search.forms(code)
        choice = next(forms, None)
        if choice is not None and (
            best is None or ORDER.index(choice.kind) < ORDER.index(best.kind)
        ):
            best, rest = choice, forms
        if best is not None and best.kind == ORDER[0]:
            break

    def others() -> Iterator[Found]:
        search.began, most = time.monotonic(), search.counter.calls + OTHERS
        for choice in rest:
            if _alike(choice, best):
                yield choice
            if search.counter.calls > most:
                return

    return best, others


def _alike(choice: Found, best: Found | None) -> bool:
    """Whether two forms differ in shapes alone, or in what says where tokens stand."""
    if best is None or choice.kind != best.kind or choice.form.library != best.form.library:
        return False
    one, two = dict(choice.form.roles), dict(best.form.roles)
    return all(one[name] == two[name] for name in one.keys() & two.keys())


def _refusal(target: Any, codes: list[Callee], search: Search) -> CannotAsk:
    name = codes[0].name if len(codes) == 1 else name_of(target)
    codes = codes or [Callee(target, name_of(target), (), ())]
    own = search.tried[0] if search.tried else "no form of a call is known for its arguments"
    slots = ", ".join(slot.name for slot in codes[0].slots)
    says = f"{search.counter.calls} calls of {name}({slots}) in every form known were no encoding"
    if codes[0].has("cos", "sin", "tables") and codes[0].has("x") and not codes[0].tables:
        todo = "It applies tables: hand over a pair (what makes them, what applies them)."
    elif search.kind is None:
        todo = "Hand over a function of (x, positions) or (positions); a bias needs kind='bias'."
    else:
        todo = f"Hand over a function that is {search.kind}, such as one of (x, positions)."
    refusal = CannotAsk(f"ask: {says}; the first: {own}. {todo}")
    refusal.__cause__ = search.error
    refusal.answered, refusal.calls = search.answered, search.counter.calls
    refusal.arguments = sum(slot.required for slot in codes[0].slots)
    return refusal


def subject_of(
    choice: Found, search: Search, others: Callable[[], Iterator[Found]] | None, anew: Any
) -> Subject:
    """A subject of the form that was found."""
    form = choice.form
    how = f"{WORDS[choice.kind]}, {form.words}" + (", which adds its rows to x" * choice.added)
    return Subject(
        choice.kind, how, search.dim, form.library, form.code.name, search.heads,  # type: ignore[arg-type]
        choice, search.counter, others, anew, search.axes,
    )  # fmt: skip


# --- buffers --------------------------------------------------------------------------------------

POSITIONED = (Slot("positions", "positions", required=True),)


def _of_buffers(arrays: Mapping[str, Any]) -> Callee:
    """Numbers under names that are known, as a function of positions."""
    own = {str(name).rpartition(".")[2]: value for name, value in arrays.items()}
    tables = _tables_of({name: numbers(value) for name, value in own.items()})
    if tables is None:
        expected = "inv_freq, cos_cached and sin_cached, freqs_cis or cos_sin_cache"
        raise CannotAsk(mismatch("ask: buffers", expected, ", ".join(own) or "none"))

    def buffers(positions: np.ndarray) -> Any:
        return tables(np.asarray(positions))

    return Callee(buffers, "buffers", POSITIONED, ("numpy",))


def _tables_of(own: Mapping[str, np.ndarray]) -> Any:
    frequencies = next((v for k, v in own.items() if k.endswith(("inv_freq", "inv_freqs",
                       "inv_timescales"))), None)  # fmt: skip
    cos, sin = (next((v for k, v in own.items() if k.startswith(word) and "_sin_" not in k), None)
                for word in ("cos", "sin"))  # fmt: skip
    if cos is not None and sin is not None:
        rows = [table.reshape(-1, table.shape[-1]) for table in (cos, sin)]
        return lambda p: tuple(row[p] for row in rows)
    cache = next((v for k, v in own.items() if "cos_sin" in k and v.ndim > 1), None)
    if cache is not None:
        rows = list(np.split(cache.reshape(-1, cache.shape[-1]), 2, axis=-1))
        return lambda p: tuple(row[p] for row in rows)
    turns = next((v for k, v in own.items() if "freqs" in k and v.ndim > 1), None)
    if turns is not None:
        lead = 2 if turns.dtype.kind != "c" and turns.shape[-1] == 2 and turns.ndim > 2 else 1
        flat = turns.reshape(-1, *turns.shape[-lead:])
        return lambda p: flat[p]
    if frequencies is not None:
        line = frequencies.reshape(-1)
        return lambda p: (np.cos(p[..., None] * line), np.sin(p[..., None] * line))
    return None


# --- pairs ----------------------------------------------------------------------------------------


def _of_pair(maker: Any, apply: Any, search: Search) -> Callee:
    """A function that applies tables, with what makes them."""
    inner = Search(search.counter, dim=search.dim, heads=search.heads, kind=None,
                   library=search.library, layout=None)  # fmt: skip
    codes, _ = _codes(maker, inner)
    choice = next(itertools.chain.from_iterable(inner.forms(code) for code in codes), None)
    if choice is None:
        raise _refusal(maker, codes, inner)
    code = code_of(apply, tables=_Tables(choice, search.dim, search.counter))
    if not code.has("cos", "sin", "tables"):
        code = code._replace(slots=_tabled(code.slots, choice.swapped))
    return code


def _tabled(slots: tuple[Slot, ...], swapped: bool) -> tuple[Slot, ...]:
    """Arguments with tables among them: those that nothing else is known to stand for."""
    needed = [slot for slot in slots if slot.required]
    blank = [slot.name for slot in needed if not slot.role]
    blank = blank or [slot.name for slot in needed if slot.role == "x"][1:]
    blank = blank or [slot.name for slot in needed if slot.role in ("positions", "offset")]
    both = ["sin", "cos"] if swapped else ["cos", "sin"]
    roles = {1: ["tables"], 2: both}.get(len(blank), [])
    stated = dict(zip(blank, roles, strict=False))
    return tuple(slot._replace(role=stated.get(slot.name, slot.role)) for slot in slots)  # type: ignore[arg-type]


class _Tables:
    """What a maker gives for the positions of a call."""

    def __init__(self, choice: Found, dim: int, counter: CallCounter) -> None:
        self.form, self.swapped, self.dim, self.counter = choice.form, choice.swapped, dim, counter
        self.kept: dict[int, Any] = {}

    def __call__(self, asked: Inquiry, whole: bool) -> tuple[list[np.ndarray], Any]:
        if self.form.way == "positions" and not whole:
            one = self.form.place != "bs"
            rows = [asked.rows[[b]] for b in range(len(asked.rows))] if one else [asked.rows]
            each = [made_by(self.form, self._asked(r), self.counter) for r in rows]
            parts = [np.concatenate(p) for p in zip(*each, strict=True)]
        else:
            built, parts = self._made(asked.end)
            if whole:
                return built, tuple
            parts = [part[0][asked.rows] for part in parts]
        return [np.broadcast_to(p, (len(asked.rows), *p.shape[1:])) for p in parts], tuple

    def _asked(self, rows: np.ndarray) -> Inquiry:
        x = np.ones((len(rows), 1, rows.shape[1], self.dim)) if self.form.layout else None
        return Inquiry(x, rows)

    def _made(self, end: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Tables of a power of two of rows: as they came, and as (1, rows, ...)."""
        count = max(64, 2 ** (end - 1).bit_length())
        if count > LONGEST:
            raise CannotAsk(f"{self.form.code.name} makes tables, and {end:,} rows are too many")
        if count not in self.kept:
            line = self._asked(np.arange(count)[None])
            raw = call(self.form, line, self.counter)
            answered = self.form.code._replace(function=lambda *_, **__: raw)
            parts = made_by(self.form._replace(code=answered), line, CallCounter())
            self.kept[count] = parts_of(raw), parts
        kept: tuple[list[np.ndarray], list[np.ndarray]] = self.kept[count]
        return kept


# --- recordings -----------------------------------------------------------------------------------


def _of_recording(recorded: list[np.ndarray], search: Search) -> Subject:
    """Recorded inputs and outputs, which answer for the tokens that were recorded."""
    x, y, positions = recorded
    if x.shape != y.shape or x.ndim < 2:
        received = f"shapes {x.shape} and {y.shape}"
        raise CannotAsk(mismatch("ask", "x and y of one shape (..., seq, channels)", received))
    places = np.broadcast_to(positions, x.shape[:-1]).reshape(-1)
    tokens = x.astype(np.float32).reshape(-1, x.shape[-1])
    kept = {(int(p), t.tobytes()): row for p, t, row in zip(places, tokens, y.reshape(tokens.shape),
                                                            strict=True)}  # fmt: skip

    def recording(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        asked_ = np.broadcast_to(positions[:, None], x.shape[:-1]).reshape(-1)
        rows = [kept.get((int(p), t.tobytes()))
                for p, t in zip(asked_, x.reshape(-1, x.shape[-1]), strict=True)]  # fmt: skip
        if any(row is None for row in rows):
            raise CannotAsk("ask: the recording has no such token at that position")
        return np.array(rows).reshape(x.shape)

    search.dim = x.shape[-1]
    slots = (Slot("x", "x", required=True), *POSITIONED)
    code = Callee(recording, "recording", slots, ("numpy",))
    roles = (("x", "x"), ("positions", "positions"))
    form = Form(code, roles, "numpy", "bhsd", "bs", "positions", search.dim)
    return subject_of(Found("rotary", form), search, None, None)


# --- subjects of a battery ------------------------------------------------------------------------


def _of_battery(subject: Any, search: Search) -> Subject:
    """A `posenc.testing.Subject`, which says by itself how it is called."""
    search.dim = subject.dim
    search.heads = subject.heads if subject.kind == "bias" else None
    roles = {
        "rotary": (("x", "x"), ("positions", "positions")),
        "table": (("positions", "positions"),),
        "bias": (("q", "q_positions"), ("k", "k_positions")),
    }[subject.kind]
    slots = tuple(Slot(name, role, required=True) for name, role in roles)  # type: ignore[arg-type]

    def codes() -> list[Callee]:
        built = subject.build()

        def answer(*arguments: Any) -> Any:
            plain = [numbers(a).astype(np.int64) if role != "x" else a
                     for a, (_, role) in zip(arguments, roles, strict=True)]  # fmt: skip
            more = ["float32"] if subject.kind == "table" else []
            return subject.answer(built, *plain, *more)

        return [Callee(answer, subject.name, slots, (subject.library,))]

    layout = "bhsd" if subject.kind == "rotary" else ""
    form = Form(codes()[0], roles, subject.library, layout, "bs" if layout else "s", "positions")
    others = [Found("table", form._replace(place="bs"))] * (subject.kind == "table")
    choice = subject_of(Found(subject.kind, form), search, lambda: iter(others), None)
    choice._anew = lambda: _anew(choice, codes)
    return choice

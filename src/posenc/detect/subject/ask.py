"""From what somebody hands over to a subject."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, mismatch, one_of
from posenc._core.guard import foreign
from posenc.detect.subject.arrays import LAYOUTS, LIBRARIES, NO_CODE, NO_NAMES, numbers, parts_of
from posenc.detect.subject.calling import rows_made
from posenc.detect.subject.code import (
    LONGEST,
    Callee,
    CannotAsk,
    code_of,
    codes_of,
    copied,
    instance,
    name_of,
    refuse_if,
    role_of,
    tabled,
)
from posenc.detect.subject.discovery import Found, Search
from posenc.detect.subject.forms import PROTOCOL, CallCounter, Form, Inquiry, as_built, call, known
from posenc.detect.subject.refusal import refusal, widths_of
from posenc.detect.subject.subject import KINDS, WORDS, Subject

WIDTH = 64  # of a head, where nobody tells
OTHERS = 40  # calls to find further forms
RECORDED = ("input", "output", "positions")
ORDER = ("rotary", "bias", "cos_sin", "angles", "table")  # what says most of an object


def ask(
    target: Any,
    *,
    dim: int = WIDTH,
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
        `cos_sin_cache`); a loaded model, or `(model, "path.of.a.module")`; what was recorded, as
        `(x, y, positions)`; a `posenc.testing.Subject`.
    dim : int
        Channels of a head, or of a row.
    heads : int, optional
        The number of heads, where the code has one of its own.
    kind : {"rotary", "cos_sin", "angles", "table", "bias"}, optional
        What it computes, where that is not to be found out; a bias without a name is found by it.
    library : {"numpy", "torch", "jax", "mlx"}, optional
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
    refuse_if(
        not (isinstance(dim, (int, np.integer)) and 1 <= dim <= 2**16),
        mismatch("ask: dim", "1 to 65,536", repr(dim)),
        ArgumentError,
    )
    return asked(target, dim=dim, heads=heads, kind=kind, library=library, layout=layout)


@foreign("ask")
def asked(target: Any, *, dim: int | None = None, **options: Any) -> Subject:
    """`ask`, with positions of several axes or that number places, or heads that differ.

    Without a width it is the usual one, or the first that answers of those that the error of the
    code tells of.
    """
    if isinstance(target, Subject):
        return target
    try:
        return _at_width(target, dim or WIDTH, **options)
    except CannotAsk as why:
        for width in widths_of(why) if dim is None else ():
            with contextlib.suppress(CannotAsk):
                return _at_width(target, width, **options)
        raise


def _at_width(
    target: Any, dim: int, axes: int = 1, places: Any = None, headed: bool = False, **options: Any
) -> Subject:
    """What is asked in heads of a width."""
    if isinstance(target, Mapping) and {*RECORDED} <= {*target}:
        target = tuple(target[name] for name in RECORDED)
    arrays = isinstance(target, (tuple, list)) and not any(map(callable, target))
    kinds = {tuple: NO_NAMES} if arrays and len(target) != 3 else NO_CODE
    other = next((text for kind, text in kinds.items() if isinstance(target, kind)), "")
    refuse_if(other, f"ask: expected code, got {other}.")
    search = Search(CallCounter(), dim=dim, axes=axes, places=places, headed=headed, **options)
    if hasattr(target, "answer") and hasattr(target, "build"):
        return _of_battery(target, search)
    if arrays and len(target) == 3:
        return _of_recording([*map(numbers, target)], search)
    make, is_anew = _codes(target, search)
    choice, others = _best(codes := list(make()), search)
    if choice is None:
        raise refusal(target, codes, search)
    subject = _subject_of(choice, search, others if places is None else None)
    subject._target, subject._options = target, {"dim": dim, **options}
    subject._anew = functools.partial(_anew, subject, make) if is_anew else None
    return subject


def _anew(subject: Subject, make: Callable[[], Iterable[Callee]]) -> Subject:
    form: Form = subject._found.form
    code = next(code for code in make() if code.name == form.code.name)
    choice = subject._found._replace(form=form._replace(code=code))
    return dataclasses.replace(subject, _found=choice, _counter=CallCounter(), _others=[])


def _codes(target: Any, search: Search) -> tuple[Callable[[], Iterable[Callee]], bool]:
    """What gives all that can be called of a target, and whether it makes it anew."""
    if isinstance(target, type):
        sizes = {"dim": search.dim, "heads": search.heads or 8}
        return lambda: codes_of(instance(target, sizes)), True
    if isinstance(target, Mapping):
        return lambda: [_of_buffers(target)], False
    if isinstance(target, (tuple, list)) and len(target) == 2:
        one, two = target
        if isinstance(two, str):
            return _codes(_at(one, two), search)
        return lambda: [_of_pair(one, two, search)], False
    if hasattr(target, "named_buffers"):
        inner = _rotary_of(target)
        return lambda: codes_of(copied(inner)), True
    return lambda: codes_of(target), False


def _at(model: Any, path: str) -> Any:
    """A module of a model by its path."""
    try:
        return functools.reduce(getattr, path.split("."), model)
    except AttributeError as error:
        raise CannotAsk(
            mismatch("ask", f"the path of a module of {name_of(model)}", f"{path[:80]!r} ({error})")
        ) from error


def _rotary_of(model: Any) -> Any:
    """The module of a loaded model that holds frequencies or cosines; else the model itself."""
    holds = (path.rpartition(".")[0] for path, _ in model.named_buffers()
             if role_of(path.rpartition(".")[2]) in ("tables", "cos"))  # fmt: skip
    path = next(holds, "") if hasattr(model, "config") else ""
    refuse_if(not path and hasattr(model, "get_input_embeddings"), mismatch(
        "ask", 'a module of a model, as (model, "path")',
        f"{name_of(model)}, whose modules have no tables under names that are known",
    ))  # fmt: skip
    return model.get_submodule(path)


def _best(
    codes: list[Callee], search: Search
) -> tuple[Found | None, Callable[[], Iterator[Found]]]:
    """The form that says most, and what gives the others of its function."""
    best: Found | None = None
    rest: Iterator[Found] = iter(())
    for code in codes:
        forms = search.forms(code)
        choice = next(forms, None)
        if choice and (best is None or ORDER.index(choice.kind) < ORDER.index(best.kind)):
            best, rest = choice, forms
        if best is not None and best.kind == ORDER[0]:
            break

    def others() -> Iterator[Found]:
        search.began, most = time.monotonic(), search.counter.calls + OTHERS
        search.best = None if best is None else best.form
        search.library = search.best and search.best.library
        few = itertools.takewhile(lambda _: search.counter.calls <= most, rest)
        yield from (choice for choice in few if best is not None and _alike(choice, best))

    return best, others


def _alike(choice: Found, best: Found) -> bool:
    """Whether two forms differ in shapes alone, or in what says where tokens stand."""
    one, two = dict(choice.form.roles), dict(best.form.roles)
    return (choice.kind, choice.form.library) == (best.kind, best.form.library) and all(
        one[name] == two[name] for name in one.keys() & two.keys()
    )


def protocol(
    function: Callable[..., Any], method: str, *, dim: int, axes: int, library: str, name: str = ""
) -> Subject:
    """A function whose form is known by a name of `PROTOCOL`, to be asked."""
    search = Search(CallCounter(), dim=dim, axes=axes)
    return _subject_of(
        Found(PROTOCOL[method][0], known(method, function, name or method, library, dim)), search
    )


def _subject_of(
    choice: Found, search: Search, others: Callable[[], Iterator[Found]] | None = None
) -> Subject:
    """A subject of the form that was found."""
    form = choice.form
    how = f"{WORDS[choice.kind]}, {form.words}" + (", which adds its rows to x" * choice.added)
    return Subject(
        choice.kind, how, search.dim, form.library, form.code.name, search.heads,  # type: ignore[arg-type]
        choice, search.counter, others, _axes=search.axes,
    )  # fmt: skip


# --- buffers --------------------------------------------------------------------------------------


def _halves(cache: np.ndarray) -> Any:
    """Rows of cosines beside sines."""
    both = np.split(cache.reshape(-1, cache.shape[-1]), 2, axis=-1)
    return lambda p: tuple(rows[p] for rows in both)


def _turns(values: np.ndarray) -> Any:
    """Frequencies, or rows of cosines and sines as complex numbers or pairs."""
    if values.squeeze().ndim < 2:
        return lambda p: np.exp(1j * p[..., None] * values.reshape(-1))
    pairs = values.dtype.kind != "c" and values.shape[-1] == 2 and values.ndim > 2
    rows = values.reshape(-1, *values.shape[-2 if pairs else -1 :])
    return lambda p: rows[p]


# Buffers by the last part of their names -> what gives the rows of positions.
BUFFERS: tuple[tuple[tuple[str, ...], Callable[..., Any]], ...] = (
    (("^cos(?!.*sin)", "^sin"), lambda *both: _halves(np.concatenate(both, axis=-1))),
    (("cos_sin|^embed_positions$",), _halves),
    (("freqs_|freqs$|^inv_",), _turns),
)


def _of_buffers(arrays: Mapping[str, Any]) -> Callee:
    """Numbers under names that are known, as a function of positions."""
    own = {str(name).rpartition(".")[2]: value for name, value in arrays.items()}
    for names, rows in BUFFERS:
        values = [[own[key] for key in own if re.search(name, key)] for name in names]
        if all(values):
            refuse_if(len(odd := {np.shape(v[0]) for v in values}) > 1, f"ask: shapes {odd} differ")
            return known("table", rows(*(numbers(each[0]) for each in values)), "buffers").code
    expected = "inv_freq, cos_cached and sin_cached, freqs_cis or cos_sin_cache"
    raise CannotAsk(mismatch("ask: buffers", expected, ", ".join(own) or "none"))


# --- pairs ----------------------------------------------------------------------------------------


def _of_pair(maker: Any, apply: Any, search: Search) -> Callee:
    """A function that applies tables, with what makes them."""
    inner = Search(search.counter, dim=search.dim, heads=search.heads, library=search.library)
    codes = list(_codes(maker, inner)[0]())
    if (choice := next(itertools.chain.from_iterable(map(inner.forms, codes)), None)) is None:
        raise refusal(maker, codes, inner)
    code = code_of(apply, tables=_Tables(choice, search.counter))
    known_by_name = code.has("cos", "sin", "tables")
    return code if known_by_name else code._replace(slots=tabled(code.slots, choice.swapped))


class _Tables:
    """What a maker gives for the positions of a call."""

    def __init__(self, choice: Found, counter: CallCounter) -> None:
        self.form, self.swapped, self.counter = choice.form, choice.swapped, counter
        self._made = functools.cache(self._make)

    def __call__(self, asked: Inquiry, whole: bool) -> list[np.ndarray]:
        if self.form.way == "positions" and not whole:
            parts = rows_made(self.form, asked.rows, self.counter)
        else:
            raw, parts = self._made(max(64, 2 ** (asked.end - 1).bit_length()))
            if whole:
                return parts_of(raw)
            parts = [part[0][asked.rows] for part in parts]
        return [np.broadcast_to(p, (len(asked.rows), *p.shape[1:])) for p in parts]

    def _make(self, count: int) -> tuple[Any, list[np.ndarray]]:
        """Tables of so many rows: as they came, and as (1, rows, ...)."""
        refuse_if(
            count > LONGEST, f"{self.form.code.name} makes tables, and {count:,} rows are too many"
        )
        line = Inquiry(None, np.arange(count)[None])
        raw = call(self.form, line, self.counter)
        return raw, as_built(self.form, line, raw)


# --- recordings -----------------------------------------------------------------------------------


def _of_recording(recorded: list[np.ndarray], search: Search) -> Subject:
    """Recorded inputs and outputs, which answer for the tokens that were recorded."""
    x, y, positions = recorded
    refuse_if(x.shape != y.shape or x.ndim < 2, mismatch(
        "ask", "x and y of one shape (..., seq, channels)", f"shapes {x.shape} and {y.shape}",
    ))  # fmt: skip
    kept = dict(zip(_tokens(x, positions), y.reshape(-1, y.shape[-1]), strict=True))

    def recording(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        rows = [kept.get(token) for token in _tokens(x, positions)]
        refuse_if(any(row is None for row in rows),
                  "ask: the recording has no such token at that position")  # fmt: skip
        return np.array(rows).reshape(x.shape)

    search.dim = x.shape[-1]
    return _subject_of(Found("rotary", known("rotary", recording, "recording")), search)


def _tokens(x: np.ndarray, positions: np.ndarray) -> list[tuple[int, bytes]]:
    """Each token and where it stands; positions of rows (batch, seq) are those of all heads."""
    rows = positions[:, None] if positions.ndim == x.ndim - 2 > 1 else positions
    tokens = map(bytes, x.astype(np.float32).reshape(-1, x.shape[-1]))
    return list(zip(map(int, np.broadcast_to(rows, x.shape[:-1]).flat), tokens, strict=True))


# --- subjects of a battery ------------------------------------------------------------------------


def _of_battery(subject: Any, search: Search) -> Subject:
    """A `posenc.testing.Subject`, which says by itself how it is called."""
    search.dim = subject.dim
    search.heads = subject.heads if subject.kind == "bias" else None
    form = known(subject.kind, subject.answer, subject.name, subject.library)

    def codes() -> list[Callee]:
        built = subject.build()

        def answer(*arguments: Any) -> Any:
            plain = [a if role == "x" else numbers(a).astype(np.int64)
                     for a, (_, role) in zip(arguments, form.roles, strict=True)]  # fmt: skip
            return subject.answer(built, *plain, *["float32"] * (subject.kind == "table"))

        return [form.code._replace(function=answer)]

    one = Found(subject.kind, form._replace(code=codes()[0]))
    others = [one._replace(form=one.form._replace(place="bs"))] * (subject.kind == "table")
    choice = _subject_of(one, search, lambda: iter(others))
    choice._anew = functools.partial(_anew, choice, codes)
    return choice

"""Which form somebody's code is called in, by what it does in two calls.

Nothing of what is expected, and no known encoding, takes part: code that is wrong is asked, too. Of
forms that answer the widest is taken, as a narrower one would hide what goes wrong between rows and
heads.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.subject.arrays import LAYOUTS, parts_of
from posenc.detect.subject.assignments import assignments, places_of
from posenc.detect.subject.code import BIASED, Callee, CannotAsk, OtherShape, refuse_if
from posenc.detect.subject.forms import (
    CallCounter,
    Form,
    Inquiry,
    as_built,
    as_turned,
    built,
    call,
    turned,
)

MOST_CALLS, MOST_SECONDS = 1500, 10.0
BATCH, HEADS, SEQ = 4, 3, 5
RUN = np.arange(SEQ)
# Positions of a second call: the third token is another one, too.
JUMPS = np.array([3, 4, 1, 0, 9])
SECOND = {"positions": JUMPS, "tables": JUMPS, "offset": RUN + 2}
INTEGERS = ("int64", "int32", "list")  # what positions are made of, the likeliest first
CLOSE = 1e-4
COARSE = 2.0**-7  # of the largest number, by which half precision rounds


class Found(NamedTuple):
    """A form that answers, and what kind of answer that is."""

    kind: str  # "rotary", "cos_sin", "angles", "table", "bias"
    form: Form
    added: bool = False  # whether the rows of a table are added to x
    first: Any = None  # the first call that was answered, and the answer
    swapped: bool = False  # whether sines come before cosines
    aligned: str = ""  # which queries a bias of lengths has: "last", "first", "square"


class Search:
    """The search for forms of one target."""

    def __init__(
        self, counter: CallCounter, *, dim: int, heads: int | None = None,
        kind: str | None = None, library: str | None = None, layout: str | None = None,
        axes: int = 1, places: Any = None, headed: bool = False,
    ) -> None:  # fmt: skip
        self.counter, self.dim, self.kind, self.axes = counter, dim, kind, axes
        self.places, self.headed = places, headed  # whether each head turns in its own way
        self.heads = heads
        self.library, self.layout = library, layout
        self.tried: list[str] = []
        self.answered = False
        self.best: Form | None = None  # whose further forms are looked for
        self.error: BaseException | None = None  # the first that the code raised
        self.began = time.monotonic()
        rng = np.random.default_rng(0)
        self.token = rng.choice([-1.0, 1.0], dim) * rng.uniform(0.5, 1, dim)

    def spent(self) -> bool:
        """Whether no more calls may be made."""
        return (
            time.monotonic() - self.began > MOST_SECONDS - 1 or self.counter.calls >= MOST_CALLS - 2
        )

    def forms(self, code: Callee) -> Iterator[Found]:
        """Forms of one function that answer, those of its named arguments and the widest first."""
        biased = self.kind == "bias" or (self.kind is None and _is_bias(code))
        for integers in INTEGERS:
            answers = False
            for form in self._variants(code, integers, biased):
                if self.spent():
                    return
                if (choice := self._looked(form, biased)) is not None and self.kind in (
                    None,
                    choice.kind,
                ):
                    answers = True
                    yield choice
            if answers or self.answered:
                return

    def _variants(self, code: Callee, integers: str, biased: bool) -> Iterator[Form]:
        libraries = [self.library] if self.library else code.libraries
        for roles, way in assignments(code, biased=biased):
            inside = {role for _, role in roles}
            layouts = [each for each in LAYOUTS if "qkv" in inside or "3" not in each]
            layouts = [self.layout] if self.layout else sorted(layouts, key=lambda c: "3" not in c)
            layouts = layouts if inside & {"x", "qkv"} else [""]
            # Lazily, as further forms of one that answers are looked for in its library alone.
            both = ((one, axes) for one in libraries if one == (self.library or one)
                    for axes in layouts)  # fmt: skip
            for library, layout in both:
                flat = "f" in layout  # the heads that flat channels are to be parted into
                more = [(s.name, "heads") for s in code.slots if s.role == "heads"] if flat else []
                own = tuple({**dict(roles), **dict(more)}.items())
                for place in places_of(layout, way, biased=biased):
                    form = Form(code, own, library, layout, place, way, self.dim, self.heads or 8,
                                places=self.places)  # fmt: skip
                    if integers == "int64" or (way == "positions" and _named(form)):
                        yield form._replace(integers=integers)

    def _looked(self, form: Form, biased: bool) -> Found | None:
        try:
            return self._bias(form) if biased else self._seen(form)
        except Exception as error:  # noqa: BLE001 - whatever other people's code raises
            own = type(error) is CannotAsk
            self.error = self.error or (None if own else error)
            if own and "became" not in str(error) and not self.answered:
                self.answered, self.tried = True, []  # what it answers says more than an error
            self.tried.append(said(error))
            return None

    def _first(self, form: Form, line: np.ndarray) -> Inquiry:
        """Equal tokens, or none, along a line; those of later rows are larger."""
        joint = form.place == "bs" if not form.layout else {"b", "t"} & {*form.layout}
        batch = BATCH if joint else 1
        rows = np.repeat(line[None], batch, axis=0)
        rows = rows if self.axes == 1 else np.stack([rows] * self.axes, axis=-1)
        if not form.layout:
            return Inquiry(None, rows)
        heads = (self.heads or HEADS) if {"h", "f"} & {*form.layout} else 1
        return Inquiry(
            np.broadcast_to(self.token, (batch, heads, len(line), self.dim))
            * np.arange(1, batch + 1)[:, None, None, None],
            rows,
        )

    def _seen(self, form: Form) -> Found:
        first = self._first(form, RUN)
        raw = call(form, first, self.counter)
        if form.layout:
            try:
                y = as_turned(form, first, raw)[0]
            except CannotAsk:
                y = None
            if y is not None and (choice := self._of_tokens(form, first, y)):
                return choice
        parts = as_built(form, first, raw)
        if form.layout:  # numbers of its positions alone
            again = built(form, first._replace(x=first.x[..., ::-1] * 0.5), self.counter)  # type: ignore[index]
            refuse_if(
                max(_most(a - b) for a, b in zip(parts, again, strict=True)) > CLOSE,
                "what it returns has the shape of no encoding of x",
            )
        return self._of_positions(form, parts)

    # --- functions of tokens ----------------------------------------------------------------------

    def _of_tokens(self, form: Form, first: Inquiry, y: np.ndarray) -> Found | None:
        x: Any = first.x
        double = y[1] if len(x) > 1 else self._turned(form, first._replace(x=2 * x))[0]
        if np.abs(double - y[0]).max() <= CLOSE:
            return None
        found, zero = Found("rotary", form, first=(first, y)), np.zeros_like(x)
        if np.median(np.abs(double - 2 * y[0])) > CLOSE:
            zero = self._turned(form, first._replace(x=zero))
            scale = (y - zero) / x
            if (
                _most(scale - np.median(scale)) <= CLOSE * max(1.0, _most(scale))
                and _most(zero[:, :, 1:] - zero[:, :, :1]) > 1e-6
            ):
                found, y = Found("table", form, added=True), zero
        _moves(y[:, :1] if self.headed else y)
        refuse_if(
            found.added and np.ptp(y, axis=-1).max() <= 1e-6, "it adds one number to all channels"
        )

        def second(line: np.ndarray) -> np.ndarray:
            other = self._first(form, line)
            tokens: Any = other.x
            tokens[:, :, 2] = tokens[:, :, 2, ::-1] * 0.75
            again = self._turned(form, other._replace(x=tokens * (not found.added)))
            if not found.added:
                both = (x[0, 0, 2], y[0, 0, line[2]]), (tokens[0, 0, 2], again[0, 0, 2])
                one, two = (out / token for token, out in both)
                refuse_if(
                    np.abs(one - two).max() <= CLOSE,
                    "each channel is multiplied by itself, and none by another one",
                )
                # A product of matrices may round rows by where they stand. What turns by as little
                # as that, and be it wrong, scales each channel, or else all tokens, alike.
                gains = [float(np.linalg.norm(out) / np.linalg.norm(token)) for token, out in both]
                refuse_if(
                    _most(y[:, :, 1:] - y[:, :, :1]) <= COARSE * _most(y)
                    and abs(gains[0] - gains[1]) > 2 * COARSE * max(gains)
                    and np.abs(one - two).max() > 8 * COARSE * max(gains),
                    "equal tokens differ along the sequence by rounding alone, and some tokens "
                    "grow more than others",
                )
            return again[0, 0]

        self._repeats(form, y[0, 0], second, RUN)
        return found

    def _turned(self, form: Form, asked: Inquiry) -> np.ndarray:
        return turned(form, asked, self.counter)[0]

    def _repeats(
        self, form: Form, first: np.ndarray, second: Callable[[np.ndarray], np.ndarray],
        line: np.ndarray,
    ) -> None:  # fmt: skip
        """What stood at some position must come out alike in a second call."""
        line = SECOND.get(form.way, line)
        # In another layout than the best form's, code may turn tokens by whichever positions.
        named = _named(form) and (self.best is None or self.best.layout == form.layout)
        try:
            again = second(line)
        except Exception as error:
            if type(error) is CannotAsk or (form.way == "positions" and not named):
                raise
            return
        refuse_if(
            not _follows(first, again, line, named, form.way),
            "the same position gets other numbers in another call",
        )

    # --- functions of positions -------------------------------------------------------------------

    def _of_positions(self, form: Form, parts: list[np.ndarray]) -> Found:
        alike = [
            sum(all(_most(p[:, i] - p[:, j]) <= 1e-7 for p in parts) for j in RUN) for i in RUN
        ]
        pairs = pairs_of(parts)
        for bad, says in (
            (not any(np.isfinite(part).any() for part in parts), "it returns no finite numbers"),
            (max(_most(part[:, 1:] - part[:, :1]) for part in parts) <= 1e-7,
             "all positions get the same numbers"),
            (max(alike) > SEQ // 2 and not _named(form), "most positions get the same numbers"),
            (max(_most(part - part[..., :1]) for part in parts) <= 1e-7,
             "each position gets one number alone"),
            (pairs is None and (len(parts) > 1 or parts[0].ndim > 3),
             f"it returns {len(parts)} arrays of {parts[0].ndim - 1} axes, which are no rows"),
        ):  # fmt: skip
            refuse_if(bad, says)
        kind = "cos_sin" if pairs else "angles" if _linear(parts[0][0]) else "table"

        def second(line: np.ndarray) -> np.ndarray:
            rows = built(form, self._first(form, line), self.counter)[0]
            refuse_if(
                rows.shape[2:] != parts[0].shape[2:],
                "the width of what it returns changes with the length",
            )
            return rows.reshape(*rows.shape[:2], -1)[0]

        self._repeats(
            form, parts[0].reshape(*parts[0].shape[:2], -1)[0], second, np.arange(SEQ + 2)
        )
        one, two = (
            np.median(half[:, 0]) for half in (pairs or np.array_split(parts[0], 2, axis=-1))
        )
        return Found(kind, form, swapped=bool(one < 0.5 < two))

    # --- biases -----------------------------------------------------------------------------------

    def _bias(self, form: Form) -> Found:
        q, k = np.arange(5)[None], np.arange(7)[None]
        placed = form.has("q_positions", "k_positions", "distances")
        whole = biases(form, Inquiry(None, q if placed else k, keys=k), self.counter)
        finite = np.where(np.isfinite(whole), whole, 0.0)
        refuse_if(
            np.isfinite(whole).any() and np.abs(finite - finite[..., :1]).max() <= 1e-9,
            "all keys get the same number",
        )
        if placed or form.way != "counted":
            return Found("bias", form, aligned="" if placed else "square")
        try:
            part = biases(form, Inquiry(None, q, keys=k), self.counter)
        except Exception:  # noqa: BLE001 - it takes one length
            return Found("bias", form, aligned="square")
        near = {"last": whole[:, -q.size :], "first": whole[:, : q.size], "square": np.inf}
        off = {name: np.median(np.abs(np.nan_to_num(part - rows, posinf=9.0, neginf=9.0)))
               for name, rows in near.items()}  # fmt: skip
        return Found("bias", form, aligned=next((n for n in off if off[n] <= CLOSE), "square"))


def biases(form: Form, asked: Inquiry, counter: CallCounter) -> np.ndarray:
    """What a function of queries and keys returns, (heads, queries, keys)."""
    parts = parts_of(call(form, asked, counter))
    q, k = asked.rows.shape[1], asked.keys.shape[1]  # type: ignore[union-attr]
    out = parts[0] if len(parts) == 1 else np.zeros(0)
    if out.ndim >= 2 and out.size and out.shape[-1] == k and out.shape[-2] in (1, q):
        lead = out.reshape(-1, *out.shape[-2:])
        return np.broadcast_to(lead, (len(lead), q, k))
    if out.ndim == 3 and out.shape[:2] == (q, k):  # heads last
        return np.moveaxis(out, -1, 0)
    received = tuple(out.shape) if len(parts) == 1 else f"{len(parts)} arrays"
    raise OtherShape(f"{q} queries and {k} keys became {received}")


def said(error: BaseException) -> str:
    """An error in few words, with its class where it is not ours."""
    name = "" if isinstance(error, CannotAsk) else f"{type(error).__name__}: "
    return f"{name}{' '.join(str(error).split())[:120]}"


def _most(off: np.ndarray) -> float:
    """The largest size of numbers, those that are none left out."""
    return float(np.abs(off[np.isfinite(off)]).max(initial=0.0))


def _moves(y: np.ndarray) -> None:
    """Equal tokens must come out unlike along the sequence, and alike in some heads."""
    refuse_if(not np.isfinite(y).any(), "it returns no finite numbers")
    # A product of matrices in float32 may round equal rows differently, by where they stand.
    rounding = 1e-6 * max(1.0, _most(y))
    refuse_if(
        _most(y[:, :, 1:] - y[:, :, :1]) <= rounding,
        "equal tokens come out equal at every position",
    )
    off = [
        _most(y[:, i] - y[:, j]) for i, j in itertools.combinations(range(min(y.shape[1], 8)), 2)
    ]
    refuse_if(off and min(off) > CLOSE, "equal heads come out different")


def _named(form: Form) -> bool:
    """Whether the name of an argument says that it takes positions, or where they begin."""
    own = {slot.name: slot.role for slot in form.code.slots}
    return any(role == form.way == own[name] for name, role in form.roles)


def _follows(first: np.ndarray, again: np.ndarray, line: np.ndarray, named: bool, way: str) -> bool:
    """Whether tokens at positions of the first call come out as they did there."""
    same = np.array([[_most(a - b) for b in first] for a in again]) <= CLOSE * max(1, _most(first))
    tokens = [i for i in range(len(line)) if i != 2 or way == "length"]
    # Code that remembers turns other tokens otherwise; by name it is asked all the same.
    stated = [same[i, line[i]] for i in tokens if (0 if named else 1) <= line[i] < len(first)]
    if way in ("counted", "packed"):
        return any(stated[1:])
    # A name says what it takes; that it does not heed it is a fault to be found.
    return any(stated) or (named and same[tokens].any(axis=1).sum() > len(tokens) // 2)


def _linear(rows: np.ndarray) -> bool:
    """Whether most columns grow by equal steps from 0 on: angles."""
    step = rows[1]
    columns = (
        np.abs(rows - np.arange(len(rows))[:, None] * step) <= 1e-4 * (1 + np.abs(rows))
    ).all(axis=0) & (step != 0)
    return bool(np.mean(columns) >= 0.75) and float(np.abs(rows[0]).max()) <= 1e-6


def pairs_of(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Cosines and sines (batch, seq, width) of what a function returned, where it is both."""
    one = parts[0]
    if len(parts) == 2 and one.shape == parts[1].shape and one.dtype.kind != "c":
        cos, sin = parts
    elif len(parts) > 1:
        return None
    elif one.dtype.kind == "c":
        cos, sin = one.real, one.imag
    elif one.ndim == 5 and one.shape[-2:] == (2, 2):  # matrices of pairs
        cos, sin = one[..., 0, 0], one[..., 1, 0]
    elif one.ndim == 4 and 2 in (one.shape[-1], one.shape[2]):
        cos, sin = np.moveaxis(one, -1 if one.shape[-1] == 2 else 2, 0)
    else:
        return None
    return (cos, sin) if cos.ndim == 3 else None


def _is_bias(code: Callee) -> bool:
    return (
        (code.has("q_positions", "q_len") and code.has("k_positions", "k_len"))
        or (code.has("distances") and not code.has("x", "positions"))
        or bool(BIASED.search(code.name) and code.has("x") <= code.has("key", "positions"))
    )

"""Which form somebody's code is called in, by what it does in two calls.

Nothing of what is expected, and no known encoding, takes part: code that is wrong is asked, too. Of
forms that answer the widest is taken, as a narrower one would hide what goes wrong between rows and
heads.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.subject.arrays import LAYOUTS, parts_of
from posenc.detect.subject.assignments import assignments, places_of
from posenc.detect.subject.code import BIASED, Callee, CannotAsk, OtherShape
from posenc.detect.subject.forms import CallCounter, Form, Inquiry, call
from posenc.detect.subject.forms import built as made_by
from posenc.detect.subject.forms import turned as turned_by

MOST_CALLS, MOST_SECONDS = 1500, 10.0
BATCH, HEADS, SEQ = 4, 3, 5
RUN = np.arange(SEQ)
JUMPS = np.array([3, 4, 1, 0, 9])  # the third token is another one, too
CLOSE = 1e-4


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
        self, counter: CallCounter, *, dim: int, heads: int | None, kind: str | None,
        library: str | None, layout: str | None, axes: int = 1,
    ) -> None:  # fmt: skip
        self.counter, self.dim, self.kind, self.axes = counter, dim, kind, axes
        self.heads = heads
        self.library, self.layout = library, layout
        self.tried: list[str] = []
        self.answered = False
        self.error: BaseException | None = None  # the first that the code raised
        self.began = time.monotonic()
        rng = np.random.default_rng(0)
        self.token = rng.choice([-1.0, 1.0], dim) * rng.uniform(0.5, 1, dim)

    def spent(self) -> bool:
        """Whether no more calls may be made."""
        late = time.monotonic() - self.began > MOST_SECONDS - 1
        return late or self.counter.calls >= MOST_CALLS - 2

    def forms(self, code: Callee) -> Iterator[Found]:
        """Forms of one function that answer, those of its named arguments and the widest first."""
        biased = self.kind == "bias" or (self.kind is None and _is_bias(code))
        for roles, way in assignments(code, biased=biased):
            for form in self._variants(code, roles, way, biased=biased):
                if self.spent():
                    return
                found = self._looked(form, biased=biased)
                if found is not None and self.kind in (None, found.kind):
                    yield found

    def _variants(
        self, code: Callee, roles: tuple[tuple[str, str], ...], way: str, *, biased: bool
    ) -> Iterator[Form]:
        libraries = [self.library] if self.library else code.libraries
        inside = {role for _, role in roles}
        layouts: Sequence[str] = ("",)
        if "x" in inside:
            layouts = [self.layout] if self.layout else LAYOUTS
        for library, layout in itertools.product(libraries, layouts):
            own = roles
            if "f" in layout:  # the heads that flat channels are to be parted into
                own += tuple((s.name, "heads") for s in code.slots
                             if s.role == "heads" and s.name not in dict(roles))  # fmt: skip
            for place in places_of(layout, way, biased=biased):
                yield Form(code, own, library, layout, place, way, self.dim, self.heads or 8)

    def _looked(self, form: Form, *, biased: bool) -> Found | None:
        try:
            if biased:
                return self._bias(form)
            if form.layout:
                return self._of_tokens(form)
            return self._of_positions(form)
        except Exception as error:  # noqa: BLE001 - whatever other people's code raises
            own = type(error) is CannotAsk
            self.error = self.error or (None if own else error)
            if own and "became" not in str(error) and not self.answered:
                self.answered, self.tried = True, []  # what it answers says more than an error
            self.tried.append(said(error))
            return None

    # --- functions of tokens ----------------------------------------------------------------------

    def _x(self, form: Form) -> np.ndarray:
        batch = BATCH if "b" in form.layout or "t" in form.layout else 1
        heads = (self.heads or HEADS) if "h" in form.layout or "f" in form.layout else 1
        x = np.broadcast_to(self.token, (batch, heads, SEQ, self.dim)).copy()
        return x * np.arange(1, batch + 1)[:, None, None, None]

    def _rows(self, line: np.ndarray, batch: int) -> np.ndarray:
        rows = np.repeat(line[None], batch, axis=0)
        return rows if self.axes == 1 else np.stack([rows] * self.axes, axis=-1)

    def _of_tokens(self, form: Form) -> Found | None:
        x = self._x(form)
        first = Inquiry(x, self._rows(RUN, len(x)))
        raw = call(form, first, self.counter)
        try:
            y = turned_by(form._replace(code=_answered(form.code, raw)), first, CallCounter())[0]
        except CannotAsk:
            return self._carrying(form, first, raw)
        double = (
            y[1] if len(x) > 1 else turned_by(form, first._replace(x=2 * x), self.counter)[0][0]
        )
        if np.abs(double - y[0]).max() <= CLOSE:
            return self._carrying(form, first, raw)
        if np.median(np.abs(double - 2 * y[0])) > CLOSE and self._adds(form, first, y):
            found = Found("table", form, added=True)
            y = x + self._at_zero
        else:
            found = Found("rotary", form, first=(first, y))
        self._moves(y - x if found.added else y)
        if found.added and np.ptp(y - x, axis=-1).max() <= 1e-6:
            raise CannotAsk("it adds one number to all channels")
        self._repeats(form, x, y, added=found.added)
        return found

    def _adds(self, form: Form, asked: Inquiry, y: np.ndarray) -> bool:
        """Whether rows are added to x, as it stands or scaled: what becomes of zeros."""
        zeros = asked._replace(x=np.zeros_like(asked.x))
        self._at_zero = turned_by(form, zeros, self.counter)[0]
        scale = (y - self._at_zero) / asked.x
        alike = _most(scale - np.median(scale)) <= CLOSE * max(1.0, _most(scale))
        return alike and _most(self._at_zero[:, :, 1:] - self._at_zero[:, :, :1]) > 1e-6

    def _moves(self, y: np.ndarray) -> None:
        """Equal tokens must come out unlike along the sequence, and alike in some heads."""
        if not np.isfinite(y).any():
            raise CannotAsk("it returns no finite numbers")
        if _most(y[:, :, 1:] - y[:, :, :1]) <= 1e-7:
            raise CannotAsk("equal tokens stay equal wherever they stand")
        heads = y.shape[1]
        off = [_most(y[:, i] - y[:, j])
               for i, j in itertools.combinations(range(min(heads, 8)), 2)]  # fmt: skip
        if off and min(off) > CLOSE:
            raise CannotAsk("equal heads come out unlike")

    def _repeats(self, form: Form, x: np.ndarray, y: np.ndarray, *, added: bool) -> None:
        """Some tokens of the first call, in another one, must come out as they did."""
        other = x.copy()
        other[:, :, 2] = other[:, :, 2, ::-1] * 0.75
        line = {"positions": JUMPS, "tables": JUMPS, "offset": RUN + 2}.get(form.way, RUN)
        other = 0 * x if added else other
        y = y - x if added else y
        try:
            again = turned_by(form, Inquiry(other, self._rows(line, len(x))), self.counter)[0]
        except Exception as error:
            if form.way == "positions" and not _named(form):
                raise CannotAsk(f"it refuses positions that jump ({error})") from error
            return
        if not _follows(y[0, 0], again[0, 0], line, named=_named(form), way=form.way):
            raise CannotAsk("the same token at the same position comes out otherwise")
        if added:
            return
        each = [
            a / b for a, b in ((y[0, 0, line[2]], x[0, 0, 2]), (again[0, 0, 2], other[0, 0, 2]))
        ]
        if np.abs(each[0] - each[1]).max() <= CLOSE:
            raise CannotAsk("each channel is multiplied by itself, and none by another one")

    def _carrying(self, form: Form, asked: Inquiry, raw: Any) -> Found | None:
        """Functions that take x, and return numbers of its positions alone."""
        parts = made_by(form._replace(code=_answered(form.code, raw)), asked, CallCounter())
        other = asked._replace(x=asked.x[..., ::-1] * 0.5)  # type: ignore[index]
        again = made_by(form, other, self.counter)
        if max(np.abs(a - b).max() for a, b in zip(parts, again, strict=True)) > CLOSE:
            raise CannotAsk("what it returns has the shape of no encoding of x")
        return self._kind_of(form, parts)

    # --- functions of positions -------------------------------------------------------------------

    def _of_positions(self, form: Form) -> Found | None:
        rows = self._rows(RUN, BATCH if form.place == "bs" else 1)
        return self._kind_of(form, made_by(form, Inquiry(None, rows), self.counter))

    def _kind_of(self, form: Form, parts: list[np.ndarray]) -> Found | None:
        if not any(np.isfinite(part).any() for part in parts):
            raise CannotAsk("it returns no finite numbers")
        if max(_most(part[:, 1:] - part[:, :1]) for part in parts) <= 1e-7:
            raise CannotAsk("all positions get the same numbers")
        alike = sum(all(_most(p[:, i] - p[:, i - 1]) <= 1e-7 for p in parts) for i in range(1, SEQ))
        if alike > SEQ // 2 and not _named(form):
            raise CannotAsk("most positions get the same numbers")
        if max(_most(part - part[..., :1]) for part in parts) <= 1e-7:
            raise CannotAsk("each position gets one number alone")
        kind = "cos_sin"
        pairs = pairs_of(parts)
        if pairs is None:
            if len(parts) > 1:
                raise CannotAsk(f"it returns {len(parts)} arrays of unlike shapes")
            rows = parts[0][0]
            if rows.ndim > 2:
                raise CannotAsk(f"it returns an array of {rows.ndim} axes")
            kind = "angles" if _linear(rows) else "table"
        self._steady(form, parts)
        ends = [float(np.median(part[:, 0])) for part in pairs or ()]
        return Found(kind, form, swapped=bool(ends) and ends[0] < 0.5 < ends[1])

    def _steady(self, form: Form, parts: list[np.ndarray]) -> None:
        """The numbers of some positions must be the same in another call."""
        batch = len(parts[0])
        line = {"positions": JUMPS, "offset": RUN + 2, "length": np.arange(SEQ + 2)}.get(form.way)
        if line is None:
            line = np.arange(SEQ + 2)
        x = None
        if form.layout:
            x = self._x(form)
            more = np.repeat(x[:, :, :1], len(line), axis=2)
            x, batch = more, len(x)
        try:
            again = made_by(form, Inquiry(x, self._rows(line, max(batch, 1))), self.counter)
        except Exception as error:
            if form.way == "positions" and not _named(form):
                raise CannotAsk(f"it refuses positions that jump ({error})") from error
            return
        flat = [part.reshape(*part.shape[:2], -1) for part in (parts[0], again[0])]
        if flat[0].shape[-1] != flat[1].shape[-1]:
            raise CannotAsk("the width of what it returns changes with the length")
        if not _follows(flat[0][0], flat[1][0], line, named=_named(form), way=form.way):
            raise CannotAsk("the same position gets other numbers in another call")

    # --- biases -----------------------------------------------------------------------------------

    def _bias(self, form: Form) -> Found | None:
        queries, keys = 5, 7
        q, k = np.arange(queries)[None], np.arange(keys)[None]
        lengths = not {"q_positions", "k_positions", "distances"} & {role for _, role in form.roles}
        if (lengths and not form.code.has("q_len", "k_len")) or form.way == "length":
            values = biases(form, Inquiry(None, k, keys=k), self.counter)
            _varies(values)
            return Found("bias", form, aligned="square")
        if not lengths:
            _varies(biases(form, Inquiry(None, q, keys=k), self.counter))
            return Found("bias", form)
        whole = biases(form, Inquiry(None, k, keys=k), self.counter)
        _varies(whole)
        try:
            part = biases(form, Inquiry(None, q, keys=k), self.counter)
        except Exception:  # noqa: BLE001 - it takes one length
            return Found("bias", form, aligned="square")
        near = {"last": whole[:, -queries:], "first": whole[:, :queries]}
        off = {name: np.median(np.abs(np.nan_to_num(part - rows, posinf=9.0, neginf=9.0)))
               for name, rows in near.items()}  # fmt: skip
        best = min(off, key=lambda name: off[name])
        return Found("bias", form, aligned=best if off[best] <= CLOSE else "square")


def biases(form: Form, asked: Inquiry, counter: CallCounter) -> np.ndarray:
    """What a function of queries and keys returns, (heads, queries, keys)."""
    parts = parts_of(call(form, asked, counter))
    q, k = asked.rows.shape[1], asked.keys.shape[1]  # type: ignore[union-attr]
    out = parts[0] if len(parts) == 1 else np.zeros(0)
    if out.ndim >= 2 and out.shape[-1] == k and out.shape[-2] in (1, q):
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


def _varies(values: np.ndarray) -> None:
    finite = np.where(np.isfinite(values), values, 0.0)
    if np.isfinite(values).any() and np.abs(finite - finite[..., :1]).max() <= 1e-9:
        raise CannotAsk("all keys get the same number")


def _answered(code: Callee, raw: Any) -> Callee:
    """Callee that has answered already."""
    return code._replace(function=lambda *_, **__: raw)


def _named(form: Form) -> bool:
    """Whether the name of an argument says that it takes positions, or where they begin."""
    roles = {slot.name: slot.role for slot in form.code.slots}
    return any(role == form.way and roles[name] == role for name, role in form.roles)


def _follows(
    first: np.ndarray, again: np.ndarray, line: np.ndarray, *, named: bool, way: str
) -> bool:
    """Whether tokens at positions of the first call come out as they did there."""
    size = CLOSE * max(1.0, _most(first))

    def same(i: int, j: int) -> bool:
        return bool(_most(again[i] - first[j]) <= size)

    tokens = [i for i in range(len(line)) if i != 2 or way == "length"]
    # Callee that remembers turns other tokens otherwise; by name it is asked all the same.
    stated = [same(i, int(line[i])) for i in tokens if (0 if named else 1) <= line[i] < len(first)]
    if way in ("counted", "packed"):
        return any(stated[1:])
    if any(stated):
        return True
    # A name says what it takes; that it does not heed it is a fault to be found.
    listed = sum(any(same(i, j) for j in range(len(first))) for i in tokens)
    return named and listed > len(tokens) // 2


def _linear(rows: np.ndarray) -> bool:
    """Whether most columns grow by equal steps from 0 on: angles."""
    step = rows[1]
    off = np.abs(rows - np.arange(len(rows))[:, None] * step)
    columns = (off <= 1e-4 * (1 + np.abs(rows))).all(axis=0) & (step != 0)
    return bool(np.mean(columns) >= 0.75) and float(np.abs(rows[0]).max()) <= 1e-6


def pairs_of(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Cosines and sines (batch, seq, width) of what a function returned, where it is both."""
    if len(parts) == 2 and parts[0].shape == parts[1].shape and parts[0].dtype.kind != "c":
        cos, sin = parts
    elif len(parts) == 1 and parts[0].dtype.kind == "c":
        cos, sin = parts[0].real, parts[0].imag
    elif len(parts) == 1 and parts[0].ndim == 5 and parts[0].shape[-2:] == (2, 2):
        cos, sin = parts[0][..., 0, 0], parts[0][..., 1, 0]  # matrices of pairs
    elif len(parts) == 1 and parts[0].ndim == 4 and parts[0].shape[-1] == 2:
        cos, sin = parts[0][..., 0], parts[0][..., 1]
    elif len(parts) == 1 and parts[0].ndim == 4 and parts[0].shape[2] == 2:
        cos, sin = parts[0][:, :, 0], parts[0][:, :, 1]
    else:
        return None
    return (cos, sin) if cos.ndim == 3 else None


def _is_bias(code: Callee) -> bool:
    both = code.has("q_positions", "q_len") and code.has("k_positions", "k_len")
    both = both or (code.has("distances") and not code.has("x", "positions"))
    return both or (bool(BIASED.search(code.name)) and code.has("x") == code.has("key"))

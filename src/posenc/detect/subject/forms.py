"""A form of a call: what stands for which argument, in which layout; and the call itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from posenc._core.guard import foreign
from posenc.detect.subject.arrays import (
    AXES,
    carried,
    dtype_in,
    laid,
    library_of,
    numbers,
    parts_of,
    pieces_of,
    unlaid,
)
from posenc.detect.subject.code import BASE, Callee, CannotAsk, OtherShape, Role, Slot, refuse_if

# How rows of positions are handed over: rows, one row, a row with an axis in front, a column; all
# tokens; an offset as an int, an array for all rows, or one number in an array.
PLACES = ("bs", "s", "1s", "s1")
PLACED = ("positions", "q_positions", "k_positions")  # roles
OFFSETS = ("int", "b", "0")
# Axes of tables that are handed over, w being their width.
SHAPES = ("sw", "bsw", "1sw", "s1w", "11sw", "b1sw", "bs1w", "1s1w")


@dataclass
class CallCounter:
    """Calls so far, and whether one of them changed the positions that it was given."""

    calls: int = 0
    written: bool = False


class Raised(CannotAsk):
    """What somebody's code raises, as words; its own error is the cause."""


class Inquiry(NamedTuple):
    """What a call is about."""

    x: np.ndarray | None  # (batch, heads, seq, channels)
    rows: np.ndarray  # (batch, seq) or (batch, seq, axes)
    dtype: str = "float32"
    strided: bool = False
    keys: np.ndarray | None = None  # positions of keys, of a bias
    native: bool = False  # whether x is an array of the library already
    groups: int = 1  # heads of queries for each head of keys

    @property
    def end(self) -> int:
        """One more than the largest position."""
        return int(self.rows.max(initial=-1)) + 1


SHOWN = {"mask": "ones"}  # in what is said of a call


class Form(NamedTuple):
    """How something is called."""

    code: Callee
    roles: tuple[tuple[str, str], ...]  # names of arguments, and what stands there
    library: str
    layout: str = ""  # of x; nothing where it takes none
    place: str = ""  # of positions, offsets or tables
    way: str = "counted"  # what says where tokens stand
    dim: int = 64
    heads: int = 8
    integers: str = "int64"  # of positions; or lists of them
    places: Any = None  # coordinates (count, axes) that positions number, where they are no numbers

    @property
    def words(self) -> str:
        """The same for people."""
        inside = ", ".join(name if role in ("", name) else f"{name} = {SHOWN.get(role, role)}"
                           for name, role in self.roles)  # fmt: skip
        axes = f" of shape ({', '.join(AXES[c] for c in self.layout)})" if self.layout else ""
        shape = {"bs": " (batch, seq)", "s": " (seq,)", "1s": " (1, seq)", "t": " (tokens,)",
                 "s1": " (seq, 1)"}.get(self.place, "")  # fmt: skip
        says = {"positions": f"positions{shape}", "offset": "an offset", "packed": "ends of rows",
                "length": "a length", "tables": "tables of positions",
                "counted": "positions counted from 0"}[self.way]  # fmt: skip
        says = "their numbers" if self.has("q_len") else says
        says = "positions of each" if self.has("q_positions") else says
        return f"called as {self.code.name}({inside}) with {self.library} arrays{axes}, {says}"

    def arguments(self, asked: Inquiry) -> tuple[list[Any], dict[str, Any]]:
        """What is handed over: in its place until something is left out, by its name after that."""
        named = {
            name: VALUES[role](self, asked) if role in VALUES else None for name, role in self.roles
        }
        lead = takewhile(
            lambda s: s.positional or (s.name in named and not s.keyword), self.code.slots
        )
        passed = [named.pop(slot.name) for slot in lead if slot.name in named]
        return passed, named

    def tokens(self, asked: Inquiry, size: float) -> Any:
        """Queries, or as many tokens of another size; ones where it does not matter which."""
        batch, seq = asked.rows.shape[:2]
        x = np.ones((batch, 1, seq, self.dim)) if asked.x is None else asked.x
        if "3" in self.layout:
            plain = self._replace(layout=self.layout.replace("3", ""))
            return library_of(self.library).stack(
                [plain.tokens(asked._replace(groups=1), part) for part in (size, 0.5, 0.25)],
                self.layout.index("3"),
            )
        array = laid(x if size == 1 else x[:, :: asked.groups] * size, self.layout)
        if asked.native:
            return array
        if not asked.strided:
            return carried(np.ascontiguousarray(array), self.library, asked.dtype)
        # More channels in memory, and its axes in another order.
        wide = np.ascontiguousarray(np.concatenate([array, array], axis=-1).swapaxes(0, -2))
        return carried(wide, self.library, asked.dtype).swapaxes(0, -2)[..., : array.shape[-1]]

    def placed(self, rows: np.ndarray) -> Any:
        """Positions, or the first of each row, in their shape."""
        rows = self.coordinates(rows)
        one = rows[0]
        shaped = {
            "bs": rows, "s": one, "1s": one[None], "s1": one[:, None], "": one, "b": rows[:, 0],
            "0": one[0], "int": one[0], "t": rows.reshape(-1, *rows.shape[2:]),
        }[self.place]  # fmt: skip
        return (
            shaped.tolist()
            if self.place == "int" or self.integers == "list"
            else carried(shaped, self.library, None if self.integers == "int64" else self.integers)
        )

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """What positions number, where they number something."""
        return numbered(self.places, rows)

    def ends(self, line: Any, axis: int) -> Any:
        """Positions of queries or keys; along their own axis where a score is handed over."""
        rows = self.coordinates(line[0] if len(line) == 1 else line)
        return carried(np.expand_dims(rows, axis) if self.has("score") else rows, self.library)

    def has(self, *roles: str) -> bool:
        """Whether something stands for one of some roles."""
        return any(role in roles for _, role in self.roles)

    def tables(self, role: str, asked: Inquiry) -> Any:
        """What the maker of a pair gives: as it came, or the rows of these positions."""
        whole = self.way == "positions"
        parts = self.code.tables(asked, whole)
        if role != "tables" and len(parts) == 1:
            parts = np.array_split(parts[0], 2, axis=-1)
        built = [
            carried(part, self.library, "complex64" if part.dtype.kind == "c" else "float32")
            for part in (parts if whole else [shape_of(part, self.place) for part in parts])
        ]
        if role in ("cos", "sin"):
            return built[-1 if (role == "cos") == self.code.tables.swapped else 0]
        return built[0] if len(built) == 1 else tuple(built)

    def count(self, asked: Inquiry) -> Any:
        """The number of heads; each of them along an axis where a score is handed over."""
        heads = self.heads if asked.x is None else asked.x.shape[1]
        return (
            carried(np.arange(heads)[:, None, None], self.library) if self.has("score") else heads
        )


# A form that is known by a name -> its kind, its arguments, the order of axes of x, how positions
# are shaped.
PROTOCOL: dict[str, tuple[str, tuple[Role, ...], str, str]] = {
    "rotate": ("rotary", ("x", "positions"), "bhsd", "s"),
    "rotate_tokens": ("rotary", ("x", "positions"), "bshd", "s"),
    "rotary": ("rotary", ("x", "positions"), "bhsd", "bs"),
    "cos_sin": ("cos_sin", ("positions",), "", "s"),
    "table": ("table", ("positions",), "", "s"),
    "bias": ("bias", ("q_positions", "k_positions"), "", ""),
    "tokens": ("rotary", ("positions", "x", "key"), "tf", "t"),  # of all rows, as engines have them
    "module": ("cos_sin", ("x", "positions"), "bsd", "bs"),
    "module_of_row": ("cos_sin", ("x", "positions"), "bsd", "s"),
}


def known(
    method: str, function: Callable[..., Any], name: str, library: str = "numpy", dim: int = 64
) -> Form:
    """The form of a function that takes what it is asked by."""
    _, roles, layout, place = PROTOCOL[method]
    return Form(
        Callee(
            function,
            name,
            tuple(Slot(role, role, required=True, positional=True) for role in roles),
            (library,),
        ),
        tuple((role, role) for role in roles),
        library,
        layout,
        place,
        "positions",
        dim,
    )


# What stands for an argument of each role.
VALUES: dict[str, Callable[[Form, Inquiry], Any]] = {
    "x": lambda form, asked: form.tokens(asked, 1.0),
    "qkv": lambda form, asked: form.tokens(asked, 1.0),
    "key": lambda form, asked: form.tokens(asked, 0.5),
    "value": lambda form, asked: form.tokens(asked, 0.25),
    "positions": lambda form, asked: form.placed(asked.rows),
    "offset": lambda form, asked: form.placed(asked.rows) if form.way == "offset" else 0,
    "packed": lambda form, asked: carried(
        np.arange(len(asked.rows) + 1, dtype=np.int32) * np.int32(asked.rows.shape[1]), form.library
    ),
    "cos": lambda form, asked: form.tables("cos", asked),
    "sin": lambda form, asked: form.tables("sin", asked),
    "tables": lambda form, asked: form.tables("tables", asked),
    # The same token everywhere, and no padding.
    "tokens": lambda form, asked: carried(np.full(asked.rows.shape[:2], 5), form.library),
    "mask": lambda form, asked: carried(np.ones(asked.rows.shape[:2], np.int64), form.library),
    "shape": lambda _, asked: asked.rows.shape[:2],
    "distances": lambda form, asked: carried(
        form.coordinates(_keys(asked)[0])[None, :] - form.coordinates(asked.rows[0])[:, None],
        form.library,
    ),
    "q_positions": lambda form, asked: form.ends(asked.rows, 1),
    "k_positions": lambda form, asked: form.ends(asked.keys, 0),
    "q_len": lambda _, asked: asked.rows.shape[-1],
    "k_len": lambda _, asked: int(_keys(asked).max()) + 1,
    "length": lambda form, asked: (
        asked.rows.shape[1] if form.way in ("counted", "offset") else asked.end
    ),
    "dim": lambda form, asked: form.dim if asked.x is None else asked.x.shape[3],
    "heads": lambda form, asked: form.count(asked),
    "axis": lambda form, _: form.layout.find("s"),
    "base": lambda *_: BASE,
    "dtype": lambda form, asked: dtype_in(form.library, asked.dtype),
    "score": lambda *_: 0.0,
    "batch": lambda form, _: int(not form.has("score")),  # their number, or which
    "scale": lambda *_: 1.0,
    "layer": lambda form, _: form.code.layer,
}


def numbered(places: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """The places that positions number; positions themselves where they number none."""
    if places is None:
        return rows
    refuse_if(not 0 <= rows.min(initial=0) <= rows.max(initial=0) < len(places),
              f"there are {len(places):,} places, numbered from 0")  # fmt: skip
    return np.asarray(places[rows])


def _keys(asked: Inquiry) -> np.ndarray:
    return asked.rows if asked.keys is None else asked.keys


def shape_of(table: np.ndarray, shape: str) -> np.ndarray:
    """Rows of a table (batch, seq, ...) with other axes in front."""
    sizes = {"b": table.shape[0], "s": table.shape[1], "1": 1}
    return (table if "b" in shape else table[0]).reshape(
        *(sizes[c] for c in shape[:-1]), *table.shape[2:]
    )


def call(form: Form, asked: Inquiry, counter: CallCounter) -> Any:
    """What somebody's code returns; for code that writes into x, what stands there."""
    passed, named = form.arguments(asked)
    counter.calls += 1
    try:
        with foreign(f"a call of {form.code.name}"):
            out = form.code.function(*passed, **named)
    except CannotAsk:
        raise
    except Exception as error:
        raise Raised(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}") from error
    roles = dict(form.roles)
    names = (slot.name for slot in form.code.slots if slot.name in roles)
    values = dict(zip(names, passed, strict=False)) | named
    counter.written |= any(
        not np.array_equal(values[n], VALUES[role](form, asked))
        for n, role in form.roles
        if role in PLACED and n in values
    )
    return (
        tuple(values[n] for n, role in form.roles if role in ("x", "qkv", "key"))
        if out is None and form.layout
        else out
    )


def turned(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """Queries, and keys where it returns them, as (batch, heads, seq, channels)."""
    return as_turned(form, asked, call(form, asked, counter))


def outputs(form: Form, raw: Any) -> list[Any]:
    """What was returned for queries and keys, as it came."""
    parts = pieces_of(raw)
    return (
        parts[:2]
        if "3" not in form.layout
        else [
            part[(slice(None),) * form.layout.index("3") + (n,)] for part in parts for n in (0, 1)
        ]
    )


def as_turned(form: Form, asked: Inquiry, raw: Any) -> list[np.ndarray]:
    """What was returned, as queries and keys."""
    x: Any = asked.x
    shapes = {laid(one, form.layout).shape: one.shape for one in (x[:, :: asked.groups], x)}
    parts = [_real(numbers(part)) for part in outputs(form, raw)]
    outs = [unlaid(part, form.layout, shapes[part.shape]) if part.shape in shapes else None
            for part in parts]  # fmt: skip
    inside = [role for _, role in form.roles if role in ("x", "key")]
    # Where the key comes first its output may, too: it has half the size.
    sizes = [float(np.abs(out).sum()) for out in outs if out is not None]
    if inside == ["key", "x"] and len(sizes) == 2 and sizes[0] < sizes[1]:
        outs.reverse()
    if not outs or outs[0] is None:
        received = tuple(parts[0].shape) if parts else "nothing"
        raise OtherShape(f"x of shape {tuple(laid(x, form.layout).shape)} became {received}")
    return [out for out in outs if out is not None]


def _real(part: np.ndarray) -> np.ndarray:
    """Complex channels as neighbours."""
    return (
        part
        if part.dtype.kind != "c"
        else np.stack([part.real, part.imag], axis=-1).reshape(*part.shape[:-1], -1)
    )


def native(form: Form, x: Any, rows: np.ndarray) -> Any:
    """Queries in arrays of the library, which keep their dtype, device and gradient."""
    parts = outputs(form, call(form, Inquiry(x, rows, native=True), CallCounter()))
    inside = [role for _, role in form.roles if role in ("x", "key")]
    out: Any = parts[inside.index("x") if len(parts) > 1 else 0] if parts else None
    shape = tuple(laid(x, form.layout).shape)
    refuse_if(
        tuple(np.shape(out)) != shape,
        f"x of shape {shape} became {tuple(np.shape(out))}",
        OtherShape,
    )
    return unlaid(out, form.layout, tuple(x.shape))


def built(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """What a function of positions makes, each (batch or 1, seq, ...)."""
    return as_built(form, asked, call(form, asked, counter))


def as_built(form: Form, asked: Inquiry, raw: Any) -> list[np.ndarray]:
    """What was returned, as rows of positions; two of them may be stacked."""
    parts = parts_of(raw)
    parts = [part for part in parts if part.size > 1] or parts  # a factor says nothing of positions
    count = asked.end if form.way == "length" else asked.rows.shape[1]
    rows = [_rows(part, len(asked.rows), count) for part in parts]
    stacked = len(rows) == 1 and rows[0] is None and len(parts[0]) == 2
    if stacked and not np.array_equal(*parts[0]):  # rows of a batch would be equal
        rows = [_rows(part, len(asked.rows), count) for part in parts[0]]
    outs = [row for row in rows if row is not None]
    if not outs or len(outs) < len(rows):
        received = ", ".join(str(part.shape) for part in parts[:3]) or "nothing"
        raise OtherShape(f"{count} positions became {received}")
    return outs


def _rows(part: np.ndarray, batch: int, count: int) -> np.ndarray | None:
    """An array with axes of ones anywhere as (batch or 1, seq, ...)."""
    shape = list(part.shape)
    places = [k for k, size in enumerate(shape[:-1]) if size == count]
    fronts = {k: [n for n in shape[:k] if n != 1] for k in places}
    fits = [k for k in places if fronts[k] == [batch]] or [k for k in places if not fronts[k]]
    if not fits:
        return None
    rest = [n for n in shape[fits[0] + 1 : -1] if n != 1] + shape[-1:]
    return part.reshape(*(fronts[fits[0]] or [1]), count, *rest)

"""A form of a call: what stands for which argument, in which layout; and the call itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posenc._core.guard import foreign
from posenc.detect.subject.arrays import AXES, carried, dtype_in, laid, parts_of, unlaid
from posenc.detect.subject.code import BASE, Callee, CannotAsk, OtherShape

# How rows of positions are handed over: rows, one row, a row with an axis in front, a column; all
# tokens; an offset as an int, an array for all rows, or one number in an array.
PLACES = ("bs", "s", "1s", "s1")
OFFSETS = ("int", "b", "0")
# Axes of tables that are handed over, w being their width.
SHAPES = ("sw", "bsw", "1sw", "s1w", "11sw", "b1sw", "bs1w", "1s1w")


@dataclass
class CallCounter:
    """Calls so far, and the way of them."""

    calls: int = 0
    errors: list[str] = field(default_factory=list)


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

    @property
    def words(self) -> str:
        """The same for people."""
        inside = ", ".join(name if role in ("", name) else f"{name} = {role}"
                           for name, role in self.roles)  # fmt: skip
        axes = f" of shape ({', '.join(AXES[c] for c in self.layout)})" if self.layout else ""
        shape = {"bs": " (batch, seq)", "s": " (seq,)", "1s": " (1, seq)", "t": " (tokens,)",
                 "s1": " (seq, 1)"}.get(self.place, "")  # fmt: skip
        says = {"positions": f"positions{shape}", "offset": "an offset", "packed": "ends of rows",
                "length": "a length", "tables": "tables of positions",
                "counted": "positions counted from 0"}[self.way]  # fmt: skip
        stated = {role for _, role in self.roles}
        says = "positions of each" if "q_positions" in stated else says
        says = "their numbers" if "q_len" in stated else says
        return f"called as {self.code.name}({inside}) with {self.library} arrays{axes}, {says}"

    def arguments(self, asked: Inquiry) -> tuple[list[Any], dict[str, Any]]:
        """What is handed over."""
        slots = {slot.name: slot for slot in self.code.slots}
        passed: list[Any] = []
        named: dict[str, Any] = {}
        gap = False
        order = [s.name for s in self.code.slots]
        for name, role in sorted(self.roles, key=lambda pair: order.index(pair[0])):
            slot = slots[name]
            skipped = order.index(name) != len(passed)
            gap = gap or slot.keyword or (skipped and not slot.positional)
            value = self.value(role, asked)
            if gap:
                named[name] = value
            else:
                passed.append(value)
        return passed, named

    def value(self, role: str, asked: Inquiry) -> Any:
        """What stands for one argument."""
        if role in ("x", "key", "value"):
            assert asked.x is not None  # noqa: S101 - a form without x has no such argument
            size = {"x": 1.0, "key": 0.5, "value": 0.25}[role]
            if asked.native:
                return laid(asked.x if role == "x" else asked.x * size, self.layout)
            x = asked.x if role == "x" else asked.x[:, :: asked.groups] * size
            return self._tokens(x, asked)
        if role in ("positions", "offset", "packed"):
            return getattr(self, f"_{role}")(asked)
        if role in ("cos", "sin", "tables"):
            return self._tables(role, asked)
        if role == "tokens":  # the same everywhere, and no padding
            return carried(np.full(asked.rows.shape[:2], 5), self.library)
        if role == "distances":
            keys_: Any = asked.keys
            return carried(keys_[0][None, :] - asked.rows[0][:, None], self.library)
        if role == "q_positions":
            return carried(asked.rows[0] if len(asked.rows) == 1 else asked.rows, self.library)
        if role == "k_positions":
            keys: Any = asked.keys
            return carried(keys[0] if len(keys) == 1 else keys, self.library)
        return self._number(role, asked)

    def _number(self, role: str, asked: Inquiry) -> Any:
        heads, dim = (self.heads, self.dim) if asked.x is None else asked.x.shape[1::2]
        keys = asked.end if asked.keys is None else int(asked.keys.max()) + 1
        sizes = {
            "dim": dim, "heads": heads, "base": BASE, "k_len": keys, "device": None,
            "q_len": asked.rows.shape[-1],
            "length": asked.rows.shape[1] if self.way in ("counted", "offset") else asked.end,
        }  # fmt: skip
        if role == "dtype":
            return dtype_in(self.library, asked.dtype)
        if role == "mask":
            return carried(np.ones(asked.rows.shape[:2], dtype=np.int64), self.library)
        return sizes.get(role)

    def _tokens(self, x: np.ndarray, asked: Inquiry) -> Any:
        array = laid(x, self.layout)
        if not asked.strided:
            return carried(np.ascontiguousarray(array), self.library, asked.dtype)
        # More channels in memory, and its axes in another order.
        wide = np.ascontiguousarray(np.concatenate([array, array], axis=-1).swapaxes(0, -2))
        return carried(wide, self.library, asked.dtype).swapaxes(0, -2)[..., : array.shape[-1]]

    def _positions(self, asked: Inquiry) -> Any:
        rows = asked.rows
        one = rows[0]
        shaped = {"bs": rows, "s": one, "1s": one[None], "s1": one[:, None], "": one,
                  "t": rows.reshape(-1, *rows.shape[2:])}  # fmt: skip
        return carried(shaped[self.place], self.library)

    def _offset(self, asked: Inquiry) -> Any:
        start = int(asked.rows[0, 0])
        if self.place == "int":
            return start
        many = np.full(len(asked.rows), start) if self.place == "b" else np.array(start)
        return carried(many.astype(np.int64), self.library)

    def _packed(self, asked: Inquiry) -> Any:
        ends = np.arange(len(asked.rows) + 1) * asked.rows.shape[1]
        return carried(ends.astype(np.int32), self.library)

    def _tables(self, role: str, asked: Inquiry) -> Any:
        whole = self.way == "positions"
        parts, pack = self.code.tables(asked, whole)
        shaped = parts if whole else [shape_of(part, self.place) for part in parts]
        built = [carried(part, self.library, _kept(part)) for part in shaped]
        if role in ("cos", "sin"):
            return built[-1 if (role == "cos") == self.code.tables.swapped else 0]
        return built[0] if len(built) == 1 else pack(built)


def _kept(part: np.ndarray) -> str:
    return "complex64" if part.dtype.kind == "c" else "float32"


def shape_of(table: np.ndarray, shape: str) -> np.ndarray:
    """Rows of a table (batch, seq, ...) with other axes in front."""
    rest = table.shape[2:]
    batch, seq = table.shape[:2]
    sizes = {"b": batch, "s": seq, "1": 1}
    rows = table if "b" in shape else table[0]
    return rows.reshape(*(sizes[c] for c in shape[:-1]), *rest)


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
        text = " ".join(str(error).split())[:120]
        raise Raised(f"{type(error).__name__}: {text}") from error
    if out is None and form.layout:
        order = [s.name for s in form.code.slots]
        names = sorted((n for n, _ in form.roles), key=order.index)
        values = dict(zip(names, passed, strict=False)) | named
        return tuple(values[n] for n, role in form.roles if role in ("x", "key"))
    return out


def turned(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """Queries, and keys where it returns them, as (batch, heads, seq, channels)."""
    assert asked.x is not None  # noqa: S101 - the caller's
    raw = call(form, asked, counter)
    parts = parts_of(raw)
    shapes = [laid(x, form.layout).shape for x in (asked.x, asked.x[:, :: asked.groups])]
    outs = [_real(part, shapes) for part in parts[:2]]
    inside = [role for _, role in form.roles if role in ("x", "key")]
    # Where the key comes first its output may, too: it has half the size.
    sizes = [float(np.abs(out).sum()) for out in outs if out is not None]
    if inside == ["key", "x"] and len(sizes) == 2 and sizes[0] < sizes[1]:
        outs.reverse()
    if not outs or outs[0] is None:
        received = tuple(parts[0].shape) if parts else "nothing"
        raise OtherShape(f"x of shape {shapes[0]} became {received}")
    sizes_ = [asked.x.shape, asked.x[:, :: asked.groups].shape]
    return [unlaid(out, form.layout, sizes_[shapes.index(out.shape)])
            for out in outs if out is not None]  # fmt: skip


def _real(part: np.ndarray, shapes: list[tuple[int, ...]]) -> np.ndarray | None:
    """Complex channels as neighbours; None for what has another shape."""
    if part.dtype.kind == "c":
        part = np.stack([part.real, part.imag], axis=-1).reshape(*part.shape[:-1], -1)
    return part if part.shape in shapes else None


def native(form: Form, x: Any, rows: np.ndarray) -> Any:
    """Queries in arrays of the library, which keep their dtype, device and gradient."""
    out = call(form, Inquiry(x, rows, native=True), CallCounter())
    if isinstance(out, Mapping):
        out = out[min(out, key=lambda name: str(name)[:1] == "k")]
    if isinstance(out, (tuple, list)):
        inside = [role for _, role in form.roles if role in ("x", "key")]
        out = out[inside.index("x")] if len(out) > 1 else out[0]
    shape = tuple(laid(x, form.layout).shape)
    if tuple(np.shape(out)) != shape:
        raise OtherShape(f"x of shape {shape} became {tuple(np.shape(out))}")
    return unlaid(out, form.layout, tuple(x.shape))


def built(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """What a function of positions makes, each (batch or 1, seq, ...)."""
    parts = parts_of(call(form, asked, counter))
    count = asked.end if form.way == "length" else asked.rows.shape[1]
    outs = [_rows(part, len(asked.rows), count) for part in parts]
    if not outs or any(out is None for out in outs):
        received = ", ".join(str(part.shape) for part in parts[:3]) or "nothing"
        raise OtherShape(f"{count} positions became {received}")
    return [out for out in outs if out is not None]


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

"""The smallest call that shows a difference, and a program that shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posenc.detect.subject.code import refuse_if
from posenc.detect.subject.reach import Reach, Tally, listed, ratios

MOST = 120  # calls to make a call smaller
WRITES = "which writes into the positions that it is given"


@dataclass(frozen=True)
class SmallestCall:
    """A call that differs, with nothing in it that can be left out.

    Parameters
    ----------
    positions : tuple of tuple of int
        Of each row.
    heads : int
        Heads of x.
    dtype : str
        Of what is handed over.
    difference : float
        How far the answer is off at its worst entry.
    received, expected : float
        That entry, and what it is to be.
    notes : tuple of str
        What else it needs: strides, another form, calls before it.
    keys : tuple of int
        Positions of the keys of a bias.
    begins : float or None
        The nearest of its positions that differs considerably; of a bias the first query.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> def mine(x, positions):                            # forgets that positions repeat
    ...     return posenc.rotate(rope, x, positions=np.unique(positions)[:len(positions)])
    >>> rope = posenc.RoPE(8, pairing="half")
    >>> def clamped(x, positions):
    ...     return posenc.rotate(rope, x, positions=np.minimum(positions, 30_000))
    >>> print(posenc.ask(clamped, dim=8).survey(rope, end=40_000).call)
    smallest call: one token at position 30,001
    """

    positions: tuple[tuple[int, ...], ...]
    heads: int
    dtype: str
    difference: float
    received: float
    expected: float
    notes: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    begins: float | None = None
    _lines: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        rows = list(dict.fromkeys(self.positions))
        text = listed(rows[0]) if len(rows) == 1 else "; ".join(map(listed, rows))
        if self.keys:
            queries = text.replace("tokens", "queries").replace("one token", "one query")
            text = f"{queries}, {listed(self.keys).replace('token', 'key')}"
        text = f"{len(self.positions)} rows of {text}" if len(self.positions) > 1 else text
        needs = [
            text,
            f"{self.heads} heads" if self.heads > 1 else "",
            self.dtype if self.dtype != "float32" else "",
            *self.notes,
        ]
        return "smallest call: " + ", ".join(filter(None, needs))

    def script(self) -> str:
        """A program of at most ten lines that shows the difference.

        Returns
        -------
        str
            Its text.

        Raises
        ------
        CannotAsk
            If the code has no name to import it by, or the call is of another form.

        Examples
        --------
        >>> import posenc
        >>> subject = posenc.ask({"inv_freq": [1.0, 0.1, 0.01, 0.002]})
        >>> subject.survey(posenc.RoPE(8, pairing="half"), end=5000).call.script()
        Traceback (most recent call last):
            ...
        posenc.CannotAsk: ask: no program can be written that shows it: the code ...
        """
        refuse_if(
            not self._lines,
            "ask: no program can be written that shows it: the code cannot be imported by a name, "
            "or only inputs that were drawn at random show it",
        )
        return "\n".join(self._lines) + "\n"


@dataclass(frozen=True)
class Survey:
    """What an implementation was found to do beside what is expected.

    Parameters
    ----------
    difference : float
        Where it is largest for its tolerance.
    tolerance : float
        What arithmetic in the dtype of the call explains there.
    reach : Reach
        What was asked.
    call : SmallestCall or None
        The smallest call that shows a difference.

    Examples
    --------
    >>> import posenc
    >>> subject = posenc.ask({"inv_freq": posenc.frequencies(posenc.RoPE(8, pairing="half"))})
    >>> subject.survey(posenc.RoPE(8, pairing="half"), end=5000).agrees
    True
    """

    difference: float
    tolerance: float
    reach: Reach
    call: SmallestCall | None = None

    @property
    def agrees(self) -> bool:
        """Whether no difference is more than arithmetic explains, as far as `reach` says."""
        return self.call is None and self.difference <= self.tolerance

    def __str__(self) -> str:
        call = [] if self.call is None else [str(self.call)]
        return "\n".join(call + self.reach.lines())


def smallest(bench: Any, call: Any) -> SmallestCall:
    """Leave out of a call what it does not need to fail."""
    drawn, tries = call._replace(kind="smaller"), iter(range(1, MOST))
    same = call._replace(kind="as it was")
    # What is answered well when it is asked again may need the call before it.
    smaller = next(filter(bench.fails, (drawn, same, bench.after_another(same))), same)
    while smaller is not None:
        call = smaller
        tried = (each for each, _ in zip(_smaller(call, bench.subject), tries, strict=False))
        smaller = next(filter(bench.fails, tried), None)
    return _told(bench, _nearest(bench, call))


def _nearest(bench: Any, call: Any) -> Any:
    """One token where a difference begins, between positions that were asked."""
    places, agree = bench.tally.asked()
    if call.rows.shape != (1, 1) or call.keys is not None or agree.all():
        return call
    high = int(min(places[~agree][0], call.rows[0, 0]))
    low = int(places[places < high].max(initial=-1))
    alone = call._replace(rows=np.array([[1]]))
    if high > 1 and bench.fails(alone):  # which agrees behind others alone
        return alone
    near = call._replace(rows=np.array([[high]]))
    call, high = (near, high) if bench.fails(near) else (call, low)
    while high - low > 1:
        middle = (low + high) // 2
        near = call._replace(rows=np.array([[middle]]))
        low, high, call = (low, middle, near) if bench.fails(near) else (middle, high, call)
    return call


def _smaller(call: Any, subject: Any) -> Iterator[Any]:
    """Calls with less in them, those that leave out most first."""
    rows = call.rows
    yield from _with(
        call, {"dtype": "float32"}, {"strided": False}, {"wide": 1}, {"after": "", "groups": 1}
    )
    if call.heads > 1:
        yield from (
            call._replace(heads=n)
            for n in sorted({1, call.heads // 2, call.heads - 1} - {*range(call.groups)})
        )
    if len(rows) > 2:
        yield call._replace(rows=rows[:2])
        yield call._replace(rows=rows[[0, -1]], sizes=(1.0,))
    if len(rows) > 1:
        sizes = np.resize(call.sizes, len(rows)).tolist()
        yield from (call._replace(rows=rows[[b]], sizes=(sizes[b],)) for b in range(len(rows)))
    yield from _with(call, {"sizes": (1.0,)}, {"plain": True})
    if call.keys is not None:
        yield from (call._replace(keys=keys) for keys in _fewer(call.keys, "positions"))
    way = "positions" if subject.kind == "bias" else subject._found.form.way
    yield from (call._replace(rows=kept) for kept in _fewer(rows, way))
    line = np.broadcast_to(np.arange(rows.shape[1]), rows.shape[:2])
    if way == "positions" and call.keys is None and rows.ndim == 2 and (rows != line).any():
        yield call._replace(rows=line)
    if rows.any() and rows.ndim == 2 and rows.min() > 0 and way == "positions":
        yield call._replace(rows=rows - rows.min())


def _with(call: Any, *changes: dict[str, Any]) -> Iterator[Any]:
    """The call with each of some changes that is one."""
    for change in changes:
        if any(getattr(call, name) != value for name, value in change.items()):
            yield call._replace(**change)


def _fewer(rows: np.ndarray, way: str) -> Iterator[np.ndarray]:
    """Rows of fewer tokens; of code that counts tokens itself, from the first on."""
    count = rows.shape[1]
    size = count // 2
    while size:
        for begin in range(0, count, size):
            if way in ("positions", "tables", "length"):
                kept = np.delete(rows, np.s_[begin : begin + size], axis=1)
            else:
                kept = rows[:, : count - size] if begin else rows[:, size:]
                if begin > size or (way != "offset" and not begin):
                    continue
            if kept.shape[1]:
                yield kept
        size //= 2
        if count > 64 and size < count // 64:
            return


def _told(bench: Any, call: Any) -> SmallestCall:
    late, tally = time.monotonic() > bench.until, Tally()
    off, room = bench.differences(call)
    tally.add(off, np.full_like(off, min(1e-3, off.max() / 2)), *bench._places(call, off))
    at = np.unravel_index(int(np.argmax(ratios(off, room))), off.shape)
    place, out, wanted = bench.output or (0, off, off)
    same = out.shape == wanted.shape == off.shape
    notes = (
        (f"|x| to {max(call.sizes):g}", max(call.sizes) > 1),
        ("in the key that it returns", place),
        (f"of {-(-call.heads // call.groups)} heads", call.groups > 1),
        (f"after the same in {call.after}", call.after),
        ("not contiguous", call.strided),
        (f"after a call of {call.earlier.length if call.earlier else 0:,} tokens", call.earlier),
        (bench.agreed, bench.agreed),
        (f"{call.wide} times as wide", call.wide > 1),
        (f"in another form ({call.form.form.words if call.form else ''})", call.form is not None),
        ("answered in another shape", out.shape != wanted.shape),
        ("of numbers that are NaN or infinite", same and np.isinf(off[at])),
        (WRITES, bench.written),
        (f"of several axes, {str(call.rows.tolist())[:80]}", call.rows.ndim > 2),
        ("found before time ran out, so a smaller one may show it", late),
    )
    received, expected = (float(a[at]) if same else np.nan for a in (out, wanted))
    return SmallestCall(
        tuple(map(tuple, call.rows.tolist())) if call.rows.ndim == 2 else (), call.heads,
        call.dtype, float(off[at]), received, expected,
        tuple(note for note, holds in notes if holds),
        () if call.keys is None else tuple(call.keys[0].tolist()),
        tally.reach().differs if call.keys is None else int(call.rows.min()),
        tuple(_script(bench.subject, call, (place, *at), expected)),
    )  # fmt: skip


def _script(subject: Any, call: Any, at: Any, expected: float) -> list[str]:
    """The lines of a program; none where the code has no name."""
    home = _imported(subject._target)
    if (
        home is None
        or call.form is not None
        or call.earlier
        or (not call.plain and call.kind != "smaller")
    ):
        return []
    imports, target = home
    place, *entry = (int(i) for i in at)
    rows = _array(call.rows)
    options = "".join(f", {k}={v!r}" for k, v in subject._options.items() if v is not None)
    lines = [*imports, f"subject = posenc.ask({target}{options})"]
    if subject.kind == "rotary":
        asked = f"{_x(subject, call)}, {rows}"
        if call.after:
            lines[-1] += ".fresh()"
            lines.append(f"subject.both({asked}, dtype={call.after!r})")
        stated = {"dtype": "float32", "strided": False, "groups": 1}
        more = "".join(
            f", {k}={getattr(call, k)!r}"
            for k, usual in stated.items()
            if getattr(call, k) != usual
        )
        answer = f"subject.both({asked}{more})[{place}]"
    elif subject.kind == "bias":
        answer = f"subject.bias({_array(call.rows[0])}, {_array(call.keys[0])})"
    else:
        answer = (
            f"subject.rows({rows})"
            if subject.kind == "table"
            else f"np.concatenate(subject.cos_sin({rows}), axis=-1)"
        )
    return [
        *lines,
        f"y = {answer}",
        f'print("entry {entry} is", y{entry}, "where {expected:.9g} is expected")',
    ]


def _x(subject: Any, call: Any) -> str:
    """The queries of a call, as a program makes them."""
    shape = (len(call.rows), call.heads, call.rows.shape[1], subject.dim * call.wide)
    x = f"np.ones({shape})" if call.plain else f"np.random.default_rng(0).normal(size={shape})"
    sizes = [call.sizes[b % len(call.sizes)] for b in range(len(call.rows))]
    return x + (f" * np.reshape({sizes}, (-1, 1, 1, 1))" if {*sizes} != {1.0} else "")


def _array(rows: np.ndarray) -> str:
    run = rows.ndim == 2 and len(rows) == 1 and rows.shape[1] > 8
    line = rows[0] if run else rows
    if line.ndim == 1 and line.size > 8 and (np.diff(line) == 1).all():
        return f"np.arange({int(line[0])}, {int(line[-1]) + 1})" + ("[None]" if run else "")
    return f"np.array({rows.tolist()})"


def _imported(target: Any) -> tuple[list[str], str] | None:
    """Lines that import a target, and its name there; None where it has none."""
    targets = target if isinstance(target, tuple) else (target,)
    lines = ["import sys", "import numpy as np, posenc"]
    names = []
    for one in targets:
        module = sys.modules.get(getattr(one, "__module__", None) or "")
        name = getattr(one, "__qualname__", "")
        choice: Any = module
        for part in name.split("."):
            choice = getattr(choice, part, None)
        file = getattr(module, "__file__", None)
        if module is None or file is None or choice is not one or not name:
            return None
        full = Path(file).stem if module.__name__ == "__main__" else module.__name__
        folder = Path(file).resolve().parents[full.count(".") + (Path(file).stem == "__init__")]
        lines.append(
            f"sys.path.insert(0, {str(folder)!r}); from {full} import {name.split('.')[0]}"
        )
        names.append(name)
    return lines, names[0] if len(names) == 1 else f"({', '.join(names)})"

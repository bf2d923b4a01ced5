"""In which order the columns of a table stand in its picture."""

from __future__ import annotations

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc.plot.columns import ORDERS, TableSource, check_word


def order_of(table: TableSource, order: str | None, wide: bool) -> str:
    """The order asked for, or the usual one; raises where a table or a picture has no such."""
    order = order or ("sin_cos" if wide and table.waves is not None else "stored")
    check_word("plot: order", order, ORDERS)
    if order != "stored" and table.waves is None:
        todo = "Its columns are no pairs of sine and cosine: leave the order out."
        caller = f"plot({type(table.spec).__name__}): order"
        raise ArgumentError(mismatch(caller, "stored", repr(order), todo))
    if wide and table.waves is not None and order not in ("sin_cos", "cos_sin"):
        todo = "Use order='sin_cos', fewer dims, or a wider picture."
        expected = "sines and cosines apart where columns are narrower than a pixel"
        raise ArgumentError(mismatch("plot: order", expected, repr(order), todo))
    return order


def arranged(table: TableSource, order: str) -> np.ndarray:
    """The dimensions of the table in an order of columns."""
    natural = np.arange(table.width)
    waves = table.waves
    if order == "stored" or waves is None:
        return natural
    none = waves.pair < 0
    if order == "interleaved":
        return np.lexsort((natural, waves.function, waves.pair, none))
    function = waves.function if order == "sin_cos" else 1 - waves.function
    return np.lexsort((natural, waves.pair, function, none))


def runs_of(table: TableSource, shown: np.ndarray) -> tuple[np.ndarray, ...]:
    """Runs of columns over which a filter may go: of sines, of cosines, of zeros."""
    if table.waves is None:
        return (shown,)
    kind = np.where(table.waves.pair[shown] < 0, 2, table.waves.function[shown])
    return tuple(np.split(shown, np.flatnonzero(np.diff(kind)) + 1))


def shares(halves: tuple[np.ndarray, ...], columns: int) -> list[tuple[np.ndarray, int]]:
    """Pixels for each run, in proportion, at least one each."""
    ends = np.cumsum([len(half) for half in halves])
    ends = np.rint(ends * (columns / ends[-1])).astype(int)
    sizes = np.maximum(np.diff(ends, prepend=0), 1)
    while sizes.sum() > columns:
        sizes[sizes.argmax()] -= 1
    return list(zip(halves, sizes.tolist(), strict=True))

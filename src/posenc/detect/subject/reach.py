"""How far an implementation was looked at: what was asked, and nothing beyond it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reach:
    """How far an implementation was looked at.

    Parameters
    ----------
    position : float or None
        The farthest position up to which all that were asked for agree; of a bias the largest
        distance. None where none does.
    differs : float or None
        The nearest position that does not agree.
    positions : int
        How many agree.
    dense : int
        The position up to which every one was asked.
    stretch : int
        One position of each stretch of so many was asked beyond that.
    heads, batch, length : int
        The most heads, rows of a batch and positions of one call.
    lengths : tuple of int
        Every length of a sequence that was asked.
    drawn : int
        How many of these were drawn at random.
    planned : int
        How many lengths were to be asked.
    dtypes : tuple of str
        What inputs were handed over in.
    kinds : tuple of str
        What else calls had: repeated positions, rows that differ, strides, …
    refused : tuple of str
        What was refused, and why.
    largest : float
        The largest number that was handed over.
    calls : int
        All calls, the ones that were refused included.
    seconds : float
        What they took.
    late : bool
        Whether time ended them.
    against : str
        What it was held against, where that is neither a spec nor a rule.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half")
    >>> found = posenc.infer_spec(lambda x, p: posenc.rotate(rope, x, positions=p), dim=64)
    >>> found.reach.position, found.reach.heads
    (1048576, 33)
    """

    position: float | None = None
    differs: float | None = None
    positions: int = 0
    dense: int = 0
    stretch: int = 0
    heads: int = 0
    batch: int = 0
    length: int = 0
    lengths: tuple[int, ...] = ()
    drawn: int = 0
    planned: int = 0
    dtypes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    largest: float = 0.0
    calls: int = 0
    seconds: float = 0.0
    late: bool = False
    against: str = ""

    def lines(self) -> list[str]:
        """The same for people; the seconds, which differ from run to run, are left out."""
        rows = [self._positions(), self._lengths(), self._calls()]
        return [*filter(None, rows), *(f"refused: {what}" for what in self.refused)]

    def words(self) -> str:
        """The lines as one."""
        return "; ".join(self.lines())

    def _positions(self) -> str:
        if self.position is None:
            return "" if self.differs is None else f"differs at position {self.differs:,.12g}"
        asked = f"{self.positions:,} asked for"
        asked += f": every one to {self.dense:,}" if self.dense else ""
        asked += f", and one in each stretch of {self.stretch:,} beyond" if self.stretch else ""
        agrees = f"agrees with {self.against} to" if self.against else "agrees to"
        to = f"{agrees} position {self.position:,.12g} ({asked})"
        away = "" if self.differs is None else f", differs at position {self.differs:,.12g}"
        return to + away

    def _lengths(self) -> str:
        if not self.lengths:
            return f"lengths to {self.length:,}" if self.length else ""
        count = len(self.lengths)
        of = f"{count} of {self.planned}, time" if self.late else f"{count}"
        span = f"{min(self.lengths):,} to {max(self.lengths):,}"
        return f"lengths: {of} ({span}: edges, and {self.drawn} drawn)"

    def _calls(self) -> str:
        parts = [_to(self.heads, "head"), _to(self.batch, "row")]
        parts += [*self.kinds, ", ".join(self.dtypes)]
        parts += [f"|x| to {self.largest:,.0f}"] if self.largest else []
        parts += [f"{self.calls} calls"] if self.calls else []
        return "; ".join(filter(None, parts))


def _to(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count > 1 else ''}" if count else ""


def listed(places: Sequence[int]) -> str:
    """Positions in few words: a run by its ends, others one by one."""
    if len(places) == 1:
        return f"one token at position {places[0]:,}"
    steps = {b - a for a, b in itertools.pairwise(places)}
    if steps == {1} and len(places) > 3:
        spot = f"{places[0]:,} to {places[-1]:,}"
    else:
        shown = [f"{p:,}" for p in places[:8]]
        spot = ", ".join(shown) + (", …" if len(places) > 8 else "")
    return f"{len(places):,} tokens at positions {spot}"

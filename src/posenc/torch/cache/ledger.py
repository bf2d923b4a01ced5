"""Where each stored key stands: the position it was written at, and the one it stands at now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from posenc._core.arrays.array import is_divided
from posenc._core.errors import bad_argument, bad_dtype, bad_position, refuse_argument

MOST = 2**62  # of positions in a cache
OF_ROWS = ("original", "written", "current", "real")  # fields with a row for each sequence, or one


@dataclass(frozen=True, eq=False)
class Ledger:
    """Where each stored key stands. All layers share it; a layer of few keys stores the last ones.

    Parameters
    ----------
    original, written, current : Tensor of int64
        (rows, tokens, axes): the position a key came with, the one it was last rotated to, and the
        one it stands at. One row stands for all sequences of a batch that have the same positions.
    real : Tensor of bool
        (rows, tokens): false for padding.
    era : Tensor of int64
        (tokens,): the number of the rotation a key was written with.
    roundings : Tensor of int64
        (tokens,): how often a key was rounded since it was stored.
    length : int
        The tokens that the model counts; more than there are where evicted ones left a gap.
    still : bool
        Whether every key stands where it was written. A compiler asks this and not the tensors.

    Examples
    --------
    >>> import torch, posenc
    >>> keys = torch.ones(1, 1, 3, 4)
    >>> cache = posenc.torch.cache.track([(keys, keys)], posenc.RoPE(4, pairing="half"))
    >>> posenc.torch.cache.shift(cache, 7).ledger.current.flatten().tolist()
    [7, 8, 9]
    """

    original: Tensor
    written: Tensor
    current: Tensor
    real: Tensor
    era: Tensor
    roundings: Tensor
    length: int
    still: bool = True

    @classmethod
    def of(cls, positions: Tensor, real: Tensor, era: int, length: int) -> Self:
        """The ledger of keys that nobody has moved: (rows, tokens, axes), (rows, tokens)."""
        zeros = torch.zeros(positions.shape[1], dtype=torch.int64)
        return cls(positions, positions, positions, real, zeros + era, zeros, length)

    def __len__(self) -> int:
        return int(self.current.shape[1])

    @property
    def rows(self) -> int:
        """The number of rows; 1 where all sequences have the same positions."""
        return max(int(self.current.shape[0]), int(self.real.shape[0]))

    def replace(self, **changes: object) -> Ledger:
        """The same, but for some fields."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    # --- what stands where ------------------------------------------------------------------------

    def first(self) -> Tensor:
        """The smallest coordinate of each row's real tokens: (rows,)."""
        return -self._largest(-self.current, 0)

    def following(self) -> Tensor:
        """One more than the largest coordinate of each row's real tokens: (rows,)."""
        return self._largest(self.current, -1) + 1

    def _largest(self, coordinates: Tensor, none: int) -> Tensor:
        """The largest of each row's real tokens, or what stands for no token."""
        least = -torch.iinfo(torch.int64).max
        real = coordinates.amax(-1).masked_fill(~self.real, least)
        values = torch.cat([real, torch.full((len(real), 1), least)], dim=1).amax(-1)
        return values.masked_fill(values == least, none)

    def coming(self, count: int) -> Tensor:
        """Where tokens stand that go on behind the last: (rows, count, axes)."""
        steps = self.following()[:, None] + torch.arange(count)
        return steps[..., None].expand(-1, -1, self.current.shape[-1])

    # --- changes ----------------------------------------------------------------------------------

    def extended(self, positions: Tensor, era: int) -> Ledger:
        """With new tokens at (rows, count, axes), rotated to where they stand."""
        real = torch.ones(1, positions.shape[1], dtype=torch.bool)
        length = self.length + positions.shape[1]
        return self.joined(Ledger.of(positions, real, era, length), length)

    def joined(self, other: Ledger, length: int) -> Ledger:
        """With the tokens of another behind its own."""

        def both(a: Tensor, b: Tensor) -> Tensor:
            rows = max(a.shape[0], b.shape[0])
            return torch.cat([t.expand(rows, *t.shape[1:]) for t in (a, b)], dim=1)

        return self.replace(
            **{name: both(getattr(self, name), getattr(other, name)) for name in OF_ROWS},
            era=torch.cat([self.era, other.era]),
            roundings=torch.cat([self.roundings, other.roundings]),
            length=length,
            still=self.still and other.still,
        )

    def taken(self, keep: Tensor, *, close: bool) -> Ledger:
        """Only the tokens at (rows, kept) places; the gaps between them closed, or left."""
        rows = keep.shape[0]
        refuse_argument(
            rows > 1 and bool((self.era != self.era[0]).any()),
            "evict",
            "the same tokens in each row, as keys stand under several rotations",
            "different ones",
            "`posenc.torch.cache.write(cache, into)` first puts all keys under one.",
        )
        many, kept = max(rows, self.rows), keep.shape[1]

        def of(t: Tensor) -> Tensor:
            index = keep[..., None].expand(many, -1, t.shape[-1])
            return torch.gather(t.expand(many, -1, -1), 1, index)

        real, written, current = (
            of(self.real[..., None])[..., 0],
            of(self.written),
            of(self.current),
        )
        if close:
            current = _closed(self.current, self.real, current, real)
        # Where gaps stay, nothing is behind what was evicted at the end.
        counted = kept if close or not kept else int(keep.max()) + 1
        return Ledger(
            of(self.original), written, current, real, self.era[keep[0]],
            self.roundings[keep].amax(0), self.length - len(self) + counted,
            torch.equal(written, current),
        )  # fmt: skip

    def shifted(self, by: Tensor) -> Ledger:
        """At other positions, by (rows, tokens, axes) or what broadcasts to it."""
        # A sum beyond int64 comes out beyond these bounds too.
        current = places(self.current + by, "shift: by")
        moved = self.replace(current=current, still=torch.equal(self.written, current))
        steps = moved.following() - self.following()
        more = int(steps[0])  # by which the model's own count can go on too
        follows = bool((steps == more).all()) and self.length + more >= len(self)
        return moved.replace(length=self.length + more) if follows else moved

    def rewritten(self, moved: Tensor) -> Ledger:
        """With every key rotated to where it stands; those that moved were rounded once more."""
        return self.replace(
            written=self.current,
            era=torch.zeros_like(self.era),
            roundings=self.roundings + moved.to(torch.int64),
            still=True,
        )


def _closed(before: Tensor, real: Tensor, kept: Tensor, kept_real: Tensor) -> Tensor:
    """Coordinates of kept tokens, less those below them that no token has any more.

    That is done on all axes alike. Coordinates that nobody had before stay as wide as they were.
    """
    closed = []
    for row in range(max(kept.shape[0], kept_real.shape[0])):
        old, new = (t[row % t.shape[0]] for t in (before, kept))
        old_real, new_real = (t[row % t.shape[0]] for t in (real, kept_real))
        had, has = torch.unique(old[old_real]), torch.unique(new[new_real])
        closed.append(new - torch.searchsorted(had[~torch.isin(had, has)], new.contiguous()))
    return torch.stack(closed)


def on_host(values: Any, caller: str, expected: str) -> Tensor:
    """What came in place of an array, as a tensor on the host."""
    source = values
    try:
        if isinstance(values, Iterable) and not hasattr(values, "shape"):
            values = None if isinstance(values, (bytes, Mapping)) else list(values)
            values = torch.empty(0, dtype=torch.int64) if values == [] else values  # of floats else
        array: Any = torch.as_tensor(values)
        array = array.full_tensor() if is_divided(array) else array
        host: Tensor = array.detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise bad_argument(caller, expected, f"{source!r:.60}") from error
    return host


def whole_numbers(values: object, caller: str) -> Tensor:
    """Integers as int64 on the host."""
    numbers = on_host(values, caller, "integers below 2**63")
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise bad_dtype(caller, "integers", str(numbers.dtype).removeprefix("torch."))
    whole = numbers.to(torch.int64)
    if numbers.dtype == torch.uint64 and bool((whole < 0).any()):
        raise bad_argument(caller, "integers below 2**63", "larger ones")
    return whole


def places(positions: Tensor, caller: str) -> Tensor:
    """Positions behind which there is room to count on, and between which differences fit."""
    if bool(((positions > MOST) | (positions < -MOST)).any()):
        raise bad_position(
            caller,
            "positions from -2**62 to 2**62",
            [int(number) for number in (positions.min(), positions.max())],
        )
    return positions


def coordinates(values: object, axes: int, caller: str) -> Tensor:
    """Positions as models take them, as (rows, count, axes)."""
    numbers = places(whole_numbers(values, caller), caller)
    if axes > 1 and numbers.ndim == 3 and numbers.shape[0] == axes:
        return numbers.movedim(0, -1)
    if numbers.ndim in (1, 2):
        return numbers.reshape(-1, numbers.shape[-1])[..., None].expand(-1, -1, axes)
    raise bad_argument(
        caller,
        "(count,) or (rows, count)" + (f", or ({axes}, rows, count)" if axes > 1 else ""),
        f"shape {tuple(numbers.shape)}",
    )


def counted(caller: str, number: object, least: int = 0, most: int = MOST) -> None:
    """Raise unless it is an integer within bounds."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise bad_argument(
            caller,
            f"an integer from {least} to {'2**62' if most == MOST else most}",
            repr(number),
        )

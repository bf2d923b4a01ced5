"""Where the pairs of an implementation stand: its channels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from posenc.detect.fit.rotations.angular_speed import Lines
from posenc.detect.fit.rotations.pairs import NotARotationError, Turns
from posenc.encodings.rotary.pairing import Order, Pairing


class PairChannels(NamedTuple):
    """Where pairs stand."""

    pairing: Pairing
    seen: np.ndarray  # of each pair of the pairing, its number among those seen; -1: it is still
    channels: tuple[int, ...] | None = None  # in the order of halves, where no pairing says it


def channels_of(turns: Turns, lines: Lines, flipped: np.ndarray) -> PairChannels:
    """Where the pairs stand: in halves or as neighbours, or listed from fast to slow."""
    pairs = list(turns.pairs)
    written = turns.outputs != turns.pairs
    regular = [_regular(pairs, turns, part, written) for part in ("leading", "trailing")]
    options = [pairs for pairs in regular if pairs is not None]
    if options:  # the one that needs the fewest pairs that do not turn
        return min(options, key=lambda pairs: int((pairs.seen < 0).sum()))
    if written:
        raise NotARotationError("it writes pairs to other channels, in an order that is not known")
    # From fast to slow, axis by axis: the order in which a ladder has them.
    size = np.abs(lines.frequency)
    index = np.lexsort((-size.max(axis=0), size.argmax(axis=0)))
    ordered = [pairs[k][::-1] if flipped[k] else pairs[k] for k in index]
    channels = tuple(a for a, _ in ordered) + tuple(b for _, b in ordered)
    return PairChannels(Pairing("half"), index, channels)


def _regular(
    pairs: list[tuple[int, int]], turns: Turns, part: Any, written: bool
) -> PairChannels | None:
    """Halves or neighbours at one end, in one block or in several."""
    width, place = turns.width, {pair: k for k, pair in enumerate(pairs)}
    distances = {b - a for a, b in pairs}
    blocked = _blocked(pairs, width, part)
    options: list[tuple[Order, tuple[int, ...], int]] = []
    if distances == {1}:
        least, most = min(a for a, _ in pairs), max(b for _, b in pairs)
        dim = most + 1 if part == "leading" else width - least
        options.append(("interleaved", (), dim))
        options.append(("interleaved", (), width))
    if len(distances) == 1:
        options.append(("half", (), 2 * next(iter(distances))))
    if blocked is not None:
        options.append(("half", blocked, 2 * sum(blocked)))
    for order, blocks, dim in options:
        if dim % 2 or dim > width:
            continue
        begin = 0 if part == "leading" else width - dim
        output: Any = "half" if written and order != "half" else "same"
        pairing = Pairing(order, part=part, blocks=blocks, output=output)
        wanted = [(begin + a, begin + b) for a, b in pairing.channels(dim)]
        if not set(pairs) <= set(wanted):
            continue
        index = np.array([place.get(pair, -1) for pair in wanted])
        if written:
            n = dim // 2
            to = [(begin + j, begin + j + n) for j in range(n)]
            if any(turns.outputs[k] != to[j] for j, k in enumerate(index.tolist()) if k >= 0):
                continue
        if part == "trailing" and dim == width:
            continue
        return PairChannels(pairing, index)
    return None


def _blocked(pairs: list[tuple[int, int]], width: int, part: str) -> tuple[int, ...] | None:
    """Pairs of each block, where each block has halves of its own and follows the last."""
    begin = 0 if part == "leading" else min(a for a, _ in pairs)
    starts = {a: b - a for a, b in pairs}
    blocks = []
    while begin in starts:
        size = starts[begin]
        if any(starts.get(begin + j, size) != size for j in range(size)):
            return None
        blocks.append(size)
        begin += 2 * size
    covered = begin == width if part == "trailing" else begin > max(b for _, b in pairs)
    return tuple(blocks) if covered and len(blocks) > 1 else None


def placed(lines: Lines, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and their errors, pair by pair of the pairing."""
    frequency = np.zeros((lines.frequency.shape[0], len(index)))
    error = np.zeros(len(index))
    kept = index >= 0
    frequency[:, kept] = lines.frequency[:, index[kept]]
    error[kept] = lines.error[index[kept]]
    return frequency, error

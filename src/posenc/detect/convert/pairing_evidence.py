"""What the weights of queries and keys say about their pairing, as z values.

Two statistics are positive for halves and negative for neighbours. Both compare the two hypotheses
on one head, against all orders of its channels: without positions no order is special, so each is
then 0 on average with the variance that is computed here, and the sum over many heads is normal.

    similarity   channels of near frequency get alike: they see the same gradients. M is the mean
                 squared cosine between the weights of two channels; its ranks fall with the
                 distance |i - j| of their pairs under the true pairing.
    balance      gradients conserve |w_q|² - |w_k|² of a pair, as its queries can grow where its
                 keys shrink; decay drives it to 0. So the differences of the two channels of a true
                 pair are opposite, those of other channels are not. Behind a norm it is the
                 gains that can, not the weights.

Both take the width that turns for granted, and half of a head in halves looks like neighbours. So
halves of other widths are tried as well, against neighbours: in a half or a quarter of the channels
that were given (`narrower`), and in twice as many (`wider`). Where one of these fits, the width is
wrong, and nothing else counts. Two heads taken for one look like neighbours too, as their channels
are alike in two blocks rather than gradually (`blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from posenc.detect.convert.projections import AttentionTensors, HeadTensor
from posenc.detect.convert.segments import Segment

__all__ = ["Evidence", "Group", "evidence", "groups"]

FEWEST = 8  # channels that turn: fewer have too few orders to stand out from


class Group(NamedTuple):
    """The heads of queries that share a head of keys, and that head; channels that turn only."""

    q: np.ndarray  # (heads, channels, inputs), float64
    k: np.ndarray  # (channels, inputs)
    charge: np.ndarray | None  # (channels,): |q|² - |k|²; None where another group has counted it
    wider: tuple[
        np.ndarray, ...
    ]  # (2 channels, inputs): heads of queries, if they were twice as wide


class Evidence(NamedTuple):
    """z values, summed over groups of heads: above 0 for halves, below 0 for neighbours."""

    similarity: float
    balance: float
    narrower: float
    wider: float
    blocks: float
    groups: int


def evidence(samples: Iterable[Group]) -> Evidence:
    """The evidence of some groups of heads."""
    similarities, balances, wider, blocks = [], [], [], []
    narrower: dict[tuple[int, int], list[float]] = {}
    for group in samples:
        if group.k.shape[0] < FEWEST:
            continue
        alike = _alike(group)
        similarities.append(_similarity(alike))
        blocks.append(_blocks(alike))
        if group.charge is not None:
            balances.append(_balance(group.charge))
        for place, part in _parts(alike):
            narrower.setdefault(place, []).append(_similarity(part))
        for head in group.wider:
            rows = _unit(head)
            wider.append(_similarity((rows @ rows.T) ** 2))
    return Evidence(
        _total(similarities),
        _total(balances),
        max((_total(values) for values in narrower.values()), default=0.0),
        _total(wider),
        _total(blocks),
        sum(map(math.isfinite, similarities)),
    )


def _total(values: list[float]) -> float:
    """The z value of independent ones; those of heads that hold nothing are not finite."""
    usable = [z for z in values if math.isfinite(z)]
    return sum(usable) / math.sqrt(len(usable)) if usable else 0.0


# --- the two statistics ---------------------------------------------------------------------------


def _alike(group: Group) -> np.ndarray:
    """M, but for a factor."""
    rotated = group.k.shape[0]
    k = _unit(group.k)
    alike = np.zeros((rotated, rotated))
    for head in group.q:
        q = _unit(head)
        alike += (q @ q.T) ** 2 + (k @ k.T) ** 2
        if q.shape[1] == k.shape[1]:  # latent queries and keys have inputs of their own
            across = q @ k.T
            alike += across**2 + across.T**2
    return alike


def _parts(alike: np.ndarray) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """The halves and quarters of M along its diagonal, as far as they are not too small."""
    for parts in (2, 4):
        size = len(alike) // parts
        if size >= FEWEST and size % 2 == 0:
            for i in range(parts):
                own = slice(i * size, (i + 1) * size)
                yield (parts, i), alike[own, own]


def _similarity(alike: np.ndarray) -> float:
    channels = np.arange(len(alike))
    halves, neighbours = channels % (len(alike) // 2), channels // 2
    return _better(alike, halves, neighbours)


def _blocks(alike: np.ndarray) -> float:
    channels = np.arange(len(alike))
    return _better(alike, channels // (len(alike) // 2), channels // 2)


def _better(alike: np.ndarray, places: np.ndarray, others: np.ndarray) -> float:
    """By how much M falls with the distance of one kind of places rather than another."""
    distances = [np.abs(place[:, None] - place[None, :]) for place in (others, places)]
    return _z(_ranks(alike), _ranks(distances[0]) - _ranks(distances[1]))


def _balance(charge: np.ndarray) -> float:
    rotated = len(charge)
    channels = np.arange(rotated)
    pairs = np.zeros((rotated, rotated))
    pairs[channels, channels ^ 1] += 1
    pairs[channels, (channels + rotated // 2) % rotated] -= 1
    return _z(np.outer(charge, charge), pairs)


def _unit(rows: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(size > 0, size, 1))


def _ranks(matrix: np.ndarray) -> np.ndarray:
    """Ranks of the entries beside the diagonal, with mean 0; entries that are equal share one."""
    above = np.triu_indices(len(matrix), 1)
    _, place, counts = np.unique(matrix[above], return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle = last - (counts + 1) / 2
    ranks = np.zeros(matrix.shape)
    ranks[above] = middle[place] - (len(place) - 1) / 2
    return ranks + ranks.T


def _z(a: np.ndarray, b: np.ndarray) -> float:
    """The sum over i ≠ j of a[i, j] b[i, j], in standard deviations over all orders of a.

    b sums to 0, so the mean over orders is 0; the variance is that of Mantel (1967) for symmetric
    matrices.
    """
    n = len(a)
    a, b = a.copy(), b.copy()
    np.fill_diagonal(a, 0)
    np.fill_diagonal(b, 0)
    sums = [(m.sum() ** 2, np.square(m).sum(), np.square(m.sum(1)).sum()) for m in (a, b)]
    (a0, a1, a2), (b0, b1, b2) = sums
    variance = (
        2 * a1 * b1 / (n * (n - 1))
        + 4 * (a2 - a1) * (b2 - b1) / (n * (n - 1) * (n - 2))
        + (a0 + 2 * a1 - 4 * a2) * (b0 + 2 * b1 - 4 * b2) / (n * (n - 1) * (n - 2) * (n - 3))
    )
    return float((a * b).sum() / math.sqrt(variance)) if variance > 0 else math.nan


# --- reading --------------------------------------------------------------------------------------


def groups(attention: AttentionTensors) -> Iterator[Group]:
    """The groups of one layer, read one at a time; weights with their biases and gains."""
    q = [
        (tensor, s)
        for tensor in attention.tensors
        if tensor.kind == "weight"
        for s in tensor.of("q")
    ]
    k = [
        (tensor, s)
        for tensor in attention.tensors
        if tensor.kind == "weight"
        for s in tensor.of("k")
    ]
    if not q or not k or len(q) % len(k):
        return
    if any(tensor.stored.tensor.stored is None for tensor in attention.tensors):
        return  # numbers of eight bits that NumPy cannot read
    each = len(q) // len(k)
    left: np.ndarray | None = None  # a head of queries that waits for its neighbour
    for number, (tensor, segment) in enumerate(k):
        keys = _rows(attention, tensor, segment, "k", number)
        own = range(number * each, (number + 1) * each)
        queries = np.stack([_rows(attention, *q[i], "q", i) for i in own])
        wider = []
        for i, rows in zip(own, queries, strict=True):
            home, head = q[i]
            if head.width >= 2 * attention.heads.rotated:
                wider.append(_slice(home, *_doubled(attention, head)))
            elif head.width == attention.heads.rotated:
                if left is not None:
                    wider.append(np.concatenate([left, rows]))
                left = rows if left is None else None
        charge = _charge(attention, queries, keys, own, number)
        yield Group(queries, keys, charge, tuple(wider))


def _doubled(attention: AttentionTensors, segment: Segment) -> tuple[int, int]:
    """Twice the channels that turn, on the same side of a head."""
    count = 2 * attention.heads.rotated
    trailing = attention.heads.channels.part == "trailing"
    return segment.begin + (segment.width - count if trailing else 0), count


def _charge(
    attention: AttentionTensors, q: np.ndarray, k: np.ndarray, own: range, number: int
) -> np.ndarray | None:
    gains = [tensor for tensor in attention.tensors if tensor.kind == "gain"]
    if not gains:
        return np.asarray(np.square(q).sum((0, 2)) - np.square(k).sum(1))
    shared = any(len(tensor.segments) == 1 for tensor in gains)
    if shared and number > 0:
        return None  # one vector for all heads is one observation
    total = np.zeros(attention.heads.rotated)
    for tensor in gains:
        for part, numbers, sign in (("q", own, 1), ("k", (number,), -1)):
            heads = tensor.of(part)
            for i in numbers[:1] if len(heads) == 1 else numbers if heads else ():
                total += sign * np.square(_part(attention, tensor, heads[i % len(heads)]))
    return total


def _part(attention: AttentionTensors, tensor: HeadTensor, head: Segment) -> np.ndarray:
    """The numbers of a vector that belong to the channels of a head that turn."""
    rotated = attention.heads.rotated
    trailing = attention.heads.channels.part == "trailing"
    return tensor.stored.numbers(head.begin + (head.width - rotated if trailing else 0), rotated)


def _rows(
    attention: AttentionTensors, tensor: HeadTensor, segment: Segment, part: str, number: int
) -> np.ndarray:
    """The channels of one head that turn, with all that multiplies them or is added."""
    rotated = attention.heads.rotated
    trailing = attention.heads.channels.part == "trailing"
    begin = segment.begin + (segment.width - rotated if trailing else 0)
    rows = _slice(tensor, begin, rotated)
    for other in attention.tensors:
        heads = other.of(part)
        if other.kind == "weight" or not heads:
            continue
        values = _part(attention, other, heads[number % len(heads)])[:, None]
        if other.kind in ("gain", "scale"):
            rows = rows * values
        else:
            rows = np.concatenate([rows, values], axis=1)
    return rows


def _slice(tensor: HeadTensor, begin: int, count: int) -> np.ndarray:
    before, channels, behind = tensor.view
    if before == 1:
        return tensor.stored.numbers(begin * behind, count * behind).reshape(count, behind)
    step = max(1, 2**19 // channels)
    pieces = []
    for start in range(0, before, step):
        rows = min(step, before - start)
        data = tensor.stored.numbers(start * channels, rows * channels).reshape(rows, channels)
        pieces.append(data[:, begin : begin + count].T)
    return np.concatenate(pieces, axis=1)

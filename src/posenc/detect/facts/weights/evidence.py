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

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posenc._core.grouping import grouped
from posenc.detect.facts.weights.projections import AttentionTensors, HeadTensor
from posenc.detect.facts.weights.segments import Segment

FEWEST = 8  # channels that turn: fewer have too few orders to stand out from
MOST_HEADS = 512  # heads of queries of a model, which its layers share
QUARTERS = 4
TILE, DEPTH = 32, 256  # of a product that BLAS leaves to one thread
MOST_INPUTS = 4096  # of a head: of more, columns that are evenly spread


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


class Measure(NamedTuple):
    """The z values of one group of heads; those of what is absent are not finite."""

    similarity: float
    queries: float
    keys: float
    balance: float
    blocks: float
    narrower: tuple[tuple[tuple[int, int], float], ...]
    wider: tuple[float, ...]


def summed(measures: Sequence[Measure]) -> Evidence:
    """The evidence of groups that were measured."""
    narrower = grouped(pair for measure in measures for pair in measure.narrower)
    return Evidence(
        total([m.similarity for m in measures]),
        total([m.balance for m in measures]),
        max((total(values) for values in narrower.values()), default=0.0),
        total([z for m in measures for z in m.wider]),
        total([m.blocks for m in measures]),
        sum(math.isfinite(m.similarity) for m in measures),
    )


def measured(
    attentions: Sequence[AttentionTensors], *, every: bool = False, most: int | None = None
) -> dict[str, list[Measure]]:
    """Groups of layers by their names, with `every` of each; an adapter is no evidence.

    With `most`, no more groups than that, from layers evenly spread, by the first of each quarter.

    Layers that hold nothing do not count among those that are read of a large model.
    """
    own = [attention for attention in attentions if not attention.adapter]
    if most is not None:
        together = 1 + _queries_of_a_key(own[0]) % 2 if own else 1  # as `groups` reads them
        own = own[:: max(1, -(-len(own) * together // most))]
        # A quarter of the layers answers as one: a single head may be unlike all others.
        quarters: dict[str, list[Measure]] = {}
        for i, one in enumerate(own):
            quarters.setdefault(
                own[i * QUARTERS // len(own) * len(own) // QUARTERS].name, []
            ).extend(_measures(one, max(1, most // len(own))))
        return quarters
    share = MOST_HEADS // max(1, len(own))  # heads of queries of a layer
    largest = max((_queries_of_a_key(attention) for attention in own), default=1)
    step = 1 if every else max(1, -(-largest // max(1, share)))
    found: dict[str, list[Measure]] = {}
    left = MOST_HEADS
    for attention in (layer for start in range(step) for layer in own[start::step]):
        if step > 1 and left < largest:
            break
        found[attention.name] = _measures(attention, max(1, share // largest))
        left -= largest * sum(math.isfinite(m.similarity) for m in found[attention.name])
    return found


def _measures(attention: AttentionTensors, most: int) -> list[Measure]:
    """Some groups of a layer, but for those that are too narrow or not finite."""
    return [
        _measure(group)
        for group in groups(attention, most)
        if group.k.shape[0] >= FEWEST and np.isfinite([group.q.sum(), group.k.sum()]).all()
    ]


def _queries_of_a_key(attention: AttentionTensors) -> int:
    """How many heads of queries share a head of keys."""
    q, k = (sum(len(t.of(part)) for t in attention.tensors if t.kind == "weight") for part in "qk")
    return max(1, q // max(1, k))


def _measure(group: Group) -> Measure:
    alike, queries, keys = _alike(group)
    wider = [_squared(rows) for rows in map(_unit, filter(np.any, group.wider))]
    return Measure(
        _similarity(alike),
        _similarity(queries),
        _similarity(keys),
        math.nan if group.charge is None else _balance(group.charge),
        _better(alike, np.arange(len(alike)) // (len(alike) // 2)),
        tuple((place, _similarity(part)) for place, part in _parts(alike)),
        tuple(map(_similarity, wider)),
    )


def total(values: list[float]) -> float:
    """The z value of independent ones; those of heads that hold nothing are not finite."""
    usable = [z for z in values if math.isfinite(z)]
    return sum(usable) / math.sqrt(len(usable)) if usable else 0.0


# --- the two statistics ---------------------------------------------------------------------------


def _alike(group: Group) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M of the group, of its queries, and of its keys, but for factors."""
    rotated = group.k.shape[0]
    if not (group.q.any() or group.k.any()):
        return (np.zeros((rotated, rotated)),) * 3
    k = _unit(group.k)
    keys = _squared(k)
    queries, between = np.zeros((2, rotated, rotated))
    for head in group.q:
        q = _unit(head)
        queries += _squared(q)
        if q.shape[1] == k.shape[1]:  # latent queries and keys have inputs of their own
            across = _product(q, k)
            between += across**2 + across.T**2
    return queries + len(group.q) * keys + between, queries, keys


def _parts(alike: np.ndarray) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """The halves and quarters of M along its diagonal, as far as they are not too small."""
    for parts in (2, 4):
        if (size := len(alike) // parts) >= FEWEST and size % 2 == 0:
            for i in range(parts):
                own = slice(i * size, (i + 1) * size)
                yield (parts, i), alike[own, own]


def _similarity(alike: np.ndarray) -> float:
    return _better(alike, np.arange(len(alike)) % (len(alike) // 2))


def _better(alike: np.ndarray, places: np.ndarray) -> float:
    """The fall of M with the distance of places rather than with that of neighbours."""
    return _z(_ranks(alike), _nearer(tuple(places))) if np.ptp(alike) else math.nan


@functools.lru_cache(16)  # asked of each head of a model
def _nearer(places: tuple[int, ...]) -> np.ndarray:
    """The ranks of distances of neighbours, less those of places."""
    both = (np.arange(len(places)) // 2, np.array(places))
    neighbours, own = (_ranks(np.abs(place[:, None] - place[None, :])) for place in both)
    return neighbours - own


def _balance(charge: np.ndarray) -> float:
    rotated = len(charge)
    channels = np.arange(rotated)
    pairs = np.zeros((rotated, rotated))
    pairs[channels, channels ^ 1] += 1
    pairs[channels, (channels + rotated // 2) % rotated] -= 1
    return _z(np.outer(charge, charge), pairs)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product a bᵀ in tiles: a larger one is shared by threads, which a busy machine delays."""
    sides = (np.pad(m, ((0, -len(m) % TILE), (0, -m.shape[1] % DEPTH))) for m in (a, b))
    left, right = (m.reshape(-1, TILE, m.shape[1] // DEPTH, DEPTH) for m in sides)
    tiles = left.swapaxes(1, 2)[:, None] @ right.transpose(0, 2, 3, 1)[None]
    whole = tiles.sum(2).swapaxes(1, 2)
    return np.asarray(whole.reshape(len(whole) * TILE, -1)[: len(a), : len(b)])


def _squared(rows: np.ndarray) -> np.ndarray:
    """The product of rows with themselves, each of the two equal halves once; squared."""
    whole = np.empty((len(rows), len(rows)), rows.dtype)
    for end in range(2 * TILE, len(rows) + 2 * TILE, 2 * TILE):
        begin = end - 2 * TILE
        whole[begin:end, :end] = part = _product(rows[begin:end], rows[:end])
        whole[:end, begin:end] = part.T
    return whole**2


def _unit(rows: np.ndarray) -> np.ndarray:
    size = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.asarray(rows / np.where(size > 0, size, 1), dtype=np.float32)  # only ranks count


def _ranks(matrix: np.ndarray) -> np.ndarray:
    """Ranks of the entries beside the diagonal, with mean 0; entries that are equal share one."""
    above = np.triu_indices(len(matrix), 1)
    _, place, counts = np.unique(matrix[above], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts + 1) / 2
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
    (a0, a1, a2), (b0, b1, b2) = (
        (m.sum() ** 2, np.square(m).sum(), np.square(m.sum(1)).sum()) for m in (a, b)
    )
    variance = (
        2 * a1 * b1 / (n * (n - 1))
        + 4 * (a2 - a1) * (b2 - b1) / (n * (n - 1) * (n - 2))
        + (a0 + 2 * a1 - 4 * a2) * (b0 + 2 * b1 - 4 * b2) / (n * (n - 1) * (n - 2) * (n - 3))
    )
    return float((a * b).sum() / math.sqrt(variance)) if variance > 0 else math.nan


# --- reading --------------------------------------------------------------------------------------


def groups(attention: AttentionTensors, most: int | None = None) -> Iterator[Group]:
    """Some groups of one layer, evenly spread and read singly; weights with biases and gains.

    Where one side is missing, as in a file of several, each head of the other is a group.
    """
    weights = [tensor for tensor in attention.tensors if tensor.kind == "weight"]
    q, k = ([(tensor, s) for tensor in weights for s in tensor.of(part)] for part in ("q", "k"))
    if any(tensor.stored.tensor.stored is None for tensor in attention.tensors):
        return  # numbers of eight bits that NumPy cannot read
    if not q or not k:
        for number, (tensor, segment) in enumerate([*q, *k][:most]):
            rows = _rows(attention, tensor, segment, "q" if q else "k", number)
            yield Group(rows[None], rows, None, ())
        return
    if len(q) % len(k):
        return
    each = len(q) // len(k)
    left: np.ndarray | None = None  # a head of queries that waits for its neighbour
    step = -(-len(k) // most) if most else 1
    beside = 1 + each % 2  # neighbours stay together, as they may be halves of one head
    for number, (tensor, segment) in enumerate(k):
        if number // beside % step:
            continue
        keys = _rows(attention, tensor, segment, "k", number)
        own = range(number * each, (number + 1) * each)
        first = _rows(attention, *q[own[0]], "q", own[0])
        if not (keys.any() or first.any()):
            continue
        queries = np.empty((each, *first.shape))
        for row, i in zip(queries, own, strict=True):
            row[:] = first if i == own[0] else _rows(attention, *q[i], "q", i)
        wider, rotated = [], attention.heads.rotated
        for i, rows in zip(own, queries, strict=True):
            home, head = q[i]
            if head.width >= 2 * rotated:  # twice the channels that turn, on the same side of it
                wider.append(_slice(home, head.turning(attention.heads, 2), 2 * rotated))
            elif head.width == rotated:
                if left is not None:
                    wider.append(np.concatenate([left, rows]))
                left = rows if left is None else None
        yield Group(queries, keys, _charge(attention, queries, keys, own, number), tuple(wider))
        del queries, wider  # before the next ones are read


def _charge(
    attention: AttentionTensors, q: np.ndarray, k: np.ndarray, own: range, number: int
) -> np.ndarray | None:
    gains = [tensor for tensor in attention.tensors if tensor.kind == "gain"]
    if not gains:
        return np.asarray(np.square(q).sum((0, 2)) - np.square(k).sum(1))
    if any(len(tensor.segments) == 1 for tensor in gains) and number > 0:
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
    return tensor.stored.numbers(head.turning(attention.heads), attention.heads.rotated)


def _rows(
    attention: AttentionTensors, tensor: HeadTensor, segment: Segment, part: str, number: int
) -> np.ndarray:
    """The channels of one head that turn, with all that multiplies them or is added."""
    rows = _slice(tensor, segment.turning(attention.heads), attention.heads.rotated)
    for other in attention.tensors:
        heads = other.of(part)
        if other.kind == "weight" or not heads:
            continue
        values = _part(attention, other, heads[number % len(heads)])[:, None]
        factor = other.kind in ("gain", "scale")
        rows = rows * values if factor else np.concatenate([rows, values], axis=1)
    return rows


def _slice(tensor: HeadTensor, begin: int, count: int) -> np.ndarray:
    before, channels, behind = tensor.view
    if before == 1:
        how = {"width": behind, "every": -(-behind // MOST_INPUTS)}
        return tensor.stored.numbers(begin * behind, count * behind, **how).reshape(count, -1)
    step = max(1, 2**19 // channels)
    pieces = []
    for start in range(0, before, step):
        rows = min(step, before - start)
        data = tensor.stored.numbers(start * channels, rows * channels).reshape(rows, channels)
        pieces.append(data[:, begin : begin + count].T)
    return np.concatenate(pieces, axis=1)[:, :: -(-before // MOST_INPUTS)]

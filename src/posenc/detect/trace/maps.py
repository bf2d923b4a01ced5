"""What became of each token and head, as exact matrices, by gradients of ones.

What lies between a tensor and the cuts behind it is linear, so the gradient of one of its numbers
is a row of that map. Tokens share nothing, so one gradient tells of a channel of all of them; heads
share something where keys are expanded, and are then asked class by class.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from posenc.detect.trace.recorder import Cut

RANK = ("projection", "scale", "norm", "product", "attention", "function", "embedding", "softmax")
MOST_ENTRIES = 6  # for each channel; a turn of pairs has two
HALVES_DRAWS = 3


@dataclass(eq=False)
class LinearMap:
    """Maps of rows, by their numbers that are not 0.

    `outputs[r, c] = sum of inputs[r, i] * values[e, r]` over entries e = (i, c), and what does not
    depend on the inputs.
    """

    rows: np.ndarray  # (heads, tokens of all sequences, channels): where they are in the tensor
    inputs: np.ndarray  # (heads, tokens, inputs): what they read, in all leaves in a line; -1: none
    entries: np.ndarray  # (entries, 2): input and channel
    values: np.ndarray  # (entries, heads, tokens)
    leaves: list[Cut]
    pooled: bool = False  # whether numbers of several tokens are read by one
    dropped: bool = False  # whether leaves that add up were left out
    dense: bool = False  # whether it has too many entries to be a turn of pairs
    finite: bool = True  # whether none of its numbers is NaN or infinite

    @property
    def read(self) -> np.ndarray:
        """Which rows read anything, (heads, tokens)."""
        return np.asarray((self.inputs >= 0).any(axis=-1))

    @property
    def mixes(self) -> bool:
        """Whether any channel reaches another one."""
        several = self.inputs.shape[-1] != self.rows.shape[-1]
        return self.dense or several or bool((self.entries[:, 0] != self.entries[:, 1]).any())

    def matrices(self, head: int) -> np.ndarray:
        """Those of a head, (tokens, inputs, channels)."""
        mapping = np.zeros((self.rows.shape[1], self.inputs.shape[-1], self.rows.shape[-1]))
        mapping[:, self.entries[:, 0], self.entries[:, 1]] = self.values[:, head].T
        return mapping


class Seeds:
    """Gradients of chosen numbers of a tensor, in all leaves in a line."""

    def __init__(self, tensor: Tensor, leaves: Sequence[Cut]) -> None:
        self.tensor, self.leaves = tensor, [cut.leaf for cut in leaves]
        self.finite = True
        self.coarse = min(t.dtype.itemsize for t in (tensor, *self.leaves)) < 4

    def touched(self, places: np.ndarray) -> np.ndarray:
        """Which numbers any of these depend on: a sum of few digits may be 0 by accident."""
        rng = np.random.default_rng(0)
        return np.logical_or.reduce(
            [
                self(places, rng.uniform(1, 2, places.shape)) != 0
                for _ in range(HALVES_DRAWS if self.coarse else 1)
            ]
        )

    def __call__(self, places: np.ndarray, values: np.ndarray | float = 1.0) -> np.ndarray:
        """The gradient of the sum of numbers at flat places, each times its value."""
        seed = torch.zeros(self.tensor.numel(), dtype=self.tensor.dtype)
        numbers = torch.as_tensor(np.broadcast_to(values, places.shape).reshape(-1).copy())
        seed[torch.from_numpy(np.ascontiguousarray(places).reshape(-1))] = numbers.to(
            self.tensor.dtype
        )
        parts = torch.autograd.grad(
            self.tensor, self.leaves, seed.reshape(self.tensor.shape).to(self.tensor.device),
            retain_graph=True, allow_unused=True,
        )  # fmt: skip
        gradient = np.concatenate([
            np.zeros(leaf.numel()) if part is None else part.reshape(-1).double().cpu().numpy()
            for leaf, part in zip(self.leaves, parts, strict=True)
        ])  # fmt: skip
        self.finite = self.finite and bool(np.isfinite(gradient).all())
        return gradient


def linear_map(tensor: Tensor, cuts: Sequence[Cut], rows: np.ndarray) -> LinearMap | None:
    """The matrices of rows (heads, tokens of all sequences, channels), flat places in a tensor.

    None where no leaf is reached.
    """
    every = sorted(cuts, key=lambda c: (RANK.index(c.kind), c.number))
    # Learned keys before the first token, such as those of a prefix, are none of the run.
    cuts = [cut for cut in every if cut.kind != "embedding"] or every
    if not cuts or tensor.grad_fn is None:
        return None
    ask = Seeds(tensor, cuts)
    count, width = rows.shape[1:]
    reach = np.stack([ask.touched(head) for head in rows])  # the numbers that each head reads
    if not ask.finite:  # whatever reads such a number looks as if it read all
        return LinearMap(
            rows, np.full((*rows.shape[:2], 1), -1), np.empty((0, 2), int), np.empty(0), cuts,
            finite=False,
        )  # fmt: skip
    starts = np.cumsum([0, *(cut.leaf.numel() for cut in cuts)])
    used = [
        cut for cut, begin, end in zip(cuts, starts, starts[1:], strict=False)
        if reach[:, begin:end].any()
    ]  # fmt: skip
    if 0 < len(used) < len(cuts):  # what cancels, such as a number that is replaced by its rounding
        return linear_map(tensor, used, rows)
    token, several = _owners(ask, rows)
    inputs = _inputs(reach, token, count, width, starts)
    if inputs is None:
        return None
    taken = inputs[inputs >= 0]
    mapping = LinearMap(
        rows,
        inputs,
        np.empty((0, 2), int),
        np.empty(0),
        list(cuts),
        pooled=bool(several[taken].any()),
        dropped=len(cuts) < len(every) or bool((token >= 0).sum() > len(np.unique(taken))),
    )
    _fill(mapping, ask, reach)
    return _ordered(mapping, starts)


def _classes(reach: np.ndarray, heads: list[int]) -> list[list[int]]:
    """These heads in classes whose members share no numbers."""
    classes: list[tuple[list[int], np.ndarray]] = []
    for head, own in zip(heads, reach[heads], strict=True):
        for members, taken in classes:
            if not (taken & own).any():
                members.append(head)
                np.logical_or(taken, own, out=taken)
                break
        else:
            classes.append(([head], own.copy()))
    return [members for members, _ in classes]


def _owners(ask: Seeds, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The token that each number belongs to, -1 for none, and whether several read it.

    Tokens are told by seeds that count in bits: the gradient of those with a bit is not 0.
    """
    count = rows.shape[1]
    reached = ask.touched(rows)
    token, several = np.zeros(len(reached), int), np.zeros(len(reached), bool)
    for bit in range((count - 1).bit_length()):
        chosen = (np.arange(count) >> bit) & 1 == 1
        one, zero = (ask.touched(rows[:, c]) for c in (chosen, ~chosen))
        token |= one.astype(int) << bit
        several |= one & zero
        reached |= one | zero
    return np.where(reached, token, -1), several


def _inputs(
    reach: np.ndarray, token: np.ndarray, count: int, width: int, starts: np.ndarray
) -> np.ndarray | None:
    """Which numbers each head and token reads, (heads, tokens, inputs), in the order of the leaves.

    Of leaves that add up, such as those of an adapter, the first that fills a row is read.
    """
    leaf = np.searchsorted(starts, np.arange(len(token)), side="right") - 1
    rows = []
    for own in reach:
        places = np.flatnonzero(own & (token >= 0))
        places = places[np.lexsort((places, leaf[places], token[places]))]
        begin = np.searchsorted(token[places], np.arange(count + 1))
        for t in range(count):
            line = places[begin[t] : begin[t + 1]]
            sizes = np.bincount(leaf[line], minlength=len(starts) - 1)
            before = np.cumsum(sizes) - sizes
            rows.append(line[before[leaf[line]] < width])
    widest = max(map(len, rows), default=0)
    if not widest:
        return None
    table = np.full((len(rows), widest), -1)
    for number, line in enumerate(rows):
        table[number, : len(line)] = line
    return table.reshape(len(reach), count, widest)


def _fill(mapping: LinearMap, ask: Seeds, reach: np.ndarray) -> None:
    """All entries, one channel of a class of heads at once."""
    heads, count, width = mapping.rows.shape
    numbers = ask.tensor.detach().double().cpu().numpy().reshape(-1)[mapping.rows]
    # Heads that read the same and make the same of it are turned alike, such as expanded keys.
    first: dict[bytes, int] = {}
    twins = [
        first.setdefault(reads.tobytes() + own.tobytes(), head)
        for head, (reads, own) in enumerate(zip(mapping.inputs, numbers, strict=True))
    ]
    entries: dict[tuple[int, int], np.ndarray] = {}
    classes = _classes(reach, [*first.values()])
    for members, channel in itertools.product(classes, range(width)):
        reads = mapping.inputs[members]
        gradient = ask(mapping.rows[members][..., channel])
        taken = np.where(reads >= 0, gradient[reads], 0.0)
        for number in np.flatnonzero((taken != 0).any(axis=(0, 1))).tolist():
            values = entries.setdefault((number, channel), np.zeros((heads, count)))
            values[members] = taken[..., number]
        if len(entries) > MOST_ENTRIES * width:
            mapping.dense = True
            return
    mapping.entries = np.array(list(entries), int).reshape(-1, 2)
    mapping.values = np.array(list(entries.values())).reshape(-1, heads, count)[:, twins]


def _ordered(mapping: LinearMap, starts: np.ndarray) -> LinearMap:
    """Inputs of several leaves in the order of the channels that they reach."""
    flat = mapping.inputs.reshape(-1, mapping.inputs.shape[-1])
    fullest = flat[int(np.argmax((flat >= 0).sum(axis=1)))]
    leaf = np.unique(np.searchsorted(starts, fullest, side="right"), return_inverse=True)[1]
    if leaf.any() and len(mapping.entries):
        number, channel = mapping.entries.T
        count = np.maximum(np.bincount(leaf[number], minlength=leaf.max() + 1), 1)
        middle = np.bincount(leaf[number], channel, leaf.max() + 1) / count
        order = np.argsort(middle[leaf], kind="stable")
        mapping.inputs = mapping.inputs[..., order]
        mapping.entries[:, 0] = np.argsort(order)[number]
    return mapping

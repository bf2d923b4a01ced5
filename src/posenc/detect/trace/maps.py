"""What became of each token and head, as exact matrices, by gradients of ones.

What lies between a tensor and the cuts behind it is linear, so the gradient of one of its numbers
is a row of that map. Tokens share nothing, so one gradient tells of a channel of all of them; heads
share something where keys are expanded, and are then asked class by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from posenc.detect.trace.recorder import Cut

RANK = ("projection", "scale", "norm", "product", "attention", "function", "embedding", "softmax")
HALVES_DRAWS = 3
PROBES = 2  # random vectors that tell whether two heads that share their numbers are turned alike


@dataclass(eq=False)
class LinearMap:
    """The matrices of rows: `outputs[r] = inputs[r] @ matrices[r] + what does not depend on it`."""

    rows: np.ndarray  # (rows, channels): where they are in the tensor, flat
    inputs: np.ndarray  # (rows, inputs): where what they read is, in all leaves in a line; -1: none
    matrices: np.ndarray  # (rows, inputs, channels)
    leaves: list[Cut]
    mixes: bool  # whether any channel reaches another one
    pooled: np.ndarray  # (rows,): whether it reads numbers of other tokens
    dropped: bool = False  # whether leaves that add up were left out

    @property
    def read(self) -> np.ndarray:
        """Which rows read anything."""
        return np.asarray((self.inputs >= 0).any(axis=1))


class Seeds:
    """Gradients of chosen numbers of a tensor, in all leaves in a line."""

    def __init__(self, tensor: Tensor, leaves: Sequence[Cut]) -> None:
        self.tensor, self.leaves = tensor, [cut.leaf for cut in leaves]

    def touched(self, places: np.ndarray) -> np.ndarray:
        """Which numbers any of these depend on: a sum of few digits may be 0 by accident."""
        draws = 1 if self.tensor.dtype.itemsize > 2 else HALVES_DRAWS
        rng = np.random.default_rng(0)
        return np.logical_or.reduce(
            [self(places, rng.uniform(1, 2, places.shape)) != 0 for _ in range(draws)]
        )

    def __call__(self, places: np.ndarray, values: np.ndarray | float = 1.0) -> np.ndarray:
        """The gradient of the sum of numbers at flat places, each times its value."""
        seed = torch.zeros(self.tensor.numel(), dtype=self.tensor.dtype)
        index = torch.from_numpy(np.ascontiguousarray(places).reshape(-1))
        numbers = torch.as_tensor(np.broadcast_to(values, places.shape).reshape(-1).copy())
        seed[index] = numbers.to(self.tensor.dtype)
        seed = seed.reshape(self.tensor.shape).to(self.tensor.device)
        parts = torch.autograd.grad(
            self.tensor, self.leaves, seed, retain_graph=True, allow_unused=True
        )
        every = (
            torch.zeros(leaf.numel()) if part is None else part.reshape(-1)
            for leaf, part in zip(self.leaves, parts, strict=True)
        )  # fmt: skip
        return np.concatenate([part.double().cpu().numpy() for part in every])


def linear_map(
    tensor: Tensor, cuts: Sequence[Cut], rows: np.ndarray, *, look: bool = False
) -> LinearMap | None:
    """The matrices of rows (heads, tokens of all sequences, channels), flat places in a tensor.

    With `look`, matrices are worked out only where channels mix. None where no leaf is reached.
    """
    cuts = sorted(cuts, key=lambda c: (RANK.index(c.kind), c.number))
    if not cuts or tensor.grad_fn is None:
        return None
    ask = Seeds(tensor, cuts)
    heads, count, width = rows.shape
    reach = _heads(ask, rows)
    classes = _classes(reach)
    token, several = _owners(ask, rows)
    starts = np.cumsum([0, *(cut.leaf.numel() for cut in cuts)])
    inputs = _inputs(reach, token, count, width, starts)
    if inputs is None:
        return None
    mixes, diagonal = _mixing(ask, rows, inputs, classes)
    flat_inputs = inputs.reshape(heads * count, -1)
    dropped = bool((token >= 0).sum() > len(np.unique(inputs[inputs >= 0])))
    pooled = np.asarray(np.where(flat_inputs >= 0, several[flat_inputs], False).any(axis=1))
    flat = rows.reshape(heads * count, width)
    if not mixes and inputs.shape[-1] == width:
        matrices = np.zeros((heads * count, width, width))
        matrices[:, np.arange(width), np.arange(width)] = diagonal.reshape(-1, width)
        return LinearMap(flat, flat_inputs, matrices, list(cuts), False, pooled, dropped)
    if look and not mixes:
        return None
    matrices = _matrices(ask, rows, inputs, classes)
    made = matrices.reshape(heads * count, *matrices.shape[2:])
    made_ = LinearMap(flat, flat_inputs, made, list(cuts), mixes, pooled, dropped)
    return _ordered(made_, starts)


def _heads(ask: Seeds, rows: np.ndarray) -> np.ndarray:
    """Which numbers each head reads, (heads, numbers)."""
    return np.stack([ask.touched(head) for head in rows])


def _classes(reach: np.ndarray) -> list[list[int]]:
    """Heads in classes whose members share no numbers."""
    classes: list[tuple[list[int], np.ndarray]] = []
    for head, own in enumerate(reach):
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
    line = np.arange(count)
    reached = ask.touched(rows)
    token, several = np.zeros(len(reached), int), np.zeros(len(reached), bool)
    for bit in range((count - 1).bit_length()):
        chosen = (line >> bit) & 1 == 1
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


def _mixing(
    ask: Seeds, rows: np.ndarray, inputs: np.ndarray, classes: list[list[int]]
) -> tuple[bool, np.ndarray]:
    """Whether channels mix, and what each is multiplied by if they do not."""
    count, width = rows.shape[1:]
    diagonal = np.zeros(rows.shape)
    if inputs.shape[-1] != width:
        return True, diagonal
    channel = np.arange(width)
    for bit in range(max(1, (width - 1).bit_length())):
        chosen = (channel >> bit) & 1 == 1
        for members in classes:
            gradient = ask(rows[members][..., chosen])
            taken = np.where(inputs[members] >= 0, gradient[inputs[members]], 0.0)
            if (taken[..., ~chosen] != 0).any():
                return True, diagonal
            diagonal[np.ix_(members, range(count), chosen)] = taken[..., chosen]
            if not bit:  # channel 0 has no bit
                rest = ask(rows[members][..., ~chosen])
                other = np.where(inputs[members] >= 0, rest[inputs[members]], 0.0)
                diagonal[np.ix_(members, range(count), ~chosen)] = other[..., ~chosen]
    return False, diagonal


def _matrices(
    ask: Seeds, rows: np.ndarray, inputs: np.ndarray, classes: list[list[int]]
) -> np.ndarray:
    """All of them, (heads, tokens, inputs, channels), one channel of a class of heads at once."""
    heads, count, width = rows.shape
    matrices = np.zeros((heads, count, inputs.shape[-1], width))
    done: dict[int, int] = {}
    for members in classes:
        twins = _twins(ask, rows, inputs, matrices, members, done)
        if twins is not None:
            matrices[members] = matrices[twins]
            continue
        where = inputs[members]
        for channel in range(width):
            gradient = ask(rows[members][..., channel])
            matrices[members, :, :, channel] = np.where(where >= 0, gradient[where], 0.0)
        done |= {int(inputs[head].max()): head for head in members}
    return matrices


def _twins(
    ask: Seeds, rows: np.ndarray, inputs: np.ndarray, matrices: np.ndarray,
    members: list[int], done: dict[int, int],
) -> list[int] | None:  # fmt: skip
    """Heads with the same numbers whose matrices are known, if these are the same."""
    twins = [done.get(int(inputs[head].max()), -1) for head in members]
    if -1 in twins or any((inputs[a] != inputs[b]).any() for a, b in zip(members, twins)):  # noqa: B905
        return None
    rng = np.random.default_rng(2)
    for _ in range(PROBES):
        signs = rng.choice([-1.0, 1.0], rows.shape[-1])
        gradient = ask(rows[members], np.broadcast_to(signs, rows[members].shape))
        seen = np.where(inputs[members] >= 0, gradient[inputs[members]], 0.0)
        made = matrices[twins] @ signs
        if np.abs(seen - made).max() > 2e-2 * max(np.abs(made).max(), 1e-30):
            return None
    return twins


def _ordered(made: LinearMap, starts: np.ndarray) -> LinearMap:
    """Inputs of several leaves in the order of the channels that they reach."""
    leaf = np.searchsorted(starts, made.inputs, side="right") - 1
    first = leaf[int(np.argmax((made.inputs >= 0).sum(axis=1)))]
    if len(set(first.tolist())) < 2:
        return made
    weight = np.abs(made.matrices).max(axis=0)
    middle = (weight * np.arange(weight.shape[1])).sum(1) / np.maximum(weight.sum(1), 1e-30)
    blocks = sorted(set(first.tolist()), key=lambda n: float(middle[first == n].mean()))
    order = np.concatenate([np.flatnonzero(first == n) for n in blocks])
    made.inputs, made.matrices = made.inputs[:, order], made.matrices[:, order]
    return made

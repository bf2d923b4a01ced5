"""What a tensor of an attention went through: its pairs, angles and factors, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from posenc.detect.fit.rotations.pairs import NotARotationError, from_matrices
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.trace.maps import LinearMap, linear_map
from posenc.detect.trace.recorder import Recorder

STEPS = 4  # norms and functions that are looked behind
NOISE = 1e-6  # of the largest number of a map: less comes of turning and turning back
BEHIND = ("norm", "scale", "function")


@dataclass(eq=False)
class HeadTurns:
    """What some heads went through, which are alike in their pairs."""

    heads: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    values: np.ndarray  # (heads, sequences, tokens, pairs), complex: how each pair is turned
    passing: np.ndarray  # (heads, sequences, tokens): what the median channel is multiplied by
    why: str = ""  # what it is, where it is no rotation of pairs


@dataclass(eq=False)
class TensorTurns:
    """What queries or keys went through."""

    width: int
    groups: list[HeadTurns]  # those of most heads first
    read: np.ndarray  # (sequences, tokens): which come from a product with a weight
    dtype: str
    starts: np.ndarray  # (heads,): the first number that each head reads, of its first token
    pooled: np.ndarray  # (sequences, tokens)
    behind: str = ""  # what the turn was found behind
    normed: bool = False  # whether it is divided by a statistic of its own
    residual: float = 0.0  # by how much the numbers are not what the map makes of its inputs

    @property
    def heads(self) -> int:
        """The number of heads."""
        return sum(len(group.heads) for group in self.groups)


def by_heads(tensor: Tensor, sequences: int) -> np.ndarray:
    """Flat places as (heads, sequences * tokens, channels)."""
    shape: tuple[int, ...] = tuple(tensor.shape)
    places = np.arange(tensor.numel())
    if tensor.ndim == 3 and shape[0] % sequences == 0:
        shape = (sequences, shape[0] // sequences, *shape[1:])
    shape = (*(1,) * (4 - len(shape)), *shape)
    places = places.reshape(shape[0], -1, *shape[-2:])
    return np.moveaxis(places, 1, 0).reshape(places.shape[1], -1, places.shape[-1])


def turned(recorder: Recorder, tensor: Tensor, sequences: int) -> TensorTurns | None:
    """The turn between a tensor and what is behind it; None where nothing is."""
    rows = by_heads(tensor, sequences)
    heads, tokens = len(rows), int(tensor.shape[-2])
    first = linear_map(tensor, recorder.reached(tensor), rows)
    if first is None:
        return None
    made, behind = first, ""
    step: tuple[LinearMap, str] | None = (first, "")
    for _ in range(STEPS):
        step = _behind(recorder, made, heads) if not made.mixes else None
        if step is None:
            break
        made, behind = step
    if not made.mixes:
        made, behind = first, ""
    return of_map(made, heads, tokens, tensor, behind, _residual(tensor, first))


def of_map(
    made: LinearMap, heads: int, tokens: int, tensor: Tensor, behind: str = "", residual: float = 0
) -> TensorTurns:
    """The turns of a linear map."""
    return TensorTurns(
        made.rows.shape[1],
        _groups(made, heads, tokens),
        np.asarray(made.read.reshape(heads, -1, tokens).any(axis=0)),
        _dtype(tensor, *(cut.leaf for cut in made.leaves)),
        _starts(made, heads),
        np.asarray(made.pooled.reshape(heads, -1, tokens).any(axis=0)),
        behind,
        bool(behind)
        or any(cut.kind == "function" and cut.leaf.shape[-1] == 1 for cut in made.leaves),
        residual,
    )


def _behind(recorder: Recorder, made: LinearMap, heads: int) -> tuple[LinearMap, str] | None:
    """What is behind a norm or a function that took each token by itself."""
    cut = made.leaves[0]
    kinds = {cut.kind for cut in made.leaves}
    if not kinds <= {*BEHIND} or not cut.sources or (made.inputs < 0).any():
        return None
    if made.inputs.max() >= cut.leaf.numel() or cut.sources[0].shape != cut.leaf.shape:
        return None
    source = cut.sources[0]
    rows = made.inputs.reshape(heads, -1, made.inputs.shape[-1])
    found = linear_map(source, recorder.reached(source), rows)
    return None if found is None else (found, f"behind {cut.name}")


def _starts(made: LinearMap, heads: int) -> np.ndarray:
    """The first number that each head reads."""
    own = np.where(made.inputs >= 0, made.inputs, np.iinfo(int).max).reshape(heads, -1)
    return np.asarray(own.min(axis=1))


def _dtype(*tensors: Tensor) -> str:
    """The coarsest dtype of some tensors."""
    names = (str(t.dtype).removeprefix("torch.") for t in tensors if t.is_floating_point())
    return max(names, key=lambda name: ROUNDING.get(name, 0.0))


def _residual(tensor: Tensor, made: LinearMap) -> float:
    """How much of the numbers the map does not make of its inputs; 0 where more than it adds up."""
    if made.dropped:
        return 0.0
    values = np.concatenate([c.leaf.detach().double().cpu().numpy().ravel() for c in made.leaves])
    inputs = np.where(made.inputs >= 0, values[made.inputs], 0.0)
    outputs = tensor.detach().double().cpu().numpy().ravel()[made.rows]
    off = outputs - np.einsum("ri,ric->rc", inputs, made.matrices)
    off = off[made.read]
    size = np.abs(outputs).max(initial=0.0)
    return float(np.abs(off).max(initial=0.0) / size) if size else 0.0


def _groups(made: LinearMap, heads: int, tokens: int) -> list[HeadTurns]:
    """Heads by the pairs that they turn."""
    inputs, width = made.matrices.shape[1:]
    matrices = made.matrices.reshape(heads, -1, tokens, inputs, width)
    read = made.read.reshape(heads, -1, tokens)
    if inputs != width:
        why = f"each token reads {inputs} numbers for {width} channels"
        return [_unknown(range(heads), matrices, why)]
    shown = np.where(read[..., None, None], matrices, 0.0)
    largest = np.abs(shown).max(axis=(1, 2))
    groups: dict[bytes, list[int]] = {}
    for head in range(heads):
        groups.setdefault((largest[head] > 0).tobytes(), []).append(head)
    members = sorted(groups.values(), key=len, reverse=True)
    return [_of(tuple(own), matrices[own], read[own]) for own in members]


def _of(heads: tuple[int, ...], matrices: np.ndarray, read: np.ndarray) -> HeadTurns:
    """The pairs of heads that are alike, and how each is turned."""
    flat = matrices[read]
    if not len(flat):
        return _unknown(heads, matrices, "nothing of it comes from a product with a weight")
    try:
        turns = from_matrices(flat, np.zeros((len(flat), 1)))
    except NotARotationError as why:
        size = np.abs(flat).max()
        quiet = np.where(np.abs(flat).max(axis=0) > NOISE * size, flat, 0.0)
        try:
            turns = from_matrices(quiet, np.zeros((len(flat), 1)))
        except NotARotationError:
            return _unknown(heads, matrices, str(why))
    values = np.zeros((*read.shape, len(turns.pairs)), complex)
    values[read] = turns.size * np.exp(1j * turns.angle)
    width = matrices.shape[-1]
    still = [c for c in range(width) if c not in {a for pair in turns.pairs for a in pair}]
    passing = np.diagonal(matrices, axis1=-2, axis2=-1)[..., still]
    middle = np.median(passing, axis=-1) if still else np.ones(read.shape)
    return HeadTurns(heads, turns.pairs, turns.outputs, values, middle)


def _unknown(heads: Any, matrices: np.ndarray, why: str) -> HeadTurns:
    none = np.zeros((*matrices.shape[:3], 0), complex)
    return HeadTurns(tuple(heads), (), (), none, np.ones(matrices.shape[:3]), why)


def mixes(recorder: Recorder, tensor: Tensor, sequences: int) -> TensorTurns | None:
    """The turn of values, whose channels are asked for only where they mix."""
    rows = by_heads(tensor, sequences)
    cuts = recorder.reached(tensor)
    made = linear_map(tensor, cuts, rows, look=True)
    return turned(recorder, tensor, sequences) if made is not None and made.mixes else None

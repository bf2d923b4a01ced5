"""What a tensor of an attention went through: its pairs, angles and factors, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from posenc._core.grouping import grouped
from posenc.detect.fit.rotations.pairs import FLOAT32, NotARotationError, from_matrices
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.trace.maps import LinearMap, linear_map
from posenc.detect.trace.recorder import RecordedAttention, Recorder

STEPS = 4  # norms and functions that are looked behind
NOISE = 1e-6  # of the largest number of a map: less comes of turning and turning back
BEHIND = ("norm", "scale", "function")


@dataclass(eq=False)
class HeadTurns:
    """What some heads went through, which are alike in their pairs."""

    heads: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    values: np.ndarray  # (sequences, tokens, pairs), complex: how each pair is turned
    passing: np.ndarray  # (sequences, tokens): what the median channel is multiplied by
    why: str = ""  # what it is, where it is no rotation of pairs


@dataclass(eq=False)
class TensorTurns:
    """What queries or keys went through."""

    width: int
    groups: list[HeadTurns]  # those of most heads first
    read: np.ndarray  # (sequences, tokens): which come from a product with a weight
    dtype: str
    starts: np.ndarray  # (heads,): the first number that each head reads, of its first token
    pooled: bool  # whether tokens are mixed
    behind: str = ""  # what the turn was found behind
    sized: bool = False  # whether it is divided by a statistic of its own
    normed: bool = False  # whether a norm is before or after the turn
    residual: float = 0.0  # by how much the numbers are not what the map makes of its inputs

    @property
    def heads(self) -> int:
        """The number of heads."""
        return sum(len(group.heads) for group in self.groups)


def by_heads(tensor: Tensor, sequences: int) -> np.ndarray:
    """Flat places as (heads, sequences * tokens, channels)."""
    shape = [*tensor.shape]
    first = sequences if tensor.ndim == 3 and shape[0] % sequences == 0 else shape[0]
    first = 1 if tensor.ndim == 2 else first
    places = np.arange(tensor.numel()).reshape(first, -1, *shape[-2:])
    return np.moveaxis(places, 1, 0).reshape(places.shape[1], -1, places.shape[-1])


def turned(recorder: Recorder, tensor: Tensor, sequences: int) -> TensorTurns | None:
    """The turn between a tensor and what is behind it; None where nothing is."""
    first = linear_map(tensor, recorder.reached(tensor), by_heads(tensor, sequences))
    if first is None:
        return None
    mapping, behind = first, ""
    for _ in range(STEPS):
        step = None if mapping.mixes else _behind(recorder, mapping)
        if step is None:
            break
        mapping, behind = step
    if not mapping.mixes:
        mapping, behind = first, ""
    return of_map(mapping, int(tensor.shape[-2]), tensor, behind, _residual(tensor, first))


def of_map(
    mapping: LinearMap, tokens: int, tensor: Tensor, behind: str = "", residual: float = 0.0
) -> TensorTurns:
    """The turns of a linear map."""
    numbers = (t for t in (tensor, *(c.leaf for c in mapping.leaves)) if t.is_floating_point())
    names = (str(t.dtype).removeprefix("torch.") for t in numbers)
    return TensorTurns(
        mapping.rows.shape[-1],
        _groups(mapping, tokens),
        np.asarray(mapping.read.any(axis=0).reshape(-1, tokens)),
        max(names, key=lambda name: ROUNDING.get(name, 0.0)),  # the coarsest
        _starts(mapping),
        mapping.pooled,
        behind,
        bool(behind)
        or any(cut.kind == "function" and cut.leaf.shape[-1] == 1 for cut in mapping.leaves),
        any(cut.kind in ("norm", "scale") for cut in mapping.leaves),
        residual,
    )


def _behind(recorder: Recorder, mapping: LinearMap) -> tuple[LinearMap, str] | None:
    """What is behind a norm or a function that took each token by itself."""
    cut = mapping.leaves[0]
    others = {own.kind for own in mapping.leaves} - {*BEHIND}
    if others or not cut.sources or (mapping.inputs < 0).any():
        return None
    source = cut.sources[0]
    if mapping.inputs.max() >= cut.leaf.numel() or source.shape != cut.leaf.shape:
        return None
    beyond = linear_map(source, recorder.reached(source), mapping.inputs)
    return None if beyond is None else (beyond, f"behind {cut.name}")


def _starts(mapping: LinearMap) -> np.ndarray:
    """The first number that each head reads; all 0 where tokens are not in one order of heads."""
    first = np.where(mapping.inputs >= 0, mapping.inputs, np.iinfo(int).max).min(axis=2)
    order = np.argsort(first, axis=0, kind="stable")
    return first[:, 0] if (order == order[:, :1]).all() else np.zeros(len(first), int)


def _residual(tensor: Tensor, mapping: LinearMap) -> float:
    """How much of the numbers the map does not make of its inputs; 0 where more than it adds up."""
    if mapping.dropped or mapping.dense or not mapping.finite:
        return 0.0
    values = np.concatenate(
        [c.leaf.detach().double().cpu().numpy().ravel() for c in mapping.leaves]
    )
    outputs = tensor.detach().double().cpu().numpy().ravel()[mapping.rows]
    size = np.abs(outputs).max(initial=0.0)
    for (number, channel), factors in zip(mapping.entries.tolist(), mapping.values, strict=True):
        taken = mapping.inputs[..., number]
        outputs[..., channel] -= np.where(taken >= 0, values[taken], 0.0) * factors
    return float(np.abs(outputs[mapping.read]).max(initial=0.0) / size) if size else 0.0


def _groups(mapping: LinearMap, tokens: int) -> list[HeadTurns]:
    """Heads that go through the same, those of most heads first."""
    heads, _, width = mapping.rows.shape
    read = mapping.read.reshape(heads, -1, tokens)
    if not mapping.finite:
        return [_unknown(range(heads), read, "numbers that are NaN or infinite")]
    if mapping.inputs.shape[-1] != width or mapping.dense:
        why = (
            "its channels are mixed by more than pairs"
            if mapping.dense
            else f"not compared: each token reads {mapping.inputs.shape[-1]} numbers "
            f"for {width} channels"
        )
        return [_unknown(range(heads), read, why)]
    values = mapping.values + 0.0  # -0.0 is 0.0
    groups = grouped((values[:, head].tobytes(), head) for head in range(heads))
    return [_of(tuple(own), mapping.matrices(own[0]), read[own[0]]) for own in
            sorted(groups.values(), key=len, reverse=True)]  # fmt: skip


def _of(heads: tuple[int, ...], matrices: np.ndarray, read: np.ndarray) -> HeadTurns:
    """The pairs of heads that are alike, and how each is turned."""
    flat = matrices[read.ravel()]
    if not len(flat):
        return _unknown(heads, read, "nothing of it comes from a product with a weight")
    reasons = []
    for noise in (0.0, NOISE):
        quiet = np.where(np.abs(flat).max(axis=0) > noise * np.abs(flat).max(), flat, 0.0)
        try:
            turns = from_matrices(quiet, np.zeros((len(flat), 1)))
            break
        except NotARotationError as why:
            reasons.append(str(why))
    else:
        return _unknown(heads, read, reasons[0])
    values = np.zeros((*read.shape, len(turns.pairs)), complex)
    # To as many digits as the map has: these tell what cosines were rounded to.
    values[read] = (turns.size * np.exp(1j * turns.angle)).astype(
        np.complex64 if turns.eps == FLOAT32 else np.complex128
    )
    still = sorted({*range(matrices.shape[-1])} - {a for pair in turns.pairs for a in pair})
    passing = np.diagonal(matrices, axis1=-2, axis2=-1)[..., still]
    middle = np.median(passing, axis=-1) if still else np.ones(len(matrices))
    return HeadTurns(heads, turns.pairs, turns.outputs, values, middle.reshape(read.shape))


def _unknown(heads: Any, read: np.ndarray, why: str) -> HeadTurns:
    rows = read.shape[-2:]
    return HeadTurns(tuple(heads), (), (), np.zeros((*rows, 0), complex), np.ones(rows), why)


def mixes(recorder: Recorder, tensor: Tensor, sequences: int) -> TensorTurns | None:
    """The turn of values, if their channels mix."""
    mapping = linear_map(tensor, recorder.reached(tensor), by_heads(tensor, sequences))
    return (
        None
        if mapping is None or not mapping.mixes
        else of_map(mapping, int(tensor.shape[-2]), tensor, residual=_residual(tensor, mapping))
    )


def find_outputs(recorder: Recorder) -> None:
    """What the next projection takes of the output of each attention."""
    waiting: dict[int, RecordedAttention] = {
        id(a.output): a for a in recorder.attentions if a.output
    }
    for cut in recorder.order:
        if cut.kind != "projection" or not cut.sources or not waiting:
            continue
        for before in recorder.reached(cut.sources[0]):
            if (attention := waiting.pop(id(before), None)) is not None:
                attention.after = cut.sources[0]


def output_turned(attention: RecordedAttention, sequences: int) -> TensorTurns | None:
    """The turn between an output and the projection that takes it, if its channels mix."""
    after, output = attention.after, attention.output
    if after is None or output is None or after.numel() != output.leaf.numel():
        return None
    count, _, width = by_heads(output.leaf, sequences).shape
    tokens = int(output.leaf.shape[-2])
    if after.shape[-1] != count * width or after.numel() % (sequences * tokens):
        return None
    mapping = linear_map(
        after, [output], np.arange(after.numel()).reshape(-1, count, width).swapaxes(0, 1)
    )
    return None if mapping is None or not mapping.mixes else of_map(mapping, tokens, after)

"""What becomes of the products of queries and keys: scale, bias, window and mask."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.detect.contract.comparison.fields import explained_by, value_of, words
from posenc.detect.fit.biases import MASKED
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.trace.compared import TensorFault
from posenc.detect.trace.recorder import DEEPEST, Cut, RecordedAttention, Recorder
from posenc.encodings.bias.alibi import ALiBi
from posenc.functional import bias as bias_of

ROOM = 64.0  # roundings of the largest score: less is no bias
CLOSE = 1e-4  # relative to the largest bias
Layout = Callable[[np.ndarray], np.ndarray]


@dataclass(eq=False)
class SeenScores:
    """What was seen of scores, (sequences, heads, queries, keys)."""

    scale: float  # NaN where no score is seen
    visible: np.ndarray
    bias: np.ndarray | None = None  # what is added; 0 where a key is not seen
    room: float = 0.0  # what of it is rounding
    others: int = 0  # products that are added
    cap: float | None = None  # that of tanh


def scores_of(recorder: Recorder, attention: RecordedAttention, sequences: int) -> SeenScores:
    """The scale, what is added and what is seen of one attention."""
    form = functools.partial(_laid_out, attention, sequences)
    rounding = ROUNDING.get(str(attention.query.dtype).removeprefix("torch."), 2.0**-24)
    if attention.product is None or attention.scores is None:
        return _of_arguments(attention, form, rounding)
    steps = _steps(recorder, attention.scores, attention.product)
    slopes = [form(_slope(*step)) for step in steps]
    alpha = 1.0
    values = form(_numbers(steps[0][1].leaf))
    if attention.product.name in ("baddbmm", "addbmm") and len(steps) == 1:  # a bias is inside
        alpha = float(vars(attention.product)["arguments"][1].get("alpha", 1))
        query, key = (_numbers(t) for t in (attention.query, attention.key))
        values = form(alpha * (query @ np.swapaxes(key, -1, -2)))
    scores = form(_numbers(attention.scores))
    with np.errstate(invalid="ignore"):
        added = scores - slopes[0] * values
    visible = added > MASKED
    bias = np.where(visible, added, 0.0)
    room = ROOM * rounding * np.abs(np.where(visible, scores, 0.0)).max(initial=1.0)
    scales = np.where(visible & (slopes[0] != 0), np.prod(slopes, axis=0) * alpha, np.nan)
    last, cut = steps[-1]
    scale = 0.0 if visible.any() else np.nan
    return SeenScores(
        float(np.nanmedian(scales)) if np.isfinite(scales).any() else scale,
        visible,
        bias if np.abs(bias).max(initial=0.0) > room else None,
        room,
        others=sum(c.kind == "product" and c is not cut for c in recorder.reached(last)),
        cap=None if len(steps) == 1 else float(np.abs(slopes[0]).max()),
    )


def _laid_out(attention: RecordedAttention, sequences: int, values: np.ndarray) -> np.ndarray:
    """Numbers of scores as (sequences, heads, queries, keys), without sinks behind the keys."""
    ends = int(attention.query.shape[-2]), int(attention.key.shape[-2])
    if attention.order and values.ndim == len(attention.order):
        values = values.transpose(attention.order)
    values = values[..., : ends[1]]
    if values.shape[-2:] != ends:
        values = np.broadcast_to(values, np.broadcast_shapes(values.shape, ends))
    if values.ndim == 4 and values.shape[0] in (1, sequences):
        return values
    whole = values.size // (ends[0] * ends[1])
    rows = sequences if values.ndim != 2 and whole % sequences == 0 else 1
    return values.reshape(rows, -1, *ends)


def _of_arguments(attention: RecordedAttention, form: Layout, rounding: float) -> SeenScores:
    """What the arguments of a fused attention say."""
    ones = np.ones((1, 1, attention.query.shape[-2], attention.key.shape[-2]), bool)
    visible = np.tril(ones) if attention.causal else ones
    numbers = np.zeros((1, 1, 1, 1))
    if attention.mask is not None:
        numbers = form(_numbers(attention.mask))
        hides = attention.mask.dtype == torch.bool
        numbers = np.where(numbers != 0, 0.0, -np.inf) if hides else numbers
    visible = visible & (numbers > MASKED)
    bias = np.where(visible, numbers, 0.0)
    room = 8 * rounding * float(np.abs(bias).max(initial=0.0))
    return SeenScores(attention.scale, visible, bias if bias.any() else None, room)


def _steps(
    recorder: Recorder, scores: Tensor, product: Cut, depth: int = 0
) -> list[tuple[Tensor, Cut]]:
    """Scores, and what functions such as tanh took before them, each with the cut before it."""
    cuts = recorder.reached(scores)
    function = next((c for c in cuts if c.kind == "function" and c.sources), None)
    if function is None or product in cuts or depth > DEEPEST:
        return [(scores, product)]
    return [(scores, function), *_steps(recorder, function.sources[0], product, depth + 1)]


def _slope(tensor: Tensor, cut: Cut) -> np.ndarray:
    """What each number of a cut is multiplied by."""
    (gradient,) = torch.autograd.grad(
        tensor, [cut.leaf], torch.ones_like(tensor), retain_graph=True, allow_unused=True
    )
    return _numbers(torch.zeros_like(cut.leaf) if gradient is None else gradient)


def _numbers(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().double().cpu().numpy())


def window_of(visible: np.ndarray) -> tuple[int | None, str]:
    """Within how many keys from the query a key is seen, and which are seen, in a word."""
    seen = visible.reshape(-1, *visible.shape[2:]).max(axis=0)
    q, k = seen.shape
    place = np.arange(k - q, k)[:, None] - np.arange(k)[None]  # of query and key
    rows = seen.any(axis=1)
    future, past = (place < 0) & rows[:, None], (place >= 0) & rows[:, None]
    if seen[rows].all() and (q > 1 or k == 1) and future.any():
        return None, "all"
    word = "some" if (seen & future).any() else "causal"
    hidden = np.asarray(past & ~seen)
    if not hidden.any() or not seen.any():
        return None, word
    reach = int(np.abs(place)[seen].max(initial=0)) + 1
    near = np.abs(place)[hidden].min() < reach
    return (None, f"{word}, in blocks") if near else (reach, word)


# --- biases ---------------------------------------------------------------------------------------


def of_bias(
    scores: SeenScores, spec: Any, queries: np.ndarray, keys: np.ndarray
) -> list[TensorFault]:
    """What differs between the biases that were added and those of a spec."""
    added, visible = scores.bias, scores.visible
    if added is None:
        return [TensorFault("bias", words(spec), "none")] * bool(visible.sum(axis=-1).max() > 1)
    if spec.heads not in (1, added.shape[1]):
        return [TensorFault("heads", str(spec.heads), str(added.shape[1]))]
    room = scores.room + CLOSE * float(np.abs(added).max())

    def off(other: Any) -> np.ndarray:
        """Which heads are not the bias of a spec, but for a number of the whole row."""
        if hasattr(other, "bucket"):
            return _spread(added, visible, other.bucket(keys[None, :] - queries[:, None])) > room
        apart = added - np.asarray(bias_of(other, queries, keys, dtype="float64"))
        seen = np.broadcast_to(visible, apart.shape)
        count = np.maximum(seen.sum(axis=-1, keepdims=True), 1)
        middle = np.where(seen, apart, 0.0).sum(axis=-1, keepdims=True) / count
        return np.abs(np.where(seen, apart - middle, 0.0)).max(axis=(0, 2, 3)) > room

    wrong = off(spec)
    if not wrong.any():
        return []
    heads = () if wrong.all() else tuple(np.flatnonzero(wrong).tolist())
    named = explained_by(
        spec, lambda other: type(other) is type(spec) and other.heads == spec.heads
        and not off(other).any()
    )  # fmt: skip
    if named is not None:
        return [TensorFault(*named, heads)]
    slopes = _slopes(added, visible, queries, keys) if isinstance(spec, ALiBi) else None
    if slopes is None:
        return [TensorFault("bias", value_of(spec, ""), "other numbers", heads)]
    first = int(np.flatnonzero(wrong)[0])
    ours = f"{float(spec.arrays['slopes'][first]):.6g} in head {first}"
    return [TensorFault("slopes", ours, f"{slopes[first]:.6g}", heads)]


def by_distance(scores: SeenScores) -> bool:
    """Whether what is added depends on the distance of query and key, and on nothing else."""
    if scores.bias is None:
        return False
    q, k = scores.bias.shape[-2:]
    distance = np.arange(k)[None, :] - np.arange(q)[:, None]
    room = scores.room + CLOSE * float(np.abs(scores.bias).max())
    every, own = (_spread(scores.bias, scores.visible, d) for d in (0 * distance, distance))
    return bool((own <= room).all() and (every > room).any())


def _spread(added: np.ndarray, visible: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    """By how much the numbers of a bucket differ, head by head."""
    seen = np.broadcast_to(visible, added.shape)
    spread = np.zeros(added.shape[1])
    for number in np.unique(bucket):
        own = seen & (bucket == number)
        high = np.where(own, added, -np.inf).max(axis=(0, 2, 3))
        low = np.where(own, added, np.inf).min(axis=(0, 2, 3))
        spread = np.maximum(spread, np.where(np.isfinite(high), high - low, 0.0))
    return spread


def _slopes(
    added: np.ndarray, visible: np.ndarray, queries: np.ndarray, keys: np.ndarray
) -> np.ndarray | None:
    """What each head adds for one step of distance."""
    seen = np.broadcast_to(visible, added.shape)[0].all(axis=0)
    row = int(seen.sum(axis=1).argmax())
    ends = np.flatnonzero(seen[row])[[0, -1]] if seen[row].sum() > 1 else [0, 0]
    near, far = np.abs(keys[ends] - queries[row])
    if near == far:
        return None
    return np.asarray((added[0, :, row, ends[1]] - added[0, :, row, ends[0]]) / (near - far))

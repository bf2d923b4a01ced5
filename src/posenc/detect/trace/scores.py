"""What becomes of the products of queries and keys: scale, bias, window and mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.trace.recorder import DEEPEST, Cut, RecordedAttention, Recorder

MASKED = -5000.0  # what is added to a score that is not to be seen is less
ROOM = 64.0  # roundings of the largest score: less is no bias


@dataclass(eq=False)
class SeenScores:
    """What was seen of scores, (sequences, heads, queries, keys)."""

    scale: float
    visible: np.ndarray
    bias: np.ndarray | None = None  # what is added; 0 where a key is not seen
    room: float = 0.0  # what of it is rounding
    others: int = 0  # products that are added
    cap: float | None = None  # that of tanh


class _Step(NamedTuple):
    """Scores, or what a function such as tanh takes on their way, and the cut before them."""

    tensor: Tensor
    cut: Cut


def scores_of(recorder: Recorder, attention: RecordedAttention, sequences: int) -> SeenScores:
    """The scale, what is added and what is seen of one attention."""
    form = _ScoreLayout(attention, sequences)
    if attention.product is None or attention.scores is None:
        return _of_arguments(attention, form)
    steps = _steps(recorder, attention.scores, attention.product)
    slopes = [form(_slope(step)) for step in steps]
    alpha = 1.0
    values = form(_numbers(steps[0].cut.leaf))
    if attention.product.name in ("baddbmm", "addbmm") and len(steps) == 1:  # a bias is inside
        alpha = float(vars(attention.product)["arguments"][1].get("alpha", 1))
        query, key = (_numbers(t) for t in (attention.query, attention.key))
        values = form(alpha * (query @ np.swapaxes(key, -1, -2)))
    scores = form(_numbers(attention.scores))
    with np.errstate(invalid="ignore"):
        added = scores - slopes[0] * values
    visible = added > MASKED
    bias = np.where(visible, added, 0.0)
    dtype = str(attention.query.dtype).removeprefix("torch.")
    largest = np.abs(np.where(visible, scores, 0.0)).max(initial=0.0)
    room = ROOM * ROUNDING.get(dtype, 2.0**-24) * max(largest, 1.0)
    scales = np.where(visible & (slopes[0] != 0), np.prod(slopes, axis=0) * alpha, np.nan)
    scale = float(np.nanmedian(scales)) if np.isfinite(scales).any() else 0.0
    others = sum(c.kind == "product" and c is not steps[-1].cut for c in
                 recorder.reached(steps[-1].tensor))  # fmt: skip
    kept = bias if np.abs(bias).max(initial=0.0) > room else None
    cap = None if len(steps) == 1 else float(np.abs(slopes[0]).max())
    return SeenScores(scale, visible, kept, room, others, cap)


class _ScoreLayout:
    """Arrays of scores as (sequences, heads, queries, keys), without sinks behind the keys."""

    def __init__(self, attention: RecordedAttention, sequences: int) -> None:
        tokens = int(attention.query.shape[-2]), int(attention.key.shape[-2])
        self.sequences, (self.queries, self.keys) = sequences, tokens
        self.order = attention.order

    def __call__(self, values: np.ndarray) -> np.ndarray:
        if self.order and values.ndim == len(self.order):
            values = values.transpose(self.order)
        values = values[..., : self.keys]
        ends = (self.queries, self.keys)
        if values.shape[-2:] != ends:
            values = np.broadcast_to(values, np.broadcast_shapes(values.shape, ends))
        whole = values.size // (self.queries * self.keys)
        rows = self.sequences if values.ndim != 2 and whole % self.sequences == 0 else 1
        if values.ndim == 4 and values.shape[0] in (1, self.sequences):
            return values
        return values.reshape(rows, -1, *ends)


def _of_arguments(attention: RecordedAttention, form: _ScoreLayout) -> SeenScores:
    """What the arguments of a fused attention say."""
    visible = np.ones((1, 1, form.queries, form.keys), bool)
    bias = None
    if attention.causal:
        visible = np.tril(visible)
    if attention.mask is not None:
        numbers = form(_numbers(attention.mask))
        if attention.mask.dtype == torch.bool:
            visible = visible & (numbers != 0)
        else:
            visible = visible & (numbers > MASKED)
            bias = np.where(visible, numbers, 0.0)
            bias = bias if bias.any() else None
    dtype = str(attention.query.dtype).removeprefix("torch.")
    room = 0.0 if bias is None else 8 * ROUNDING.get(dtype, 2.0**-24) * float(np.abs(bias).max())
    return SeenScores(attention.scale or 0.0, visible, bias, room)


def _steps(recorder: Recorder, scores: Tensor, product: Cut) -> list[_Step]:
    """Scores, and what functions such as tanh took before them, down to the product."""
    steps: list[_Step] = []
    tensor = scores
    while True:
        cuts = recorder.reached(tensor)
        function = next((c for c in cuts if c.kind == "function" and c.sources), None)
        if function is None or any(cut is product for cut in cuts) or len(steps) > DEEPEST:
            return [*steps, _Step(tensor, product)]
        steps.append(_Step(tensor, function))
        tensor = function.sources[0]


def _slope(step: _Step) -> np.ndarray:
    """What each number of a cut is multiplied by."""
    (gradient,) = torch.autograd.grad(
        step.tensor,
        [step.cut.leaf],
        torch.ones_like(step.tensor),
        retain_graph=True,
        allow_unused=True,
    )
    return _numbers(torch.zeros_like(step.cut.leaf) if gradient is None else gradient)


def _numbers(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().double().cpu().numpy())


# --- windows and masks ----------------------------------------------------------------------------


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
    if np.abs(place)[hidden].min() >= reach:
        return reach, word
    return None, f"{word}, in blocks"

"""What becomes of the products of queries and keys: scale, bias, window and mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from posenc.detect.trace.recorder import Attention, Cut, Recorder

MASKED = -5000.0  # what is added to a score that is not to be seen is less
CLOSE = 2e-5  # of the largest score: less is rounding


@dataclass(eq=False)
class Scores:
    """What was seen of scores."""

    scale: float
    visible: np.ndarray  # (sequences, heads, queries, keys)
    bias: np.ndarray | None = None  # likewise, what is added; 0 where a key is not seen
    even: bool = True  # whether the scale is the same for all scores
    others: int = 0  # products that are added
    notes: tuple[str, ...] = ()


def scores_of(recorder: Recorder, attention: Attention, sequences: int) -> Scores:
    """The scale, what is added and what is seen of one attention."""
    q, k = attention.query.shape[-2], attention.key.shape[-2]
    if attention.product is None:
        return _of_arguments(attention, q, k, sequences)
    scores, product = attention.scores, attention.product
    assert scores is not None  # noqa: S101 - a product has them
    chain = [scores]
    while (cut := _function(recorder, chain[-1], product)) is not None:
        chain.append(cut.sources[0])
    slopes = []
    for number, tensor in enumerate(chain):
        last = number + 1 == len(chain)
        leaf = product if last else _function(recorder, tensor, product)
        slopes.append(_slope(tensor, leaf))  # type: ignore[arg-type]
    near = product if len(chain) == 1 else _function(recorder, scores, product)
    values = _numbers(near.leaf)  # type: ignore[union-attr]
    if product.name in ("baddbmm", "addbmm") and len(chain) == 1:  # a bias is inside
        _, keywords = vars(product)["arguments"]
        query, key = (_numbers(t) for t in (attention.query, attention.key))
        values = keywords.get("alpha", 1) * (query @ np.swapaxes(key, -1, -2))
        slopes[0] = slopes[0] * keywords.get("alpha", 1)
        factor = slopes[0] / keywords.get("alpha", 1)
    else:
        factor = slopes[0]
    added = _numbers(scores)[..., : values.shape[-1]] - factor * values
    total = np.prod([np.median(s[s != 0]) if (s != 0).any() else 0.0 for s in slopes])
    visible = added > MASKED
    bias = np.where(visible, added, 0.0)
    seen = np.where(visible, _numbers(scores)[..., : values.shape[-1]], 0.0)
    room = CLOSE * max(np.abs(seen).max(initial=0.0), 1e-30)
    room = max(room, {torch.bfloat16: 0.02, torch.float16: 0.003}.get(scores.dtype, 0.0) * 8)
    kept = bias if np.abs(bias).max(initial=0.0) > room else None
    shape = (sequences, -1, q, k)
    own = slopes[0] * visible
    even = bool(np.abs(own[visible & (own != 0)] - np.median(own[own != 0])).max(initial=0) < 1e-3 *
                abs(np.median(own[own != 0]))) if (own != 0).any() else True  # fmt: skip
    others = sum(c.kind == "product" and c is not product for c in recorder.reached(chain[-1]))
    return Scores(
        float(total), _formed(visible, shape), None if kept is None else _formed(kept, shape),
        even, others,
    )  # fmt: skip


def _of_arguments(attention: Attention, q: int, k: int, sequences: int) -> Scores:
    """What the arguments of a fused attention say."""
    heads = attention.query.shape[-3] if attention.query.ndim > 2 else 1
    visible = np.ones((1, 1, q, k), bool)
    bias = None
    if attention.causal:
        visible = np.tril(visible)
    if attention.mask is not None:
        numbers = _numbers(attention.mask)
        numbers = numbers.reshape((1,) * (4 - numbers.ndim) + numbers.shape)
        if attention.mask.dtype == torch.bool:
            visible = visible & (numbers != 0)
        else:
            visible = visible & (numbers > MASKED)
            bias = np.where(visible, numbers, 0.0)
            bias = bias if bias.any() else None
    assert attention.scale is not None  # noqa: S101 - an argument
    batch = attention.query.shape[0] if attention.query.ndim > 3 else sequences
    shape = (batch, heads, q, k)
    visible = np.broadcast_to(visible, (*np.broadcast_shapes(visible.shape, (1, 1, q, k)),))
    return Scores(attention.scale, np.broadcast_to(visible, shape) if _fits(visible, shape)
                  else visible, bias)  # fmt: skip


def _fits(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    return all(a in (1, b) for a, b in zip(array.shape, shape, strict=True))


def _function(recorder: Recorder, tensor: Tensor, product: Cut) -> Cut | None:
    """A function such as tanh between scores and their product."""
    cuts = recorder.reached(tensor)
    if any(cut is product for cut in cuts):
        return None
    return next((c for c in cuts if c.kind == "function" and c.sources), None)


def _slope(tensor: Tensor, cut: Cut) -> np.ndarray:
    """What each number of a cut is multiplied by."""
    (gradient,) = torch.autograd.grad(
        tensor, [cut.leaf], torch.ones_like(tensor), retain_graph=True, allow_unused=True
    )
    return _numbers(torch.zeros_like(cut.leaf) if gradient is None else gradient)


def _numbers(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().double().cpu().numpy())


def _formed(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Scores as (sequences, heads, queries, keys)."""
    if values.ndim == 4:
        return values
    q, k = shape[-2:]
    return np.broadcast_to(values, (*values.shape[:-2], q, k)).reshape(
        (shape[0], -1, q, k) if values.size % (shape[0] * q * k) == 0 else (1, -1, q, k)
    )


# --- windows and masks ----------------------------------------------------------------------------


def window_of(visible: np.ndarray) -> tuple[int | None, str]:
    """Within how many keys from the query a key is seen, and which are seen, in a word."""
    seen = np.asarray(visible.any(axis=(0, 1)))
    q, k = seen.shape
    place = np.arange(k - q, k)[:, None] - np.arange(k)[None]  # of query and key
    rows = seen.any(axis=1)
    future, past = (place < 0) & rows[:, None], (place >= 0) & rows[:, None]
    word = "causal" if not (seen & future).any() else "all" if seen[rows].all() else "some"
    reach = np.abs(place)[seen].max(initial=0) + 1
    hidden = np.asarray(past & ~seen)
    if not hidden.any() or not seen.any():
        return None, "all" if (seen[rows].all() and q > 1 and word != "causal") else word
    nearest = np.abs(place)[hidden].min()
    return (int(reach), word) if nearest >= reach else (None, f"{word}, in blocks")

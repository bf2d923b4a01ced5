"""Biases that were added to scores, held against the one that is expected."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.detect.contract.comparison.fields import explained_by, value_of, words
from posenc.detect.trace.compared import TensorFault
from posenc.detect.trace.scores import SeenScores
from posenc.encodings.bias.alibi import ALiBi
from posenc.functional import bias as bias_of

CLOSE = 1e-4  # relative to the largest bias


def of_bias(
    scores: SeenScores, spec: Any, queries: np.ndarray, keys: np.ndarray
) -> list[TensorFault]:
    """What differs between the biases that were added and those of a spec."""
    added = scores.bias
    if added is None:
        return (
            [TensorFault("bias", words(spec), "none")]
            if scores.visible.sum(axis=-1).max() > 1
            else []
        )
    room = scores.room + CLOSE * float(np.abs(added).max())

    def off(other: Any) -> np.ndarray:
        """By how much each head is not the bias of a spec, but for a number of the whole row."""
        if hasattr(other, "bucket"):
            return _spread(added, scores.visible, other.bucket(keys[None, :] - queries[:, None]))
        values = np.asarray(bias_of(other, queries, keys, dtype="float64"))
        apart = added - values
        seen = np.broadcast_to(scores.visible, apart.shape)
        count = np.maximum(seen.sum(axis=-1, keepdims=True), 1)
        middle = np.where(seen, apart, 0.0).sum(axis=-1, keepdims=True) / count
        return np.abs(np.where(seen, apart - middle, 0.0)).max(axis=(0, 2, 3))

    if spec.heads not in (1, added.shape[1]):
        return [TensorFault("heads", str(spec.heads), str(added.shape[1]))]
    wrong = off(spec) > room
    if not wrong.any():
        return []
    heads = () if wrong.all() else tuple(np.flatnonzero(wrong).tolist())
    named = explained_by(
        spec, lambda other: type(other) is type(spec) and other.heads == spec.heads
        and not (off(other) > room).any()
    )  # fmt: skip
    if named is not None:
        return [TensorFault(*named, heads)]
    if isinstance(spec, ALiBi):
        slopes = _slopes(added, scores.visible, queries, keys)
        if slopes is not None:
            first = int(np.flatnonzero(wrong)[0])
            ours = float(spec.arrays["slopes"][first])
            return [
                TensorFault("slopes", f"{ours:.6g} in head {first}", f"{slopes[first]:.6g}", heads)
            ]
    return [TensorFault("bias", value_of(spec, ""), "other numbers", heads)]


def by_distance(scores: SeenScores) -> bool:
    """Whether what is added depends on the distance of query and key, and on nothing else."""
    if scores.bias is None:
        return False
    q, k = scores.bias.shape[-2:]
    distance = np.arange(k)[None, :] - np.arange(q)[:, None]
    room = scores.room + CLOSE * float(np.abs(scores.bias).max())
    every = _spread(scores.bias, scores.visible, np.zeros_like(distance))
    own = _spread(scores.bias, scores.visible, distance)
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
    rel = np.abs(keys[None, :] - queries[:, None])
    seen = np.broadcast_to(visible, added.shape)[0].all(axis=0)
    row = int(seen.sum(axis=1).argmax())
    own = np.flatnonzero(seen[row])
    if len(own) < 2 or rel[row, own[0]] == rel[row, own[-1]]:
        return None
    apart = added[0, :, row, own[0]] - added[0, :, row, own[-1]]
    return np.asarray(-apart / (rel[row, own[0]] - rel[row, own[-1]]))

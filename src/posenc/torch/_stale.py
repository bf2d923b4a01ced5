"""What other people's checkpoints hold of positions, and a module without buffers does not need."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, MutableMapping
from typing import Any

import numpy as np
from torch import Tensor

from posenc import functional
from posenc._core.spec.spec import Spec

# Names under which published modules keep tables and frequencies that follow from their spec.
NAMES = frozenset(
    (
        *("pe", "pos_embed", "pos_emb", "position_embeddings", "positional_embedding"),
        *("pos_embedding", "weights", "_float_tensor", "position_ids", "inv_freq"),
        *("original_inv_freq", "freqs", "freqs_cis", "cos_cached", "sin_cached", "cos_sin_cache"),
    )
)
CLOSE = 1e-2  # in half precision, or from float32 angles, it is still the same table


class StalePositionsWarning(UserWarning):
    """A checkpoint holds positions of another convention than the spec's."""


def drop(
    state: MutableMapping[str, Any],
    prefix: str,
    module: Any,
    expected: Callable[[Spec, Tensor], np.ndarray | None],
) -> None:
    """Remove stale positions from a state dict, and warn where their values are not the spec's."""
    own: Collection[str] = {name for name, _ in module.named_parameters(recurse=False)}
    for name in NAMES - set(own):
        stored = state.pop(prefix + name, None)
        if not isinstance(stored, Tensor) or not stored.is_floating_point() or stored.is_meta:
            continue
        error = expected(module.spec, stored.detach().cpu().double())
        if error is None or not error.size or float(np.max(error)) <= CLOSE:
            continue
        warnings.warn(
            f"{type(module).__name__}: {prefix + name!r} of the checkpoint differs from the spec "
            f"by {float(np.max(error)):.3g}: the model was trained with another convention. What "
            "is stored is not loaded; change the spec.",
            StalePositionsWarning,
            stacklevel=5,
        )


def rows(spec: Any, stored: Tensor) -> np.ndarray | None:
    """Distance of a table (rows, dim), with any axes of length 1, whose first row is row 0."""
    comparable = not spec.shapes and len(spec.axes) == 1 and spec.coordinates == "integer"
    if not comparable or stored.ndim < 2 or stored.shape[-1] != spec.dim:
        return None
    long = [n for n in stored.shape[:-1] if n != 1]
    if len(long) > 1:
        return None
    count, width = (long or [1])[0], spec.dim
    start = spec.arrangement.start if hasattr(spec, "arrangement") else 0
    expected = functional.table(spec, np.arange(count) - start, dtype="float64")
    return np.abs(stored.numpy().reshape(count, width) - expected)


def frequencies(spec: Any, stored: Tensor) -> np.ndarray | None:
    """|stored / frequency - 1| for the frequencies of the pairs."""
    if spec.shapes or stored.ndim != 1 or not hasattr(spec, "matrix"):
        return None
    expected = functional.frequencies(spec)
    if stored.shape != expected.shape:
        return None
    scale = np.where(expected == 0, 1.0, np.abs(expected))
    return np.abs(stored.numpy() - expected) / scale

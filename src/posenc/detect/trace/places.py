"""The positions that tokens are expected to have: handed over, of the inputs, or counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, mismatch


class ExpectedPlaces(NamedTuple):
    """Positions, and which tokens are padding."""

    positions: np.ndarray | None = None  # (sequences, tokens) or (sequences, tokens, axes)
    padding: np.ndarray | None = None  # (sequences, keys): True for a token that is none
    stated: bool = False  # whether somebody said so


def places_of(inputs: Any, positions: Any, sequences: int) -> ExpectedPlaces:
    """What the inputs of a run say of positions."""
    keywords = inputs if isinstance(inputs, Mapping) else {}
    ids = keywords.get("position_ids") if positions is None else positions
    mask = keywords.get("attention_mask")
    padding = None
    if mask is not None and not isinstance(mask, Mapping):
        numbers = _numbers(mask)
        if numbers.ndim == 2 and (numbers == 0).any():
            padding = numbers == 0
    if ids is None:
        return ExpectedPlaces(None, padding)
    numbers = _numbers(ids)
    if positions is None and numbers.ndim == 3:  # (axes, sequences, tokens), as models take them
        numbers = np.moveaxis(numbers, 0, -1)
    if numbers.ndim == 1:
        numbers = numbers[None]
    if numbers.ndim not in (2, 3) or numbers.dtype.kind not in "iuf":
        expected = "(tokens,), (sequences, tokens) or (sequences, tokens, axes)"
        raise ArgumentError(mismatch("trace: positions", expected, str(numbers.shape)))
    if numbers.dtype.kind in "iu" or (numbers == np.rint(numbers)).all():
        numbers = numbers.astype(np.int64)
    shape = (max(sequences, len(numbers)), *numbers.shape[1:])
    return ExpectedPlaces(np.broadcast_to(numbers, shape), padding, stated=True)


def of_queries(
    places: ExpectedPlaces, sequences: int, tokens: int, past: int, axes: int
) -> np.ndarray:
    """The positions of queries, (sequences, tokens) or with axes."""
    own = places.positions
    if own is not None and own.shape[1] == 1 < tokens:  # the heads of a group stand as tokens
        own = np.repeat(own, tokens, axis=1)
    if own is None or own.shape[1] != tokens or own.shape[0] not in (1, sequences):
        own = np.broadcast_to(past + np.arange(tokens), (sequences, tokens))
    own = np.broadcast_to(own, (sequences, *own.shape[1:]))
    return with_axes(own, axes)


def with_axes(own: np.ndarray, axes: int) -> np.ndarray:
    """Positions for so many axes: a token of text has the same along all."""
    if axes == 1:
        return own if own.ndim == 2 else own[..., 0]
    own = own[..., None] if own.ndim == 2 else own
    if own.shape[-1] == axes:
        return own
    # Four rows of ids: the first are those of the text.
    own = own[..., -axes:] if own.shape[-1] > axes else own[..., :1]
    return np.broadcast_to(own, (*own.shape[:2], axes))


def of_keys(queries: np.ndarray, read: np.ndarray) -> np.ndarray:
    """The positions of keys: the last have those of the queries, and the others precede them."""
    sequences, tokens = read.shape
    if (queries == queries[:, :1]).all():
        queries = queries[:, :1]
    count = queries.shape[1]
    keys = np.zeros((sequences, tokens, *queries.shape[2:]), queries.dtype)
    for row in range(sequences):
        own = np.flatnonzero(read[row])
        end = len(own) if len(own) else tokens
        line = own if len(own) else np.arange(tokens)
        last = min(count, end)
        keys[row, line[end - last :]] = queries[row, count - last :]
        before = queries[row, count - last]
        for back in range(1, end - last + 1):
            keys[row, line[end - last - back]] = before - back
    return keys


def _numbers(value: Any) -> np.ndarray:
    detach = getattr(value, "detach", None)
    return np.asarray(detach().cpu().numpy() if detach is not None else value)

"""Caches of one model behind each other."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from posenc._core.errors import bad_argument
from posenc.torch.cache.layers import MovableLayer
from posenc.torch.cache.movable import C, MovableCache, checked, refuse_fixed


def merge(caches: Iterable[C]) -> C:
    """Put caches of one model behind each other, each where the one before it ends.

    Parameters
    ----------
    caches : sequence of MovableCache
        What `track` returned for each; they stay as they are.

    Returns
    -------
    MovableCache
        Of the class of the first.

    Raises
    ------
    ArgumentError
        If there is none, or they differ in model, rotations, layers, batch or dtype.
    DataError
        If keys cannot be moved, or others changed a cache.

    Notes
    -----
    No token of one cache has read the others, as it would have in one prompt.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import merge, track
    >>> rope, keys = posenc.RoPE(4, pairing="half"), torch.ones(1, 1, 3, 4)
    >>> cache = merge([track([(keys, keys)], rope), track([(keys, keys)], rope)])
    >>> cache.ledger.current.flatten().tolist()
    [0, 1, 2, 3, 4, 5]
    """
    if not isinstance(caches, Iterable):
        raise bad_argument("merge", "a sequence of caches", type(caches).__name__)
    listed = list(caches)
    if not listed:
        raise bad_argument("merge", "at least one cache", "none")
    for cache in listed:
        checked(cache, "merge")
    whole = listed[0].like(listed[0].ledger)
    for cache in listed[1:]:
        whole = _joined(whole, cache)
    return whole


def _joined(whole: C, cache: C) -> C:
    why = _why_apart(whole, cache)
    if why:
        raise bad_argument("merge", "caches of one model, batch and dtype", why)
    start = whole.ledger.following()
    moved = cache.ledger.shifted((start - cache.ledger.first())[:, None, None])
    if not torch.equal(moved.current, moved.written):
        refuse_fixed(cache, "merge")
    first = cache.ledger.first()
    more = cache.ledger.length - (int(first[0]) if bool((first == first[0]).all()) else 0)
    length = whole.ledger.length + max(more, len(cache.ledger))
    eras, numbers = list(whole.eras), []
    for specs in cache.eras:
        if specs not in eras:
            eras.append(specs)
        numbers.append(eras.index(specs))
    if eras[-1] != whole.eras[-1]:  # the last one is what keys are read with
        eras.append(whole.eras[-1])
    moved = moved.replace(era=torch.tensor(numbers, dtype=torch.int64)[moved.era])
    other = whole.like(whole.ledger.joined(moved, length))
    other.eras = eras
    for mine, more_layer in zip(other.layers, cache.layers, strict=True):
        if isinstance(mine, MovableLayer):
            pairs = (mine.keys, more_layer.keys), (mine.values, more_layer.values)
            whole_layer = more_layer.stored == more_layer.seen
            mine.seen = len(other.ledger)
            mine.put(*(torch.cat(pair, -2) if whole_layer else pair[1] for pair in pairs))
            mine.trim()
    last = int(other.ledger.following().max()) - 1
    other.turn_to(other.rules, last)
    return other


def _why_apart(a: MovableCache, b: MovableCache) -> str:
    """Why two caches are not of one model, or nothing."""
    models = a.model(), b.model()
    if None not in models and models[0] is not models[1]:
        return "caches of two models"
    if a.rules != b.rules or len(a) != len(b):
        return "caches of other rotations or another number of layers"
    for mine, other in zip(a.layers, b.layers, strict=True):
        if isinstance(mine, MovableLayer) != isinstance(other, MovableLayer):
            return f"other kinds of layer {mine.index if isinstance(mine, MovableLayer) else ''}"
        if not isinstance(mine, MovableLayer):
            continue
        if mine.form != other.form:
            return f"another kind of layer {mine.index}"
        for s, t in ((mine.keys, other.keys), (mine.values, other.values)):
            shapes = [(*x.shape[:2], x.shape[3]) for x in (s, t)]
            if shapes[0] != shapes[1] or s.dtype != t.dtype or s.device != t.device:
                return (
                    f"layer {mine.index} of shape {tuple(s.shape)} in {s.dtype} and "
                    f"{tuple(t.shape)} in {t.dtype}"
                )
    return ""

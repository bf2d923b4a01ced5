"""Caches of one model behind each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, refuse_argument
from posenc.functional.arguments.rotation import warn_of_small_moves
from posenc.torch.cache.layers import MovableLayer, is_quantised, requantised
from posenc.torch.cache.movable import C, MovableCache, checked, refuse_fixed


@checked_call
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
    refuse_argument(not listed, "merge", "at least one cache", "none")
    for cache in listed:
        checked(cache, "merge")
    whole = listed[0].like(listed[0].ledger)
    for cache in listed[1:]:
        whole = _joined(whole, cache)
    return whole


def _joined(whole: C, cache: C) -> C:
    why = _why_apart(whole, cache)
    refuse_argument(why, "merge", "caches of one model, batch and dtype", why)
    moved = cache.ledger.shifted((whole.ledger.following() - cache.ledger.first())[:, None, None])
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
    other.turn_to(other.rules, int(other.ledger.following().max()) - 1)
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


@checked_call
def write(cache: MovableCache, into: Any = None) -> Any:
    """Rotate stored keys to where they stand: one rounding of each that moved.

    Parameters
    ----------
    cache : MovableCache
        What `track` returned, or was made of it. Its own tensors are replaced, not written to.
    into : transformers.Cache, optional
        A dynamic, static or quantised cache that gets the keys and values, in the memory that it
        has where it is static, such as the one that was tracked. The ledger stays with `cache`.

    Returns
    -------
    MovableCache or transformers.Cache
        `cache`, or `into`.

    Raises
    ------
    ArgumentError
        If the keys do not fit into the other cache. It stays as it is.
    DataError
        If others changed the cache.

    Notes
    -----
    The error of `k` writes is about `0.0016 * sqrt(k)` of the key in bfloat16; `cache.roundings`
    and `cache.error` say where it is. Without writes there is one rounding for each read, of all
    moves together. A quantised cache quantises all keys and values again, those that did not move
    too: `cache.requantised` is the largest change of a layer by that, a part of its norm.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import shift, track, write
    >>> keys = torch.ones(1, 1, 3, 4)
    >>> cache = shift(track([(keys, keys)], posenc.RoPE(4, pairing="half")), 10)
    >>> cache.roundings, write(cache).roundings
    (0, 1)
    """
    checked(cache, "write")
    moved = torch.zeros(len(cache.ledger), dtype=torch.bool)
    pairs = [layer.read() for layer in cache.movable]
    turns = [layer for layer in cache.movable if layer.moves()]
    for layer in turns:
        moved[layer.rows] |= layer.away()
    _warn(cache, turns)
    if into is not None:
        _check_fits(cache, into)
    for layer, pair in zip(cache.movable, pairs, strict=True):
        layer.put(*pair)
    cache.ledger, cache.eras = cache.ledger.rewritten(moved), cache.eras[-1:]
    if into is None:
        return cache
    cache.requantised = 0.0
    for layer in cache.movable:
        room = into.layers[layer.index]
        if is_quantised(room):
            changed = requantised(room, layer.keys, layer.values)
            cache.requantised = max(cache.requantised, changed)
        else:
            _fill(room, layer, cache.ledger.length)
    return into


def _warn(cache: MovableCache, turns: list[MovableLayer]) -> None:
    """Warn once for each rotation whose slow pairs cannot follow in the dtype of the keys."""
    ledger = cache.ledger
    for spec, layer in {layer.form.spec: layer for layer in turns}.items():
        if spec is not None and not spec.needs_length:
            written, current = ledger.written[:, layer.rows], ledger.current[:, layer.rows]
            warn_of_small_moves(spec, layer.keys, written, current, "write")


def _check_fits(cache: MovableCache, into: Any) -> None:
    caller = "write: into"
    layers = getattr(into, "layers", None) or ()
    refuse_argument(
        isinstance(into, MovableCache) or len(layers) != len(cache),
        caller,
        f"a cache of transformers with {len(cache)} layers",
        type(into).__name__,
    )
    if bool((cache.delta != 0).any()) or cache.ledger.length != len(cache.ledger):
        raise bad_argument(
            caller,
            "tokens at positions 0, 1, 2, …, as such a cache counts them",
            repr(cache),
            "Close the gaps with `evict`, or go on with the cache as it is.",
        )
    for layer in cache.movable:
        room = layers[layer.index]
        most = getattr(room, "max_cache_len", None)
        window: Any = most if most is not None else getattr(room, "sliding_window", None)
        sliding, count = getattr(room, "is_sliding", False), len(cache.ledger)
        least = min(count, int(window) - 1) if sliding else count
        refuse_argument(
            layer.stored < least or (most is not None and not sliding and count > most),
            caller,
            f"{least} tokens in layer {layer.index}, and room for them",
            f"{layer.stored}, room for {most}" if most is not None else layer.stored,
            "Go on with the cache as it is.",
        )
        if most is not None and room.is_initialized:
            shapes = [(t.shape[0], t.shape[1], t.shape[3]) for t in (room.keys, layer.keys)]
            refuse_argument(
                shapes[0] != shapes[1] or room.keys.dtype != layer.dtype,
                caller,
                f"layer {layer.index} of the same batch, heads, channels and dtype",
                "another",
            )


def _fill(room: Any, layer: Any, count: int) -> None:
    """Put the tensors of a layer into one of transformers; a static one keeps its memory."""
    keys, values = layer.keys, layer.values
    if not hasattr(room, "max_cache_len"):
        room.lazy_initialization(keys, values)
        room.keys, room.values = keys, values
        if hasattr(room, "cumulative_length"):
            room.cumulative_length = count
        return
    keys, values = keys.clone(), values.clone()  # it may be the very memory that is written to
    if not room.is_initialized:
        room.lazy_initialization(keys, values)
    room.reset()
    most = int(room.max_cache_len)
    full = room.is_sliding and count >= most
    here = slice(most - keys.shape[-2], most) if full else slice(0, keys.shape[-2])
    room.keys[:, :, here], room.values[:, :, here] = keys, values
    room.cumulative_length.fill_(min(count, most) if room.is_sliding else count)
    if hasattr(room, "cumulative_length_int"):
        room.cumulative_length_int = count

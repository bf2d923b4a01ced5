"""What is done to a cache: each gives another one, and leaves the one that it got."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, refuse_argument
from posenc.functional.arguments.rotation import check_alike
from posenc.torch.cache.binding import decoder_plan, one_token, rules_of
from posenc.torch.cache.ledger import counted, on_host, whole_numbers
from posenc.torch.cache.movable import C, MovableCache, checked, refuse_fixed
from posenc.torch.cache.tracking import track


@checked_call
def evict(cache: C, keep: Any, *, gaps: Literal["close", "keep"] = "close") -> C:
    """Drop tokens from a cache.

    Parameters
    ----------
    cache : MovableCache
        What `track` returned; it stays as it is.
    keep : array of bool or of integers
        Which tokens stay: a mask (tokens,), or the rising indices of tokens. With a row for each
        sequence, each keeps as many.
    gaps : {"close", "keep"}
        `close`: the tokens behind what was dropped move up, and the model counts fewer tokens.
        `keep`: every token stands where it stood, and the model counts as if all were there.

    Returns
    -------
    MovableCache
        Of the same class.

    Raises
    ------
    ArgumentError
        If the mask or the indices do not fit the tokens; if a gap would stay within a sliding
        window, where models count places and not positions.
    DataError
        If the gaps are to be closed and keys cannot be moved, or others changed the cache.

    Notes
    -----
    The keys that stay have read those that went, in every layer but the first. So the model's
    answers are not those of a prompt without them.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import evict, track
    >>> keys = torch.ones(1, 1, 5, 4)
    >>> cache = track([(keys, keys)], posenc.RoPE(4, pairing="half"))
    >>> evict(cache, [True, False, False, True, True]).next_positions().item()
    3
    >>> evict(cache, [0, 3, 4], gaps="keep").next_positions().item()
    5
    """
    checked(cache, "evict")
    places = _places(cache, keep)
    kept = places.shape[1]
    if kept == len(cache.ledger):
        return cache.like(cache.ledger)
    ledger = cache.ledger.taken(places, close=gaps == "close")
    if not torch.equal(ledger.current, ledger.written):
        refuse_fixed(cache, "evict", "Leave the gaps: gaps='keep'.")
    other = cache.like(ledger)
    for layer in other.movable:
        begin = layer.seen - layer.stored
        here = (places >= begin).sum(-1)
        if bool((here != here[0]).any()):
            raise bad_argument(
                "evict: keep",
                f"rows that keep as many of the tokens in the window of layer {layer.index}",
                here.tolist(),
            )
        mine = places[:, kept - int(here[0]) :] - begin
        if gaps == "keep" and layer.is_sliding and bool((mine.diff(dim=1) != 1).any()):
            raise bad_argument(
                "evict: keep",
                f"no gap within the window of layer {layer.index}",
                "one",
                "Close the gaps: gaps='close'.",
            )
        layer.keep(mine, kept)
    return other


@checked_call
def shift(cache: C, by: Any) -> C:
    """Move tokens to other positions.

    Parameters
    ----------
    cache : MovableCache
        What `track` returned; it stays as it is.
    by : int or array of integers
        What is added to positions: a number, or (tokens,), (rows, tokens), and with an axis more
        where positions have several axes and these move differently.

    Returns
    -------
    MovableCache
        Of the same class. Where all rows go on by one number, the model's own count follows, and
        no position ids are needed; `delta` says so by 0.

    Raises
    ------
    ArgumentError
        If the shape does not fit.
    DTypeError
        If `by` is not of integers.
    DataError
        If keys cannot be moved, or others changed the cache.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import shift, track
    >>> keys = torch.ones(1, 1, 3, 4)
    >>> cache = shift(track([(keys, keys)], posenc.RoPE(4, pairing="half")), 10)
    >>> cache.ledger.current.flatten().tolist()
    [10, 11, 12]
    """
    checked(cache, "shift")
    steps = whole_numbers(by, "shift: by")
    _, count, axes = cache.ledger.current.shape
    batch = cache.movable[0].batch_size
    shape = tuple(steps.shape)
    per_axis = axes > 1 and len(shape) > 1 and shape[-1] == axes and shape[-2] == count
    refuse_argument(
        (shape[:-1] if per_axis else shape)
        not in ((), (1,), (count,), (1, count), (batch, count), (batch, 1)),
        "shift: by",
        f"a number, ({count},), ({batch}, 1) or ({batch}, {count})",
        f"shape {shape}",
    )
    if bool((steps != 0).any()):
        refuse_fixed(cache, "shift")
    return cache.like(cache.ledger.shifted(steps if per_axis else steps[..., None]))


@checked_call
def reuse(cache: C, at: int) -> C:
    """Move a whole cache so that its first token stands at a position.

    Parameters
    ----------
    cache : MovableCache
        What `track` returned; it stays as it is.
    at : int
        The position of the first token, at least 0; of several axes the smallest coordinate.

    Returns
    -------
    MovableCache
        Of the same class.

    Raises
    ------
    ArgumentError
        If the position is none.
    DataError
        If keys cannot be moved, or others changed the cache.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import reuse, track
    >>> keys = torch.ones(1, 1, 3, 4)
    >>> cache = reuse(track([(keys, keys)], posenc.RoPE(4, pairing="half")), 100)
    >>> cache.next_positions().item()
    103
    """
    checked(cache, "reuse")
    counted("reuse: at", at)
    return shift(cache, (at - cache.ledger.first())[:, None].expand(-1, len(cache.ledger)))


@checked_call
def switch(cache: C, new: Any) -> C:
    """Read keys as rotated by another base or scaling.

    Parameters
    ----------
    cache : MovableCache
        What `track` returned; it stays as it is.
    new : int, Spec, Plan, Reading or model
        A length, for rotations that depend on it (LongRoPE beyond its original length); or what
        rotates from here on: the keys in the cache, and those that the model adds.

    Returns
    -------
    MovableCache
        Of the same class.

    Raises
    ------
    SpecError
        If the new rotation turns other pairs.
    ArgumentError
        If no rotation depends on a length that is given.
    DataError
        If keys cannot be moved, or others changed the cache.

    Notes
    -----
    A rotation that depends on the length follows it without being asked: where the model passes to
    other frequencies with the tokens of a step, older keys are read with these.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import switch, track
    >>> keys = torch.ones(1, 1, 3, 4)
    >>> cache = track([(keys, keys)], posenc.RoPE(4, pairing="half"))
    >>> [(k, v)] = switch(cache, posenc.RoPE(4, pairing="half", base=5e5))
    >>> bool((k[0, 0, 0] == 1).all()), bool((k[0, 0, 2] == 1).all())
    (True, False)
    """
    checked(cache, "switch")
    refuse_fixed(cache, "switch")
    other = cache.like(cache.ledger)
    if isinstance(new, int) and not isinstance(new, bool):
        refuse_argument(
            not any(rule is not None and rule.needs_length for rule in cache.rules),
            "switch",
            "a rotation that depends on the length",
            "none",
            "Pass the spec, plan or model that rotates from here on.",
        )
        counted("switch: length", new, 1)
        other.turn_to(cache.rules, new - 1)
        return other
    rules = rules_of(
        decoder_plan(new, "switch") if isinstance(new, nn.Module) else new,
        [rule is not None for rule in cache.rules],
        "switch",
    )
    for before, after in zip(cache.rules, rules, strict=True):
        if before is not None and after is not None:
            check_alike(before, after, "switch")
    other.turn_to(rules, int(cache.ledger.following().max()) - 1)
    return other


@checked_call
def stream(cache: C, sinks: int, window: int) -> C:
    """Keep the first and the last tokens, at positions without a gap (Xiao et al. 2023).

    Parameters
    ----------
    cache : MovableCache
        What `track` returned; it stays as it is.
    sinks : int
        First tokens that stay, behind padding.
    window : int
        Last tokens that stay.

    Returns
    -------
    MovableCache
        Of the same class; of at most `sinks + window` tokens.

    Raises
    ------
    ArgumentError
        If a number is negative, or both are 0.
    DataError
        If keys cannot be moved, or others changed the cache.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import stream, track
    >>> keys = torch.ones(1, 1, 9, 4)
    >>> cache = stream(track([(keys, keys)], posenc.RoPE(4, pairing="half")), 1, 3)
    >>> cache.ledger.original.flatten().tolist(), cache.next_positions().item()
    ([0, 6, 7, 8], 4)
    """
    checked(cache, "stream")
    return evict(cache, _ends(cache, sinks, window, "stream")[0])


@checked_call
def streaming(source: Any, sinks: int, window: int) -> Any:
    """A cache that keeps the first and the last tokens by itself, for `generate` without end.

    After each step it is as `stream` leaves it, but counted in full: where `stream` moves the last
    tokens down, the first follow them here, which gives the same scores. So the model's own
    positions and masks are right, however long it goes on.

    Parameters
    ----------
    source : PreTrainedModel or MovableCache
        A model, and the cache begins empty; or what `track` returned, which stays as it is.
    sinks, window : int
        As of `stream`. A token sees the last step's first and last ones beside those of its own.

    Returns
    -------
    MovableCache
        Hand it to the model as `past_key_values`.

    Raises
    ------
    ArgumentError
        If a number is negative, or both are 0; if a layer has a longer window of its own.
    DataError
        If keys cannot be moved, or the model cannot be asked.

    Notes
    -----
    A prompt is read as a whole, and cut then. Where it has padding on the left, give the model
    another cache for it, and go on from `track(cache, model, mask=mask)`.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import streaming, track
    >>> keys = torch.ones(1, 1, 9, 4)
    >>> cache = streaming(track([(keys, keys)], posenc.RoPE(4, pairing="half")), 1, 3)
    >>> [cache.update(k, k, 0)[0].shape[2] for k in torch.ones(3, 1, 1, 1, 4)]
    [5, 5, 5]
    >>> cache.ledger.original.flatten().tolist(), cache.ledger.current.flatten().tolist()
    ([0, 9, 10, 11], [8, 9, 10, 11])
    """
    if isinstance(source, nn.Module):
        source = evict(track(one_token(source, "streaming"), source), [])
    checked(source, "streaming")
    refuse_fixed(source, "streaming")
    for layer in source.movable:
        if layer.form.window and layer.form.window > window + 1:
            raise bad_argument(
                "streaming: window",
                f"a window of at least {layer.form.window - 1}, as layer {layer.index} has",
                window,
            )
    other = source.like(source.ledger)
    other.after = partial(_slid, sinks=sinks, window=window)
    other.become(other.after(other))
    return other


# --- parts ----------------------------------------------------------------------------------------


def _slid(cache: C, sinks: int, window: int) -> C:
    """The first and the last tokens, where the last ones stand."""
    places, steps = _ends(cache, sinks, window, "streaming")
    by = torch.zeros_like(places)
    by[:, :sinks] = steps
    return shift(evict(cache, places, gaps="keep"), by)


def _ends(cache: MovableCache, sinks: int, window: int, caller: str) -> tuple[Tensor, Tensor]:
    """The places of the first and last tokens, (rows, kept), and what is between: (rows, 1)."""
    counted(f"{caller}: sinks", sinks)
    counted(f"{caller}: window", window)
    refuse_argument(sinks + window == 0, caller, "at least one token to keep", "none")
    between = max(len(cache.ledger) - sinks - window, 0)
    real = cache.ledger.real if between else torch.ones(1, 1)
    first = real.to(torch.int64).argmax(-1, keepdim=True).clamp(max=between)
    kept = torch.arange(min(sinks + window, len(cache.ledger)))
    return torch.where(kept < sinks, kept + first, kept + between), between - first


def _places(cache: MovableCache, keep: Any) -> Tensor:
    """The indices of tokens that stay: (1 or rows, kept), rising."""
    count, batch = len(cache.ledger), cache.movable[0].batch_size
    given = on_host(keep, "evict: keep", "a mask of tokens, or indices of tokens")
    rows = given[None] if given.ndim == 1 else given
    refuse_argument(
        rows.ndim != 2 or rows.shape[0] not in (1, batch),
        "evict: keep",
        f"shape ({count},) or ({batch}, {count}), or indices of tokens",
        f"shape {tuple(given.shape)}",
    )
    if rows.dtype == torch.bool:
        refuse_argument(
            rows.shape[1] != count, "evict: keep", f"an entry for each of {count}", rows.shape[1]
        )
        kept = rows.sum(-1)
        refuse_argument(
            (kept != kept[0]).any(), "evict: keep", "rows that keep as many tokens", kept
        )
        return rows.nonzero()[:, 1].reshape(len(rows), -1)
    places = whole_numbers(rows, "evict: keep")
    rising = bool((places.diff(dim=1) > 0).all())
    if places.numel() and not (rising and 0 <= int(places.min()) <= int(places.max()) < count):
        raise bad_argument(
            "evict: keep", f"rising indices from 0 to {count - 1}", places.flatten().tolist()[:8]
        )
    return places

"""A cache as models fill it -> one with a ledger."""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, bad_data, refuse_argument, refuse_data
from posenc._core.positions.counting import from_mask
from posenc.torch.cache.binding import asked, decoder_plan, forms_of
from posenc.torch.cache.layers import is_quantised, whole_of
from posenc.torch.cache.ledger import Ledger, coordinates, counted, on_host
from posenc.torch.cache.movable import MovableCache

CALLER = "track"
CLASSES = ("DynamicCache", "StaticCache", "QuantizedCache", "Cache")
QUANTISED = "quantised keys without their scales"
BEFORE = "Pass the QuantizedCache itself, or the keys before they are quantised."


class _Stored(NamedTuple):
    """The tensors of a layer as they were found."""

    keys: Tensor
    values: Tensor
    window: int | None
    length: int  # tokens that the layer says it has had


@checked_call
def track(
    cache: Any,
    model: Any = None,
    *,
    plan: Any = None,
    positions: Any = None,
    mask: Any = None,
    length: int | None = None,
) -> Any:
    """A cache whose keys can be moved, over the tensors of a cache as models fill it.

    Parameters
    ----------
    cache : transformers.Cache, or list of (keys, values)
        A `DynamicCache` or `StaticCache`, with sliding layers or without; a `QuantizedCache`, of
        which dequantised copies are tracked; or the tensors of each layer, (batch, heads, tokens,
        channels). It stays as it is; what a static cache is given afterwards would change the
        tensors, which is noticed.
    model : PreTrainedModel or Plan or Reading or Spec, optional
        Whose keys they are. The config of a model is read into a plan, and the model is asked for
        the keys of one token at four positions or more: they must move as the plan says. Of a plan
        alone what it says is taken as it is.
    plan : Plan or Reading or Spec, optional
        In place of what the config of the model says.
    positions : array of integers, optional
        Where the tokens stand: (tokens,), (batch, tokens), of several axes (axes, batch, tokens) as
        models take them. Those that the mask counts by default, else 0, 1, …
    mask : array of bool or integers, optional
        (batch, tokens): true or 1 for real tokens, as `attention_mask`.
    length : int, optional
        Of rotations that depend on it: the length that keys were rotated for; one more than the
        largest position by default.

    Returns
    -------
    MovableCache
        A `transformers.Cache` too, where `cache` is one.

    Raises
    ------
    ArgumentError
        If there is neither model nor plan, or positions or mask do not fit the cache.
    DataError
        If the cache is empty, holds other things than keys, or was cut so that layers disagree; if
        the model's keys do not move as the plan says.

    Examples
    --------
    >>> import posenc.torch, torch
    >>> from posenc.torch.cache import shift, track
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=8)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> filled = model(torch.arange(5)[None], use_cache=True).past_key_values
    >>> shift(track(filled, model), 20)
    TransformersCache(1 layers, 5 tokens, next position 25, counted as 25)
    """
    refuse_argument(
        isinstance(cache, MovableCache),
        CALLER,
        "a cache without a ledger",
        "one with it",
        "Use it as it is.",
    )
    if model is not None and not isinstance(model, nn.Module):
        refuse_argument(plan is not None, CALLER, "one plan", "two")
        model, plan = None, model
    refuse_argument(
        model is None and plan is None,
        CALLER,
        "what the keys were rotated by",
        "nothing",
        "Pass the model, or plan=.",
    )
    if length is not None:
        counted(f"{CALLER}: length", length, 1)
    layers, theirs = _layers_of(cache)
    stored = [None if layer is None else _stored(i, layer) for i, layer in enumerate(layers)]
    full = [one for one in stored if one is not None]
    refuse_data(
        not any(one.length for one in full), CALLER, "a cache that stores keys", "an empty one"
    )
    count = _count(full)
    source = decoder_plan(model, CALLER) if plan is None else plan
    forms = [
        form if one is None or one.window is None else form._replace(window=one.window)
        for form, one in zip(forms_of(source, len(layers), CALLER), stored, strict=True)
    ]
    if model is not None:
        forms = asked(model, forms, CALLER)
    _check_shapes(stored, forms, count)
    rules = tuple(
        None if one is None else form.spec for one, form in zip(stored, forms, strict=True)
    )
    ledger = _ledger(full[0].keys.shape[0], count, rules, positions, mask)
    last = int(ledger.following().max()) if length is None else length
    era = tuple(None if rule is None else rule.at(max(last, 1)) for rule in rules)
    result = _class_for(theirs)(
        ledger, [era], rules, weakref.ref(model) if model is not None else lambda: None
    )
    result.fill(
        forms,
        [
            layer if one is None else (one.keys, one.values)
            for one, layer in zip(stored, layers, strict=True)
        ],
        seen=count,
    )
    for layer in result.movable:
        layer.trim()
    return result


# --- what comes -----------------------------------------------------------------------------------


def _layers_of(cache: Any) -> tuple[list[Any], bool]:
    """The layers of a cache, None for one that has nothing; and whether it is transformers'."""
    if isinstance(cache, (list, tuple)):
        for index, pair in enumerate(cache):
            tensors = isinstance(pair, (list, tuple)) and len(pair) == 2 and all(
                isinstance(t, Tensor) and t.ndim == 4 for t in pair
            )  # fmt: skip
            refuse_argument(
                not tensors,
                f"{CALLER}: layer {index}",
                "(keys, values), tensors (batch, heads, tokens, channels)",
                type(pair).__name__,
            )
        return [tuple(pair) for pair in cache], False
    own = [getattr(sys.modules.get("transformers"), name, None) for name in CLASSES]
    for wrong, expected, todo in (
        (
            hasattr(cache, "self_attention_cache"),
            "the cache of a decoder",
            "Pass its self_attention_cache; what was read from an encoder has its positions.",
        ),
        (
            getattr(cache, "layers", None) is None,
            "a transformers.Cache, or a list of (keys, values)",
            "Lists of (keys, values) are taken too.",
        ),
        (
            type(cache) not in own,
            f"one of {', '.join(CLASSES)}",
            "A model that has its own class of cache takes no other.",
        ),
    ):
        refuse_argument(wrong, CALLER, expected, type(cache).__name__, todo)
    refuse_data(
        getattr(cache, "offloading", False),
        CALLER,
        "a cache on one device",
        "one that is offloaded",
    )
    return list(cache.layers), True


def _stored(index: int, layer: Any) -> _Stored | None:
    """The tensors of a layer, without the room that a static one has; None if it has none."""
    caller = f"{CALLER}: layer {index}"
    if isinstance(layer, tuple):
        keys, values = layer
        _check_tensors(keys, values, caller)
        return _Stored(keys, values, None, int(keys.shape[-2]))
    for wrong, expected, received, todo in (
        (
            getattr(layer, "recurrent_states", None) is not None or hasattr(layer, "conv_states"),
            "keys, one for each token",
            f"a state that tokens were folded into ({type(layer).__name__})",
            "It cannot be taken apart.",
        ),
        (
            getattr(layer, "indexer_keys", None) is not None,
            "keys of one attention",
            "an indexer's beside",
            "They would have to move too.",
        ),
    ):
        refuse_data(wrong, caller, expected, received, todo)
    if getattr(layer, "keys", None) is None or not layer.is_initialized:
        return None
    keys, values = whole_of(layer) if is_quantised(layer) else (layer.keys, layer.values)
    _check_tensors(keys, values, caller)
    length = int(layer.get_seq_length())
    window = getattr(layer, "sliding_window", None)
    if hasattr(layer, "max_cache_len"):  # static: it has room for more
        full = min(length, int(layer.max_cache_len))
        keys, values = keys[:, :, :full], values[:, :, :full]
        window = int(layer.max_cache_len) if layer.is_sliding else None
    expected_count = length if window is None else min(length, int(window))
    if keys.shape[-2] not in (expected_count, expected_count - (window is not None)):
        raise bad_data(
            caller,
            f"{expected_count} tokens, as it says",
            keys.shape[-2],
            "Others cut it: pass its tensors as a list, with the positions of its tokens.",
        )
    return _Stored(keys, values, window, length)


def _check_tensors(keys: Tensor, values: Tensor, caller: str) -> None:
    if not keys.is_floating_point() or keys.dtype.itemsize < 2:
        raise bad_data(
            caller,
            "keys in floating point, of 16 bits or more",
            f"{str(keys.dtype).removeprefix('torch.')}: {QUANTISED}",
            BEFORE,
        )
    refuse_argument(
        keys.shape[:1] != values.shape[:1] or keys.shape[-2] != values.shape[-2],
        caller,
        "keys and values of the same tokens",
        f"{tuple(keys.shape)} and {tuple(values.shape)}",
    )


def _count(stored: list[_Stored]) -> int:
    """The number of tokens that the layers have had."""
    batches = {one.keys.shape[0] for one in stored}
    refuse_data(len(batches) > 1, CALLER, "layers of one batch", f"batches of {sorted(batches)}")
    whole = [one.length for one in stored if one.window is None and one.length]
    return max(whole or [one.length for one in stored])


def _check_shapes(stored: list[_Stored | None], forms: list[Any], count: int) -> None:
    for index, (one, form) in enumerate(zip(stored, forms, strict=True)):
        if one is None:
            continue
        least = count if form.window is None else min(count, form.window - 1)
        refuse_data(
            one.keys.shape[-2] < least or one.length > count,
            CALLER,
            f"{count} tokens in layer {index}"
            + ("" if form.window is None else f", or the last {form.window - 1}"),
            int(one.keys.shape[-2]),
            "Others cut or moved the cache, or a layer has a window that the plan lacks.",
        )
        width = (one.keys, one.values)[form.side].shape[-1]
        if form.spec is not None and form.spec.dim > width:
            raise bad_argument(
                CALLER,
                f"at least {form.spec.dim} channels in layer {index}, which the plan rotates",
                int(width),
            )


def _ledger(batch: int, count: int, rules: tuple[Any, ...], positions: Any, mask: Any) -> Ledger:
    axes = {len(rule.axes) for rule in rules if rule is not None}
    refuse_argument(
        len(axes) > 1, CALLER, "positions of one number of axes", f"{sorted(axes)} in its layers"
    )
    width = axes.pop() if axes else 1
    real = torch.ones(1, count, dtype=torch.bool)
    if mask is not None:
        entries = on_host(mask, f"{CALLER}: mask", "true or 1 for real tokens")
        real = entries == 1
        refuse_argument(
            not bool((real | (entries == 0)).all()),
            f"{CALLER}: mask",
            "true or 1 for real tokens, false or 0 for padding",
            "other numbers",
            "A mask that is added to scores is no padding mask: pass `attention_mask`.",
        )
        refuse_argument(
            tuple(real.shape) not in ((batch, count), (1, count)),
            f"{CALLER}: mask",
            f"shape ({batch}, {count}), as the cache has tokens",
            tuple(real.shape),
        )
    if positions is None:
        where = from_mask(real)[..., None].expand(-1, -1, width)
    else:
        where = coordinates(positions, width, f"{CALLER}: positions")
        refuse_argument(
            where.shape[1] != count or len(where) not in (1, batch),
            f"{CALLER}: positions",
            f"shape ({count},) or ({batch}, {count})",
            f"shape {tuple(where.shape[:2])}",
        )
    ledger = Ledger.of(where.contiguous(), real, 0, count)
    following = {*ledger.following().tolist()}
    if positions is None or width > 1 or len(following) > 1:
        return ledger
    return ledger.replace(length=max(*following, count))


def _class_for(theirs: bool) -> type[MovableCache]:
    if not theirs or "transformers" not in sys.modules:
        return MovableCache
    from posenc.torch.cache.of_transformers import TransformersCache

    return TransformersCache

"""Biases and relative encodings in the attention of Hugging Face transformers.

A model asks two functions by the name of its attention implementation: one for a mask, once in a
step, and one for the attention of each layer, which is given that mask. Only the first is told
where queries and keys stand, so the mask tells the second: each entry holds the positions of its
query and its key, and by its sign whether the key is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as dropped, scaled_dot_product_attention

from posenc._core.errors import bad_argument
from posenc.encodings.api import BiasSpec, RelativeSpec
from posenc.functional.arguments.common import name_of
from posenc.functional.arguments.scores import head_range
from posenc.torch.libraries import RegisteredNames, registered_attention
from posenc.torch.modules import AttentionBias, RelativeAttention

Encoding = BiasSpec | RelativeSpec | AttentionBias | RelativeAttention
# An entry of the mask: 31 bits for the position of its query and as many for that of its key, where
# position 0 is written as ZERO.
BITS, ZERO = 31, 2**30
MARKED = torch.uint64  # as no other mask is, so that none is taken for it


def attention(encoding: Encoding | Sequence[Encoding | None]) -> ModelAttention:
    """The attention of transformers with a bias or relative encoding, for `AttentionInterface`.

        softmax(scale * q . k + bias + mask) v        or what the encoding says in its place

    Any model whose layers ask `AttentionInterface` takes it by the name under which it is
    registered. What the model does besides goes on: its rotation, its mask and windows, its own
    bias, softcap and sinks. So a model that turns queries and keys does both.

    Parameters
    ----------
    encoding : BiasSpec, RelativeSpec, AttentionBias or RelativeAttention; or a sequence of them
        For all layers; in a sequence one for each layer, by its `layer_idx`, with None for layers
        without. What an encoding learns belongs to a module, which may serve one layer or all.

    Returns
    -------
    ModelAttention
        `register(name)` lets models ask for it.

    Raises
    ------
    ArgumentError
        If it is no encoding of scores along one axis, or learns without a module.

    Notes
    -----
    Positions are those that the model gives its layers as `position_ids`. Where it gives none they
    count along the KV cache, from the first token that is not padding. Attention between two
    sequences (encoder and decoder) goes on without the encoding.

    Examples
    --------
    >>> import posenc, torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=8)
    >>> alibi = posenc.torch.attention(posenc.ALiBi(2))
    >>> with alibi.register("alibi"):
    ...     config = LlamaConfig(**sizes, intermediate_size=8, attn_implementation="alibi")
    ...     LlamaForCausalLM(config)(torch.arange(6)[None]).logits.shape
    torch.Size([1, 6, 8])
    """
    several = isinstance(encoding, Sequence)
    if several and not encoding:
        raise bad_argument("attention", "an encoding for each layer", "none")
    every: Any = encoding if several else [encoding]
    return ModelAttention([_module(one) for one in every], several=several)


def _module(encoding: Any) -> AttentionBias | RelativeAttention | None:
    if encoding is None or isinstance(encoding, (AttentionBias, RelativeAttention)):
        module = encoding
    elif isinstance(encoding, (BiasSpec, RelativeSpec)):
        kind = AttentionBias if isinstance(encoding, BiasSpec) else RelativeAttention
        if encoding.shapes:
            raise bad_argument(
                "attention",
                f"a module that holds its parameters: {kind.__name__}({name_of(encoding)}(…))",
                "the spec",
                "Train and save it with the model.",
            )
        module = kind(encoding)  # type: ignore[arg-type]
    else:
        raise bad_argument(
            "attention",
            "a bias or relative encoding, or the module of one",
            name_of(encoding),
            "A rotation acts on queries and keys: posenc.torch.adopt, or a rope_type.",
        )
    if module is not None and len(module.spec.axes) > 1:
        raise bad_argument(
            "attention",
            "positions along one axis",
            f"{name_of(module.spec)} with axes {module.spec.axes}",
        )
    return module


class ModelAttention:
    """What `AttentionInterface` calls for each layer: see `posenc.torch.attention`."""

    def __init__(
        self, encodings: Sequence[AttentionBias | RelativeAttention | None], *, several: bool
    ) -> None:
        from transformers import masking_utils

        self.encodings = list(encodings)
        self.several = several
        self._seen: Any = masking_utils.sdpa_mask

    def register(self, name: str) -> RegisteredNames:
        """Let models ask for it: `attn_implementation=name`, or `set_attn_implementation(name)`.

        `remove()` of the result takes the name out again; as a context manager it does so at the
        end. A name that is taken is refused.
        """
        if name == "eager":  # each model has its own
            raise bad_argument("attention: name", "a name that is free", repr(name))
        return registered_attention(name, self, self.mask, "attention")

    def mask(
        self,
        *,
        kv_length: int,
        kv_offset: int = 0,
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """The mask of a step, for `AttentionMaskInterface`: (batch, 1, q, k)."""
        skips = dict.fromkeys(("allow_is_causal_skip", "allow_is_bidirectional_skip"), False)
        seen = self._seen(
            kv_length=kv_length,
            kv_offset=kv_offset,
            attention_mask=attention_mask,
            **{**kwargs, **skips},
        )
        device = seen.device
        rows = kwargs.get("cache_position")  # of the queries, before transformers 5.2
        if rows is None:
            rows = torch.arange(seen.shape[-2], device=device) + kwargs.get("q_offset", 0)
        columns = torch.arange(kv_length, device=device) + kv_offset
        if attention_mask is not None:
            first = attention_mask.to(torch.int64).argmax(dim=-1, keepdim=True)
            rows, columns = rows - first, columns - first
        entries = ((rows + ZERO) << BITS)[..., :, None] + (columns + ZERO)[..., None, :]
        entries = entries[:, None] if entries.ndim == 3 else entries
        return torch.where(seen, entries, ~entries).view(MARKED)

    def __call__(
        self,
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        *,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """The attention of one layer, (batch, q, heads, dim), and its weights where asked for."""
        if kwargs.get("cache") is not None:
            raise bad_argument("attention", "no paged KV cache", "one")
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        seen, at = _read(attention_mask, query.shape[2], key.shape[2], query.device)
        if attention_mask is None and is_causal and query.shape[2] > 1:
            seen = at[1][None, :] <= at[0][:, None]
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        encoding: Any = self._encoding(module)
        added: Any = None
        if encoding is not None and not _crosses(module):
            _check_mask(attention_mask, query.shape[2], key.shape[2])
            at = _counted(at, kwargs.get("position_ids"))
            added, scale = _added(encoding, query, key, at, scale)
        else:
            encoding = None
        if (own := kwargs.get("position_bias")) is not None:
            added = own if added is None else added + own
        if seen is not None and seen.is_floating_point():
            added, seen = (seen if added is None else added + seen), None
        softcap, sinks = kwargs.get("softcap"), kwargs.get("s_aux", kwargs.get("sinks"))
        on_values = encoding is not None and getattr(encoding.spec, "on_values", False)
        asked = kwargs.get("output_attentions")
        if softcap is None and sinks is None and not on_values and not asked:
            mask = _masked(added, seen) if added is not None else seen
            out = scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale
            )
            return out.transpose(1, 2).contiguous(), None
        scores = query @ key.transpose(-1, -2) * scale
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        scores = _masked(scores if added is None else scores + added, seen)
        weights = dropped(_softmax(scores, sinks), p=dropout)
        out = weights @ value
        if on_values:
            out = out + encoding.of_values(weights, *at)
        return out.transpose(1, 2).contiguous(), weights

    def _encoding(self, module: Any) -> AttentionBias | RelativeAttention | None:
        """The encoding of a layer."""
        if not self.several:
            return self.encodings[0]
        number = getattr(module, "layer_idx", None)
        if number is None or not 0 <= number < len(self.encodings):
            raise bad_argument(
                f"attention of {type(module).__name__}",
                f"a layer_idx from 0 to {len(self.encodings) - 1}, one for each encoding",
                number,
            )
        return self.encodings[number]


def _read(
    mask: Tensor | None, rows: int, keys: int, device: torch.device
) -> tuple[Tensor | None, tuple[Tensor, Tensor]]:
    """Which keys are seen, or what is added; and where tokens stand."""
    if mask is None or mask.dtype != MARKED:
        return mask, (torch.arange(rows, device=device), torch.arange(keys, device=device))
    mask = mask.view(torch.int64)[..., :keys]
    entries = torch.where(mask >= 0, mask, ~mask)
    q = (entries[:, 0, :, 0] >> BITS) - ZERO
    k = (entries[:, 0, -1, :] & (2**BITS - 1)) - ZERO
    return mask >= 0, (q, k)


def _check_mask(mask: Tensor | None, rows: int, keys: int) -> None:
    """Refuse a mask that is none of ours, where positions do not follow from the lengths."""
    if mask is not None and mask.dtype == MARKED:
        return
    received = "none" if mask is None else f"{tuple(mask.shape)} in {mask.dtype}"
    if rows != keys:
        raise bad_argument(
            "attention: attention_mask",
            f"a mask that posenc made, for {rows} queries and {keys} keys",
            received,
            "Register it by `attention(…).register(name)`, and let the model make its mask.",
        )
    if mask is None or (mask.ndim == 4 and (mask.is_floating_point() or mask.dtype == torch.bool)):
        return
    raise bad_argument(
        "attention: attention_mask",
        "shape (batch, heads or 1, q, k), boolean or floating",
        received,
    )


def _crosses(module: Any) -> bool:
    """Whether a layer attends to another sequence than its own."""
    if getattr(module, "is_cross_attention", False):
        return True
    if getattr(module, "is_causal", True):
        return False
    config, decodes = getattr(module, "config", None), getattr(module, "is_decoder", None)
    if decodes is None and getattr(config, "is_encoder_decoder", False):
        raise bad_argument(
            "attention",
            "a layer that says by `is_decoder` whether it attends to another sequence",
            type(module).__name__,
        )
    return bool(getattr(config, "is_decoder", False) if decodes is None else decodes)


def _counted(at: tuple[Tensor, Tensor], ids: Any) -> tuple[Tensor, Tensor]:
    """Positions as the model counts them, where it says so: from 0, as padding is not seen."""
    q, k = at
    if isinstance(ids, Tensor) and ids.ndim == 2 and ids.shape[-1] == q.shape[-1]:
        if k.shape[-1] == q.shape[-1]:
            k = ids
        else:  # keys in a cache: counted from the last query that is no padding, on either side
            q, ids = q + 0 * ids, ids + 0 * q  # one of the two may be the same for all rows
            last = ids.argmax(dim=-1, keepdim=True)
            k = k + (ids.gather(-1, last) - q.gather(-1, last))
        q = ids
    return q.clamp(min=0), k.clamp(min=0)


def _added(
    encoding: AttentionBias | RelativeAttention,
    query: Tensor,
    key: Tensor,
    at: tuple[Tensor, Tensor],
    scale: float,
) -> tuple[Tensor, float]:
    """What is added to the scaled scores, and their scale."""
    spec = encoding.spec
    if isinstance(encoding, AttentionBias):
        first, end = head_range(encoding.heads, spec.heads, "attention")
        if end - first != query.shape[1]:
            raise bad_argument(
                f"attention({name_of(spec)})",
                f"{query.shape[1]} heads, as the layer has",
                end - first,
            )
        added = encoding(*at, dtype=query.dtype, device=query.device)
    else:
        added = encoding(query, key, *at)
        # The scale of the model, unless the encoding asks for another than 1 / sqrt(dim).
        scale = scale * spec.scale * spec.dim**0.5
    return (added * scale if spec.place == "before" else added), scale


def _masked(scores: Tensor, seen: Tensor | None) -> Tensor:
    """Scores without those of keys that are not seen; a query that sees none has them all alike."""
    return scores if seen is None else scores.masked_fill(~seen, torch.finfo(scores.dtype).min)


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Weights, in float32 at least, beside a sink of each head that takes a share of them."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    if sinks is None:
        return scores.softmax(dim=-1, dtype=wide).to(scores.dtype)
    column = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1).to(wide)
    return torch.cat((scores.to(wide), column), dim=-1).softmax(dim=-1).to(scores.dtype)[..., :-1]

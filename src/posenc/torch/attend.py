"""A small reference attention that applies any encoding in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from posenc import functional
from posenc._core.arrays.array import rectangular, undivided
from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, suggest
from posenc._core.reading import Layer
from posenc._core.spec.plan import Entry
from posenc._core.spec.spec import Spec
from posenc._core.tracing import is_compiling
from posenc.encodings.api import BiasSpec, RelativeSpec, RotarySpec
from posenc.encodings.rotary.magnitude import Temperature
from posenc.torch.learned import LearnedModule


@checked_call
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    entry: Entry | Layer | Sequence[Layer] | Spec | LearnedModule | None = None,
    *,
    q_positions: Any = None,
    k_positions: Any = None,
    params: Mapping[str, Mapping[str, Tensor]] | None = None,
    mask: Literal["none", "causal"] | Tensor = "none",
    scale: float | None = None,
    length: int | Tensor | None = None,
) -> Tensor:
    """Attention with positions, as tests and studies want it: plain, and right in every place.

        table         nothing here: it was added to the embeddings
        rotary        q and k are turned
        temperature   q is multiplied by its factor, after it was turned
        relative      formed from q and k, and for some encodings added to the values
        bias          added to the scores, after or before their scale as the encoding says
        none          attention as it is
        convolution   refused: it mixes the embeddings before, and nothing here says with what

    The softmax is that of `scaled_dot_product_attention`, except where an encoding acts on values
    and needs the weights.

    Parameters
    ----------
    q, k, v : Tensor
        (..., heads, q, dim), (..., heads, k, dim) and (..., heads, k, value dim). Where there are
        fewer key heads they serve groups of query heads.
    entry : Entry, Layer, sequence of Layer, Spec or module, optional
        What the layer does with positions: an entry of a plan, what a reader found of a layer
        (`reading.at(3)`), an encoding, or a module of `posenc.torch`, which brings what it has
        learned; nothing by default.
    q_positions, k_positions : Tensor, optional
        Integers of shape (q,) or (batch, q), and likewise. Both count from 0 where there are as
        many queries as keys; else they must be given, if an encoding or a mask asks for them.
    params : mapping, optional
        The parameters of learned encodings, by kind: `{"bias": {"weight": …}}`.
    mask : {"none", "causal"} or Tensor
        `causal`: keys at positions after the query are not seen. A tensor is boolean, true where a
        key is seen, and broadcasts to (..., heads, q, k). A window of the entry is added to either.
    scale : float, optional
        What scores are multiplied by; by default what the entry says, or the encoding, or
        1 / sqrt(dim). Factors of a rotary encoding and the temperature come on top of it.
    length : int or Tensor, optional
        Length of the sequence, for scalings of rotary encodings that depend on it, as for
        `posenc.rotate`; other layers do not read it.

    Returns
    -------
    Tensor
        (..., heads, q, value dim). A query that sees no key gets zeros or NaN, as torch has it.

    Raises
    ------
    ArgumentError
        If positions are needed and absent, parameters have no encoding, or the entry is a
        convolution.

    Examples
    --------
    >>> import posenc, torch
    >>> from posenc.torch import attend
    >>> q, k = torch.randn(1, 8, 1, 16), torch.randn(1, 8, 10, 16)
    >>> now, past = torch.tensor([9]), torch.arange(10)
    >>> attend(q, k, k, posenc.ALiBi(8), q_positions=now, k_positions=past, mask="causal").shape
    torch.Size([1, 8, 1, 16])
    """
    undivided("attend", q, k, v)
    rectangular("attend", q, k, v)
    parameters = dict(params or {})
    if isinstance(entry, LearnedModule):
        entry, parameters = _of_module(entry, parameters)
    entry = _entry(entry)
    for kind in parameters:
        if entry.spec(kind) is None:
            kinds = [spec.kind for spec in entry.specs]
            own = next((spec.kind for spec in entry.specs if kind in spec.shapes), "")
            todo = f"Put it under its kind: params={{{own!r}: {{{kind!r}: …}}}}." if own else ""
            named = suggest(kind, kinds) if kinds else "The entry has no encodings."
            raise bad_argument("attend: params", "kinds of the entry", repr(kind), todo or named)
    if k.shape[-3:-1] != v.shape[-3:-1]:
        raise bad_argument(
            "attend: v",
            "keys and values of one number of heads and tokens, shape (..., heads, k, dim)",
            f"shapes {tuple(k.shape)} and {tuple(v.shape)}",
        )
    if q_positions is None and k_positions is None and q.shape[-2] == k.shape[-2]:
        q_positions = k_positions = torch.arange(q.shape[-2], device=q.device)
    needed = (
        entry.window is not None
        or entry.temperature is not None
        or any(spec.kind != "table" for spec in entry.specs)
        or (isinstance(mask, str) and mask == "causal")
    )
    if needed and (q_positions is None or k_positions is None):
        raise bad_argument(
            "attend: positions",
            "those of q and k",
            None,
            "Queries of a decoding step are the last of their sequence, not the first.",
        )
    rotary, width = entry.spec("rotary"), q.shape[-1]
    if isinstance(rotary, RotarySpec):
        length = length if rotary.needs_length else None  # every layer of a model is handed it
        more: dict[str, Any] = {"params": parameters.get("rotary"), "length": length}
        q = functional.rotate(rotary, q, positions=q_positions, role="query", **more)
        k = functional.rotate(rotary, k, positions=k_positions, role="key", **more)
    q = _warmed(q, entry, rotary, q_positions, length)
    if k.shape[-3] != q.shape[-3]:
        k, v = (_spread(x, q.shape[-3]) for x in (k, v))
    relative, bias = entry.spec("relative"), entry.spec("bias")
    scale = entry.scale if scale is None else scale
    if scale is None:
        scale = relative.scale if isinstance(relative, RelativeSpec) else width**-0.5
    added: Any = None
    if isinstance(bias, BiasSpec):
        added = functional.bias(
            bias,
            q_positions,
            k_positions,
            params=parameters.get("bias"),
            dtype=q.dtype,
            xp=torch,
            device=q.device,
        )
        added = added * scale if bias.place == "before" else added
    if isinstance(relative, RelativeSpec):
        terms = functional.relative(
            relative, q, k, q_positions, k_positions, params=parameters.get("relative")
        )
        terms = terms * scale if relative.place == "before" else terms
        added = terms if added is None else added + terms
    seen = _seen(mask, entry.window, q_positions, k_positions, q.device)
    if seen is not None:
        added = seen if added is None else added.masked_fill(~seen, float("-inf"))
    if not (isinstance(relative, RelativeSpec) and relative.on_values):
        return scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale)
    weights = (q @ k.transpose(-1, -2) * scale + added).softmax(dim=-1)
    return weights @ v + functional.relative_values(
        relative, weights, q_positions, k_positions, params=parameters.get("relative")
    )


def _warmed(
    q: Tensor, entry: Entry, rotary: Any, positions: Any, length: int | Tensor | None
) -> Tensor:
    """Queries times the factors on their scores: that of the encoding, and the temperature.

    On the query rather than on the scores, as a factor of a row commutes with products but not with
    a bias, which it is not meant for.
    """
    for spec in (rotary, entry.temperature):
        if not isinstance(spec, RotarySpec | Temperature):
            continue
        read = length if spec is rotary else None
        factor = functional.logit_scale(spec, positions, length=read, xp=torch, device=q.device)
        if isinstance(factor, Tensor) and factor.ndim:
            if factor.ndim > 2 or factor.shape[-1] != q.shape[-2]:
                raise bad_argument(
                    "attend: q_positions",
                    f"a position for each of {q.shape[-2]} queries, along one axis",
                    tuple(factor.shape),
                )
            q = (q * factor[..., None, :, None]).to(q.dtype)
        elif isinstance(factor, Tensor) or factor != 1:
            q = (q * factor).to(q.dtype)
    return q


def _of_module(
    module: LearnedModule, parameters: dict[str, Mapping[str, Tensor]]
) -> tuple[Spec, dict[str, Mapping[str, Tensor]]]:
    """The spec of a module, and what it has learned by kind."""
    name = type(module).__name__
    if parameters:
        raise bad_argument(
            "attend: params",
            "none with a module",
            "some",
            f"A {name} has its own. To pass others, pass its `spec`.",
        )
    if getattr(module, "seq_dim", -2) != -2 and module.spec.kind == "rotary":
        raise bad_argument(
            f"attend: {name}",
            "seq_dim=-2",
            f"seq_dim={module.seq_dim}",
            "Transpose heads and sequence of q, k and v, and make it with the default.",
        )
    if module.heads is not None:
        raise bad_argument(
            f"attend: {name}",
            "a module of all heads",
            f"heads={module.heads}",
            "Pass its `spec` and the queries of all heads, or add `module(...)` to the mask.",
        )
    spec: Spec = module.spec
    learned = module.learned()
    return spec, {} if learned is None else {spec.kind: learned}


def _entry(entry: Any) -> Entry:
    if entry is None:
        return Entry("none")
    if isinstance(entry, Spec):
        return _entry_of(entry)
    if isinstance(entry, Layer):
        entry = (entry,)
    if isinstance(entry, Sequence) and not isinstance(entry, str) and entry:
        entry = _layer(entry)
    if not isinstance(entry, Entry):
        raise bad_argument(
            "attend: entry",
            "an entry of a plan, a spec, a module of posenc.torch, or None",
            type(entry).__name__,
        )
    if entry.attentions:
        raise bad_argument(
            "attend: entry",
            "one attention",
            f"{entry.name!r} with {', '.join(one.name for one in entry.attentions)} inside it",
            "Pass each by itself, and what it lets the main attention see as `mask`.",
        )
    if entry.convolution is not None:
        raise bad_argument(
            "attend: entry",
            "what acts in attention",
            f"a convolution, {entry.convolution!r}",
            "It mixes embeddings before attention: apply it there, and pass the rest of the plan.",
        )
    if entry.temperature is None:
        return entry
    if not isinstance(entry.temperature, Temperature):
        raise bad_argument("attend: temperature", "a Temperature", type(entry.temperature).__name__)
    rotary = entry.spec("rotary")
    if isinstance(rotary, RotarySpec) and rotary.magnitude_of_scores.temperature is not None:
        raise bad_argument(
            "attend: temperature",
            "one",
            "one of the entry and one of its rotary encoding",
            "Leave out one of them.",
        )
    return entry


def _entry_of(spec: Spec) -> Entry:
    """A spec alone; what is checked once is kept on it, as decoding asks for each token."""
    entry: Entry | None = spec.plans.get("entry")
    if entry is None:
        entry = Entry(type(spec).__name__, specs=(spec,))
        if not is_compiling():
            spec.plans["entry"] = entry
    return entry


def _layer(entries: Sequence[Any]) -> Entry:
    """What a reader found of one layer, as the entry of a plan."""
    for one in entries:
        if not isinstance(one, Layer):
            names = ", ".join(getattr(each, "kind", type(each).__name__) for each in entries)
            todo = f"For several encodings: posenc.Entry('attention', specs=({names}))."
            raise bad_argument("attend: entry", "layers of a reading", type(one).__name__, todo)
    if len({one.attention for one in entries}) > 1:
        raise bad_argument(
            "attend: entry",
            "one attention",
            ", ".join(sorted({one.attention or "the main one" for one in entries})),
            "Pass each by itself, and what it lets the main attention see as `mask`.",
        )
    return Entry(
        entries[0].layer or "layer",
        specs=tuple(one.spec for one in entries if one.spec is not None),
        convolution=next((one.convolution for one in entries if one.convolution), None),
        temperature=next((o.logit_scale for o in entries if o.logit_scale is not None), None),
        scale=next((one.scale for one in entries if one.scale is not None), None),
    )


def _spread(x: Tensor, heads: int) -> Tensor:
    """Each key head in the place of the query heads it serves."""
    if heads % x.shape[-3]:
        raise bad_argument("attend: k", f"a number of key heads that divides {heads}", x.shape[-3])
    return x.repeat_interleave(heads // x.shape[-3], dim=-3)


def _seen(mask: Any, window: int | None, q: Any, k: Any, device: torch.device) -> Tensor | None:
    """Where a query sees a key, (..., 1, q, k), or None where it sees all."""
    if isinstance(mask, str) and mask not in ("none", "causal"):
        raise bad_argument(
            "attend: mask",
            "'none', 'causal' or a tensor",
            repr(mask),
            suggest(mask, ["none", "causal"]),
        )
    if isinstance(mask, Tensor) and mask.dtype != torch.bool:
        raise bad_argument(
            "attend: mask", "a boolean tensor", mask.dtype, "True where a key is seen."
        )
    seen: Tensor | None = mask if isinstance(mask, Tensor) else None
    if window is None and not (isinstance(mask, str) and mask == "causal"):
        return seen
    q, k = (torch.as_tensor(side, device=device) for side in (q, k))
    if q.ndim > 2 or k.ndim > 2:
        raise bad_argument(
            "attend: mask", "a mask as a tensor for positions of several axes", repr(mask)
        )
    rel = (k[..., None, :] - q[..., :, None])[..., None, :, :]
    if isinstance(mask, str) and mask == "causal":
        seen = rel <= 0
    if window is not None:
        near = rel.abs() < window
        seen = near if seen is None else seen & near
    return seen

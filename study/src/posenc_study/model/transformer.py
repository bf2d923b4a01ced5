"""A Transformer with positions of any kind, after Vaswani et al. 2017.

    encoder          x = x + attention(x)      x = x + perceptron(x)              every key is seen
    decoder          the same, where a token sees itself and those before it
    encoder-decoder  both; each layer of the decoder attends to the encoder's output in between

Positions enter in four places, and a plan says which of them are used in each layer:

    table      added to (or appended to) sqrt(width) times the embeddings, of both stacks
    rotary     turns queries and keys                         }
    relative   is formed from queries and keys                }  in `posenc.torch.attend`
    bias       is added to the scores                         }

Attention from decoder to encoder has no positions. The modules of `posenc.torch` hold what an
encoding learns; none of them has a buffer, so all positions of a model are integers that it is
called with. That makes decoding simple: the cache keeps keys as they are projected, before anything
positional happens to them, and the same call serves a whole sequence and its next token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc import Entry, Plan
from posenc._core.errors import ArgumentError, mismatch
from posenc._core.spec.spec import Spec
from posenc.encodings.bias.base import BiasSpec
from posenc.encodings.relative.base import RelativeSpec
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.table.base import TableSpec
from posenc.torch import (
    AttentionBias,
    PositionTable,
    RelativeAttention,
    RotaryEmbedding,
    attend,
)
from posenc.torch.learned import LearnedModule
from posenc_study.model.inputs import Cache, Memory, Scheme, Shape, Tokens


class LayerPositions(nn.ModuleDict):
    """What the encodings of one entry of a plan learn, by kind."""

    def __init__(self, entry: Entry, seed: int) -> None:
        super().__init__({spec.kind: _module(spec, seed) for spec in entry.specs})
        self.entry = entry

    def learned(self) -> dict[str, dict[str, Tensor]]:
        """The parameters as `attend` takes them."""
        learned = {kind: module.learned() for kind, module in self._learning()}
        return {kind: values for kind, values in learned.items() if values}

    def _learning(self) -> Iterator[tuple[str, LearnedModule]]:
        for kind, module in self.items():
            if isinstance(module, LearnedModule):
                yield kind, module


def _module(spec: Spec, seed: int) -> LearnedModule:
    if isinstance(spec, RotarySpec):
        return RotaryEmbedding(spec, seed=seed)
    if isinstance(spec, BiasSpec):
        return AttentionBias(spec, seed=seed)
    if isinstance(spec, RelativeSpec):
        return RelativeAttention(spec, seed=seed)
    todo = "A table stands at the embeddings, in `Plan.embeddings`."
    received = type(spec).__name__
    raise ArgumentError(mismatch("Transformer: plan", "what acts in attention", received, todo))


class Attention(nn.Module):
    """Multi-head attention: softmax(q k' / sqrt(d) + positions) v."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.q_proj = nn.Linear(shape.width, shape.width)
        self.k_proj = nn.Linear(shape.width, shape.width)
        self.v_proj = nn.Linear(shape.width, shape.width)
        self.o_proj = nn.Linear(shape.width, shape.width)

    def split(self, x: Tensor) -> Tensor:
        """(batch, seq, width) -> (batch, heads, seq, dim)."""
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, context: Tensor, scene: AttentionContext) -> Tensor:
        """Attend from x (batch, q, width) to the context (batch, k, width) and what is kept."""
        q, k, v = (
            self.split(project(side))
            for project, side in ((self.q_proj, x), (self.k_proj, context), (self.v_proj, context))
        )
        if scene.cache is not None:
            k, v = scene.cache.extend(scene.layer, k, v)
        out = attend(
            q,
            k,
            v,
            scene.positions.entry if scene.positions is not None else None,
            q_positions=scene.q_at,
            k_positions=scene.k_at,
            params=scene.positions.learned() if scene.positions is not None else None,
            mask="none" if scene.mask is None else scene.mask,
        )
        mixed: Tensor = self.o_proj(out.transpose(1, 2).flatten(-2))
        return mixed


@dataclass
class AttentionContext:
    """Around one call of an attention: positions, what may be seen, and what is kept."""

    mask: Tensor | None = None
    q_at: Tensor | None = None
    k_at: Tensor | None = None
    positions: LayerPositions | None = None
    cache: Cache | None = None
    layer: int = 0


class TransformerLayer(nn.Module):
    """Attention to itself, attention to the source where there is one, and a perceptron."""

    def __init__(self, shape: Shape, *, crossed: bool) -> None:
        super().__init__()
        self.norm = shape.norm
        self.self_attn = Attention(shape)
        self.self_norm = nn.LayerNorm(shape.width)
        self.cross_attn = Attention(shape) if crossed else None
        self.cross_norm = nn.LayerNorm(shape.width) if crossed else None
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)
        self.mlp_norm = nn.LayerNorm(shape.width)

    def forward(
        self, x: Tensor, own: AttentionContext, memory: Tensor | None, other: AttentionContext
    ) -> Tensor:
        """(batch, seq, width) -> (batch, seq, width)."""
        y = self.enter(x, self.self_norm)
        x = self.leave(x + self.self_attn(y, y, own), self.self_norm)
        if self.cross_attn is not None and self.cross_norm is not None and memory is not None:
            y = self.enter(x, self.cross_norm)
            x = self.leave(x + self.cross_attn(y, memory, other), self.cross_norm)
        y = self.enter(x, self.mlp_norm)
        return self.leave(x + self.down(functional.gelu(self.up(y))), self.mlp_norm)

    def enter(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The input of a sublayer."""
        return norm(x) if self.norm == "pre" else x

    def leave(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The sum after a sublayer."""
        return x if self.norm == "pre" else norm(x)


class Stack(nn.Module):
    """Layers with the positions that a plan gives them."""

    def __init__(self, shape: Shape, plan: Plan, *, causal: bool, crossed: bool, seed: int) -> None:
        super().__init__()
        if len(plan) != shape.layers:
            expected = f"a plan of {shape.layers} layers"
            raise ArgumentError(mismatch("Transformer: plan", expected, f"{len(plan)} layers"))
        self.causal = causal
        self.layers = nn.ModuleList(
            TransformerLayer(shape, crossed=crossed) for _ in range(shape.layers)
        )
        self.final_norm = nn.LayerNorm(shape.width) if shape.norm == "pre" else nn.Identity()
        # Layers of a shared entry have one module, under one name in a file of weights.
        self.homes = [
            plan[i].name if plan[i].share == "model" else f"layer_{i}" for i in range(len(plan))
        ]
        modules: dict[str, LayerPositions] = {}
        for i, home in enumerate(self.homes):
            modules.setdefault(home, LayerPositions(plan[i], seed + i))
        self.positions = nn.ModuleDict(modules)
        self.pos_embed: PositionTable | None = None
        self.pos_join: nn.Linear | None = None
        table = plan.embeddings.spec("table") if plan.embeddings is not None else None
        if isinstance(table, TableSpec):
            self.pos_embed = PositionTable(table, seed=seed)
            if table.width != shape.width:
                self.pos_join = nn.Linear(table.width, shape.width)

    def embed(self, x: Tensor, at: Tensor, reach: int) -> Tensor:
        """Embeddings (batch, seq, width) with the table of positions."""
        if self.pos_embed is None:
            return x
        spec = self.pos_embed.spec
        if spec.coordinates == "real":
            x = self.pos_embed(x, (at.to(torch.float64) / reach).to(x.dtype))
        else:
            x = self.pos_embed(x, at)
        return x if self.pos_join is None else self.pos_join(x)

    def forward(
        self, x: Tensor, at: Tensor, seen: Tensor | None, memory: Memory | None, cache: Cache | None
    ) -> Tensor:
        """Embeddings (batch, seq, width) -> (batch, seq, width)."""
        k_at = at
        if cache is not None:
            k_at, seen = cache.place(at, seen, x.shape[0])
        mask = _mask(x.shape[1], k_at.shape[-1], seen, causal=self.causal, device=x.device)
        other = AttentionContext(
            mask=None if memory is None or memory.seen is None else _keys(memory.seen)
        )
        for i, (layer, home) in enumerate(zip(self.layers, self.homes, strict=True)):
            positions = cast("LayerPositions", self.positions[home])
            own = AttentionContext(mask, at, k_at, positions, cache, i)
            x = layer(x, own, None if memory is None else memory.values, other)
        out: Tensor = self.final_norm(x)
        return out


def _keys(seen: Tensor) -> Tensor:
    return seen[:, None, None, :]


def _mask(
    rows: int, keys: int, seen: Tensor | None, *, causal: bool, device: torch.device
) -> Tensor | None:
    """Where a query sees a key: the last `rows` of `keys` tokens ask."""
    if not causal:
        return None if seen is None else _keys(seen)
    order = torch.arange(keys, device=device)
    past = order[None, :] <= order[keys - rows :, None]
    return past if seen is None else past & _keys(seen)


class Transformer(nn.Module):
    """A small Transformer with positions of any kind.

    Weights that have nothing to do with positions are a function of the seed and of their names, so
    that models with different encodings begin alike.

    Parameters
    ----------
    shape : Shape
        Its sizes.
    scheme : Scheme
        The plans of its stacks.
    seed : int
        Of the first weights.

    Raises
    ------
    ArgumentError
        If a plan has not one entry for each layer, or an encoding in the wrong place.

    Examples
    --------
    >>> import posenc, torch
    >>> from posenc_study.model.transformer import Scheme, Shape, Tokens, Transformer
    >>> rope = posenc.Entry("rope", specs=(posenc.RoPE(4, pairing="half"),))
    >>> plan = posenc.Plan.repeat((rope,), "rope", layers=2)
    >>> shape = Shape("decoder", vocabulary=10, width=8, heads=2, layers=2, hidden=32)
    >>> model = Transformer(shape, Scheme(plan, plan), seed=0)
    >>> model(Tokens(torch.tensor([[1, 2, 3]]))).shape
    torch.Size([1, 3, 10])
    """

    def __init__(self, shape: Shape, scheme: Scheme, *, seed: int = 0) -> None:
        super().__init__()
        self.shape, self.scheme = shape, scheme
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        both = shape.stacks == "encoder-decoder"
        self.encoder: Stack | None = None
        self.decoder: Stack | None = None
        if shape.stacks != "decoder":
            self.encoder = Stack(shape, scheme.encoder, causal=False, crossed=False, seed=seed)
        if shape.stacks != "encoder":
            # Learned encodings of the two stacks begin with different numbers.
            first = seed + shape.layers
            self.decoder = Stack(shape, scheme.decoder, causal=True, crossed=both, seed=first)
        self.reset_parameters(seed)

    @torch.no_grad()
    def reset_parameters(self, seed: int) -> None:
        """Give weights their first values; those of encodings have theirs from `posenc.init`."""
        positional = {
            id(p) for m in self.modules() if isinstance(m, LearnedModule) for p in m.parameters()
        }
        for name, p in self.named_parameters():
            if id(p) in positional:
                continue
            draw = _generator(seed, name)
            if name == "embedding.weight":
                p.normal_(0, self.shape.width**-0.5, generator=draw)
            elif p.ndim == 2:
                bound = (6 / (p.shape[0] + p.shape[1])) ** 0.5
                p.uniform_(-bound, bound, generator=draw)
            else:
                p.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            if name.endswith("pos_join.weight"):  # of the content nothing is lost at first
                p[:, : self.shape.width] = torch.eye(self.shape.width)

    def forward(
        self, target: Tokens, source: Tokens | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """Logits of the next token, or for an encoder of each token."""
        if self.decoder is None:
            return self.logits(self.encode(target).values)
        if (source is None) == (self.encoder is not None):
            expected = "a source" if self.encoder is not None else "no source"
            raise ArgumentError(
                mismatch("Transformer", expected, "none" if source is None else "one")
            )
        return self.decode(target, None if source is None else self.encode(source), cache=cache)

    def encode(self, source: Tokens) -> Memory:
        """What the encoder makes of the source."""
        if self.encoder is None:
            raise ArgumentError(mismatch("Transformer.encode", "a model with an encoder", "none"))
        return Memory(self._run(self.encoder, source, None, None), source.seen)

    def decode(
        self, target: Tokens, memory: Memory | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """Logits after each token of the target, (batch, seq, vocabulary)."""
        if self.decoder is None:
            raise ArgumentError(mismatch("Transformer.decode", "a model with a decoder", "none"))
        return self.logits(self._run(self.decoder, target, memory, cache))

    def logits(self, x: Tensor) -> Tensor:
        """(batch, seq, width) -> (batch, seq, vocabulary), by the embeddings."""
        return functional.linear(x, self.embedding.weight)

    def _run(
        self, stack: Stack, tokens: Tokens, memory: Memory | None, cache: Cache | None
    ) -> Tensor:
        at = tokens.positions()
        x = self.embedding(tokens.ids) * self.shape.width**0.5
        out: Tensor = stack(stack.embed(x, at, self.scheme.reach), at, tokens.seen, memory, cache)
        return out


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

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
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc import Entry, Plan
from posenc._core.errors import ArgumentError, explain
from posenc._core.spec import Spec
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
from posenc.torch._learned import LearnedModule

__all__ = ["Cache", "Scheme", "Shape", "Tokens", "Transformer"]

Stacks = Literal["encoder", "decoder", "encoder-decoder"]


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Parameters
    ----------
    stacks : {"encoder", "decoder", "encoder-decoder"}
        Which halves of the Transformer there are.
    vocabulary : int
        Number of tokens, shared by source and target; the output weights are the embeddings.
    width, heads, layers : int
        Width of the model, heads of each attention, layers of each stack.
    hidden : int
        Width of the perceptrons.
    norm : {"pre", "post"}
        Whether the input of a sublayer is normalised, or the sum after it, as in the paper.

    Raises
    ------
    ArgumentError
        If a number is below 1, or the heads do not divide the width.

    Examples
    --------
    >>> from posenc.study.model import Shape
    >>> Shape("decoder", vocabulary=100, width=64, heads=4, layers=2, hidden=256).head_dim
    16
    """

    stacks: Stacks
    vocabulary: int
    width: int
    heads: int
    layers: int
    hidden: int
    norm: Literal["pre", "post"] = "pre"

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "heads", "layers", "hidden"):
            if getattr(self, name) < 1:
                raise ArgumentError(explain(f"Shape: {name}", "at least 1", getattr(self, name)))
        if self.width % self.heads:
            want = f"a number that divides the width {self.width}"
            raise ArgumentError(explain("Shape: heads", want, self.heads))
        for name, known in (
            ("stacks", ("encoder", "decoder", "encoder-decoder")),
            ("norm", ("pre", "post")),
        ):
            if getattr(self, name) not in known:
                raise ArgumentError(
                    explain(f"Shape: {name}", f"one of {known}", getattr(self, name))
                )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.width // self.heads


@dataclass(frozen=True)
class Scheme:
    """What a model knows of positions: a plan for each stack.

    Parameters
    ----------
    encoder, decoder : Plan
        Of the stacks; one that the model has not is not read.
    drawn : int, optional
        Positions are drawn from this many, rising, instead of counted (`positions.randomised`).
    reach : int
        What positions are divided by for tables that take real coordinates.
    """

    encoder: Plan
    decoder: Plan
    drawn: int | None = None
    reach: int = 1


@dataclass(frozen=True)
class Tokens:
    """Sequences of tokens and where they stand.

    Parameters
    ----------
    ids : Tensor
        (batch, seq) int64.
    at : Tensor, optional
        Positions, (seq,) or (batch, seq) integers; 0, 1, … by default.
    seen : Tensor, optional
        (batch, seq) boolean, false for padding; all true by default.
    """

    ids: Tensor
    at: Tensor | None = None
    seen: Tensor | None = None

    def positions(self) -> Tensor:
        """The positions, counted where none were given."""
        if self.at is not None:
            return self.at
        return torch.arange(self.ids.shape[1], device=self.ids.device)


class Cache:
    """Keys and values of the tokens so far, for each layer, before positions touch them.

    Keys that are stored before they are turned serve every kind of encoding, and positions may
    still change when the sequence grows; the price is turning all of them at every step.
    """

    def __init__(self) -> None:
        self.at: Tensor | None = None
        self.seen: Tensor | None = None
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer with new ones (batch, heads, new, dim) behind them."""
        if layer in self.layers:
            old_k, old_v = self.layers[layer]
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
        self.layers[layer] = (k, v)
        return k, v

    def place(self, at: Tensor, seen: Tensor | None, batch: int) -> tuple[Tensor, Tensor | None]:
        """Positions of all keys, and which of them are seen, with those of new tokens."""
        if self.at is not None:
            if self.seen is not None or seen is not None:
                old = _ones(self.seen, batch, self.at)
                seen = torch.cat([old, _ones(seen, batch, at)], dim=1)
            rows = max(self.at.ndim, at.ndim) - 1  # positions of each sequence, or of all
            at = torch.cat([side.expand(*[batch] * rows, -1) for side in (self.at, at)], dim=-1)
        self.at, self.seen = at, seen
        return at, seen

    def select(self, rows: Tensor) -> None:
        """Keep some sequences, in a new order: those that a beam search goes on with."""
        self.layers = {i: (k[rows], v[rows]) for i, (k, v) in self.layers.items()}
        if self.at is not None and self.at.ndim > 1:
            self.at = self.at[rows]
        if self.seen is not None:
            self.seen = self.seen[rows]


def _ones(seen: Tensor | None, batch: int, at: Tensor) -> Tensor:
    shape = (batch, at.shape[-1])
    return torch.ones(shape, dtype=torch.bool, device=at.device) if seen is None else seen


class LayerPositions(nn.ModuleDict):
    """What the encodings of one entry of a plan learn, by kind."""

    def __init__(self, entry: Entry, seed: int) -> None:
        super().__init__({spec.kind: _module(spec, seed) for spec in entry.specs})
        self.entry = entry

    def learned(self) -> dict[str, dict[str, Tensor]]:
        """The parameters as `attend` takes them."""
        found = {kind: module.learned() for kind, module in self._learning()}
        return {kind: values for kind, values in found.items() if values}

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
    got = type(spec).__name__
    raise ArgumentError(explain("Transformer: plan", "what acts in attention", got, todo))


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

    def forward(self, x: Tensor, context: Tensor, scene: Scene) -> Tensor:
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
class Scene:
    """Around one call of an attention: positions, what may be seen, and what is kept."""

    mask: Tensor | None = None
    q_at: Tensor | None = None
    k_at: Tensor | None = None
    positions: LayerPositions | None = None
    cache: Cache | None = None
    layer: int = 0


class Layer(nn.Module):
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

    def forward(self, x: Tensor, own: Scene, memory: Tensor | None, other: Scene) -> Tensor:
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
            want = f"a plan of {shape.layers} layers"
            raise ArgumentError(explain("Transformer: plan", want, f"{len(plan)} layers"))
        self.causal = causal
        self.layers = nn.ModuleList(Layer(shape, crossed=crossed) for _ in range(shape.layers))
        self.final_norm = nn.LayerNorm(shape.width) if shape.norm == "pre" else nn.Identity()
        # Layers of a shared entry have one module, under one name in a file of weights.
        self.homes = [
            plan[i].name if plan[i].share == "model" else f"layer_{i}" for i in range(len(plan))
        ]
        found: dict[str, LayerPositions] = {}
        for i, home in enumerate(self.homes):
            found.setdefault(home, LayerPositions(plan[i], seed + i))
        self.positions = nn.ModuleDict(found)
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
        other = Scene(mask=None if memory is None or memory.seen is None else _keys(memory.seen))
        for i, (layer, home) in enumerate(zip(self.layers, self.homes, strict=True)):
            positions = cast("LayerPositions", self.positions[home])
            own = Scene(mask, at, k_at, positions, cache, i)
            x = layer(x, own, None if memory is None else memory.values, other)
        out: Tensor = self.final_norm(x)
        return out


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source: (batch, seq, width), and which of it is no padding."""

    values: Tensor
    seen: Tensor | None

    def select(self, rows: Tensor) -> Memory:
        """Some of the sequences."""
        return Memory(self.values[rows], None if self.seen is None else self.seen[rows])


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
    >>> from posenc.study.model import Scheme, Shape, Tokens, Transformer
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
        """Logits of the next token, or for an encoder of each token.

        Parameters
        ----------
        target : Tokens
            The sequences, or with a cache their new tokens.
        source : Tokens, optional
            What an encoder-decoder reads.
        cache : Cache, optional
            Of the tokens before; it is extended.

        Returns
        -------
        Tensor
            (batch, seq, vocabulary).
        """
        if self.decoder is None:
            return self.logits(self.encode(target).values)
        if (source is None) == (self.encoder is not None):
            want = "a source" if self.encoder is not None else "no source"
            raise ArgumentError(explain("Transformer", want, "none" if source is None else "one"))
        return self.decode(target, None if source is None else self.encode(source), cache=cache)

    def encode(self, source: Tokens) -> Memory:
        """What the encoder makes of the source."""
        if self.encoder is None:
            raise ArgumentError(explain("Transformer.encode", "a model with an encoder", "none"))
        return Memory(self._run(self.encoder, source, None, None), source.seen)

    def decode(
        self, target: Tokens, memory: Memory | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """Logits after each token of the target, (batch, seq, vocabulary)."""
        if self.decoder is None:
            raise ArgumentError(explain("Transformer.decode", "a model with a decoder", "none"))
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

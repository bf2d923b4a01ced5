"""Two models as people write them in one file: no config, no library of models."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import posenc
from tests.trace.models import HEADS, TOKENS, WIDTH, Case, ids


class ComplexAttention(nn.Module):
    """Attention with one product for queries, keys and values, and complex numbers that turn."""

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.qkv = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
        self.out = nn.Linear(HEADS * WIDTH, HEADS * WIDTH)
        self.base, self.scale = base, WIDTH**-0.5

    def turns(self, tokens: int) -> torch.Tensor:
        f = self.base ** (-torch.arange(0, WIDTH, 2).float() / WIDTH)
        return torch.polar(torch.ones(tokens, WIDTH // 2), torch.outer(torch.arange(tokens), f))

    def turn(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * turns[:, None]).flatten(-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(rows, tokens, 3, HEADS, WIDTH).unbind(2)
        q, k = (self.turn(each, self.turns(tokens)) for each in (q, k))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * self.scale
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.out(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))


class HalvesAttention(nn.Module):
    """Attention that keeps keys of earlier calls, with two halves that turn."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(HEADS * WIDTH, HEADS * WIDTH, bias=False)
        self.kv = nn.Linear(HEADS * WIDTH, 2 * HEADS * WIDTH, bias=False)
        self.out = nn.Linear(HEADS * WIDTH, HEADS * WIDTH, bias=False)
        self.register_buffer("f", 10000.0 ** (-torch.arange(0, WIDTH, 2).float() / WIDTH))
        self.kept: tuple[torch.Tensor, torch.Tensor] | None = None

    def places(self, tokens: int) -> torch.Tensor:
        past = 0 if self.kept is None else self.kept[0].shape[2]
        return torch.arange(past, past + tokens)

    def turn(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(places, self.f)
        a, b = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, tokens, _ = x.shape
        shape = (rows, tokens, HEADS, WIDTH)
        q = self.q(x).view(shape).transpose(1, 2)
        k, v = (part.reshape(shape).transpose(1, 2) for part in self.kv(x).chunk(2, dim=-1))
        places = self.places(tokens)
        q, k = self.turn(q, places), self.turn(k, places)
        if self.kept is not None:
            k, v = torch.cat([self.kept[0], k], dim=2), torch.cat([self.kept[1], v], dim=2)
        self.kept = (k.detach(), v.detach())
        y = F.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1)
        return self.out(y.transpose(1, 2).reshape(rows, tokens, -1))


class Tiny(nn.Module):
    """Three layers of attention with sums around them."""

    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(61, HEADS * WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(HEADS * WIDTH) for _ in range(3))
        self.layers = nn.ModuleList(attention() for _ in range(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return x @ self.embed.weight.T


def complex_gpt(_: str) -> Case:
    torch.manual_seed(0)
    spec = posenc.RoPE(WIDTH, pairing="interleaved")
    return Case(_strong(Tiny(ComplexAttention)), ({"tokens": ids()},), spec)


def halves_gpt(_: str) -> Case:
    torch.manual_seed(0)
    calls = ({"tokens": ids()[:, : TOKENS - 1]}, {"tokens": ids()[:, TOKENS - 1 :]})
    return Case(_strong(Tiny(HalvesAttention)), calls, posenc.RoPE(WIDTH, pairing="half"))


def _strong(model: Tiny) -> Tiny:
    """Weights under which attention is not the mean."""
    with torch.no_grad():
        for weight in model.layers.parameters():
            weight.mul_(2.5)
    return model.eval()

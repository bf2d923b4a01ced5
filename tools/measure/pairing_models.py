"""Train tiny language models under both pairings and none, and measure what their weights say.

    python tools/measure/pairing_models.py train FOLDER [NAME ...]  minutes per model, one thread
    python tools/measure/pairing_models.py measure FOLDER         writes docs/data/pairing.jsonl

Each model is a byte-level decoder in plain torch on the texts that come with Python, trained with
AdamW. Its rotation is written out here, so that nothing of posenc is in what posenc is judged by.
A snapshot is a folder of `model.safetensors` (float16, projections only) and `config.json`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import platform
import pydoc_data.topics
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "docs" / "data" / "pairing.jsonl"
SNAPSHOTS = (0, 50, 100, 200, 400, 800)
CONTEXT, BATCH = 128, 16
PAIRINGS = ("half", "interleaved")


class Model(NamedTuple):
    """What is trained: one row of the table."""

    pairing: str
    width: int = 32
    heads: int = 4
    kv_heads: int = 4
    layers: int = 2
    rotated: int = 0  # channels of a head; 0 for all
    bias: bool = False
    norm: bool = False  # of queries and keys
    decay: float = 0.1
    spread: float = 0.02  # of the first weights
    seed: int = 0


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "wide": {"width": 64, "heads": 2, "kv_heads": 2},
    "gqa": {"kv_heads": 2},
    "mqa": {"kv_heads": 1, "layers": 3},
    "bias": {"bias": True},
    "norm": {"norm": True},
    "partial": {"width": 64, "heads": 2, "kv_heads": 2, "rotated": 32},
    "no-decay": {"decay": 0.0},
    "large-init": {"spread": 0.09},
    "again": {},
}
WITHOUT = ("plain", "wide", "gqa", "norm", "large-init", "again")  # also without positions
MODELS = {
    f"{kind}-{pairing}": Model(pairing, seed=seed, **choices)
    for seed, (kind, choices) in enumerate(KINDS.items())
    for pairing in (*PAIRINGS, *(("none",) if kind in WITHOUT else ()))
}


# --- the model ------------------------------------------------------------------------------------


def turned(x: torch.Tensor, pairing: str, rotated: int, base: float = 10_000.0) -> torch.Tensor:
    """Queries or keys (..., seq, width), the first `rotated` channels of each turned."""
    if pairing == "none":
        return x
    part, rest = x[..., :rotated], x[..., rotated:]
    frequency = base ** (-torch.arange(0, rotated, 2, dtype=torch.float32) / rotated)
    angle = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    if pairing == "half":
        a, b = part.chunk(2, dim=-1)
        part = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    else:
        a, b = part[..., 0::2], part[..., 1::2]
        part = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    return torch.cat([part, rest], dim=-1)


class Attention(nn.Module):
    """Causal attention with grouped keys."""

    def __init__(self, model: Model, dim: int) -> None:
        super().__init__()
        self.model = model
        self.q_proj = nn.Linear(dim, model.heads * model.width, bias=model.bias)
        self.k_proj = nn.Linear(dim, model.kv_heads * model.width, bias=model.bias)
        self.v_proj = nn.Linear(dim, model.kv_heads * model.width, bias=model.bias)
        self.o_proj = nn.Linear(model.heads * model.width, dim, bias=False)
        if model.norm:
            self.q_norm, self.k_norm = nn.RMSNorm(model.width), nn.RMSNorm(model.width)

    def forward(self, x: torch.Tensor, pairing: str) -> torch.Tensor:
        """(batch, seq, dim) -> (batch, seq, dim)."""
        model, shape = self.model, x.shape[:-1]
        q = self.q_proj(x).view(*shape, model.heads, model.width)
        k = self.k_proj(x).view(*shape, model.kv_heads, model.width)
        v = self.v_proj(x).view(*shape, model.kv_heads, model.width).transpose(1, 2)
        if model.norm:
            q, k = self.q_norm(q), self.k_norm(k)
        rotated = model.rotated or model.width
        q, k = (turned(t.transpose(1, 2), pairing, rotated) for t in (q, k))
        repeats = model.heads // model.kv_heads
        k, v = (t.repeat_interleave(repeats, dim=1) for t in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """Attention and two layers of a perceptron, each behind a norm."""

    def __init__(self, model: Model, dim: int) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.self_attn = Attention(model, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor, pairing: str) -> torch.Tensor:
        """(batch, seq, dim) -> (batch, seq, dim)."""
        x = x + self.self_attn(self.first(x), pairing)
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Decoder(nn.Module):
    """Bytes to logits of the next byte."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        dim = model.heads * model.width
        self.model = model
        self.embed, self.last = nn.Embedding(256, dim), nn.RMSNorm(dim)
        self.layers = nn.ModuleList(Block(model, dim) for _ in range(model.layers))
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=model.spread)

    def loss(self, text: torch.Tensor, pairing: str | None = None) -> torch.Tensor:
        """Mean nats per byte of (batch, seq + 1) bytes."""
        x = self.embed(text[:, :-1])
        for block in self.layers:
            x = block(x, pairing or self.model.pairing)
        logits = functional.linear(self.last(x), self.embed.weight)
        return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


# --- training -------------------------------------------------------------------------------------


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes to learn from, and some that are held out."""
    topics = "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
    data = torch.frombuffer(bytearray(topics.encode()), dtype=torch.uint8).long()
    cut = len(data) * 9 // 10
    return data[:cut], data[cut:]


def windows(data: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Random stretches of the text: (count, context + 1)."""
    starts = torch.randint(len(data) - CONTEXT - 1, (count,), generator=generator)
    return torch.stack([data[s : s + CONTEXT + 1] for s in starts.tolist()])


def train(name: str, model: Model, folder: Path) -> None:
    """Train one model and write its snapshots."""
    torch.manual_seed(model.seed)
    generator = torch.Generator().manual_seed(model.seed)
    learned, held = texts()
    check = windows(held, 32, torch.Generator().manual_seed(99))
    decoder = Decoder(model)
    optimiser = torch.optim.AdamW(
        decoder.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=model.decay
    )
    begun = time.monotonic()
    for step in range(SNAPSHOTS[-1] + 1):
        if step in SNAPSHOTS:
            losses = probe(decoder, check)
            snapshot(decoder, folder / f"{name}-{step}", step, losses)
            told = ", ".join(f"{p} {value:.3f}" for p, value in losses.items())
            print(f"{name} {step}: {told} ({time.monotonic() - begun:.0f} s)", flush=True)
        for group in optimiser.param_groups:
            progress = step / SNAPSHOTS[-1]
            group["lr"] = 3e-3 * min(1, step / 50) * (0.55 + 0.45 * math.cos(math.pi * progress))
        optimiser.zero_grad()
        decoder.loss(windows(learned, BATCH, generator)).backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimiser.step()


def probe(decoder: Decoder, check: torch.Tensor) -> dict[str, float]:
    """The loss under each pairing, in nats per byte."""
    with torch.no_grad():
        return {p: float(decoder.loss(check, p)) for p in (*PAIRINGS, "none")}


def snapshot(decoder: Decoder, folder: Path, step: int, losses: dict[str, float]) -> None:
    """Write the projections of queries and keys, and a config that does not name the pairing."""
    from safetensors.torch import save_file

    model = decoder.model
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        f"model.{name}": value.detach().half().contiguous()
        for name, value in decoder.named_parameters()
        if any(part in name for part in ("q_proj", "k_proj", "q_norm", "k_norm"))
    }
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "hidden_size": model.heads * model.width,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "num_hidden_layers": model.layers,
        "head_dim": model.width,
        "partial_rotary_factor": (model.rotated or model.width) / model.width,
        "rope_theta": 10_000.0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    about = {**model._asdict(), "step": step, "losses": losses}
    about["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
    (folder / "about.json").write_text(json.dumps(about))


# --- measuring ------------------------------------------------------------------------------------


def declared(model: dict[str, Any], config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The config as it is, and with widths that are wrong."""
    part = config["partial_rotary_factor"]
    made = {"": config, "half the width turns": {**config, "partial_rotary_factor": part / 2}}
    if part < 1:
        made["all of the head turns"] = {**config, "partial_rotary_factor": 1.0}
    if model["heads"] == model["kv_heads"] and not model["norm"]:
        for what, heads in (("twice", 2 * model["heads"]), ("half", model["heads"] // 2)):
            width = model["heads"] * model["width"] // heads
            more = {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": width}
            made[f"{what} the heads"] = {**config, **more}
    return made


def measure(folder: Path) -> list[dict[str, Any]]:
    """A row for each snapshot and each way to declare its widths."""
    import posenc

    rows = []
    for snapshot in sorted(folder.iterdir()):
        about = json.loads((snapshot / "about.json").read_text())
        config = json.loads((snapshot / "config.json").read_text())
        name = snapshot.name.rpartition("-")[0]
        for what, said in declared(about, config).items():
            found = posenc.detect_pairing(snapshot, config=said)
            z = {k: round(v, 2) for k, v in found.weights._asdict().items()}
            wrong = {"declared": what} if what else {"losses": about["losses"]}
            rows.append({"name": name, **about, **z, "claim": found.claim, **wrong})
            if what:
                rows[-1].pop("losses")
            rows[-1].pop("versions")
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    date = dt.datetime.now(dt.UTC).date().isoformat()
    return [{"date": date, "versions": versions, "optimiser": "AdamW 3e-3"}, *rows]


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("train", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="of models; all by default")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.action == "measure":
        ROWS.write_text("".join(json.dumps(row) + "\n" for row in measure(given.folder)))
    if given.action == "train":
        for name in given.names or MODELS:
            train(name, MODELS[name], given.folder)


if __name__ == "__main__":
    main()

"""What a trained model says."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc import positions
from posenc._core.errors import ArgumentError, mismatch
from posenc_study.model.inputs import Cache, Tokens
from posenc_study.model.transformer import Transformer
from posenc_study.tasks.base import Task


@dataclass(frozen=True)
class Spoken:
    """A sequence of tokens and its log-likelihood, in nats, the end included."""

    tokens: tuple[int, ...]
    score: float


# --- decoding -------------------------------------------------------------------------------------


@torch.no_grad()
def greedy(
    model: Transformer,
    start: Tensor,
    *,
    steps: int,
    end: int | None = None,
    source: Tokens | None = None,
    seed: int = 0,
) -> list[Spoken]:
    """The likeliest token, again and again, for each sequence of a batch."""
    outputs = _search(model, start, steps=steps, end=end, source=source, seed=seed, width=1)
    return [several[0] for several in outputs]


@torch.no_grad()
def beam(
    model: Transformer,
    start: Tensor,
    *,
    steps: int,
    width: int = 4,
    end: int | None = None,
    source: Tokens | None = None,
    seed: int = 0,
) -> list[list[Spoken]]:
    """The likeliest sequences that a beam finds, for each sequence of a batch, the best first.

    Scores are sums of log-likelihoods, not divided by lengths. The greedy sequence competes too.
    """
    outputs = _search(model, start, steps=steps, end=end, source=source, seed=seed, width=width)
    if width == 1:
        return outputs
    plain = greedy(model, start, steps=steps, end=end, source=source, seed=seed)
    both = zip(outputs, plain, strict=True)
    merged = [{spoken.tokens: spoken for spoken in [*several, one]} for several, one in both]
    return [sorted(some.values(), key=lambda s: -s.score)[:width] for some in merged]


def _search(
    model: Transformer,
    start: Tensor,
    *,
    steps: int,
    end: int | None,
    source: Tokens | None,
    seed: int,
    width: int,
) -> list[list[Spoken]]:
    """Beam search with one cache for all beams: row b * width + i is beam i of sequence b."""
    if start.ndim != 2 or start.shape[1] < 1:
        expected = "(batch, seq) tokens, at least one in each sequence"
        raise ArgumentError(mismatch("generate: start", expected, f"shape {tuple(start.shape)}"))
    if width < 1 or steps < 1:
        received = f"{width} and {steps}"
        raise ArgumentError(mismatch("generate", "a width and steps of at least 1", received))
    model.eval()
    batch, prompt = start.shape
    at, source = _places(model, prompt + steps, source, seed)
    memory = None if source is None else model.encode(source)
    rows = torch.arange(batch).repeat_interleave(width)
    memory = None if memory is None else memory.select(rows)
    cache, written = Cache(), start[rows][:, :0]
    scores = torch.full((batch, width), -torch.inf)
    scores[:, 0] = 0.0  # all beams begin alike, so the first step continues one of them
    done: list[list[Spoken]] = [[] for _ in range(batch)]
    new, span = start[rows], slice(0, prompt)
    for step in range(steps):
        logits = model.decode(Tokens(new, at[span]), memory, cache=cache)[:, -1]
        totals = scores[..., None] + logits.float().log_softmax(-1).view(batch, width, -1)
        scores, beams, tokens = _best(totals, width)
        rows = (torch.arange(batch)[:, None] * width + beams).flatten()
        cache.select(rows)
        written = torch.cat([written[rows], tokens.reshape(-1, 1)], dim=1)
        if end is not None:
            scores = _finish(done, written, scores, end)
            if all(len(outputs) >= width for outputs in done) or not scores.isfinite().any():
                break
        new, span = tokens.reshape(-1, 1), slice(prompt + step, prompt + step + 1)
    for b in range(batch):
        for i in range(width):
            if scores[b, i].isfinite():
                done[b].append(Spoken(tuple(written[b * width + i].tolist()), scores[b, i].item()))
        done[b] = sorted(done[b], key=lambda s: -s.score)[:width]
    return done


def _best(totals: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations (batch, width) of all beams: scores, beams and tokens."""
    batch, beams, vocabulary = totals.shape
    flat = totals.view(batch, beams * vocabulary)
    top = flat.topk(min(width, flat.shape[1]))
    scores, places = top.values, top.indices
    if scores.shape[1] < width:
        short = width - scores.shape[1]
        scores = torch.nn.functional.pad(scores, (0, short), value=-torch.inf)
        places = torch.nn.functional.pad(places, (0, short))
    return scores, places // vocabulary, places % vocabulary


def _finish(done: list[list[Spoken]], written: Tensor, scores: Tensor, end: int) -> Tensor:
    """Move sequences that have ended to those that are done; their beams go on with nothing."""
    batch, width = scores.shape
    ended = (written[:, -1] == end).view(batch, width) & scores.isfinite()
    for b, i in ended.nonzero().tolist():
        tokens = tuple(written[b * width + i, :-1].tolist())
        done[b].append(Spoken(tokens, scores[b, i].item()))
    return scores.masked_fill(ended, -torch.inf)


def _places(
    model: Transformer, length: int, source: Tokens | None, seed: int
) -> tuple[Tensor, Tokens | None]:
    """Positions of all that will be said, and of the source."""
    drawn = model.scheme.drawn
    if drawn is None:
        return torch.arange(length), source
    at = [
        torch.from_numpy(positions.randomised(seed, 0, side, count, maximum=drawn))
        for side, count in ((0, length), (1, 0 if source is None else source.ids.shape[1]))
    ]
    return at[0], None if source is None else Tokens(source.ids, at[1], source.seen)


def text_of(task: Task, tokens: tuple[int, ...]) -> str:
    """What tokens say."""
    return " ".join(task.tokens[token] for token in tokens)

"""A trained model as a file, and what it says.

A folder holds two files:

    model.safetensors   weights; in the metadata, the cell and the plans of both stacks as JSON
    config.json         the sizes under the names that readers of checkpoints know

What follows from a spec (rows of a sinusoidal table, frequencies of a rotation) is written beside
the weights under its usual name, so that tools which read files alone find it there. Loading
compares it with the spec and keeps the spec.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import posenc
from posenc import positions
from posenc._core import files, inputs
from posenc._core.errors import ArgumentError, DataError, DependencyError, explain
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.study.cell import Cell
from posenc.study.model import Cache, Stack, Tokens, Transformer
from posenc.study.tasks import Task
from posenc.study.train import Run

__all__ = ["Spoken", "beam", "greedy", "load", "save"]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
LARGEST = 2**27  # bytes; the models of the study are small


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
    """The likeliest token, again and again, for each sequence of a batch.

    Parameters
    ----------
    model : Transformer
        With a decoder.
    start : Tensor
        (batch, seq) int64: what the decoder has already said, at least one token each.
    steps : int
        Tokens to say at most.
    end : int, optional
        The token that ends a sequence; it is not given back.
    source : Tokens, optional
        What an encoder-decoder reads.
    seed : int
        Of drawn positions, for a model that has them.

    Returns
    -------
    list of Spoken
        One for each sequence, the start left out.

    Raises
    ------
    ArgumentError
        If nothing is there to start with, or the model has no decoder.

    Examples
    --------
    >>> import torch
    >>> from posenc.study.cell import Cell
    >>> from posenc.study.generate import greedy
    >>> from posenc.study.train import Run
    >>> model = Run(Cell.of("order-causal", "rope", seed=0, settings={})).model
    >>> len(greedy(model, torch.tensor([[2, 18, 3]]), steps=4)[0].tokens)
    4
    """
    found = _search(model, start, steps=steps, end=end, source=source, seed=seed, width=1)
    return [several[0] for several in found]


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

    Scores are sums of log-likelihoods, not divided by lengths. The greedy sequence competes too, so
    the best is never less likely than it.

    Parameters
    ----------
    model : Transformer
        With a decoder.
    start : Tensor
        (batch, seq) int64: what the decoder has already said, at least one token each.
    steps : int
        Tokens to say at most.
    width : int
        Sequences that are kept at each step.
    end : int, optional
        The token that ends a sequence; it is not given back.
    source : Tokens, optional
        What an encoder-decoder reads.
    seed : int
        Of drawn positions, for a model that has them.

    Returns
    -------
    list of list of Spoken
        Up to `width` for each sequence of the batch, the start left out.

    Raises
    ------
    ArgumentError
        If nothing is there to start with, the width is below 1, or the model has no decoder.
    """
    found = _search(model, start, steps=steps, end=end, source=source, seed=seed, width=width)
    if width == 1:
        return found
    plain = greedy(model, start, steps=steps, end=end, source=source, seed=seed)
    both = zip(found, plain, strict=True)
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
        want = "(batch, seq) tokens, at least one in each sequence"
        raise ArgumentError(explain("generate: start", want, f"shape {tuple(start.shape)}"))
    if width < 1 or steps < 1:
        got = f"{width} and {steps}"
        raise ArgumentError(explain("generate", "a width and steps of at least 1", got))
    model.eval()
    batch, given = start.shape
    at, source = _places(model, given + steps, source, seed)
    memory = None if source is None else model.encode(source)
    rows = torch.arange(batch).repeat_interleave(width)
    memory = None if memory is None else memory.select(rows)
    cache, said = Cache(), start[rows][:, :0]
    scores = torch.full((batch, width), -torch.inf)
    scores[:, 0] = 0.0  # all beams begin alike, so the first step continues one of them
    done: list[list[Spoken]] = [[] for _ in range(batch)]
    new, where = start[rows], slice(0, given)
    for step in range(steps):
        logits = model.decode(Tokens(new, at[where]), memory, cache=cache)[:, -1]
        totals = scores[..., None] + logits.float().log_softmax(-1).view(batch, width, -1)
        scores, beams, tokens = _best(totals, width)
        rows = (torch.arange(batch)[:, None] * width + beams).flatten()
        cache.select(rows)
        said = torch.cat([said[rows], tokens.reshape(-1, 1)], dim=1)
        if end is not None:
            scores = _finish(done, said, scores, end)
            if all(len(found) >= width for found in done) or not scores.isfinite().any():
                break
        new, where = tokens.reshape(-1, 1), slice(given + step, given + step + 1)
    for b in range(batch):
        for i in range(width):
            if scores[b, i].isfinite():
                done[b].append(Spoken(tuple(said[b * width + i].tolist()), scores[b, i].item()))
        done[b] = sorted(done[b], key=lambda s: -s.score)[:width]
    return done


def _best(totals: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations (batch, width) of all beams: scores, beams and tokens."""
    batch, beams, vocabulary = totals.shape
    flat = totals.view(batch, beams * vocabulary)
    found = flat.topk(min(width, flat.shape[1]))
    scores, places = found.values, found.indices
    if scores.shape[1] < width:
        short = width - scores.shape[1]
        scores = torch.nn.functional.pad(scores, (0, short), value=-torch.inf)
        places = torch.nn.functional.pad(places, (0, short))
    return scores, places // vocabulary, places % vocabulary


def _finish(done: list[list[Spoken]], said: Tensor, scores: Tensor, end: int) -> Tensor:
    """Move sequences that have ended to those that are done; their beams go on with nothing."""
    batch, width = scores.shape
    ended = (said[:, -1] == end).view(batch, width) & scores.isfinite()
    for b, i in ended.nonzero().tolist():
        tokens = tuple(said[b * width + i, :-1].tolist())
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


# --- files ----------------------------------------------------------------------------------------


def save(run: Run, folder: Path) -> None:
    """Write a trained model.

    Parameters
    ----------
    run : Run
        The cell with its model.
    folder : Path
        Where the two files go; it is made.
    """
    arrays = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    scheme = run.model.scheme
    for name, stack in (("encoder", run.model.encoder), ("decoder", run.model.decoder)):
        if stack is not None:
            arrays |= {f"{name}.{key}": value for key, value in _follows(stack, run).items()}
    metadata = {
        "format": "pt",
        "cell": run.cell.to_json(),
        "encoder": posenc.to_json(scheme.encoder),
        "decoder": posenc.to_json(scheme.decoder),
    }
    folder.mkdir(parents=True, exist_ok=True)
    _safetensors().save_file(arrays, folder / WEIGHTS, metadata=metadata)
    (folder / CONFIG).write_text(json.dumps(_config(run), indent=1) + "\n", encoding="utf-8")


def _follows(stack: Stack, run: Run) -> dict[str, np.ndarray]:
    """Tables and frequencies that follow from specs, under the names that files use for them."""
    found = {}
    if stack.pos_embed is not None and not stack.pos_embed.spec.shapes:
        spec = stack.pos_embed.spec
        table = getattr(spec, "table", spec)  # of an appended table, its own columns
        if isinstance(table, Sinusoidal):
            rows = posenc.table(table, run.sizes.longest, dtype="float32")
            found["pos_embed.pe"] = np.ascontiguousarray(rows)
    for home, held in stack.positions.items():
        for kind, module in held.items():  # type: ignore[operator]
            if kind == "rotary" and isinstance(module.spec, RoPE):
                frequencies = posenc.frequencies(module.spec).astype("float32")
                found[f"positions.{home}.rotary.inv_freq"] = frequencies
    return found


def _config(run: Run) -> dict[str, Any]:
    shape = run.task.shape
    return {
        "hidden_size": shape.width,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.hidden,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": run.sizes.length,
        "rope_theta": run.sizes.base,
    }


def load(folder: str | Path, *, data: Path | None = None) -> Run:
    """A trained model with its task.

    Parameters
    ----------
    folder : str or Path
        What `train(cell, save=folder)` wrote.
    data : Path, optional
        The file that the task read, where it was not the one that comes with it.

    Returns
    -------
    Run
        With the trained weights in `model`.

    Raises
    ------
    DataError
        If the folder holds no model of the study, or one whose weights do not fit its cell.
    """
    path = Path(folder) / WEIGHTS
    metadata, arrays = _read(path)
    if "cell" not in metadata:
        todo = "Train one with `posenc study run` and a folder for models."
        raise DataError(explain(str(path), "a model of the study", "no cell inside", todo))
    run = Run(Cell.from_json(metadata["cell"]), data)
    for name in ("encoder", "decoder"):
        if posenc.to_json(getattr(run.model.scheme, name)) != metadata.get(name):
            todo = "It was written by a version that fits encodings differently."
            raise DataError(explain(str(path), f"the plan of the {name} of its cell", "one", todo))
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    try:
        run.model.load_state_dict(state)
    except RuntimeError as error:
        todo = "The file has been changed."
        raise DataError(explain(str(path), "the weights of its cell", str(error), todo)) from None
    run.model.eval()
    return run


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        layout = files.read_layout(path)
    except FileNotFoundError:
        raise DataError(explain("generate", "a folder with a model", f"no {path}")) from None
    if layout.size > LARGEST:
        raise DataError(explain(str(path), f"a model of at most {LARGEST} bytes", layout.size))
    found = {}
    with inputs.unchanged(path, layout.state) as file:
        for name, tensor in layout.tensors.items():
            if tensor.stored is None:
                who = f"{path}: {name[:80]!r}"
                raise DataError(explain(who, "numbers that NumPy has", tensor.dtype))
            flat = files.read(file, tensor.begin, math.prod(tensor.shape), tensor.stored)
            found[name] = files.decode(flat, tensor.dtype).reshape(tensor.shape)
    return dict(layout.metadata), found


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        todo = "pip install 'posenc[study]'"
        raise DependencyError(explain("study", "safetensors", "no such package", todo)) from None
    return safetensors.numpy


def text_of(task: Task, tokens: tuple[int, ...]) -> str:
    """What tokens say."""
    return " ".join(task.tokens[token] for token in tokens)

"""Ask a trained model about a sentence in words.

order      "John likes Jane"      -> who stands first, and how sure the model is
text-lm    "The value of "        -> how the text goes on
copy       "3 1 4"                -> the list that it says
seq2seq    a sentence             -> the same in the other invented language
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc_study.generation.search import beam, greedy
from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import IGNORED, Batch, Task
from posenc_study.tasks.lists import BEGIN, END, THEN, Lists
from posenc_study.tasks.order import ASK, NAME, Order
from posenc_study.tasks.seq2seq import Seq2Seq
from posenc_study.tasks.text_lm import TextLM
from posenc_study.training.run import Run
from posenc_study.training.train import TESTED


@dataclass(frozen=True)
class Said:
    """An answer.

    Parameters
    ----------
    text : str
        In words, or characters.
    probability : float
        That the model gives it as a whole.
    """

    text: str
    probability: float


def say(run: Run, text: str, *, beams: int = 1, steps: int = 64) -> list[Said]:
    """What a trained model says to a text, the likeliest first."""
    if not text.strip():
        raise ArgumentError(mismatch("generate", "a text", repr(text)))
    task = run.task
    if isinstance(task, Order):
        return _names(run, task, text)
    if isinstance(task, TextLM):
        start, source, end, joint = [_characters(task, text)], None, None, ""
    elif not isinstance(task, (Lists, Seq2Seq)):
        expected = "a model of order, text-lm, copy, sort, reverse or seq2seq"
        raise ArgumentError(mismatch("generate", expected, f"one of {task.name}"))
    else:
        codes, end, joint = _words(task, text.split()), END, " "
        both = task.stacks == "encoder-decoder"
        source = Tokens(_tensor([codes])) if both else None
        start = [[BEGIN]] if both else [[BEGIN, *codes, THEN]]
    search: dict[str, Any] = {"steps": steps, "end": end, "source": source, "seed": run.cell.seed}
    if beams == 1:
        outputs = greedy(run.model, _tensor(start), **search)
    else:
        (outputs,) = beam(run.model, _tensor(start), width=beams, **search)
    return [Said(joint.join(task.tokens[t] for t in f.tokens), math.exp(f.score)) for f in outputs]


@torch.no_grad()
def _names(run: Run, task: Order, text: str) -> list[Said]:
    """Each name in the sentence, by how likely it is the first."""
    codes = _words(task, text.replace("?", " ").split())
    ids = _tensor([[*codes, ASK]])
    batch = run.placed(Batch(Tokens(ids), torch.full_like(ids, IGNORED)), TESTED)
    run.model.eval()
    shares = run.model(batch.target, None)[0, -1].double().softmax(-1)
    every = set(NAME.tolist())
    names = sorted(every.intersection(codes), key=lambda c: -float(shares[c]))
    if len(names) != 2:
        expected = (
            f"a sentence with two of the names {', '.join(task.tokens[c] for c in sorted(every))}"
        )
        raise ArgumentError(mismatch("generate", expected, repr(text[:80])))
    return [Said(task.tokens[c], float(shares[c])) for c in names]


def _words(task: Task, words: Sequence[str]) -> list[int]:
    """Words as tokens, in whatever case they come."""
    number = {word.lower(): i for i, word in enumerate(task.tokens)}
    for word in words:
        if word.lower() not in number:
            todo = suggest(word, task.tokens)
            raise ArgumentError(mismatch("generate", f"words of {task.name}", repr(word), todo))
    return [number[word.lower()] for word in words]


def _characters(task: TextLM, text: str) -> list[int]:
    number = {character: i for i, character in enumerate(task.tokens)}
    return [number.get(character, 1) for character in text]


def _tensor(rows: list[list[int]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int64)

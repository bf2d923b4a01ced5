"""The tasks of the study by name."""

from __future__ import annotations

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc_study.tasks.addition import Addition
from posenc_study.tasks.base import Task
from posenc_study.tasks.extension import Extension64, Extension256
from posenc_study.tasks.flip_flop import FlipFlop
from posenc_study.tasks.lists import Copy, Reverse, Sort
from posenc_study.tasks.markov import Markov
from posenc_study.tasks.order import Order, OrderCausal
from posenc_study.tasks.rope_scaling import RopeScaling
from posenc_study.tasks.seq2seq import Seq2Seq
from posenc_study.tasks.text_lm import TextLM

_CLASSES: tuple[type[Task], ...] = (
    *(Order, OrderCausal, TextLM, Copy, Reverse, Seq2Seq),
    *(Sort, Addition, FlipFlop, Markov, RopeScaling, Extension64, Extension256),
)
TASKS: dict[str, type[Task]] = {cls.name: cls for cls in _CLASSES}


def task(name: str) -> type[Task]:
    """A task by its name."""
    if name not in TASKS:
        expected = f"one of the tasks {', '.join(TASKS)}"
        raise ArgumentError(mismatch("study", expected, repr(name), suggest(name, TASKS)))
    return TASKS[name]

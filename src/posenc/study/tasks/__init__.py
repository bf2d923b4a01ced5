"""The tasks of the study by name."""

from __future__ import annotations

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc.study.tasks.addition import Addition
from posenc.study.tasks.base import Batch, Task, Test
from posenc.study.tasks.extension import Extension64, Extension256
from posenc.study.tasks.files import digest
from posenc.study.tasks.flip_flop import FlipFlop
from posenc.study.tasks.lists import Copy, Reverse, Sort
from posenc.study.tasks.markov import Markov
from posenc.study.tasks.order import Order, OrderCausal
from posenc.study.tasks.rope_scaling import RopeScaling
from posenc.study.tasks.seq2seq import Seq2Seq
from posenc.study.tasks.text_lm import TextLM

__all__ = ["TASKS", "Batch", "Task", "Test", "digest", "task"]

_CLASSES: tuple[type[Task], ...] = (
    *(Order, OrderCausal, TextLM, Copy, Reverse, Seq2Seq),
    *(Sort, Addition, FlipFlop, Markov, RopeScaling, Extension64, Extension256),
)
TASKS: dict[str, type[Task]] = {cls.name: cls for cls in _CLASSES}


def task(name: str) -> type[Task]:
    """A task by its name.

    Parameters
    ----------
    name : str
        Such as "order".

    Raises
    ------
    ArgumentError
        If there is none; the message suggests the nearest.
    """
    if name not in TASKS:
        expected = f"one of the tasks {', '.join(TASKS)}"
        raise ArgumentError(mismatch("study", expected, repr(name), suggest(name, TASKS)))
    return TASKS[name]

"""The tasks of the study by name."""

from __future__ import annotations

from posenc._core.errors import ArgumentError, explain, suggest
from posenc.study.tasks.base import Batch, Task, Test
from posenc.study.tasks.order import Order, OrderCausal

__all__ = ["TASKS", "Batch", "Task", "Test", "task"]

TASKS: dict[str, type[Task]] = {cls.name: cls for cls in (Order, OrderCausal)}


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
        known = f"one of the tasks {', '.join(TASKS)}"
        raise ArgumentError(explain("study", known, repr(name), suggest(name, TASKS)))
    return TASKS[name]

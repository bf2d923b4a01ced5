"""Rows that `make test` draws with a fixed seed; the others are slow.

A slow row runs where the file of its encoding changed, and in `make test-slow`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "posenc"


def drawn(
    rows: Sequence[Any],
    count: int,
    *subjects: str,
    by: Callable[[Any], Hashable] = lambda row: None,
) -> list[Any]:
    """The rows in order, as parameters: all but `count` of each group are slow.

    `by` tells the group of a row: `by=kind` keeps rows of each encoding. The subjects of a slow row
    are those that are given, and the file of its encoding.
    """
    unknown = [subject for subject in subjects if not (SOURCE / subject).exists()]
    assert not unknown, f"subjects that are no files or folders below {SOURCE.name}: {unknown}"
    chance = random.Random(30)
    groups: dict[Hashable, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(by(row), []).append(place)
    kept = {
        place for group in groups.values() for place in chance.sample(group, min(count, len(group)))
    }
    return [
        pytest.param(row, marks=() if place in kept else pytest.mark.slow(*subjects, *files(row)))
        for place, row in enumerate(rows)
    ]


def kind(row: Any) -> type:
    """The encoding of a row: the type of its spec, or of itself."""
    return type(getattr(row, "spec", row))


def files(row: Any) -> list[str]:
    """The file of the encoding of a row, below `src/posenc`, without its ending."""
    module = kind(row).__module__
    return (
        [module.removeprefix("posenc.").replace(".", "/")] if module.startswith("posenc.") else []
    )


def each_compiler(*subjects: str) -> pytest.MarkDecorator:
    """By Dynamo and AOT autograd, which say whether a graph is whole; and by Inductor, if slow.

    Inductor calls a C++ compiler for seconds, and writes the same loops for each encoding.
    """
    return pytest.mark.parametrize(
        "compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow(*subjects))]
    )

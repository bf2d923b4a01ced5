"""Engines as sides: what an engine makes of the config of a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from posenc._core.errors import PosencError, bad_argument, bad_data, refuse_data
from posenc.detect.contract.make import parts_of
from posenc.detect.contract.sides.mlx import of_mlx
from posenc.detect.contract.sides.side import Comparand
from posenc.detect.facts import facts
from posenc.detect.facts.engines import as_read
from posenc.presets.families import engines

TOWERS = ("vision", "audio", "encoder")  # of which the tables say nothing


def of_engine(text: str, name: str, other: Any = None) -> Comparand:
    """An engine as a side: `NAME=CONFIG`, or `NAME` for the config that the other side is.

    `NAME@RELEASE` asks for a release; else the installed one is meant, or that of the table.
    """
    called, _, path = text.replace(" ", "=", 1).partition("=")
    engine, named, release = called.partition("@")
    if engine not in ENGINES:
        expected = f"engine:NAME or engine:NAME=CONFIG with one of {', '.join(ENGINES)}"
        raise bad_argument("diff", expected, repr(name))
    if table := engines().get(TABLES.get(engine, "")):
        check_release(f"diff: {name}", engine, table["release"], release)
    elif named:
        raise bad_argument("diff", f"{engine} without a release", repr(name))
    config = None
    source = Path(path) if path else other
    try:
        config = None if source is None else facts(source).config
    except PosencError:
        if path:
            raise
    if config is None:
        todo = f"Write engine:{called}=CONFIG."
        raise bad_argument("diff", "a config for the engine", f"{name} alone", todo)
    return ENGINES[engine](config, name)


def check_release(caller: str, engine: str, known: str, release: str) -> None:
    """Refuse another release than the table is of: one that is named, or else is installed."""
    found = next((one.version for one in metadata.distributions(name=engine)), known)
    refuse_data(
        (release or found) != known,
        caller,
        f"{engine} {known}, of which the table is",
        release or f"{found}, which is installed",
        f"Of another release nothing is known; engine:{engine}@{known} asks for this one.",
    )


def of_table(config: Any, name: str, *, engine: str) -> Comparand:
    """What the table of an engine says that it makes of a config, in the words of the specs."""
    caller = f"diff: {name}"
    reading = as_read(engine, config)
    if reading.config is None:
        raise bad_data(caller, f"a config of which is known what {engine} makes", reading.why)
    plan = facts(reading.config).plan
    parts = tuple(
        part.replace(window=None, whole=False, positions=None)
        for part in parts_of(plan)
        if part.kind == "rotary" and not part.name.startswith(TOWERS)
    )
    says = f"{name}: {reading.release}, {reading.source}: a table of its rotations, which was asked"
    changes = (f"{name}: {change}" for change in reading.changes)
    return Comparand(name, parts, whole=False, remarks=(says, *changes), model=plan)


TABLES = {name.lower(): name for name in ("vLLM", "SGLang", "llama.cpp")}
# An engine by its name: the side that it is for a config, which is called by another name.
ENGINES: dict[str, Callable[[Any, str], Comparand]] = {
    name: functools.partial(of_table, engine=engine) for name, engine in TABLES.items()
} | {"mlx": of_mlx}

"""Which cells a tier runs, and about how long they take.

    smoke      does it run at all: the first task, four encodings, one seed
    quick      order and text
    standard   copying, and an encoder with a decoder, as well
    full       every task and encoding that a claim names, and some that none does

Seeds come first: the cells of seed 0 are begun before those of seed 1, so that a run which is cut
short has whole comparisons. Eight seeds are what a claim with a veto by sign flips needs to spare;
six are what it needs at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc_study.cell import Cell, Scalar

EVERY = 8
MOST_SEEDS = 22  # see `statistics.sign_flip`

SIX = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")
TWELVE = (
    *SIX,
    "kerple",
    "fire",
    "xpos",
    "randomised-sinusoidal",
    "randomised-learned",
    "randomised-rope",
)

# Seconds of a cell on one core: what the bar weighs cells by before any is finished.
SECONDS = {"order": 4.0, "order-causal": 4.0, "text-lm": 21.0, "copy": 35.0, "seq2seq": 21.0}
SECONDS |= {"extension-64": 40.0, "extension-256": 50.0}
OTHERS = 25.0


@dataclass(frozen=True)
class Block:
    """Some encodings on a task.

    Parameters
    ----------
    task : str
        Its name.
    encodings : tuple of str
        Their names.
    seeds : int
        How many, from 0.
    settings : tuple of (str, value)
        In place of the defaults of the task.
    """

    task: str
    encodings: tuple[str, ...]
    seeds: int
    settings: tuple[tuple[str, Scalar], ...] = ()


# Between 1 and 8 the lengths of a text are told apart well enough by doubling.
LM = (("factors", "1 2 4 8"),)

ORDER = (
    Block("order", TWELVE, EVERY),
    Block("order-causal", ("none", "sinusoidal", "rope", "alibi"), EVERY),
)
QUICK = (*ORDER, Block("text-lm", SIX, 6, LM))
STANDARD = (
    *(replace(block, seeds=2 * EVERY) if block.task == "order" else block for block in ORDER),
    Block("text-lm", SIX, EVERY, LM),
    Block("copy", SIX, EVERY),
    Block("seq2seq", ("none", "sinusoidal", "learned"), EVERY),
)
FULL = (
    *STANDARD,
    Block("text-lm", ("kerple", "fire", "xpos", "partial-rope", "randomised-rope"), 6, LM),
    Block("rope-scaling", ("rope", "rope-linear", "rope-ntk", "rope-yarn"), 6),
    Block("extension-64", ("rope-100", "rope-1000", "rope"), EVERY),
    Block("extension-64", ("sinusoidal", "learned", "alibi"), 4),
    Block("extension-256", ("rope-100", "rope-1000", "rope"), EVERY),
    Block("reverse", ("none", "sinusoidal", "learned", "rope"), 6),
    Block("sort", SIX, 6),
    Block("addition", SIX, 6),
    Block("flip-flop", (*SIX, "cope"), 6),
    Block("markov", SIX, 6),
)

TIERS: dict[str, tuple[Block, ...]] = {
    "smoke": (Block("order", ("none", "sinusoidal", "rope", "alibi"), 1),),
    "quick": QUICK,
    "standard": STANDARD,
    "full": FULL,
}


@dataclass(frozen=True)
class Narrowing:
    """What is taken of a tier. Empty means all.

    Parameters
    ----------
    tasks, encodings : tuple of str
        Their names. A task or an encoding that the tier lacks is added to it.
    seeds : tuple of int
        The seeds themselves.
    factors : tuple of float
        Tested lengths as multiples of the trained one.
    settings : mapping
        Hyper-parameters in place of those of the tier.
    """

    tasks: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    factors: tuple[float, ...] = ()
    settings: Mapping[str, Scalar] | None = None


def cells(tier: str, narrowing: Narrowing | None = None) -> list[Cell]:
    """The cells of a tier, in the order in which they are run."""
    if tier not in TIERS:
        raise ArgumentError(mismatch("study", "a tier", repr(tier), suggest(tier, TIERS)))
    narrowing = _checked(narrowing or Narrowing())
    every = [
        _cell(block, encoding, seed, narrowing)
        for block in _blocks(TIERS[tier], narrowing)
        for encoding in block.encodings
        for seed in narrowing.seeds or range(block.seeds)
    ]
    return sorted(dict.fromkeys(every), key=lambda cell: cell.seed)


def cost(cell: Cell) -> float:
    """About how many seconds a cell takes on one core."""
    from posenc_study.tasks import TASKS

    usual = TASKS[cell.task].complete({})
    steps = dict(cell.settings).get("steps", usual["steps"])
    return SECONDS.get(cell.task, OTHERS) * float(steps) / float(usual["steps"])


def _blocks(blocks: Sequence[Block], narrowing: Narrowing) -> Iterable[Block]:
    """The blocks of the tier that are taken, with those that it lacks."""
    seeds = max(block.seeds for block in blocks)
    tasks = narrowing.tasks or tuple(dict.fromkeys(block.task for block in blocks))
    for task in tasks:
        own = [block for block in blocks if block.task == task] or [Block(task, SIX, seeds)]
        if not narrowing.encodings:
            yield from own
            continue
        for encoding in narrowing.encodings:
            having = [b for b in own if encoding in b.encodings] or own[:1]
            for block in having:
                yield Block(task, (encoding,), block.seeds, block.settings)


def _cell(block: Block, encoding: str, seed: int, narrowing: Narrowing) -> Cell:
    from posenc_study.tasks import TASKS

    settings = {**dict(block.settings), **(narrowing.settings or {})}
    if narrowing.factors:
        settings["factors"] = " ".join(f"{factor:g}" for factor in narrowing.factors)
    task = TASKS[block.task]
    return Cell.of(block.task, encoding, seed=seed, settings=task.complete(settings))


def _checked(narrowing: Narrowing) -> Narrowing:
    """The same, with encodings by the names that the study has for them."""
    from posenc_study.model.encodings import encoding, name_of
    from posenc_study.tasks import TASKS

    for name in narrowing.tasks:
        if name not in TASKS:
            raise ArgumentError(mismatch("study", "a task", repr(name), suggest(name, TASKS)))
    for name in narrowing.encodings:
        encoding(name)
    if len(narrowing.seeds) > MOST_SEEDS:
        received = len(narrowing.seeds)
        raise ArgumentError(mismatch("study", f"at most {MOST_SEEDS} seeds", received))
    names = tuple(dict.fromkeys(map(name_of, narrowing.encodings)))
    return replace(narrowing, encodings=names)


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds as people write them: `8` for the first eight, `0,3,5`, `7,` or `4:8` for some."""
    seeds: list[int] = []
    if re.fullmatch(r"\d{1,4}", text):
        seeds = list(range(int(text)))
    elif re.fullmatch(r"\d{1,6}(:\d{1,6})?(,\d{1,6}(:\d{1,6})?)*,?", text):
        for piece in text.rstrip(",").split(","):
            first, _, last = piece.partition(":")
            seeds += range(int(first), int(last or int(first) + 1))
    if not seeds:
        expected = "`8` for the first eight, `0,3,5`, or `4:8` for those from 4 to 7"
        raise ArgumentError(mismatch("seeds", expected, repr(text[:60])))
    return tuple(dict.fromkeys(seeds))


def factors_of(text: str) -> tuple[float, ...]:
    """Lengths as people write them: `1,2,4`, or `L,1.5L`."""
    factors = []
    for piece in text.split(","):
        number = piece.strip().removesuffix("L") or "1"
        if not re.fullmatch(r"\d{1,3}(\.\d{1,4})?", number):
            expected = "multiples of the trained length, such as 1,1.5,2"
            raise ArgumentError(mismatch("lengths", expected, repr(text[:60])))
        factors.append(float(number))
    return tuple(sorted(set(factors)))

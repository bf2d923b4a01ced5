"""How often `posenc.identify` is right, and how often it claims what is not so.

    python tools/measure/detective_identify.py          the counts, as text
    python tools/measure/detective_identify.py --write  the same into docs/identify.md and docs/data
    python tools/measure/detective_identify.py --few    a small part of it, to see that it runs

Tables: every sinusoidal preset, at five bases, three widths and three dtypes, on its own positions.
A hit is a claim whose spec has the frequencies, order, axes and rows of the table that was made;
`named` counts those that also name its base and denominator.

Draws: widths, lengths, bases, starts, scales, pad rows and arithmetic at random, with no regard to
what models use. Non-tables: what looks like a table or a learned one and is none. A claim about
any of those is false.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import posenc
from posenc._core.io.files import from_bfloat16, to_bfloat16
from posenc.detect.identify.identify import in_memory
from posenc.detect.identify.verdicts.table import judge_table
from posenc.presets import names, row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "identify.md"
DATA = ROOT / "docs" / "data" / "identify.json"
BEGIN, END = "<!-- generated: identify -->", "<!-- end -->"
DTYPES = ("float32", "bfloat16", "float16")
BASES = (10_000.0, 100.0, 500_000.0, 1234.5, 20.0)
WIDTHS = (64, 96, 128)
SIZES = {2: (9, 14), 3: (5, 6, 8)}
LENGTH = 300
# Real coordinates of single points, and matrices drawn at random, are no tables of positions.
LEFT_OUT = ("nerf", "sam", "perceiver", "box-queries", "gaussian-fourier-time")
DRAWS, NON_TABLES = 200, 1000  # of each dtype


class Case(NamedTuple):
    """A table and what it was made of."""

    name: str
    spec: Any
    table: np.ndarray
    start: int | None = None  # the position of the first row, where that is one number


def rounded(table: np.ndarray, dtype: str) -> np.ndarray:
    """The table in a dtype, as float32 where NumPy has it not."""
    if dtype == "bfloat16":
        return from_bfloat16(to_bfloat16(table.astype(np.float32)))
    return table.astype(dtype)


def presets() -> list[str]:
    """The presets whose tables are sines and cosines of positions."""
    kinds = ("Sinusoidal", "Timestep", "Fourier")
    return [n for n in names() if row(n).spec["type"] in kinds and n not in LEFT_OUT]


def preset_case(name: str, base: float, width: int) -> Case:
    """The table of a preset at another base, on positions as its row says."""
    found = row(name)
    spec: Any = found.build(width)
    several = isinstance(spec.base, tuple)
    spec = spec.replace(base=(base,) * len(spec.base) if several else base)
    builder = found.positions["builder"] if found.positions else ""
    if builder == "grid":
        sizes = dict(zip(spec.axes, SIZES[len(spec.axes)], strict=True))
        pad = getattr(spec.arrangement, "pad", None)
        positions = found.place(sizes, **({} if pad is None else {"prefix": 1}))
    elif builder == "from_grid_mask":
        positions = found.place(np.ones(SIZES[2], dtype=int))
    elif builder == "descending":
        positions = found.place(LENGTH // 2, -LENGTH // 2)
    else:
        start = getattr(getattr(spec, "arrangement", None), "start", 0)
        positions = np.arange(-start, LENGTH)
    return Case(name, spec, np.asarray(posenc.table(spec, positions)))


def preset_cases() -> Iterator[Case]:
    """Every preset at every base and width."""
    for name in presets():
        for base in BASES:
            for width in WIDTHS:
                yield preset_case(name, base, width)


def drawn_case(rng: np.random.Generator) -> Case:
    """A table whose every field is drawn."""

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    length, width = int(log_uniform(16, 1024)), int(log_uniform(8, 257))
    real = log_uniform(2, 1e9)
    common = float(rng.choice([1e4, 1e5, 5e5, 1e6, 100.0, 1000.0]))
    base = (common, float(f"{real:.2e}"), real)[rng.integers(3)]
    starts = (0, 1, 2, int(rng.integers(5000)), int(rng.integers(10**6)))
    start = starts[rng.integers(5)]
    scale = (1.0, "rsqrt_dim", float(np.round(rng.uniform(0.01, 30), 3)))[rng.integers(3)]
    spec = posenc.Sinusoidal(
        width,
        base=base,
        ladder=posenc.Ladder(denominator=("d/2", "n-1")[rng.integers(2)]),
        order=("interleaved", "sin_cos", "cos_sin")[rng.integers(3)],
        odd=("zero_pad", "sin_extra")[rng.integers(2)],
        arrangement=posenc.Arrangement(start=start, pad=(None, start, start + 1)[rng.integers(3)]),
        magnitude=posenc.Magnitude(table_scale=scale),
        phase=("exact", "float32")[rng.integers(2)],
    )
    return Case("drawn", spec, np.asarray(posenc.table(spec, length)), start)


def non_tables(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """One of each kind of array that is no sinusoidal table."""
    length, width = int(rng.integers(8, 400)), 2 * int(rng.integers(3, 65))
    pairs = width // 2
    i = np.arange(length)[:, None]
    f = (10.0 ** rng.uniform(0.5, 5)) ** (-np.arange(pairs) / pairs)
    interleaved = bool(rng.integers(2))

    def laid(phase: np.ndarray) -> np.ndarray:
        both = [np.sin(phase), np.cos(phase)]
        return np.stack(both, -1).reshape(len(phase), -1) if interleaved else np.hstack(both)

    table = laid(i * f)
    smooth = np.cumsum(rng.normal(size=(length, 4)), axis=0)
    yield "normal", rng.normal(size=(length, width))
    yield "normal, small", rng.normal(size=(length, width)) * 0.02
    yield "uniform", rng.uniform(-1, 1, size=(length, width))
    yield "random walk", np.cumsum(rng.normal(size=(length, width)), axis=0) * 0.1
    yield "smooth, of low rank", smooth @ rng.normal(size=(4, width))
    columns = np.outer(np.arange(length), rng.uniform(0, 3, width))
    yield "cosines of any frequency", np.cos(columns + rng.uniform(0, 6, width))
    yield "noisy sinusoid", table + rng.normal(size=table.shape) * 10.0 ** rng.uniform(-2, -0.5)
    drift = np.cumsum(rng.normal(size=table.shape), axis=0) / math.sqrt(length)
    yield "sinusoid after training", table + 0.02 * drift
    yield "jittered frequencies", laid(i * f * np.exp(rng.normal(size=pairs) * 0.02))
    yield "random phases", laid(i * f + rng.uniform(0, 6.28, pairs))
    yield "permuted columns", table[:, rng.permutation(width)]
    yield "shuffled rows", table[rng.permutation(length)]
    half = pairs // 2
    two = np.concatenate([f[:half], f[: pairs - half] ** 1.3 * 0.9])
    yield "two ladders", laid(i * two)
    yield "chirp", laid((i + 2.1 * (i / length) ** 2) * f)
    wrong = table.copy()
    wrong[rng.integers(length)] *= -1
    yield "one wrong row", wrong
    wrong = table.copy()
    wrong[:, rng.integers(width)] = rng.normal(size=length)
    yield "one wrong column", wrong
    yield "signs", np.sign(rng.normal(size=(length, width)))
    yield "identity", np.eye(max(length, width))[:length, :width]
    yield "points on circles", laid(rng.uniform(0, 6.28, (length, pairs)))
    yield "growing", table * (1 + 0.01 * i / length)


def recovered(case: Case, found: Any) -> str:
    """`named`; `ratio` where base and denominator are others of one ladder; `silent`; `wrong`."""
    if found.verdict != "claimed":
        return "silent"
    claimed, spec = found.spec, case.spec
    if case.start is not None and claimed.arrangement.start != case.start:
        return "wrong"
    made, drawn = posenc.frequencies(claimed), posenc.frequencies(spec)
    if len(made) != len(drawn) or claimed.order != spec.order:
        return "wrong"
    axis = np.array(claimed.arrangement.layout(len(made)).axis)
    for a in set(axis.tolist()):
        ours, theirs = made[axis == a], drawn[axis == a]
        # Coordinates that were divided by a size are told by places, so a factor is free.
        factor = theirs.max() / ours.max() if len(claimed.axes) > 1 else 1.0
        fast = theirs > theirs.max() * 1e-3
        if np.abs(factor * ours / theirs - 1)[fast].max() > 1e-2:
            return "wrong"
    bases = spec.base if isinstance(spec.base, tuple) else (spec.base,)
    named = all(abs(claimed.base / base - 1) < 1e-3 for base in bases)
    return "named" if named else "ratio"


def count_presets(cases: list[Case]) -> dict[str, Counter[str]]:
    """Outcomes by dtype."""
    counts: dict[str, Counter[str]] = {dtype: Counter() for dtype in DTYPES}
    for case in cases:
        for dtype in DTYPES:
            [found] = posenc.identify(rounded(case.table, dtype)).findings
            outcome = recovered(case, found)
            counts[dtype][outcome] += 1
            if outcome in ("silent", "wrong"):
                print(outcome, dtype, case.name, case.spec.base, case.spec.dim, file=sys.stderr)
    return counts


def count_claims(rng: np.random.Generator, least: int) -> dict[str, Counter[str]]:
    """Claims about at least so many arrays of each dtype that are no tables."""
    counts: dict[str, Counter[str]] = {dtype: Counter() for dtype in DTYPES}
    while min(sum(c.values()) for c in counts.values()) < least:
        for kind, table in non_tables(rng):
            for dtype in DTYPES:
                # As `identify` asks of any table, less what it measures of those without a claim.
                found = judge_table(in_memory("array", rounded(table, dtype)), named=False)
                verdict = "none" if found is None else found.verdict
                counts[dtype][verdict] += 1
                if verdict == "claimed":
                    print("false", dtype, kind, table.shape, found, file=sys.stderr)
    return counts


def measure(few: bool) -> dict[str, Any]:
    """All counts."""
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    cases = [preset_case(n, BASES[0], WIDTHS[0]) for n in presets()[:3]] if few else None
    tables = count_presets(cases or list(preset_cases()))
    draws = count_presets([drawn_case(rng) for _ in range(5 if few else DRAWS)])
    claims = count_claims(rng, 20 if few else NON_TABLES)
    kinds = {"tables": tables, "draws": draws, "non_tables": claims}
    return {
        "presets": len(presets()),
        "bases": list(BASES),
        "widths": list(WIDTHS),
        "numpy": np.__version__,
        "seconds": round(time.perf_counter() - began),
        **{kind: {d: dict(sorted(c.items())) for d, c in v.items()} for kind, v in kinds.items()},
    }


def page(found: dict[str, Any]) -> str:
    """The block of the page."""
    lines = [
        "| | " + " | ".join(DTYPES) + " |",
        "|---" * (len(DTYPES) + 1) + "|",
    ]

    def cells(kind: str, *outcomes: str) -> list[str]:
        counts = [found[kind][dtype] for dtype in DTYPES]
        hits = [sum(c.get(outcome, 0) for outcome in outcomes) for c in counts]
        return [f"{n} of {sum(c.values())}" for n, c in zip(hits, counts, strict=True)]

    for text, kind, outcomes in (
        ("tables of presets: found", "tables", ("named", "ratio")),
        ("… and base and denominator named", "tables", ("named",)),
        ("tables of presets: wrong claims", "tables", ("wrong",)),
        ("drawn tables: found", "draws", ("named", "ratio")),
        ("drawn tables: wrong claims", "draws", ("wrong",)),
        ("no tables: claims", "non_tables", ("claimed",)),
    ):
        lines.append(f"| {text} | " + " | ".join(cells(kind, *outcomes)) + " |")
    bases = ", ".join(f"{base:g}" for base in found["bases"])
    note = (
        f"{found['presets']} presets at the bases {bases} and the widths "
        f"{', '.join(map(str, found['widths']))}; by "
        f"`tools/measure/detective_identify.py --write`, NumPy {found['numpy']}."
    )
    return "\n".join([BEGIN, *lines, "", note, END])


def refreshed(text: str, found: dict[str, Any]) -> str:
    """The page with its block made anew."""
    before, _, rest = text.partition(BEGIN)
    return before + page(found) + rest.partition(END)[2]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--few", action="store_true")
    chosen = parser.parse_args()
    found = measure(chosen.few)
    print(page(found))
    if chosen.write:
        DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()

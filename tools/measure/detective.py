"""How often the detective is right, measured: `docs/data/detective.json` holds the numbers.

    python tools/measure/detective.py locate     10,000 random cases of posenc.locate
    python tools/measure/detective.py infer      posenc.infer_spec on the classes of transformers
    python tools/measure/detective.py ... --write  the same, into the data and the page

Every case is drawn from a seed, so that a run is repeated by anyone. A case counts as right where
the position is the one drawn; a vector that is no row must be called none.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.pages import shelf  # noqa: E402

DATA = ROOT / "docs" / "data"
FAR = 2**31 - 1
DTYPES = ("float32", "float16", "bfloat16")


# --- locate ---------------------------------------------------------------------------------------


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """float64 numbers as a dtype holds them, in float32; bfloat16 through float32."""
    if dtype != "bfloat16":
        return x.astype(dtype)
    bits = x.astype(np.float32).view(np.uint32)
    kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return kept.astype(np.uint32).view(np.float32)


def drawn_table(rng: np.random.Generator, widths: tuple[int, ...]) -> Any:
    """A sinusoidal table of any order, ladder, base, start and scale."""
    import posenc

    base = float(rng.choice([10_000, 100, 500_000, 2, round(10 ** rng.uniform(0.5, 7), 2)]))
    return posenc.Sinusoidal(
        int(rng.choice(widths)),
        base=base,
        order=str(rng.choice(["interleaved", "sin_cos", "cos_sin"])),
        ladder=posenc.Ladder(denominator=str(rng.choice(["d/2", "n", "n-1", "d"]))),
        arrangement=posenc.Arrangement(start=int(rng.choice([0, 1, 2]))),
        magnitude=posenc.Magnitude(
            table_scale=[1.0, "sqrt_dim", "rsqrt_dim", 0.5][int(rng.integers(4))]
        ),
    )


def position(rng: np.random.Generator) -> int:
    """Of any size, to both sides."""
    size = int(2 ** rng.uniform(0, 31)) - 1
    return int(rng.choice([-1, 1])) * min(size, FAR)


def whole_vector(rng: np.random.Generator, dtype: str) -> bool:
    """A row in a dtype, of a table with at least 64 dimensions."""
    import posenc

    spec = drawn_table(rng, (64, 65, 96, 128, 256))
    p = position(rng)
    x = rounded(posenc.table(spec, [p], dtype="float64")[0], dtype)
    return posenc.locate(spec, x).positions == (p,)


def noisy(rng: np.random.Generator, width: int, noise: float) -> bool:
    """A row with Gaussian noise on each entry."""
    import posenc

    spec = posenc.Sinusoidal(width)
    p = int(rng.integers(-FAR, FAR + 1))
    x = posenc.table(spec, [p], dtype="float64")[0] + rng.normal(0, noise, width)
    return posenc.locate(spec, x, conventions="stated").position == p


def a_sum(rng: np.random.Generator, dtype: str) -> bool:
    """An embedding with a row added, where the embedding is known."""
    import posenc

    scale = posenc.Magnitude(embedding_scale=[1.0, "sqrt_dim"][int(rng.integers(2))])
    spec = posenc.Sinusoidal(128, magnitude=scale)
    p = position(rng)
    e = rounded(rng.normal(0, 1, 128), dtype).astype(np.float64)
    x = rounded(spec.embedding_scale * e + posenc.table(spec, [p], dtype="float64")[0], dtype)
    return posenc.locate(spec, x, before=e).positions == (p,)


def turned(rng: np.random.Generator, dtype: str) -> bool:
    """A query turned by a rotary embedding."""
    import posenc

    pairing = str(rng.choice(["half", "interleaved"]))
    spec = posenc.RoPE(int(rng.choice([64, 128])), pairing=pairing)
    p = position(rng)
    q = rounded(rng.normal(0, 1, (1, spec.dim)), dtype)
    y = rounded(posenc.rotate(spec, q.astype(np.float64), positions=[p])[0], dtype)
    return posenc.locate(spec, y, before=q[0]).positions == (p,)


def on_a_grid(rng: np.random.Generator, dtype: str) -> bool:
    """A row of a table of two or three axes."""
    import posenc

    axes = (("h", "w"), ("t", "h", "w"))[int(rng.integers(2))]
    order = str(rng.choice(["interleaved", "sin_cos"]))
    arrangement = posenc.Arrangement(rule="axial", axes=axes)
    spec = posenc.Sinusoidal(48 * len(axes), order=order, arrangement=arrangement)
    p = tuple(int(n) for n in rng.integers(0, 4096, len(axes)))
    x = rounded(posenc.table(spec, [p], dtype="float64")[0], dtype)
    return posenc.locate(spec, x).positions == (p,)


def a_sibling(rng: np.random.Generator, dtype: str) -> bool:
    """A row of another convention than the one that is stated: both must be found."""
    import posenc

    stated = posenc.Sinusoidal(128)
    ladder = posenc.Ladder(denominator=str(rng.choice(["d", "n-1", "d/4"])))
    order = str(rng.choice(["interleaved", "sin_cos"]))
    spec = stated.replace(ladder=ladder, order=order)
    p = position(rng) or 1  # row 0 is the same in all of them
    x = rounded(posenc.table(spec, [p], dtype="float64")[0], dtype)
    found = posenc.locate(stated, x)
    best = found.best
    return best is not None and best.positions == (p,) and best.spec == spec


def one_value(rng: np.random.Generator, digits: int) -> bool:
    """A value by its digits: the truth must be among the positions that fit."""
    import posenc

    spec = drawn_table(rng, (16, 64, 512)).replace(magnitude=posenc.Magnitude())
    p, at = int(rng.integers(0, 2**16)), int(rng.integers(spec.dim))
    text = f"{posenc.table(spec, [p], dtype='float64')[0, at]:.{digits}f}"
    found = posenc.locate(spec, text, at=at, within=(0, 2**16), conventions="stated")
    return found.as_stated is not None and (
        p in found.positions or found.as_stated.listed == "first"
    )


def some_values(rng: np.random.Generator, count: int) -> bool:
    """Values of four digits at several dimensions: the position is the only one that fits."""
    import posenc

    spec = posenc.Sinusoidal(512)
    p = int(rng.integers(0, 10**6))
    row = posenc.table(spec, [p], dtype="float64")[0]
    # Slow pairs say little: a value of 1.0000 holds for thousands of positions.
    at = rng.choice(256, count, replace=False)
    found = posenc.locate(spec, {int(k): f"{row[k]:.4f}" for k in at}, within=(0, 10**6))
    return found.position == p and not found.convention


def nothing(rng: np.random.Generator, kind: str) -> bool:
    """A vector that is no row of anything."""
    import posenc

    n = 128
    x = {
        "Gaussian": lambda: rng.normal(0, 1, n),
        "uniform": lambda: rng.uniform(-1, 1, n),
        "signs": lambda: rng.choice([-1.0, 1.0], n),
        "random phases": lambda: np.stack(
            [np.sin(a := rng.uniform(0, 2 * np.pi, n // 2)), np.cos(a)], axis=1
        ).ravel(),
        "shuffled row": lambda: rng.permutation(
            posenc.table(posenc.Sinusoidal(n), [int(rng.integers(100, FAR))], dtype="float64")[0]
        ),
    }[kind]()
    return posenc.locate(posenc.Sinusoidal(n), x.astype(np.float32)).position is None


NOTHING = ("Gaussian", "uniform", "signs", "random phases", "shuffled row")
# (title, what is drawn, options, draws)
CASES: tuple[tuple[str, Callable[..., bool], tuple[Any, ...], int], ...] = (
    *(("vector", whole_vector, (dtype,), 1500) for dtype in DTYPES),
    *(("embedding + row", a_sum, (dtype,), 300) for dtype in DTYPES),
    *(("turned query", turned, (dtype,), 300) for dtype in DTYPES),
    *(("grid of 2 or 3 axes", on_a_grid, (dtype,), 300) for dtype in DTYPES),
    *(("another convention than stated", a_sibling, (dtype,), 100) for dtype in DTYPES),
    *(("one value", one_value, (digits,), 300) for digits in (4, 6)),
    *(("several values of 4 digits", some_values, (count,), 100) for count in (3, 4)),
    *(("no row", nothing, (kind,), 200) for kind in NOTHING),
    *(
        ("noise", noisy, (width, noise), 60)
        for width in (64, 128, 512)
        for noise in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
    ),
)


def locate(draws: float = 1.0, *, progress: bool = False) -> list[dict[str, Any]]:
    """Hit rates: a row for each kind of case; `draws` is a share of the full number."""
    rows = []
    for number, (title, draw, options, count) in enumerate(CASES):
        rng = np.random.default_rng([number, 7])
        asked = max(1, round(count * draws))
        begin = time.perf_counter()
        right = sum(bool(draw(rng, *options)) for _ in range(asked))
        rows.append(
            {
                "case": title,
                "options": list(options),
                "right": right,
                "of": asked,
                "ms": round((time.perf_counter() - begin) / asked * 1e3, 2),
            }
        )
        if progress:
            print(rows[-1], flush=True)
    return rows


def table_of_locate(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| case | | right | ms each |", "|---|---|---|---|"]
    for row in rows:
        if row["case"] != "noise":
            options = ", ".join(map(str, row["options"]))
            what = f"{options} digits" if row["case"] == "one value" else options
            lines.append(
                f"| {row['case']} | {what} | {row['right']} of {row['of']} | {row['ms']:.0f} |"
            )
    noises = [row for row in rows if row["case"] == "noise"]
    widths = sorted({row["options"][0] for row in noises})
    levels = sorted({row["options"][1] for row in noises})
    per = noises[0]["of"]
    lines += [
        "",
        f"Gaussian noise on every entry, any position up to 2<sup>31</sup>: right of {per}",
        "",
        "| width | " + " | ".join(map(str, levels)) + " |",
        "|---" * (len(levels) + 1) + "|",
    ]
    for width in widths:
        cells = [str(row["right"]) for row in noises if row["options"][0] == width]
        lines.append(f"| {width} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# --- infer ----------------------------------------------------------------------------------------


def infer(draws: float = 1.0, *, progress: bool = False) -> list[dict[str, Any]]:
    """posenc.infer_spec on every rotary class of transformers; `draws` is a share of the packages.

    The class makes the cosines and sines, the function of its module turns by them; both together
    are the implementation. What comes out is compared with the plan that was read from the config.
    """
    import os
    import warnings

    from tools.models import sweep

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.simplefilter("ignore")
    names = sweep.packages()
    rows = []
    for package in names[:: max(1, round(1 / draws))]:
        for module, cls in sweep.classes(package):
            row = {"package": package, "name": cls.__name__}
            try:
                row |= _inferred(sweep, package, module, cls)
            except Exception as failure:  # noqa: BLE001 - a row of the table
                row |= {"state": "failed", "why": f"{type(failure).__name__}: {failure}"[:200]}
            rows.append(row)
            if progress:
                print(row, flush=True)
    return rows


def _inferred(sweep: Any, package: str, module: Any, cls: type) -> dict[str, Any]:
    import posenc

    found, why = sweep.built(package, cls)
    if not found:
        return {"state": "not built", "why": why[:200]}
    function = sweep.applied(module, cls)
    if function is None:
        return {"state": "no function", "why": "nothing in the module applies the rotation"}
    best: dict[str, Any] = {"state": "no plan", "why": "no plan of its configs turns anything"}
    for made, config in found:
        plan = sweep.plan_of(package, config)
        for key, value in sweep.alternatives(config) if not sweep.turning(plan) else ():
            plan = posenc.from_hf({**config.to_dict(), key: value}, on_error="report")
            if sweep.turning(plan):
                break
        entries = sweep.turning(plan)
        if not entries:
            continue
        entry, label = sweep.matched(made, entries)[0]
        best = _compared(sweep, function, made, config=config, label=label, stated=entry.spec)
        if best["state"] == "found":
            break
    return best


def _compared(
    sweep: Any, function: Any, made: Any, *, config: Any, label: Any, stated: Any
) -> dict[str, Any]:
    import posenc

    spec = stated.at(sweep.SHORT) if stated.needs_length else stated

    def implementation(x: Any, positions: Any) -> Any:
        asked = positions.clone()
        where, _, _, out = sweep.theirs(made, spec, label, asked, config)
        if where is not asked and not (where.shape == asked.shape and bool((where == asked).all())):
            raise NotImplementedError("it makes positions itself")
        return sweep.called(function, x, x, out)[0]

    result: Any = None
    why, asked = "", spec.dim
    # The head is asked wider than the rotation first, as part of it may pass through.
    wide = config.to_dict().get("head_dim")
    for dim in dict.fromkeys((spec.dim + 8, wide if isinstance(wide, int) else 0, spec.dim)):
        if dim < spec.dim:
            continue
        try:
            result = posenc.infer_spec(implementation, dim=dim, axes=spec.axes, framework="torch")
            asked = dim
            break
        except posenc.ArgumentError as error:
            why = str(error)
    if result is None:
        try:
            result = _recorded(sweep, function, made, config=config, label=label, spec=spec)
        except Exception as failure:  # noqa: BLE001 - a reason for the table
            why = f"{why} {type(failure).__name__}: {failure}"
    if result is None:
        return {"state": "not called", "why": why[:300]}
    row = {"probes": result.probes, "difference": result.difference}
    if result.spec is None:
        return {"state": "refused", "why": "; ".join(result.notes)[:300], **row}
    same = _same(result.spec, spec, asked)
    state = "found" if result.matches and not same else "off" if not result.matches else "other"
    row["spec"] = str(result).partition("\n")[0]
    return {"state": state, "why": same, **row}


def _recorded(sweep: Any, function: Any, made: Any, *, config: Any, label: Any, spec: Any) -> Any:
    """From inputs and outputs at the positions that a class makes by itself."""
    import torch

    import posenc

    positions, _, _, out = sweep.theirs(made, spec, label, sweep.short(len(spec.axes)), config)
    x = torch.randn(1, 2, len(positions), spec.dim, generator=torch.Generator().manual_seed(1))
    y = sweep.called(function, x, x, out)[0]
    return posenc.infer_spec((x, y, positions), axes=spec.axes)


def _same(found: Any, stated: Any, width: int) -> str:
    """What is named otherwise than in the plan; empty if nothing is."""
    import posenc

    if type(found) is not type(stated):
        return f"{type(found).__name__} for {type(stated).__name__}"
    wrong = []
    if not isinstance(stated, posenc.RoPE):
        return ""
    # Of a head that turns as a whole, no part is the leading one.
    parts = ("part",) if width > stated.dim else ()
    wrong += [
        f"pairing {name}"
        for name in ("order", *parts, "blocks", "output", "direction")
        if getattr(found.channels, name) != getattr(stated.channels, name)
    ]
    a, b = (np.asarray(posenc.frequencies(s), dtype=np.float64) for s in (found, stated))
    if a.shape != b.shape or np.abs(a - b).max() > 1e-6 * np.abs(b).max():
        wrong.append("frequencies")
    plain = [type(s).__name__ for s in found.scalings], [type(s).__name__ for s in stated.scalings]
    if plain[0] != plain[1]:
        wrong.append(f"scaling {' '.join(plain[0]) or 'none'} for {' '.join(plain[1]) or 'none'}")
    if abs(found.base / stated.base - 1) > 1e-6:
        wrong.append(f"base {found.base:g} for {stated.base:g}")
    return ", ".join(wrong)


def table_of_infer(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    from collections import Counter

    states = Counter(row["state"] for row in rows)
    probes = Counter(row["probes"] for row in rows if row.get("probes"))
    titles = {
        "found": "the spec of the config, field by field",
        "other": "the same rotation where it was asked, said otherwise",
        "off": "a spec farther off than float32 explains",
        "refused": "refused, with the reason",
        "not called": "not called",
        "no function": "nothing in the module turns",
        "no plan": "its config leads to no plan",
        "not built": "not built from a default config",
        "failed": "failed",
    }
    lines = [f"{len(rows)} classes:", "", "| outcome | classes |", "|---|---|"]
    lines += [f"| {title} | {states[key]} |" for key, title in titles.items() if states[key]]
    calls = ", ".join(f"{n} for {count} classes" for n, count in sorted(probes.items()))
    lines += ["", f"Calls that were needed, refused ones included: {calls}.", ""]
    lines += ["| class | outcome | why |", "|---|---|---|"]
    for row in rows:
        if row["state"] != "found":
            why = row.get("why", "").replace("|", "\\|").replace("\n", " ")
            lines.append(f"| `{row['package']}` {row['name']} | {row['state']} | {why} |")
    return "\n".join(lines)


# --- files ----------------------------------------------------------------------------------------

PAGES = {
    "locate": (ROOT / "docs" / "locate.md", table_of_locate),
    "infer": (ROOT / "docs" / "infer.md", table_of_infer),
}
LONG = {"locate": shelf.LONG, "infer": 7}  # rows of a table that is a file
RUNS: dict[str, Callable[..., list[dict[str, Any]]]] = {"locate": locate, "infer": infer}


def block(name: str, rows: list[dict[str, Any]]) -> str:
    """What stands between the markers of a page."""
    return f"<!-- measured: {name} -->\n{PAGES[name][1](rows)}\n<!-- end of {name} -->"


def refreshed(name: str, rows: list[dict[str, Any]]) -> str:
    """The page with its table made anew."""
    text = shelf.whole(PAGES[name][0])
    head, _, rest = text.partition(f"<!-- measured: {name} -->")
    _, _, tail = rest.partition(f"<!-- end of {name} -->")
    return head + block(name, rows) + tail


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=list(RUNS))
    parser.add_argument("--write", action="store_true", help="write the page and its data")
    parser.add_argument("--draws", type=float, default=1.0, help="a share of the full number")
    options = parser.parse_args()
    rows = RUNS[options.what](options.draws, progress=True)
    if options.write:
        path = DATA / f"{options.what}.json"
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        page = PAGES[options.what][0]
        shelf.write(page, refreshed(options.what, rows), long=LONG[options.what])
    return 0


if __name__ == "__main__":
    sys.exit(main())

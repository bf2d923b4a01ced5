"""Refresh what files show of measurements and of the registry; `--check` only compares.

What is shown stands between markers; a file of `WHOLE` is made as a whole.

<!-- generated: precision -->
...
<!-- end -->
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from benchmarks.rows import latest, newest
from tools import check_rows, local_data
from tools.models import golden_files
from tools.pages import (
    agents,
    config_formats,
    diffusion_classes,
    engine_tables,
    family_pairings,
    faults,
    shelf,
    speed_reasons,
)
from tools.stubs import stub

import posenc
import posenc.plot
import posenc.positions
from posenc._names import ALIASES, PACKAGES

ROOT = Path(__file__).resolve().parents[1]
FILES = (
    "docs/adopt.md",
    "README.md",
    "docs/compile.md",
    "docs/configs.md",
    "docs/extend.md",
    "docs/exact-phases.md",
    "docs/golden.md",
    "docs/golden-models.md",
    "docs/kernels.md",
    "docs/pairing.md",
    "docs/speed.md",
    "docs/rows.md",
    "docs/diffusion.md",
    "docs/faults.md",
    "docs/agents.md",
)
BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


THREE = ("posenc, NumPy", "sin(pos * div_term)", "transformers")


def precision(names: Collection[str] = ()) -> str:
    """The table of the worst errors, of all or of some implementations."""
    rows = [r for r in latest("precision") if not names or r["implementation"] in names]
    worst = {(r["implementation"], r["variant"], r["below"]): r["worst"] for r in rows}
    bounds = list(dict.fromkeys(r["below"] for r in rows))
    packages = {r["implementation"]: r["package"] for r in rows}
    heads = [f"2<sup>{bound.removeprefix('2^')}</sup>" for bound in bounds]
    last = f"{heads[0]}, after `.bfloat16()`"
    lines = [
        "| positions below | " + " | ".join([*heads, last]) + " |",
        "|---" * (len(bounds) + 2) + "|",
    ]
    for name, package in packages.items():
        cells = [_short(worst[name, "float32", bound]) for bound in bounds]
        cells.append(_short(worst.get((name, "bfloat16", bounds[0]))))
        ours = name.startswith("posenc")
        cells = [f"**{cell}**" if ours and cell != "–" else cell for cell in cells]
        shown = f"`{name}`" if "(" in name else name
        lines.append(f"| {_label(shown, package)} | " + " | ".join(cells) + " |")
    row = rows[0]
    note = (
        f"Worst |error| of cosine and sine, float32 output, width {row['dim']}, base "
        f"{row['base']}, against exact arithmetic; measured {row['date'][:10]} on {row['cpu']}, "
        f"torch {row['versions']['torch'].partition('+')[0]}. Every position below 2<sup>17</sup>, "
        f"samples above."
    )
    return "\n".join([*lines, "", note])


def import_time() -> str:
    """What an import costs, in a sentence."""
    rows = {row["statement"]: row for row in latest("import_time")}
    numpy, table = rows["NumPy"], rows["posenc, to a first table"]
    return (
        f"`import posenc` takes {rows['posenc']['median_ms']:.0f} ms, as it imports nothing, not "
        f"even NumPy, before a name is used; to a first table it is {table['median_ms']:.0f} ms, "
        f"of which {numpy['median_ms']:.0f} ms are NumPy's own import "
        f"({table['date'][:10]}, {table['cpu']}, medians of {table['n']})."
    )


def contracts() -> str:
    """What a golden file costs, in a sentence."""
    rows = latest("contracts")
    told = [
        f"{r['model']} {r['median_ms'] / 1e3:.2f} s and {r['bytes'] / 1e3:.0f} kB" for r in rows
    ]
    return (
        f"Writing the file of a model of {rows[0]['layers']} layers, the start of Python included: "
        f"{', '.join(told)} ({rows[0]['date'][:10]}, {rows[0]['cpu']}, medians of {rows[0]['n']} "
        "fresh processes)."
    )


def pairing() -> str:
    """What weights of trained models say of their pairing: z values, and what is claimed."""
    lines = (ROOT / "docs" / "data" / "pairing.jsonl").read_text(encoding="utf-8").splitlines()
    about, *rows = map(json.loads, lines)
    plain = [row for row in rows if "losses" in row]
    steps = sorted({row["step"] for row in plain} - {0})
    kinds = dict.fromkeys(row["name"].rpartition("-")[0] for row in plain)
    found = {(row["name"], row["step"]): row for row in plain}
    text = [
        "| model | pairing | " + " | ".join(f"{step} steps" for step in steps) + " |",
        "|---" * (len(steps) + 2) + "|",
    ]
    for kind in kinds:
        for name in ("half", "interleaved", "none"):
            row = [found.get((f"{kind}-{name}", step)) for step in steps]
            if any(row):
                cells = ["–" if r is None else _evidence(r) for r in row]
                text.append(f"| {kind} | {name} | {' | '.join(cells)} |")
    text += ["", _counts(rows, about)]
    return "\n".join(text)


def _evidence(row: dict[str, Any]) -> str:
    """Both z values, bold where they are a claim."""
    told = f"{row['similarity']:+.1f}, {row['balance']:+.1f}"
    return told if row["claim"] == "unknown" else f"**{told}**"


def _counts(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """How many claims were made, and how many were right."""
    plain = [row for row in rows if "losses" in row]
    told = []
    for step in sorted({row["step"] for row in plain} - {0}):
        own = [row for row in plain if row["step"] == step and row["pairing"] != "none"]
        claims = [row for row in own if row["claim"] != "unknown"]
        right = sum(row["claim"] == row["pairing"] for row in claims)
        told.append(f"{len(claims)} claims of {len(own)} models after {step} steps ({right} right)")
    without = [row for row in plain if row["pairing"] == "none"]
    largest = max(max(abs(r["similarity"]), abs(r["balance"])) for r in without)
    false = sum(row["claim"] != "unknown" for row in without)
    wrong = [row for row in rows if "losses" not in row]
    bad = sum(row["claim"] not in ("unknown", row["pairing"]) for row in wrong)
    return (
        f"Similarity and balance as z values; bold is a claim. {'; '.join(told)}. Of "
        f"{len(without)} snapshots without positions {false} made a claim, and the largest z value "
        f"was {largest:.1f}. With widths declared wrong on purpose: {len(wrong)} snapshots, "
        f"{sum(row['claim'] != 'unknown' for row in wrong)} claims, {bad} of them wrong "
        "(see the limits). "
        f"Trained with torch {about['versions']['torch'].partition('+')[0]} on a CPU, "
        f"{about['optimiser']}, measured {about['date']}."
    )


def speed() -> str:
    """Every row of the benchmark, fastest first."""
    rows = [row for row in latest("speed") if "median_ms" in row]
    lines = ["| row | way | ms | ratio | target | medians of |", "|---|---|--:|--:|---|--:|"]
    for row in rows:
        median = row["median_ms"]
        floor = min(median.values())
        for name, value in sorted(median.items(), key=lambda item: item[1]):
            shown = f"**{name}**" if name.startswith("posenc") else name
            aims = "; ".join(map(_aim, (t for t in row["targets"] if t["way"] == name)))
            figures = f"{value:.3g} | {value / floor:.1f} | {aims} | {row['n']}"
            lines.append(f"| {row['row']} | {shown} | {figures} |")
    return "\n".join([*lines, _circumstances(rows[0])])


def _aim(target: dict[str, Any]) -> str:
    """What was measured beside what was aimed at."""
    told = f"{target['ratio']:.3f} of {target['against']}, aimed at {target['factor']:.3f}"
    return told if target["met"] else f"**{told}**"


def speed_targets() -> str:
    """What was aimed at, and what was reached."""
    rows = [row for row in latest("speed") if row.get("targets")]
    lines = ["| row | ratio of | to | measured | aimed at | |", "|---|---|---|--:|--:|---|"]
    for row in rows:
        for t in row["targets"]:
            figures = (
                f"{t['ratio']:.3f} | {t['factor']:.3f} | {'met' if t['met'] else '**missed**'}"
            )
            lines.append(f"| {row['row']} | {t['way']} | {t['against']} | {figures} |")
    aims = [(row["row"], t) for row in rows for t in row["targets"]]
    missed = [f"{name}: {t['way']} to {t['against']}" for name, t in aims if not t["met"]]
    lead = (
        f"Of {len(aims)} targets {len(aims) - len(missed)} were met. Missed: {'; '.join(missed)}."
    )
    memory = [row for row in latest("speed") if "bytes" in row]
    lines = [lead, "", *lines]
    for row in memory:
        extra, tensor = row["bytes"] / 2**20, row["tensor"] / 2**20
        lines += ["", f"{row['row']}: {extra:.1f} MiB beside the {tensor:.0f} MiB of the tensor."]
    return "\n".join([*lines, "", _circumstances(rows[0])])


def compiled() -> str:
    """What compiled code should hold."""
    rows = latest("compiled")
    heads = [f"{row['tokens']} tokens, {row['dtype']}" for row in rows]
    lines = [f"| ms | {' | '.join(heads)} |", "|---" + "|--:" * len(rows) + "|"]
    for way in rows[0]["ms"]:
        cells = [f"{row['ms'][way]:.3g}" for row in rows]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    note = (
        f"Measured {rows[0]['date'][:10]} on {rows[0]['cpu']}, one thread, the least of all calls."
    )
    return "\n".join([*lines, "", note])


def decode() -> str:
    """One token beside code by hand."""
    rows = newest("decode", "row")
    lines = [
        "| one thread | ours, µs | by hand, µs | ratio | of the least | aimed at | |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        ours, hand = (f"{row['median_us'][way]:,.1f}" for way in ("ours", "hand"))
        met = "met" if row["ratio"] <= row["most"] else "missed"
        lines.append(
            f"| {row['row']} | {ours} | {hand} | {row['ratio']:.2f} "
            f"| {row['ratio_of_least']:.2f} | {row['most']:.0f} | {met} |"
        )
    loads = [row["load"] for row in rows]
    note = (
        f"Medians, {rows[-1]['date'][:10]}, {rows[-1]['cpu']}, beside other work: {min(loads)} to "
        f"{max(loads)} processes wanted its processors. Fewer than 512 keys leave a score of Shaw "
        "little to compute, so that checks show."
    )
    return "\n".join([*lines, "", note])


def graphs() -> str:
    """What compiles whole, and how many graphs four lengths cost."""
    rows = latest("graphs")
    lines = ["| verb or module | graphs |", "|---|--:|"]
    lines += [f"| {row['row']} | {row['graphs']} |" for row in rows]
    lengths = ", ".join(map(str, rows[0]["lengths"]))
    version = rows[0]["versions"]["torch"].partition("+")[0]
    note = (
        f"Graphs for the lengths {lengths}, no break in any of the {len(rows)} rows; torch "
        f"{version}, {rows[0]['date'][:10]}."
    )
    return "\n".join([*lines, "", note])


# What another tool writes (`tools/models/adopt.py`), and what is not in a source distribution.
MEASURED = frozenset(("zoo",) if golden_files.INDEX.exists() else ("zoo", "golden-models"))
ADOPTED = {
    "rotary, decode": "rotary modules, one token",
    "rotary, prefill": "rotary modules, a prompt",
    "decode": "a step of decoding",
    "prefill": "a prompt",
    "train": "a step of training",
}


def adopted() -> str:
    """What adoption costs, over the models of `benchmarks/models.py`."""
    rows = newest("models", "model", "what", "mode")
    lines = ["| | | time, median | least to most | memory, most |", "|---|---|--:|--:|--:|"]
    for mode in ("eager", "compiled"):
        for what, words in ADOPTED.items():
            here = [row for row in rows if (row["what"], row["mode"]) == (what, mode)]
            times = sorted(row["ratio"] for row in here)
            sizes = [row["bytes"] for row in here if "bytes" in row]
            most = max((each["ours"] / each["theirs"] for each in sizes), default=None)
            spread = f"{times[0]:.2f} to {times[-1]:.2f}"
            held = "" if most is None else f"{most:.3f}"
            lines.append(
                f"| {words} | {mode} | {statistics.median(times):.2f} | {spread} | {held} |"
            )
    models = len({row["model"] for row in rows})
    versions = rows[-1]["versions"]
    note = (
        f"Ours over theirs, {models} models, one thread; torch "
        f"{versions['torch'].partition('+')[0]}, transformers {versions['transformers']}, "
        f"{max(row['date'] for row in rows)[:10]}."
    )
    return "\n".join([*lines, "", note])


def bounds() -> str:
    """The stated bounds, beside the worst that was measured on each library."""
    rows = latest("bounds")
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["what"], {})[row["library"]] = row
    heads = ["stated, float32", "at most", "as a multiple of", *libraries]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for what, by_library in found.items():
        row = next(iter(by_library.values()))
        worst = [by_library.get(name, {}).get("worst") for name in libraries]
        cells = [what, f"**{_short(row['stated'])}**", row["of"], *map(_short, worst)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    row = rows[0]
    versions = ", ".join(f"{n} {v.partition('+')[0]}" for n, v in row["versions"].items())
    return "\n".join([*lines, "", f"Measured {row['date'][:10]} on {row['cpu']}, {versions}."])


def _circumstances(row: dict[str, Any]) -> str:
    versions = row["versions"]
    peers = ", ".join(
        f"{name} {version.partition('+')[0]}"
        for name, version in versions.items()
        if name not in ("posenc", "numpy")
    )
    return (
        f"Measured {row['date'][:10]} on {row['cpu']} with {row['threads']} threads; the ways of a "
        f"row took turns in one run. {peers}."
    )


def extension() -> str:
    """What trained models say of the numbers of `posenc extend`."""
    from posenc_study.claims.registered import claims
    from posenc_study.claims.verdicts import judge
    from posenc_study.report.extension import extension_words
    from posenc_study.results.records import read_csv

    results = read_csv(ROOT / "docs" / "data")
    return extension_words(results, judge(results, claims()))


WHOLE: dict[str, Callable[[], str]] = {
    "src/posenc/__init__.pyi": lambda: stub(posenc, PACKAGES, ALIASES),
    "src/posenc/plot/__init__.pyi": lambda: stub(posenc.plot, (), {}),
    "src/posenc/positions.pyi": lambda: stub(posenc.positions, (), {}),
    "src/posenc/explore/static/compute.json": local_data.text,
    "llms.txt": agents.index,
}

BLOCKS: dict[str, Callable[[], str]] = {
    "precision": precision,
    "precision-summary": lambda: precision(THREE),
    "bounds": bounds,
    "import-time": import_time,
    "pairing": pairing,
    "config-formats": config_formats.table,
    "family-pairings": family_pairings.table,
    "faults": faults.table,
    "which-pairing": lambda: family_pairings.LEAD,
    "speed": speed,
    "speed-targets": speed_targets,
    "speed-reasons": speed_reasons.reasons,
    "compiled": compiled,
    "decode": decode,
    "adopted": adopted,
    "contracts": contracts,
    "golden-models": golden_files.table,
    "extension": extension,
    "engines": engine_tables.table,
    "graphs": graphs,
    "rows": check_rows.tables,
    "diffusion": diffusion_classes.table,
    "errors": agents.error_table,
    "exit-codes": agents.exit_codes,
}


SHORT = {
    "speed-reasons": 3,
    "adopted": 10,
    "bounds": 8,
}  # rows of a table that is a file, where short ones are many


def _label(name: str, package: str) -> str:
    number = package.rpartition(" ")[2].partition("+")[0]
    return name if name.startswith(("posenc", "`")) else f"{name} {number}"


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 0.1:
        return f"{value:.1f}"
    digits, exponent = f"{value:.0e}".split("e") if value >= 1e-6 else f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def refreshed(text: str) -> tuple[str, dict[str, dict[str, str]]]:
    """The text with every generated block made anew, and the tables of each as files."""
    tables: dict[str, dict[str, str]] = {}

    def made(block: re.Match[str]) -> str:
        name = block["name"]
        if name in MEASURED:
            return block[0]
        long = SHORT.get(name, shelf.LONG)
        text, tables[name] = shelf.shelved(f"{BLOCKS[name]()}\n", name, long=long)
        return f"{block[1]}{text}{block[3]}"

    return BLOCK.sub(made, text), tables


def main() -> int:
    """Rewrite the files, or compare; 1 if a comparison fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = 0
    for name in (*FILES, *WHOLE):
        path = ROOT / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        made, tables = (WHOLE[name](), {}) if name in WHOLE else refreshed(text)
        wrong = [place for block in tables.items() for place in shelf.unlike(path.parent, *block)]
        if made == text and not wrong:
            continue
        if check:
            print(f"{', '.join([name, *wrong])} is not what the tree says: run `make generate`.")
            stale = 1
            continue
        path.write_text(made, encoding="utf-8")
        for block, files in tables.items():
            shelf.put(path.parent, block, files)
    return stale


if __name__ == "__main__":
    sys.exit(main())

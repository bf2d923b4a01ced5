"""Why a target of speed is missed, in words around figures of `benchmarks/reasons.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.rows import latest

Parts = dict[str, dict[str, Any]]


def reasons() -> str:
    """Every missed target with the parts that its time goes to."""
    rows = [row for row in latest("speed") if row.get("targets")]
    measured = latest("reasons")
    lines: list[str] = []
    for row in rows:
        missed = [target for target in row["targets"] if not target["met"]]
        if not missed:
            continue
        parts = {found["part"]: found for found in measured if found["about"] == row["row"]}
        lines += [f"**{row['row']}**", ""]
        lines += [_told(target) for target in missed]
        lines += ["", *_explained(row, parts), ""]
    if not lines:
        return "Every target was met."
    return "\n".join([*lines, _circumstances(measured[0])])


def _told(target: dict[str, Any]) -> str:
    ratio, aim = target["ratio"], target["factor"]
    return f"- {target['way']} / {target['against']}: {ratio:.3f}, aimed at {aim:.3f}"


def _explained(row: dict[str, Any], parts: Parts) -> Iterator[str]:
    kind = row["row"].partition(" ")[0]
    if not parts or kind not in WORDS:
        yield "Not taken apart: `benchmarks/reasons.py` has no parts of this row."
        return
    yield "| part | µs | ns for each number | pages handed out |"
    yield "|---|--:|--:|--:|"
    for name, part in parts.items():
        each = f"{part['ns_each']:.3f}" if part["values"] > 10_000 else "–"
        yield f"| {name} | {part['ns'] / 1e3:.3g} | {each} | {part['faults']:,} |"
    yield ""
    yield WORDS[kind](row["median_ms"], parts)


def _table(median: dict[str, float], parts: Parts) -> str:
    if "whole call" not in parts:
        return _narrow(parts)
    fill, sines = parts["fill"]["ns_each"], parts["sines to the second cache"]["ns_each"]
    fresh = parts["fill of fresh memory"]
    call = parts["call for one row"]["ns"] / 1e3
    told = (
        f"To compute a number takes {sines:.3f} ns where hardly any memory is written, and to fill "
        f"one in {fill:.3f} ns. "
    )
    if fresh["faults"]:
        told += (
            f"Both are small beside the {fresh['ns_each']:.2f} ns for which the system hands out "
            f"fresh memory, page by page. "
        )
    else:
        told += (
            f"The memory is used again, and much of it stays in the caches: the arithmetic alone "
            f"takes {sines / fill:.1f} times as long as the fill. "
        )
    share = median["fill of fresh memory"] / median["float32 sin and cos, as usual"]
    return (
        told + f"A mere fill of fresh memory took {share:.3f} of the usual construction in the row "
        f"above. The call itself takes {call:.1f} µs."
    )


def _narrow(parts: Parts) -> str:
    fill, sines = parts["fill"]["ns_each"], parts["sines to the second cache"]["ns_each"]
    whole = parts["compiled code"]["ns_each"]
    return (
        f"To compute a number takes {sines:.3f} ns where hardly any memory is written, of "
        f"{whole:.3f} ns for a number of the whole table, and to fill one in {fill:.3f} ns: the "
        f"memory stays in the caches, and the arithmetic alone takes {sines / fill:.1f} times as "
        "long as the fill."
    )


def _sum(median: dict[str, float], parts: Parts) -> str:
    del median
    copy, own = parts["copy"]["ns"] / 1e3, parts["compiled code"]["ns"] / 1e3
    sines, theirs = parts["sines alone"]["ns"] / 1e3, parts["x + a table at hand"]["ns"] / 1e3
    place, call = (
        parts["compiled code, in place"]["ns"] / 1e3,
        parts["call for one row"]["ns"] / 1e3,
    )
    return (
        f"The sines of one sequence serve all eight; they take {sines:.0f} µs, which a copy of "
        f"{copy:.0f} µs has not. With both the sum takes {own:.0f} µs; that of x and a table at "
        f"hand, without any sine, {theirs:.0f} µs. In place it is {place:.0f} µs. The call itself "
        f"takes {call:.1f} µs."
    )


def _bias(median: dict[str, float], parts: Parts) -> str:
    del median
    fill, fresh, whole = (parts[name] for name in ("fill", "fill of fresh memory", "whole call"))
    return (
        f"Scores are written once: a number takes {whole['ns_each']:.3f} ns with "
        f"{whole['faults']:,} pages that the system hands out, a fill of fresh memory "
        f"{fresh['ns_each']:.3f} ns with {fresh['faults']:,}, and one of memory that exists "
        f"{fill['ns_each']:.3f} ns. In the row above the calls before leave pages or none. The "
        f"call itself takes {parts['call for one score']['ns'] / 1e3:.1f} µs."
    )


def _decode(median: dict[str, float], parts: Parts) -> str:
    del median
    whole, code = parts["whole call"]["ns"] / 1e3, parts["compiled code"]["ns"] / 1e3
    module = parts["call of a module that does nothing"]["ns"] / 1e3
    one = parts["compiled code, one head"]["ns"] / 1e3
    return (
        f"Of {whole:.1f} µs the compiled code takes {code:.1f}, of which {one:.1f} go to reading "
        f"three tensors' shapes and strides and checking them, whatever their size. "
        f"{whole - code:.1f} µs are Python: {module:.1f} for torch's call of any module, the rest "
        "for the questions that keep gradients, tracers and transforms right. In the row above "
        "other ways turn the same tensors between two calls, on other processors too, from whose "
        "caches they have to be fetched again."
    )


def _rotate(median: dict[str, float], parts: Parts) -> str:
    del median
    copy, own = parts["copy"]["ns_each"], parts["compiled code"]["ns_each"]
    place, sines = parts["compiled code, in place"]["ns_each"], parts["sines alone"]["ns"] / 1e3
    fresh, ours = parts["copy into fresh memory"], parts["compiled code, fresh memory"]
    return (
        f"On one thread a number costs {place:.3f} ns to turn in place and {own:.3f} ns into other "
        f"memory, where it costs {copy:.3f} ns to copy; with fresh memory {ours['ns_each']:.3f} "
        f"and {fresh['ns_each']:.3f} ns. The sines of all tokens take {sines:.0f} µs of "
        f"{parts['compiled code']['ns'] / 1e3:.0f}."
    )


WORDS: dict[str, Callable[[dict[str, float], Parts], str]] = {
    "table": _table,
    "add": _sum,
    "ALiBi": _bias,
    "decode": _decode,
    "rotate": _rotate,
}


def _circumstances(row: dict[str, Any]) -> str:
    return (
        f"Parts measured {row['date'][:10]} on {row['cpu']} ({row['instructions']}), one thread, "
        "the least of all repeats; the ways took turns in one run."
    )

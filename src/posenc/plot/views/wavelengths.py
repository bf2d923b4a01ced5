"""Wavelengths: how fast each pair turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from posenc._core.spec.spec import Spec
from posenc.encodings.table.column_phases import inner
from posenc.functional import wavelengths
from posenc.plot.columns import Table, settled
from posenc.plot.panels.grammar import Chart, Mark, Series, cells, float32, logarithmic, values
from posenc.plot.panels.text import Described, brief, number, plural, whole
from posenc.plot.rows import refuse, require

MOST_SPECS = 8
Over = Literal["pair", "share"]
PAIRS = "pair: fast → slow"


@dataclass(frozen=True)
class SpecWavelengths:
    """The wavelengths of one encoding."""

    label: str
    wavelengths: np.ndarray
    share: np.ndarray
    last: float
    often_said: float | None
    finished: int | None


@dataclass(frozen=True)
class Wavelengths(Described):
    """The wavelengths of some encodings."""

    ladders: tuple[SpecWavelengths, ...]
    mark: int | None
    over: Over


def data(
    specs: Any,
    *,
    length: int | None = None,
    mark: int | None = None,
    labels: Sequence[str] | None = None,
    over: Over | None = None,
) -> Wavelengths:
    """The wavelength of each pair of one or several encodings.

    Below stands the pair, or how far along the encoding it stands: `share`, as usual where
    encodings differ in width.
    """
    several = [specs] if isinstance(specs, Spec) else list(specs)
    count = len(several)
    require(1 <= count <= MOST_SPECS, " wavelengths", f"1 to {MOST_SPECS:,} specs", count)
    names = [brief(spec) for spec in several] if labels is None else list(labels)
    require(
        len(names) == count,
        " wavelengths: labels",
        "one for each spec",
        f"{len(names)} for {count} specs",
    )
    ladders = tuple(
        _ladder(settled(spec, length), name, mark)
        for spec, name in zip(several, names, strict=True)
    )
    return Wavelengths(
        ladders,
        mark,
        over or ("share" if len({len(ladder.share) for ladder in ladders}) > 1 else "pair"),
        title=ladders[0].label if len(ladders) == 1 else "Wavelengths of pairs",
        caption=tuple(_sentence(ladder, mark, alone=count == 1) for ladder in ladders),
    )


def _ladder(spec: Any, label: str, length: int | None) -> SpecWavelengths:
    plain = inner(spec)
    if not hasattr(plain, "matrix"):
        refuse("wavelengths", spec, "an encoding with sinusoidal phases")
    lengths = wavelengths(plain)
    finite = lengths[np.isfinite(lengths)]
    ladder, base = getattr(plain, "ladder", None), getattr(plain, "base", None)
    usual = getattr(ladder, "spacing", None) == "geometric" and getattr(ladder, "first", 0) == 1
    return SpecWavelengths(
        label,
        lengths,
        (np.arange(len(lengths)) + 0.5) / len(lengths),
        float(finite.max()) if len(finite) else math.inf,
        2 * math.pi * base if usual and isinstance(base, float) else None,
        None if length is None else int((lengths <= length).sum()),
    )


def _sentence(ladder: SpecWavelengths, length: int | None, *, alone: bool) -> str:
    text = "no pair turns"
    if not math.isinf(ladder.last):
        longest = whole(ladder.last) if 100 <= ladder.last < 1e15 else number(ladder.last)
        text = f"the longest wavelength is {longest} positions"
    often = ladder.often_said
    if alone and often is not None and ladder.last < often * (1 - 1e-9):
        text += f", not 2π times the base, {whole(often)}"
    if ladder.finished is not None and length is not None:
        pairs = plural(len(ladder.wavelengths), "pair")
        text += f"; {whole(ladder.finished)} of {pairs} finish a turn within {whole(length)}"
    return f"{text[0].upper()}{text[1:]}." if alone else f"{ladder.label}: {text}."


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return ["encoding", "pair", "wavelength"], (
        [ladder.label, pair, value]
        for ladder in data.ladders
        for pair, value in enumerate(ladder.wavelengths)
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: Wavelengths) -> tuple[Chart]:
    """The wavelength of each pair on a logarithmic axis, with the length marked."""
    wide, share = max(len(ladder.share) for ladder in data.ladders), data.over == "share"
    every = np.concatenate([ladder.wavelengths for ladder in data.ladders])
    finite = every[np.isfinite(every)]
    ends = [6.0, 10.0] if data.mark is None else [data.mark] * 2
    low, high = float(finite.min(initial=ends[0])), float(finite.max(initial=ends[1]))
    unmoved, at = len(every) - len(finite), data.mark
    x = values("share of the pairs: fast → slow", 0.0, 1.0, most=6) if share else None
    return (
        Chart(
            id="wavelengths",
            title="wavelength of each pair, in positions (log)",
            x=x or cells(PAIRS, 0, wide, key="j"),
            y=logarithmic("", low / 1.3, high * 1.3),
            series=tuple(
                Series(
                    ladder.label,
                    ladder.share if share else np.arange(len(ladder.wavelengths)) + 0.5,
                    float32(np.where(np.isfinite(ladder.wavelengths), ladder.wavelengths, np.nan)),
                    n,
                )
                for n, ladder in enumerate(data.ladders)
            ),
            marks=() if at is None else (Mark("y", at, plural(at, "position"), style="solid"),),
            caption=f"{plural(unmoved, 'pair')} never turn." if unmoved else "",
            height=220,
            label="Wavelength of each pair against the number of positions",
        ),
    )

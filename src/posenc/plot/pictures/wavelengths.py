"""Wavelengths: how fast each pair turns."""

from __future__ import annotations

import numpy as np

from posenc.plot.panels.axes import cells, float32, logarithmic, values
from posenc.plot.panels.grammar import Chart, Mark, Series
from posenc.plot.panels.text import plural
from posenc.plot.views.wavelengths import Wavelengths

PAIRS = "pair: fast → slow"


def panels(data: Wavelengths, over: str | None = None) -> tuple[Chart]:
    """The wavelength of each pair on a logarithmic axis, with the length marked.

    Below stands the pair, or how far along the encoding it stands: `share`, as usual where
    encodings differ in width.
    """
    wide = {len(ladder.wavelengths) for ladder in data.ladders}
    share = over == "share" or (over is None and len(wide) > 1)
    every = np.concatenate([ladder.wavelengths for ladder in data.ladders])
    finite = every[np.isfinite(every)]
    ends = [6.0, 10.0] if data.length is None else [data.length] * 2
    low, high = float(finite.min(initial=ends[0])), float(finite.max(initial=ends[1]))
    series = tuple(
        Series(
            ladder.label,
            ladder.share if share else np.arange(len(ladder.wavelengths)) + 0.5,
            float32(np.where(np.isfinite(ladder.wavelengths), ladder.wavelengths, np.nan)),
            n,
        )
        for n, ladder in enumerate(data.ladders)
    )
    unmoved = len(every) - len(finite)
    x = values("share of the pairs: fast → slow", 0.0, 1.0, most=6) if share else None
    at = data.length
    return (
        Chart(
            id="wavelengths",
            title="wavelength of each pair, in positions (log)",
            x=x or cells(PAIRS, 0, max(wide), key="j"),
            y=logarithmic("", low / 1.3, high * 1.3),
            series=series,
            marks=() if at is None else (Mark("y", at, plural(at, "position"), style="solid"),),
            caption=f"{plural(unmoved, 'pair')} never turn." if unmoved else "",
            height=260,
            label="Wavelength of each pair against the number of positions",
        ),
    )

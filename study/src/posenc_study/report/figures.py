"""Curves of quality against length, with 95 % intervals; colour, dashes and labels say which."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc._core.errors import DependencyError, mismatch
from posenc._core.io.outputs import write_whole
from posenc.plot import palette
from posenc_study.model.encodings import ENCODINGS
from posenc_study.statistics import ConfidenceInterval

NAMES = {"rope": "RoPE", "alibi": "ALiBi", "t5": "T5", "none": "no positions", "fire": "FIRE"}
NAMES |= {"kerple": "KERPLE", "xpos": "xPos", "randomised-rope": "randomised RoPE"}
GAP = 0.052  # of the height, between labels


@dataclass(frozen=True)
class ScoreCurve:
    """The scores of an encoding along the tested lengths.

    Parameters
    ----------
    encoding : str
        Its name.
    lengths : tuple of int
        Where it was tested.
    scores : tuple of ConfidenceInterval
        One for each length.
    style : int, optional
        The number of its style in `posenc.plot.palette`; by default that of the encoding.
    """

    encoding: str
    lengths: tuple[int, ...]
    scores: tuple[ConfidenceInterval, ...]
    style: int | None = None


def draw(
    curves: Sequence[ScoreCurve], path: Path, *, title: str, x: str, y: str, trained: int
) -> None:
    """Write a picture of curves as PNG; equal curves give equal bytes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        todo = "Install it: pip install 'posenc[plot]'"
        raise DependencyError(mismatch("posenc study", "matplotlib", error, todo)) from error
    figure = Figure(figsize=(8, 4.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for curve in curves:
        _line(axes, curve)
    lengths = sorted({n for curve in curves for n in curve.lengths})
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    muted = palette.theme("light").muted
    axes.axvline(trained, color=muted, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    _label(axes, curves)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The version of matplotlib would change the bytes of an equal picture.
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None}, facecolor="white")
    write_whole(path, buffer.getvalue())


def _style(encoding: str, number: int | None = None) -> tuple[str, Any]:
    """The colour and the dashes of an encoding, the same in every picture."""
    _, *others = ENCODINGS  # no positions stand first
    place = others.index(encoding) if encoding in others else None
    coloured = len(palette.series()) - 1  # the last is a grey, for what has no positions
    usual = coloured if place is None else place + place // coloured
    colour, dash = palette.style(usual if number is None else number)
    return colour, (0, dash) if dash else "solid"


def _line(axes: Any, curve: ScoreCurve) -> None:
    colour, dashes = _style(curve.encoding, curve.style)
    means = [score.mean for score in curve.scores]
    axes.plot(
        curve.lengths,
        means,
        color=colour,
        linestyle=dashes,
        linewidth=1.8,
        marker="o",
        markersize=3,
    )
    low = [score.low if score.count > 1 else score.mean for score in curve.scores]
    high = [score.high if score.count > 1 else score.mean for score in curve.scores]
    axes.fill_between(curve.lengths, low, high, color=colour, alpha=0.13, linewidth=0)


def _label(axes: Any, curves: Sequence[ScoreCurve]) -> None:
    """Names at the ends of the lines, moved apart where the ends are close."""
    bottom, top = axes.get_ylim()
    ends = sorted((c.scores[-1].mean, i) for i, c in enumerate(curves))
    gap = GAP * (top - bottom)
    places = apart([value for value, _ in ends], gap)
    last = max(n for curve in curves for n in curve.lengths)
    for (value, i), place in zip(ends, places, strict=True):
        curve, (colour, _) = curves[i], _style(curves[i].encoding, curves[i].style)
        axes.annotate(
            NAMES.get(curve.encoding, curve.encoding),
            xy=(curve.lengths[-1], value),
            xytext=(last * 1.09, place),
            textcoords="data",
            color=colour,
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkB": 3},
        )


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Places near sorted values that are at least a gap apart."""
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _low(groups[-1], gap) < _high(groups[-2], gap) + gap:
            last = groups.pop()
            groups[-1] += last
    return [_low(group, gap) + i * gap for group in groups for i in range(len(group))]


def _low(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _high(group: Sequence[float], gap: float) -> float:
    return _low(group, gap) + gap * (len(group) - 1)

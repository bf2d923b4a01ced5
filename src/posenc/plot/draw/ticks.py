"""Ticks by the rule of an axis: as many as have room for their labels."""

from __future__ import annotations

from typing import Any

from posenc.plot.draw.look import worded
from posenc.plot.panels.grammar import Axis
from posenc.plot.panels.text import Tick

MOST = 7  # ticks of an axis


def ruled(axis: Any, rule: Axis) -> None:
    """Ticks of matplotlib at the places and with the words that a rule gives."""
    from matplotlib.ticker import FuncFormatter, Locator, NullLocator

    words: dict[float, str] = {}

    class Ruled(Locator):
        """The most ticks that stand beside each other."""

        def __call__(self) -> list[float]:
            shown = {tick.at: worded(tick.text) for tick in _shown(self.axis, rule)}
            words.update(shown)
            return list(shown)

    axis.set_major_locator(Ruled())
    if _turned(axis, rule):
        axis.set_tick_params(rotation=90)
    axis.set_major_formatter(FuncFormatter(lambda at, _: words.get(at, "")))
    axis.set_minor_locator(NullLocator())


def _turned(axis: Any, rule: Axis) -> bool:
    """Whether labels stand upright: words below a picture."""
    words = rule.names if isinstance(rule.names, tuple) else ()
    return axis.axis_name == "x" and any(word[-1:].isalpha() for word in words)


def _shown(axis: Any, rule: Axis) -> tuple[Tick, ...]:
    most = MOST if rule.most > 2 else rule.most
    if isinstance(rule.names, tuple):
        most = len(rule.names)
    for several in range(most, 0, -1):
        marks = rule.marks(several)
        longest = max((len(mark.text) for mark in marks), default=1)
        if len(marks) <= _room(axis, longest, turned=_turned(axis, rule)):
            return marks
    return rule.marks(1)[:1] if most else ()


def _room(axis: Any, letters: int, *, turned: bool) -> int:
    """How many labels of so many letters stand beside each other along an axis."""
    box = axis.axes.get_window_extent()
    size = axis.get_major_ticks(1)[0].label1.get_size()
    across = axis.axis_name == "x" and not turned
    length = (box.width if axis.axis_name == "x" else box.height) * 72 / axis.axes.figure.dpi
    return max(1, int(length / (size * (0.64 * letters + 1.2 if across else 1.7))))

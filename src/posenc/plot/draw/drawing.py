"""From numbers to a picture: its panels on a sheet, with the pixels that they turn out to have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from posenc.plot.draw.look import Frame
from posenc.plot.draw.paper import Room, paint
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.pixels import device
from posenc.plot.draw.sheet import Sheet
from posenc.plot.panels.grammar import Panel


class PicturePlan(NamedTuple):
    """What is drawn, and how: the words above, and the room that the panels have."""

    name: str
    arguments: Mapping[str, Any]
    question: str
    room: Room = Room()
    title: str = ""
    lines: Literal["joined", "apart"] = "joined"
    alone: bool = False


def drawn(
    plan: PicturePlan,
    ax: Any,
    frame: Frame,
    make: Callable[[int, int], Any],
    panels: Callable[[Any], Iterable[Panel]],
) -> Picture:
    """The picture of what `make` gives for rows and columns of the device.

    Matrices are made for their pixels, which are settled by the layout: where they are others than
    expected, all is made and drawn again.
    """
    wide, high = plan.room.cell
    pixels = (high, wide) if ax is not None else (frame.pixels(high), frame.pixels(wide))
    if ax is not None and plan.alone:
        pixels = device(ax)
    for last in (False, True):
        data = make(*pixels)
        sheet = Sheet(
            ax, frame, plan.question, data, title=plan.title, lines=plan.lines, alone=plan.alone
        )
        paint(sheet, panels(data), plan.room)
        picture = sheet.picture(plan.name, data, plan.arguments)
        wanted = sheet.pixels()
        if last or wanted is None or sheet.direct:
            break
        pixels = wanted
        if ax is not None:
            sheet.clear()
    return picture

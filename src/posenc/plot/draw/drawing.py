"""From what is asked for to a picture: its numbers, its panels on a sheet, and its pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from posenc.plot.draw.layout import Room, device
from posenc.plot.draw.look import Frame, asked, framed
from posenc.plot.draw.paper import paint
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.panels.grammar import Panel
from posenc.plot.rows import PICTURES, PictureRow, view_of

NO_NUMBERS = ("spec", "ax", "height", "look")  # arguments that the numbers do not depend on


def made(name: str, arguments: Mapping[str, Any]) -> Picture:
    """What a function of `posenc.plot` was asked for, by its `locals()`."""
    settings, frame = asked(name, arguments)
    row, view = PICTURES[name], view_of(name)
    options = {key: value for key, value in arguments.items() if key not in NO_NUMBERS}
    return drawn(
        row,
        settings,
        frame,
        Room(frame.width or row.wide, high=arguments.get("height") or row.high),
        arguments["ax"],
        lambda **pixels: view.data(arguments["spec"], **options, **pixels),
        view.panels,
    )


def of_panels(panels: Sequence[Panel], title: str, about: str, theme: str) -> Picture:
    """Panels that somebody has made, one below the other."""
    row, data = PictureRow("panels", "", question=title), SimpleNamespace(title=about, caption=())
    sheet = Sheet(None, framed({"theme": theme}), row, data)
    paint(sheet, panels, Room(row.wide))
    return sheet.picture(row.name, data, {})


def drawn(
    row: PictureRow,
    settings: Mapping[str, Any],
    frame: Frame,
    room: Room,
    ax: Any,
    make: Callable[..., Any],
    panels: Callable[[Any], Sequence[Panel]],
) -> Picture:
    """The panels of what `make` gives for pixels of the device, in a figure or in given axes.

    Matrices are made for their pixels, which are settled by the layout: where they are others than
    expected, all is made and drawn again.
    """
    wide, high = room.matrix
    pixels = device(ax) if ax is not None else (frame.pixels(high), frame.pixels(wide))
    line = frame.along(room.wide) if ax is None else room.wide
    for last in (False, True):
        data = make(**row.in_pixels(*pixels, line))
        shown = panels(data)
        sheet = Sheet(ax, frame, row, data, alone=len(shown) == 1 and shown[0].alone)
        paint(sheet, shown, room)
        picture = sheet.picture(row.name, data, settings)
        wanted = sheet.pixels()
        if last or wanted is None or sheet.direct:
            break
        pixels = wanted
        if ax is not None:
            sheet.clear()
    return picture

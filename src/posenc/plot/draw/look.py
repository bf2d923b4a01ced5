"""How a picture looks: what the caller says, else the settings of matplotlib, else the palette."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import numpy as np

from posenc._core.errors import ArgumentError, KeywordError, bad_argument, suggest
from posenc.plot import palette
from posenc.plot.draw.layout import whole
from posenc.plot.rows import PICTURES, require

DPI = 72  # of the layout: a pixel is a point, in a PNG as in an SVG
PAPER_DPI = 300.0  # where a size in inches is asked for, and no resolution
UNITS = {"in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "pt": 1.0}
LEAST_DPI, MOST_DPI = 18, 2400
SAVING = r"(save|path|file|f?name$|out)"  # how arguments of others begin that name a file
SAVED = "The picture that it returns is saved: posenc.plot.PICTURE(spec).save('FILE.png')."
SIZE = "a width with its unit, or both sides: 3.3in, 84mm, 3.3in x 2.2in"


def worded(text: str) -> str:
    """The text as paper has it: dollar signs as such but in formulas."""
    if "$" not in text:
        return text
    from matplotlib.cbook import is_math_text
    from matplotlib.mathtext import MathTextParser

    try:
        for line in filter(is_math_text, text.split("\n")):
            MathTextParser("path").parse(line)
    except Exception:  # noqa: BLE001 - of its parser, whose errors have no common kind
        return re.sub(r"(?<!\\)\$", r"\\$", text)
    return text


class Look(TypedDict, total=False):
    """The keywords of every picture, which `Frame` reads."""

    width: int | None
    size: str | None
    scale: float | None
    dpi: float | None
    theme: str | None
    title: str | bool
    caption: bool
    color: Any
    label: Any
    cmap: Any


class Frame(NamedTuple):
    """How large a picture is, how fine, and how it looks."""

    width: int | None = None  # pixels of a panel, at most
    size: str | None = None  # of the whole picture
    scale: Any = None  # device pixels to a pixel
    dpi: float | None = None
    theme: str | None = None
    title: str | bool = True
    caption: bool = True
    color: Any = None
    label: Any = None
    cmap: Any = None

    @property
    def points(self) -> tuple[float, float | None] | None:
        """The size in points: width and height, if it is given."""
        if self.size is None:
            return None
        number = r"\s*(\d+\.?\d*|\.\d+)\s*(in|cm|mm|pt)\s*"
        sides = re.fullmatch(f"{number}(?:[x×]{number})?", str(self.size))
        width, unit, height, other = sides.groups() if sides else ("0", "in", "", "")
        across = float(width) * UNITS[unit]
        down = float(height) * UNITS[str(other)] if height else None
        require(
            all(36 <= side <= 7200 for side in (across, down or 72)),
            ": size",
            SIZE,
            f"{self.size!r}"[:60],
            "Sides go from 0.5in to 100in." if sides else "",
        )
        return across, down

    @property
    def shrunk(self) -> float:
        """About how much smaller panels become where the size is given."""
        return min(1.0, self.points[0] / 640) if self.points else 1.0

    def pixels(self, side: float) -> int:
        """Pixels of the device for so many of a panel, about so many where the size is given."""
        return whole(side * self.shrunk * self.scale)

    def along(self, wide: int) -> int:
        """How many numbers a curve of so many pixels takes; a line on paper is a point wide."""
        return max(50, round(self.points[0] * 0.6)) if self.points else round(wide * self.scale)


def framed(look: Mapping[str, Any]) -> Frame:
    """What the keywords say, checked, with `scale` as what `scale`, `dpi` and `size` come to."""
    frame = Frame(**look)
    scale, dpi, title, label = frame.scale, frame.dpi, frame.title, frame.label
    for name, value in (("scale", scale), ("dpi", dpi)):
        require(
            value is None or (isinstance(value, int | float | np.number) and math.isfinite(value)),
            f": {name}",
            "a finite number",
            repr(value)[:60],
        )
    paper = frame.points is not None
    if dpi is not None and scale is not None:
        raise ArgumentError("plot: scale and dpi say the same; give one of them.")
    if paper and frame.width is not None:
        raise ArgumentError("plot: width is of a panel, size of the whole picture; give one.")
    require(
        dpi is None or LEAST_DPI <= dpi <= MOST_DPI, ": dpi", f"{LEAST_DPI} to {MOST_DPI:,}", dpi
    )
    require(scale is None or 0.25 <= scale <= 8, ": scale", "0.25 to 8", scale)
    require(isinstance(title, (str, bool)), ": title", "a text, True or False", repr(title))
    fits = label is None or all(
        isinstance(each, str) for each in (label if isinstance(label, (list, tuple)) else [label])
    )
    require(fits, ": label", "a text, or a list of them", repr(label)[:60])
    if isinstance(title, str):  # half a surrogate pair is no text
        frame = frame._replace(title=title.encode("utf-8", "replace").decode())
    if scale is not None:
        return frame
    return frame._replace(scale=(dpi if dpi is not None else PAPER_DPI if paper else DPI) / DPI)


def asked(picture: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Frame]:
    """What the function of a picture was asked for, its arrays left out; and its frame."""
    look = arguments["look"]
    settings = {k: v for k, v in arguments.items() if k not in ("ax", "params", "look")}
    check_settings(picture, {**settings, **look}, arguments.keys() - {"look"})
    check_length(picture, settings, arguments["spec"])
    return settings | dict(look), framed(look)


def check_settings(picture: str, settings: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise for an argument that a picture does not have, and for one of the wrong kind.

    The kinds are those by which the command reads its options, and those of `MORE`.
    """
    choices = [*names, *Frame._fields]
    options = {take.argument: take for take in PICTURES[picture].options}
    for name, value in settings.items():
        if name not in choices:
            todo = (
                SAVED.replace("PICTURE", picture)
                if re.match(SAVING, name)
                else suggest(name, choices)
            )
            raise KeywordError(f"posenc.plot.{picture} has no argument {name!r}. {todo}")
        reads = options[name].reads if name in options else MORE.get(name, "")
        if value is None or reads not in KINDS:
            continue
        fits, expected = KINDS[reads]
        words = options[name].words if name in options else ()
        require(
            fits(value) and (not words or value in words),
            f" {picture}: {name}",
            ", ".join(words) or expected,
            reprlib.repr(value),
        )


def check_length(picture: str, settings: Mapping[str, Any], *specs: Any) -> None:
    """Raise for a length that no rule of the encodings reads: it is not what is drawn."""
    length = settings.get("length")
    lists = (spec if isinstance(spec, (list, tuple)) else (spec,) for spec in specs)
    if length is None or any(getattr(one, "needs_length", False) for each in lists for one in each):
        return
    raise bad_argument(
        f"plot {picture}: length",
        "an encoding whose scaling rule reads it",
        length,
        f"To draw so many positions, write {PICTURES[picture].extent}={length}.",
    )


def _is_count(value: Any) -> bool:
    return _is_whole(value) and 0 < value < 2**62


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _are_whole(value: Any) -> bool:
    return isinstance(value, (list, tuple, range, np.ndarray)) and all(map(_is_whole, value))


def _are_numbers(value: Any) -> bool:
    try:
        return bool(np.asarray(value, dtype=np.float64).size)
    except (TypeError, ValueError):
        return False


# Whether a value is of a kind, and what is expected; `range` and `stretch` are checked where read.
KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "count": (_is_count, "a whole number from 1 on"),
    "pixels": (_is_count, "a whole number from 1 on"),
    "integer": (_is_whole, "a whole number"),
    "float": (lambda x: isinstance(x, float) or _is_whole(x), "a number"),
    "flag": (lambda x: isinstance(x, bool | np.bool_), "True or False"),
    "word": (lambda x: isinstance(x, str), "a word"),
    "list": (_are_whole, "a list of whole numbers"),
    "two": (lambda x: _are_whole(x) and len(x) == 2, "two whole numbers"),
    "grid": (_are_whole, "a tuple of whole numbers"),
    "names": (
        lambda x: (
            isinstance(x, str | list | tuple) and len(x) > 0 and all(isinstance(w, str) for w in x)
        ),
        "words",
    ),
    "numbers": (_are_numbers, "an array of numbers"),
}
MORE = {"width": "pixels", "labels": "names", "tokens": "names"} | dict.fromkeys(
    ("embeddings", "query", "key"), "numbers"
)


# --- what matplotlib is set to --------------------------------------------------------------------


def changed(library: Any, key: str) -> Any:
    """A setting that a user or a style sheet has changed, else None."""
    value = library.rcParams[key]
    return None if value == library.rcParamsDefault[key] else value


def theme_of(library: Any, frame: Frame, ax: Any) -> palette.Theme:
    """The colours around the data: of the theme, else of the page that is drawn on."""
    from matplotlib.colors import to_hex, to_rgba

    if frame.theme is not None:
        return palette.theme(frame.theme)
    page = changed(library, "figure.facecolor")
    if ax is not None:
        page = ax.get_facecolor() if to_rgba(ax.get_facecolor())[3] else ax.figure.get_facecolor()
    if page is None or to_rgba(page)[3] == 0:
        return palette.theme("light")
    keys = {"ink": "text.color", "muted": "xtick.color", "rule": "axes.edgecolor"}
    named: dict[str, Any] = {
        k: to_hex(colour)
        for k, colour in {name: changed(library, key) for name, key in keys.items()}.items()
        if colour is not None
    }
    return replace(
        palette.theme(
            "dark" if palette.to_oklab(np.array(to_rgba(page)[:3]) * 255)[0] < 0.5 else "light"
        ),
        page=to_hex(page),
        **named,
    )


def colours_of(library: Any, frame: Frame) -> tuple[Any, ...]:
    """Colours of curves that take the place of the palette's, if there are any."""
    from matplotlib.colors import is_color_like

    if frame.color is None:
        cycle = changed(library, "axes.prop_cycle")
        return tuple(cycle.by_key().get("color", ())) if cycle is not None else ()
    single = is_color_like(frame.color) or not isinstance(frame.color, Iterable)
    several = (frame.color,) if single else tuple(frame.color)
    require(
        several and all(map(is_color_like, several)),
        ": color",
        "colours of matplotlib",
        repr(frame.color)[:60],
    )
    return several


def luts_of(library: Any, frame: Frame, theme: palette.Theme) -> dict[str, np.ndarray]:
    """(256, 3) colours by the names that panels have; entry 0 of signed values is no value."""
    own = {
        name: getattr(palette, name)(theme.name) for name in ("diverging", "sequential", "parts")
    }
    if frame.cmap is None:
        return own
    known, cmap, todo = library.colormaps, frame.cmap, ""
    if isinstance(cmap, str):
        cmap, todo = known.get(cmap), "" if cmap in known else suggest(cmap, list(known))
    require(
        callable(cmap),
        ": cmap",
        "a colour map of matplotlib",
        repr(frame.cmap[:60]) if todo else type(cmap).__name__,
        todo,
    )
    signed = np.clip((np.arange(256) - 1) / 254, 0, 1)
    signed[0] = 0.5
    return own | {
        name: np.rint(np.asarray(cmap(each))[:, :3] * 255).astype(np.uint8)
        for name, each in {"diverging": signed, "sequential": np.arange(256) / 255}.items()
    }

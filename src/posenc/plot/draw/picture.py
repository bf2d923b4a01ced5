"""A picture: a figure with what it shows, and the files it becomes, the same bytes each time."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.sax.saxutils import escape

import numpy as np

from posenc._core.errors import DependencyError
from posenc._core.io import inputs, outputs
from posenc._core.spec.answers import Absent
from posenc._core.spec.spec import Value
from posenc.plot.rows import require

# Settings of files; those of `FIXED` hold whatever a style sheet says, as equal pictures are equal
# files of the size that was asked for.
RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "posenc",
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
}
FIXED = ("svg.hashsalt", "savefig.bbox", "savefig.facecolor")
# What matplotlib would say of itself and of the hour.
UNSAID = {
    "png": ("Software",),
    "svg": ("Date", "Creator", "Format", "Type"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
FORMATS = tuple(UNSAID)


def library() -> Any:
    """Matplotlib, or an error that says how to install it."""
    try:
        import matplotlib as mpl
        import matplotlib.figure
    except ImportError as error:
        raise DependencyError(
            f"plots need matplotlib ({error}). Install it: pip install 'posenc[plot]'"
        ) from error
    return mpl


def own_settings() -> dict[str, Any]:
    """Settings of ours, but for those that a user has chosen."""
    now, usual = library().rcParams, library().rcParamsDefault
    return {k: v for k, v in RC.items() if k in FIXED or now[k] == usual[k]}


def plain(value: Any) -> Any:
    """Options as plain JSON types; specs as their fields, arrays by their shapes."""
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray):
        return f"array of shape {list(value.shape)}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    data : object
        What `posenc.plot.views` gave: arrays and sentences.
    parameters : mapping
        What was asked for, as plain JSON types.
    title, description : str
        For readers that do not see.
    physical : bool
        Whether its size is in inches rather than pixels.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> picture = posenc.plot.table(posenc.Sinusoidal(8), positions=4)
    >>> picture.data.tile.values.shape, picture.to_bytes("svg")[:5]
    ((4, 8), b'<?xml')
    """

    figure: Any
    data: Any
    parameters: Mapping[str, Any]
    title: str
    description: str
    physical: bool = False

    # A type checker must not see it: to it, every misspelt name would then be there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name if name.startswith("_") else Absent(self, name))

    def to_bytes(self, format: Literal["png", "svg", "pdf"] = "png") -> bytes:  # noqa: A002
        """The file, with the same bytes each time.

        Parameters
        ----------
        format : {"png", "svg", "pdf"}
            Which. A PNG carries the parameters as text; an SVG title, description and text as text;
            a PDF title, description, parameters and its fonts.

        Returns
        -------
        bytes
            The whole file.
        """
        require(format in FORMATS, ": format", "png, svg or pdf", repr(format))
        words, about = json.dumps(self.parameters, sort_keys=True), self.description
        metadata: dict[str, dict[str, str]] = {
            "png": {"Description": about, "posenc": words},
            "svg": {"Description": words},
            "pdf": {"Subject": about, "Keywords": words},
        }
        own = {**dict.fromkeys(UNSAID[format]), "Title": self.title, **metadata[format]}
        buffer = io.BytesIO()
        with library().rc_context(own_settings()):
            self.figure.savefig(buffer, format=format, dpi=self.figure.dpi, metadata=own)
        return (
            buffer.getvalue()
            if format != "svg"
            else _described(buffer.getvalue().decode(), about, self.physical).encode()
        )

    def save(self, path: str | Path, *, existing: Literal["refuse", "replace"] = "refuse") -> Path:
        """Write a PNG, an SVG or a PDF, by the suffix; it appears when it is complete.

        Parameters
        ----------
        path : str or path
            Ends in `.png`, `.svg` or `.pdf`.
        existing : {"refuse", "replace"}
            What becomes of a file that has the name.

        Returns
        -------
        Path
            The path.
        """
        target = inputs.named(path, "plot: path")
        kind: Any = target.suffix.removeprefix(".")
        require(kind in FORMATS, ": path", "a name in .png, .svg or .pdf", repr(str(path)))
        outputs.write_whole(target, self.to_bytes(kind), existing=existing)
        return target

    def _repr_png_(self) -> bytes:
        return self.to_bytes("png")


def _described(svg: str, description: str, physical: bool) -> str:
    """A description element, sizes in pixels unless physical, rasters that no viewer smooths."""
    svg = svg.replace("</title>", f"</title>\n <desc>{escape(description)}</desc>", 1)
    if not physical:
        svg = re.sub(
            r'width="([\d.]+)pt" height="([\d.]+)pt"', r'width="\1" height="\2"', svg, count=1
        )
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("<image ", '<image style="image-rendering: pixelated" ')


# --- pictures one after the other, for slides: a GIF, or an SVG that moves by its own style -------

MOVING = (".gif", ".svg")
PAUSE = 0.25  # seconds to a picture
PALETTE = 12  # pictures, at most, whose colours the palette holds
NAMES = re.compile(r'(\bid="|xlink:href="#|url\(#)')  # each picture has its own
SVG = """<svg xmlns="http://www.w3.org/2000/svg" {size}>
<style>
.frame {{ visibility: hidden; animation: frame {whole}s step-end infinite; }}
@keyframes frame {{ 0% {{ visibility: visible; }} {share:.4f}% {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce) {{
  .frame {{ animation: none; }} .frame:first-of-type {{ visibility: visible; }}
}}
</style>
{frames}</svg>
"""


def moving(pictures: Sequence[Picture], kind: str) -> bytes:
    """One `gif` or `svg` of pictures, a quarter of a second each, without an end.

    It is as large as the largest of them. Where less motion is asked for, an SVG shows the first.
    """
    if kind == "gif":
        return _gif(pictures)
    return _svg([one.to_bytes("svg").decode() for one in pictures]).encode()


def _gif(pictures: Sequence[Picture]) -> bytes:
    from PIL import Image

    drawn = [Image.open(io.BytesIO(one.to_bytes("png"))).convert("RGB") for one in pictures]
    width, height = (max(sizes) for sizes in zip(*(one.size for one in drawn), strict=True))
    frames = [Image.new("RGB", (width, height), one.getpixel((0, 0))) for one in drawn]
    for frame, one in zip(frames, drawn, strict=True):
        frame.paste(one)
    # One palette: a frame holds what changed alone. The most frequent colours alone lack letters.
    some = frames[:: -(-len(frames) // PALETTE)]
    sheet = Image.new("RGB", (width, height * len(some)))
    for n, frame in enumerate(some):
        sheet.paste(frame, (0, n * height))
    colours = sheet.quantize(256, Image.Quantize.MAXCOVERAGE)
    none = Image.Dither.NONE
    first, *others = (frame.quantize(palette=colours, dither=none) for frame in frames)
    written = io.BytesIO()
    pause = int(1000 * PAUSE)
    first.save(written, "GIF", save_all=True, append_images=others, duration=pause, loop=0)
    return written.getvalue()


def _svg(pictures: Sequence[str]) -> str:
    frames = []
    for n, text in enumerate(pictures):
        own = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg ") :], flags=re.DOTALL)
        named = NAMES.sub(rf"\1f{n}-", own)
        frames.append(f'<g class="frame" style="animation-delay: {n * PAUSE}s">\n{named}</g>\n')
    boxes = [re.findall(r'width="(\S+)" height="(\S+)" viewBox', text)[0] for text in pictures]
    w, h = (max(map(float, sizes)) for sizes in zip(*boxes, strict=True))
    size = f'width="{w:g}" height="{h:g}" viewBox="0 0 {w:g} {h:g}"'
    whole, share = len(pictures) * PAUSE, 100 / len(pictures)
    return SVG.format(size=size, whole=whole, share=share, frames="".join(frames))

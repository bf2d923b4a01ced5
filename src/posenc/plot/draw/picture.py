"""A picture: a figure with what it shows, and the files it becomes, the same bytes each time."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from posenc._core.errors import ArgumentError, DependencyError, mismatch
from posenc._core.io import files

__all__ = ["DPI", "RC", "Picture", "library"]

DPI = 72  # of the layout: a pixel is a point, in a PNG as in an SVG
RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "posenc",
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "path.simplify": True,
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
}
FORMATS = ("png", "svg")


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
    scale : float
        Device pixels to a pixel of the layout.

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
    scale: float = 1.0

    def to_bytes(self, format: Literal["png", "svg"] = "png") -> bytes:  # noqa: A002
        """The file, with the same bytes each time.

        Parameters
        ----------
        format : {"png", "svg"}
            Which. A PNG carries the parameters as text, an SVG title, description and text as text.

        Returns
        -------
        bytes
            The whole file.
        """
        if format not in FORMATS:
            raise ArgumentError(mismatch("plot: format", "png or svg", repr(format)))
        words = json.dumps(self.parameters, sort_keys=True)
        buffer = io.BytesIO()
        with library().rc_context(RC):
            if format == "png":
                about = {"Software": None, "Title": self.title, "Description": self.description}
                self.figure.savefig(
                    buffer,
                    format="png",
                    dpi=self.figure.dpi,
                    metadata={**about, "posenc": words},
                )
                return buffer.getvalue()
            plain = {"Date": None, "Creator": None, "Format": None, "Type": None}
            self.figure.savefig(
                buffer,
                format="svg",
                dpi=self.figure.dpi,
                metadata={**plain, "Title": self.title, "Description": words},
            )
        return _described(buffer.getvalue().decode(), self.description).encode()

    def save(self, path: str | Path, *, existing: Literal["refuse", "replace"] = "refuse") -> Path:
        """Write a PNG or an SVG, by the suffix; it appears when it is complete.

        Parameters
        ----------
        path : str or path
            Ends in `.png` or `.svg`.
        existing : {"refuse", "replace"}
            What becomes of a file that has the name.

        Returns
        -------
        Path
            The path.
        """
        target = Path(path)
        if target.suffix not in (".png", ".svg"):
            raise ArgumentError(mismatch("plot: path", "a name in .png or .svg", repr(str(path))))
        data = self.to_bytes("png" if target.suffix == ".png" else "svg")
        with files.replacing(target, existing=existing) as file:
            file.write(data)
        return target

    def _repr_png_(self) -> bytes:
        return self.to_bytes("png")


def _described(svg: str, description: str) -> str:
    """A description element, sizes in pixels, and rasters that no viewer smooths."""
    about = f"</title>\n <desc>{escape(description)}</desc>"
    svg = svg.replace("</title>", about, 1)
    svg = re.sub(r'width="([\d.]+)pt" height="([\d.]+)pt"', r'width="\1" height="\2"', svg, count=1)
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("<image ", '<image style="image-rendering: pixelated" ')

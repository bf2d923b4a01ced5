"""Specs, plans and findings as notebooks show them: a name, a small picture, and sentences.

The HTML has no script, no colour of its own but the picture's, and only escaped text, so it reads
in light and in dark. The picture is a PNG of at most 96 x 48 pixels.
"""

from __future__ import annotations

import base64
import contextlib
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.reading import Reading
from posenc._core.spec.answers import brief
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec, Value
from posenc.detect import extend, identify
from posenc.detect.explain import lines, plan_lines
from posenc.detect.extend.report import lines as extension_lines
from posenc.detect.facts import Facts
from posenc.functional import bias, wavelengths
from posenc.plot import palette
from posenc.plot.panels.text import number, plural
from posenc.plot.raster import tile

LARGEST = 20_000  # bytes
MOST_LINES, LONGEST_LINE, LONGEST_CALL = 60, 2000, 300
SIZE = (48, 96)  # pixels of a picture
WIDEST = 8192
BOX = "border-left:3px solid;padding:2px 0 2px 12px;margin:4px 0;max-width:60em"
TEXT = "white-space:pre-wrap;margin:4px 0;font-size:12px;line-height:1.4;background:none"


def html(value: Any) -> str:
    """A value as HTML."""
    picture = ""
    with contextlib.suppress(PosencError):  # words do for what has none
        picture = _picture(value if isinstance(value, (Reading, Plan, Spec)) else _spec_of(value))
    sentences = [_cut(line, LONGEST_LINE) for line in lines_of(value)]
    kept = sentences[:MOST_LINES]
    while True:
        left = len(sentences) - len(kept)
        more = [f"… and {plural(left, 'more line')}"] if left else []
        # The call makes a spec or a value; findings and plans speak for themselves.
        page = _page(
            type(value).__name__,
            picture,
            _cut(brief(value), LONGEST_CALL)
            if isinstance(value, Value) and not isinstance(value, (Reading, Plan))
            else "",
            [*kept, *more],
        )
        if len(page.encode()) <= LARGEST or not kept:
            return page
        kept = kept[: len(kept) * 3 // 4]


def _page(name: str, picture: str, call: str, sentences: Iterable[str]) -> str:
    text = _escaped("\n".join(sentences))
    code = f"<div><code style='background:none'>{_escaped(call)}</code></div>" if call else ""
    body = f"<pre style='{TEXT}'>{text}</pre>" if text else ""
    return f"<div style='{BOX}'><strong>{_escaped(name)}</strong>{code}{picture}{body}</div>"


def _escaped(text: str) -> str:
    """A text in HTML; half a surrogate pair, which JSON may hold, is no text."""
    return escape(text).encode("utf-8", "replace").decode()


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _spec_of(value: Any) -> Spec | None:
    """The spec that a finding claims."""
    own = getattr(value, "spec", None) or getattr(getattr(value, "best", None), "spec", None)
    return own if isinstance(own, Spec) else None


# --- words ----------------------------------------------------------------------------------------


def lines_of(value: Any) -> list[str]:
    """What a value says of itself, a line at a time."""
    for kind, tell in TELLERS:
        if isinstance(value, kind):
            return list(tell(value))
    if hasattr(type(value), "lines"):
        return list(value.lines())
    text = str(value) if "__str__" in vars(type(value)) else getattr(value, "text", "")
    return str(text or repr(value)).splitlines()


def _of_spec(spec: Any) -> Iterator[str]:
    axes = "" if len(spec.axes) == 1 else f", axes {', '.join(spec.axes)}"
    yield f"{spec.kind}: {KINDS[spec.kind]}{axes}"
    if spec.shapes:
        count = sum(math.prod(shape) for shape in spec.shapes.values())
        yield f"learns {plural(count, 'number')}, so a picture needs its weights"
    if getattr(spec, "needs_length", False):
        yield "its frequencies depend on the length: spec.at(length) fixes them"
        return
    try:
        waves = np.asarray(wavelengths(spec), dtype=np.float64)
    except (PosencError, TypeError):
        return
    turning = waves[np.isfinite(waves)]
    if turning.size:
        unmoved = waves.size - turning.size
        still = f"; {plural(unmoved, 'pair')} never turn" if unmoved else ""
        ends = f"{number(float(turning.min()))} to {number(float(turning.max()))} positions"
        yield f"{plural(waves.size, 'wavelength')}, {ends}{still}"


KINDS = {
    "table": "added to embeddings",
    "rotary": "turns queries and keys",
    "bias": "added to the scores",
    "relative": "scores that depend on the content",
}


TELLERS: tuple[tuple[Any, Callable[[Any], Iterable[str]]], ...] = (
    (Reading, lines),
    (Facts, lambda value: lines(value.explained)),
    (Plan, plan_lines),
    (identify.Identification, lambda value: identify.lines(value, most=6)),
    (extend.Extension, extension_lines),
    (Spec, _of_spec),
    (Value, lambda _: ()),  # its call says all
)


# --- pictures -------------------------------------------------------------------------------------


def _picture(value: Any) -> str:
    """An image of a plan's layers, or of what a spec adds; empty where there is none to draw."""
    if isinstance(value, (Reading, Plan)):
        return _layers(value)
    if (
        value is None
        or value.shapes
        or len(value.axes) > 1
        or int(getattr(value, "dim", 1)) > WIDEST
        or getattr(value, "needs_length", False)
        or getattr(value, "coordinates", "") == "real"
    ):
        return ""
    if value.kind == "bias":
        heads = None if value.heads is None else (0, 1)  # there may be many
        scores = np.asarray(bias(value, SIZE[0], heads=heads), dtype=np.float64)
        rows = scores.reshape(-1, *scores.shape[-2:])[0]
        words = "its bias: a row for each query, a column for each key"
    elif value.kind in ("table", "rotary"):
        rows = tile(value, SIZE[0], rows=SIZE[0], columns=SIZE[1]).values
        words = "positions run down, dimensions across"
    else:
        return ""
    return _image(palette.indices(rows, palette.largest(rows) or 1.0), palette.diverging(), words)


def _layers(plan: Reading | Plan) -> str:
    """A row for each type of layer, a column for each layer that is named; empty without any."""
    rows = (
        [[i for i, name in enumerate(plan.layers) if name == e.name] for e in plan.entries]
        if isinstance(plan, Plan)
        else [list(layer.indices) for layer in plan if layer.indices]
    )
    count = max((max(row, default=-1) for row in rows), default=-1) + 1
    if not 0 < count <= 1024 or len(rows) > SIZE[0]:
        return ""
    cells = np.zeros((len(rows), count), dtype=np.uint8)
    for cell, row in zip(cells, rows, strict=True):
        cell[row] = 200
    return _image(cells, palette.sequential(), "which layer is of which type")


def _image(cells: np.ndarray, lut: np.ndarray, words: str) -> str:
    """A PNG with a palette, in the page itself."""
    height, width = cells.shape
    raw = np.zeros((height, width + 1), dtype=np.uint8)  # each row begins with its filter, none
    raw[:, 1:] = cells
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(*piece)
        for piece in {
            b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
            b"PLTE": np.ascontiguousarray(lut[:, :3], dtype=np.uint8).tobytes(),
            b"IDAT": zlib.compress(raw.tobytes(), 9),
            b"IEND": b"",
        }.items()
    )
    alt, data = escape(words, quote=True), base64.b64encode(png).decode()
    high = min(120, max(10 * height, 24)) if height < SIZE[0] else 2 * height
    style = f"display:block;margin:6px 0;width:{max(192, min(6 * width, 480))}px;height:{high}px"
    return (
        f"<img alt='{alt}' title='{alt}' style='{style};image-rendering:pixelated' "
        f"src='data:image/png;base64,{data}'>"
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

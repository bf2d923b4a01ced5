"""Files of pictures: each pixel as computed, text as text, the same bytes each time."""

from __future__ import annotations

import base64
import functools
import html
import io
import itertools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib")
import matplotlib as mpl
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

import posenc
import posenc.plot
from posenc import registry
from posenc._core.errors import ArgumentError
from posenc._core.spec.checks import small
from posenc.cli.commands.plot import command
from posenc.plot import export, palette, rows
from posenc.plot.draw.layout import cells
from posenc.plot.panels.text import number
from posenc.plot.raster import tile
from posenc.plot.rows import pictures_of
from posenc.plot.views import compare, similarity
from tests.drawing import drawn

SVG = "{http://www.w3.org/2000/svg}"
ROPE = posenc.RoPE(16, pairing="half")
T5 = posenc.T5(heads=2)

SMALL = posenc.Sinusoidal(8)
SMALL16 = posenc.Sinusoidal(16)
# How a small picture differs from that of `SMALL`, or of the first small encoding that it shows.
ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "attention": ((ROPE,), {"shift": 5}),
    "table": ((SMALL,), {"positions": 16}),
    "waves": ((SMALL,), {"positions": 3000}),
    "wavelengths": (([SMALL, posenc.Sinusoidal(16)],), {"mark": 100}),
    "offset": ((SMALL,), {"offsets": 40}),
    "similarity": ((SMALL,), {"positions": 20}),
    "counter": ((SMALL,), {"at": 6}),
    "sum": ((SMALL,), {"tokens": "classify the book"}),
    "rotation": ((ROPE,), {"pairs": [0, 7]}),
    "bias": ((T5,), {"params": posenc.init(T5), "mask": "causal"}),
    "stretch": ((ROPE,), {}),
    "scene": ((), {"text": 3, "image": (2, 4), "reference": (2, 2)}),
    "find": ((posenc.Sinusoidal(16), {3: "0.85"}), {}),
    "compare": (("table", SMALL, posenc.Sinusoidal(8, base=100)), {"positions": 16}),
}
EVERY = [small(registry.lookup(name)) for name in registry.SPECS]


def _small(name: str) -> Any:
    """A small picture as a function of its look."""
    first = next((spec for spec in (SMALL, *EVERY) if name in pictures_of(spec)), None)
    positional, keywords = ARGUMENTS.get(name, ((first,), {}))
    return functools.partial(getattr(posenc.plot, name), *positional, **keywords)


PICTURES = {name: _small(name) for name in rows.PICTURES}
PAPER = {"size": "3.3in", "title": False, "dpi": 72, "theme": "dark"}
PAGE = {"size": "7in x 6in", "dpi": 72}
LOOKS: dict[str, dict[str, Any]] = {"screen": {}, "paper": PAPER, "page": PAGE}


@functools.cache
def picture(name: str, look: str = "screen", copy: int = 0) -> Any:
    """A small picture that tests read and leave as it is; a copy is drawn from the start."""
    del copy
    return PICTURES[name](**LOOKS[look])


@functools.cache
def written_as(name: str, format_: Any, copy: int = 0) -> bytes:
    """The file of a small picture."""
    return bytes(picture(name, copy=copy).to_bytes(format_))


def test_a_row_is_all_that_a_picture_needs() -> None:
    """Its module has its name, and function, command, files and comparison follow."""
    assert set(posenc.plot.__all__) == {*rows.PICTURES, "Picture"}
    assert set(command.commands) == {*rows.PICTURES, "extend"}  # that draws a stretch
    for name, row in rows.PICTURES.items():
        assert callable(getattr(posenc.plot, name))
        assert (name in compare.VIEWS) == (row.difference is not None)
        wanted = {"data", "panels", "rows"} - ({"panels"} if name == "compare" else set())
        assert all(callable(getattr(rows.view_of(name), each)) for each in wanted)
    # Where nothing says which encodings a picture shows, it is about one of the others.
    able = {name for spec in EVERY for name in pictures_of(spec)}
    assert able == {name for name, row in rows.PICTURES.items() if row.kinds}


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def corner(made: Any) -> tuple[int, int]:
    """The pixel at the upper left of the first panel."""
    box = made.figure.axes[0].get_window_extent()
    return round(box.x0), round(made.figure.bbox.height - box.y1)


def rasters(svg: bytes) -> list[np.ndarray]:
    """The images that an SVG embeds, upright."""
    found = []
    for image in ET.fromstring(svg).iter(f"{SVG}image"):
        href = image.attrib["{http://www.w3.org/1999/xlink}href"]
        inner = np.asarray(Image.open(io.BytesIO(base64.b64decode(href.partition(",")[2]))))
        assert "scale(1 -1)" in image.attrib["transform"]
        found.append(inner[::-1, :, :3])
    return found


def colours(spec: Any, positions: Any, theme: str = "light", **asked: Any) -> np.ndarray:
    made = tile(spec, positions, **asked)
    return palette.diverging(theme)[palette.indices(made.values, made.limit)]


# --- pixels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positions", "height", "scale", "theme"),
    [(45_000, 670, 1.0, "light"), (45_000, 333, 2.0, "dark"), (701, 257, 1.5, "print")],
)
def test_every_pixel_of_a_png_is_as_computed(
    positions: int, height: int, scale: float, theme: str
) -> None:
    spec = posenc.Sinusoidal(50)
    made = posenc.plot.table(
        spec, positions=positions, height=height, width=100, scale=scale, theme=theme
    )
    found = pixels(made.to_bytes("png"))
    rows, columns = round(height * scale), round(100 * scale)
    expected = colours(spec, positions, theme, rows=rows, columns=columns)
    expected = expected[:, np.arange(columns) * expected.shape[1] // columns]
    left, top = corner(made)
    # Half a pixel of a figure may fall to either side.
    tries = [found[top + d : top + d + rows, left : left + columns] for d in (0, 1, -1)]
    shown = max(((part == expected).all(axis=2) for part in tries), key=np.mean)
    dashes = np.zeros(columns, dtype=bool)
    for place in made.data.tile.boundaries:
        at = round(place * columns / 50)
        dashes[max(0, at - 3) : at + 3] = True
    assert shown[:, ~dashes].all()
    assert shown.mean() > 0.96


def test_cells_of_a_small_table_are_squares_of_pixels() -> None:
    spec = posenc.Sinusoidal(16)
    made = posenc.plot.table(spec, positions=64)
    found = pixels(made.to_bytes())
    high, wide = cells(64, 560), cells(16, 720)
    expected = np.repeat(np.repeat(colours(spec, 64), high // 64, 0), wide // 16, 1)
    left, top = corner(made)
    part = found[top : top + high, left : left + wide]
    np.testing.assert_array_equal(part, expected)


@pytest.mark.costly
def test_an_svg_embeds_the_raster_at_its_exact_size() -> None:
    spec = posenc.Sinusoidal(50)
    made = posenc.plot.table(spec, positions=45_000, height=670, width=50)
    svg = made.to_bytes("svg")
    image = next(ET.fromstring(svg).iter(f"{SVG}image"))
    assert (image.attrib["width"], image.attrib["height"]) == ("50", "670")
    assert "pixelated" in image.attrib["style"]
    root = ET.fromstring(svg)
    assert root.attrib["width"] == root.attrib["viewBox"].split()[2]  # a unit is a pixel
    np.testing.assert_array_equal(rasters(svg)[0], colours(spec, 45_000, rows=670))
    fine = posenc.plot.table(spec, positions=45_000, height=670, width=50, scale=2.0)
    np.testing.assert_array_equal(
        rasters(fine.to_bytes("svg"))[0][:, ::2], colours(spec, 45_000, rows=1340)
    )


def test_unresolved_columns_are_the_neutral_of_the_page() -> None:
    made = posenc.plot.table(posenc.Sinusoidal(50), positions=45_000, height=670, width=50)
    image = rasters(made.to_bytes("svg"))[0]
    assert palette.colour(image[0, 0]) == palette.theme("light").neutral
    assert (image[:, :18] == image[0, 0]).all()


def test_masked_entries_are_hatched_and_have_no_colour() -> None:
    made = posenc.plot.bias(posenc.ALiBi(heads=1), positions=40, mask="causal", width=40)
    image = rasters(made.to_bytes("svg"))[0]
    upper = image[np.triu_indices(40, 1)]
    kinds = {tuple(c) for c in upper.tolist()}
    theme = palette.theme("light")
    assert {palette.colour(np.array(c)) for c in kinds} == {theme.neutral, theme.muted}
    assert palette.colour(image[39, 0]) == palette.colour(palette.diverging("light")[1])


@pytest.mark.costly
def test_attention_has_a_scale_from_zero() -> None:
    """Of the last query: a query of one key has the share 1, beside which all else is blank."""
    made = posenc.plot.bias(posenc.ALiBi(heads=2), positions=40, mask="causal", softmax="rows")
    largest = made.data.values[:, -1].max()
    assert made.data.limit == largest < made.data.values[:, 0, 0].min() == 1
    labels = [text for text, _ in written(made.figure)]
    assert number(largest) in labels
    assert not any(text.startswith("\N{MINUS SIGN}0.") for text in labels)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PICTURES)
def test_text_is_text_with_title_and_description(name: str) -> None:
    made, svg = picture(name), written_as(name, "svg")
    assert not re.search(rb"\d{4}-\d\d-\d\d", svg)  # no dates
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.find(f"{SVG}title").text == made.title
    assert root.find(f"{SVG}desc").text == made.description
    assert made.data.title in made.title or name in ("compare", "find", "similarity")
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any(texts[0] in line for line in (made.title, *texts))
    for sentence in made.data.caption:
        assert sentence.strip().split()[0] in " ".join(texts)


@pytest.mark.costly
@pytest.mark.parametrize("name", PICTURES)
def test_a_png_carries_what_was_asked_for(name: str) -> None:
    made = picture(name, "paper")
    info = Image.open(io.BytesIO(made.to_bytes("png"))).info
    about = json.loads(info["posenc"])
    assert about["plot"] == name
    assert about["theme"] == "dark"
    assert info["Title"] == made.title
    assert "Software" not in info
    if name in ("table", "waves", "offset", "similarity", "counter", "sum"):
        assert posenc.from_json(json.dumps(about["spec"])) == posenc.Sinusoidal(8)


# A picture is laid out alike for all files, and each kind is written alike for all pictures.
AGAIN = drawn(
    [*((name, format_) for name in PICTURES for format_ in ("png", "svg")), ("sum", "pdf")],
    1,
    "plot",
    by=lambda row: row if row[1] == "pdf" else row[0],
)


@pytest.mark.parametrize("again", AGAIN, ids="-".join)
def test_drawn_again_the_bytes_are_the_same(again: tuple[str, str]) -> None:
    assert written_as(*again) == written_as(*again, copy=1)


@pytest.mark.costly
def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    script = (
        "import posenc, posenc.plot, sys\n"
        "made = posenc.plot.compare('offset', posenc.Sinusoidal(8), posenc.Sinusoidal(16))\n"
        "for suffix in ('png', 'svg'): made.save(f'{sys.argv[1]}.{suffix}')\n"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
    there = tmp_path / "there"
    subprocess.run([sys.executable, "-c", script, str(there)], check=True, env=environment)
    made = posenc.plot.compare("offset", posenc.Sinusoidal(8), posenc.Sinusoidal(16))
    for suffix in ("png", "svg"):
        assert there.with_suffix(f".{suffix}").read_bytes() == made.to_bytes(suffix)


@pytest.mark.costly
def test_a_file_is_never_replaced_unasked(tmp_path: Path) -> None:
    made = picture("table")
    path = made.save(tmp_path / "x.png")
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        picture("waves").save(path)
    assert path.read_bytes() == before
    picture("waves").save(path, existing="replace")
    assert path.read_bytes() != before
    with pytest.raises(ArgumentError, match=r"\.png, \.svg or \.pdf"):
        made.save(tmp_path / "x.xyz")
    assert [p.name for p in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize("name", PICTURES)
def test_numbers_are_written_as_they_are_drawn(name: str) -> None:
    made = picture(name)
    data = export.to_npz(made.data)
    assert data == export.to_npz(picture(name, copy=1).data)
    with np.load(io.BytesIO(data)) as held:
        found = {key: held[key] for key in held.files}
    expected = export.arrays(made.data)
    assert found.keys() == expected.keys()
    assert found
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}
    lines = export.to_csv(name, made.data).decode().splitlines()
    assert len(lines) > 1
    if name == "table":
        numbers = np.array([[float(x) for x in line.split(",")] for line in lines[1:]])
        np.testing.assert_array_equal(numbers[:, 1:], made.data.tile.values)
        assert lines[0] == "position," + ",".join(f"c{c}" for c in range(8))


# --- axes of others -------------------------------------------------------------------------------


def written(figure: Any) -> list[tuple[str, Any]]:
    """Every text that is drawn, with its box in pixels."""
    boxes: list[tuple[str, Any]] = []
    draw = Text.draw

    def recorded(self: Text, renderer: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            boxes.append((self.get_text(), self.get_window_extent(renderer)))
        draw(self, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", recorded)
        FigureCanvasAgg(figure).draw()
    return boxes


def assert_readable(figure: Any, within: Any) -> None:
    """No text is cut off, and none lies over another."""
    texts = written(figure)
    assert texts
    for text, box in texts:
        beyond = (within.x0 - box.x0, box.x1 - within.x1, within.y0 - box.y0, box.y1 - within.y1)
        assert max(beyond) <= 1, text
    edge = 0.2 * figure.dpi / 72  # boxes have air around their letters
    for (one, a), (other, b) in itertools.combinations(texts, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= edge or down <= 8 * edge, (one, other)


# A page has room: a few pictures show what it does to all.
SHOWN = drawn(
    [(look, name) for look in LOOKS for name in PICTURES],
    4,
    "plot",
    by=lambda row: "page" if row[0] == "page" else row,
)


@pytest.mark.parametrize("shown", SHOWN, ids="-".join)
def test_nothing_is_cut_off_or_lies_over_another(shown: tuple[str, str]) -> None:
    look, name = LOOKS[shown[0]], shown[1]
    made = picture(name, shown[0])
    assert_readable(made.figure, made.figure.bbox)
    if "size" in look:
        sides = [float(side) for side in re.findall(r"[0-9.]+", look["size"])]
        np.testing.assert_allclose(made.figure.get_size_inches()[: len(sides)], sides)
    if "size" in look and name == "table":
        box = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ([0-9.]+) \]", made.to_bytes("pdf"))
        assert box is not None
        np.testing.assert_allclose(float(box[1]), 72 * sides[0], atol=0.01)


ALONE = ("table", "wavelengths", "similarity", "find")  # one panel, whose labels are outside


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_stay_in_the_axes_that_are_given(name: str) -> None:
    """With a legend, in a grid of others, in the colours of a dark page."""
    figure = Figure(figsize=(11, 8), dpi=72, facecolor="black")
    ax = figure.add_axes((0.05, 0.3, 0.4, 0.6), facecolor="none")
    made = PICTURES[name](ax=ax, title=False)
    assert made.figure is figure
    if name not in ALONE:
        assert_readable(figure, ax.get_window_extent())
    if name in ("wavelengths", "stretch", "rotation"):
        assert any(axes.get_legend() for axes in (ax, *ax.child_axes))
    # On cells a text has the colour that is farther from theirs in lightness.
    around = (text for text in ax.findobj(Text) if text.get_va() != "center_baseline")
    inks = [to_rgb(text.get_color()) for text in around if text.get_text()]
    assert min(max(ink) for ink in inks) > 0.5
    assert made.to_bytes("png")[:4] == b"\x89PNG"


@pytest.mark.costly
def test_settings_and_looks_are_honoured() -> None:
    """Those of matplotlib, unless the caller says otherwise; nothing of it stays behind."""
    spec = posenc.Sinusoidal(8)
    style = {"font.size": 15, "font.family": "serif", "figure.facecolor": "black"}
    with mpl.rc_context({**style, "axes.prop_cycle": cycler(color=["#123456"])}):
        before = dict(mpl.rcParams)
        made = posenc.plot.wavelengths(spec)
        assert dict(mpl.rcParams) == before
    assert made.figure.get_facecolor()[:3] == (0, 0, 0)
    axes = made.figure.axes[0]
    assert to_hex(axes.lines[0].get_color()) == "#123456"
    assert axes.xaxis.label.get_size() == 15
    assert axes.xaxis.label.get_fontfamily() == ["serif"]
    assert b"serif" in made.to_bytes("svg")
    ax = Figure().add_subplot()
    for place, base in enumerate((100, 1000)):
        look = {"label": f"base {base}", "color": f"C{place}"}
        posenc.plot.wavelengths(posenc.Sinusoidal(8, base=base), ax, **look)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["base 100", "base 1000"]
    image = rasters(posenc.plot.table(spec, positions=16, cmap="gray", width=8).to_bytes("svg"))[0]
    assert (image == image[..., :1]).all()
    named = posenc.plot.table(spec, positions=4, title="A table", caption=False, size="3in")
    assert named.figure.dpi == 300
    words = [text for text, _ in written(named.figure)]
    assert "A table" in words
    assert not any("row of its own" in text or text == named.data.title for text in words)


def test_half_a_surrogate_pair_in_a_title_is_a_question_mark(tmp_path: Path) -> None:
    made = posenc.plot.table(posenc.Sinusoidal(8), positions=16, title="\ud800 title")
    made.save(tmp_path / "a.svg")
    assert "? title" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_that_are_round_or_deep_are_named(projection: str) -> None:
    ax = Figure().add_subplot(projection=projection)
    with pytest.raises(ArgumentError, match=f"{projection} axes"):
        posenc.plot.find(posenc.Sinusoidal(8), {0: "0.84"}, ax=ax)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ({"size": "84"}, "a width with its unit"),
        ({"size": "3.3 parsec"}, "a width with its unit"),
        ({"size": "0in"}, "0.5in to 100in"),
        ({"size": "0.6in"}, "room for the panels"),
        ({"size": "3in", "width": 100}, "give one"),
        ({"dpi": -300}, "18 to 2,400"),
        ({"dpi": 300, "scale": 2}, "give one"),
        ({"cmap": "viridos"}, "Did you mean 'viridis'"),
        ({"cmap": 3}, "a colour map"),
        ({"dpi": "fine"}, "dpi: expected a finite number"),
        ({"width": float("nan")}, "width: expected a whole number from 1 on"),
        ({"color": float("nan")}, "colours of matplotlib"),
        ({"label": 3}, "label: expected a text"),
        ({"color": "no colour"}, "colours of matplotlib"),
        ({"label": "x"}, "no curves"),
        ({"title": 3}, "a text, True or False"),
        ({"theme": "drak"}, "Did you mean 'dark'"),
    ],
)
def test_looks_that_cannot_be_are_named(look: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        posenc.plot.table(posenc.Sinusoidal(8), positions=16, **look)


@pytest.mark.parametrize(
    ("name", "spec"), [("rotation", posenc.RoPE(128, pairing="half")), ("bias", posenc.ALiBi(8))]
)
def test_pictures_of_many_curves_fit_a_column(name: str, spec: Any) -> None:
    """Names too long for its width are folded below; a page is filled to its right edge."""
    draw = getattr(posenc.plot, name)
    assert_readable((figure := draw(spec, size="3.3in").figure), figure.bbox)
    page = draw(spec, size="7in x 5in").figure
    page.canvas.draw()
    assert max(axes.get_window_extent().x1 for axes in page.axes) > 0.9 * page.bbox.width


def test_a_table_in_given_axes_has_the_pixels_of_those_axes() -> None:
    figure = Figure(figsize=(6, 10), dpi=72)
    ax = figure.add_axes((60 / 432, 50 / 720, 150 / 432, 600 / 720))
    spec = posenc.Sinusoidal(50)
    posenc.plot.table(spec, ax, positions=45_000)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=72)
    found = pixels(buffer.getvalue())[70:670, 60:210]
    expected = np.repeat(colours(spec, 45_000, rows=600, columns=150), 3, axis=1)
    same = (found == expected).all(axis=2)
    assert same[:, :38].all()  # beside them stands what the dashed line means
    assert same[:, 70:].all()


def products(pixels: int) -> np.ndarray:
    made = similarity.data(SMALL16, 2000, pixels=pixels)
    return palette.diverging("light")[palette.indices(made.values, made.limit)]


# How a picture is drawn, and what its tile is computed from for so many rows and columns of pixels.
TILES: dict[str, tuple[Any, Any]] = {
    "table": (
        lambda **size: posenc.plot.table(posenc.Sinusoidal(30), positions=9000, **size),
        lambda rows, columns: colours(posenc.Sinusoidal(30), 9000, rows=rows, columns=columns),
    ),
    "similarity": (
        lambda **size: posenc.plot.similarity(posenc.Sinusoidal(16), positions=2000, **size),
        lambda rows, _: products(rows),
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("size", ["3in x 1.4in", "3in x 3in", "3in x 5.2in"])
@pytest.mark.parametrize("name", TILES)
def test_a_tile_is_computed_for_the_pixels_that_it_has_at_any_height(name: str, size: str) -> None:
    """The layout settles them, whatever the picture was first made for."""
    draw, expected = TILES[name]
    made = draw(size=size, dpi=72, caption=False, title=False)
    found, axes = rasters(made.to_bytes("svg"))[0], made.figure.axes[0]
    box = axes.get_window_extent()
    rows, columns = found.shape[:2]
    assert abs(rows - box.height) <= 1
    known = expected(rows, columns)
    known = known[:, np.arange(columns) * known.shape[1] // columns]
    np.testing.assert_array_equal(found, known)


@pytest.mark.costly
def test_no_figure_is_left_behind() -> None:
    import matplotlib.pyplot as plt

    PICTURES["table"]()
    assert plt.get_fignums() == []


@pytest.mark.parametrize("theme", palette.THEMES)
def test_themes_colour_the_page(theme: str) -> None:
    found = pixels(PICTURES["table"](theme=theme).to_bytes())
    assert palette.colour(found[0, 0]) == palette.theme(theme).page


# --- without matplotlib ---------------------------------------------------------------------------


@pytest.mark.costly
def test_matplotlib_is_loaded_by_drawing_alone() -> None:
    script = (
        "import sys, posenc, posenc.plot\n"
        "import posenc.plot.views.table, posenc.plot.views.compare, posenc.cli.commands.plot\n"
        "posenc.plot.views.table.data(posenc.Sinusoidal(8), 8)\n"
        "assert 'matplotlib' not in sys.modules and 'torch' not in sys.modules\n"
        "sys.modules['matplotlib'] = None\n"
        "try: posenc.plot.table(posenc.Sinusoidal(8))\n"
        "except posenc.DependencyError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert "pip install 'posenc[plot]'" in done.stdout


def test_unknown_pictures_are_suggested() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'table'"):
        _ = posenc.plot.tabel
    assert "wavelengths" in dir(posenc.plot)


def test_a_misspelt_keyword_is_told() -> None:
    with pytest.raises(
        TypeError, match=r"plot.waves has no argument 'widht'. Did you mean 'width'"
    ):
        posenc.plot.waves(posenc.Sinusoidal(8), widht=100)  # type: ignore[call-arg]


@pytest.mark.costly
def test_dollar_signs_that_hold_no_formula_are_drawn_as_they_stand() -> None:
    texts = [r"$\frac{$", r"$a$ $\nosuch$", "$5 to $6{", "$$", "{$}$ _^$"]
    specs = [posenc.Sinusoidal(8, base=10.0 ** (k + 1)) for k in range(len(texts))]
    labelled = [
        posenc.plot.waves(specs[0], dims=range(len(texts)), label=texts, caption=False),
        posenc.plot.sum(specs[0], tokens=texts),
        posenc.plot.wavelengths(specs, label=texts),
    ]
    small = {"positions": 4, "caption": False}
    titled = [posenc.plot.table(specs[0], title=text, **small) for text in texts]
    for made in labelled:
        assert made.to_bytes("png")
        assert made.to_bytes("svg")
    for text, made in zip(texts, titled, strict=True):
        assert made.to_bytes("png")
        shown = made.to_bytes("svg").decode().split("</metadata>")[1]
        assert html.escape(text, quote=False) in shown


def test_a_formula_in_a_title_is_drawn_as_one() -> None:
    shown = posenc.plot.waves(posenc.Sinusoidal(8), title=r"$\theta$").to_bytes("svg").decode()
    assert "\N{GREEK SMALL LETTER THETA}" in shown.split("</metadata>")[1]

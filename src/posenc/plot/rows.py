"""The pictures, a row each: the function of Python, the command and the explorer follow from it.

`posenc.plot.views.NAME` has the picture: its numbers, `data(spec, …)`; its panels, `panels(data)`,
for the page and for paper; and `rows(data)` for a .csv.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn

from posenc._core.errors import bad_argument, bad_spec
from posenc._core.spec.spec import Spec
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.column_phases import inner, sinusoids
from posenc.encodings.table.learned import Learned

# How the command reads an argument: `range` is a number or FROM:TO, `stretch` FROM:TO alone, `two`
# M,N and `names` a,b; a `stranger` is refused, with the help as the reason.
Plain = Literal["word", "count", "integer", "float", "flag", "pixels"]
Reads = Plain | Literal["range", "stretch", "list", "two", "grid", "names", "stranger"]


class PictureOption(NamedTuple):
    """An argument of a picture, and the option of the command that gives it."""

    argument: str
    reads: Reads
    help: str
    name: str = ""  # of the option, where that is not the argument's
    words: tuple[str, ...] = ()
    old: tuple[str, ...] = ()  # spellings that still work

    @property
    def flag(self) -> str:
        """The option as it is written."""
        return f"--{(self.name or self.argument).replace('_', '-')}"


Take = PictureOption
CELLS = "Cells of a grid as positions, for specs of several axes: 3x4 or h=3,w=4, the slowest axis"
POSITIONS = Take("positions", "range", "Positions drawn: so many from 0, or from and to.")
LENGTH = Take("length", "count", "Length of the sequence, for scaling rules that read it.")
MARK = Take("mark", "count", "A length of sequences to mark.")
GRID = Take("grid", "grid", f"{CELLS} first.")
PLACED = (POSITIONS, LENGTH, GRID)
HEIGHT = Take("height", "pixels", "Pixels of the panel, at most.")
PRODUCT = Take(
    "kind",
    "word",
    "The product of two rows. [default: dot]",
    "product",
    ("dot", "cosine"),
    ("--kind",),
)
SEED = Take("seed", "integer", "Seed of random embeddings. [default: 0]")
OFFSETS = Take("offsets", "range", "Distances. [default: 512]")

SINUSOIDAL: dict[str, Any] = {"type": "Sinusoidal", "dim": 128}
ROPE = {"type": "RoPE", "dim": 128, "pairing": "half"}
# Eight pairs that turn as fast as eight bits: once in 2, 4, … 256 positions.
COUNTER = {
    "type": "Sinusoidal",
    "dim": 16,
    "base": 2,
    "ladder": {"type": "Ladder", "first": 3.141592653589793, "denominator": 1},
}
ALIBI = {"type": "ALiBi", "heads": 8}


class PictureRow(NamedTuple):
    """A picture."""

    name: str
    about: str
    kinds: tuple[str, ...] = ()
    shows: Callable[[Any], bool] = lambda _: True
    options: tuple[PictureOption, ...] = ()
    learned: bool = True
    difference: str | None = None
    example: Mapping[str, Any] = SINUSOIDAL  # empty: it is of no encoding
    view: str = ""
    subjects: str = ""
    grids: bool = False
    question: str = "What differs?"  # above it; `data` is what is drawn
    wide: int = 560  # pixels of what is as wide as the picture, at most
    high: int = 0  # of a chart, or of a matrix at most; 0 is as usual
    pixels: Literal["", "cells", "side", "line"] = ""  # which ones its numbers depend on
    apart: bool = False  # whether each sentence of the caption begins a line

    @property
    def extent(self) -> str:
        """The argument that says how much is drawn, for which a length is easily taken."""
        reads = {one.argument: one.reads for one in self.options}
        several = ("positions", "mark", "offsets")
        return next((name for name in several if reads.get(name) in ("range", "count")), "")

    def in_pixels(self, rows: int, columns: int, line: int) -> dict[str, int]:
        """The arguments of its numbers for pixels of a matrix, or along a curve."""
        if self.pixels == "cells":
            return {"rows": rows, "columns": columns}
        return (
            {"pixels": {"side": min(rows, columns), "line": line}[self.pixels]}
            if self.pixels
            else {}
        )


def _single(spec: Any) -> bool:
    return len(getattr(inner(spec), "axes", ("position",))) == 1


def _turns(spec: Any) -> bool:
    return hasattr(inner(spec), "matrix")


TURNING = ("table", "rotary")
SOURCES = ("random", "previous", "content")
COLUMNS = ("stored", "interleaved", "sin_cos", "cos_sin")
ROWS = (
    PictureRow(
        "attention",
        "Draw what one head sees of the words of TEXT.",
        ("table", "rotary", "bias", "relative"),
        _single,
        options=(
            Take("source", "word", "What queries and keys are.", words=SOURCES),
            Take("shift", "integer", "By which all words stand later. [default: 0]"),
            Take("softmax", "word", "[default: rows]", words=("none", "rows")),
        ),
        difference="weights",
        example={"type": "RoPE", "dim": 16, "pairing": "half"},
        view="attention",
        subjects="what has one axis",
        question="What does attention see?",
        wide=300,
    ),
    PictureRow(
        "table",
        "Draw rows of numbers as colours: what each position looks like.",
        TURNING,
        options=(
            *PLACED,
            Take("dims", "stretch", "Dimensions drawn, in the order drawn."),
            Take("order", "word", "How columns stand in the picture.", "columns", COLUMNS),
            Take("sample", "flag", "Skip rows: draw the illusion, labelled."),
            HEIGHT,
        ),
        difference="tile.values",
        view="table",
        subjects="tables and rotations",
        grids=True,
        question="What does each position look like?",
        wide=720,
        high=560,
        pixels="cells",
    ),
    PictureRow(
        "waves",
        "Draw single dimensions over positions, as curves.",
        TURNING,
        options=(*PLACED, Take("dims", "list", "Dimensions drawn.")),
        difference="",
        question="How does one dimension change?",
        pixels="line",
    ),
    PictureRow(
        "wavelengths",
        "Draw the wavelength of each pair, of one encoding or several.",
        TURNING,
        _turns,
        options=(
            LENGTH,
            MARK,
            Take("over", "word", "What stands below the curves.", words=("pair", "share")),
            HEIGHT,
        ),
        learned=False,
        difference="",
        view="waves",
        subjects="encodings with wavelengths",
        question="How fast does each pair turn?",
        wide=520,
        high=340,
    ),
    PictureRow(
        "sum",
        "Draw embedding + encoding = input, for the tokens of TEXT.",
        ("table",),
        _single,
        options=(SEED, Take("offset", "integer", "Position of the first token. [default: 0]")),
        difference="total",
        question="What reaches the model?",
    ),
    PictureRow(
        "offset",
        "Draw the product of two rows against their distance.",
        TURNING,
        options=(
            OFFSETS,
            PRODUCT,
            Take("axis", "word", "[default: both]", words=("linear", "log", "both")),
            POSITIONS._replace(reads="stranger", help="distances are given by --offsets."),
            LENGTH,
            GRID,
        ),
        difference="mean",
        view="distance",
        subjects="tables and rotations",
        question="What do two rows have in common, by their distance?",
        pixels="line",
    ),
    PictureRow(
        "similarity",
        "Draw the products of all rows with all rows: which positions are alike.",
        TURNING,
        options=(*PLACED, PRODUCT),
        difference="values",
        question="Which positions are alike?",
        wide=512,
        pixels="side",
    ),
    PictureRow(
        "counter",
        "Draw the bits of positions above the waves that turn as fast.",
        TURNING,
        lambda spec: _single(spec) and _turns(spec),
        options=(
            POSITIONS,
            Take("at", "integer", "One whose digits and row are shown.", "position", (), ("--at",)),
            Take("bits", "count", "How many bits."),
            LENGTH,
        ),
        difference="",
        example=COUNTER,
        question="How is a position counted?",
    ),
    PictureRow(
        "rotation",
        "Draw dials of pairs, and scores by distance: what a rotation does.",
        ("rotary",),
        _single,
        options=(
            Take(
                *("positions", "two", "Positions of the query and the key. [default: 7,3]"),
                *("query_key", (), ("--at",)),
            ),
            Take("pairs", "list", "Whose dials are drawn."),
            OFFSETS._replace(help="Distances. [default: 64]"),
            SEED._replace(help="Seed of the random query and key. [default: 0]"),
            LENGTH,
        ),
        difference="terms",
        example=ROPE,
        view="rotate",
        subjects="rotations",
        question="What does a rotation do to queries and keys?",
    ),
    PictureRow(
        "bias",
        "Draw what is added to the scores of attention, head by head.",
        ("bias",),
        options=(
            POSITIONS,
            Take("heads", "list", "Heads drawn. [default: the first 16]", "show_heads"),
            Take("mask", "word", "[default: none]", words=("none", "causal")),
            Take("softmax", "word", "[default: none]", words=("none", "rows")),
            GRID,
        ),
        difference="values",
        example=ALIBI,
        view="bias",
        subjects="biases",
        grids=True,
        question="What is added to the scores of attention?",
        wide=600,
        high=230,
        pixels="side",
    ),
    PictureRow(
        "stretch",
        "Draw what rules that extend a context do to each pair.",
        ("rotary",),
        lambda spec: isinstance(spec, RoPE),
        options=(
            Take("original_length", "count", "The trained length."),
            Take("factor", "float", "By which it grows."),
            Take("rules", "names", "Which rules. [default: all]"),
            Take("loss", "flag", "The loss of small trained models, beside the pairs of RoPE."),
        ),
        learned=False,
        difference="",
        example=ROPE,
        view="stretch",
        subjects="rotations with a ladder of frequencies",
        question="What changes when the context gets longer?",
        wide=520,
        apart=True,
    ),
    PictureRow(
        "scene",
        "Draw where models of pictures put the tokens of a text, a picture and a reference.",
        options=(
            Take("text", "count", "Tokens of the text. [default: 6]"),
            Take("image", "two", "Rows and columns of the picture, in tokens. [default: 8,8]"),
            Take("reference", "two", "Those of the reference; 0,0 is none. [default: 6,4]"),
        ),
        learned=False,
        example={},
        view="scene",
        subjects="models of pictures",
        question="Where do the tokens of a scene stand?",
        wide=720,
        apart=True,
    ),
    PictureRow(
        "find",
        "Draw the positions that values may come from.",
        ("table",),
        lambda spec: sinusoids(inner(spec)) or isinstance(inner(spec), Learned),
        options=(
            Take("within", "range", "The range of positions."),
            Take(
                *("conventions", "word", "Whether to try conventions beside the stated one."),
                words=("siblings", "stated"),
            ),
        ),
        question="Which position gave {data.asked}?",
        apart=True,
    ),
    PictureRow(
        "compare",
        "Draw one of the other pictures for A and B, and A - B.",
        options=(*PLACED, MARK, PRODUCT),
        apart=True,
    ),
)
PICTURES: Mapping[str, PictureRow] = MappingProxyType({row.name: row for row in ROWS})


def view_of(name: str) -> Any:
    """The module of a picture."""
    return importlib.import_module(f"posenc.plot.views.{name}")


def pictures_of(spec: Any) -> tuple[str, ...]:
    """The pictures that can show an encoding, by its kind and fields."""
    kind = spec.kind if isinstance(spec, Spec) else ""
    return tuple(row.name for row in ROWS if kind in row.kinds and row.shows(spec))


def refuse(picture: str, spec: Any, expected: str) -> NoReturn:
    """Raise `SpecError`: what the picture shows, and which pictures show this encoding."""
    able = [name for name in pictures_of(spec) if name != picture]
    why = (
        ": it needs the contents of queries and keys"
        if (getattr(spec, "kind", "") == "relative")
        else ""
    )
    raise bad_spec(
        f"plot {picture}",
        expected,
        type(spec).__name__,
        f"Pictures that show it: {', '.join(map(repr, able))}."
        if able
        else f"No picture shows it{why}.",
    )


def require(fits: object, caller: str, expected: str, received: object, todo: str = "") -> None:
    """Raise `ArgumentError` unless an argument is as expected."""
    if not fits:
        raise bad_argument(f"plot{caller}", expected, received, todo)

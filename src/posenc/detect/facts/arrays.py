"""What headers and small tensors of a model say of its positions, against what its plan says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc._core.grouping import grouped
from posenc._core.io.files import rounded
from posenc._core.reading import Layer, Reading, Source
from posenc.detect.facts.fact import MOST_SHOWN, Contradiction, Fact, FactSource, Name
from posenc.detect.fit.tolerances import HALVES, seen
from posenc.detect.subject.arrays import followed, one_of_each
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE

# --- tables of cosines and sines ------------------------------------------------------------------

# Buffers of other people's modules, by the last words of their names.
COSINES = re.compile(r"(?:^|[._])(cos_cached|cos_sin_cache|freqs_cis?|freqs_complex)$")
SINES = re.compile(r"(?:^|[._])sin_cached$")
PLACES = (0, *(2**k for k in range(16)))  # rows, each of which doubles what is known
Read = Callable[[str, int, int], np.ndarray]  # numbers of a tensor from one on, so many
# Numbers of a table that are looked at, and by how much rounded angles move no row.
MOST, STRAY = 2**23, 0.1


def of_tables(shapes: Mapping[str, tuple[int, ...]], read: Read) -> Iterator[Fact]:
    """Frequencies and rows of tables of known names; those of equal numbers are one fact."""
    kept: dict[tuple[int, str, bytes], list[str]] = {}
    for key, shape in shapes.items():
        if COSINES.search(key) and len(shape) > 1 and 0 not in shape:
            rows, stray, turning = _frequencies(key, shapes, read)
            if turning is not None:
                kept.setdefault((rows, stray, turning.tobytes()), []).append(key)
    for (rows, stray, content), keys in kept.items():
        yield Fact(
            "frequencies",
            tuple(np.frombuffer(content).tolist()),
            source="buffer",
            rests_on=several(keys),
        )
        yield Fact("length", rows, source="header", rests_on=several(keys) + stray)


def several(keys: list[str]) -> str:
    """The first of some names, and how many more there are."""
    return f"{keys[0]} and {len(keys) - 1} more" if len(keys) > 1 else keys[0]


def _frequencies(
    key: str, shapes: Mapping[str, tuple[int, ...]], read: Read
) -> tuple[int, str, np.ndarray | None]:
    """The rows of a table that follow, what ends them, and what pairs turn by in its own dtype."""
    shape = shapes[key]
    inner = shape[-2:] if len(shape) > 2 and shape[-1] == 2 else shape[-1:]
    width, rows = int(np.prod(inner)), int(np.prod(shape[: -len(inner)]))
    some = min(rows, max(MOST // width, len(PLACES)))
    places = [place for place in PLACES if place < some]
    arrays = {
        name: read(name, 0, some * width).reshape(some, *inner)
        for name in (key, key.replace("cos_cached", "sin_cached"))
        if shapes.get(name) == shape
    }
    if (turns := complex_of(key, arrays)) is None or len(places) < 2:
        return rows, "", None
    dtype = seen(turns[places])
    turns = turns[:, one_of_each(turns[places])]
    values = followed((turns * np.conj(turns[0]))[places], places)
    off = np.abs(turns - turns[0] * np.exp(1j * np.arange(some)[:, None] * values))
    row = int(min(np.flatnonzero((off > STRAY).any(axis=1)), default=rows))
    return (
        row, f", whose row {row:,} does not follow" * (row < rows),
        rounded(values, dtype) if dtype in HALVES else values,
    )  # fmt: skip


def complex_of(key: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Cosines + i sines under a name; None where it has no numbers of these."""
    array = arrays[key]
    if array.dtype.kind == "c":
        return array
    if key.endswith("cos_sin_cache"):
        cos, sin = np.array_split(array, 2, axis=-1)
    elif key.endswith("cos_cached"):
        cos, sin = array, arrays.get(f"{key.removesuffix('cos_cached')}sin_cached", array[:0])
    elif array.ndim > 2 and array.shape[-1] == 2:  # as `view_as_real` has them
        cos, sin = array[..., 0], array[..., 1]
    else:
        return None
    return cos + 1j * sin if cos.shape == sin.shape else None


def short(rows: int, entries: list[Layer]) -> Layer | None:
    """An entry of more positions than a table has rows; None where one has no more."""
    own = [e for e in entries if isinstance(e.spec, RotarySpec) and len(e.spec.axes) == 1]
    for entry in own:
        originals = (
            getattr(s, "original_length", None) for s in getattr(entry.spec, "scalings", ())
        )
        if rows >= min(filter(None, (entry.length, *originals)), default=0):
            return None
    return own[0] if own else None


# --- frequencies, rows and buckets ----------------------------------------------------------------

# Tensors of other people's modules, by the last words of their names.
FREQUENCIES = re.compile(
    r"(?:^|[._])(?:(?P<layer>\w*?)_)?(inv_freq|inv_freqs|inv_timescales)$|(?:^|\.)rope\.freqs$"
)
ROWS = re.compile(r"(embed_positions|position_embeddings?|pos_embed|wpe)(\.weights?)?$")
BUCKETS = re.compile(r"relative_attention_bias\.weight$|relative_position_bias_table$")
POSITIONAL = re.compile(r"pos|wpe|rel", re.IGNORECASE)
WORDS = re.compile(r"embed|wte|shared", re.IGNORECASE)  # of a table of tokens, or of patches
TIMES = re.compile(r"time_?(embed|proj|step)")  # of a condition, which turns no heads
LARGEST = 2**16  # numbers of frequencies
KINDS: dict[Name, str] = {"rows": "table", "buckets": "bias"}
MEND = "One of the two is wrong: correct the config, or take the weights that belong to it."
SAID = {
    "config": "config key", "preset": "posenc's row for", "class": "the class default of",
    "format": "the format's default of", "caller": "the caller's", "code": "posenc's default of",
    "file": "the modelling file:", "record": "the record of a conversion:",
}  # fmt: skip
# How far numbers may be off, relatively and absolutely, by the dtype that holds them; others are
# powers in float32, of a rounded exponent.
ROUNDINGS = {"bfloat16": (2.0**-7, 0.0), "float16": (2.0**-10, 2.0**-24)}
SOURCES: dict[str, FactSource] = {"preset": "row", "file": "code", "record": "stamp"}


def words_of(sources: Sequence[Source]) -> str:
    """Where fields were read, each place once; several parts of one key by that key."""
    roots = [source.where.partition(".")[0] for source in sources]
    places = grouped(
        (SAID[source.origin], source.where if roots.count(root) == 1 else root)
        for source, root in zip(sources, roots, strict=True)
    )
    return ", and by ".join(
        f"{said}{'s' * (said == SAID['config'] and len(own) > 1)} {_listed(own)}".strip()
        for said, own in ((said, [*dict.fromkeys(own)]) for said, own in places.items())
    )


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def stated(name: Name, value: object, entry: Layer, *fields: str) -> Fact:
    """What an entry of a plan says, with the sources of those of its fields."""
    own = [s for s in entry.sources if s.field.partition(".")[0] in fields] or entry.sources[:1]
    origin: Any = own[0].origin if own else "caller"
    return Fact(
        name,
        value,
        source=SOURCES.get(origin, origin),
        rests_on=words_of(own) or "the plan",
        layer=entry.label,
        layers=entry.indices,
    )


# --- facts ----------------------------------------------------------------------------------------


def of_shapes(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Fact]:
    """Rows of tables and buckets of biases, by the shapes of tensors of known names."""
    for key, shape in shapes.items():
        sides = tuple(n for n in shape if n != 1)
        name: Name = "buckets" if BUCKETS.search(key) else "rows"
        if len(sides) == 2 and (name == "buckets" or ROWS.search(key)):
            yield Fact(name, sides, source="header", rests_on=key)


def holds_ladder(module: Any) -> bool:
    """Whether a module holds frequencies of its own."""
    return any(FREQUENCIES.search(name) for name in vars(module).get("_buffers", ()))


def of_buffers(
    shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], np.ndarray]
) -> Iterator[Fact]:
    """Frequencies of tensors of known names; those of equal numbers are one fact."""
    ladders = (
        key
        for key, shape in shapes.items()
        if FREQUENCIES.search(key) and not key.endswith("original_inv_freq")
        if not TIMES.search(key)
        if 0 < np.prod(shape) <= LARGEST
    )
    # By bytes, as no NaN is equal to another.
    for content, keys in grouped((read(k).astype(float).tobytes(), k) for k in ladders).items():
        yield Fact(
            "frequencies",
            tuple(np.frombuffer(content).tolist()),
            source="buffer",
            rests_on=several(keys),
        )


# --- against the plan -----------------------------------------------------------------------------


def contradicted(reading: Reading, facts: tuple[Fact, ...]) -> Iterator[Contradiction]:
    """Shapes and frequencies that no entry of a plan can have."""
    for fact in (fact for fact in facts if fact.name != "length"):
        against = _rotations if fact.name == "frequencies" else _shapes
        if (one := against(fact, named(reading, fact.rests_on))) is not None:
            yield Contradiction(one, fact, MEND, _apart(one, fact))


def _apart(one: Fact, other: Fact) -> str:
    """The first pair in which ladders differ, where it is behind the numbers that facts show."""
    sides = enumerate(zip(one.value, other.value, strict=False))
    n, ours, its = next(((n, a, b) for n, (a, b) in sides if abs(a - b) > 1e-3 * abs(a)), (0, 0, 0))
    return (n >= MOST_SHOWN) * (
        f"in pair {n}, {ours:.4g} by {one.rests_on}, but {its:.4g} by {other.rests_on}"
    )


def named(reading: Reading, key: str) -> list[Layer]:
    """The entries that a tensor may belong to: those of the part that its name tells, or all."""
    words = re.split(r"[._]", key.lower())
    return [one for one in reading if re.split(r"[. ]", one.layer)[0] in words] or list(reading)


def _weight(entry: Layer) -> tuple[int, ...]:
    shapes = {} if entry.spec is None else entry.spec.shapes
    return shapes["weight"] if list(shapes) == ["weight"] else ()


def _shapes(fact: Fact, entries: list[Layer]) -> Fact | None:
    """What an entry says of a shape that no entry has; None where one has it, or it is not told."""
    own = [entry for entry in entries if entry.kind == KINDS[fact.name]]
    if not all(len(_weight(entry)) == 2 for entry in own):  # computed, or learned in another way
        return None
    alike = own if len(own) == 1 else [e for e in own if _weight(e)[-1] == fact.value[-1]]
    if not alike or any(_weight(entry) == fact.value for entry in alike):
        return None
    return stated(fact.name, _weight(alike[0]), alike[0], "length", "buckets", "dim", "heads")


def _rotations(fact: Fact, entries: list[Layer]) -> Fact | None:
    """What an entry says of frequencies that no entry has."""
    key = fact.rests_on.partition(" ")[0]
    kind = FREQUENCIES.search(key)  # a module may keep those of types of layer that are absent
    name = (kind and kind["layer"]) or ""
    own = [e for e in entries if isinstance(e.spec, RotarySpec) and name in e.layer]
    values, sizes = np.array(fact.value), {len(fact.value)}
    alike = [e for e in own if {e.spec.pairs, e.spec.pairs // len(e.spec.axes)} & sizes]  # type: ignore[union-attr]
    near = alike or (own if len({entry.layer.rpartition(".")[0] for entry in own}) == 1 else [])
    ladders = [[*_ladders(entry.spec)] for entry in near]  # type: ignore[arg-type]
    if not near or not all(ladders):
        return None
    axes = max(len(entry.spec.axes) for entry in near)  # type: ignore[union-attr]
    cells = axes > 1 and COSINES.search(key)  # rows are cells of a picture
    if cells or any(_follow(values, ladder, axes) for each in ladders for ladder in each):
        return None
    return stated("frequencies", tuple(ladders[0][0].tolist()), near[0], "base", "scaling", "dim")


def _ladders(spec: RotarySpec) -> Iterator[np.ndarray]:
    """The frequencies of a rotation: at each length, as they are before a scaling, and as powers.

    Code that multiplies coordinates by 2π keeps the powers.
    """
    first, last = spec.lengths or (1, 1)
    if last is None:  # a module keeps those of any length
        return
    plain = [spec.replace(scaling=())] if isinstance(spec, RoPE) and spec.scalings else []
    if isinstance(spec, RoPE) and spec.ladder.first != 1:
        plain.append(spec.replace(ladder=spec.ladder.replace(first=1.0)))
    for one in (spec.at(first), spec.at(last), *plain):
        try:
            rows = np.atleast_2d(functional.frequencies(one))
        except PosencError:  # learned, or of another form
            return
        yield np.abs(rows).max(axis=0)


def _follow(values: np.ndarray, ladder: np.ndarray, axes: int) -> bool:
    """Whether numbers are those of a ladder, or of its pairs that turn; of several axes any order.

    A module may keep the numbers of one axis alone.
    """
    rounded, least = ROUNDINGS.get(seen(values), (1e-5, 0.0))
    off = np.abs(values[:, None] - ladder) <= rounded * ladder + least
    if axes > 1:
        return ladder.size in (values.size, axes * values.size) and bool(off.any(axis=1).all())
    return any(
        len(rows) == len(rows.T) and rows.diagonal().all() for rows in (off, off[:, ladder > 0])
    )


def absent(reading: Reading, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Contradiction]:
    """Tables that a whole checkpoint of one part should hold, and nothing in it looks like."""
    sides = {key: tuple(n for n in shape if n != 1) for key, shape in shapes.items()}
    tables = {key: shape for key, shape in sides.items() if len(shape) == 2}
    whole = any(WORDS.search(key) for key in tables) and not any("lora_" in key for key in shapes)
    one_part = len({entry.layer.rpartition(".")[0] for entry in reading}) == 1
    hidden = [key for key, shape in sides.items() if POSITIONAL.search(key) and len(shape) > 1]
    for entry in reading if whole and one_part and not hidden else ():
        name = next((n for n, kind in KINDS.items() if kind == entry.kind), None)
        if name and len(_weight(entry)) == 2 and _weight(entry) not in tables.values():
            yield Contradiction(
                stated(name, _weight(entry), entry, "length", "buckets", "dim", "heads"),
                Fact(name, "none", source="header", rests_on=f"the list of {len(shapes)} tensors"),
                MEND,
            )

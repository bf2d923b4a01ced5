"""Where a model, its weights and its engine differ: one question to all verbs."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posenc._core.calls import checked_call
from posenc._core.errors import DataError, PosencError
from posenc._core.grouping import grouped
from posenc._core.guard import foreign
from posenc._core.io.checkpoints import folder_of
from posenc._core.io.inputs import CONFIG_FILE
from posenc._core.reading import Layer, Source
from posenc.detect.contract import Comparison, Difference, diff
from posenc.detect.contract.comparison.fields import words
from posenc.detect.contract.sides.side import Library
from posenc.detect.contract.sides.sides import side_of
from posenc.detect.convert import PairingFinding, detect_pairing
from posenc.detect.explain import PAIRINGS
from posenc.detect.facts import Contradiction, Fact, Facts, facts
from posenc.detect.facts.arrays import words_of
from posenc.detect.facts.engines import TABLES
from posenc.detect.facts.plan import head_width
from posenc.detect.fit.tolerances import HALVES
from posenc.detect.identify import Finding, identify
from posenc.detect.identify.result import headline
from posenc.detect.subject import ask
from posenc.testing.battery import check, laws
from posenc.testing.diagnosis import NOTHING, Diagnosis, Fault
from posenc.testing.subject import Result
from posenc.testing.target import adapt

# A field of `Diagnosis`, and what is added to it.
Row = tuple[str, Any]
# What running a model asks of an implementation, batch by batch and token by token.
LAWS = ("calls", "kept", "rows", "history of dtypes")
KINDS = {"frequencies": "rotary", "length": "rotary", "rows": "table", "buckets": "bias"}
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?(?=$|,)")
# What code does with a call, which no config says.
OF_CALLS = {
    "positions": "turn each token by the position that it is called with",
    "position_ids": "number tokens as the model does, first in that line; padding may have any",
    "dtype": "compute positions and angles in float32, and cast their cosines and sines last",
    "state": "keep nothing of one call for the next, or by all that it depends on",
    "numbers": "finite numbers",
    "keys": "turn keys as queries are turned",
    "layers": "the encoding of each type of layer in its own layers",
}
ABSENT = "no file of them is beside the config"
# The fields that others follow from.
OF_FIELDS = {"frequencies": ("base", "scaling", "dim"), "magnitude": ("scaling",)}


@foreign("doctor", timed=False)
@checked_call
def doctor(
    model: Any,
    engine: Any = None,
    *,
    stored: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    config: Any = None,
    library: Library | None = None,
) -> Diagnosis:
    """Where a model, its weights and a port of it differ, and which line to change.

    It asks `posenc.facts`, `posenc.detect_pairing` and `posenc.identify` of the model, and
    `posenc.diff` and `posenc.testing.check` of the engine.

    Parameters
    ----------
    model : object
        As `posenc.facts` takes it: a folder, a config, a GGUF file, a loaded model.
    engine : object, optional
        The port, as `posenc.diff` takes a side: a function of `(x, positions)`, a class, a loaded
        model, another config, buffers. Code is run only if it is named here.
    stored : {"half", "interleaved"}, optional
        The pairing of channels, where it is known: nothing contradicts it.
    base : float, optional
        The base, likewise.
    config : mapping or path, optional
        The config, where it does not stand beside the weights.
    library : {"torch", "numpy", "jax", "mlx"}, optional
        Whose arrays the engine takes, where that is not to be found out.

    Returns
    -------
    Diagnosis
        Where they differ, and what was compared.

    Raises
    ------
    ArgumentError
        If the engine is nothing that can be compared.
    DataError
        If the model cannot be read.

    Examples
    --------
    >>> import posenc
    >>> config = {"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0}
    >>> def engine(positions):                               # forgets the base
    ...     return posenc.cos_sin(posenc.RoPE(64, pairing="half"), positions)
    >>> print(posenc.doctor(config, engine).faults[0].text.replace("; ", ";" + chr(10)))
    attention: base: 500000 against 10000, the default;
    cos and sin to position 511 differ by up to 2, by over 0.001 from position 1 on
    """
    folder = folder_of(model)
    if folder is not None and Path(model).name == CONFIG_FILE and any(folder.glob("*.safetensors")):
        model = folder  # the weights are those beside the config
    about = facts(model, pairing=stored, base=base, config=config)
    if about.weights is None and folder is None:
        about = dataclasses.replace(about, name=f"config of {about.plan.model or 'a model'}")
    answers = _of_tables(about) if engine is None else _of_engine(about, engine, library)
    rows = grouped(itertools.chain(_of_model(about), _of_weights(about), answers))
    fields: dict[str, Any] = {name: tuple(dict.fromkeys(own)) for name, own in rows.items()}
    return Diagnosis(about.name, "" if engine is None else _place(engine), **fields)


# --- the model ------------------------------------------------------------------------------------


def _of_model(about: Facts) -> Iterator[Row]:
    """What the config or header says, and what it leaves open."""
    for entry in about.reading:
        what = entry.convolution or "no positions" if entry.spec is None else words(entry.spec)
        yield "says", f"{entry.label}: {what}{_because(entry.sources)}"
    for fact in about.of("window"):
        seen = "the whole sequence" if fact.value is None else f"the last {fact.value:,} tokens"
        yield "says", f"{fact.layer}: it sees {seen}, by {fact.rests_on}"
    for note in about.reading.notes:
        if note.level == "error":
            todo = f"correct the key in {about.name}, or state what it says: --stored, --base"
            yield "faults", Fault(note.text, todo)
        elif note.level == "warning":
            yield "says", note.text


def _because(sources: Iterable[Source], *fields: str) -> str:
    """Where fields of a spec were read, or all of them."""
    own = [s for s in sources if not fields or {*fields} & {*s.field.split(".")}]
    return f", by {words_of(own)}" if own else ""


def _of_weights(about: Facts) -> Iterator[Row]:
    """What weights and small tensors say, and what of it the config excludes."""
    if about.checkpoint is None:
        why = about.unread or ABSENT
        unread = "those of a GGUF file are not read" if about.format == "gguf" else why
        yield "not_compared", f"weights: {unread}"
        yield from (
            ("faults", Fault(one.text, _mended(about, one))) for one in about.contradictions
        )
        return
    with contextlib.suppress(DataError):  # what it does not read is read by the facts alone
        arrays = identify(Path(about.weights)) if folder_of(about.weights) is not None else ()
        yield from (("weights", f"{one.name}: {headline(one)}") for one in arrays)
    kinds = {entry.kind for entry in about.reading}
    for fact in about.headers:
        text = f"{fact.name} of {fact.rests_on}, with those that the model states"
        yield "compared" if KINDS[fact.name] in kinds else "not_compared", text
    pairing: PairingFinding | None = None
    if "rotary" in kinds and "pairing" not in about.settled:
        try:
            pairing = detect_pairing(about.weights, config=about.config)
            yield "weights", f"pairing {pairing.claim}, by {pairing.facts[0].rests_on.rstrip(',')}"
            tells = pairing.stated and pairing.claim != "unknown"
            heads = f"{pairing.weights.groups} groups of heads"
            yield (
                "compared" if tells else "not_compared",
                f"the pairing that the config states, against {heads}",
            )
        except PosencError as error:
            yield "not_compared", f"pairing: {error}"
    for one in _contradictions(about, pairing):
        yield "faults", Fault(one.text, _mended(about, one))


def _contradictions(about: Facts, pairing: PairingFinding | None) -> Iterator[Contradiction]:
    """Those of the facts, but for the evidence of some heads where all were asked."""
    all_heads = [] if pairing is None else [pairing.contradiction]
    yield from filter(None, all_heads)
    yield from (
        one for one in about.contradictions if not all_heads or one.other.source != "weights"
    )


def _mended(about: Facts, one: Contradiction) -> str:
    """The command, the key of the config or the tensor after whose change two facts agree."""
    if one.one.name == "pairing":
        order = next(order for order in PAIRINGS if order != one.one.value)
        some = "" if one.other.value == order else " --only NAMES"  # of two things in one file
        return f"posenc convert {about.name} OUT --pairing {one.one.value} --stored {order}{some}"
    place, config = one.other.rests_on, f"the config of {about.name}"
    if one.one.name != "frequencies":
        value = f"{one.other.value} in place of {one.one.value}, by {one.one.rests_on}"
        own = {"heads": "heads that make ", "layers": "layers "}.get(one.one.name, "")
        return _missing(about, one) or f"{config}: {own}{value}; or take other weights"
    claims = identify({"inv_freq": np.asarray(one.other.value, np.float32)}).claims
    if not claims:
        return f"{place}: no rule gives these numbers; compute them anew from the config"
    return f"{config}: {'; '.join(_fields(about, one.one, claims[0]))}; or take other weights"


def _missing(about: Facts, one: Contradiction) -> str:
    """The tensor that lacks the rows that its family keeps before position 0."""
    if one.one.name not in ("rows", "buckets"):
        return ""
    starts = {getattr(e.spec, "start", 0) for e in about.reading if e.label == one.one.layer}
    lacking = {start for start in starts if one.one.value[0] - start == one.other.value[0]}
    todo = "".join(f"position p is row p + {n}; keep the {n} rows before it" for n in lacking)
    return todo and f"{one.other.rests_on}: {todo}"


def _fields(about: Facts, fact: Fact, own: Finding) -> Iterator[str]:
    """The fields in which frequencies differ from their entry of the plan; they pair nothing."""
    entry: Any = next(entry for entry in about.reading if entry.label == fact.layer)
    for row in diff(entry.spec.replace(pairing="half"), own.spec).rows:
        yield f"{row.field} {row.b} in place of {row.a}{_because(entry.sources, row.field)}"


def _of_tables(about: Facts) -> Iterator[Row]:
    """Which engines read the config otherwise, by their tables; unknown ones are not told."""
    for name in TABLES if about.format == "config" and about.config else ():
        with contextlib.suppress(PosencError):
            side = side_of(f"engine:{name}", other=about.config)
            for row in diff(side_of(about.reading, name=about.name), side).rows:
                todo = f"posenc diff CONFIG engine:{name}"
                yield "says", f"{TABLES[name]} reads it otherwise, {row.text}: {todo}"


# --- the engine -----------------------------------------------------------------------------------


def _of_engine(about: Facts, engine: Any, library: Library | None) -> Iterator[Row]:
    """Where the engine differs from what the model says, and which laws it breaks."""
    place = _place(engine)
    try:
        side = side_of(engine, name=place, library=library, other=about.config)
        answers = [diff(side_of(about.reading, name=about.name), side)]
    except DataError as error:
        yield from (("not_compared", text) for text in (f"the engine: {error}", NOTHING))
        return
    if side.shared and (
        any(head_width(e, about.config or {}) for e in about.reading) or not answers[0].compared
    ):
        answers = [*_by_part(about, engine, library)] or answers
    for answer in answers:
        yield from (("compared", text) for text in answer.compared)
        yield from (("not_compared", text) for text in (*answer.not_compared, *answer.remarks))
    if not any(answer.compared or answer.rows for answer in answers):
        yield "not_compared", NOTHING
    card: tuple[Result, ...] = ()
    try:
        card = _laws(about, engine, library) if side.shared else ()
    except PosencError as error:  # where `diff` refuses as well, its sentence stands there
        texts = [t for a in answers for t in (*a.compared, *(row.text for row in a.rows))]
        asked = any(": position_ids" not in text for text in texts)
        yield from [("not_compared", f"check: {error}")] if asked else []
    broken = [one for one in card if one.status == "fail" and one.measured is not None]
    for one in (one for one in card if one not in broken):
        yield "compared" if one.status == "pass" else "not_compared", f"check: {one.statement}"
    rows = [row for answer in answers for row in answer.rows]
    more = "".join(f", {one.law}" for one in broken if rows)
    for row in rows:
        also = f"; it fails the laws of check too: {more[2:]}" if more and row is rows[0] else ""
        yield "faults", Fault(f"{row.text}{also}", _change(about, engine, row), row.call)
    for one in () if rows else broken:
        shown = "".join(f", {key} {value}" for key, value in one.input.items())
        yield "faults", Fault(one.says, f"{place}: {one.statement}", f"a call{shown}")


def _by_part(about: Facts, engine: Any, library: Library | None) -> Iterator[Comparison]:
    """Code that names no part against each of them: it is right for those that are alike."""
    for entry in about.reading:
        with contextlib.suppress(PosencError):
            kind: Any = "bias" if entry.kind == "bias" else None
            subject = ask(engine, kind=kind, library=library, **_sizes(about, entry))
            yield diff(side_of(entry), side_of(subject))


def _sizes(about: Facts, entry: Layer) -> dict[str, Any]:
    """The width of a head, or of a table, and the number of heads of a part."""
    sizes = {name: getattr(entry.spec, name, None) for name in ("dim", "heads")}
    sizes["dim"] = head_width(entry, about.config or {}) or sizes["dim"]
    return {name: size for name, size in sizes.items() if size is not None}


def _change(about: Facts, engine: Any, row: Difference) -> str:
    """The line of the engine, what it has to do, and where the model says so."""
    paired = {c.other.value for c in about.contradictions if c.one.name == "pairing"}
    if row.field == "pairing.order" and row.b in paired:
        return f"nothing in {_place(engine)}, which pairs as the weights do: see --stored {row.b}"
    return f"{_line(engine, row) or _place(engine)}: {_wanted(about, row)}"


def _wanted(about: Facts, row: Difference) -> str:
    """What the model has in place of what the engine does, and by which key."""
    root = row.field.partition(".")[0]
    if root in OF_CALLS:
        return OF_CALLS[root]
    entry = next((e for e in about.reading if row.where.startswith(e.label)), None)
    why = "" if entry is None else _because(entry.sources, *OF_FIELDS.get(root, ()), root)
    if entry is not None and root == "window":
        why = "".join(f", by {fact.rests_on}" for fact in about.of("window", entry.label)[:1])
    return f"{row.field} {row.a}{why}"


def _laws(about: Facts, engine: Any, library: Library | None) -> tuple[Result, ...]:
    """What the laws of running a model say of code."""
    sizes = next((_sizes(about, e) for e in about.reading if e.spec is not None), {})
    subject = adapt(engine, library=library, **sizes)
    own = {law.name for law in laws(subject.kind)}
    return check(subject, laws=[name for name in LAWS if name in own]).results


# --- places ---------------------------------------------------------------------------------------


def _place(engine: Any) -> str:
    """What an engine is called: code by its file and line, the rest by its name."""
    if isinstance(engine, tuple):
        return " and ".join(map(_place, engine))
    name = getattr(engine, "__qualname__", type(engine).__name__)
    file, first, _ = _source(engine)
    if file and not hasattr(engine, "config"):  # a model's numbers are no lines
        return f"{file}, line {first} ({name})"
    return str(engine) if isinstance(engine, (str, Path)) else name


def _source(engine: Any) -> tuple[str, int, str]:
    """The file of code, its first line there, and the text of the file."""
    code = engine if hasattr(engine, "__qualname__") else type(engine)
    try:
        file, (lines, first) = inspect.getsourcefile(code), inspect.findsource(code)
        return os.path.relpath(str(file)), first + 1, "".join(lines)
    except (TypeError, OSError, ValueError):
        return "", 0, ""


def _line(engine: Any, row: Difference) -> str:
    """The line with the number or dtype that differs, where one line alone has it."""
    number, dtype = NUMBER.match(row.b), row.b.rpartition(" ")[2]
    file, _, text = _source(engine) if number or dtype in HALVES else ("", 0, "")
    lines = {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant | ast.Attribute)
        and (
            (number is not None and _value(node) == float(number[0]))
            or (dtype in HALVES and dtype == _value(node))
        )
    }
    return f"{file}, line {lines.pop()}" if len(lines) == 1 else ""


def _value(node: ast.Constant | ast.Attribute) -> object:
    """The number or text that stands there, or the last word of `np.float16`."""
    value = node.value if isinstance(node, ast.Constant) else node.attr
    return None if isinstance(value, bool) else value

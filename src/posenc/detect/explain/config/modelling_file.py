"""The file of code that runs instead of a class of transformers, read as text, never run.

A config with `auto_map` names classes of its authors. Their file may lie beside it; what its names
say plainly of positions is taken from it. Comments and texts in it say nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from posenc._core.errors import PosencError
from posenc._core.io import inputs
from posenc._core.reading import Layer, Source
from posenc.detect.explain.config.unread_keys import unread
from posenc.detect.explain.config.view import HEAD_COUNTS, Keys, Notes, UnsettledError, noted
from posenc.detect.explain.layers.non_rotary import applies
from posenc.encodings.bias.alibi import ALiBi
from posenc.presets.families import Family, class_parts

CODE = inputs.FileKind("a file of Python", 2**21)
CLASS = re.compile(r"(?:(.*)--)?((?:[A-Za-z_]\w*\.)+)[A-Za-z_]\w*")  # no path leaves a folder
TURN = re.compile(r"rotary|rope(?![a-z])|rotate_half|rotate_every_two", re.IGNORECASE)
ALIBI = re.compile(r"alibi", re.IGNORECASE)
TABLE = re.compile(r"pos(ition|itional)?_?emb|embed_pos|wpe|pos_embed", re.IGNORECASE)


class Modelling(NamedTuple):
    """A file that `auto_map` names, and what it says."""

    name: str
    says: tuple[str, ...] = ()
    pairing: str = ""
    why_not: str = ""

    @property
    def found(self) -> str:
        """What it was read for, or why it was not."""
        if self.why_not:
            return self.why_not
        return f"it has {' and '.join(self.says)}" if self.says else "it says nothing plainly"


def modelling_of(data: Mapping[str, Any], folder: Path | None) -> Modelling | None:
    """The file whose model runs; None where `auto_map` names no model."""
    named = data.get("auto_map")
    pairs = named.items() if isinstance(named, Mapping) else ()
    values = [value for key, value in pairs if str(key).startswith("AutoModel")]
    if not values:
        return None
    texts = sorted({value for value in values if isinstance(value, str)})
    outcome = {match.groups() for text in texts if (match := CLASS.fullmatch(text))}
    if len(outcome) != 1 or not all(map(CLASS.fullmatch, texts)):
        return Modelling(repr(values)[:80], why_not="it names no single file")
    repository, module = next(iter(outcome))
    file = f"{module.rstrip('.').replace('.', '/')}.py"
    if repository:
        return Modelling(f"{repository[:80]}: {file[:80]}", why_not="it lies in another repository")
    if folder is None or not (folder / file).is_file():
        return Modelling(file[:80], why_not="it does not lie beside the config")
    try:
        tree = ast.parse(inputs.text_of(folder / file, CODE))
        return Modelling(file, _kinds(tree), _pairing(tree))
    except (PosencError, SyntaxError, ValueError, RecursionError, MemoryError, OSError) as error:
        return Modelling(file[:80], why_not=f"it cannot be read: {str(error)[:120]}")


def _kinds(tree: ast.AST) -> tuple[str, ...]:
    """What the code has of positions."""
    names = [name for node in ast.walk(tree) for name in _names(node)]
    kinds = {
        "ALiBi": any(map(ALIBI.search, names)),
        "a table": any(map(_is_table, ast.walk(tree))),
        "a rotation": any(map(TURN.search, names)),
    }
    return tuple(kind for kind, there in kinds.items() if there)


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a node binds or calls."""
    for field in ("id", "attr", "name", "arg"):
        if isinstance(value := getattr(node, field, None), str):
            yield value


def _is_table(node: ast.AST) -> bool:
    """Whether a node sets an attribute that is called so to rows that are learned."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(node.value, ast.Call):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    called = {name for inner in ast.walk(node.value) for name in _names(inner)}
    own = [name for target in targets for name in _names(target)]
    long = {"max_position_embeddings", "n_positions", "max_seq_len"} & called
    return (bool(long) or any(map(TABLE.search, own))) and bool(called & {"Embedding", "Parameter"})


def _pairing(tree: ast.AST) -> str:
    """The pairing of the functions whose names speak of rotations, where they have one."""
    own = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and (TURN.search(node.name) or "rotate" in node.name)
    ]
    inner = [node for one in own for node in ast.walk(one)]
    steps = [n for n in inner if isinstance(n, ast.Slice) and isinstance(n.step, ast.Constant)]
    # An arange of every second channel is no pair: only slices of both are.
    ahead = {ast.unparse(n.lower) if n.lower else "0" for n in steps if n.step.value == 2}  # type: ignore[union-attr]
    complex_ = any("view_as_complex" in _names(node) for node in inner)
    half = any(_is_half(node) for one in own if "rotate_half" in one.name for node in ast.walk(one))
    outcome = {"interleaved": {"0", "1"} <= ahead or complex_, "half": half}
    pairings = [name for name, there in outcome.items() if there]
    return pairings[0] if len(pairings) == 1 else ""


def _is_half(node: ast.AST) -> bool:
    """Whether a node cuts channels in two halves."""
    if isinstance(node, ast.Call):
        two = any(isinstance(n, ast.Constant) and n.value == 2 for n in node.args)
        return two and bool({"chunk", "split"} & {*_names(node.func)})
    cut = isinstance(node, ast.Slice) and isinstance(node.upper, ast.BinOp)
    return cut and isinstance(node.upper.op, ast.FloorDiv)  # type: ignore[attr-defined]


KINDS = {"rotary": "a rotation", "table": "a table"}
# Words of keys that ask for a kind by themselves.
WORDS = {"ALiBi": "alibi", "bias": "relative", "relative": "relative"}
SAID = ("ALiBi", *KINDS.values())


def by_file(
    keys: Keys, row: Family, entries: list[Layer], file: Modelling, notes: Notes
) -> list[Layer]:
    """The entries of a part that rest on its keys, or on what the file of its authors says.

    An entry that rests on what the class of transformers would take for keys that are left out is
    an error, as that class does not run.
    """
    biased = any(isinstance(entry.spec, ALiBi) for entry in entries)
    if file.says == ("ALiBi",) and not biased and not any(e.kind == "rotary" for e in entries):
        return _alibi(keys, file, notes) or []
    conditions = [rule["when"] for rule in row.entries if "when" in rule and applies(keys, rule)]
    asked = [one for when in conditions for one in (when if isinstance(when, list) else [when])]
    by_key = any(keys.data.get(one["key"]) is not None for one in asked) and not unread(keys)
    kept = []
    for entry in entries:
        kind = "ALiBi" if isinstance(entry.spec, ALiBi) else KINDS.get(entry.kind, entry.kind)
        left = sorted({s.field for s in entry.sources if s.origin == "class"})
        settled = by_key or file.says == (kind,) or _spelled(keys, WORDS.get(kind, ""))
        if entry.kind != "rotary" and not settled:
            left.append("the kind of encoding")
        if len(file.says) == 1 and file.says != (kind,) and kind in SAID:
            notes.error(
                f"auto_map names {file.name}, whose code has {file.says[0]}, while the config and "
                f"the row of its type have {kind}: see what the code does"
            )
        elif left:
            notes.error(
                f"{keys.where('auto_map')} names {file.name}, whose code runs instead of the class "
                f"in transformers {class_parts(None).version}, and the config leaves out "
                f"{', '.join(left)}, which only that class would settle. See {file.name} "
                f"({file.found})"
            )
        else:
            said = (Source("kind", origin="file", where=file.name),) if file.says == (kind,) else ()
            kept.append(replace(entry, sources=(*entry.sources, *said)))
    return kept


def _spelled(keys: Keys, word: str) -> bool:
    """Whether a key of the config, or of a dictionary in it, asks for a kind by its name."""
    inner = [value for value in keys.data.values() if isinstance(value, Mapping)]
    pairs = [pair for one in (keys.data, *inner) for pair in one.items()]
    return bool(word) and any(word in str(key) and value for key, value in pairs)


@noted
def _alibi(keys: Keys, file: Modelling, notes: Notes) -> list[Layer]:
    """The entry of a file that has slopes, and neither a table nor a rotation."""
    if (heads := keys.first(HEAD_COUNTS)) is None:
        raise UnsettledError(
            f"{file.name} has ALiBi, and the config counts no heads: {HEAD_COUNTS[0]} is missing"
        )
    for key in unread(keys):
        keys.get(key)  # of the code, whose slopes are those of any length
    try:
        spec = ALiBi(heads=heads[1])  # type: ignore[arg-type]
    except PosencError as error:
        raise UnsettledError(f"{keys.where(heads[0])}: {error}") from None
    notes.warning(
        f"{file.name}, which auto_map names, was read as text: it has ALiBi, and no table and no "
        "rotation; whether its slopes are those of the paper was not checked"
    )
    sources = (
        Source("kind", origin="file", where=file.name),
        Source("heads", origin="config", where=keys.where(heads[0])),
    )
    return [Layer(notes.layer or "attention", spec=spec, sources=sources)]

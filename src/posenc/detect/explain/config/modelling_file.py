"""The file of code that runs instead of a class of transformers, read as text, never run.

A config with `auto_map` names classes of its authors. Their file may lie beside it; what its names
say plainly of positions is taken from it. Comments and texts in it say nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from posenc._core.errors import PosencError
from posenc._core.io import inputs

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
    named = named if isinstance(named, Mapping) else {}
    values = [value for key, value in named.items() if str(key).startswith("AutoModel")]
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
    nodes = [*ast.walk(tree)]
    names = [name for node in nodes for name in _names(node)]
    tables = any(_is_table(node) for node in nodes)
    kinds = {
        "ALiBi": any(map(ALIBI.search, names)),
        "a table": tables,
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
    makes = called & {"Embedding", "Parameter"}
    own = [name for target in targets for name in _names(target)]
    long = {"max_position_embeddings", "n_positions", "max_seq_len"} & called
    return bool(makes and (long or any(map(TABLE.search, own))))


def _pairing(tree: ast.AST) -> str:
    """The pairing of the functions whose names speak of rotations, where they have one."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    own = [n for n in ast.walk(tree) if isinstance(n, kinds) and _speaks(n)]
    inner = [node for one in own for node in ast.walk(one)]
    steps = [n for n in inner if isinstance(n, ast.Slice) and isinstance(n.step, ast.Constant)]
    # An arange of every second channel is no pair: only slices of both are.
    ahead = {ast.unparse(n.lower) if n.lower else "0" for n in steps if n.step.value == 2}  # type: ignore[union-attr]
    complex_ = any("view_as_complex" in _names(node) for node in inner)
    half = any(_is_half(node) for one in own if "rotate_half" in one.name for node in ast.walk(one))
    outcome = {"interleaved": {"0", "1"} <= ahead or complex_, "half": half}
    pairings = [name for name, there in outcome.items() if there]
    return pairings[0] if len(pairings) == 1 else ""


def _speaks(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return bool(TURN.search(node.name) or re.search("rotate", node.name))


def _is_half(node: ast.AST) -> bool:
    """Whether a node cuts channels in two halves."""
    if isinstance(node, ast.Call):
        two = [n for n in node.args if isinstance(n, ast.Constant) and n.value == 2]
        return bool({"chunk", "split"} & {*_names(node.func)}) and bool(two)
    cut = isinstance(node, ast.Slice) and isinstance(node.upper, ast.BinOp)
    return cut and isinstance(node.upper.op, ast.FloorDiv)  # type: ignore[attr-defined]

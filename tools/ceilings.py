"""Hold what makes the source hard to read below ceilings that may only fall: `make check`.

The ceilings stand in `[tool.ceilings]` of `pyproject.toml`. Something above its ceiling is an error
that names the worst places. What has fallen below is told; `--lower` writes it down, and never
writes a larger number.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src" / "posenc", ROOT / "study" / "src" / "posenc_study")
PROJECT = ROOT / "pyproject.toml"
# Names that say what happened to a thing and not what it is.
EMPTY = frozenset(
    ("found", "made", "given", "known", "told", "held", "said", "want", "got", "who", "where")
)
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# What each ceiling bounds, and what to do about it.
MEANING = {
    "empty-names": (
        "per cent of bindings are names that say nothing",
        f"Call each what it is: none of {', '.join(sorted(EMPTY))}.",
    ),
    "repeated-classes": (
        "class names stand for several classes",
        "Give the new class a name of its own.",
    ),
    "long-signatures": (
        "functions have ten parameters or more",
        "Pass what belongs together as one value.",
    ),
    "long-files": ("files have more than 400 lines", "Split the file by its subjects."),
    "deep-nestings": (
        "functions nest four blocks or more",
        "Return early, or make the inner block a function.",
    ),
}


def measured() -> tuple[dict[str, float], dict[str, list[str]]]:
    """The figures, and for each its worst places."""
    bindings, empty, classes = 0, Counter[str](), defaultdict(list)
    signatures, files, nestings = [], [], []
    for path in sorted(path for source in SOURCES for path in source.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        if (count := text.count("\n")) > 400:
            files.append((count, name))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(f"{name}:{node.lineno}")
            bound = node.arg if isinstance(node, ast.arg) else None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound = node.id
            bindings += bound is not None
            empty[name] += bound in EMPTY
            if isinstance(node, FUNCTIONS):
                place = f"{name}:{node.lineno} {node.name}"
                if (count := _parameters(node.args)) >= 10:
                    signatures.append((count, place))
                if (count := _depth(node)) >= 4:
                    nestings.append((count, place))
    repeated = {name: places for name, places in classes.items() if len(places) > 1}
    figures = {
        "empty-names": round(100 * empty.total() / bindings, 2),
        "repeated-classes": len(repeated),
        "long-signatures": len(signatures),
        "long-files": len(files),
        "deep-nestings": len(nestings),
    }
    places = {
        "empty-names": [f"{name} ({count})" for name, count in empty.most_common(12)],
        "repeated-classes": [f"{name}: {', '.join(at)}" for name, at in sorted(repeated.items())],
        "long-signatures": _worst(signatures),
        "long-files": _worst(files),
        "deep-nestings": _worst(nestings),
    }
    return figures, places


def _parameters(arguments: ast.arguments) -> int:
    names = [x.arg for x in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    stars = (arguments.vararg is not None) + (arguments.kwarg is not None)
    return len(names) + stars - (names[:1] in (["self"], ["cls"]))


def _depth(node: ast.AST, depth: int = 0) -> int:
    """How deep blocks stand in each other, functions inside a function left out."""
    inner = [n for n in ast.iter_child_nodes(node) if not isinstance(n, (*FUNCTIONS, ast.ClassDef))]
    return max([depth, *(_depth(n, depth + isinstance(n, BLOCKS)) for n in inner)])


def _worst(counted: list[tuple[int, str]]) -> list[str]:
    return [f"{name} ({count})" for count, name in sorted(counted, reverse=True)]


def lower(ceilings: dict[str, float], figures: dict[str, float]) -> None:
    """Write the ceilings that have become lower."""
    text = PROJECT.read_text(encoding="utf-8")
    for key, figure in figures.items():
        if figure < ceilings[key]:
            text = re.sub(rf"^{key} = .*$", f"{key} = {figure:g}", text, flags=re.MULTILINE)
    PROJECT.write_text(text, encoding="utf-8")


def main() -> int:
    """Compare with the ceilings; 1 if one is exceeded."""
    ceilings = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["ceilings"]
    figures, places = measured()
    if "--lower" in sys.argv[1:]:
        lower(ceilings, figures)
    risen = [key for key in MEANING if figures[key] > ceilings[key]]
    for key in risen:
        statement, todo = MEANING[key]
        print(f"{figures[key]:g} {statement}, and {ceilings[key]:g} is the most. {todo} Worst:")
        print("".join(f"  {place}\n" for place in places[key][:20]), end="")
    fallen = [f"{key} {figures[key]:g}" for key in MEANING if figures[key] < ceilings[key]]
    if fallen and not risen and "--lower" not in sys.argv[1:]:
        print(f"Lower now: {', '.join(fallen)}. Keep it so: python tools/ceilings.py --lower")
    return bool(risen)


if __name__ == "__main__":
    sys.exit(main())

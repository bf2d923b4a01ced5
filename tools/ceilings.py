"""Hold what makes the source hard to read below ceilings that may only fall: `make check`.

So are the words of the README and of the pages of `docs` but for those that the build makes: what
has a letter or a digit, code and tables included; tables that are files beside a page are data.

The ceilings stand in `[tool.ceilings]` of `pyproject.toml`; those of statements, of folders and
of words are tables, a row for each part. Something above its ceiling is an error that names the
worst places.

They fall by themselves: `make check` passes `--lower`, which writes down what has fallen, never a
larger number and never one below `ROOM`. `.ci/run` passes `--exact`, to which a number that has
fallen and was not written is an error too. Without either, what has fallen is told. A larger number
is written by hand, and so is the row of a new part.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "posenc"
STUDY = ROOT / "study" / "src" / "posenc_study"
PROJECT = ROOT / "pyproject.toml"
# Names that say what happened to a thing and not what it is.
EMPTY = frozenset(
    ("found", "made", "given", "known", "told", "held", "said", "want", "got", "who", "where")
)
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try)
WORD = re.compile(r"\w")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SECTIONS = re.compile(
    r"^(Parameters|Attributes|Methods|Returns|Yields|Receives|Other Parameters|Raises|Warns|"
    r"Warnings|See Also|Notes|References|Examples)\n-{3,}$",
    re.MULTILINE,
)
# What a ceiling leaves free: files that any folder may have.
ROOM = {
    "folder-files.src": 16,
    "folder-files.encodings": 24,
    "folder-files.tests": 16,
    "folder-files.tools": 16,
    "words.docs": 58_000,
    "words.readme": 1_600,
}

# What each ceiling bounds, and what to do about it.
MEANING = {
    "statements": (
        "statements, without docstrings",
        "Say each thing once; a part that brings something takes something away.",
    ),
    "words": (
        "words stand in the documentation",
        "Say it once; make a long table data: `tools/pages/shelf.py`.",
    ),
    "folder-files": (
        "Python files stand in one folder",
        "Make a folder of those that belong together.",
    ),
    "arrows-up": (
        "modules are named by modules of layers below them",
        "Hand the function down: `posenc._names.HANDED`.",
    ),
    "hidden-imports": (
        "modules of posenc are imported by a text, which no import contract sees",
        "Write an import statement. Free are `__getattr__` of a package and f-strings of its own.",
    ),
    "internal-sections": (
        "sections stand in docstrings that no public name reaches",
        "Write one sentence or two there.",
    ),
    "empty-names": (
        "bindings are names that say nothing",
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

Counted = list[tuple[int, str]]  # how much of something is at a place


class File(NamedTuple):
    """A file of the source; `module` is its name in imports."""

    name: str
    module: str
    text: str
    tree: ast.Module
    nodes: list[ast.AST]


def measured() -> tuple[dict[str, int], dict[str, list[str]]]:
    """The figures, and for each its worst places."""
    own = [_file(path, SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
    files = own + [_file(path, STUDY) for path in sorted(STUDY.rglob("*.py"))]
    sums = {
        **_statements(own),
        **_words(),
        "internal-sections": _internal_sections(own),
        "empty-names": [(_empty_names(file), file.name) for file in files],
    }
    counts = {
        "arrows-up": _arrows_up(own),
        "hidden-imports": [place for file in own for place in _hidden_imports(file)],
        "repeated-classes": _repeated_classes(files),
        "long-signatures": _functions(files, lambda node: _parameters(node.args), 10),
        "long-files": [(n, f.name) for f in files if (n := f.text.count("\n")) > 400],
        "deep-nestings": _functions(files, _depth, 4),
    }
    most = _folders()
    figures = {key: sum(count for count, _ in places) for key, places in sums.items()}
    figures |= {key: max(count for count, _ in places) for key, places in most.items()}
    figures |= {key: len(places) for key, places in counts.items()}
    return figures, {key: _worst(places) for key, places in (sums | most | counts).items()}


def _file(path: Path, source: Path) -> File:
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(source.parent).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(text)
    return File(str(path.relative_to(ROOT)), module, text, tree, [*ast.walk(tree)])


def _worst(counted: Counted) -> list[str]:
    return [f"{name} ({count})" for count, name in sorted(counted, reverse=True) if count]


# --- size -----------------------------------------------------------------------------------------


def _statements(files: list[File]) -> dict[str, Counted]:
    """Of all files, and of those of each part: a package, or a package within `detect`."""
    parts = defaultdict[str, Counted](list)
    for file in files:
        nodes = [node for node in file.nodes if isinstance(node, ast.stmt)]
        texts = [
            n for n in file.nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
        ]
        folders = Path(file.name).relative_to(SOURCE.relative_to(ROOT)).parts[:-1]
        part = "/".join(folders[: 1 + (folders[:1] == ("detect",))]) or "posenc"
        for key in ("all", part):
            parts[f"statements.{key}"].append((len(nodes) - len(texts), file.name))
    return parts


def _words() -> dict[str, Counted]:
    """Of the README, and of each page that people write."""
    pages = {
        path.relative_to(ROOT): path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not {"_build", "_generated", "encodings"} & set(path.relative_to(ROOT).parts)
    }
    files = {"docs": pages, "readme": {Path("README.md"): ROOT / "README.md"}}
    return {
        f"words.{part}": [
            (sum(map(bool, map(WORD.search, path.read_text("utf-8").split()))), str(name))
            for name, path in own.items()
            if path.exists()
        ]
        for part, own in files.items()
    }


def _folders() -> dict[str, Counted]:
    """Files of each folder, by the rows of their ceilings."""
    rows = {f"folder-files.{row}": [(0, row)] for row in ("src", "encodings", "tests", "tools")}
    roots = [SOURCE, STUDY, ROOT / "tests", ROOT / "tools"]
    counts = Counter(path.parent for root in roots for path in root.rglob("*.py"))
    for folder, count in counts.items():
        name = str(folder.relative_to(ROOT))
        row = "encodings" if folder.parent == SOURCE / "encodings" else name.partition("/")[0]
        row = "src" if row == "study" else row
        rows[f"folder-files.{row}"].append((count, name))
    return rows


def _functions(files: list[File], count: Any, least: int) -> Counted:
    """The functions of which there is much."""
    return [
        (number, f"{file.name}:{node.lineno} {node.name}")
        for file in files
        for node in file.nodes
        if isinstance(node, FUNCTIONS) and (number := count(node)) >= least
    ]


def _parameters(arguments: ast.arguments) -> int:
    names = [x.arg for x in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    stars = (arguments.vararg is not None) + (arguments.kwarg is not None)
    return len(names) + stars - (names[:1] in (["self"], ["cls"]))


def _depth(node: ast.AST, depth: int = 0) -> int:
    """How deep blocks stand in each other, functions inside a function left out."""
    inner = [n for n in ast.iter_child_nodes(node) if not isinstance(n, (*FUNCTIONS, ast.ClassDef))]
    return max([depth, *(_depth(n, depth + isinstance(n, BLOCKS)) for n in inner)])


# --- names ----------------------------------------------------------------------------------------


def _empty_names(file: File) -> int:
    stored = [n.id for n in file.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return sum(
        name in EMPTY for name in (*stored, *(n.arg for n in file.nodes if isinstance(n, ast.arg)))
    )


def _repeated_classes(files: list[File]) -> Counted:
    classes = defaultdict[str, list[str]](list)
    for file in files:
        for node in file.nodes:
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(f"{file.name}:{node.lineno}")
    return [(len(at), f"{name}: {', '.join(at)}") for name, at in classes.items() if len(at) > 1]


# --- layers ---------------------------------------------------------------------------------------


def _arrows_up(files: list[File]) -> Counted:
    """Modules that a file of a lower layer imports or names in a text, each pair once.

    Two files are of no layer: `posenc` itself, the top, and `_names`, the list that it reads.
    """
    contracts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [re.findall(r"\w+", layer) for layer in contracts[0]["layers"]]
    rank = {f"posenc.{name}": -row for row, layer in enumerate(layers) for name in layer}
    modules = {file.module for file in files}

    def height(module: str) -> int | None:
        return rank.get(".".join(module.split(".")[:2]))

    return [
        (1, f"{file.module} -> {module}")
        for file in files
        if file.module != "posenc._names" and (own := height(file.module)) is not None
        for module in sorted({*_named(file)} & modules)
        if (other := height(module)) is not None and other > own
    ]


def _named(file: File) -> Iterator[str]:
    """What may be a module in the imports and texts of a file."""
    for node in file.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "posenc":
            yield from (f"posenc.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _hidden_imports(file: File) -> Counted:
    """Imports by a text that is written there."""
    faces: list[ast.AST] = []
    if file.name.endswith("__init__.py"):
        faces = [n for n in file.nodes if getattr(n, "name", "") == "__getattr__"]
    excused = {id(node) for face in faces for node in ast.walk(face)}
    package = ".".join(file.module.split(".")[:2]) + "."
    places = []
    for node in file.nodes:
        if not isinstance(node, ast.Call) or id(node) in excused or not node.args:
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        text = node.args[0]
        begins = text.values[0] if isinstance(text, ast.JoinedStr) and text.values else text
        word = begins.value if isinstance(begins, ast.Constant) else None
        inside = isinstance(text, ast.JoinedStr) and str(word).startswith(package)
        if (
            called in ("import_module", "__import__")
            and re.match("posenc\\b", str(word))
            and not inside
        ):
            places.append((1, f"{file.name}:{node.lineno} {ast.unparse(node)}"))
    return places


# --- docstrings -----------------------------------------------------------------------------------


def public_modules() -> tuple[str, ...]:
    """`MODULES` of `check_docstrings.py`, which takes seconds to import."""
    text = Path(__file__).with_name("check_docstrings.py").read_text(encoding="utf-8")
    statements = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    [value] = [node.value for node in statements if ast.unparse(node.targets[0]) == "MODULES"]
    return tuple(ast.literal_eval(value))


def public_places(files: list[File]) -> set[tuple[str, str]]:
    """(module, name) of the classes and functions that public names stand for."""
    trees = {file.module: file.tree for file in files}
    # Where a package makes its names when they are asked for, its stub lists them.
    for path in SOURCE.rglob("__init__.pyi"):
        trees[".".join(path.relative_to(SOURCE.parent).parts[:-1])] = ast.parse(path.read_text())
    places = set()
    for module in public_modules():
        for name in _listed(trees.get(module)):
            home, own = module, name
            while home in trees and (origin := _origin(trees[home], own, trees)):
                home, own = origin
            places.add((home, own))
    return places


def _listed(tree: ast.Module | None) -> list[str]:
    """`__all__` of a module."""
    for node in () if tree is None else tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _origin(tree: ast.Module, name: str, modules: Collection[str]) -> tuple[str, str] | None:
    """From where a module imports a name that is no module, and its name there.

    A stub that has overloads of a function imports the function with an underscore before it.
    """
    checked = [node.body for node in tree.body if isinstance(node, ast.If)]  # by type checkers
    for node in (*tree.body, *(node for body in checked for node in body)):
        if getattr(node, "name", "") == name:
            return None
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            known_as = alias.asname or alias.name
            written = alias.name == name and known_as == f"_{name}" and _overloaded(tree, name)
            if (name == known_as or written) and f"{node.module}.{name}" not in modules:
                return str(node.module), alias.name
    return None


def _overloaded(tree: ast.Module, name: str) -> bool:
    defined = [node for node in tree.body if getattr(node, "name", "") == name]
    return any(ast.unparse(d) == "overload" for node in defined for d in node.decorator_list)  # type: ignore[attr-defined]


def _internal_sections(files: list[File]) -> Counted:
    """Sections in what is neither public nor inside a public class or function."""
    public = public_places(files)
    counted = []
    for file in files:
        heads = [
            node
            for node in file.tree.body
            if (file.module, getattr(node, "name", "")) not in public
        ]
        for node in (inner for head in heads for inner in ast.walk(head)):
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                sections = SECTIONS.findall(ast.get_docstring(node) or "")
                counted.append((len(sections), f"{file.name}:{node.lineno} {node.name}"))
    return counted


# --- ceilings -------------------------------------------------------------------------------------


def read() -> dict[str, int]:
    """The ceilings; a row of a table is called `table.row`."""
    table = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["ceilings"]
    rows = {k: v if isinstance(v, dict) else {"": v} for k, v in table.items()}
    return {f"{k}.{row}".rstrip("."): n for k, values in rows.items() for row, n in values.items()}


def lower(figures: dict[str, int]) -> None:
    """Write the ceilings that have become lower; the row of a part that is gone goes, too."""
    section, lines = "", []
    for line in PROJECT.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("["):
            section = line.strip().strip("[]")
        row = re.match(r'"?([\w/-]+)"? = (\d+)$', line)
        if row and section.startswith("tool.ceilings"):
            key = f"{section}.{row[1]}".removeprefix("tool.ceilings.")
            if key not in figures:
                continue
            figure = max(figures[key], ROOM.get(key, 0))
            lines.append(line.replace(f" = {row[2]}", f" = {min(figure, int(row[2]))}"))
        else:
            lines.append(line)
    PROJECT.write_text("".join(lines), encoding="utf-8")


def main() -> int:
    """Compare with the ceilings; 1 if one is exceeded, or with `--exact` one is not reached."""
    figures, places = measured()
    if "--lower" in sys.argv[1:]:
        lower(figures)
    ceilings = read()
    risen = [key for key in figures if figures[key] > ceilings.get(key, 0)]
    for key in risen:
        (subject, _, part), most = key.partition("."), ceilings.get(key, 0)
        statement, todo = MEANING[subject]
        within = f" ({part})" if part else ""
        print(f"{figures[key]} {statement}{within}, and {most} is the most. {todo} Worst:")
        print("".join(f"  {place}\n" for place in places[key][:20]), end="")
    fallen = [
        f"{key} {figures.get(key, 'gone')}"
        for key, most in ceilings.items()
        if max(figures.get(key, -1), ROOM.get(key, -1)) < most
    ]
    if fallen:
        print(f"Lower now: {', '.join(fallen)}. `make check` writes that into pyproject.toml.")
    return bool(risen or (fallen and "--exact" in sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())

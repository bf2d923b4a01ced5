"""The pages of the documentation that are made from the code: encodings and the command.

A page of an encoding shows its docstring, fields, presets, BibTeX and a picture. What is missing is
an error, so that an encoding cannot be documented by half.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from tools.pages import family_pairings, picture

import posenc
from posenc import presets, registry
from posenc._core.annotations import words_of
from posenc._core.spec.answers import brief
from posenc._core.spec.checks import small
from posenc._core.spec.spec import Spec

SECTION = set("-=")
SIDE = 64  # positions and channels of the pictures
# What people come to a page for, above all else.
TOPS = {
    "RoPE": (family_pairings.LEAD, "", "All families: [the table](../pairing.md#families).", "")
}


def write(docs: Path) -> None:
    """Write `encodings/*.md` and `_generated/*.md` below a folder, where they changed."""
    folder = docs / "encodings"
    made = {}
    for name in registry.SPECS:  # those of other packages have pages elsewhere
        spec: Any = registry.lookup(name)
        made[folder / f"{spec.__name__}.md"] = page_of(spec)
        draw(spec, folder / f"{spec.__name__}.png")
    names = "\n".join(path.stem for path in made)
    made[folder / "index.md"] = (
        f"# Encodings\n\nOne page for each, made from the registry.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    )
    made[docs / "_generated" / "command.md"] = command_help()
    made[docs / "_generated" / "encodings.md"] = reference()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for stale in set(folder.glob("*.md")) - made.keys():
        stale.unlink()


def reference() -> str:
    """The encodings of the registry, for the page of all public names."""
    rows = (f".. autoclass:: posenc.{name}\n   :no-index:" for name in registry.SPECS)
    return "\n".join(["```{eval-rst}", *rows, "```", ""])


def missing(found: Iterable[str]) -> set[str]:
    """The encodings of the registry whose page is not among the documents found."""
    return set(registry.SPECS) - {name.removeprefix("encodings/") for name in found}


# --- encodings ------------------------------------------------------------------------------------


def page_of(spec: type[Spec]) -> str:
    """The page of an encoding as Markdown."""
    name = spec.__name__
    doc = inspect.getdoc(spec) or ""
    if "\n\n    " not in doc:
        raise ValueError(f"{name}: the docstring has no equation (an indented paragraph)")
    if not spec.bibtex.strip().startswith("@"):
        raise ValueError(f"{name}: no BibTeX")
    example = spec.example
    what, _ = SHOWN[spec.kind]
    cells = spec.kind in ("bias", "relative") and len(small(spec).axes) > 1
    where = example.where or ("the cells of 8 x 8" if cells else f"positions 0 to {SIDE - 1}")
    return "\n".join(
        [
            f"# {name}",
            "",
            *TOPS.get(name, ()),
            "```{eval-rst}",
            f".. autoclass:: posenc.{name}",
            "```",
            "",
            f"```{{figure}} {name}.png",
            f":alt: {what} of {name} as a heat map.",
            "",
            f"{what} of `{brief(small(spec))}`, {where}: one square for each number.",
            "```",
            "",
            "## Fields",
            "",
            "| field | allowed | default |",
            "|---|---|---|",
            *fields(spec),
            "",
            "## Presets",
            "",
            *preset_rows(name),
            "",
            "## Citation",
            "",
            "```bibtex",
            spec.bibtex.strip(),
            "```",
            "",
        ]
    )


def fields(spec: type[Spec]) -> list[str]:
    """Rows of a table: field, allowed values, default."""
    defaults = {field.name: field.default for field in dataclasses.fields(spec)}  # type: ignore[arg-type]
    rows = []
    hints = get_type_hints(spec)
    for name, words in ((name, words_of(hints[name])) for name in defaults):
        default = defaults[name]
        shown = "required" if default is dataclasses.MISSING else f"`{default!r}`"
        if isinstance(default, registry.Value):
            shown = f"`{type(default).__name__}()`"
        rows.append(f"| `{name}` | {words} | {shown} |")
    return rows


def preset_rows(name: str) -> list[str]:
    """Rows of a table: preset, what it sets, where that was read."""
    chosen = [presets.row(key) for key in presets.names()]
    chosen = [row for row in chosen if row.spec["type"] == name]
    if not chosen:
        return ["None so far."]
    rows = ["| preset | sets | read in |", "|---|---|---|"]
    for row in chosen:
        sets = {key: _bare(value) for key, value in row.spec.items() if key != "type"}
        shown = ", ".join(f"`{key}`: `{json.dumps(value)}`" for key, value in sets.items())
        sources = "; ".join(_source(source) for source in row.sources)
        rows.append(f"| `{row.name}` | {shown or 'nothing'}. {row.note} | {sources} |")
    return rows


def draw(spec: type[Spec], path: Path) -> None:
    """The picture of an encoding."""
    _, make = SHOWN[spec.kind]
    values, labels = make(small(spec))
    picture.draw(values, path, cell=6, labels=labels)


def _rows(spec: Any) -> tuple[np.ndarray, tuple[str, str]]:
    points = spec.example.points
    positions = SIDE if points is None else points()
    rows = posenc.table(spec, positions, params=posenc.init(spec))
    return rows, ("position", "dimension")


def _cosines(spec: Any) -> tuple[np.ndarray, tuple[str, str]]:
    """Along the first axis; of the first head, where heads differ."""
    positions = np.zeros((SIDE, len(spec.axes)), dtype=np.int64)
    positions[:, 0] = np.arange(SIDE)
    where = positions if len(spec.axes) > 1 else positions[:, 0]
    cos, _ = posenc.cos_sin(spec, where, params=posenc.init(spec) or None)
    return cos.reshape(-1, SIDE, cos.shape[-1])[0], ("position", "pair")


def _places(spec: Any) -> np.ndarray:
    """Those of its example; or positions 0 to 63, or the cells of a grid of 8 x 8."""
    if spec.example.points is not None:
        return np.asarray(spec.example.points())
    count = np.arange(SIDE)
    return count if len(spec.axes) == 1 else np.stack(np.divmod(count, 8), axis=-1)


def _bias(spec: Any) -> tuple[np.ndarray, tuple[str, str]]:
    """Of the first head; what is minus infinity is drawn as the least of the others."""
    entries = posenc.bias(spec, _places(spec), params=posenc.init(spec) or None)[0]
    finite = np.isfinite(entries)
    return np.where(finite, entries, entries[finite].min()), ("query", "key")


def _scores(spec: Any) -> tuple[np.ndarray, tuple[str, str]]:
    """For queries and keys that are all the same, so that only positions make a difference."""
    rng = np.random.default_rng(0)
    q, k = (np.broadcast_to(rng.normal(size=spec.dim), (1, SIDE, spec.dim)) for _ in range(2))
    where = _places(spec)
    return posenc.relative(spec, q, k, where, where, params=posenc.init(spec))[0], ("query", "key")


# kind: what a picture shows, and how it comes from a spec
SHOWN: dict[str, tuple[str, Callable[[Any], tuple[np.ndarray, tuple[str, str]]]]] = {
    "table": ("The rows", _rows),
    "rotary": ("The cosines", _cosines),
    "bias": ("The bias of the first head", _bias),
    "relative": (
        "What positions add to the scores of one query vector and one key vector",
        _scores,
    ),
}


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items() if key != "type"}
    return value


def _source(source: Any) -> str:
    place = source.get("repository") or source.get("paper") or ""
    path = f" `{source['path']}`" if "path" in source else ""
    symbol = f" `{source['symbol']}`" if "path" in source else f" {source.get('symbol', '')}"
    at = f" at {source['version']}" if "version" in source else ""
    return f"{place}{path}{symbol}{at}".strip()


# --- the command ----------------------------------------------------------------------------------


def command_help() -> str:
    """The help of the command and its subcommands."""
    import click

    from posenc.cli import app

    def help_of(command: click.Command, name: str) -> str:
        # The width of a page, whatever the terminal of the build.
        with click.Context(command, info_name=name, terminal_width=80) as context:
            return f"```text\n{command.get_help(context)}\n```\n"

    parts = [help_of(app, "posenc")]
    for name in app.list_commands(click.Context(app)):
        command = app.get_command(click.Context(app), name)
        assert command is not None
        parts += [f"## posenc {name}\n", help_of(command, f"posenc {name}")]
    return "\n".join(parts)


# --- docstrings -----------------------------------------------------------------------------------


def _plain_bars(line: str) -> str:
    """A line whose |x| stays an absolute value; reStructuredText would substitute it."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"\|(?=\S)", r"\\|", part) for part in parts[::2]]
    return "`".join(parts)


def with_literal_blocks(lines: list[str]) -> list[str]:
    """The lines of a docstring, with each indented paragraph before its sections made literal."""
    made: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if following.strip() and set(following.strip()) <= SECTION:
            return made + [_plain_bars(rest) for rest in lines[number:]]
        indented = line.startswith("    ")
        if indented and not inside and (not made or not made[-1].strip()):
            made += ["::", ""]
            inside = True
        elif line.strip() and not indented:
            inside = False
        made.append(line if indented else _plain_bars(line))
    return made

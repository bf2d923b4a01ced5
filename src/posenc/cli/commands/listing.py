"""`posenc list`, what there is, from the registry and the data; `posenc cite`, whom to cite."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import click

from posenc._core.errors import suggest
from posenc.cli.options.common import as_json, encoding_names, preset_names
from posenc.cli.output.lines import print_definitions, print_json, print_lines

KINDS = {
    "table": "added to token embeddings",
    "rotary": "turns queries and keys",
    "bias": "added to attention scores",
    "relative": "computed from queries and keys",
}


Definitions = list[tuple[str, str]]
SHOWN = ("name", "kind", "type", "pattern", "summary", "note")


@click.command(
    epilog="""\b
Examples:
  posenc list
  posenc list rotary
"""
)
@click.argument("words", nargs=-1)
@as_json
def command(words: tuple[str, ...], json_: bool) -> None:
    """List the encodings, presets and plans of models.

    Without WORDS, it prints the names on one page. With WORDS, it describes the entries that have
    all of them in the name, kind or description, in any case of letters: `posenc list rotary`,
    `posenc list t5`. The name of one encoding shows its formula and its fields, too.
    """
    from posenc import presets
    from posenc.registry import lookup, specs, spelled

    every: dict[str, list[dict[str, Any]]] = {
        "encodings": [
            {"name": cls.__name__, "kind": cls.kind, "summary": summary(cls)} for cls in specs()
        ],
        "presets": [
            {
                "name": row.name,
                "kind": row.kind,
                "type": row.spec["type"],
                "sources": list(row.sources),
                "note": row.note,
            }
            for row in map(presets.row, presets.names())
        ],
        "plans": [
            {
                "name": row.name,
                "pattern": row.pattern,
                "sizes": dict(row.sizes),
                "sources": list(row.sources),
                "note": row.note,
            }
            for row in map(presets.plan_row, presets.plan_names())
        ],
    }
    asked = [word.lower() for word in words]
    rows = {name: [row for row in all_ if _has(row, asked)] for name, all_ in every.items()}
    if words and not any(rows.values()):
        names = [row["name"] for all_ in every.values() for row in all_]
        raise click.UsageError(f"nothing has {' '.join(words)!r}. {suggest(words[0], names)}")
    if json_:
        print_json(rows)
        return
    print_definitions(_everything(every) if not words else _described(rows))
    if len(words) == 1 and (name := spelled(words[0])):
        print_lines(["", *_about(lookup(name))])


def _everything(every: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Definitions]:
    """The names alone: one page."""
    number = {name: len(rows) for name, rows in every.items()}
    names = {name: ", ".join(row["name"] for row in rows) for name, rows in every.items()}
    kinds = [
        (
            kind,
            f"{about}: {', '.join(r['name'] for r in every['encodings'] if r['kind'] == kind)}",
        )
        for kind, about in KINDS.items()
    ]
    return {
        f"{number['encodings']} encodings (posenc list NAME describes one)": kinds,
        f"{number['presets']} presets, as models and libraries have them (--preset NAME)": [
            ("", names["presets"])
        ],
        f"{number['plans']} plans, layer by layer (posenc explain --plan NAME)": [
            ("", names["plans"])
        ],
    }


def _described(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Definitions]:
    """What is said of each entry."""
    kinds = {f"{kind} ({about}):": [(row["name"], row["summary"]) for row in rows["encodings"]
             if row["kind"] == kind] for kind, about in KINDS.items()}  # fmt: skip
    families = [(row["name"], f"{row['type']}. {row['note']}") for row in rows["presets"]]
    plans = [(row["name"], f"{row['pattern']}. {row['note']}") for row in rows["plans"]]
    sections = {
        **kinds,
        "presets (--preset NAME):": families,
        "plans of models (posenc explain --plan NAME):": plans,
    }
    return {title: rows for title, rows in sections.items() if rows}


def _about(cls: type) -> list[str]:
    """The formula and the fields of an encoding: its docstring up to the errors."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("\n")[2].partition("\nRaises\n")[0]
    return [f"  {line}".rstrip() for line in text.strip("\n").splitlines() if "----" not in line]


def _has(row: dict[str, Any], words: list[str]) -> bool:
    """Whether what is shown of an entry has all of some words."""
    shown = " ".join(str(row.get(key, "")) for key in SHOWN).lower()
    return all(word in shown for word in words)


def summary(cls: type) -> str:
    """The first line of a docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]


@click.command(
    epilog="""\b
Examples:
  posenc cite RoPE
  posenc cite RoPE ALiBi KERPLE
"""
)
@click.argument(
    "names", metavar="NAME…", nargs=-1, required=True,
    shell_complete=lambda *typed: [*encoding_names(*typed), *preset_names(*typed)],
)  # fmt: skip
@as_json
def cite(names: tuple[str, ...], json_: bool) -> None:
    """Print the BibTeX of encodings.

    NAME is an encoding or a preset, one or several; see `posenc list`. The JSON of several is a
    list.
    """
    from posenc.presets import cite

    references = [*map(cite, names)]
    if json_:
        rows = [reference.to_dict() for reference in references]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        click.echo("\n\n".join(dict.fromkeys(map(str, references))))

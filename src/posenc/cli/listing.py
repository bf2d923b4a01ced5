"""`posenc list`: what there is, from the registry and the data."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from posenc.cli._options import as_json
from posenc.cli._show import print_json

__all__ = ["command", "summary"]

KINDS = {
    "table": "added to the embeddings",
    "rotary": "turns queries and keys",
    "bias": "added to the attention logits",
    "relative": "meets the queries and keys in attention",
}


@click.command()
@as_json
def command(json_: bool) -> None:
    """List the encodings, presets and plans of models."""
    from posenc import presets
    from posenc.registry import specs

    encodings = [
        {"name": cls.__name__, "kind": cls.kind, "summary": summary(cls)} for cls in specs()
    ]
    families: list[dict[str, Any]] = [
        {
            "name": row.name,
            "kind": row.kind,
            "type": row.spec["type"],
            "sources": list(row.sources),
            "note": row.note,
        }
        for row in map(presets.row, presets.names())
    ]
    plans = [
        {
            "name": row.name,
            "pattern": row.pattern,
            "sizes": dict(row.sizes),
            "sources": list(row.sources),
            "note": row.note,
        }
        for row in map(presets.plan_row, presets.plan_names())
    ]
    if json_:
        print_json({"encodings": encodings, "presets": families, "plans": plans})
        return
    kinds: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in encodings:
        kinds[row["kind"]].append((row["name"], row["summary"]))
    formatter = click.HelpFormatter(width=100)
    for kind, rows in kinds.items():
        with formatter.section(f"{kind} ({KINDS[kind]})"):
            formatter.write_dl(rows)
    with formatter.section("presets (--preset NAME)"):
        formatter.write_dl([(f["name"], f"{f['type']}. {f['note']}") for f in families])
    with formatter.section("plans of models (posenc explain --plan NAME)"):
        formatter.write_dl([(str(p["name"]), f"{p['pattern']}. {p['note']}") for p in plans])
    click.echo(formatter.getvalue(), nl=False)


def summary(cls: type) -> str:
    """The first line of a docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]

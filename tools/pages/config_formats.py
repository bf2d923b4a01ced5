"""Formats of configs that are not of transformers: how each is known, what it calls its keys."""

from __future__ import annotations

from tools.pages import family_pairings

from posenc.presets.families import config_formats

SHOWN = ("rope_theta", "head_dim", "hidden_size", "num_attention_heads", "max_position_embeddings")


def table() -> str:
    """The table in Markdown, a row for each format."""
    head = ["format", "`--to`", "known by all of", "base, width, heads, length", "pairing"]
    lines = [f"| {' | '.join([*head, 'read from'])} |", f"|{'---|' * (len(head) + 1)}"]
    for name, row in config_formats().items():
        keys = [f"`{row['names'][word][0]}`" for word in SHOWN if word in row["names"]]
        place = " or ".join(f"`{part}`" for part in row.get("parts", ()) if part)
        known = ", ".join(f"`{key.replace('|', '` or `')}`" for key in row["all"])
        orders = {*family_pairings.orders(row["entries"])}
        refused = next((e["refused_because"] for e in row["entries"] if "refused_because" in e), "")
        pairing = " or ".join(sorted(orders)) or f"refused: {refused}"
        source = row["source"][0]
        told = f"{source['repository']} {source['version']}, `{source['path']}`: {source['symbol']}"
        written = f"`{name}`" if "written" in row else ""
        cells = [row["title"], written, f"{known}{f' in {place}' if place else ''}"]
        lines.append(f"| {' | '.join([*cells, ', '.join(keys), pairing, told])} |")
    return "\n".join([*lines, ""])

"""Which pairing a model has: the table of families, from the rows that the readers use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from posenc import presets
from posenc.presets.families import families

LEAD = (
    "**Which pairing do I have?** Llama, Mistral, Qwen, Gemma, GPT-NeoX and most other models of "
    'transformers pair channel j with j + d/2: `pairing="half"`, also called NeoX style or '
    "`rotate_half`. GPT-J, Cohere, Meta's original Llama files and the paper pair neighbours, 2j "
    'with 2j + 1: `pairing="interleaved"`, also called GPT-J style.'
)
ORDERS = ("half", "interleaved")


def rows() -> dict[str, dict[str, list[str]]]:
    """Names by place, and by order; a name with attentions of both orders stands in both."""
    named: dict[str, dict[str, list[str]]] = {}
    for place, file in (
        ("transformers, `model_type`", "transformers"),
        ("GGUF of llama.cpp, architecture", "gguf"),
    ):
        by_order: dict[str, set[str]] = {order: set() for order in ORDERS}
        for name, family in families(file).items():
            for order in orders(family.entries):
                by_order[order].add(name)
        named[place] = {order: sorted(names) for order, names in by_order.items()}
    return named


def table() -> str:
    """The table in Markdown, a row for each name."""
    lines = ["| name | of | pairing |", "|---|---|---|"]
    for place, by_order in rows().items():
        for name in sorted({*by_order["half"], *by_order["interleaved"]}):
            orders = [order for order in ORDERS if name in by_order[order]]
            lines.append(f"| `{name}` | {place} | {' and '.join(orders)} |")
    note = (
        "Written from the rows by which posenc reads configs and GGUF files. A name with both "
        "pairings has attentions of both kinds, or its config chooses."
    )
    return "\n".join([*lines, "", note])


def orders(entries: Any) -> Iterator[str]:
    """The orders of all rotations that rules state, wherever they stand in them."""
    if isinstance(entries, Mapping):
        rotary = entries.get("rotary")
        if rotary is not None:  # a preset, or the one that a word of the config chooses
            chosen = rotary if isinstance(rotary, Mapping) else {"absent": rotary}
            for name in {*chosen.get("cases", {}).values(), chosen.get("absent")} - {None}:
                yield _order(presets.row(name).spec["pairing"])
        pairing = entries.get("pairing")
        indexer = isinstance(pairing, Mapping) and "order" in pairing  # beside the main attention
        if pairing is not None and (indexer or entries.get("type") == "RoPE"):
            yield _order(pairing)
        for name, value in entries.items():
            if name != "pairing":
                yield from orders(value)
    elif isinstance(entries, list | tuple):
        for entry in entries:
            yield from orders(entry)


def _order(pairing: Any) -> str:
    order: str = pairing if isinstance(pairing, str) else pairing["order"]
    return order

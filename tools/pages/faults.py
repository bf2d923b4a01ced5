"""The table of faults in released software: `docs/data/faults.json`, which a test finds again."""

from __future__ import annotations

import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "docs" / "data" / "faults.json"
HEADS = ("release", "model_type", "field", "config says", "class does", "off by", "why", "config")


def table() -> str:
    """A row for each fault; its config in JSON, as it is handed over beside the model type."""
    rows = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for row in rows:
        cells = [json.dumps(row[h]) if h == "config" else str(row[h]) for h in HEADS]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])

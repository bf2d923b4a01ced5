"""Write `docs/presets.md`: every preset of a table held against the code it describes.

    python tools/pages/preset_page.py            measures, and writes the page
    python tools/pages/preset_page.py --check    measures, and fails where the page says otherwise

The comparisons are those of the tests (`tests/presets/originals.py`); a package that is absent
leaves its rows without a number, and the page says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest
from tests.presets.compare import difference, differing_bits, version_of
from tests.presets.learned import LEARNED
from tests.presets.originals import ORIGINALS, Original
from tools.pages import shelf

from posenc import presets

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "presets.md"
LONG = 10  # rows of a table that is a file
TEMPLATE = Path(__file__).with_name("preset_page.md")


def main() -> int:
    """Write the page, or compare; 1 if a comparison fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    text = page()
    if not check:
        PAGE.parent.mkdir(exist_ok=True)
        shelf.write(PAGE, text, long=LONG)
        return 0
    stale = shelf.stale(PAGE, text, long=LONG)
    if stale:
        print(f"{', '.join(stale)}: run `python tools/pages/preset_page.py`.")
    return bool(stale)


def page() -> str:
    """The whole page: the words of `preset_page.md`, and two tables, which `shelf` makes files."""
    heads = ["preset", "original", "status", "widths", "difference", "bits"]
    measured = [_measured(original) for original in (*ORIGINALS, *LEARNED)]
    numbers = [float(row.split(" | ")[4]) for row in measured if "not run" not in row]
    equal = sum(" | equal |" in row for row in measured)
    lead = (
        f"Of {len(measured)} originals {len(numbers)} were compared; the largest difference is "
        f"{max(numbers):.1e}, and {equal} agree in every bit."
    )
    lines = [lead, "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *measured]
    rows = [_row(name) for name in presets.names() if presets.row(name).kind == "table"]
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("<!-- compared -->", "\n".join(lines))
    heads = ["preset", "spec", "positions", "note", "sources"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows]
    return text.replace("<!-- rows -->", "\n".join(rows))


def _measured(original: Original) -> str:
    try:
        worst = max(difference(original, dim) for dim in original.dims)
        equal = original.bits and not any(differing_bits(original, dim) for dim in original.dims)
        number, bits = f"{worst:.1e}", "equal" if equal else ""
        package = version_of(original)
    except pytest.skip.Exception as skipped:
        number, bits, package = f"not run: {skipped.msg}", "", original.package
    symbol = original.symbol.split(".modeling_")[-1]
    widths = ", ".join(map(str, original.dims))
    cells = [
        f"`{original.preset}`",
        f"`{symbol}`, {package}",
        original.status,
        widths,
        number,
        bits,
    ]
    return f"| {' | '.join(cells)} |"


def _row(name: str) -> str:
    row = presets.row(name)
    sources = "; ".join(_source(source) for source in row.sources)
    positions = ""
    if row.positions:
        builder, takes = row.positions["builder"], row.positions["takes"]
        given = "".join(f", {k}={v!r}" for k, v in row.positions["arguments"].items())
        positions = f"`positions.{builder}({takes}{given})`"
    cells = [f"`{name}`", f"`{json.dumps(row.spec)}`", positions, row.note, sources]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _source(source: Any) -> str:
    if "paper" in source:
        return f"{source['paper']}, {source['symbol']}"
    version = f" {source['version']}" if "version" in source else ""
    return f"`{source['repository']}`{version}, `{source['path']}`, `{source['symbol']}`"


if __name__ == "__main__":
    sys.exit(main())

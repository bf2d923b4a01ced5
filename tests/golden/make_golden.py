"""Write the golden numbers of `originals_table.json` again, from the original code.

Run from the root of the repository, with transformers installed:

    python -m tests.golden.make_golden

posenc takes no part in it. A change of the file means that an original has changed: say so in the
changelog, and which.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

from tests.oracles.originals.tables import ORIGINALS, numbers

GOLDEN = Path(__file__).with_name("originals_table.json")
LENGTH = 65
POSITIONS = (0, 1, 2, 17, 64)
WIDEST = 17  # wider tables tell nothing more and fill the file


def golden() -> dict[str, Any]:
    """The contents of the file: where the numbers come from, then the numbers."""
    tables = [
        {
            "name": original.name,
            "package": original.package,
            "symbol": original.symbol,
            "dim": dim,
            "positions": list(POSITIONS),
            # Nine digits tell any two float32 numbers apart.
            "values": [
                [float(f"{value:.9g}") for value in row]
                for row in numbers(original.make(LENGTH, dim))[list(POSITIONS)]
            ],
        }
        for original in ORIGINALS
        for dim in original.widths
        if dim <= WIDEST
    ]
    packages = ("numpy", "torch", "transformers")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"versions": versions, "dtype": "float32", "length": LENGTH, "tables": tables}


if __name__ == "__main__":
    text = json.dumps(golden(), indent=1)
    GOLDEN.write_text(text + "\n")
    print(f"{GOLDEN}: {len(text) / 1024:.0f} KiB")

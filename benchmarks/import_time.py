"""What importing posenc costs beside NumPy's own import: `python benchmarks/import_time.py`.

The target is NumPy's time + 30 ms for a first table.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import statements

STATEMENTS = {
    "NumPy": "import numpy",
    "posenc": "import posenc",
    "posenc, to a first table": "import posenc; posenc.table(posenc.Sinusoidal(512), 1)",
}


if __name__ == "__main__":
    libraries = ("numpy", "array-api-compat", "posenc")
    statements.main("import_time", STATEMENTS, *libraries, runs=21, about=__doc__)

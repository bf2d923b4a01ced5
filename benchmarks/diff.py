"""What comparing two configs, or planning a longer context, costs beside NumPy's own import.

    python benchmarks/diff.py

The target is NumPy's time + 500 ms.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import statements

PLAIN = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "num_hidden_layers": 32}
PLAIN |= {"max_position_embeddings": 131_072}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
STATEMENTS = {
    "NumPy": "import numpy",
    "posenc.diff of two configs": f"import posenc; posenc.diff({PLAIN}, {PLAIN} | "
    f"{{'rope_scaling': {YARN}}})",
    "posenc.extend_context of a config": f"import posenc; posenc.extend_context({PLAIN}, 2**20)",
}


if __name__ == "__main__":
    statements.main("diff", STATEMENTS, "numpy", "posenc", runs=15, about=__doc__)

"""The main job on real input: `make demo`.

A sentence through the command; the text of the README as a file of embeddings through the command,
the result checked against the table; a picture of the table.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.pages.picture import draw_table  # noqa: E402

import posenc  # noqa: E402

DIM = 64


def run(*arguments: str) -> None:
    """Print a command and run it."""
    print(f"$ {shlex.join(['posenc', *arguments])}", flush=True)
    subprocess.run([Path(sys.executable).with_name("posenc"), *arguments], check=True)
    print()


def embed(text: str) -> np.ndarray:
    """One seeded random vector for each distinct word: (1, words, DIM)."""
    words = text.split()
    distinct, index = np.unique(words, return_inverse=True)
    vectors = np.random.default_rng(0).standard_normal((len(distinct), DIM)).astype(np.float32)
    return vectors[index][None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where its files go")
    out = parser.parse_args().folder
    out.mkdir(parents=True, exist_ok=True)

    print("1. A sentence.\n")
    run("encode", "classify the book", "--dim", "16", "--base", "100")

    before, after = out / "readme.npy", out / "readme.encoded.npy"
    x = embed((ROOT / "README.md").read_text(encoding="utf-8"))
    np.save(before, x)
    print(
        f"2. A file: the {x.shape[1]} words of README.md, a random vector for each distinct word.\n"
    )
    run("encode", str(before), "-o", str(after), "--force")
    y = np.load(after)
    pe = posenc.table(posenc.Sinusoidal(DIM), x.shape[1])
    print(f"{before} {x.shape} {x.dtype} -> {after} {y.shape} {y.dtype}")
    for name, array in (("embedding", x[0, -1]), ("encoding", pe[-1]), ("sum", y[0, -1])):
        print(f"  {name:9} of the last word  {array[:6].round(4)} …")
    if not np.array_equal(y, x + pe):
        raise SystemExit(f"{after} is not {before} plus the table")
    print("  equal to embedding + encoding in every bit\n")

    print("3. A picture of the table.\n")
    path = draw_table(
        posenc.Sinusoidal(128), 128, out / "table.png", title="Sinusoidal(128), positions 0 to 127"
    )
    print(f"{path}")


if __name__ == "__main__":
    main()

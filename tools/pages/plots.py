"""Draw the pictures of docs/plots.md by its commands: `python tools/pages/plots.py`.

Each command is run as written, its file goes to docs/img/plots/.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from pathlib import Path

from posenc.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "plots.md"
FOLDER = ROOT / "docs" / "img" / "plots"


def commands(page: Path = PAGE) -> dict[str, list[str]]:
    """File names of pictures, and the arguments of `posenc` that make them."""
    found = {}
    for line in re.findall(
        r"^\$ posenc (plot (?!.*--play).* -o \S+)$", page.read_text("utf-8"), re.MULTILINE
    ):
        words = shlex.split(line)
        found[words[words.index("-o") + 1]] = words
    return found


def draw(folder: Path, name: str, words: list[str]) -> Path:
    """Run one command in a folder; its file replaces what was there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        contextlib.chdir(folder),
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        try:
            app.main([*words, "--force"], prog_name="posenc")
        except SystemExit as end:
            if end.code:
                raise
    return folder / name


def main() -> int:
    """Draw them all and say how much they weigh."""
    total = 0
    for name, words in commands().items():
        size = draw(FOLDER, name, words).stat().st_size
        total += size
        print(f"{size:>9,} {name}")
    print(f"{total:>9,} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())

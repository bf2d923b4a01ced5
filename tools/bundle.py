"""Write the explorer's page as one script and one style sheet: `make build`, and every wheel.

Where the sources have changed since, the server sends them instead. Any Python runs this, without
other packages.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXPLORE = ROOT / "src" / "posenc" / "explore"


def write(folder: Path) -> None:
    """Write both files into a folder, each at once: a server may be reading."""
    names = runpy.run_path(str(EXPLORE / "server" / "bundle.py"))
    sources = (EXPLORE / "static").glob("*.*")
    texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
    scripts = {name: text for name, text in texts.items() if name.endswith(".js")}
    sheets = {name: text for name, text in texts.items() if name.endswith(".css")}
    folder.mkdir(parents=True, exist_ok=True)
    files = {names["SCRIPT"]: names["bundle"](scripts), names["STYLE"]: names["styled"](sheets)}
    for name, text in files.items():
        part = folder / f".{name}"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else EXPLORE / "static" / "bundle")

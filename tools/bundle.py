"""Write the explorer's page as one script and one style sheet: `make build`, and every wheel.

Where the sources have changed since, the server sends them instead. Any Python runs this, without
other packages.
"""

from __future__ import annotations

import argparse
import runpy
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    bundle = EXPLORE / "static" / "bundle"
    parser.add_argument("folder", nargs="?", type=Path, default=bundle)
    write(parser.parse_args().folder)

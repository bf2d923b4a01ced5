"""Write a site that needs no server and no Python: `make site`, or

    python tools/site.py FOLDER

`explore.html` is the explorer with the views that `explore/static/local.js` makes; each lesson that
one of them shows has its figure at the lesson's address, in `lessons.html`. Every address is
relative, and a saved file opens from disk.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import runpy
from pathlib import Path

from tools import local_data

from posenc import learn
from posenc.explore.server import freeze
from posenc.explore.server.server import whole

ROOT = Path(__file__).resolve().parents[1]
EXPLORE = ROOT / "src" / "posenc" / "explore"
PAGE = "explore.html"


def explorer() -> str:
    """The explorer in one file, with all that it computes from."""
    bundle = runpy.run_path(str(EXPLORE / "server" / "bundle.py"))["bundle"]
    scripts = {path.name: path.read_text() for path in (EXPLORE / "static").glob("*.js")}
    files = whole()
    # What stands on a line with such a mark needs Python.
    plain = re.sub(
        r'^.*(data-live="python"|id="show-python").*\n', "", files["index.html"], flags=re.M
    )
    data = json.dumps(local_data.data(), separators=(",", ":"), default=local_data.plain)
    page = freeze._page(
        plain, bundle(scripts, "site.js"), files["explore.css"], data.replace("<", "\\u003c")
    )
    return page.replace('id="frames"', 'id="computes"', 1)


def lessons() -> str:
    """Links to the figures of the lessons that the page computes."""
    rows = []
    for topic in learn.topics():
        lesson = learn.lesson(topic)
        if local_data.makes(lesson.see.state):
            address = html.escape(f"{PAGE}{lesson.see.address}")
            text = f"{html.escape(lesson.title)}</a>: {html.escape(lesson.see.text)}"
            rows.append(f'<li><a href="{address}">{text}</li>')
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    title = "<title>Figures of the lessons</title>"
    body = f"<main><h1>Figures of the lessons</h1><ul>{''.join(rows)}</ul></main>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}{title}</head><body>{body}</body></html>\n'
    )


def write(folder: Path) -> list[Path]:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {PAGE: explorer(), "lessons.html": lessons()}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    for path in write(parser.parse_args().folder):
        print(path)

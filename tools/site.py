"""Write a site that needs no server and no Python: `make site`, or

    python tools/site.py FOLDER

`explore.html` is the explorer with the views that `explore/static/local.js` makes, `lessons.html`
leads to the figures of the lessons that are among them; with `--docs` the lessons themselves stand
beside them, and their figures are these. Every address is relative, and a saved file opens from
disk.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import runpy
import shutil
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


def moved(address: str) -> str:
    """A page that stands for another address."""
    place = html.escape(address)
    refresh = f'<meta http-equiv="refresh" content="0; url={place}">'
    return _plain_page(f'<p><a href="{place}">The figure</a></p>', refresh)


def _plain_page(body: str, head: str = "") -> str:
    sized = '<meta name="viewport" content="width=device-width">'
    head = f'<meta charset="utf-8">{sized}<title>Figures of the lessons</title>{head}'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def lessons() -> str:
    """Links to the figures of the lessons that the page computes."""
    rows = []
    for topic in learn.topics():
        lesson = learn.lesson(topic)
        if local_data.makes(lesson.see.state):
            address = html.escape(f"{PAGE}{lesson.see.address}")
            text = f"{html.escape(lesson.title)}</a>: {html.escape(lesson.see.text)}"
            rows.append(f'<li><a href="{address}">{text}</li>')
    listed = f"<ul>{''.join(rows)}</ul>"
    return _plain_page(f"<main><h1>Figures of the lessons</h1>{listed}</main>")


def write(folder: Path, docs: Path | None = None) -> list[Path]:
    """Write the pages into a folder, beside those of the documentation where these were built."""
    if docs is not None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(docs, folder)
    folder.mkdir(parents=True, exist_ok=True)
    pages = {PAGE: explorer(), "lessons.html": lessons()}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    parser.add_argument("--docs", type=Path, help="what `make docs` wrote, to stand beside them")
    given = parser.parse_args()
    for path in write(given.folder, given.docs):
        print(path)

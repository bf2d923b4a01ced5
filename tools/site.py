"""Write a site that needs no server and no Python: `make site`, or

    python tools/site.py FOLDER

`index.html` is the story, `explore.html` the explorer with the views that `explore/static/local.js`
makes, `lessons.html` leads to the figures of the lessons that are among them. With `--docs` the
documentation stands beside them: its first page is `contents.html`, and the figures of its lessons
are these. Every address is relative, and a saved file opens from disk.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
from pathlib import Path

from tools.bundle import bundle, squeezed, styled

from posenc import learn
from posenc.explore.server.assets import STATIC, whole
from posenc.explore.server.bundle import STYLE
from posenc.explore.server.document import _page, document, makes, more

ROOT = Path(__file__).resolve().parents[1]
STORY = ROOT / "docs" / "story"
PAGE, FIRST, CONTENTS = "explore.html", "index.html", "contents.html"
# What stands in pages of the documentation where the site has more; their pages, and their links.
MARKS = {
    "<!-- story -->": (
        FIRST,
        "The same to play with, in seven scenes: from a bag of words to a stretched rotation",
    ),
    "<!-- explore -->": (PAGE, "The explorer on one page, which computes by itself"),
}  # fmt: skip
MAPS = ("diverging", "sequential", "series")  # of colours, that the scenes draw with
# A view that no scene computes and tables that none shows: a call of either would fail.
UNASKED = dict.fromkeys(("local_bias.js", "readout.js"), "")


def story() -> str:
    """The story in one file, without the data and modules that none of its scenes asks for."""
    files = whole()
    texts = {path.name: path.read_text("utf-8") for path in STORY.iterdir()}
    modules = {path.name: path.read_text("utf-8") for path in STATIC.glob("*.js")}
    script = bundle({**modules, **UNASKED, **texts}, "story.js")
    data = json.loads(files["compute.json"]) | more()
    maps = {theme: {key: own[key] for key in MAPS} for theme, own in data["palette"].items()}
    heads = {"about": {}, "weights": {}}
    less = {"tour": [], "finds": [], "known": [], "heads": heads, "palette": maps}
    page = _page(
        re.sub(r'<noscript data-see="(\w+)">', _still, texts["story.html"]),
        squeezed(script),
        styled({"1": files[STYLE], "2": texts["story.css"]}),
        json.dumps({**data, **less}, separators=(",", ":")).replace("<", "\\u003c"),
    )
    # Without a script there are pictures of lessons, which are files beside this one.
    return page.replace("img-src data:", "img-src 'self' file: data:", 1)


def _still(found: re.Match[str]) -> str:
    """The picture of a lesson, where no script draws."""
    alt = html.escape(learn.lesson(found[1]).see.alt)
    return f'<noscript><img src="learn/see/{found[1]}.png" alt="{alt}">'


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
        if makes(lesson.see.state):
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
        _make_room(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pages = {PAGE: document(), "lessons.html": lessons().encode(), FIRST: story().encode()}
    for name, text in pages.items():
        (folder / name).write_bytes(text)
    return [folder / name for name in pages]


def _make_room(folder: Path) -> None:
    """Give the first page of the documentation another name, in links too, and links to ours."""
    (folder / FIRST).rename(folder / CONTENTS)
    for page in folder.rglob("*.html"):
        up = "../" * (len(page.relative_to(folder).parts) - 1)
        text = re.sub(rf'(href="{up}){FIRST}(?=["#])', rf"\1{CONTENTS}", page.read_text("utf-8"))
        for mark, (place, words) in MARKS.items():
            text = text.replace(mark, f'<p><a href="{up}{place}">{words}</a></p>')
        page.write_text(text, "utf-8")
    index = folder / "searchindex.js"
    if index.exists():
        named = re.sub(r'(docnames"?:\[[^]]*)"index"', r'\1"contents"', index.read_text("utf-8"))
        index.write_text(named, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    parser.add_argument("--docs", type=Path, help="what `make docs` wrote, to stand beside them")
    given = parser.parse_args()
    if not (STATIC / "controls.js").exists():
        parser.error(f"{STATIC} lacks the page's sources: run `make site`, or set PYTHONPATH=src")
    for path in write(given.folder, given.docs):
        print(path)

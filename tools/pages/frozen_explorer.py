"""Write the explorer as pages that need no Python: every view, and what each lesson looks at.

A lesson shows its page in a frame, where it is the picture and its readout alone, and links to it.
What the page that computes can make is at an address of that page; any other state is frozen.

python tools/pages/frozen_explorer.py out
"""

from __future__ import annotations

import argparse
import html
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tools import local_data, site

from posenc import learn
from posenc.explore.server.freeze import default_states, frozen

PAGE = "explorer-frozen.html"
SEEN = "seen"  # the folder with a page for each lesson
STOPS = 128  # of each cursor: the pages are to be built in seconds
WORKERS = min(os.cpu_count() or 1, 4)


def write(folder: Path, listing: Path) -> None:
    """Write the pages below a folder, and links to them as Markdown."""
    lessons = {topic: learn.lesson(topic) for topic in learn.topics()}
    (folder / SEEN).mkdir(parents=True, exist_ok=True)
    (folder / site.PAGE).write_text(site.explorer(), encoding="utf-8")
    states: dict[Path, Sequence[Mapping[str, str]]] = {folder / PAGE: default_states()}
    for name, one in lessons.items():
        page = folder / SEEN / f"{name}.html"
        if local_data.makes(one.see.state):
            page.write_text(site.moved(f"../{site.PAGE}{one.see.address}"), encoding="utf-8")
        else:
            states[page] = [one.see.state]
    # Each takes seconds, and none knows of another. Forking beside threads of others may hang.
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_freeze, states, states.values()))
    links = [
        f'<li><a href="{SEEN}/{topic}.html">'
        f"{html.escape(lesson.title)}</a>: {html.escape(lesson.see.text)}</li>"
        for topic, lesson in lessons.items()
    ]
    listing.write_text("\n".join(["```{raw} html", "<ul>", *links, "</ul>", "```", ""]))


def _freeze(path: Path, states: Sequence[Mapping[str, str]]) -> None:
    path.write_bytes(frozen(states, stops=STOPS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out"))
    target = parser.parse_args().folder
    write(target, target / "links.md")
    print(target / PAGE)

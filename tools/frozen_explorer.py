"""Write the explorer as one page that needs no Python, with what the lessons look at, for the docs.

python tools/frozen_explorer.py out
"""

from __future__ import annotations

import html
import sys
from pathlib import Path
from urllib.parse import urlencode

from posenc import learn
from posenc.explore.freeze import default_states, frozen

__all__ = ["PAGE", "write"]

PAGE = "explorer-frozen.html"


def write(folder: Path, listing: Path) -> None:
    """Write `folder`/explorer-frozen.html, and a list of links into it as Markdown."""
    lessons = [learn.lesson(topic) for topic in learn.topics()]
    states = [lesson.see.state for lesson in lessons]
    folder.mkdir(parents=True, exist_ok=True)
    first, *others = default_states()
    # Where a lesson looks at what a view begins with, its cursor stands where the lesson says.
    (folder / PAGE).write_bytes(frozen([first, *states, *others]))
    links = [
        f'<li><a href="{PAGE}#k=1&amp;{html.escape(urlencode(state))}">'
        f"{html.escape(lesson.title)}</a>: {html.escape(lesson.see.text)}</li>"
        for lesson, state in zip(lessons, states, strict=True)
    ]
    listing.write_text("\n".join(["```{raw} html", "<ul>", *links, "</ul>", "```", ""]))


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    write(target, target / "links.md")
    print(target / PAGE)

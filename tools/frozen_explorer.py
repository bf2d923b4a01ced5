"""Write the explorer as pages that need no Python: every view, and what each lesson looks at.

A lesson shows its page in a frame, where it is the picture and its readout alone, and links to it.

python tools/frozen_explorer.py out
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

from posenc import learn
from posenc.explore.freeze import default_states, frozen

__all__ = ["PAGE", "SEEN", "write"]

PAGE = "explorer-frozen.html"
SEEN = "seen"  # the folder with a page for each lesson


def write(folder: Path, listing: Path) -> None:
    """Write the pages below a folder, and links to them as Markdown."""
    lessons = {topic: learn.lesson(topic) for topic in learn.topics()}
    (folder / SEEN).mkdir(parents=True, exist_ok=True)
    (folder / PAGE).write_bytes(frozen(default_states()))
    for topic, lesson in lessons.items():
        (folder / SEEN / f"{topic}.html").write_bytes(frozen([lesson.see.state]))
    links = [
        f'<li><a href="{SEEN}/{topic}.html">'
        f"{html.escape(lesson.title)}</a>: {html.escape(lesson.see.text)}</li>"
        for topic, lesson in lessons.items()
    ]
    listing.write_text("\n".join(["```{raw} html", "<ul>", *links, "</ul>", "```", ""]))


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    write(target, target / "links.md")
    print(target / PAGE)

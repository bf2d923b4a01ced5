"""Write the pages of lessons, what leads to them and that of the tour, for the documentation.

python tools/learn_pages.py docs/learn
"""

from __future__ import annotations

import sys
from pathlib import Path

from posenc._core.io.outputs import write_whole
from posenc.learn import lesson, page, question_ids, stops, topics
from posenc.learn._content import fill
from posenc.learn.lessons import load
from posenc.learn.pages import FENCE, joined


def index() -> str:
    """The page that leads to all others."""
    data = load("index")
    values = {
        "questions": sum(len(question_ids(topic)) for topic in topics()),
        "topics": len(topics()),
        "stops": len(stops()),
    }
    lines = [f"- [{lesson(topic).title}]({topic}.md): {lesson(topic).lead}" for topic in topics()]
    lines.append(f"- [{data['tour']['title']}](tour.md): {data['tour']['lead']}")
    toctree = [f"{FENCE}{{toctree}}", ":maxdepth: 1", ":hidden:", "", *topics(), "tour", FENCE]
    text = fill(data["text"], values, "learn: index")
    return joined([f"# {data['title']}", text, "\n".join(lines), "\n".join(toctree)])


def tour() -> str:
    """The page of the tour: what its stops ask; the explorer shows them."""
    data = load("index")["tour"]
    text = fill(data["text"], {"stops": len(stops())}, "learn: tour").strip()
    asked = "\n".join(f"{n}. {here.title}" for n, here in enumerate(stops(), 1))
    return joined([f"# {data['title']}", data["lead"], text, asked])


def write(folder: Path) -> list[Path]:
    """Write every page into a folder, and say which they are."""
    files = {folder / "index.md": index(), folder / "tour.md": tour()}
    files |= {folder / f"{topic}.md": page(topic) for topic in topics()}
    for file, text in files.items():
        write_whole(file, text)
    return list(files)


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        sys.stdout.write(f"{path}\n")

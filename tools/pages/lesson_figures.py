"""Write what the lessons show beside their text, for the docs: their figures, and the quiz.

A lesson shows its figure in a frame: at an address of the explorer that computes, or, where that
does not compute it, a page that holds it as a picture.

python tools/pages/lesson_figures.py out
"""

from __future__ import annotations

import argparse
import shlex
import shutil
from pathlib import Path

from click.testing import CliRunner
from tools import site

from posenc import learn
from posenc.cli import app
from posenc.explore.server.document import document, makes
from posenc.learn.pages import drawn

DOCS = Path(__file__).resolve().parents[2] / "docs"


def write(folder: Path, questions: Path) -> list[Path]:
    """Write `see/TOPIC.png` and `quiz.html`, and the pictures of questions."""
    see = folder / "see"
    for place in (see, questions):
        place.mkdir(parents=True, exist_ok=True)
    for topic in learn.topics():
        for name in learn.question_ids(topic):
            picture = learn.question(topic, name).picture
            if picture is not None:
                (questions / f"{topic}-{name}.html").write_text(drawn(picture), encoding="utf-8")
    written = [folder / "quiz.html"]
    written[0].write_text(learn.quiz_page(), encoding="utf-8")
    for topic in learn.topics():
        figure = learn.lesson(topic).see
        still = see / f"{topic}.png"
        if not figure.plot:
            shutil.copy(DOCS / figure.picture, still)
            continue
        result = CliRunner().invoke(
            app, ["plot", *shlex.split(figure.plot), "-o", str(still), "--force"]
        )
        if result.exit_code:
            raise SystemExit(f"lesson {topic}: {result.output}")
        written.append(still)
    return [*written, *_explorers(folder.parent)]


def _explorers(folder: Path) -> list[Path]:
    """The explorer as one file, and in `seen` what each lesson shows of it."""
    pages = {site.PAGE: document()}
    for topic in learn.topics():
        see = learn.lesson(topic).see
        moved = site.moved(f"../{site.PAGE}{see.address}").encode()
        pages[f"seen/{topic}.html"] = moved if makes(see.state) else document([see.state])
    (folder / "seen").mkdir(exist_ok=True)
    for name, page in pages.items():
        (folder / name).write_bytes(page)
    return [folder / name for name in pages]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out"))
    target = parser.parse_args().folder
    for path in write(target, target / "questions"):
        print(path)

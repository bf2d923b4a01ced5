"""Long tables of a page as data: a CSV file each, which the built page shows as a table.

GitHub and spreadsheets search the files; the search of the built pages reads them too. A page
whose tables another program wrote into it is shelved by

    python tools/pages/shelf.py docs/study.md --long 3 --keep 1
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = "data/tables"  # beside the pages, a folder for each
LONG = 13  # rows; a shorter table stands in its page
TABLE = re.compile(r"(?:^\|.*\n){2,}", re.MULTILINE)
SHELVED = re.compile(
    r"^(?:\[.*\]\(.*\), \d+ rows:\n\n)?```\{csv-table\}\n:file: (.*)\n:header-rows: 1\n```\n",
    re.MULTILINE,
)
HEADING = re.compile(r"^#+ (.*)|^\*\*(.*)\*\*", re.MULTILINE)


def shelved(text: str, name: str, *, long: int = LONG, keep: int = 0) -> tuple[str, dict[str, str]]:
    """A text whose long tables are files, and the files: name by contents.

    The first tables, as many as `keep`, stand in their page whatever their length.
    """
    files: dict[str, str] = {}
    first = {match.start() for match in [*TABLE.finditer(text)][:keep]}

    def moved(match: re.Match[str]) -> str:
        rows = [cells(line) for line in match[0].splitlines()]
        if len(rows) - 2 < long or match.start() in first:
            return match[0]
        place = f"{TABLES}/{name}/{_called(text[: match.start()], name, files)}.csv"
        files[place] = _csv([rows[0], *rows[2:]])
        return _directive(place, len(rows) - 2)

    return TABLE.sub(moved, text), files


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [part.strip().replace("\\|", "|") for part in parts]


def _called(before: str, name: str, files: dict[str, str]) -> str:
    """The last heading before a table, or the page; with a number where that has another."""
    heads = HEADING.findall(before)
    words = re.findall(r"\w+", "".join(heads[-1]).lower()) if heads else [name]
    called = "-".join(words[:4])
    same = sum(re.fullmatch(rf".*/{called}(-\d+)?\.csv", place) is not None for place in files)
    return f"{called}-{same + 1}" if same else called


def _csv(rows: list[list[str]]) -> str:
    held = io.StringIO()
    csv.writer(held, lineterminator="\n").writerows(rows)
    return held.getvalue()


def _directive(place: str, rows: int) -> str:
    link = f"[{place.rpartition('/')[2]}]({place}), {rows} rows:"
    return f"{link}\n\n```{{csv-table}}\n:file: {place}\n:header-rows: 1\n```\n"


# --- files ----------------------------------------------------------------------------------------


def whole(page: Path) -> str:
    """The text of a page with its tables in it."""

    def back(match: re.Match[str]) -> str:
        text = (page.parent / match[1]).read_text(encoding="utf-8")
        head, *rows = (
            [cell.replace("|", "\\|") for cell in row] for row in csv.reader(io.StringIO(text))
        )
        return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])

    return SHELVED.sub(back, page.read_text(encoding="utf-8"))


def write(page: Path, text: str, **limits: int) -> None:
    """Write a page and its tables; tables that it no longer has go."""
    text, files = shelved(text, page.stem, **limits)
    page.write_text(text, encoding="utf-8")
    put(page.parent, page.stem, files)


def put(folder: Path, name: str, files: dict[str, str]) -> None:
    """Write tables beside the pages of a folder."""
    for place in _old(folder, name) - files.keys():
        (folder / place).unlink()
    for place, text in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")


def stale(page: Path, text: str, **limits: int) -> list[str]:
    """What of a page and its tables is not what a text says."""
    text, files = shelved(text, page.stem, **limits)
    other = [page.name] if page.read_text(encoding="utf-8") != text else []
    return other + unlike(page.parent, page.stem, files)


def unlike(folder: Path, name: str, files: dict[str, str]) -> list[str]:
    """Tables that are absent, others than these, or of nobody."""
    wrong = [
        place
        for place, text in files.items()
        if not (folder / place).exists() or (folder / place).read_text(encoding="utf-8") != text
    ]
    return [*wrong, *sorted(_old(folder, name) - files.keys())]


def _old(folder: Path, name: str) -> set[str]:
    found = (folder / TABLES / name).glob("*.csv")
    return {path.relative_to(folder).as_posix() for path in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--long", type=int, default=LONG, help="rows of a table that is a file")
    parser.add_argument("--keep", type=int, default=0, help="first tables that stand in the page")
    asked = parser.parse_args()
    write(asked.page, whole(asked.page), long=asked.long, keep=asked.keep)


if __name__ == "__main__":
    main()

"""A document as blocks, and the blocks as Markdown or as one HTML file.

Texts carry two marks, `code` and **bold**, which Markdown has and HTML is given.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SectionHeading:
    """A heading, of level 1 to 3."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines for a shell."""

    text: str


@dataclass(frozen=True)
class Figure:
    """A picture beside the document, and the words for who cannot see it."""

    path: str
    words: str


@dataclass(frozen=True)
class TextTable:
    """Cells of text under a head; all columns but the first `left` stand to the right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


Block = SectionHeading | Paragraph | Code | Figure | TextTable


def as_markdown(blocks: Sequence[Block]) -> str:
    r"""The blocks as Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case SectionHeading(level, text):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Code(text):
            return f"```text\n{text}\n```"
        case Figure(path, words):
            return f"![{words}]({path})"
        case TextTable(head, rows, left):
            rule = "|".join("---" if i < left else "--:" for i in range(len(head)))
            lines = [head, *rows]
            cells = [
                "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
            ]
            return "\n".join([cells[0], f"|{rule}|", *cells[1:]])


STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }
body { padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; margin: 1rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th { vertical-align: bottom; }
.left { text-align: left; }
img { max-width: 100%; height: auto; background: #fff; }
pre { padding: .6rem; border: 1px solid var(--line); overflow-x: auto; }
"""


def as_html(blocks: Sequence[Block], title: str) -> str:
    """The blocks as an HTML file, in light or dark as the reader has it."""
    body = "\n".join(map(_html, blocks))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case SectionHeading(level, text):
            return f"<h{level}>{_marked(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_marked(text)}</p>"
        case Code(text):
            return f"<pre>{html.escape(text)}</pre>"
        case Figure(path, words):
            return f'<p><img src="{html.escape(path)}" alt="{html.escape(words)}"></p>'
        case TextTable(head, rows, left):
            lines = [_line(head, left, "th"), *(_line(row, left, "td") for row in rows)]
            return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _line(cells: Sequence[str], left: int, tag: str) -> str:
    marked = []
    for i, cell in enumerate(cells):
        scope = ' scope="col"' if tag == "th" else ""
        side = ' class="left"' if i < left else ""
        marked.append(f"<{tag}{scope}{side}>{_marked(cell)}</{tag}>")
    return f"<tr>{''.join(marked)}</tr>"


def _marked(text: str) -> str:
    markup = html.escape(text)
    markup = re.sub(r"`([^`]*)`", r"<code>\1</code>", markup)
    return re.sub(r"\*\*([^*]*)\*\*", r"<strong>\1</strong>", markup)

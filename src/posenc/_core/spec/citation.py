"""The BibTeX of encodings, from one file of all papers."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any


class Citation:
    """`bibtex` of an encoding class: the entry of `encodings/papers.bib` that its `paper` names."""

    def __get__(self, spec: object, cls: Any) -> str:
        return _entries()[cls.paper] if cls.paper else ""


@functools.cache
def _entries() -> dict[str, str]:
    """The entries by their keys; a blank line is between two."""
    file = resources.files("posenc") / "encodings" / "papers.bib"
    entries = file.read_text(encoding="utf-8").strip().split("\n\n")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}

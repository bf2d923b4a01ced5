"""The page of the package index: the README without what leads to files beside it.

An index shows the text alone. There a relative link leads nowhere and a relative picture is a gap,
so a link becomes its words and a picture goes. The build asks for it (`pyproject.toml`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["dynamic_metadata", "page"]

README = Path(__file__).resolve().parents[1] / "README.md"
RELATIVE = r"\((?!https?:|#)[^)\s]+\)"


def page(text: str) -> str:
    """A Markdown text without relative pictures, and with relative links as their words."""
    parts = re.split(r"^(```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _unlinked(part) for part in parts)


def _unlinked(text: str) -> str:
    text = re.sub(rf"^!\[[^\]]*\]{RELATIVE}\n\n?", "", text, flags=re.MULTILINE)
    return re.sub(rf"\[([^\]]+)\]{RELATIVE}", r"\1", text)


def dynamic_metadata(
    field: str, settings: Mapping[str, Any], project: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The field `readme` of the package, as scikit-build-core asks for it."""
    del settings, project
    if field != "readme":
        raise ValueError(f"this makes the readme, not {field}")
    return {"content-type": "text/markdown", "text": page(README.read_text(encoding="utf-8"))}

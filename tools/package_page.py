"""The page of the package index: the README, whose links do not lead to files beside it.

An index shows the text alone. There a relative link leads nowhere and a relative picture is a gap.
Where `project.urls` names the `Source`, links and pictures lead there; else a link becomes its
words and a picture goes. The build asks for it (`pyproject.toml`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RELATIVE = r"\((?!https?:|#)(?P<target>[^)\s]+)\)"


def page(text: str, source: str | None = None) -> str:
    """A Markdown text whose relative links and pictures lead to `source`, or are gone."""
    parts = re.split(r"^(```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    prose = [part if part.startswith("```") else _led(part, source) for part in parts]
    return "".join(prose)


def _led(text: str, source: str | None) -> str:
    return _unlinked(text) if source is None else _absolute(text, source.rstrip("/"))


def _unlinked(text: str) -> str:
    text = re.sub(rf"^!\[[^\]]*\]{RELATIVE}\n\n?", "", text, flags=re.MULTILINE)
    return re.sub(rf"\[([^\]]+)\]{RELATIVE}", r"\1", text)


def _absolute(text: str, source: str) -> str:
    text = re.sub(rf"(!\[[^\]]*\]){RELATIVE}", rf"\1({source}/raw/main/\g<target>)", text)
    return re.sub(rf"(\[[^\]]+\]){RELATIVE}", rf"\1({source}/blob/main/\g<target>)", text)


def source_url() -> str | None:
    """Where the repository is, if the package says so."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    url: str | None = data["project"].get("urls", {}).get("Source")
    return url


def dynamic_metadata(
    field: str, settings: Mapping[str, Any], project: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The field `readme` of the package, as scikit-build-core asks for it."""
    del settings, project
    if field != "readme":
        raise ValueError(f"this makes the readme, not {field}")
    return {
        "content-type": "text/markdown",
        "text": page(README.read_text(encoding="utf-8"), source_url()),
    }

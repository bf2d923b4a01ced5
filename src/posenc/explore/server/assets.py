"""The files of the page, from the package alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from posenc._core.errors import refuse_data
from posenc.explore.server.bundle import MORE, SCRIPT, STYLE, made_of

STATIC = resources.files("posenc.explore") / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@functools.cache
def assets() -> Mapping[str, bytes]:
    """The files of the page by name; no other name is ever looked up on disk.

    One script and one style sheet where the package was built, whose wheel has no sources; in a
    tree whose sources have changed since, or that was never built, the sources.
    """
    files = _texts(STATIC)
    built = _texts(STATIC / "bundle")
    if SCRIPT in built and (
        "app.js" not in files or built[SCRIPT].startswith(made_of(_scripts(files)))
    ):
        for source, name in (("app.js", SCRIPT), ("style.css", STYLE)):
            files["index.html"] = files["index.html"].replace(f"static/{source}", f"static/{name}")
        files |= built
    return {name: text.encode() for name, text in files.items()}


def whole() -> dict[str, str]:
    """The page with one style sheet, one script, and what this has beside to compute, as built."""
    files = {name: data.decode() for name, data in assets().items()}
    refuse_data(
        not {"index.html", SCRIPT} <= files.keys(),
        "explore",
        "the page as one script, built from the sources that are there",
        "none in this installation",
        "In a tree of posenc, `make build` writes it.",
    )
    return files


def _texts(folder: Traversable) -> dict[str, str]:
    if not folder.is_dir():
        return {}
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.is_file() and file.name[file.name.rfind(".") :] in TYPES
    }


def _scripts(files: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in files.items() if k.endswith(".js") and k not in (SCRIPT, MORE)}

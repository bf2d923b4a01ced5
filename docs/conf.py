"""Sphinx configuration. `make docs` builds with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tools.pages import agents, lesson_figures, pages

import posenc

project = "posenc"
author = "The posenc authors"
project_copyright = author
version = release = posenc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_generated"]
html_theme = "furo"
html_title = f"posenc {release}"
html_extra_path = ["_generated/site"]
html_static_path = ["_static"]
html_js_files = ["lessons.js"]
html_css_files = ["lessons.css"]
nitpicky = False
default_role = "code"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # parameters are described with shapes and units
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False


def literal_equations(
    _app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    """Equations and tables in docstrings are indented paragraphs; show them as they stand."""
    lines[:] = pages.with_literal_blocks(lines)


def every_encoding_has_a_page(_app: Any, env: Any) -> None:
    """Warn, and so fail, where the registry knows an encoding that the pages do not."""
    from sphinx.util import logging

    for name in sorted(pages.missing(env.found_docs)):
        logging.getLogger(__name__).warning("the encoding %s has no page", name)


# What the theme leaves out: levels of headings, names of landmarks, what keys can reach.
MENDED = {
    r'role="heading"(?! aria)': 'role="heading" aria-level="2"',
    r'<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    r'<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    r'<th class="head"></th>': "<td></td>",
    r'<aside class="sidebar-drawer"': '<aside aria-label="All pages" class="sidebar-drawer"',
    r'<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    r'<div class="content-icon-container"': (
        '<div role="navigation" aria-label="This page" class="content-icon-container"'
    ),
    r'(<article role="main" id="furo-main-content">)(\s*<noscript>)': r"\1<h1>Search</h1>\2",
}


def for_every_reader(app: Any, failed: Exception | None) -> None:
    """Mend the pages of the theme for readers who use keys or a screen reader."""
    for page in Path(app.outdir).rglob("*.html") if not failed else ():
        text = mended = page.read_text("utf-8")
        for old, new in MENDED.items():
            mended = re.sub(old, new, mended)
        if mended != text:
            page.write_text(mended, "utf-8")


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for files."""
    pages.write(HERE)
    generated = HERE / "_generated"
    lesson_figures.write(generated / "site" / "learn", generated / "questions")
    # At the root, where programs look for it, with links to the pages beside it.
    (generated / "site" / "llms.txt").write_text(agents.index("html", ""), "utf-8")
    app.connect("autodoc-process-docstring", literal_equations, priority=400)
    app.connect("env-check-consistency", every_encoding_has_a_page)
    app.connect("build-finished", for_every_reader)

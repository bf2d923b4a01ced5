"""Sphinx configuration. `make docs` builds with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tools.pages import frozen_explorer, lesson_figures, pages

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


def for_readers_by_keys(
    _app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Headings of the theme get a level, and code that scrolls can be reached by keys."""
    heading, code = 'role="heading"', '<div class="highlight"><pre>'
    for part, old, new in (
        ("furo_navigation_tree", heading, f'{heading} aria-level="2"'),
        ("body", heading, f'{heading} aria-level="2"'),
        ("body", code, code.replace("<pre>", '<pre tabindex="0">')),
    ):
        if part in context:
            context[part] = context[part].replace(old, new)


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for files."""
    pages.write(HERE)
    generated = HERE / "_generated"
    frozen_explorer.write(generated / "site", generated / "frozen.md")
    lesson_figures.write(generated / "site" / "learn", generated / "questions")
    app.connect("autodoc-process-docstring", literal_equations, priority=400)
    app.connect("env-check-consistency", every_encoding_has_a_page)
    app.connect("html-page-context", for_readers_by_keys, priority=900)

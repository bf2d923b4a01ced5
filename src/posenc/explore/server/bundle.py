"""The page as it was built: the names of its files, and of which sources they were made.

`tools/bundle.py` writes them when the package is built. Nothing of posenc is imported here, so that
a build needs nothing but Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

SCRIPT, STYLE, MORE = "explore.js", "explore.css", "compute.js"
BEGUN = re.compile(r'\$modules\["app\.js"\] ?=')  # where the page begins


def together(script: str, more: str) -> str:
    """The script of a page that computes: what it has beside is there before the page begins."""
    return BEGUN.sub(lambda page: more + page[0], script, count=1)


def made_of(modules: Mapping[str, str]) -> str:
    """The first line of a script that is made of these modules."""
    digest = hashlib.sha256(json.dumps(sorted(modules.items())).encode()).hexdigest()
    return f"/* The page of posenc explore, made of modules {digest[:16]} */"

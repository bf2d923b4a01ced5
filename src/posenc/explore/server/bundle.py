"""The page's modules as one script, and its style sheet without what only people read.

`tools/bundle.py` writes both when the package is built. Nothing of posenc is imported here, so that
a build needs nothing but Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

SCRIPT, STYLE = "explore.js", "explore.css"
IMPORT = re.compile(r"^import\s*\{([^}]*)\}\s*from\s*\"\./([\w.]+)\";[ \t]*\n?", re.MULTILINE)
EXPORT = re.compile(
    r"^export ((?:async )?(?:function\*?|const|let|class)) ([A-Za-z_$][\w$]*)", re.M
)
COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/[ \t]*|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)  # also in templates, which are HTML
# A page that says so is begun at once; an element of another page is given to `mount`.
BEGIN = 'if (document.querySelector("body[data-posenc]")) mount();'


def bundle(modules: Mapping[str, str], entry: str = "app.js") -> str:
    """The modules of the page, by file name, as one script whose `mount` runs them for each page.

    Each keeps a scope of its own. Raises `ValueError` if a module is missing, modules import each
    other, or one imports or exports otherwise than by name.
    """
    placed: list[str] = []
    written = [_made_of(modules), "export function mount(...$mount) {", "const $modules = {};"]

    def place(name: str, path: tuple[str, ...]) -> None:
        if name in placed:
            return
        if name in path or name not in modules:
            raise ValueError(f"bundle: {' > '.join((*path, name))} is a circle, or ends in no file")
        for match in IMPORT.finditer(modules[name]):
            place(match[2], (*path, name))
        placed.append(name)
        written.append(_scoped(name, modules[name]))

    place(entry, ())
    return "\n".join([*written, f"return $modules[{json.dumps(entry)}];", "}", BEGIN, ""])


def styled(sheets: Mapping[str, str]) -> str:
    """The style sheets as one."""
    return "".join(INDENT.sub("", COMMENT.sub("", sheets[name])) for name in sorted(sheets))


def is_fresh(script: str, modules: Mapping[str, str]) -> bool:
    """Whether a script was made of these modules."""
    return script.startswith(_made_of(modules))


def _made_of(modules: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(modules.items())).encode()).hexdigest()
    return f"/* The page of posenc explore, made of modules {digest[:16]} */"


def _scoped(name: str, text: str) -> str:
    def taken(match: re.Match[str]) -> str:
        names = re.sub(r"\bas\b", ":", match[1]).replace(" :", ":")
        return f"const {{{names}}} = $modules[{json.dumps(match[2])}];\n"

    inner = INDENT.sub("", COMMENT.sub("", EXPORT.sub(r"\1 \2", IMPORT.sub(taken, text))))
    if re.search(r"^(import|export)\b", inner, re.MULTILINE):
        raise ValueError(f"bundle: {name} imports or exports otherwise than by name")
    names = ", ".join(match[2] for match in EXPORT.finditer(text))
    return f"$modules[{json.dumps(name)}] = (() => {{\n{inner}\nreturn {{ {names} }};\n}})();"

"""Write the explorer's page as two scripts and one style sheet: `make build`, and every wheel.

Where the sources have changed since, the server sends them instead. Any Python runs this, without
other packages.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path

EXPLORE = Path(__file__).resolve().parents[1] / "src" / "posenc" / "explore"
BUILT = runpy.run_path(str(EXPLORE / "server" / "bundle.py"))
PAGE, COMPUTED = "app.js", "computed.js"  # the modules with which a page begins
IMPORT = re.compile(r"^import\s*\{([^}]*)\}\s*from\s*\"\./([\w.]+)\";[ \t]*\n?", re.MULTILINE)
EXPORT = re.compile(
    r"^export ((?:async )?(?:function\*?|const|let|class)) ([A-Za-z_$][\w$]*)", re.M
)
COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/[ \t]*|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)  # also in templates, which are HTML
# A page that says so is begun at once; an element of another page is given to `mount`.
BEGIN = 'if (document.querySelector("body[data-posenc]")) mount();'
PIECE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<space>\s+)
    |(?P<word>[\w$]+)
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)", re.DOTALL)
PATTERN = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")  # not a division
OPERAND = re.compile(r"[\w$)\]}`\"']$")  # what stands before a division
JOINED = re.compile(r"[\w$]{2}|\+\+|--")  # what a space has to part
AFTER, BEFORE = frozenset(";,{([=>:?&|+*"), frozenset(")]}.,?:&|")  # no statement ends there


def pieces(code: str) -> Iterator[tuple[str, str]]:
    """The words, signs, spaces and literals of a script, with what each is."""
    at, last, open_ = 0, "", [""]
    while at < len(code):
        kind, match = "literal", None
        if code[at] == "`" or (code[at] == "}" and open_[-1] == "`"):
            match = TEMPLATE.match(code, at)
            del open_[len(open_) - (code[at] == "}") :]
            open_ += ["`"] if match and match[0].endswith("${") else []
        elif code[at] == "/" and (last in ("return", "case") or not OPERAND.search(last)):
            match = PATTERN.match(code, at)
        if match is None:
            match = PIECE.match(code, at)
            assert match is not None
            kind = str(match.lastgroup)
            open_ += ["{"] if match[0] == "{" else []
            del open_[len(open_) - (match[0] == "}") :]
        yield kind, match[0]
        last = last if kind in ("space", "comment") else match[0]
        at = match.end()


def squeezed(code: str) -> str:
    """A script without comments, and without the spaces that nothing but people needs."""
    written, space = [""], ""
    for kind, text in pieces(code):
        if kind in ("space", "comment"):
            space = "\n" if "\n" in space + text else " "
            continue
        before, after = written[-1][-1:], text[:1]
        if space == "\n" and before not in AFTER and after not in BEFORE:
            written.append("\n")
        elif space and (
            re.fullmatch(r"[\w$]{2}", before + after) or before + after in ("++", "--")
        ):
            written.append(" ")
        written.append(text)
        space = ""
    return "".join([*written, "\n"])


# --- the modules as one script -------------------------------------------------------------------


def bundle(modules: Mapping[str, str], entry: str = PAGE) -> str:
    """The modules of the page, by file name, as one script whose `mount` runs them for each page.

    Each keeps a scope of its own. Raises `ValueError` if a module is missing, modules import each
    other, or one imports or exports otherwise than by name.
    """
    head = [BUILT["made_of"](modules), "export function mount(...$mount) {", "const $modules = {};"]
    last = f"return $modules[{json.dumps(entry)}];"
    return "\n".join([*head, *_blocks(modules, entry).values(), last, "}", BEGIN, ""])


def computing(modules: Mapping[str, str]) -> str:
    """What a page that computes its frames has beside `bundle`."""
    own = _blocks(modules, PAGE)
    more = [text for name, text in _blocks(modules, COMPUTED).items() if name not in own]
    return "\n".join([*more, ""])


def _blocks(modules: Mapping[str, str], entry: str) -> dict[str, str]:
    """The modules that one needs, in the order in which they run, each in its scope."""
    written: dict[str, str] = {}

    def place(name: str, path: tuple[str, ...]) -> None:
        if name in written:
            return
        if name in path or name not in modules:
            raise ValueError(f"bundle: {' > '.join((*path, name))} is a circle, or ends in no file")
        for match in IMPORT.finditer(modules[name]):
            place(match[2], (*path, name))
        written[name] = _scoped(name, modules[name])

    place(entry, ())
    return written


def styled(sheets: Mapping[str, str]) -> str:
    """The style sheets as one."""
    return "".join(INDENT.sub("", COMMENT.sub("", sheets[name])) for name in sorted(sheets))


def _scoped(name: str, text: str) -> str:
    def taken(match: re.Match[str]) -> str:
        names = re.sub(r"\bas\b", ":", match[1]).replace(" :", ":")
        return f"const {{{names}}} = $modules[{json.dumps(match[2])}];\n"

    inner = INDENT.sub("", COMMENT.sub("", EXPORT.sub(r"\1 \2", IMPORT.sub(taken, text))))
    if re.search(r"^(import|export)\b", inner, re.MULTILINE):
        raise ValueError(f"bundle: {name} imports or exports otherwise than by name")
    names = ", ".join(match[2] for match in EXPORT.finditer(text))
    return f"$modules[{json.dumps(name)}] = (() => {{\n{inner}\nreturn {{ {names} }};\n}})();"


def write(folder: Path) -> None:
    """Write the files into a folder, each at once: others may run the tests of this tree."""
    sources = (EXPLORE / "static").glob("*.*")
    texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
    scripts = {name: text for name, text in texts.items() if name.endswith(".js")}
    sheets = {name: text for name, text in texts.items() if name.endswith(".css")}
    folder.mkdir(parents=True, exist_ok=True)
    made, _, script = bundle(scripts).partition("\n")
    files = {
        BUILT["SCRIPT"]: f"{made}\n{squeezed(script)}",
        BUILT["MORE"]: squeezed(computing(scripts)),
        BUILT["STYLE"]: styled(sheets),
    }
    for name, text in files.items():
        part = folder / f".{name}"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=EXPLORE / "static" / "bundle")
    write(parser.parse_args().folder)

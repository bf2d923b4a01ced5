"""The files of the explorer's page, without a browser: size, rules of the house, small helpers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import posenc
from tests.explore.node import node

STATIC = Path(posenc.__file__).parent / "explore" / "static"
SCRIPTS = sorted(STATIC.glob("*.js"))
# What computes where no Python is; tests hold it to the numbers of Python.
COMPUTE = {
    *("fixed.js", "evaluator.js", "numbers.js", "grammar.js", "reading.js", "columns.js"),
    *("arcs.js", "pixels.js", "keccak.js", "heads.js", "local.js"),
    "computed.js",
    *(script.name for script in SCRIPTS if script.name.startswith("local_")),
}
HELPERS = Path(__file__).parents[1] / "browser" / "helpers.test.mjs"


def test_the_page_is_small() -> None:
    files = [f for f in STATIC.iterdir() if f.suffix in (".js", ".css", ".html")]
    files = [f for f in files if f.name not in COMPUTE]
    assert sum(file.stat().st_size for file in files) < 158_500
    assert all(len(file.read_text().splitlines()) <= 420 for file in files)


@pytest.mark.parametrize(
    "script", [s for s in SCRIPTS if s.name not in COMPUTE], ids=lambda path: path.name
)
def test_no_formula_of_an_encoding_is_in_a_script(script: Path) -> None:
    code = script.read_text()
    assert not re.search(r"Math\.(a?sinh?|a?cosh?|a?tan2?h?|pow|PI|E)\b|\*\*(?![*/\s])", code)
    assert not re.search(r"10000|[^\w]theta[^\w]", code)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_keep_to_the_policy_and_can_be_put_in_one_file(script: Path) -> None:
    code = script.read_text()
    assert "innerHTML" not in code
    assert "eval(" not in code
    assert not re.search(r"setAttribute\(\s*.style|https?://(?!www\.w3\.org)", code)
    imports = re.findall(r"^import .*$", code, re.M)
    assert all(re.fullmatch(r'import \{ [\w, ]+ \} from "\./\w+\.js";', line) for line in imports)
    exports = re.findall(r"^export .*$", code, re.M)
    kinds = r"export (async function|function|class|const) \w+"
    assert all(re.match(kinds, line) for line in exports)


def test_every_script_is_listed_after_those_it_needs() -> None:
    order = (STATIC / "modules.txt").read_text().split()
    assert sorted(order) == [script.name for script in SCRIPTS]
    names: list[str] = []
    for position, name in enumerate(order):
        code = (STATIC / name).read_text()
        assert set(re.findall(r'from "\./(\w+\.js)"', code)) <= set(order[:position]), name
        names += re.findall(r"^export (?:async function|function|class|const) (\w+)", code, re.M)
    assert len(names) == len(set(names)), "exported names are unique over the page"


def test_the_page_holds_no_inline_style_or_script() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"\sstyle=|\son\w+=|<style", page)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert not re.search(r'(src|href)="(https?:)?//', page)


@pytest.mark.costly
def test_the_helpers_in_node() -> None:
    node(HELPERS)

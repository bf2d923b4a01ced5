"""Files of the command line, and pages that are one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tools import bundle

import posenc
from posenc.cli import app
from posenc.explore import Session, frame, unpack
from posenc.explore.server import assets
from posenc.explore.server.bundle import made_of, together
from posenc.explore.server.document import NOTE, default_states, document, state_of
from posenc.explore.state import files as readers
from posenc.explore.state.files import load
from posenc.explore.views import SHAPES
from posenc.plot import columns
from tests.cases import CASES

LLAMA = {
    "model_type": "llama",
    "head_dim": 64,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
LONG = {
    "model_type": "phi3",
    "hidden_size": 128,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0] * 16,
        "long_factor": [1.0 + n for n in range(16)],
    },
}


def written(path, data) -> str:
    path.write_text(json.dumps(data))
    return str(path)


def drawn(session: Session, **state: str):
    message = unpack(frame({"w": "2000", "h": "2000", **state}, session))
    assert not message.header["problems"], message.header["problems"]
    return message.header, message.arrays


def test_the_config_of_a_model_can_be_chosen(tmp_path):
    session = load([written(tmp_path / "config.json", LLAMA)])
    (entry,) = session.entries
    header, arrays = drawn(session, v="stretch", enc=entry.id, Lt="8192", f="8", rule="given")
    assert header["state"]["enc"] == entry.id
    series = {s["label"]: s for s in header["panels"][0]["series"]}
    plan = posenc.from_hf(LLAMA)
    expected = posenc.wavelengths(plan["attention"].spec)
    np.testing.assert_allclose(arrays[series["Llama3, as given"]["y"]], expected, rtol=1e-6)


@pytest.mark.parametrize("config", [LLAMA, LONG], ids=["llama3", "longrope"])
def test_the_python_of_an_encoding_of_a_file_runs(tmp_path, config):
    session = load([written(tmp_path / "config.json", config)])
    state = {"v": "stretch", "enc": session.entries[0].id, "rule": "given", "Lt": "4096"}
    scope: dict = {}
    exec(unpack(frame(state, session)).header["python"], scope)
    assert scope["rope"].replace(scaling=()) == posenc.from_hf(config)["attention"].spec.replace(
        scaling=()
    )


def test_longrope_shows_what_its_file_says(tmp_path):
    session = load([written(tmp_path / "config.json", LONG)])
    header, _ = drawn(
        session, v="stretch", enc=session.entries[0].id, Lt="4096", f="32", rule="given"
    )
    rows = {row[0]: row for row in next(p for p in header["panels"] if p["id"] == "counts")["rows"]}
    assert "LongRoPE, as given" in rows
    factor = posenc.from_hf(LONG)["attention"].spec.at(131072).attention_factor
    assert float(rows["LongRoPE, as given"][3]) == pytest.approx(factor, rel=1e-4)


def test_the_json_of_a_spec_can_be_chosen(tmp_path):
    spec = posenc.Sinusoidal(24, base=77, order="cos_sin")
    path = tmp_path / "spec.json"
    path.write_text(posenc.to_json(spec))
    session = load([str(path)])
    header, arrays = drawn(session, v="table", enc=session.entries[0].id, L="9")
    expected = posenc.table(spec, 9, dtype="float64")
    from posenc.plot import palette

    np.testing.assert_array_equal(arrays[header["panels"][0]["tile"]], palette.indices(expected))


def test_an_encoding_without_a_row_is_drawn_by_its_example_and_from_its_json(tmp_path):
    header = unpack(frame({"v": "table", "enc": "treepositions"})).header
    assert header["state"]["enc"] == "treepositions"
    assert not header["problems"]
    path = tmp_path / "spec.json"
    spec = next(c.spec for c in CASES if type(c.spec).__name__ == "TreePositions")
    path.write_text(posenc.to_json(spec))
    session = load([str(path)])
    header, _ = drawn(session, v="table", enc=session.entries[0].id)
    assert header["state"]["enc"] == session.entries[0].id


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_a_table_of_a_file_can_be_chosen(tmp_path, kind):
    rows = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    path = tmp_path / f"positions.{kind}"
    if kind == "npy":
        np.save(path, rows)
    elif kind == "npz":
        np.savez(path, weight=rows, steps=np.arange(3))
    else:
        from safetensors.numpy import save_file

        save_file({"weight": rows, "count": np.arange(3)}, path)
    session = load([], [str(path)])
    (entry,) = session.entries
    header, arrays = drawn(session, v="table", enc=entry.id)
    from posenc.plot import palette

    limit = float(np.abs(rows).max())
    expected = palette.indices(rows.astype(np.float64), limit)
    np.testing.assert_array_equal(arrays[header["panels"][0]["tile"]], expected)
    assert header["state"]["L"] == "20"
    assert not any("random" in note for note in header["notes"])
    for view in ("distance", "attention"):
        drawn(session, v=view, enc=entry.id)
    text = " ".join(f"{x:.5f}" for x in rows[13])
    header, _ = drawn(session, v="table", enc=entry.id, find=text)
    assert header["find"]["hits"][0]["text"].startswith("position 13")


def test_a_table_ends_where_its_file_ends(tmp_path, monkeypatch):
    np.save(tmp_path / "t.npy", np.eye(12, 5, dtype=np.float32))
    monkeypatch.setattr(readers, "LARGEST", 59)
    with pytest.raises(posenc.DataError, match="two axes"):
        load([], [str(tmp_path / "t.npy")])
    monkeypatch.setattr(readers, "LARGEST", 60)
    session = load([], [str(tmp_path / "t.npy")])
    (entry,) = session.entries
    assert columns.source(entry.build({}), params=entry.params).end == 12
    header = unpack(frame({"v": "table", "enc": entry.id, "L": "50", "p": "49"}, session)).header
    assert header["state"]["L"] == "12"
    assert header["state"]["p"] == "11"
    assert header["problems"][0]["field"] == "L"
    assert "12 positions" in header["problems"][0]["message"]


def test_files_of_one_name_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "t.npy", np.eye(4, dtype=np.float32))
    session = load([], [str(tmp_path / folder / "t.npy") for folder in ("a", "b")])
    assert len({entry.id for entry in session.entries}) == 2


def test_embeddings_of_a_file_stand_for_the_words(tmp_path):
    rows = np.arange(24, dtype=np.float32).reshape(3, 8) / 24
    np.save(tmp_path / "words.npy", rows)
    session = load(embeddings=str(tmp_path / "words.npy"))
    state = {"v": "attention", "enc": "sinusoidal", "qk": "random", "sum": "1"}
    header, arrays = drawn(session, **state, d="8", text="one two one")
    assert "words.npy" in header["lead"]
    cell = next(p for p in header["panels"] if p["id"] == "sum")["cells"][0]
    high = float(cell["high"])
    shown = (arrays[cell["tile"]].astype(float) - 128) / 127 * high
    np.testing.assert_allclose(shown, rows[[0, 1, 0]], atol=high / 100)
    header, _ = drawn(session, **state, d="16")
    assert "8 wide, not 16" in header["lead"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.json", b"[1, 2]", "keys, each with a value"),
        ("a.json", b"{", "not JSON"),
        ("a.npy", b"nonsense", "a.npy"),
        ("a.npz", b"nonsense", "a.npz"),
        ("a.safetensors", b"nonsense", "a.safetensors"),
    ],
)
def test_a_file_that_is_not_what_it_claims_is_named(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(posenc.DataError, match=re.escape(words)):
        load([str(tmp_path / name)])


def test_arrays_that_are_no_tables_are_named(tmp_path):
    path = tmp_path / "t.npy"
    for array, words in (
        (np.zeros(3, "f4"), "two axes"),
        (np.zeros((3, 3), "i8"), "two axes"),
        (np.full((3, 3), np.nan, "f4"), "finite"),
        (np.full((9, 9), 1e200), "finite numbers up to 1e"),  # whose squares are not
    ):
        np.save(path, array)
        with pytest.raises(posenc.DataError, match=words):
            load([], [str(path)])


class Trap:
    """Leaves a file where it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_is_never_opened(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.array([Trap(tmp_path / "caught")], dtype=object))
    with pytest.raises(posenc.DataError):
        load([], [str(tmp_path / "t.npz")])
    assert not (tmp_path / "caught").exists()


# --- frozen pages ---------------------------------------------------------------------------------


class Page(HTMLParser):
    """The loads, the scripts and the styles of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.blocks: dict[str, list[tuple[dict, str]]] = {"script": [], "style": []}
        self.policy = ""
        self.open: tuple[str, dict] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.loads += [
            v for k, v in given.items() if k in ("src", "srcset", "data", "poster") and v
        ]
        if tag == "link":
            self.loads.append(given["href"])
        if given.get("http-equiv", "").lower() == "content-security-policy":
            self.policy = html.unescape(given["content"])
        assert "style" not in given
        if tag in self.blocks:
            self.open = (tag, given)
            self.blocks[tag].append((given, ""))

    def handle_data(self, data):
        if self.open is not None:
            tag, given = self.open
            self.blocks[tag][-1] = (given, self.blocks[tag][-1][1] + data)

    def handle_endtag(self, tag):
        if self.open is not None and tag == self.open[0]:
            self.open = None


STATES = [
    {"v": "table", "d": "8", "L": "8"},
    {"v": "table", "enc": "learned", "d": "8", "L": "20", "p": "3", "theme": "dark"},
    {"v": "layers"},
    {"v": "table", "d": "6", "L": "9", "b.enc": "sinusoidal", "b.d": "4"},
    {"v": "stretch", "d": "8"},
    {"v": "table", "d": "8", "L": "90", "find": "0.5 @ 3"},
]


@pytest.fixture(scope="module")
def page() -> str:
    return document(STATES).decode()


@pytest.mark.costly
def test_a_page_of_its_own_loads_nothing(page):
    found = Page(page)
    assert all(load.startswith("data:") for load in found.loads)
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", page)
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", page)
    assert "@import" not in page


def test_a_page_of_its_own_admits_its_own_script_and_style_alone(page):
    found = Page(page)
    assert found.policy.startswith("default-src 'none'")
    assert "unsafe" not in found.policy

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    scripts = [text for given, text in found.blocks["script"] if given["type"] == "module"]
    assert [f"'sha256-{digest(text)}'" in found.policy for text in scripts] == [True]
    styles = [text for _, text in found.blocks["style"]]
    assert [f"'sha256-{digest(text)}'" in found.policy for text in styles] == [True]


def arrays_of(tree: dict, arrays: dict) -> list[np.ndarray]:
    panels = [cell for panel in tree["panels"] for cell in panel.get("cells", [panel])]
    tiles = [arrays[panel["tile"]] for panel in panels if "tile" in panel]
    series = [line for panel in panels for line in panel.get("series", [])]
    return tiles + [arrays[line[name]] for line in series for name in ("x", "y")]


def test_what_a_page_does_not_compute_it_holds_as_picture_and_data(page):
    (data,) = [t for given, t in Page(page).blocks["script"] if given.get("id") == "computes"]
    computes = json.loads(data)
    saved = computes["saved"]
    asked = [{k: v for k, v in state.items() if k != "theme"} for state in STATES]
    assert [one["state"] for one in saved] == asked
    assert ["frame" in one for one in saved] == [False, True, True, True, False, False]
    assert "0.5 @ 3" in {one["find"] for one in computes["finds"]}
    assert "layers" in {view["id"] for view in computes["views"]}
    for one in saved:
        if "frame" not in one:
            continue
        still = unpack(zlib.decompress(base64.b64decode(one["frame"])))
        live = unpack(frame({**one["state"], "w": "640", "h": "400"}))
        assert still.header["notes"] == [*live.header["notes"], NOTE]
        assert still.header["controls"] == []
        for key in ("lead", "title", "say", "readout", "panels", "data_table"):
            assert still.header[key] == live.header[key], key
        both = (arrays_of(made.header, made.arrays) for made in (still, live))
        for own, expected in zip(*both, strict=True):
            np.testing.assert_array_equal(own, expected)


def test_a_page_of_its_own_is_the_same_each_time_and_has_no_buttons_of_python(page):
    assert document(STATES).decode() == page
    for word in ("Compare with", ">Save<", ">Show Python<", "find a position"):
        assert word not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_the_states_that_are_kept_unasked_show_every_view():
    states = default_states({"v": "bias", "heads": "3"})
    assert states[0] == {"v": "bias", "heads": "3"}
    assert {state["v"] for state in states} == set(SHAPES)


MODULES = {
    "b.js": "/** Said to people. */\nexport const one = 1;\nconst hidden = 2;\n"
    "export function two() { return hidden; }\n",
    "app.js": 'import { one, two as second } from "./b.js";\nconst hidden = one + second();\n'
    "export function answer() { return [hidden, ...$mount]; }\n",
}


def test_modules_become_one_script_with_scopes_of_their_own():
    script = bundle.bundle(MODULES)
    assert re.findall(r"^(?:import|export)\b.*", script, re.MULTILINE) == [
        "export function mount(...$mount) {"
    ]
    assert script.index('$modules["b.js"]') < script.index('$modules["app.js"]')
    assert 'const { one, two: second } = $modules["b.js"];' in script
    assert "people" not in script
    more = bundle.computing({**MODULES, "computed.js": 'import { two } from "./b.js";\ntwo();\n'})
    assert '$modules["b.js"] =' not in more
    whole = together(script, more)
    assert whole.replace(more, "") == script
    assert whole.index("b.js") < whole.index("computed.js") < whole.index('$modules["app.js"] = ')
    assert script.startswith(made_of(MODULES))
    assert not script.startswith(made_of({**MODULES, "b.js": MODULES["b.js"] + "\n"}))


def test_a_script_loses_spaces_and_comments_and_nothing_else():
    code = """const a = `x  ${b ? `y // ${{ c: 1 }.c} ` : "  '"} /* z */`; // said
    let d = /[/"'] +/g.test(a) / 2 / 3;
    d = d + +1 - -1
    d = [a, d] /* why */
    return / '/.exec(a) ?? typeof d;
    """
    assert bundle.squeezed(code) == (
        'const a=`x  ${b?`y // ${{c:1}.c} `:"  \'"} /* z */`;'
        "let d=/[/\"'] +/g.test(a)/2/3;d=d+ +1- -1\nd=[a,d]\n"
        "return/ '/.exec(a)??typeof d;\n"
    )


@pytest.mark.parametrize(
    "modules",
    [
        {"app.js": 'import { a } from "./b.js";', "b.js": 'import { c } from "./app.js";'},
        {"app.js": 'import { a } from "./missing.js";'},
        {"app.js": 'import * as a from "./b.js";', "b.js": ""},
        {"app.js": "export default 3;"},
    ],
)
def test_modules_that_cannot_be_one_script_are_refused(modules):
    with pytest.raises(ValueError, match="bundle: .*(circle|by name)"):
        bundle.bundle(modules)


def test_the_built_page_is_served_until_its_sources_change(tmp_path, monkeypatch):
    shutil.copytree(assets.STATIC, tmp_path / "static", ignore=shutil.ignore_patterns("bundle"))
    monkeypatch.setattr(assets, "STATIC", tmp_path / "static")
    files = assets.assets.__wrapped__
    assert b"static/app.js" in files()["index.html"]
    tool = Path(__file__).parents[2] / "tools" / "bundle.py"
    subprocess.run([sys.executable, "-I", tool, tmp_path / "static" / "bundle"], check=True)
    built = files()
    assert b"static/explore.js" in built["index.html"]
    assert b"static/explore.css" in built["index.html"]
    assert built["explore.css"].count(b"{") == built["style.css"].count(b"{")
    shutil.copytree(tmp_path / "static", tmp_path / "wheel" / "static")
    for source in (tmp_path / "wheel" / "static").glob("*.*s"):  # a wheel has no sources
        source.unlink()
    with monkeypatch.context() as wheel:
        wheel.setattr(assets, "STATIC", tmp_path / "wheel" / "static")
        own = ("index.html", "compute.json", "explore.js", "explore.css", "compute.js")
        assert files() == {k: built[k] for k in own}
    with (tmp_path / "static" / "dom.js").open("a") as changed:
        changed.write("\n")
    assert b"static/app.js" in files()["index.html"]
    assert "explore.js" not in files()


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("http://127.0.0.1:8000/#k=1&v=waves&d=64", {"k": "1", "v": "waves", "d": "64"}),
        ("v=table&find=0.5%20%40%203", {"v": "table", "find": "0.5 @ 3"}),
        ("#v=bias", {"v": "bias"}),
        ("?v=bias&b.enc=t5", {"v": "bias", "b.enc": "t5"}),
    ],
)
def test_addresses_are_states(text, state):
    assert state_of(text) == state


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "posenc.cli", "explore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def invoked(*arguments: str) -> Result:
    """The same in this process."""
    return CliRunner().invoke(app, ["explore", *arguments])


@pytest.mark.costly
def test_the_command_freezes_and_replaces_nothing_unasked(tmp_path):
    out, listed = tmp_path / "page.html", tmp_path / "states.txt"
    listed.write_text("// comments are left out\nv=table&d=8&L=8\n\nhttp://x/#v=waves&d=8&L=8\n")
    done = run("--freeze", str(out), "--states", str(listed))
    assert done.returncode == 0, done.stderr
    assert "page.html: 2 states, " in done.stdout
    first = out.read_bytes()
    again = invoked("--freeze", str(out), "--states", "v=table&d=8&L=8")
    assert again.exit_code == 2
    assert "--force replaces it" in again.stderr
    assert out.read_bytes() == first
    forced = invoked("--freeze", str(out), "--states", "v=layers", "--force", "--json")
    told = json.loads(forced.stdout)
    size = out.stat().st_size
    assert told == {"output": str(out), "states": 1, "pictures": 1, "bytes": size}
    assert forced.exit_code == 0, forced.stderr
    assert out.read_bytes() != first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "states.txt"]


@pytest.mark.costly
def test_the_command_freezes_html_only(tmp_path):
    done = run("--freeze", str(tmp_path / "page.png"))
    assert done.returncode == 2
    assert ".html" in done.stderr

"""What holds of the repository as a whole: imports, layers, versions, generated texts."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import yaml
from tools.pages import shelf

import posenc
import posenc_study

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src", ROOT / "study" / "src")
HEAVY = ("torch", "jax", "matplotlib", "scipy")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


# --- imports ------------------------------------------------------------------------------------


def loaded_after(statement: str) -> set[str]:
    """The modules in a fresh process after a statement."""
    done = run("-c", f"{statement}\nimport sys; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import posenc",
        "import posenc; posenc.Sinusoidal; posenc.table",
        "import posenc; posenc.add(posenc.Sinusoidal(8), posenc.table(posenc.Sinusoidal(8), 4))",
        "import posenc\nfor name in posenc.__all__: getattr(posenc, name)",
        "import posenc; posenc.from_json(posenc.to_json(posenc.Sinusoidal(8)))",
        "import posenc.cli",
    ],
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    assert not loaded_after(statement) & set(HEAVY)


@pytest.mark.costly
def test_that_test_would_notice() -> None:
    loaded = loaded_after("import posenc.torch")
    assert "torch" in loaded
    assert "torch.distributed.tensor" not in loaded  # a second, for those who divide nothing
    assert "scipy" in loaded_after("import scipy")


UNASKED = ("posenc_study", "posenc.explore", "posenc.learn", "posenc.plot")
COMMANDS = (
    "list",
    "cite RoPE",
    "table --dim 4 --positions 2",
    "encode word --dim 4 --json",
    "locate --dim 8 --at 0 --value 0.5",
    "explain --plan bloom",
    "check --list",
)


@pytest.mark.costly
def test_what_is_not_asked_for_is_not_imported() -> None:
    """The larger packages cost nothing to those who do not use them."""
    verbs = (
        "import posenc; posenc.table(posenc.Sinusoidal(8), 4); posenc.bias(posenc.ALiBi(2), 3)\n"
        "for name in posenc.__all__: getattr(posenc, name)"
    )
    commands = (
        "import contextlib, io\nfrom posenc.cli import app\n"
        f"for line in {COMMANDS}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        try: app.main(line.split())\n"
        "        except SystemExit as end: assert not end.code, (line, end.code)"
    )
    for statement in (verbs, commands):
        loaded = loaded_after(statement)
        assert "posenc.functional" in loaded
        assert not {name for name in loaded if name.startswith(UNASKED)}


def test_a_bare_import_leaves_even_numpy_alone() -> None:
    loaded = loaded_after("import posenc")
    assert "numpy" not in loaded
    own = {name for name in loaded if name.split(".")[0] == "posenc"}
    assert own == {"posenc", "posenc._names"}


@pytest.mark.costly
def test_what_the_layers_below_are_handed_needs_no_other_import() -> None:
    """A notebook that imports an encoding alone shows its card, by the layer that draws."""
    encoding = "from posenc.encodings.rotary.rope import RoPE; spec = RoPE(8, pairing='half')"
    assert "posenc.plot" not in loaded_after(encoding)
    done = run("-c", f"{encoding}; print(spec._repr_html_())")
    assert "<strong>RoPE</strong>" in done.stdout, done.stderr
    config = "{'model_type': 'llama', 'head_dim': 8, 'num_hidden_layers': 1, 'rope_theta': 1e4}"
    done = run("-c", f"from posenc._names import HANDED; print(len(HANDED['reading']({config})))")
    assert done.stdout == "1\n", done.stderr


@pytest.mark.costly
def test_a_star_import_brings_the_public_names() -> None:
    code = "from posenc import *\nnames = set(dir())"
    done = run("-c", f"{code}\nprint(*names)")
    assert set(posenc.__all__) <= set(done.stdout.split()), done.stderr
    assert not {"torch", "jax", "np", "numpy"} & set(done.stdout.split())


def test_public_names() -> None:
    assert list(posenc.__all__) == sorted(set(posenc.__all__))
    assert set(posenc.__all__) <= set(dir(posenc))
    with pytest.raises(AttributeError, match="Did you mean 'Sinusoidal'"):
        posenc.Sinusoidl  # noqa: B018
    # A verb and a package of the same name would take each other's place under `posenc.`.
    packages = {path.parent.name for path in (ROOT / "src" / "posenc").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "src" / "posenc").glob("*.py")}
    for name in (packages | modules) & set(posenc.__all__):
        assert isinstance(getattr(posenc, name), ModuleType)


def test_an_editable_install_leaves_the_path_in_charge(tmp_path: Path) -> None:
    """Another tree on PYTHONPATH is the one that is tested: no hook of the install precedes it."""
    other = tmp_path / "posenc" / "__init__.py"
    other.parent.mkdir()
    other.write_text("")
    code = "import posenc; print(posenc.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert Path(done.stdout.strip()) == other


# --- layers ---------------------------------------------------------------------------------------


def test_layers_stand_as_designed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert settings["contracts"][0]["layers"] == [
        "(cli)",
        "(explore) | (testing)",
        "(learn)",
        "(plot)",
        "(detect)",
        "(torch)",
        "functional",
        "(kernels) | (presets)",
        "registry",
        "encodings",
        "(scaling) | positions",
        "_core",
        "_names",
    ]
    layered = [found for found in settings["contracts"] if found["type"] == "layers"]
    assert all(contract["exhaustive"] for contract in layered)


IMPORTS = re.compile(r"from\s+posenc[^\n(]*(?:\([^)]*\))?")


@pytest.mark.costly
def test_no_private_name_crosses_a_package() -> None:
    """An underscored module or name is used in its own package alone; `_core` is for all."""
    crossing = []
    files = {path: path.relative_to(source) for source in SOURCES for path in source.rglob("*.py")}
    for path, name_of_file in files.items():
        home = name_of_file.parts[:-1]
        text = path.read_text(encoding="utf-8")
        # A file is parsed where the text of its imports has an underscore that is not `_core`'s.
        if not any(map(re.compile(r"\b_(?!core\b|_)").search, IMPORTS.findall(text))):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("posenc"):
                within = tuple(node.module.split("."))  # type: ignore[union-attr]
                for name in ((*within, alias.name) for alias in node.names):
                    private = [i for i, part in enumerate(name) if re.match("_(?!core$|_)", part)]
                    if private and home[: private[0]] != name[: private[0]]:
                        crossing.append(f"{name_of_file}: {'.'.join(name)}")
    assert not crossing


READERS = {"Keys", "from_gguf", "from_hf", "has_window", "open_checkpoint", "part_at"}
# Who reads configs and opens weights, whose plan of another dialect is read again, and the writer.
READS = (
    "detect/explain/",
    "detect/facts/",
    "_core/io/",
    "detect/convert/",
    "cli/detective/convert",
)


def test_what_is_known_of_a_model_is_asked_of_its_facts() -> None:
    """No tool reads a config, opens weights or walks through parts by itself."""
    root = ROOT / "src" / "posenc"
    found = {
        f"{path.relative_to(root)}: {node.id}"
        for path in root.rglob("*.py")
        if not str(path.relative_to(root)).startswith(READS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id in READERS
    }
    assert found == set()


def test_the_detective_has_no_underscored_file() -> None:
    detect = ROOT / "src" / "posenc" / "detect"
    assert not [path for path in detect.rglob("_*.py") if path.name != "__init__.py"]


def test_every_folder_of_the_source_is_a_package() -> None:
    # import-linter and mypy pass over folders without `__init__.py`.
    bare = [
        path.parent
        for source in SOURCES
        for path in source.rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    ]
    assert not bare


def lines_of(place: str) -> int:
    """How many lines a function or class has, named as `path: Class.method`."""
    path, _, name = place.partition(": ")
    text = (ROOT / "src" / "posenc" / path).read_text(encoding="utf-8")
    missing = f"docs/house.md: {path} has no {name}"
    if not path.endswith(".py"):
        body = re.search(rf"^\S[^\n;]*\b{name}\(.*?^\}}$", text, re.MULTILINE | re.DOTALL)
        assert body is not None, missing
        return body[0].count("\n") + 1
    node: Any = ast.parse(text)
    for part in name.split("."):
        node = next((n for n in node.body if getattr(n, "name", "") == part), None)
        assert node is not None, missing
    return int(node.end_lineno - node.lineno + 1)


def test_each_trail_through_the_house_exists_and_is_short() -> None:
    text = shelf.whole(ROOT / "docs" / "house.md")
    trails = re.findall(r"^### (.+?)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert len(trails) == 3
    for title, trail in trails:
        places = re.findall(r"^\| `(\S+: [\w.]+)` \|", trail, re.MULTILINE)
        assert len(places) > 4, title
        assert sum(map(lines_of, places)) <= 400, title


def test_no_path_reads_as_an_option() -> None:
    """A tool that is asked for `--help` may take it for a folder, and write there."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        pytest.skip("this tree is not a repository")
    paths = done.stdout.rstrip("\0").split("\0")
    assert "pyproject.toml" in paths
    assert not [path for path in paths if any(part[0] == "-" for part in path.split("/"))]


def test_types_are_announced() -> None:
    assert (ROOT / "src" / "posenc" / "py.typed").exists()


# --- tiers of the tests ---------------------------------------------------------------------------


@pytest.mark.costly
def test_every_slow_test_names_its_subject() -> None:
    """CI runs a slow test where its subject changed, so a subject is a file or folder that is."""
    marks = []
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if ".slow" in text else ():
            named = node.func if isinstance(node, ast.Call) else node
            if getattr(named, "attr", "") != "slow" or ast.unparse(named) != "pytest.mark.slow":
                continue
            if isinstance(node, ast.Attribute):
                marks.append((path.name, node.lineno, []))
            if isinstance(node, ast.Call):
                subjects = [a.value for a in node.args if isinstance(a, ast.Constant)]
                marks.append((path.name, node.func.lineno, subjects or ["*"]))
    named = {mark[:2] for mark in marks if mark[2]}
    assert not [mark[:2] for mark in marks if mark[:2] not in named]
    subjects = {subject for mark in marks for subject in mark[2]} - {"*"}
    assert len(subjects) > 5
    assert not [name for name in subjects if not (ROOT / "src" / "posenc" / name).exists()]


# --- versions and texts ---------------------------------------------------------------------------


SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
STUDY = ROOT / "study"
OF_STUDY = tomllib.loads((STUDY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXT_LICENSE = "Apache-2.0 AND PSF-2.0"


def test_version_and_changelog_agree() -> None:
    """Code, changelog, README, citation and package have one version, dated once it is out."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\] - (.+)$", changelog, re.MULTILINE)
    first, date = headings[0]
    assert first == posenc.__version__
    assert date == "unreleased" or re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {posenc.__version__}\n" in citation
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"This is version {posenc.__version__}." in readme
    # The package reads its version in the code; `tools/release.py` asks the wheel for it.
    assert "version" in PROJECT["dynamic"]
    where = SETTINGS["tool"]["scikit-build"]["metadata"]["version"]["input"]
    text = (ROOT / where).read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE) == [posenc.__version__]


def test_no_address_of_the_project_is_invented() -> None:
    """It has no public address yet; the packages and the citation name none."""
    assert "urls" not in PROJECT
    assert "urls" not in OF_STUDY
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert not re.findall(r"^(?:url|repository[\w-]*|doi):", citation, re.MULTILINE)


def test_posenc_brings_no_study_and_the_study_its_own_posenc() -> None:
    required = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["all"]]
    assert not [line for line in required if "study" in line]
    build = SETTINGS["tool"]["scikit-build"]
    assert build["wheel"]["packages"] == ["src/posenc"]
    assert {"/golden", "/study", "/tests/study"} <= set(build["sdist"]["exclude"])
    assert posenc_study.__version__ == posenc.__version__
    assert f"posenc[torch,plot]=={posenc.__version__}" in OF_STUDY["dependencies"]


def test_the_command_of_the_study_is_the_one_that_posenc_asks_for() -> None:
    from posenc.cli import _app

    [(name, place)] = OF_STUDY["entry-points"][_app.GROUP].items()
    assert _app.COMMANDS[name][0] == OF_STUDY["name"]
    module, _, attribute = place.partition(":")
    assert getattr(importlib.import_module(module), attribute).name in ("command", name)


def test_the_oldest_versions_are_those_of_the_package() -> None:
    """`make compat` tries what `pyproject.toml` promises."""
    pins = (ROOT / "constraints" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    oldest = dict(line.split("==") for line in pins if "==" in line)
    extras = PROJECT["optional-dependencies"]
    promised = [*PROJECT["dependencies"], *extras["jax"]]
    assert len(promised) == 4
    for requirement in promised:
        name, version = requirement.split(">=")
        assert re.fullmatch(rf"{re.escape(version)}(\.0)*", oldest[name]), requirement


def test_workflows_call_what_is_there() -> None:
    """They do what anybody can do here: run `.ci/run`, or a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        called = set(re.findall(r"run: make ([a-z-]+)", text))
        assert called <= targets, path.name
        assert "contents: read" in text
        assert "secrets." not in text
        # What may ask the index for a token waits for a reviewer, and may do nothing else.
        for job in yaml.safe_load(text)["jobs"].values():
            assert job.get("permissions") in (None, {"id-token": "write"}), path.name
            assert job.get("environment") == ("pypi" if "permissions" in job else None)
        # A tag may be moved to other code: an action is named by its commit.
        for used in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[0-9]+\.[0-9]+\.[0-9]+", used), (
                used
            )


def test_every_licence_in_the_tree_is_declared() -> None:
    """Texts of others come with their licences, which the package names and carries."""
    for top, project, words in ((ROOT, PROJECT, "Apache-2.0"), (STUDY, OF_STUDY, TEXT_LICENSE)):
        carried = {str(path.relative_to(top)) for path in (top / "src").rglob("*LICENSE*")}
        assert set(project["license-files"]) == {"LICENSE", *carried}
        assert bool(carried) == ("PSF" in words)
        assert project["license"] == words
    assert (STUDY / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    told = (STUDY / "src/posenc_study/data/README.md").read_text(encoding="utf-8")
    assert "PSF\nLicense Version 2" in told


def test_classifiers_follow_the_versions_that_are_supported() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [int(line.removeprefix(prefix)) for line in PROJECT["classifiers"] if prefix in line]
    assert PROJECT["requires-python"] == f">=3.{named[0]}"
    assert named == list(range(named[0], named[-1] + 1))
    supported = f"Supported are Python 3.{named[0]} and newer"
    assert supported in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("tools")
def test_the_page_of_the_package_leads_to_no_file_beside_it() -> None:
    import package_page

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = package_page.page(readme)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert all(target.startswith(("https:", "#")) for target in targets)
    assert "takes it back: docs/adopt.md." in text  # a link, as its words
    assert "docs/img/" not in text
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert code.findall(text) == code.findall(readme)
    assert package_page.page("```\nx[0](y)\n```\n[a](b.md)") == "```\nx[0](y)\n```\na"
    kept = "[a](https://example.org/x) and ![b](https://example.org/y.png)"
    assert package_page.page(f"{kept} [c](d.md)") == f"{kept} c"
    source = "https://example.org/r"
    assert package_page.page(f"{kept} [c](d.md)\n\n![e](f.png)", source) == (
        f"{kept} [c]({source}/blob/main/d.md)\n\n![e]({source}/raw/main/f.png)"
    )
    built = package_page.dynamic_metadata("readme", {})["text"]
    assert built == package_page.page(readme, package_page.source_url())


@pytest.mark.usefixtures("tools")
def test_the_pairings_that_pages_name_are_those_of_the_rows() -> None:
    from tools.pages import family_pairings

    transformers, gguf = family_pairings.rows().values()
    half, interleaved = (set(transformers[order]) for order in ("half", "interleaved"))
    for names, own, other in (
        ({"llama", "mistral", "qwen2", "qwen3", "gemma", "gpt_neox"}, half, interleaved),
        ({"gptj", "cohere", "roformer"}, interleaved, half),
    ):
        assert names <= own - other
    assert {"deepseek_v3", "deepseek_v32"} <= half & interleaved  # by a key, and by the indexer
    assert "llama" in set(gguf["interleaved"]) - set(gguf["half"])
    assert posenc.preset("llama-meta", 8).pairing.order == "interleaved"
    assert "rotate_half" in family_pairings.LEAD


def test_changelog_has_numerics() -> None:
    assert "\n### Numerics\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_pinned_version_is_exact() -> None:
    pins = (ROOT / "constraints" / "versions.txt").read_text().splitlines()
    loose = [line for line in pins if line and not re.fullmatch(r"#.*|[\w.-]+==[\w.!]+", line)]
    assert not loose
    names = [line.partition("==")[0].lower() for line in pins if "==" in line]
    peers = (ROOT / "constraints" / "peers.txt").read_text().splitlines()
    assert {line for line in peers if line and not line.startswith("#")} <= set(names)


@pytest.mark.costly
@pytest.mark.usefixtures("tools")
def test_generated_texts_follow_the_measurements(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import generate

    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0, capsys.readouterr().out


@pytest.mark.costly
@pytest.mark.usefixtures("tools")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_docstrings_pass_their_check(capsys: pytest.CaptureFixture[str]) -> None:
    import check_docstrings

    code, told = check_docstrings.main(), capsys.readouterr().out
    assert code == 0, told
    assert int(re.findall(r"(\d+) public names", told)[0]) > len(posenc.__all__) // 2


def test_words_that_a_docstring_lists_are_those_of_its_annotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check_docstrings

    def verb(kernel: Literal["auto", "cpu"] | None = None) -> None:
        """Name a kernel.

        Parameters
        ----------
        kernel : {"auto", "gpu"}, optional
            Which one.
        """

    [told] = check_docstrings.other_words(verb)
    assert told == "of 'kernel', not listed: ['cpu']; listed, but no word of it: ['gpu']"
    assert not [*check_docstrings.other_words(posenc.rotate)]
    assert not [*check_docstrings.other_words(posenc.ALiBi)]


SMALL = {
    "src/posenc/__init__.py": """
def __getattr__(name):
    return import_module("posenc.high")
""",
    "src/posenc/__init__.pyi": """
from posenc.low import shown as shown
__all__ = ["shown"]
""",
    "src/posenc/_names.py": 'HOMES = {"shown": "posenc.high"}',
    "src/posenc/low.py": '''
from posenc import high

def shown():
    """Shown.

    Returns
    -------
    None
    """

class Twice:
    """Not shown.

    Notes
    -----
    A section.
    """

import_module("posenc.high")
import_module("json")
''',
    "src/posenc/high/__init__.py": """
import posenc.low
def f(a, b, c, d, e, f, g, h, i, *j):
    found = import_module(f"posenc.high.{a}")
"""
    + "\n" * 400,
    "src/posenc/high/detail.py": """
class _Twice:
    def g(self, b):
        for a in b:
            if a:
                while a:
                    with a:
                        pass
""",
    "README.md": "Two | words -",
    "docs/page.md": "One.",
    "docs/encodings/made.md": "Made by the build.",
    "tests/test_one.py": "",
    "tools/one.py": "",
}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `ceilings`, over a small project that has one of each thing that it counts."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import ceilings

    for name, text in SMALL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("ROOT", "SOURCE", "STUDY", "PROJECT"):
        place = tmp_path / getattr(ceilings, name).relative_to(ROOT)
        monkeypatch.setattr(ceilings, name, place)
    monkeypatch.setattr(ceilings, "public_modules", lambda: ("posenc",))
    monkeypatch.setattr(ceilings, "ROOM", {"folder-files.src": 2})
    layers = '[[tool.importlinter.contracts]]\nlayers = ["high", "(low) | (other)", "_names"]\n'
    ceilings.PROJECT.write_text(layers)
    return ceilings


def test_the_ceilings_count_what_they_say(small: Any) -> None:
    figures, places = small.measured()
    assert figures == {
        "statements.all": 18,
        "statements.posenc": 8,
        "statements.high": 10,
        "words.docs": 1,
        "words.readme": 2,
        "folder-files.src": 3,
        "folder-files.encodings": 0,
        "folder-files.tests": 1,
        "folder-files.tools": 1,
        **dict.fromkeys([key for key in small.MEANING if "-" in key and key[:6] != "folder"], 1),
    }
    assert all(figure == 0 or places[key] for key, figure in figures.items())
    assert places["arrows-up"] == ["posenc.low -> posenc.high (1)"]
    assert places["hidden-imports"] == ["src/posenc/low.py:20 import_module('posenc.high') (1)"]
    # A text in a table is an arrow like an import; a text in the package itself is none.
    low, inside = small.SOURCE / "low.py", small.SOURCE / "high" / "detail.py"
    low.write_text('LAZY = {"name": "posenc.high.detail", "other": "posenc.low"}')
    inside.write_text('import_module(f"posenc.low_{name}"); __import__("posenc.high")')
    figures, places = small.measured()
    assert places["arrows-up"] == ["posenc.low -> posenc.high.detail (1)"]
    assert figures["hidden-imports"] == 2


def test_ceilings_fall_by_themselves_and_never_rise(
    small: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(**changes: int) -> str:
        rows = {"": "", "folder-files": "", "statements": "", "words": ""}
        for key, figure in (small.measured()[0] | changes).items():
            table, _, row = key.rpartition(".")
            rows[table] += f"{row} = {figure}\n"
        heads = (f"[tool.ceilings{table and '.'}{table}]\n{text}" for table, text in rows.items())
        return "".join(heads) + "[tool.other]\nhigh = 99\n"

    def called(*flags: str) -> int:
        monkeypatch.setattr(sys, "argv", ["ceilings.py", *flags])
        return int(small.main())

    layers = small.PROJECT.read_text()
    exact = written()
    small.PROJECT.write_text(layers + exact)
    assert [called(), called("--exact"), called("--lower")] == [0, 0, 0]
    assert not capsys.readouterr().out
    # One more of each is told, is an error to CI, and is lowered; a part that is gone goes.
    small.PROJECT.write_text(
        layers + written(**{"long-files": 9, "statements.high": 50, "statements.gone": 5})
    )
    assert [called(), called("--exact")] == [0, 1]
    assert "long-files 1" in capsys.readouterr().out
    assert called("--lower") == 0
    assert small.PROJECT.read_text() == layers + exact
    # What has risen is an error, and is not written.
    for key in small.measured()[0].keys() - {"folder-files.encodings"}:
        risen = layers + written(**{key: 0})
        small.PROJECT.write_text(risen)
        assert called("--lower") == 1, key
        assert small.PROJECT.read_text() == risen
        assert small.measured()[1][key][0] in capsys.readouterr().out
    # No ceiling falls below what any folder may have; a new part has none until it is written.
    small.PROJECT.write_text(
        layers + exact.replace("src = 3", "src = 4").replace("high = 10\n", "")
    )
    monkeypatch.setitem(small.ROOM, "folder-files.src", 4)
    assert called("--lower") == 1
    assert "10 statements, without docstrings (high), and 0 is the most" in capsys.readouterr().out
    assert "src = 4\n" in small.PROJECT.read_text()


@pytest.mark.costly
@pytest.mark.usefixtures("tools")
def test_the_public_names_are_those_of_the_docstrings() -> None:
    """What the ceilings read without importing is what the check of docstrings imports."""
    import ceilings
    import check_docstrings

    assert ceilings.public_modules() == check_docstrings.MODULES
    files = [ceilings._file(path, ceilings.SOURCE) for path in ceilings.SOURCE.rglob("*.py")]
    things = [
        x for _, x in check_docstrings.public() if inspect.isclass(x) or inspect.isfunction(x)
    ]
    own = {(thing.__module__, thing.__qualname__) for thing in things}
    places = ceilings.public_places(files)
    places |= {("posenc", name) for _, name in places}  # where a traceback finds errors
    assert {place for place in own if "." not in place[1]} <= places


# --- the documentation ----------------------------------------------------------------------------


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


@pytest.mark.usefixtures("tools")
def test_a_page_needs_an_equation_and_bibtex() -> None:
    from tools.pages import pages

    whole = pages.page_of(posenc.Sinusoidal)
    assert all(f"| `{name}` |" in whole for name in ("dim", "base", "phase", "whisper"))

    def without(**changes: str) -> Any:
        return type(
            "Clock", (posenc.Sinusoidal,), {"__doc__": posenc.Sinusoidal.__doc__, **changes}
        )

    assert pages.page_of(without())
    with pytest.raises(ValueError, match="Clock: no BibTeX"):
        pages.page_of(without(bibtex=""))
    with pytest.raises(ValueError, match="Clock: the docstring has no equation"):
        pages.page_of(without(__doc__="A clock."))


@pytest.mark.usefixtures("tools")
def test_an_encoding_without_a_page_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.pages import pages

    made = [f"encodings/{name}" for name in pages.registry.SPECS]
    assert pages.missing(["index", *made, "encodings/index"]) == set()
    monkeypatch.setitem(pages.registry.SPECS, "Nobody", "nowhere")
    assert pages.missing(made) == {"Nobody"}


@pytest.mark.usefixtures("tools")
def test_every_public_name_is_in_the_reference() -> None:
    from tools.pages import pages

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8") + pages.reference()
    named = re.findall(r"auto(?:class|function|module|exception):: ([\w.]+)", text)
    assert {name.removeprefix("posenc.") for name in named} >= set(posenc.__all__)


# --- the picture ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("tools")
@pytest.mark.costly
def test_the_picture_shows_every_number(tmp_path: Path) -> None:
    """Each number is a square of pixels of one colour, the colour of its value."""
    import numpy as np
    from matplotlib.image import imread
    from tools.pages import picture

    from posenc.plot import palette

    spec, length, cell = posenc.Sinusoidal(24), 20, 3
    path = picture.draw_table(spec, length, tmp_path / "table.png", cell=cell)
    drawn = np.rint(imread(path)[..., :3] * 255).astype("uint8")
    values = posenc.table(spec, length).astype(float)
    shades = palette.diverging("light")[palette.indices(values, np.abs(values).max())]
    expected = shades.repeat(cell, axis=0).repeat(cell, axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(drawn, expected.shape)
    assert (windows == expected).all(axis=(3, 4, 5)).sum() == 1

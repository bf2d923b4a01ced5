"""Encodings of other packages: by `posenc.register`, and by entry points of what is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import posenc
from posenc import SpecError, registry
from posenc._core.spec import json_classes
from posenc.encodings import api

ROOT = Path(__file__).resolve().parents[2]
ACME = ["Clockwork", "Harmonic", "Neighbour", "Ramp", "Teeth"]


def install(folder: Path, package: str, points: dict[str, str], **files: str) -> None:
    """A package as an installer leaves it: its files, and the metadata beside them."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    info = folder / f"{package.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[posenc.encodings]", *lines, ""]))


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    source = (ROOT / "tests" / "core" / "acme_positions.py").read_text()
    points = {name: f"acme_positions:{name}" for name in ACME}
    install(tmp_path, "acme-positions", points, acme_positions=source)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    folders = (folder, ROOT / "src", ROOT / "study" / "src", ROOT)
    path = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.costly
@pytest.mark.parametrize(
    "parts",
    [
        ["names", "verbs", "tools"],
        pytest.param(
            ["modules", "pictures", "jax", "study"],
            marks=pytest.mark.slow("registry.py", "torch", "plot", "testing", "encodings/api.py"),
        ),
    ],
    ids=" ".join,
)
def test_an_installed_package_has_what_ours_have(acme: Path, parts: list[str]) -> None:
    assert run(acme, "-m", "tests.core.acme_user", *parts).split() == parts


# --- entry points that lead nowhere ---------------------------------------------------------------

GOOD = """
from dataclasses import dataclass
from posenc.encodings import api

@dataclass(frozen=True)
class Near(api.BiasSpec):
    heads: int
    def score(self, q, k, head, constants, *, dtype, xp):
        return 0 * api.astype(head * api.distance(q, k), dtype, xp)

class Slotted: ...
Other = Near
"""
# name of the entry point: (what it leads to, the module, what the message says)
BROKEN: dict[str, tuple[str, str, str]] = {
    "Absent": (
        "no_such_module:Absent",
        "",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "Missing": ("bad_missing:Missing", "", "AttributeError: .*has no attribute 'Missing'"),
    "Raises": ("bad_raises:Raises", "1 / 0", "ZeroDivisionError: division by zero"),
    "Ends": ("bad_ends:Ends", "raise SystemExit('told')", "SystemExit: told"),
    "Syntax": ("bad_syntax:Syntax", "def (", "SyntaxError"),
    "Number": ("bad_number:Number", "Number = 3", "it is no class of a kind"),
    "Renamed": ("good_near:Other", "", "the name of the class, 'Near'.*got 'Renamed'"),
    "RoPE": ("good_near:Near", "", "a name that no other class has, got RoPE of posenc"),
    "rope": ("good_near:Near", "", "a name that no other class has, got RoPE of posenc"),
    "Ladder": ("good_near:Near", "", "got Ladder of posenc"),
}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is registered in a test is forgotten after it."""
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("good_", "bad_")):
            del sys.modules[name]


@pytest.mark.usefixtures("alone")
def test_a_broken_entry_point_is_named_and_breaks_no_other(installed: Path) -> None:
    install(installed, "good-one", {"Near": "good_near:Near"}, good_near=GOOD)
    for name, (target, text, _) in BROKEN.items():
        module = target.partition(":")[0]
        files = {} if module in ("no_such_module", "good_near") else {module: text}
        install(installed, f"broken-{name}-{len(name)}", {name: target}, **files)
    loud = "raise RuntimeError('\\x1b[31mred\\x1b[0m \\x07')"
    install(installed, "loud", {"Loud": "bad_loud:Loud"}, bad_loud=loud)
    (installed / "torn-1.0.dist-info").mkdir()
    (installed / "torn-1.0.dist-info" / "METADATA").write_text("Name: torn\nVersion: 1.0\n")
    (installed / "torn-1.0.dist-info" / "entry_points.txt").write_text("[posenc.encodings]\nTorn\n")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        classes = list(registry.specs())
    assert [cls.__name__ for cls in classes] == [*posenc.registry.SPECS, "Near"]
    messages = [str(warning.message) for warning in told]
    for name, (target, _, _) in BROKEN.items():
        wanted = f"broken-{name}-{len(name)} 1.2 ({name} = {target})"
        assert sum(wanted in message for message in messages) == 1, (wanted, messages)
    assert any("entry points in" in m and "torn-1.0" in m for m in messages)
    assert any(r"RuntimeError: \x1b[31mred\x1b[0m \x07" in m for m in messages)
    assert not any(mark in m for m in messages for mark in "\x1b\x07")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (_, _, reason) in BROKEN.items():
            if name in registry.SPECS or name in registry.VALUES:
                continue
            with pytest.raises(SpecError, match=reason):
                posenc.from_json(json.dumps({"type": name, "heads": 2}))
        near = posenc.from_json('{"type": "Near", "heads": 2}')
        assert posenc.bias(near, 3).shape == (2, 3, 3)  # type: ignore[arg-type]
        assert posenc.from_json('{"type": "ALiBi", "heads": 2}') == posenc.ALiBi(2)
        assert not {"Raises", "Near"} - set(registry.names())
        assert "rope" not in registry.names()


@pytest.mark.usefixtures("alone")
def test_two_packages_with_one_name_are_both_named(installed: Path) -> None:
    other = GOOD.replace("class Near", "class near")
    install(installed, "first-one", {"Near": "good_first:Near"}, good_first=GOOD)
    install(installed, "second-one", {"near": "good_second:near"}, good_second=other)
    with pytest.raises(
        SpecError, match=r"first-one 1\.2.*second-one 1\.2 \(near = good_second:nea"
    ):
        registry.lookup("Near")
    with pytest.raises(
        SpecError, match=r"second-one 1\.2.*first-one 1\.2 \(Near = good_first:Near"
    ):
        registry.lookup("near")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert {cls.__name__ for cls in registry.specs()} == set(registry.SPECS)
    assert len(told) == 2


@pytest.mark.usefixtures("alone")
def test_a_package_may_register_what_its_entry_point_names(installed: Path) -> None:
    text = GOOD.replace("@dataclass", "import posenc\n\n@posenc.register\n@dataclass", 1)
    (installed / "good_pkg").mkdir()
    (installed / "good_pkg" / "__init__.py").write_text("from good_pkg.inner import Near\n")
    (installed / "good_pkg" / "inner.py").write_text(text)
    install(installed, "good-pkg", {"Near": "good_pkg:Near"})
    import good_pkg  # type: ignore[import-not-found]

    assert registry.lookup("Near") is good_pkg.Near
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(registry.others()) == [good_pkg.Near]

    @dataclass(frozen=True)
    class Near(api.BiasSpec):
        heads: int

        def score(self, q: Any, k: Any, head: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(
        SpecError, match=r"register: expected a name for tests\.core\.test_register:.*Near"
    ):
        posenc.register(Near)


# --- what JSON may ask for ------------------------------------------------------------------------


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "name",
    ["os.system", "os:system", "antigravity", "antigravity:fly", "this", "good_near", "__import__",
     "posenc.encodings.bias.alibi", "good_near:Near", "good_near.Near", "../good_near", "", "\x00"],
)  # fmt: skip
def test_a_text_imports_nothing_that_no_entry_point_names(installed: Path, name: str) -> None:
    install(installed, "good-one", {}, good_near=GOOD)
    before = set(sys.modules)
    with pytest.raises(SpecError, match="the name of an encoding or value"):
        posenc.from_json(json.dumps({"type": name, "heads": 2}))
    assert not {m for m in set(sys.modules) - before if m.startswith(("good", "this", "anti"))}


def test_an_unknown_name_says_how_it_would_be_known() -> None:
    with pytest.raises(SpecError, match=r"known after posenc\.register, or by an entry point"):
        posenc.from_json('{"type": "Sinusoidil", "dim": 4}')


# --- register -------------------------------------------------------------------------------------


class Body(api.BiasSpec):
    """All that a bias needs but its fields."""

    def score(self, q: Any, k: Any, head: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
        return api.astype(head * api.distance(q, k), dtype, xp)


def plain_class() -> type:
    class Plain(Body):
        heads: int

    return Plain


def thawed() -> type:
    @dataclass
    class Thawed(Body):
        heads: int

    return Thawed


def slotted() -> type:
    @dataclass(frozen=True, slots=True)
    class Slotted(Body):
        heads: int

    return Slotted


def unequal() -> type:
    @dataclass(frozen=True, eq=False)
    class Unequal(Body):
        heads: int

    return Unequal


def abstract() -> type:
    @dataclass(frozen=True)
    class Abstract(api.TableSpec):
        dim: int

    return Abstract


def sizeless() -> type:
    @dataclass(frozen=True)
    class Sizeless(Body):
        dim: int

    return Sizeless


def arrayed() -> type:
    @dataclass(frozen=True)
    class Arrayed(Body):
        heads: int
        slopes: np.ndarray | None = None

    return Arrayed


def anything() -> type:
    @dataclass(frozen=True)
    class Anything(Body):
        heads: int
        more: Any = None

    return Anything


def listed() -> type:
    @dataclass(frozen=True)
    class Listed(Body):
        heads: int
        _: KW_ONLY
        slopes: tuple[dict[str, int], ...] = ()

    return Listed


def typed() -> type:
    @dataclass(frozen=True)
    class Typed(Body):
        heads: int
        type: int = 1

    return Typed


def hiding() -> type:
    @dataclass(frozen=True)
    class Hiding(Body):
        heads: int
        place: Literal["after", "before"] = "after"

    return Hiding


def cached() -> type:
    @dataclass(frozen=True)
    class Cached(Body):
        heads: int
        arrays: tuple[float, ...] = ()

    return Cached


def uncalled() -> type:
    @dataclass(frozen=True)
    class Uncalled(Body):
        heads: int
        width: int = field(default=3, init=False)

    return Uncalled


def derived() -> type:
    @dataclass(frozen=True)
    class Derived(posenc.ALiBi):  # type: ignore[misc]
        pass

    return Derived


def kindless() -> type:
    @dataclass(frozen=True)
    class Kindless(api.Spec):
        dim: int

    return Kindless


def still() -> type:
    @dataclass(frozen=True)
    class Still(api.RotarySpec):
        dim: int
        pairing: Literal["half", "interleaved"] = "half"

    return Still


def holding() -> type:
    @dataclass(frozen=True)
    class Holding(Body):
        heads: int
        wheel: Wheel

    return Holding


def unresolved() -> type:
    @dataclass(frozen=True)
    class Unresolved(Body):
        heads: int
        wheel: NoSuchName  # type: ignore[name-defined]  # noqa: F821

    return Unresolved


@dataclass(frozen=True)
class Wheel(api.Value):
    """A value that nobody has registered."""

    teeth: int = 3


REFUSED = {
    plain_class: "no dataclass itself",
    thawed: r"not @dataclass\(frozen=True\)",
    slotted: "without slots",
    unequal: "with equality",
    abstract: "it lacks rows",
    sizeless: "it lacks heads",
    arrayed: "slopes is annotated np.ndarray",
    anything: "more is annotated Any",
    listed: "slopes is annotated tuple",
    typed: "the field 'type' hides",
    hiding: "the field 'place' hides",
    cached: "the field 'arrays' hides",
    uncalled: "the field 'width' is no argument",
    derived: "ALiBi is final",
    kindless: "its kind is None",
    still: "it lacks phasors",
    holding: "holds Wheel, which is not registered",
    unresolved: "an annotation cannot be resolved.*NoSuchName",
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_what_json_could_not_rebuild_is_refused(make: Any) -> None:
    cls = make()
    with pytest.raises(SpecError, match=f"register: expected.*{cls.__name__}: .*{REFUSED[make]}"):
        posenc.register(cls)
    assert not registry.registered()


@pytest.mark.parametrize(
    ("kind", "name"), [(api.RelativeSpec, "heads"), (api.RotarySpec, "pairs")], ids=str
)
def test_a_field_that_a_property_hides_is_told_where_it_is_written(kind: type, name: str) -> None:
    """Else the first construction ends in "property 'heads' has no setter"."""
    expected = f"Compass: .*'{name}', which is a property of {kind.__name__}. Name the field"
    with pytest.raises(SpecError, match=expected):
        make_dataclass("Compass", [("dim", int), (name, int)], bases=(kind,), frozen=True)


def test_ours_are_of_what_others_need() -> None:
    """A class without a field that is plain, or that hides one of its kind, is none of ours."""
    assert {name: json_classes.why_no_json(registry.lookup(name)) for name in registry.SPECS} == (
        dict.fromkeys(registry.SPECS, "")
    )


def test_a_rule_of_another_package_may_have_a_factor_of_its_own() -> None:
    fields: Any = [("factor", float), ("original_length", int)]
    rule: Any = make_dataclass("Squeeze", fields, bases=(posenc.scaling.Scaling,), frozen=True)
    (scaled,) = posenc.RoPE(8, pairing="half", scaling=rule(0.5, 0)).scaling
    assert (scaled.factor, scaled.original_length) == (0.5, 0)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("thing", [3, "RoPE", np.ndarray, lambda: None, posenc.ALiBi(2)])
def test_only_classes_are_registered(thing: Any) -> None:
    with pytest.raises(SpecError, match=r"it is no class of a kind.*inherit from .*TableSpec"):
        posenc.register(thing)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["ALiBi", "Alibi", "Ladder", "YaRN", "Part"])
def test_a_name_of_ours_is_refused(name: str) -> None:
    cls = dataclass(frozen=True)(
        type(name, (Body,), {"__annotations__": {"heads": "int"}, "__module__": __name__})
    )
    with pytest.raises(
        SpecError, match=rf"tests\.core\.test_register:{name} .*got that of \w+ of posenc"
    ):
        posenc.register(cls)


def near(reach: int) -> type[api.BiasSpec]:
    @dataclass(frozen=True)
    class Near(Body):
        heads: int
        far: int = reach

    return Near


@pytest.mark.usefixtures("alone")
def test_the_same_class_again_takes_its_own_place() -> None:
    assert posenc.register(near(1)) is registry.lookup("Near")
    posenc.register(near(2))
    assert posenc.from_json('{"type": "Near", "heads": 3}').far == 2  # type: ignore[attr-defined]

    def another() -> type:
        return dataclass(frozen=True)(type("Near", (Body,), {"__annotations__": {"heads": "int"}}))

    with pytest.raises(
        SpecError, match=r"got that of tests\.core\.test_register:near\.<locals>\.Near"
    ):
        posenc.register(another())


@pytest.mark.usefixtures("alone")
def test_a_value_of_ones_own_is_registered_before_what_holds_it() -> None:
    posenc.register(Wheel)
    cls = posenc.register(holding())
    spec = cls(2, wheel=Wheel(5))
    assert posenc.from_json(posenc.to_json(spec)) == spec
    assert Wheel not in list(registry.others())
    assert "Wheel" not in registry.names()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("error", [KeyError("k"), TypeError("t"), IndexError("i"), AttributeError])
def test_whatever_a_class_of_others_raises_is_told_of_the_text(error: Any) -> None:
    @posenc.register
    @dataclass(frozen=True)
    class Fragile(Body):
        heads: int

        def check(self) -> None:
            if self.heads > 4:
                raise error

    assert posenc.from_json('{"type": "Fragile", "heads": 4}') == Fragile(4)
    with pytest.raises(SpecError, match=f"Fragile: expected.*heads.*{type(error).__name__}|Attrib"):
        posenc.from_json('{"type": "Fragile", "heads": 5}')


def test_rows_of_another_shape_than_that_of_positions_are_refused() -> None:
    """Else the axis of coordinates stands in every result."""

    @dataclass(frozen=True)
    class Wave(api.TableSpec):
        dim: int

        def rows(self, positions: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
            angle = api.astype(positions[:, None], dtype, xp)  # as if they were (seq,)
            return xp.sin(angle / xp.arange(1, self.dim + 1))

    with pytest.raises(posenc.ArgumentError, match=r"\(4, 1, 8\) of \(4, 1\).*\[\.\.\., 0\]"):
        posenc.table(Wave(8), 4)


def test_an_author_needs_no_private_name() -> None:
    """Neither the package of the tests nor the recipes import what is underscored."""
    for path in (ROOT / "tests" / "core" / "acme_positions.py", ROOT / "docs" / "adding.md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        imports = [
            line for line in lines if line.lstrip().startswith(("from posenc", "import posenc"))
        ]
        assert imports
        assert not [
            line for line in imports if "._" in line or " _" in line.partition(" import")[2]
        ]
    assert not [name for name in api.__all__ if name.startswith("_")]


# --- the recipes of the page ----------------------------------------------------------------------

PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")


def part(pattern: str) -> str:
    """What the page has at the only place of a pattern."""
    [text] = re.findall(pattern, PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


CLASS = part(r"^```python\n(from dataclasses.*?)^```$")


@pytest.mark.costly
def test_the_recipe_from_outside_is_enough(tmp_path: Path) -> None:
    """The class of the page in a module, its lines of `pyproject.toml` in the metadata."""
    settings = tomllib.loads(part(r"^```toml\n(.*?)^```$"))
    points = settings["project"]["entry-points"][registry.GROUP]
    module = points["Clock"].partition(":")[0]
    install(tmp_path, "my-clocks", points, **{module: CLASS})
    code = "import posenc; pe = posenc.from_json(text)\nprint(pe, posenc.table(pe, 4).shape)"
    text = '{"type": "Clock", "dim": 4, "hours": 24}'
    assert run(tmp_path, "-c", f"text = {text!r}\n{code}") == "Clock(4, hours=24) (4, 4)\n"


def insert(path: Path, before: str, lines: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, before
    path.write_text(text.replace(before, lines + before), encoding="utf-8")


@pytest.mark.slow("_names.py", "encodings/api.py", "_core/spec/checks.py", release=True)
def test_the_recipe_inside_is_enough(tmp_path: Path) -> None:
    """Four files, five edits, on a copy; the tests of the encoding and those that miss one pass."""
    kept = ["src", "tests", "tools", "docs", "benchmarks", "study", "pyproject.toml", "*.md"]
    listed = subprocess.run(
        ["git", "ls-files", *kept], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for name in listed.stdout.split("\n")[:-1]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    oracle = part(r"^   ```python\n   from mpmath import mp\n\n\n(.*?)^   ```$")
    row, line = part(r"row: `(Case\([^`]*,)`"), part(r"^   `(\"Clock\": [^`]*)`$")
    head, tail = CLASS.split("\n\n\n", 1)
    first = f'"""A clock."""\n\nfrom __future__ import annotations\n\n{head}\n\n__all__ = ["Clock"]'
    target = tmp_path / "src/posenc/encodings/table/clock.py"
    target.write_text(f"{first}\n\n\n{tail}")
    insert(tmp_path / "src/posenc/_names.py", '    "Summed": "posenc', f"    {line}\n")
    with (tmp_path / "tests/oracles/table.py").open("a") as file:
        file.write(f"\n\n{textwrap.dedent(oracle)}")
    insert(tmp_path / "tests/cases.py", "    Concatenated,\n    Fourier,", "    Clock,\n")
    cases = tmp_path / "tests/cases.py"
    start = "INTEGER_TABLES = (\n"
    cases.write_text(cases.read_text().replace(start, f"{start}    {row}\n"))
    folders = (tmp_path / "src", tmp_path / "study" / "src")
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}

    def passes(*words: str) -> None:
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=path,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    passes("tools/generate.py")
    passes("-m", "ruff", "check", "src/posenc/encodings", "tests/cases.py", "tests/oracles")
    tests = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
    passes(*tests, "tests/encodings/test_cases.py", "-k", "clock or every_encoding or distinct")
    passes(*tests, "tests/study/test_model.py", "tests/core/test_spec.py", "-k", "registry")
    passes("-c", "import posenc; from tools.pages import pages; pages.page_of(posenc.Clock)")


@pytest.mark.usefixtures("alone")
def test_numbers_that_two_encodings_give_are_claimed_of_neither() -> None:
    """Rows that bend as squares do, from two classes."""

    class Square(api.BiasSpec):
        def score(self, q: Any, k: Any, head: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
            return -xp.astype(api.distance(q, k) ** 2, dtype) / (head + 1)

    for name in ("First", "Second"):
        kind = make_dataclass(name, [("heads", int)], bases=(Square,), frozen=True)
        posenc.register(kind)
        [finding] = posenc.identify({"relative_attention_bias": posenc.bias(kind(4), 40)})
        if name == "First":
            assert (finding.verdict, finding.spec) == ("claimed", kind(4))
    assert finding.verdict == "unclear"
    assert any("gives it too" in remark for remark in finding.remarks)

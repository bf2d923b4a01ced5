"""The battery: the good pass, every law can fail, and peers show the defects known of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pytest
from click.testing import CliRunner

import posenc
import posenc.torch
from posenc import testing
from posenc.cli._app import app
from posenc.encodings import api
from posenc.testing.peers import PEERS, peer
from tests.project import mutants

GOOD = {
    "rotary": mutants.rotary,
    "table": mutants.table,
    "grid": lambda: mutants.table(mutants.GoodGrid, axes=2),
    "bias": mutants.bias,
}
LAWS = {(kind, law.name) for kind in ("rotary", "table", "bias") for law in testing.laws(kind)}  # type: ignore[arg-type]
# Of the law of calls there is a mutant for each kind of call: "calls: padding".
EVERY = sorted({*mutants.MUTANTS} | {row for row in LAWS if row[1] != "calls"})
UNSEEN = {"spec", "far"}  # right by itself, whatever the spec says


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.costly
def test_a_good_implementation_passes(kind: str) -> None:
    card = testing.check(GOOD[kind]())
    assert card.passed, "\n".join(card.lines())
    # A law that is not offered proves nothing; only these ask for what these subjects lack.
    silent = {r.law for r in card.results if r.status == "not offered"}
    grid = {"calls", *(f"near 2^{n}" for n in (17, 20, 24, 31))}
    assert silent <= (grid if kind == "grid" else {"axes", "grid"})


@pytest.mark.parametrize(("kind", "law"), EVERY)
def test_every_law_can_fail(kind: str, law: str) -> None:
    mutant = mutants.MUTANTS.get((kind, law))
    assert mutant is not None, (
        f"the law {law!r} has no mutant of kind {kind!r}: add one to tests/project/mutants.py, "
        "an implementation that breaks this law, and is otherwise right"
    )
    name, _, what = law.partition(": ")
    for fields in ({}, {"spec": None}) if what and what not in UNSEEN else ({},):
        result = testing.check(mutant(**fields), laws=[name])[name]
        assert result.status == "fail", (result, fields)
        assert result.says


# What takes the most time and is not what the faults below are caught by.
SLOW_LAWS = {"compile", "export"}


@pytest.mark.parametrize("name", mutants.HIDDEN)
def test_faults_that_hide_are_found(name: str) -> None:
    make, law, _ = mutants.HIDDEN[name]
    result = testing.check(make(), laws=[law])[law]
    assert result.status == "fail", result


@pytest.mark.slow("testing")
@pytest.mark.parametrize("name", [name for name, row in mutants.HIDDEN.items() if row[2]])
def test_faults_that_hide_are_found_by_laws_alone(name: str) -> None:
    subject = mutants.HIDDEN[name][0](spec=None)
    tried = [law.name for law in testing.laws(subject.kind) if law.name not in SLOW_LAWS]
    # Until the first that fails.
    assert any(result.status == "fail" for result in testing.results(subject, tried))


def test_the_card_says_what_was_looked_at() -> None:
    subject = mutants.rotary()
    card = testing.check(subject, laws=["norm", "calls"])
    reach = posenc.ask(subject).survey(subject.spec).reach
    assert [line.strip() for line in card.lines()][-len(reach.lines()) :] == reach.lines()
    assert card.to_dict()["reach"]["heads"] == 33
    assert testing.check(subject, laws=["norm"]).reach is None


SPECS: list[Any] = [
    posenc.RoPE(64, pairing="half"),
    posenc.RoPE(64, pairing="interleaved", scaling=posenc.scaling.YaRN(8, original_length=4096)),
    posenc.RoPE(62, pairing="half", base=500_000),
    posenc.Sinusoidal(64),
    posenc.Sinusoidal(63, order="cos_sin"),
    posenc.Sinusoidal(
        48, arrangement=posenc.Arrangement(rule="axial", axes=("depth", "height", "width"))
    ),
    posenc.KERPLE(4),
    posenc.Sandwich(4, dim=16),
    posenc.ALiBi(12),
]


@pytest.mark.parametrize("target", [SPECS[0], testing.of_spec(SPECS[0]), lambda x, positions: x])
def test_an_option_that_nothing_reads_is_an_error(target: Any) -> None:
    with pytest.raises(posenc.KeywordError, match="check: expected known arguments, got lawz="):
        posenc.check(target, lawz=["shift"])


# JAX compiles each operation for each shape, so two specs stand for all there.
OWN = [
    *((library, spec) for library in ("torch", "numpy") for spec in SPECS),
    *(("jax", SPECS[i]) for i in (0, 6)),
]


def own(library: str, spec: Any) -> Any:
    """A row; the laws ask much of JAX, and of torch's compiler once for each kind."""
    often = library == "numpy" or (library == "torch" and spec in SPECS[::3])
    mark = () if often else pytest.mark.slow("testing", "functional", "_core")
    return pytest.param(library, spec, id=f"{library}-{type(spec).__name__}", marks=mark)


@pytest.mark.parametrize(("library", "spec"), [own(*row) for row in OWN])
@pytest.mark.costly
def test_our_own_pass(library: Any, spec: Any) -> None:
    card = testing.check(testing.of_spec(spec, library=library))
    assert card.passed, "\n".join(card.lines())
    # A law that a spec breaks is not held against it; of these, none is.
    assert not [r for r in card.results if r.says.startswith("no law of")]


@final
@dataclass(frozen=True)
class LogBias(api.BiasSpec):
    """A bias whose parameter has the name of a method of its module: -slopes[h] ln(1 + |m - n|)."""

    heads: int

    by_head: ClassVar = {"slopes": 0}

    def parameters(self) -> dict[str, api.Parameter]:
        return {"slopes": api.Parameter((self.heads,), api.Init("uniform", scale=1.0))}

    def score(self, q: Any, k: Any, head: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
        far = api.astype(xp.abs(api.distance(q, k)), dtype, xp)
        return -api.astype(api.lookup(constants["slopes"], head, xp=xp), dtype, xp) * xp.log1p(far)


def test_what_is_learned_may_have_any_name() -> None:
    laws = ["head counts", "calls", "empty memory", "checkpoint", "state dict", "pickle"]
    card = testing.check(LogBias(4), laws=laws)
    assert [r.status for r in card.results] == ["pass"] * len(laws), "\n".join(card.lines())
    module = posenc.torch.AttentionBias(LogBias(4), seed=0)
    assert [*module.state_dict()] == ["slopes"]
    params = posenc.init(LogBias(4))
    np.testing.assert_array_equal(
        module(5).detach().numpy(), posenc.bias(LogBias(4), 5, params=params)
    )


# What is known of these packages, found by the laws alone. PEERS -> laws that fail.
KNOWN = {
    "transformers-rotary": {
        *("near 2^20", "near 2^24", "near 2^31"), "cast", "empty memory", "checkpoint",
    },
    "rotary-embedding-torch": {
        *("near 2^20", "near 2^24", "near 2^31"), "calls",
        *("cast", "empty memory", "state dict", "compile"),
    },
    "x-transformers-rotary": {
        *("near 2^20", "near 2^24", "near 2^31"), "cast", "empty memory", "state dict",
    },
    "torchtune-rotary": {"negative", "empty memory", "checkpoint"},
    "torchembed-rotary": {"dtype", "empty memory", "checkpoint"},
    "timm-rotary": set(),
    "equinox-rotary": {"settings"},
    "transformers-dynamic": {
        *("near 2^17", "near 2^20", "near 2^24", "near 2^31"), "history", "calls",
        *("empty memory", "checkpoint", "compile", "export"),
    },
    "positional-encodings-1d": {"history of dtypes", "cast", "empty memory", "state dict"},
    "positional-encodings-2d": {"history of dtypes", "axes", "empty memory", "state dict"},
    "positional-encodings-3d": {"history of dtypes", "axes", "empty memory", "state dict"},
    "torchembed-table": {"empty memory", "checkpoint"},
    "x-transformers-table": {
        *("near 2^20", "near 2^24", "near 2^31"), "empty memory", "checkpoint",
    },
    "torchembed-bias": {"calls", "long", "empty memory", "checkpoint"},
    "attn-gym-bias": {"head counts"},
    "x-transformers-bias": {"empty memory", "checkpoint"},
}  # fmt: skip


@pytest.fixture
def settings_of_others() -> Iterator[None]:
    """JAX as it comes, for packages that were not written for strict settings."""
    try:
        import jax
    except ImportError:
        yield
        return
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.debug_nans(False),
    ):
        yield


# One of each kind is tried each time; between them they fail laws of each sort.
OFTEN = ("transformers-rotary", "positional-encodings-2d", "x-transformers-table", "attn-gym-bias")
# Each of these passes them, and they are most of the time of its battery.
PASSED = {"transformers-rotary": {"compile", "export", "history", "long"}}


@pytest.mark.usefixtures("settings_of_others")
@pytest.mark.parametrize(
    ("name", "left"),
    [
        *((name, PASSED.get(name, set())) for name in OFTEN),
        *(
            pytest.param(name, set(), marks=pytest.mark.slow("testing"))
            for name in PEERS
            if name not in OFTEN or name in PASSED
        ),
    ],
)
@pytest.mark.costly
def test_defects_of_peers_show_up(name: str, left: set[str]) -> None:
    try:
        subject = peer(name)
    except posenc.DependencyError as error:
        pytest.skip(str(error))
    tried = [law.name for law in testing.laws(subject.kind) if law.name not in left]
    card = testing.check(subject, laws=tried)
    assert {r.law for r in card.failures} == KNOWN[name], "\n".join(card.lines())


def test_an_exception_is_a_result() -> None:
    def call(*_: Any) -> Any:
        raise RuntimeError("no\nluck")

    card = testing.check(mutants.rotary(call=call), laws=["norm", "negative"])
    assert [r.status for r in card.results] == ["fail", "refused"]
    assert card["norm"].says == "it raises RuntimeError: no luck"
    assert not card.passed


@pytest.mark.costly
def test_what_cannot_be_asked_does_not_fail() -> None:
    card = testing.check(mutants.unasked())
    assert card.passed
    assert card["norm"].says == "it cannot be asked"
    with pytest.raises(KeyError):
        card["nrom"]


def test_a_library_that_is_not_there_is_no_fault() -> None:
    def call(*_: Any) -> Any:
        raise posenc.DependencyError("jax is not installed")

    result = testing.check(mutants.rotary(call=call), laws=["norm"])["norm"]
    assert result.status == "not offered"
    assert result.says == "not asked, because jax is not installed"


def test_nan_and_wrong_shapes_fail() -> None:
    nan = mutants.rotary(call=lambda made, x, positions: x * float("nan"))
    result = testing.check(nan, laws=["calls"])["calls"]
    assert result.measured == np.inf
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["measured"] == "infinity"

    def call(made: Any, x: Any, positions: Any) -> Any:
        away = positions.max() > 70_000
        return made(x, mutants.tensor_of(positions, x)) * float("nan" if away else 1)

    far = mutants.rotary(spec=None, call=call)
    says = testing.check(far, laws=["near 2^20"])["near 2^20"].says
    assert "nan, expected a number" in says
    cut = mutants.rotary(call=lambda made, x, positions: x[..., :-1])
    assert "shape" in testing.check(cut, laws=["norm"])["norm"].says


def test_the_card_shows_the_failing_input() -> None:
    text = "\n".join(testing.check(mutants.rotary(mutants.Absolute), laws=["negative"]).lines())
    assert "✗ negative" in text
    assert "positions [-1, -2, -3, -4]" in text
    assert "1 fail" in text


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"kind": "rotory"}, "kind"),
        ({"library": "tensorflow"}, "library"),
        ({"dim": 0}, "dim"),
    ],
)
def test_a_subject_refuses(fields: dict[str, Any], word: str) -> None:
    known: dict[str, Any] = {"kind": "rotary", "make": lambda: None, "call": lambda *_: None}
    with pytest.raises(posenc.ArgumentError, match=word):
        testing.Subject("mine", **{**known, **fields})


# --- adapt --------------------------------------------------------------------------------------


class Padded(mutants.GoodRotary):
    """(batch, seq, heads, dim), and positions by the name that others use."""

    def forward(self, x: Any, position_ids: Any) -> Any:
        return super().forward(x.transpose(1, 2), position_ids).transpose(1, 2)


class FromOffset(mutants.GoodRotary):
    def forward(self, x: Any, start_pos: int = 0) -> Any:
        import torch

        return super().forward(x, torch.arange(start_pos, start_pos + x.shape[-2]))


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({"history", "long", *SLOW_LAWS}, id="quick laws"),
        pytest.param(set(), id="all laws", marks=pytest.mark.slow("testing")),
    ],
)
@pytest.mark.costly
def test_adapt_finds_the_words(left: set[str]) -> None:
    laws = [law.name for law in testing.laws("rotary") if law.name not in left]
    rope = posenc.RoPE(16, pairing="half")
    other = testing.adapt(Padded, "rotary", dim=16, layout="bshd", spec=rope)
    card = testing.check(other, laws=laws)
    assert card.passed, "\n".join(card.lines())
    assert card["calls"].status == "pass"
    other = testing.adapt(FromOffset, "rotary", dim=16, spec=rope)
    card = testing.check(other, laws=laws)
    assert card.passed, "\n".join(card.lines())
    assert card["calls"].status == "pass"


@pytest.mark.costly
def test_adapt_of_tables_and_lengths() -> None:
    import torch

    class Adds(mutants.GoodTable):
        def __init__(self, d_model: int, max_len: int) -> None:
            super().__init__(d_model)
            self.longest = max_len

        def forward(self, x: Any) -> Any:  # type: ignore[override]
            rows = super().forward(torch.arange(x.shape[1]), x.dtype)
            return x + rows

    table = testing.adapt(
        Adds, "table", dim=16, arguments={"max_len": 9}, spec=posenc.Sinusoidal(16)
    )
    card = testing.check(table)
    assert card["calls"].status == "pass"
    assert table.build().longest == 9

    def lengths(q_len: int, k_len: int) -> Any:
        made = mutants.GoodBias(8)
        return made(torch.arange(k_len - q_len, k_len), torch.arange(k_len))

    card = testing.check(testing.adapt(lengths, "bias", spec=posenc.ALiBi(8)))
    assert card.passed, "\n".join(card.lines())
    assert card["calls"].status == "pass"
    with pytest.raises(posenc.ArgumentError, match="a function"):
        testing.adapt(3, "rotary")


# --- command and plugin -------------------------------------------------------------------------

MODULE = """
import numpy as np

def rotate(x, positions):
    "Half pairing, in the dtype of x throughout."
    dim = x.shape[-1]
    angle = positions[..., None, :, None].astype(x.dtype) * np.asarray(
        10000.0 ** (-np.arange(dim // 2) * 2 / dim), x.dtype)
    a, b = x[..., :dim // 2], x[..., dim // 2:]
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)

def subject():
    from posenc.testing import adapt
    return adapt(rotate, "rotary", library="numpy")

class Nested:
    rotate = staticmethod(rotate)
"""


def posenc_check(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *args])
    return done.exit_code, done.output


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "naive_rope.py"
    path.write_text(MODULE, encoding="utf-8")
    return str(path)


@pytest.mark.costly
def test_command(module: str) -> None:
    code, text = posenc_check(
        f"{module}:rotate", "--kind", "rotary", "--library", "numpy", "--laws", "calls,shift"
    )
    assert code == 1
    assert "✗ calls" in text
    assert "✓ shift" in text
    code, text = posenc_check(
        f"{module}:Nested.rotate", "--kind", "rotary", "--library", "numpy", "--laws", "shift,norm"
    )
    assert code == 0, text
    spec = '{"type": "RoPE", "dim": 64, "pairing": "interleaved"}'
    code, text = posenc_check(
        *(f"{module}:rotate", "--kind", "rotary", "--library", "numpy", "--laws", "calls"),
        *("--spec", spec, "--json"),
    )
    assert code == 1
    (result,) = json.loads(text)["results"]
    assert result["status"] == "fail"
    assert result["says"].startswith("smallest call: one token at position 1")


def test_command_on_specs_and_peers() -> None:
    assert posenc_check('{"type": "ALiBi", "heads": 12}')[0] == 0
    code, text = posenc_check("peer:attn-gym-bias", "--laws", "head counts,shift")
    if "pip install" not in text:
        assert code == 1
        assert "✗ head counts" in text
    code, text = posenc_check("--list")
    assert code == 0
    assert "gradient" in text
    assert "torchtune" in text
    assert set(json.loads(posenc_check("--list", "--json")[1])) == {"laws", "peers"}


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ((), 2, "TARGET"),
        (("rotate",), 2, "MODULE:NAME"),
        (("rotate:", "--kind", "rotary"), 2, "MODULE:NAME"),
        ((":rotate", "--kind", "rotary"), 2, "MODULE:NAME"),
        (("no_such_module_here:rotate", "--kind", "rotary"), 2, "no module"),
        (("no/such/file.py:rotate", "--kind", "rotary"), 2, "not there"),
        (("posenc:RoPEE", "--kind", "rotary"), 2, "RoPE"),
        (("posenc:table",), 2, "no answer"),
        (("posenc:table", "--kind", "rotery"), 2, "rotary"),
        (("posenc:table", "--kind", "table", "--args", "["), 2, "JSON"),
        (("posenc:table", "--kind", "table", "--args", "[" * 100_000), 2, "a text of settings"),
        (("posenc:table", "--kind", "table", "--args", "3"), 2, "object"),
        (("posenc:__version__", "--kind", "table"), 2, "expected code, got a text"),
        (("peer:torchtunes",), 2, "torchtune"),
        (('{"type": "ALiBi"}',), 2, "heads"),
        (('{"type": "Ladder"}',), 2, "no encoding"),
        (('{"type": "ALiBi", "heads": 4}', "--laws", "shfit"), 2, "shift"),
        (('{"type": "Shaw", "dim": 4, "clip": 2}',), 2, "rotation"),
    ],
)
def test_command_refuses(args: tuple[str, ...], code: int, word: str) -> None:
    found, text = posenc_check(*args)
    assert found == code, text
    assert word in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("naive_rope.py:subject", 1, ["calls"]),
        ("posenc:RoPE", 4, []),
        pytest.param("naive_rope.py:nothing", 4, ["nothing"], marks=pytest.mark.slow("testing")),
    ],
)
@pytest.mark.costly
def test_pytest_plugin(module: str, target: str, code: int, words: list[str]) -> None:
    # By the file, whether or not an installation has registered it.
    plugin = ["-p", "no:posenc", "-p", "posenc.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, "-q"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--posenc", target, "--rootdir", "."],
        cwd=Path(module).parent,
        env={**os.environ, "PYTHONPATH": str(Path(posenc.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    if code == 1:
        assert " failed, " in done.stdout
        assert "smallest call: " in done.stdout


@pytest.mark.costly
def test_the_plugin_imports_nothing_until_asked() -> None:
    code = (
        "import sys, posenc.testing.pytest_plugin\n"
        "print([m for m in ('numpy', 'torch', 'posenc.testing.battery') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

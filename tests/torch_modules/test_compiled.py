# ruff: noqa: E402 - torch may be absent, and is asked for first
"""Compiled whole, in processes in which nothing ran before; what is imported; where modules are."""

from __future__ import annotations

import copy
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from benchmarks.rows import latest
from torch import nn

import posenc
from posenc.torch import AttentionBias, PositionTable, RelativeAttention, RotaryEmbedding
from tests.tolerances import assert_close
from tests.torch_modules import compiled

pytestmark = [
    pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]

QUICK = ("rotate, LongRoPE, length a number",)


def run(*arguments: str) -> str:
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_rows(*names: str) -> None:
    """Bits of eager mode, no break, and as many graphs as the documentation says."""
    told = {row["row"]: row["graphs"] for row in latest("graphs")}
    names = names or tuple(compiled.ROWS)
    lines = run("-m", "tests.torch_modules.compiled", *compiled.ROADS, *names).splitlines()
    first, rows = lines[: len(compiled.ROADS)], lines[len(compiled.ROADS) :]
    assert list(map(json.loads, first)) == [{"row": r, "same": True} for r in compiled.ROADS]
    found = {row["row"]: row for row in map(json.loads, rows)}
    assert list(found) == list(names)
    for name, row in found.items():
        assert row == {"row": name, "graphs": told[name], "breaks": [], "same": True}


@pytest.mark.costly
def test_rows_compile_whole_in_a_new_process() -> None:
    check_rows(*QUICK)


@pytest.mark.slow("_core", "functional", "torch")
def test_all_rows_compile_whole_in_new_processes() -> None:
    check_rows()
    assert [row["row"] for row in latest("graphs")] == list(compiled.ROWS)


WITHOUT_DYNAMO = """
import sys
from tests.torch_modules import compiled
loaded = [name for name in sys.modules if name.startswith("torch._dynamo")]
assert not loaded, loaded
for name, make in compiled.ROWS.items():
    function, arguments = make()
    function(*arguments(7))
    if name == "rotate":
        x = compiled.q(7).requires_grad_()
        function(x).sum().backward()
    loaded = [each for each in sys.modules if each.startswith("torch._dynamo")]
    assert not loaded, (name, loaded[:3])
"""


@pytest.mark.costly
def test_no_verb_imports_dynamo() -> None:
    run("-c", WITHOUT_DYNAMO)


def test_our_mark_is_that_of_torch() -> None:
    """`outside` sets what torch's own decorator sets, without its import."""
    from posenc._core.tracing import outside

    def ours() -> None: ...
    def theirs() -> None: ...

    assert vars(outside(ours)) == vars(torch.compiler.assume_constant_result(theirs))


# --- lengths --------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    ("phase", "at", "library"),
    [
        *(("exact", "cos_sin", "torch"), ("float32", "softmax", "torch")),
        *(("real", "cos_sin", "torch"), ("exact", "softmax", "jax")),
    ],
)
def test_a_length_whose_value_is_not_known(phase: str, at: Any, library: str) -> None:
    """Under a tracer both sets of frequencies are formed, and the bits are those of the number."""
    spec = compiled.longrope().replace(
        phase=phase,
        magnitude=posenc.RotaryMagnitude(at=at),
        arrangement=posenc.Arrangement(start=2),
    )
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")

    def verbs(length: Any, xp: Any, x: Any) -> tuple[Any, ...]:
        return (
            posenc.rotate(spec, x, length=length, kernel="reference"),
            *posenc.cos_sin(spec, 4, length=length, xp=xp, kernel="reference"),
            posenc.relative_score(spec, x[0, 0], x[0, 1], [0, 3], length=length),
            posenc.logit_scale(spec, length=length, xp=xp),
        )

    if library == "torch":
        from torch.fx.experimental.proxy_tensor import make_fx

        y = torch.from_numpy(x)
        traced = make_fx(lambda n: verbs(n, torch, y))(torch.tensor(5))
        for n in (5, 64, 65, 10**6):
            for got, want in zip(traced(torch.tensor(n)), verbs(n, torch, y), strict=True):
                assert torch.equal(torch.as_tensor(got), torch.as_tensor(want, dtype=torch.float32))
    else:
        jax = pytest.importorskip("jax", reason="JAX is not installed")
        y = jax.numpy.asarray(x)
        jitted = jax.jit(lambda n: verbs(n, jax.numpy, y))
        for n in (5, 64, 65, 10**6):
            # XLA orders sums and products as it likes, with a number too.
            want = jax.jit(lambda n=n: verbs(n, jax.numpy, y))()
            for a, b in zip(jitted(n), want, strict=True):
                assert_close(np.asarray(a), np.asarray(b, np.float32), 1e-6)


def test_lengths_that_are_refused() -> None:
    x, spec = torch.zeros(5, 8), compiled.longrope()
    for length, message in (
        (torch.tensor([3]), r"one number, of shape \(\), got shape \(1,\)"),
        (torch.tensor(3.0), "an integer, got float32"),
        (torch.tensor(0), "at least 1, got 0"),
        (np.int64(-3), "at least 1, got -3"),
    ):
        with pytest.raises(posenc.PosencError, match=message):
            posenc.rotate(spec, x, length=length)
    with pytest.raises(posenc.ArgumentError, match="at: length: expected a number, got Tensor"):
        spec.at(torch.tensor(3))
    want = posenc.rotate(compiled.dynamic(), x + 1, length=40)
    assert torch.equal(posenc.rotate(compiled.dynamic(), x + 1, length=torch.tensor(40)), want)

    def call(kernel: Any, spec: Any) -> Any:
        return torch.vmap(lambda n: posenc.rotate(spec, x, length=n, kernel=kernel))

    with pytest.raises(posenc.ArgumentError, match="each length beyond 16 has frequencies of its"):
        call("auto", compiled.dynamic())(torch.tensor([5, 70]))
    with pytest.raises(
        posenc.ArgumentError, match="kernel='cpu'.* a length whose value is not known"
    ):
        call("cpu", spec)(torch.tensor([5, 70]))
    rows = call("auto", spec)(torch.tensor([5, 70]))
    assert torch.equal(rows, torch.stack([posenc.rotate(spec, x, length=n) for n in (5, 70)]))


@pytest.mark.costly
def test_errors_of_specs_made_inside() -> None:
    """They are raised where the traced code stands, so that it can catch them."""

    def caught(x: torch.Tensor) -> torch.Tensor:
        try:
            posenc.RoPE(7, pairing="half")
        except posenc.SpecError:
            return x + 1
        return x

    x = torch.ones(2)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(caught, fullgraph=True, backend="eager")(x), x + 1)
    for full, kind in ((True, torch._dynamo.exc.Unsupported), (False, posenc.SpecError)):
        torch._dynamo.reset()
        wrong = torch.compile(lambda _: posenc.Pairing("haf"), fullgraph=full, backend="eager")
        with pytest.raises(kind, match="Did you mean 'half'"):
            wrong(x)


# --- where a module is ----------------------------------------------------------------------------


def test_a_module_without_parameters_remembers_its_device() -> None:
    bias = AttentionBias(posenc.ALiBi(4))
    whole = nn.Sequential(bias)

    def devices(module: AttentionBias) -> set[str]:
        zero = torch.zeros(1, dtype=torch.int64, device=module(2).device)
        entry = module.score_mod()(zero + 0.5, zero, zero, zero, zero)
        return {
            str(each.device) for each in (module(3), module(range(3), 5), module.slopes(), entry)
        }

    assert devices(bias) == {"cpu"}
    whole.to("meta")
    assert devices(bias) == {"meta"}
    assert bias(torch.arange(3)).device.type == "cpu"  # positions say where
    assert bias(3, device=torch.device("cpu")).device.type == "cpu"
    file = io.BytesIO()
    torch.save(whole, file)
    file.seek(0)
    for twin in (
        copy.deepcopy(whole),
        pickle.loads(pickle.dumps(whole)),
        torch.load(file, weights_only=False),
        whole.half(),
    ):
        assert devices(twin[0]) == {"meta"}
        assert dict(twin.state_dict()) == {}
        assert not list(twin.buffers())
    assert devices(whole.to("cpu")[0]) == {"cpu"}
    assert devices(whole.to("meta").to_empty(device="cpu")[0]) == {"cpu"}
    with torch.device("meta"):
        made = AttentionBias(posenc.ALiBi(4))
    assert devices(made) == {"cpu"}  # loaders fill parameters and move nothing else
    file.seek(0)
    assert torch.equal(AttentionBias(posenc.ALiBi(4)).share_memory()(3), made(3))


TRACED = {
    "bias": (AttentionBias, posenc.ALiBi(4), lambda n: (torch.arange(n),)),
    "learned bias": (AttentionBias, posenc.T5(4), lambda n: (torch.arange(n), torch.arange(n))),
    "table": (PositionTable, posenc.Sinusoidal(8), lambda n: (compiled.x(n),)),
    "rotary": (RotaryEmbedding, compiled.rope(), lambda n: (compiled.q(n), compiled.q(n))),
    "relative": (RelativeAttention, posenc.Shaw(8, clip=2), lambda n: (compiled.q(n),) * 2),
}


class Added(nn.Module):
    """A bias that is asked by the length of an input, which `torch.jit.trace` makes a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = AttentionBias(posenc.ALiBi(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias(x.shape[-1])


@pytest.mark.parametrize("name", [*TRACED, "by length"])
def test_traced_by_jit(name: str) -> None:
    if name == "by length":
        module: Any = Added()
        given: Any = lambda n: (torch.ones(n),)  # noqa: E731
    else:
        kind, spec, given = TRACED[name]
        module = kind(spec.replace())  # nothing is known of its constants yet
    program = torch.jit.trace(module, given(5))
    for n in (5, 9):
        got, want = program(*given(n)), module(*given(n))
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        assert all(torch.equal(a, b) for a, b in pairs)


def test_the_page_has_every_row() -> None:
    from tools.pages import shelf

    text = shelf.whole(Path(__file__).parents[2] / "docs" / "compile.md")
    assert all(f"| {row['row'].replace('|', '')} |" in text for row in latest("graphs"))


@pytest.mark.slow("_core", "encodings/rotary", "functional")
def test_xpos_compiled_is_near_and_need_not_be_equal() -> None:
    """Its power is formed in another order: as docs/compile.md states, of each row's largest."""
    spec = posenc.XPos(64, pairing="half")
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 64, 64), dtype=np.float32))
    rotate = torch.compile(lambda x, p: posenc.rotate(spec, x, positions=p), fullgraph=True)
    for start in (0, 1000, 20_000):
        positions = torch.arange(start, start + 64)
        eager = posenc.rotate(spec, x, positions=positions)
        largest = eager.abs().amax(-1, keepdim=True)
        assert ((rotate(x, positions) - eager).abs() / largest).max() <= 5e-7

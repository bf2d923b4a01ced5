# ruff: noqa: E402 - torch may be absent, and is asked for first
"""What Inductor's C++ computes, beside eager code: tables in one function, and flex attention.

Tests of numbers hold eager code to its bounds, and the bits here are those of eager code.

Its compiler takes seconds for each function, and those of phases 40, so slow tests compile these.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import numpy as np
from torch import Tensor

import posenc
from posenc import Arrangement, Init, Ladder, Learned, Magnitude, Sinusoidal
from posenc.torch import PositionTable
from tests.numeric.test_phase import COMPILED, sample_positions
from tests.numeric.test_real import PLAIN, swept
from tests.torch_modules.test_scores import BY_INDUCTOR, flex_equals_dense

# Inductor asks for `torch.jit`, which torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

TABLE = Sinusoidal(
    8,
    order="sin_cos",
    ladder=Ladder(denominator="n-1"),
    arrangement=Arrangement(start=2, pad=1),
    magnitude=Magnitude(embedding_scale="sqrt_dim", table_scale=0.5),
)
LEARNED = Learned(8, length=12, start=2, pad=1, init=Init(scale=1.0))
OUTSIDE = (-2, 12, 2**40)  # the pad row is at -1


def bits(got: Tensor, want: Tensor) -> None:
    """Raise unless dtype, shape and every bit agree; NaN agrees with NaN."""
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.fixture
def inductor() -> Iterator[None]:
    """Its compiler in this process: a pool of them starts slowly."""
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    with inductor.patch(compile_threads=1):
        yield


def looked_at(length: int) -> tuple[Tensor, Tensor]:
    """Positions in a learned table and beyond it, and which are inside."""
    where = torch.arange(length) % 13 - 1
    where[2:5] = torch.tensor(OUTSIDE)
    return where, (where >= -1) & (where < 12)


@pytest.mark.costly
@pytest.mark.usefixtures("inductor")
def test_what_it_compiles() -> None:
    """In one test, as its compiler takes seconds to start in a process."""
    learned = PositionTable(LEARNED).eval()
    compiled = torch.compile(learned, fullgraph=True, dynamic=True)
    for length in (1030, 1029, 130):
        x, (where, inside) = torch.randn(2, length, 8), looked_at(length)
        with torch.no_grad():
            looked_up = compiled(x, positions=where)
            bits(looked_up[:, inside], learned(x[:, inside], positions=where[inside]))
            assert looked_up[:, ~inside].isnan().all()
    flex_equals_dense(BY_INDUCTOR, "inductor", torch.arange(32, 160), torch.arange(160))


@pytest.mark.slow("_core", "functional", "torch", "encodings/table")
@pytest.mark.usefixtures("inductor")
def test_tables_in_one_function() -> None:
    """Any length, far positions, real ones, and lookups beyond a learned table, which are NaN."""
    table, learned = PositionTable(TABLE).eval(), PositionTable(LEARNED).eval()

    def model(
        x: Tensor, where: Tensor, offset: int, far: Tensor, real: Tensor
    ) -> tuple[Tensor, ...]:
        added = table(x, offset=offset), learned(x, positions=where), learned(x)
        return *added, posenc.table(COMPILED, far), posenc.table(PLAIN, real)

    # One frame for all lengths and offsets.
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    generator = torch.Generator().manual_seed(2)
    real = torch.tensor(swept(np.float64))
    for length, offset in ((1030, 2**31 - 515), (1029, 2**40), (130, 4), (130, -77)):
        far = torch.tensor(sample_positions(64) * (length // 65)) + torch.arange(
            17 * (length // 65)
        )
        x = torch.randn(2, length, 8, generator=generator)
        where, inside = looked_at(length)
        with torch.no_grad():
            added, looked_up, counted, turned, waves = compiled(x, where, offset, far, real)
            bits(added, table(x, offset=offset))
            bits(looked_up[:, inside], learned(x[:, inside], positions=where[inside]))
            assert looked_up[:, ~inside].isnan().all()
            bits(counted[:, :12], learned(x[:, :12]))
            bits(turned, posenc.table(COMPILED, far))
            bits(turned, torch.from_numpy(posenc.table(COMPILED, far.numpy())))
            bits(waves, posenc.table(PLAIN, real))
            assert counted[:, 12:].isnan().all()

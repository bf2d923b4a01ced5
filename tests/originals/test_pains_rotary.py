# ruff: noqa: E402 - torch may be absent, and is asked for first
"""What users of rotary embeddings suffer elsewhere, row by row, and cannot suffer here.

The numbers are those of the project's table of recurring requests and bugs. Each test makes the
situation of its row and shows what happens in it.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import posenc
from posenc import Arrangement, Pairing, RoPE, RotaryMagnitude, XPos, positions, scaling as s
from posenc.torch import RotaryEmbedding
from tests.oracles import rotary as oracle
from tests.tolerances import assert_close

ROPE = RoPE(16, pairing="half")
GENERATOR = torch.Generator().manual_seed(0)
Q = torch.randn(2, 3, 6, 16, generator=GENERATOR)


def exact(position: int) -> np.ndarray:
    return np.array(oracle.cos_sin(position, oracle.ladder(16)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_pain_1_positions_and_frequencies_in_half_precision(dtype: torch.dtype) -> None:
    """At 257, 4,097 and a million in every dtype, also after a cast of the module."""
    module = RotaryEmbedding(ROPE).to(dtype)
    ones = torch.zeros(1, 1, 1, 16, dtype=dtype)
    ones[..., :8] = 1
    for p in (257, 4_097, 10**6, 2**31 - 1):
        turned, _ = module(ones, ones, torch.tensor([p]))
        error = np.abs(turned.double().numpy()[0, 0, 0].reshape(2, 8) - exact(p)).max()
        assert error <= {8: 1e-9, 4: 2e-7}.get(dtype.itemsize, 2.0**-9)
    for a, b in (
        (256, 257),
        (2048, 2049),
        (10**6, 10**6 + 1),
    ):  # merged by half precision elsewhere
        cos, _ = posenc.cos_sin(ROPE, torch.tensor([a, b]))
        assert not torch.equal(cos[0], cos[1])


def test_pain_3_pairing_is_required_stored_and_named() -> None:
    with pytest.raises(TypeError, match="pairing"):
        RoPE(16)  # type: ignore[call-arg]
    with pytest.raises(posenc.SpecError, match="pairing"):
        posenc.from_json('{"type": "RoPE", "dim": 16}')
    assert '"order": "interleaved"' in posenc.to_json(RoPE(16, pairing="interleaved"))
    half, other = (posenc.rotate(RoPE(16, pairing=p), Q) for p in ("half", "interleaved"))
    assert (half - other).abs().max() > 1
    # One is the other after a permutation of channels, which is what converters apply to weights.
    order = [c for pair in Pairing("half").channels(16) for c in pair]
    assert_close(
        posenc.rotate(RoPE(16, pairing="interleaved"), Q[..., order]).numpy(),
        half[..., order].numpy(),
        0,
    )


def test_pain_4_meta_devices_lose_nothing() -> None:
    with torch.device("meta"):
        module = RotaryEmbedding(RoPE(16, pairing="half", scaling=s.YaRN(4, original_length=64)))
    module = module.to_empty(device="cpu")
    assert not list(module.buffers())
    want = posenc.rotate(module.spec, Q)
    assert torch.equal(module(Q, Q)[0], want)


def test_pain_5_a_left_padded_row_is_the_row_alone() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    turned, _ = RotaryEmbedding(ROPE)(Q, Q, positions.from_mask(mask))
    alone, _ = RotaryEmbedding(ROPE)(Q[:1, :, 2:], Q[:1, :, 2:])
    assert torch.equal(turned[:1, :, 2:], alone)


def test_pain_8_the_magnitude_acts_once_and_where_it_is_said() -> None:
    scaling = s.YaRN(40, original_length=4096)
    m = scaling.attention_factor()
    for at, on_tables, on_logits in (("cos_sin", m, 1), ("softmax", 1, m**2), ("none", 1, 1)):
        spec = RoPE(16, pairing="half", scaling=scaling, magnitude=RotaryMagnitude(at=at))  # type: ignore[arg-type]
        cos, _ = posenc.cos_sin(spec, [0], dtype="float64")
        assert_close(cos, np.full((1, 8), on_tables), 1e-15, at)
        assert posenc.logit_scale(spec) == pytest.approx(on_logits, rel=1e-14)
        rotated = posenc.rotate(spec, Q.double(), offset=3).norm() / Q.double().norm()
        assert float(rotated) == pytest.approx(on_tables, rel=1e-12)


def test_pain_9_ranges_of_yarn_are_validated() -> None:
    with pytest.raises(TypeError, match="original_length"):
        s.YaRN(4)  # type: ignore[call-arg]
    with pytest.raises(posenc.SpecError, match="factor.*at least 1"):
        s.YaRN(0.25, original_length=4096)
    with pytest.raises(posenc.SpecError, match="beta_slow < beta_fast"):
        s.YaRN(4, original_length=4096, beta_fast=1, beta_slow=32)
    rounded, plain = (
        posenc.frequencies(
            RoPE(64, pairing="half", scaling=s.YaRN(32, original_length=4096, rounding=rounding))  # type: ignore[arg-type]
        )
        for rounding in ("outward", "none")
    )
    assert np.abs(rounded / plain - 1).max() > 1e-3
    # The two ends: the fastest pair is kept, the slowest is divided by the factor.
    assert rounded[0] == 1
    assert rounded[-1] * 32 == pytest.approx(1e4 ** (-62 / 64), rel=1e-14)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_pain_10_scalings_that_depend_on_the_length(kind: str) -> None:
    """A pure function of an explicit length: no history, and exact moves of cached keys."""
    scaling: Any = (
        s.DynamicNTK(4, original_length=32)
        if kind == "dynamic"
        else s.LongRoPE((1.0,) * 8, (1.0, 2, 3, 4, 5, 6, 7, 8), original_length=32)
    )
    spec = RoPE(16, pairing="half", scaling=scaling)
    with pytest.raises(posenc.ArgumentError, match="length"):
        posenc.rotate(spec, Q)
    first = posenc.rotate(spec, Q, length=30)
    long = posenc.rotate(spec, Q, length=100)
    assert torch.equal(posenc.rotate(spec, Q, length=30), first)  # after a longer call
    assert (first - long).abs().max() > 0.1
    ids = torch.arange(6)
    moved = posenc.rerotate(spec.at(30), first, ids, ids, spec.at(100))
    assert_close(moved.numpy(), long.numpy(), 1e-6)


def test_pain_11_positions_are_used_and_packing_is_built_in() -> None:
    ids = torch.tensor([5, 4, 3, 2, 1, 0])
    module = RotaryEmbedding(ROPE)
    assert not torch.equal(module(Q, Q, ids)[0], module(Q, Q)[0])
    assert torch.equal(module(Q, Q, ids)[0].flip(2), module(Q.flip(2), Q.flip(2))[0])
    packed = module(Q, Q, cu_seqlens=torch.tensor([0, 4, 6]))[0]
    assert torch.equal(packed[:, :, 4:], module(Q[:, :, 4:], Q[:, :, 4:])[0])


def test_pain_12_axes_are_data_and_text_alone_is_rope() -> None:
    for rule in ("sections", "cyclic", "alternate"):
        arrangement = Arrangement(rule=rule, axes=("t", "h", "w"), sizes=(2, 3, 3))  # type: ignore[arg-type]
        spec = RoPE(16, pairing="half", arrangement=arrangement)
        text = positions.multimodal([6], start=10, xp=torch)
        assert torch.equal(
            posenc.rotate(spec, Q, positions=text), posenc.rotate(ROPE, Q, offset=10)
        )
        image = positions.multimodal([1, (1, 1, 5)], xp=torch)
        assert not torch.equal(posenc.rotate(spec, Q, positions=image), posenc.rotate(ROPE, Q))
    with pytest.raises(posenc.SpecError, match="add up to 9"):
        RoPE(
            16,
            pairing="half",
            arrangement=Arrangement(rule="sections", axes=("t", "h", "w"), sizes=(3, 3, 3)),
        )


def test_pain_13_signatures_that_people_can_rely_on() -> None:
    """What is promised: the width first, everything else by name, and the names of others."""
    import inspect

    parameters = list(inspect.signature(RoPE).parameters.values())
    assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == ["dim"]
    assert {"pairing", "base", "scaling"} <= {p.name for p in parameters}
    forward = inspect.signature(RotaryEmbedding.forward).parameters
    assert list(forward)[1:4] == ["q", "k", "positions"]
    assert {"offset", "cu_seqlens", "cos_sin", "position_ids"} <= set(forward)
    ids = torch.arange(3, 3 + Q.shape[-2])
    want = RotaryEmbedding(ROPE)(Q, Q, ids)
    cos_sin = posenc.cos_sin(ROPE, ids)
    for got in (
        RotaryEmbedding(ROPE)(Q, Q, position_ids=ids),
        RotaryEmbedding(ROPE)(Q, Q, offset=3),
        RotaryEmbedding(ROPE)(Q, Q, cos_sin=cos_sin),
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("part", ["leading", "trailing"])
def test_pain_14_partial_rotation_leaves_the_rest_alone(part: str) -> None:
    spec = RoPE(4, pairing=Pairing("half", part=part))  # type: ignore[arg-type]
    y = posenc.rotate(spec, Q, offset=9)
    still, turned = (
        (slice(4, 16), slice(0, 4)) if part == "leading" else (slice(0, 12), slice(12, 16))
    )
    assert torch.equal(y[..., still], Q[..., still])
    assert torch.equal(
        y[..., turned], posenc.rotate(RoPE(4, pairing="half"), Q[..., turned], offset=9)
    )
    with pytest.raises(posenc.ArgumentError, match="at least 4 channels"):
        posenc.rotate(spec, Q[..., :2])


def test_pain_15_nothing_of_it_in_checkpoints() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), RotaryEmbedding(ROPE))
    model[1](Q, Q)
    assert set(model.state_dict()) == {"0.weight", "0.bias"}
    model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, strict=True)


def test_pain_15_stale_frequencies_are_dropped_and_compared() -> None:
    module = RotaryEmbedding(ROPE)
    frequencies = torch.tensor(posenc.frequencies(ROPE)).float()
    for stored in (frequencies, frequencies.bfloat16()):
        module.load_state_dict({"inv_freq": stored}, strict=True)
    with pytest.warns(UserWarning, match=r"'inv_freq' of the checkpoint differs .* convention"):
        module.load_state_dict({"inv_freq": frequencies * 0.9}, strict=True)
    with pytest.raises(RuntimeError, match="unheard_of"):
        module.load_state_dict({"unheard_of": frequencies}, strict=True)
    assert not module.state_dict()


def test_pain_17_there_is_no_table_to_outgrow() -> None:
    """Positions far past any length of training, negative ones too, and none is skipped."""
    where = torch.tensor([2**31 - 1, -5, 10**9, 2**40, 0, 7])
    got, _ = RotaryEmbedding(ROPE)(Q.double(), Q.double(), where)
    for t, p in enumerate(where.tolist()):
        cosines, sines = exact(p)
        want = oracle.turn(Q[0, 0, t].double().tolist(), cosines, sines, oracle.half(16))
        assert_close(got[0, 0, t].numpy(), np.array(want), 1e-6)
    with pytest.raises(posenc.PositionError):
        posenc.rotate(ROPE, Q, offset=2**63 - 2)
    with pytest.raises(posenc.PositionError, match="35691"):
        posenc.rotate(XPos(16, pairing="half"), Q, offset=40_000)


def test_pain_20_axes_have_names_and_an_order() -> None:
    """On a grid of 2 x 3, where height and width cannot be exchanged unseen."""
    rows, columns = (
        RoPE(
            16, pairing="half", arrangement=Arrangement(rule="axial", axes=("h", "w"), order=order)
        )
        for order in (("h", "w"), ("w", "h"))
    )
    grid = positions.grid({"h": 2, "w": 3}, axes=rows.axes, xp=torch)
    assert grid.tolist() == [[h, w] for h in range(2) for w in range(3)]
    assert not torch.equal(*(posenc.rotate(r, Q, positions=grid) for r in (rows, columns)))
    swapped = positions.grid({"h": 2, "w": 3}, axes=("w", "h"), xp=torch)
    by_hand = RoPE(16, pairing="half", arrangement=Arrangement(rule="axial", axes=("w", "h")))
    assert torch.equal(
        posenc.rotate(by_hand, Q, positions=swapped), posenc.rotate(columns, Q, positions=grid)
    )


def test_pain_21_no_float64_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32 and half precision results are computed without a float64 tensor."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: set[torch.dtype] = set()

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            flat = out if isinstance(out, (tuple, list)) else [out]
            self.seen |= {x.dtype for x in flat if isinstance(x, torch.Tensor)}
            return out

    module = RotaryEmbedding(RoPE(16, pairing="half", scaling=s.Llama3(8, original_length=64)))
    for x in (Q, Q.half(), Q.bfloat16()):
        with Watch() as watch:
            module(x, x, offset=torch.tensor([3, 10**6]))
        assert torch.float64 not in watch.seen
        assert torch.complex64 not in watch.seen
        assert {torch.int64, torch.float32} <= watch.seen


@pytest.mark.costly
def test_pain_22_real_arithmetic_only() -> None:
    """No complex number in the source, and none in an exported graph."""
    roots = Path(inspect.getfile(RoPE)).parent, Path(inspect.getfile(posenc)).parent / "functional"
    for file in (f for root in roots for f in root.rglob("*.py")):
        names = {
            n.attr for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Attribute)
        }
        assert names.isdisjoint({"view_as_complex", "polar", "complex64", "complex128"}), file
    program = torch.export.export(RotaryEmbedding(RoPE(16, pairing="interleaved")), (Q, Q))
    for node in program.graph.nodes:
        value = node.meta.get("val")
        assert not (isinstance(value, torch.Tensor) and value.is_complex())


def test_pain_23_layers_have_specs_of_their_own() -> None:
    """Local and global bases in one process and in one compiled model: nothing is shared."""
    local, wide = RoPE(16, pairing="half"), RoPE(16, pairing="half", base=1e6, scaling=s.Linear(8))
    plan = [local, None, wide, local]
    outs = [Q if spec is None else RotaryEmbedding(spec)(Q, Q)[0] for spec in plan]
    assert torch.equal(outs[0], outs[3])
    assert not torch.equal(outs[0], outs[2])
    assert torch.equal(outs[2], posenc.rotate(posenc.from_json(posenc.to_json(wide)), Q))  # type: ignore[arg-type]


def test_pain_24_cached_keys_move_exactly() -> None:
    """A window that slides over 100,000 positions: one rounding a move, and no drift of angles."""
    keys = Q[:1].double()
    cached = posenc.rotate(ROPE, keys, offset=100_000)
    where = torch.arange(6) + 100_000
    for _ in range(100):
        cached = posenc.rerotate(ROPE, cached, where, where - 1000)
        where = where - 1000
    assert_close(cached.numpy(), posenc.rotate(ROPE, keys).numpy(), 2e-13)
    at_once = posenc.rerotate(
        ROPE, posenc.rotate(ROPE, keys, offset=100_000), where + 100_000, where
    )
    assert_close(at_once.numpy(), posenc.rotate(ROPE, keys).numpy(), 1e-13)


def test_pain_25_nothing_stale() -> None:
    """Offset, base, dtype and device in turn; a result depends on spec and positions alone."""
    specs = [RoPE(16, pairing="half", base=base) for base in (1e4, 5e5)]
    modules = [RotaryEmbedding(spec) for spec in specs]
    fresh = {
        (i, offset, dtype): posenc.rotate(
            RoPE(16, pairing="half", base=base), Q.to(dtype), offset=offset
        )
        for i, base in enumerate((1e4, 5e5))
        for offset in (0, 300)
        for dtype in (torch.float32, torch.bfloat16)
    }
    for _ in range(2):
        for (i, offset, dtype), want in fresh.items():
            modules[i](Q.to("meta"), Q.to("meta"))
            assert torch.equal(modules[i](Q.to(dtype), Q.to(dtype), offset=offset)[0], want)
    assert (fresh[0, 300, torch.float32] - fresh[1, 300, torch.float32]).abs().max() > 0.5


@pytest.mark.parametrize("dim", [1, 3, 15])
def test_pain_27_an_odd_width_is_refused_and_an_odd_head_is_not(dim: int) -> None:
    with pytest.raises(posenc.SpecError, match="even"):
        RoPE(dim, pairing="half")
    head = torch.randn(1, 2, 5, dim + 2)
    if dim > 1:
        turned = posenc.rotate(RoPE(dim - 1, pairing="half"), head, offset=7)
        torch.testing.assert_close(turned[..., dim - 1 :], head[..., dim - 1 :], rtol=0, atol=0)
        alone = posenc.rotate(RoPE(dim - 1, pairing="half"), head[..., : dim - 1], offset=7)
        torch.testing.assert_close(turned[..., : dim - 1], alone, rtol=0, atol=0)

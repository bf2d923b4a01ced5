"""Recurring requests and bugs of position tables, one test for each: it cannot happen here.

Each test names the row of the list of thirty pains, or the defect of a peer, that it stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import posenc
from posenc import Arrangement, Fourier, Ladder, Sinusoidal, Timestep, presets
from posenc.presets import preset
from tests.tolerances import assert_close

HW = Arrangement(rule="axial", axes=("h", "w"))
WH = HW.replace(order=("w", "h"))
SIZES = {"h": 5, "w": 7}
GRID_PRESETS = ("mae", "rt-detr", "simple-vit", "omdet-turbo", "tensor2tensor-2d")


# --- pain 20: height and width exchanged, visible only on grids that are not square ---------------


def test_pain_20_axes_are_named_in_the_spec() -> None:
    """Each channel varies with the axis that the spec says, on a grid of 5 x 7."""
    for arrangement, first in ((HW, 0), (WH, 1)):
        spec = Sinusoidal(16, order="sin_cos", arrangement=arrangement)
        table = posenc.table(spec, posenc.positions.grid(SIZES)).reshape(5, 7, 16)
        varies_down = np.ptp(table, axis=0).max(axis=0) > 0
        varies_along = np.ptp(table, axis=1).max(axis=0) > 0
        halves = [varies_down, varies_along]
        assert halves[first][:8].all()
        assert not halves[first][8:].any()
        assert halves[1 - first][8:].all()
        assert not halves[1 - first][:8].any()


def test_pain_20_positions_follow_the_names() -> None:
    """With the names of the spec, the order in which sizes are written changes nothing."""
    spec = Sinusoidal(8, arrangement=Arrangement(rule="axial", axes=("w", "h")))
    right = posenc.table(spec, posenc.positions.grid(SIZES, axes=spec.axes))
    np.testing.assert_array_equal(
        right, posenc.table(spec, [(w, h) for h in range(5) for w in range(7)])
    )
    with pytest.raises(posenc.ArgumentError, match="the names"):
        posenc.positions.grid({"height": 5, "width": 7}, axes=spec.axes)


def test_pain_20_historical_orders_are_presets() -> None:
    """The same grid under five conventions gives five tables, and each keeps its name."""
    tables = {}
    for name in GRID_PRESETS:
        row = presets.row(name)
        tables[name] = posenc.table(row.build(16), row.place(SIZES))  # type: ignore[arg-type]
    for a in GRID_PRESETS:
        for b in GRID_PRESETS:
            if a < b:
                assert np.abs(tables[a] - tables[b]).max() > 0.1, (a, b)


def test_pain_20_a_square_grid_would_hide_it() -> None:
    """Why tests are not square: transposing tokens is exchanging axes, on a square alone."""
    spec, swapped = (Sinusoidal(16, arrangement=a) for a in (HW, WH))
    square = posenc.positions.grid({"h": 6, "w": 6})
    exchanged = posenc.positions.grid({"h": 6, "w": 6}, order="column_major")
    np.testing.assert_array_equal(posenc.table(spec, square), posenc.table(swapped, exchanged))
    wide = posenc.table(spec, posenc.positions.grid(SIZES))
    other = posenc.table(swapped, posenc.positions.grid(SIZES, order="column_major"))
    assert np.abs(wide - other).max() > 0.5


def test_pain_20_converts_between_the_orders() -> None:
    source, target = (Sinusoidal(16, order="sin_cos", arrangement=a) for a in (HW, WH))
    where = posenc.positions.grid(SIZES)
    order = posenc.reorder(source, target)
    np.testing.assert_array_equal(
        posenc.table(source, where)[:, order], posenc.table(target, where)
    )


# --- pain 26: which sinusoid is it? ---------------------------------------------------------------

NAMED = ("vaswani2017", "tensor2tensor", "fairseq", "whisper", "ddpm-timestep", "mae")


@pytest.mark.parametrize("name", NAMED)
def test_pain_26_conventions_have_names(name: str) -> None:
    spec = preset(name, 16)
    assert posenc.from_json(posenc.to_json(spec)) == spec
    assert presets.row(name).sources


@pytest.mark.parametrize("dim", [8, 9, 64])
@pytest.mark.parametrize("a", ["interleaved", "sin_cos", "cos_sin"])
@pytest.mark.parametrize("b", ["interleaved", "sin_cos", "cos_sin"])
def test_pain_26_orders_convert_exactly(a: str, b: str, dim: int) -> None:
    source, target = (Sinusoidal(dim, order=order) for order in (a, b))  # type: ignore[arg-type]
    order = posenc.reorder(source, target)
    assert sorted(order) == list(range(dim))
    rows = posenc.table(source, 100)
    np.testing.assert_array_equal(rows[:, order], posenc.table(target, 100))
    back = posenc.reorder(target, source)
    np.testing.assert_array_equal(order[back], np.arange(dim))


def test_pain_26_orders_of_features_and_times_convert() -> None:
    pairs = [
        (Timestep(9), Timestep(9, order="cos_sin")),
        (preset("nerf", 27), preset("nerf", 27).replace(raw="last")),
        (preset("nerf", 27), preset("nerf", 27).replace(blocks="all", order="cos_sin")),
        (preset("perceiver", 26), preset("perceiver", 26).replace(order="interleaved", raw="last")),
        (preset("sam", 16), preset("sam", 16).replace(order="cos_sin")),
    ]
    rng = np.random.default_rng(0)
    for source, target in pairs:
        where = rng.uniform(-1, 1, (20, len(source.axes)))  # type: ignore[attr-defined]
        where = where[:, 0] if where.shape[1] == 1 else where
        rows = posenc.table(source, where)  # type: ignore[arg-type]
        want = posenc.table(target, where)  # type: ignore[arg-type]
        np.testing.assert_array_equal(rows[:, posenc.reorder(source, target)], want)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "match"),
    [
        (Sinusoidal(16, ladder=Ladder(denominator="n-1")), "radians per position"),
        (Sinusoidal(16, base=500.0), "radians per position"),
        (Sinusoidal(18), "one width"),
        (Sinusoidal(16, arrangement=Arrangement(start=2)), "the same start"),
        (Sinusoidal(16, magnitude=posenc.Magnitude(table_scale=0.5)), "the same scale"),
        (Sinusoidal(16, phase="float32"), "the same phase"),
        (Sinusoidal(16, arrangement=HW), "the same axes"),
    ],
)
def test_pain_26_other_ladders_are_no_matter_of_order(target: Sinusoidal, match: str) -> None:
    with pytest.raises(posenc.SpecError, match=match):
        posenc.reorder(Sinusoidal(16), target)


def test_pain_26_the_two_ladders_differ_by_as_much_as_people_found() -> None:
    paper, tensor2tensor = (
        posenc.table(Sinusoidal(512, order="sin_cos", ladder=Ladder(denominator=d)), 512)
        for d in ("n", "n-1")
    )
    assert 0.70 < np.abs(paper - tensor2tensor).max() < 0.72


# --- pain 27: odd widths --------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 3, 5, 7, 9, 17])
def test_pain_27_odd_widths_follow_a_rule_or_are_refused(dim: int) -> None:
    paper = posenc.table(Sinusoidal(dim), 40)
    assert paper.shape == (40, dim)
    assert_close(paper[:, 0], np.sin(np.arange(40)), 1e-6)
    padded = posenc.table(Sinusoidal(dim, odd="zero_pad"), 40)
    assert padded.shape == (40, dim)
    assert not padded[:, -1].any()
    wider = posenc.table(Sinusoidal(dim + 1), 40)
    np.testing.assert_array_equal(posenc.table(Sinusoidal(dim, odd="cut"), 40), wider[:, :dim])
    with pytest.raises(posenc.SpecError, match=f"dim={dim}"):
        Sinusoidal(dim, odd="error")


@pytest.mark.parametrize("dim", [3, 5, 9])
def test_pain_27_odd_widths_of_features_are_refused_or_padded(dim: int) -> None:
    with pytest.raises(posenc.SpecError, match="two channels for each pair"):
        Fourier(dim)
    assert not posenc.table(Timestep(dim), 40)[:, -1].any()


# --- peers, defect 3: axes that are lost ----------------------------------------------------------


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("odd", ["cut", "zero_pad", "error", "sin_extra"])
@pytest.mark.parametrize("order", ["interleaved", "sin_cos"])
def test_peer_3_every_axis_is_in_the_table_or_the_width_is_refused(
    axes: int, odd: str, order: str
) -> None:
    """A peer's 3-D table of width 4 or 8 knows nothing of z, and one of width 2 nothing of y."""
    arrangement = Arrangement(rule="axial", axes=tuple("xyzt"[:axes]))
    for dim in range(1, 33):
        try:
            spec = Sinusoidal(dim, odd=odd, order=order, arrangement=arrangement)  # type: ignore[arg-type]
        except posenc.SpecError:
            assert odd in ("error", "sin_extra") or dim < 2 * axes * -(-dim // (2 * axes)), dim
            continue
        origin = posenc.table(spec, [[0] * axes])
        for axis in range(axes):
            moved = [[int(a == axis) for a in range(axes)]]
            assert np.abs(posenc.table(spec, moved) - origin).max() > 0.01, (axis, dim)


@pytest.mark.parametrize(
    ("preset_name", "dim"),
    [
        ("positional-encodings-3d", 4),
        ("positional-encodings-3d", 8),
        ("positional-encodings-2d", 2),
    ],
)
def test_peer_3_the_widths_of_the_report(preset_name: str, dim: int) -> None:
    with pytest.raises(posenc.SpecError, match="room for each of the axes"):
        preset(preset_name, dim)
    wider = preset(preset_name, dim + 2)
    assert posenc.table(wider, [[1, 2, 3][: len(wider.axes)]]).shape == (1, dim + 2)  # type: ignore[arg-type, attr-defined]


def test_peer_3_an_empty_share_can_be_asked_for() -> None:
    spec = Sinusoidal(8, arrangement=HW.replace(sizes=(4, 0)))
    assert posenc.table(spec, [[1, 5]]).shape == (1, 8)


# --- peers, defects 5 and 9 -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_peer_5_positions_never_take_the_compute_dtype(dtype: str) -> None:
    """A peer's layer casts positions to its compute dtype: 3000 rows of bfloat16 are 700."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = preset("keras-hub", 64)
    x = torch.zeros(1, 3000, 64, dtype=getattr(torch, dtype))
    rows = posenc.add(spec, x)[0]
    want = posenc.table(spec, 3000).astype(np.float64)  # type: ignore[arg-type]
    assert_close(rows.double().numpy(), want, 2.0**-8 if dtype == "bfloat16" else 2.0**-11)
    assert len({tuple(row) for row in rows.double().numpy().round(9)}) == 3000


def test_peer_9_positions_per_row_and_padded_starts() -> None:
    """A peer's sinusoid raises for positions of each row and for starts of padded rows."""
    spec = preset("x-transformers", 16)
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    where = posenc.positions.from_mask(mask)
    rows = posenc.add(spec, np.zeros((2, 5, 16), dtype=np.float32), positions=where)
    plain = posenc.table(spec, 5)  # type: ignore[arg-type]
    np.testing.assert_array_equal(rows[0, 2:], plain[:3])
    np.testing.assert_array_equal(rows[1], plain)
    started = posenc.add(spec, np.zeros((2, 5, 16), dtype=np.float32), offset=np.array([3, 0]))
    np.testing.assert_array_equal(started[0], posenc.table(spec, np.arange(3, 8)))  # type: ignore[arg-type]


# --- pains of buffers: a module that has none -----------------------------------------------------


def module_of(spec: Sinusoidal, **fields: Any) -> Any:
    pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    return PositionTable(spec, **fields)


def test_pain_4_nothing_is_lost_on_the_meta_device() -> None:
    module = module_of(Sinusoidal(16))
    import torch

    with torch.device("meta"):
        made = module_of(Sinusoidal(16))
    made = made.to_empty(device="cpu")
    for tensor in (*made.parameters(), *made.buffers()):
        tensor.data.fill_(float("nan"))
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(made(x, offset=4097), module(x, offset=4097), rtol=0, atol=0)


def test_pain_15_nothing_of_it_in_checkpoints() -> None:
    module = module_of(Sinusoidal(16))
    assert not module.state_dict()
    assert not list(module.buffers())


def test_pain_15_stale_tables_are_dropped_and_compared() -> None:
    spec = Sinusoidal(16, arrangement=Arrangement(start=2))
    module = module_of(spec)
    import torch

    table = torch.tensor(posenc.table(spec, np.arange(40) - 2))
    for key, stored in (("pe", table[None]), ("weights", table.half()), ("pe", table[:, None])):
        module.load_state_dict({key: stored}, strict=True)
    with pytest.warns(UserWarning, match=r"'pe' of the checkpoint differs from the spec by"):
        module.load_state_dict({"pe": table.roll(1, 0)}, strict=True)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), module)
    model.load_state_dict({**model.state_dict(), "1.pe": table}, strict=True)
    with pytest.raises(RuntimeError, match="unheard_of"):
        module.load_state_dict({"unheard_of": table}, strict=True)


def test_pain_25_and_peer_2_the_key_of_a_cache_is_the_whole_spec() -> None:
    """Two modules that differ in the base alone, one after the other, in both dtypes."""
    small, large = module_of(Sinusoidal(16)), module_of(Sinusoidal(16, base=500_000))
    import torch

    x = torch.zeros(1, 6, 16)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        a, b = small(x.to(dtype), offset=40), large(x.to(dtype), offset=40)
        assert (a - b).abs().max() > 0.1
        for got, spec in ((a, small.spec), (b, large.spec)):
            rows = posenc.table(spec, np.arange(40, 46), dtype="float64")
            bound = 4e-3 if dtype == torch.bfloat16 else 2e-7
            assert_close(got[0].double().numpy(), rows, bound)


def test_peer_1_positions_never_take_the_dtype_of_the_input() -> None:
    """In bfloat16 299 to 301 are all 300; and a call in half precision poisons nothing."""
    module = module_of(Sinusoidal(64))
    import torch

    x = torch.zeros(1, 3, 64, dtype=torch.bfloat16)
    half = module(x, offset=299).double()[0].numpy()
    assert_close(half, posenc.table(Sinusoidal(64), [299, 300, 301], dtype="float64"), 2e-3)
    assert len({row.tobytes() for row in half}) == 3
    full = module(x.float(), offset=299)[0].numpy()
    np.testing.assert_array_equal(full, posenc.table(Sinusoidal(64), [299, 300, 301]))

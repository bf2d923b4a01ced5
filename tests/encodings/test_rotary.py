"""Rotations: every row of `rotary_cases.py` on every array library and dtype, and the laws.

The laws are those of the papers and of the issue trackers: sizes kept, angles that add, scores that
see distances alone, and rows that do not see their neighbours, their padding or their cache.
"""

from __future__ import annotations

import functools
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import posenc
from posenc import Arrangement, Pairing, RoPE, RotaryMagnitude, XPos, positions, scaling as s
from tests.backends import (
    Backend,
    cycled,
    each_backend,
    each_row_and_backend,
    each_row_and_dtypes,
)
from tests.oracles import rotary as oracle
from tests.rotary_cases import LONG, RAISED, ROTARY, SHORT, RotaryCase
from tests.tolerances import ABSOLUTE, FLOAT64, PER_POSITION, RELATIVE, XPOS, assert_close

BY_NAME = {case.name: case for case in (*ROTARY, *RAISED)}
LENGTH = 12  # of the positions of all rows: JAX compiles for each shape
POSITION = st.integers(-(2**31) + 1, 2**31 - 1)
PAIRINGS = (
    Pairing("half"),
    Pairing("interleaved"),
    Pairing("half", direction="backward"),
    Pairing("interleaved", output="half"),
    Pairing("half", part="trailing"),
    Pairing("half", blocks=(3, 5)),
    Pairing("interleaved", blocks=(2, 6), part="trailing", direction="backward"),
)


def size_of(case: RotaryCase) -> np.ndarray:
    """The sum of the coordinates of each position, as a column."""
    return np.array([float(np.abs(p).sum()) for p in case.positions])[:, None]


def bound(case: RotaryCase, dtype: str) -> Any:
    binade = 2.0 ** np.ceil(np.log2(case.scale))  # where the rounding of half precision doubles
    return binade * (ABSOLUTE[dtype] + PER_POSITION * size_of(case))


def exact(case: RotaryCase) -> tuple[np.ndarray, np.ndarray]:
    return _exact(case.name)


@functools.cache
def _exact(name: str) -> tuple[np.ndarray, np.ndarray]:
    case = BY_NAME[name]
    rows = [case.oracle(p) for p in case.positions]
    return np.array([c for c, _ in rows]), np.array([r for _, r in rows])


def carried(case: RotaryCase, backend: Backend, dtype: str) -> Any:
    if case.params is None:
        return None
    inner = "float64" if dtype == "float64" else "float32"
    return {k: backend.asarray(v, inner) for k, v in case.params.items()}


# --- numbers --------------------------------------------------------------------------------------


def family(case: RotaryCase) -> tuple[Any, ...]:
    """What the rows share of which JAX meets one: the encoding, one axis or more, a scaling."""
    spec: Any = case.spec
    return type(spec), len(spec.axes) > 1, bool(getattr(spec, "scaling", ()))


@each_row_and_dtypes(ROTARY, by=family)
def test_cosines_and_rotations_equal_the_oracle(
    case: RotaryCase, backend: Backend, dtypes: tuple[str, ...]
) -> None:
    """A rotation takes the cosines and sines that `cos_sin` gives."""
    assert len(case.positions) <= LENGTH
    again = cycled(range(len(case.positions)), LENGTH)
    where = backend.asarray([cycled(case.positions, LENGTH)])
    cosines, sines = (part[again, :] for part in exact(case))
    values = np.random.default_rng(0).normal(size=(2, LENGTH, case.spec.dim + 3))

    def verbs(where: Any, x: Any, params: Any) -> tuple[Any, Any]:
        tables = posenc.cos_sin(case.spec, where, dtype=backend.dtype_of(x), params=params)
        return tables, posenc.rotate(case.spec, x, positions=where, params=params)

    run = backend.whole(verbs)
    for dtype in dtypes:
        most = bound(case, dtype)[again, :]
        x = backend.asarray(values.astype(np.float32), dtype)
        before = backend.numpy(x).copy()
        got, y = run(where, x, carried(case, backend, dtype))
        for part, want, name in zip(got, (cosines, sines), ("cos", "sin"), strict=True):
            assert backend.dtype_of(part) == dtype
            part = backend.numpy(part).reshape(want.shape)
            assert_close(part, want, most, f"{name} of {case.name} on {backend.name} in {dtype}")
        assert backend.dtype_of(y) == dtype
        what = f"{case.name} on {backend.name} in {dtype}"
        assert_close(backend.numpy(x), before, 0, f"the input, {what}")
        turned(case, dtype, before, backend.numpy(y), cosines, sines, what)


def turned(
    case: RotaryCase, dtype: str, before: Any, y: Any, cosines: Any, sines: Any, what: str
) -> None:
    """A wider head: the rotated part turns, the rest comes back as it went."""
    dim = case.spec.dim
    source = case.spec.channels.channels(dim)
    want = before.copy()
    for b, t in np.ndindex(2, LENGTH):
        want[b, t] = oracle.turn(list(before[b, t]), cosines[t], sines[t], source)
    inner = "float64" if dtype == "float64" else "float32"
    rounding = {"float64": 2.0**-52, "float32": 2.0**-22, "float16": 2.0**-11, "bfloat16": 2.0**-8}
    length = np.abs(before).max() * 2 + 1
    most = bound(case, inner)[cycled(range(len(case.positions)), LENGTH), :]
    tolerance = length * most + rounding[dtype] * (np.abs(want) + case.scale * 1e-3)
    tolerance = np.broadcast_to(tolerance + 3e-7 * case.scale * (inner == "float32"), want.shape)
    assert_close(y, want, tolerance, what)
    assert_close(y[..., dim:], before[..., dim:], 0, f"what passes through, {what}")


@each_row_and_backend("pairing", PAIRINGS, 2, ids=repr)
def test_every_pairing(pairing: Pairing, backend: Backend) -> None:
    spec = RoPE(16, pairing=pairing)
    x = np.random.default_rng(1).normal(size=(3, 20)).astype(np.float32)
    offset = 4 if pairing.part == "trailing" else 0
    sizes, begin, source = pairing.blocks or (8,), offset, []
    for pairs in sizes:
        pick = oracle.half if pairing.order == "half" else oracle.interleaved
        source += pick(2 * pairs, begin)
        begin += 2 * pairs
    target = oracle.half(16, offset) if pairing.output == "half" else source
    sign = -1 if pairing.direction == "backward" else 1
    want = []
    for p, row in zip((0, 7, 100_000), x.astype(float).tolist(), strict=True):
        cosines, sines = oracle.cos_sin(p, oracle.ladder(16))
        want.append(oracle.turn(row, cosines, sines, source, target, sign=sign))

    def there_and_back(x: Any) -> tuple[Any, Any]:
        got = posenc.rotate(spec, x, positions=[0, 7, 100_000])
        return got, posenc.rotate(spec, got, positions=[0, 7, 100_000], inverse=True)

    got, back = backend.whole(there_and_back)(backend.asarray(x))
    assert_close(backend.numpy(got), np.array(want), 1.5e-6, repr(pairing))
    assert_close(backend.numpy(back), x, 2e-6, "back again")


@each_backend
def test_apply_rotary_is_rotate(backend: Backend) -> None:
    spec = RoPE(8, pairing="half", scaling=s.YaRN(4, original_length=64))
    x = backend.asarray(np.random.default_rng(0).normal(size=(2, 3, 5, 10)).astype(np.float32))
    where = backend.asarray(np.array([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]]))
    xp = backend.xp()
    both = xp.concatenate if backend.name == "jax" else xp.concat
    axis = {"dim" if backend.name == "torch" else "axis": -1}

    def each_way(x: Any, where: Any) -> tuple[Any, ...]:
        cos, sin = posenc.cos_sin(spec, where)
        full = [both([a, a], **axis) for a in (cos, sin)]
        return (
            posenc.rotate(spec, x, positions=where),
            posenc.apply_rotary(x, cos, sin, pairing="half"),
            posenc.apply_rotary(x, *full, pairing="half", width="full"),
        )

    want, half, full = map(backend.numpy, backend.whole(each_way)(x, where))
    assert_close(half, want, 0, "half width")
    assert_close(full, want, 0, "full width")


def test_apply_rotary_reads_full_width_tables_in_either_order() -> None:
    spec, x = RoPE(8, pairing="interleaved"), np.random.default_rng(0).normal(size=(5, 8))
    cos, sin = (np.repeat(a, 2, axis=-1) for a in posenc.cos_sin(spec, 5, dtype="float64"))
    got = posenc.apply_rotary(x, cos, sin, pairing="interleaved", width="full")
    assert_close(got, posenc.rotate(spec, x), 0)


@each_row_and_backend(
    "pairing",
    [Pairing(order, blocks=blocks) for order in ("half", "interleaved") for blocks in ((), (1, 3))],
    1,
    by=lambda pairing: len(pairing.blocks),
    ids=repr,
)
def test_cosines_of_full_width_have_an_entry_for_each_channel(
    pairing: Pairing, backend: Backend
) -> None:
    spec = RoPE(8, pairing=pairing)
    where = backend.asarray(np.array([[0, 1, 70], [9, 8, 7]]))
    x = backend.asarray(np.random.default_rng(0).normal(size=(2, 4, 3, 10)).astype(np.float32))

    def each_way(x: Any, where: Any) -> tuple[Any, ...]:
        full = posenc.cos_sin(spec, where, width="full", dtype="float32")
        turned = posenc.rotate(spec, x, positions=where)
        applied = turned
        if not pairing.blocks:
            applied = posenc.apply_rotary(x, *full, pairing=pairing.order, width="full")
        return posenc.cos_sin(spec, where), full, applied, turned

    narrow, full, applied, turned = backend.whole(each_way)(x, where)
    half = [backend.numpy(a) for a in narrow]
    want = np.full((2, *where.shape, 8), np.nan)
    for j, channels in enumerate(spec.channels.channels(8)):
        for c in channels:
            want[..., c] = [a[..., j] for a in half]
    for got, expected in zip(full, want, strict=True):
        assert_close(backend.numpy(got), expected, 0)
    assert_close(backend.numpy(applied), backend.numpy(turned), 0)


# --- laws -----------------------------------------------------------------------------------------

SCALINGS: dict[str, Any] = {
    "none": (),
    "linear": s.Linear(4),
    "ntk": s.NTK(4),
    "dynamic": s.DynamicNTK(2, original_length=64),
    "yarn": s.YaRN(8, original_length=64),
    "llama3": s.Llama3(8, original_length=64),
    "longrope": s.LongRoPE(SHORT, LONG, original_length=64, factor=8),
    "proportional": s.Proportional(0.5),
    "mixed-ntk": s.MixedNTK(4),
    "mrrope": s.MrRoPE(8, original_length=64),
    "multipliers": s.Multipliers(SHORT, use="divide"),
    "riflex": s.RIFLEx(3, 66),
    "dype": s.DyPE(4, 0.7, original_length=64),
    "dype at the end": s.DyPE(4, 0.01, original_length=64),
    "one axis": s.PerAxis((s.YaRN(8, original_length=64),)),
}
each_scaling = pytest.mark.parametrize("name", SCALINGS)


def spec_of(name: str, length: int = 100, **fields: Any) -> RoPE:
    fields.setdefault("pairing", "half")
    return RoPE(16, scaling=SCALINGS[name], **fields).at(length)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_the_score_of_a_distance_is_that_of_turned_vectors_on_either_side() -> None:
    q, k, far = random(16), random(16, seed=1), [0, 3, -7]
    for spec in (ROPE, posenc.ImaginaryRoPE(16, pairing="half")):
        turned = posenc.rotate(spec, q[None], offset=20)[0]
        keys = posenc.rotate(spec, np.stack([k] * 3), positions=[20 + d for d in far], role="key")
        assert_close(posenc.relative_score(spec, q, k, far), keys @ turned, 1e-12)


@each_row_and_backend("name", tuple(SCALINGS), 2, "scaling", "encodings/rotary", ids=str)
def test_float32_phases_have_the_same_frequencies(name: str, backend: Backend) -> None:
    """Near 0, where the rounding of an angle is nothing, and a wrong frequency is not."""
    spec, where = spec_of(name), backend.asarray(np.array([0, 1, 7]))
    exact = posenc.cos_sin(spec, [0, 1, 7], dtype="float64")
    plain = spec.replace(phase="float32")
    got = backend.whole(lambda where: posenc.cos_sin(plain, where))(where)
    for ours, want in zip(got, exact, strict=True):
        assert_close(backend.numpy(ours), want, 5e-6, name)


@each_scaling
@given(p=POSITION)
@settings(max_examples=20, deadline=None)
def test_sizes_are_kept_up_to_the_declared_magnitude(name: str, p: int) -> None:
    spec, x = spec_of(name), random(1, 16)
    y = posenc.rotate(spec, x, offset=p)
    got = np.linalg.norm(y) / np.linalg.norm(x)
    assert abs(got / spec.attention_factor - 1) < FLOAT64


@given(m=POSITION, n=POSITION)
@settings(max_examples=50, deadline=None)
def test_angles_add(m: int, n: int) -> None:
    spec, x = RoPE(16, pairing="interleaved"), random(1, 16)
    twice = posenc.rotate(spec, posenc.rotate(spec, x, offset=m), offset=n)
    assert_close(twice, posenc.rotate(spec, x, offset=m + n), 2e-9)  # three steps, rounded
    assert_close(
        posenc.rotate(spec, posenc.rotate(spec, x, offset=m), offset=m, inverse=True), x, FLOAT64
    )


@each_scaling
@given(m=POSITION, rel=st.integers(-1000, 1000))
@settings(max_examples=20, deadline=None)
def test_scores_depend_on_the_distance_alone(name: str, m: int, rel: int) -> None:
    """At positions up to 2**31, where float32 phases are noise."""
    spec = spec_of(name)
    q, k = random(1, 16).astype("float32"), random(1, 16, seed=1).astype("float32")

    def score(at: int) -> float:
        turned = posenc.rotate(spec, q, offset=at), posenc.rotate(spec, k, offset=at + rel)
        return float((turned[0].astype(float) * turned[1]).sum())

    assert abs(score(m) - score(0)) < 1e-5 * spec.attention_factor**2
    expected = posenc.relative_score(spec, q[0].astype(float), k[0].astype(float), [rel])
    assert abs(score(m) - expected[0]) < 1e-5 * spec.attention_factor**2


@pytest.mark.parametrize("role", ["query", "key"])
def test_the_inverse_undoes_magnitudes_too(role: Any) -> None:
    x = random(2, 9, 18)
    for spec in (spec_of("yarn"), spec_of("longrope"), XPos(16, pairing="half", centre=4)):
        turned = posenc.rotate(spec, x, offset=700, role=role)
        back = posenc.rotate(spec, turned, offset=700, role=role, inverse=True)
        assert_close(back, x, FLOAT64 * 10)


@each_scaling
def test_a_cast_is_the_only_loss(name: str) -> None:
    spec, x = spec_of(name), random(2, 9, 16).astype("float32")
    half = posenc.rotate(spec, x.astype("float16"), offset=70_000)
    want = posenc.rotate(spec, x.astype("float16").astype("float32"), offset=70_000)
    assert (half == want.astype("float16")).all()


@each_scaling
def test_decoding_gives_what_prefill_gave(name: str) -> None:
    """Guarantee G12: token by token, in chunks, and after a rewind, to the last bit."""
    spec, length = RoPE(16, pairing="half", scaling=SCALINGS[name]), 40
    x = random(2, 3, length, 16).astype("float32")
    read: Any = {"length": length} if spec.needs_length else {}
    whole = posenc.rotate(spec, x, **read)
    for cuts in (range(1, length), (4, 8, 20), (17,)):
        ends = [0, *cuts, length]
        parts = [posenc.rotate(spec, x[:, :, a:b], offset=a, **read) for a, b in pairwise(ends)]
        assert (np.concatenate(parts, axis=2) == whole).all()
    again = posenc.rotate(spec, x[:, :, 10:14], offset=10, **read)  # after a rewind
    assert (again == whole[:, :, 10:14]).all()


@given(pads=st.lists(st.integers(0, 12), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_a_padded_row_is_the_row_without_padding(pads: list[int]) -> None:
    spec, x = RoPE(16, pairing="half"), random(16, 16)
    mask = np.array([[t >= pad for t in range(16)] for pad in pads])
    rows = np.stack([np.concatenate([x[:pad] * 0, x[: 16 - pad]]) for pad in pads])
    y = posenc.rotate(spec, rows, positions=positions.from_mask(mask))
    for pad, row in zip(pads, y, strict=True):
        assert (row[pad:] == posenc.rotate(spec, x[: 16 - pad])).all()


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_packed_sequences_are_separate_sequences(lengths: list[int]) -> None:
    """Guarantee G13, by the turned vectors themselves: scores cannot see a shift of positions.

    The absolute probe: a table at the same positions.
    """
    spec, total = RoPE(16, pairing="half"), sum(lengths)
    x = random(total, 2, 16)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    packed = posenc.rotate(spec, x, cu_seqlens=ends, seq_dim=-3)
    probe = posenc.table(posenc.Sinusoidal(8), positions.packed(ends))
    for a, b in pairwise(ends):
        assert (packed[a:b] == posenc.rotate(spec, x[a:b], seq_dim=-3)).all()
        assert (probe[a:b] == posenc.table(posenc.Sinusoidal(8), int(b - a))).all()


@each_scaling
@given(p=POSITION, q=st.integers(-(10**6), 10**6))
@settings(max_examples=10, deadline=None)
def test_rerotate_is_rotate_from_scratch(name: str, p: int, q: int) -> None:
    spec, k = spec_of(name), random(1, 3, 4, 18)
    old, new = p + np.arange(4), q + np.arange(4)
    moved = posenc.rerotate(spec, posenc.rotate(spec, k, positions=old), old, new)
    assert_close(moved, posenc.rotate(spec, k, positions=new), 2e-9)
    near = posenc.rerotate(spec, posenc.rotate(spec, k, positions=new), new, new - 1000)
    assert_close(near, posenc.rotate(spec, k, positions=new - 1000), 1e-12)


@pytest.mark.parametrize("name", ["dynamic", "longrope", "yarn", "linear"])
@each_backend
def test_rerotate_changes_the_scaling(name: str, backend: Backend) -> None:
    old, new = spec_of("none"), spec_of(name, 4096)
    k = backend.asarray(random(2, 5, 16).astype("float32"))
    where = backend.asarray(np.arange(5) + 10_000)

    def both(k: Any, where: Any) -> tuple[Any, Any]:
        cached = posenc.rotate(old, k, positions=where)
        moved = posenc.rerotate(old, cached, where, where, new)
        return moved, posenc.rotate(new, k, positions=where)

    moved, want = backend.whole(both)(k, where)
    assert_close(backend.numpy(moved), backend.numpy(want), 3e-6 * new.attention_factor)


@each_backend
def test_rerotate_of_several_axes_and_starts(backend: Backend) -> None:
    grid = Arrangement(rule="axial", axes=("h", "w"), start=3)
    old = RoPE(16, pairing="half", arrangement=grid)
    new = old.replace(arrangement=grid.replace(start=0), base=100)
    k = backend.asarray(random(4, 16).astype("float32"))
    a, b = (backend.asarray(np.array(v)) for v in ([[0, 1], [5, 2], [7, 7], [9, 1]], [[1, 1]] * 4))

    def both(k: Any, a: Any, b: Any) -> tuple[Any, Any]:
        moved = posenc.rerotate(old, posenc.rotate(old, k, positions=a), a, b, new)
        return moved, posenc.rotate(new, k, positions=b)

    moved, want = backend.whole(both)(k, a, b)
    assert_close(backend.numpy(moved), backend.numpy(want), 3e-6)


def test_rerotate_rounds_once_a_move() -> None:
    """The drift of many moves in bfloat16 is that of as many roundings, not of angles."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec, k = RoPE(64, pairing="half"), torch.randn(4, 64, dtype=torch.float64)
    cached = posenc.rotate(spec, k, offset=5000).to(torch.bfloat16)
    start = np.arange(4) + 5000
    for move in range(50):
        with pytest.warns(UserWarning, match="a move by 1 in bfloat16 turns 10 of 32 pairs"):
            cached = posenc.rerotate(spec, cached, start - move, start - move - 1)
    error = (cached.double() - posenc.rotate(spec, k, offset=4950)).abs().max()
    assert error < 51 * 2.0**-9 * k.norm(dim=-1).max()


@pytest.mark.parametrize("base", [1e4, 1e6])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_moves_that_a_dtype_cannot_follow_are_warned_of(dtype: str, base: float) -> None:
    """Pairs that turn by less than 2**-12 stay; far moves, other dtypes and none say nothing."""
    spec = RoPE(64, pairing="half", base=base)
    old = np.arange(3) + 9000
    k = posenc.rotate(spec, random(3, 64), positions=old).astype(dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for far in (0, 64, 1000, 9000):
            posenc.rerotate(spec, k, old, old - far)
        posenc.rerotate(spec, k, old, old, spec.replace(base=2 * base))
        assert not caught
        moved = posenc.rerotate(spec, k, old, old - 1)
    assert [w.filename for w in caught] == ([__file__] if dtype == "float16" else [])
    if dtype == "float16":
        angles = posenc.frequencies(spec)
        assert f"turns {(angles < 2.0**-12).sum()} of 32 pairs" in str(caught[0].message)
        same = (moved == k).reshape(3, 2, 32).mean(axis=(0, 1))
        assert same[angles < 2.0**-12].mean() > 0.7  # an entry beside a larger one may move
        assert same[angles > 2.0**-9].mean() < 0.1


@pytest.mark.parametrize("rule", ["sections", "cyclic", "alternate"])
def test_text_alone_is_rope_of_one_axis(rule: str) -> None:
    """M-RoPE with equal coordinates, bit by bit."""
    arrangement = Arrangement(rule=rule, axes=("t", "h", "w"), sizes=(2, 3, 3))  # type: ignore[arg-type]
    spec, one = RoPE(16, pairing="half", arrangement=arrangement), RoPE(16, pairing="half")
    x = random(2, 7, 16).astype("float32")
    ids = positions.multimodal([7], start=1000)
    assert (posenc.rotate(spec, x, positions=ids) == posenc.rotate(one, x, offset=1000)).all()


def test_logit_scales_are_where_they_are_declared() -> None:
    scaling = s.YaRN(40, original_length=4096, mscale=0.707, mscale_all_dim=0.707)
    m = 0.1 * 0.707 * np.log(40) + 1
    plain = RoPE(16, pairing="half", scaling=scaling)
    assert plain.attention_factor == 1
    assert posenc.logit_scale(plain) == 1
    full = plain.replace(magnitude=RotaryMagnitude(logit_factor="scaling"))
    assert abs(posenc.logit_scale(full) - m**2) < 1e-14
    q, k = random(1, 16), random(1, 16, seed=1)

    def logits(at: str) -> np.ndarray:
        spec = RoPE(
            16,
            pairing="half",
            scaling=s.YaRN(8, original_length=64),
            magnitude=RotaryMagnitude(at=at),  # type: ignore[arg-type]
        )
        turned = posenc.rotate(spec, q, offset=3) @ posenc.rotate(spec, k, offset=9).T
        return turned * posenc.logit_scale(spec)

    assert_close(logits("softmax"), logits("cos_sin"), 1e-13)
    m = 0.1 * np.log(8) + 1
    assert_close(logits("none") * m**2, logits("cos_sin"), 1e-13)


@each_backend
def test_temperatures(backend: Backend) -> None:
    """Three published rules, from their own formulas."""
    where = np.array([0, 1, 2047, 2048, 2049, 8191, 8192, 100_000, 2**31 - 1])
    rules = (
        posenc.Temperature(rule="log_floor", length=8192, start=1),
        posenc.Temperature(rule="log_floor", length=8192, strength=0.2),
        posenc.Temperature(rule="log", length=2048, start=1),
    )
    scales = backend.whole(lambda ids: [posenc.logit_scale(rule, ids) for rule in rules])
    from_one, from_zero, logarithm = map(backend.numpy, scales(backend.asarray(where)))
    want = [1 + 0.1 * np.log(1 + (int(p) + 1) // 8192) for p in where]
    assert_close(from_one, np.array(want), 3e-7)
    want = [1 + 0.2 * np.log(1 + int(p) // 8192) for p in where]
    assert_close(from_zero, np.array(want), 5e-7)
    want = [max(1.0, np.log(int(p) + 1) / np.log(2048)) for p in where]
    assert_close(logarithm, np.array(want), 5e-7)


# --- xPos -----------------------------------------------------------------------------------------


@given(m=st.integers(-20_000, 20_000), rel=st.integers(-2000, 2000))
@settings(max_examples=40, deadline=None)
@pytest.mark.costly
def test_xpos_scores_depend_on_the_distance_alone(m: int, rel: int) -> None:
    spec, q, k = XPos(16, pairing="half"), random(1, 16), random(1, 16, seed=1)

    def score(at: int) -> float:
        a = posenc.rotate(spec, q, offset=at, role="query")
        b = posenc.rotate(spec, k, offset=at + rel, role="key")
        return float((a * b).sum())

    size = max(1.0, np.exp(1.2528 * rel / 512))  # keys ahead of the query are enlarged
    assert abs(score(m) - score(0)) < 1e-11 * size
    got = posenc.relative_score(spec, q[0], k[0], [rel])[0]
    assert abs(got - score(m)) < 1e-11 * size


@pytest.mark.parametrize("role", ["query", "key"])
@each_backend
def test_xpos_keeps_its_digits_at_every_position(role: Any, backend: Backend) -> None:
    """The factor is the power of an exact exponent, not of a float32 that grew to 70."""
    where = np.concatenate([np.linspace(-30_000, 30_000, 41, dtype=int), [1, 2, 29_999]])
    x = np.random.default_rng(0).normal(size=(where.size, 16)).astype(np.float32)
    spec = XPos(16, pairing="half")
    turn = backend.whole(lambda x, p: posenc.rotate(spec, x, positions=p, role=role))
    got = turn(backend.asarray(x), backend.asarray(where))
    want = np.zeros(x.shape)
    for t, p in enumerate(where.tolist()):
        cos, sin = oracle.cos_sin(p, oracle.ladder(16))
        turned = oracle.turn(x[t].tolist(), cos, sin, oracle.half(16))
        size = np.array(oracle.xpos_factor(p, 16))
        want[t] = turned * np.tile(size if role == "query" else 1 / size, 2)
    of_pairs = np.tile(np.hypot(want[:, :8], want[:, 8:]), 2)
    bound = XPOS * (8 if backend.name == "mlx" else 1)  # whose exponential is off by 4e-6
    assert_close(backend.numpy(got) / of_pairs, want / of_pairs, bound, role)


def test_xpos_of_huge_scales_and_steps() -> None:
    """Steps that no integer holds, and exponents of many positions."""
    x = np.ones((5, 16), np.float32)
    for scale, most in ((1e-3, 0), (2e7, 10**9), (1e12, 2**31 - 1)):
        spec, where = XPos(16, pairing="half", scale=scale), np.linspace(-most, most, 5, dtype=int)
        wide = posenc.rotate(spec, x.astype(np.float64), positions=where)
        got = posenc.rotate(spec, x, positions=where)
        of_pairs = np.tile(np.hypot(wide[:, :8], wide[:, 8:]), 2)
        assert_close(got / of_pairs, wide / of_pairs, XPOS, f"scale {scale}")


def test_xpos_cached_keys_do_not_depend_on_the_length() -> None:
    """Decoding equals prefill: the centre is a field, not half of what is there."""
    spec, x = XPos(16, pairing="half", centre=50), random(1, 100, 16)
    for role in ("query", "key"):
        whole = posenc.rotate(spec, x, role=role)  # type: ignore[arg-type]
        parts = [posenc.rotate(spec, x[:, t : t + 1], offset=t, role=role) for t in range(100)]  # type: ignore[arg-type]
        assert (np.concatenate(parts, axis=1) == whole).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_xpos_says_where_its_decay_leaves_a_dtype(dtype: str) -> None:
    spec = XPos(16, pairing="half", centre=100)
    reach = spec.reach(dtype)
    assert reach == {"float32": 35_691, "float16": 3_964}[dtype]
    x = np.ones((1, 16), dtype)
    for p in (100 - reach, 100 + reach):
        for role in ("query", "key"):
            y = posenc.rotate(spec, x, offset=p, role=role)  # type: ignore[arg-type]
            assert np.isfinite(y).all()
            assert (np.abs(y) > 0).any()
    for p in (100 - reach - 1, 101 + reach):
        with pytest.raises(posenc.PositionError, match=str(reach)):
            posenc.rotate(spec, x, offset=p)
    huge = np.float64(reach * 1.02) * -spec.decays[0]
    with np.errstate(all="ignore"):
        assert not np.isfinite(np.exp(huge).astype(dtype)) or dtype == "float16"


def test_xpos_rerotates_its_decay_too() -> None:
    spec, k = XPos(16, pairing="half", centre=10), random(3, 16)
    cached = posenc.rotate(spec, k, offset=500, role="key")
    moved = posenc.rerotate(spec, cached, 500 + np.arange(3), 2 + np.arange(3))
    assert_close(moved, posenc.rotate(spec, k, offset=2, role="key"), 1e-13)


# --- real coordinates -----------------------------------------------------------------------------


@each_backend
def test_real_coordinates(backend: Backend) -> None:
    spec = RoPE(16, pairing="half", phase="real", ladder=posenc.Ladder(first=6.5), base=100)
    where = np.array([-0.96875, -0.5, 0.0, 0.1, 0.75, 12.625, 1000.5, 2.0**20 + 0.125], np.float32)
    plain = spec.replace(phase="exact")

    def cosines(where: Any, whole: Any) -> tuple[Any, ...]:
        own, exact = (posenc.cos_sin(each, whole)[0] for each in (spec, plain))
        return *posenc.cos_sin(spec, where), own, exact

    whole = backend.asarray(np.array([0, 5, 2**31 - 1]))
    cos, sin, own, exact = backend.whole(cosines)(backend.asarray(where), whole)
    want = [oracle.cos_sin(float(p), oracle.ladder(16, 100, 6.5)) for p in where]
    bound = 1.5e-7 + 6e-8 * 6.5
    assert_close(backend.numpy(cos), np.array([c for c, _ in want]), bound, "cos")
    assert_close(backend.numpy(sin), np.array([c for _, c in want]), bound, "sin")
    assert_close(backend.numpy(own), backend.numpy(exact), 0)


# --- refusals -------------------------------------------------------------------------------------

X = np.zeros((2, 3, 5, 16), "float32")
ROPE = RoPE(16, pairing="half")
DYNAMIC = RoPE(16, pairing="half", scaling=SCALINGS["dynamic"])

BAD_SPECS: dict[str, tuple[Any, str]] = {
    "odd width": (lambda: RoPE(15, pairing="half"), "even width.*15"),
    "no width": (lambda: RoPE(0, pairing="half"), "even width"),
    "unknown pairing": (lambda: RoPE(16, pairing="neox"), "order.*'half'.*'neox'"),
    "base": (lambda: RoPE(16, pairing="half", base=0), "positive"),
    "sections that do not add up": (
        lambda: RoPE(
            16,
            pairing="half",
            arrangement=Arrangement(rule="sections", axes=("t", "h", "w"), sizes=(2, 3, 4)),
        ),
        "8 pairs in all.*add up to 9",
    ),
    "blocks that do not add up": (
        lambda: RoPE(16, pairing=Pairing("half", blocks=(4, 5))),
        "8 pairs in all.*add up to 9",
    ),
    "two scalings that extend": (
        lambda: RoPE(16, pairing="half", scaling=(s.Linear(2), s.Llama3(8, original_length=64))),
        "Linear and Llama3 together",
    ),
    "one scaling twice": (
        lambda: RoPE(16, pairing="half", scaling=(s.Linear(2), s.Linear(2))),
        "Linear twice",
    ),
    "factor below 1": (lambda: s.Linear(0.5), "at least 1.*0.5"),
    "yarn factor below 1": (lambda: s.YaRN(0.5, original_length=64), "at least 1.*0.5"),
    "ntk factor below 1": (lambda: s.NTK((2.0, 0.5)), "at least 1.*0.5"),
    "betas the wrong way round": (
        lambda: s.YaRN(4, original_length=64, beta_fast=1, beta_slow=32),
        "beta_slow < beta_fast",
    ),
    "original length of zero": (
        lambda: s.Llama3(4, original_length=0),
        "original_length.*at least 1",
    ),
    "yarn on a length too short for its base": (
        lambda: RoPE(16, pairing="half", scaling=s.YaRN(4, original_length=4, rounding="none")),
        "original_length",
    ),
    "mrrope where every pair turns": (
        lambda: RoPE(16, pairing="half", scaling=s.MrRoPE(4, original_length=10**6)).matrix.turns,
        "MrRoPE: original_length.*fewer than 1 turns, got 1000000",
    ),
    "mrrope where every pair turns, in float32": (
        lambda: posenc.cos_sin(
            RoPE(16, pairing="half", scaling=s.MrRoPE(4, original_length=10**6), phase="float32"), 9
        ),
        "MrRoPE: original_length.*fewer than 1 turns, got 1000000",
    ),
    "mrrope slow and fast": (
        lambda: s.MrRoPE(4, original_length=64, beta_slow=2, beta_fast=2),
        "0 < beta_slow < beta_fast, got 2.0 and 2.0",
    ),
    "longrope of two lengths": (
        lambda: s.LongRoPE((1, 2), (1, 2, 3), original_length=64),
        "as many short as long",
    ),
    "longrope of another width": (
        lambda: RoPE(16, pairing="half", scaling=s.LongRoPE((1, 2), (1, 2), original_length=64)),
        "8 numbers",
    ),
    "a factor for each of other axes": (
        lambda: RoPE(16, pairing="half", scaling=s.PerAxis((s.Linear(2), s.Linear(3)))),
        r"1 rules, one or None for each of the axes \('position',\), got 2 of them",
    ),
    "a rule for each axis of one ladder": (
        lambda: RoPE(
            16,
            pairing="half",
            scaling=s.PerAxis((None, s.Linear(2))),
            arrangement=Arrangement(rule="sections", axes=("h", "w")),
        ),
        "one rule for the ladder that the axes share, got a PerAxis.*'sections'",
    ),
    "rules by axis inside of rules by axis": (
        lambda: s.PerAxis((s.PerAxis((None,)),)),
        "rules for one axis each",
    ),
    "rules of no axis": (lambda: s.PerAxis(()), "a rule or None for each axis"),
    "two rules that extend one axis": (
        lambda: RoPE(
            16,
            pairing="half",
            scaling=(s.PerAxis((None, s.NTK(2))), s.Llama3(8, original_length=64)),
            arrangement=Arrangement(rule="axial", axes=("h", "w")),
        ),
        "NTK and Llama3 together",
    ),
    "factors of single axes on the softmax": (
        lambda: RoPE(
            16,
            pairing="half",
            scaling=s.PerAxis((None, s.YaRN(2, original_length=64))),
            arrangement=Arrangement(rule="axial", axes=("h", "w")),
            magnitude=RotaryMagnitude(at="softmax"),
        ),
        "at='cos_sin' for attention factors of single axes",
    ),
    "a base for the rule of one axis": (
        lambda: RoPE(
            16,
            pairing="half",
            base=(2, 1),
            scaling=s.PerAxis((None, s.NTK(2))),
            arrangement=Arrangement(rule="axial", axes=("h", "w")),
        ),
        "a geometric ladder, as NTK needs its base, got spacing='geometric' with base 1",
    ),
    "a frequency counted from 0": (lambda: s.RIFLEx(0, 66), "counted from 1, got 0"),
    "frames that are none": (lambda: s.RIFLEx(1, 0), "at least 1 position, got 0"),
    "a frequency that an axis has not": (
        lambda: RoPE(16, pairing="half", scaling=s.RIFLEx(9, 66)),
        "k: expected one of the 8 frequencies of its axis, got 9",
    ),
    "a frequency that an axis has not, in float32": (
        lambda: posenc.cos_sin(
            RoPE(16, pairing="half", scaling=s.RIFLEx(9, 66), phase="float32"), 9
        ),
        "k: expected one of the 8 frequencies of its axis, got 9",
    ),
    "noise in steps": (lambda: s.DyPE(2, 700, original_length=64), "noise.*from 0 to 1.*got 700"),
    "dype of one pair": (
        lambda: RoPE(2, pairing="half", scaling=s.DyPE(2, 1, original_length=64)),
        "DyPE: expected at least 2 pairs to an axis, got a width of 2",
    ),
    "a base without a ladder of it": (
        lambda: RoPE(
            4,
            pairing="half",
            scaling=s.NTK(2),
            ladder=posenc.Ladder(spacing="explicit", frequencies=(1, 2)),
        ),
        "geometric ladder",
    ),
    "targets twice": (lambda: Pairing("half", targets=("q", "q")), "each target once"),
    "fraction": (lambda: s.Proportional(1.5), "from 0 to 1"),
    "pad": (lambda: RoPE(16, pairing="half", arrangement=Arrangement(pad=0)), "no `pad`"),
    "xpos scale": (lambda: XPos(16, pairing="half", scale=0), "scale.*positive"),
}


@pytest.mark.parametrize("name", BAD_SPECS)
def test_specs_that_cannot_be(name: str) -> None:
    make, message = BAD_SPECS[name]
    with pytest.raises(posenc.SpecError, match=message):
        make()


@pytest.mark.parametrize("scaling", ["YaRN", "Llama3", "DynamicNTK"])
def test_the_original_length_has_no_default(scaling: str) -> None:
    with pytest.raises(TypeError, match="original_length"):
        getattr(s, scaling)(4)
    with pytest.raises(posenc.SpecError, match="original_length"):
        posenc.from_json(f'{{"type": "{scaling}", "factor": 4}}')


def test_the_pairing_has_no_default() -> None:
    with pytest.raises(TypeError, match="pairing"):
        RoPE(16)  # type: ignore[call-arg]


BAD_CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    "narrow": (lambda: posenc.rotate(ROPE, X[..., :8]), posenc.ArgumentError, "16 channels"),
    "integers": (lambda: posenc.rotate(ROPE, X.astype(int)), posenc.DTypeError, "float"),
    "more positions than tokens": (
        lambda: posenc.rotate(ROPE, X, positions=np.arange(6)),
        posenc.ArgumentError,
        r"shape \(5,\).*shape \(6,\)",
    ),
    "float positions": (
        lambda: posenc.rotate(ROPE, X, positions=np.arange(5.0)),
        posenc.DTypeError,
        "integer positions.*float64",
    ),
    "both": (
        lambda: posenc.rotate(ROPE, X, positions=np.arange(5), offset=3),
        posenc.ArgumentError,
        "positions or offset",
    ),
    "cu_seqlens and offset": (
        lambda: posenc.rotate(ROPE, X, cu_seqlens=[0, 5], offset=3),
        posenc.ArgumentError,
        "cu_seqlens or positions",
    ),
    "cu_seqlens too long": (
        lambda: posenc.rotate(ROPE, X, cu_seqlens=[0, 6]),
        posenc.ArgumentError,
        "at least 6|at most 5",
    ),
    "seq_dim": (lambda: posenc.rotate(ROPE, X, seq_dim=-1), posenc.ArgumentError, "channels"),
    "role": (
        lambda: posenc.rotate(ROPE, X, role="value"),
        posenc.ArgumentError,
        "query.*key",
    ),
    "no length": (
        lambda: posenc.rotate(DYNAMIC, X),
        posenc.ArgumentError,
        "length=",
    ),
    "length of nothing": (
        lambda: posenc.rotate(DYNAMIC, X, length=0),
        posenc.ArgumentError,
        "number of positions",
    ),
    "a table": (
        lambda: posenc.rotate(posenc.Sinusoidal(16), X),
        posenc.ArgumentError,
        "a rotation such as",
    ),
    "a rotation added": (lambda: posenc.add(ROPE, X), posenc.ArgumentError, "a table such as"),
    "full-width tables": (
        lambda: posenc.apply_rotary(X, np.ones((5, 16)), np.ones((5, 16)), pairing="half"),
        posenc.ArgumentError,
        "width='full'",
    ),
    "tables of another length": (
        lambda: posenc.apply_rotary(X, np.ones((6, 8)), np.ones((6, 8)), pairing="half"),
        posenc.ArgumentError,
        "shape",
    ),
    "another pairing": (
        lambda: posenc.rerotate(ROPE, X, [0] * 5, [1] * 5, RoPE(16, pairing="interleaved")),
        posenc.SpecError,
        "one width, pairing and axes",
    ),
    "a temperature without positions": (
        lambda: posenc.logit_scale(posenc.Temperature(rule="log", length=9)),
        posenc.ArgumentError,
        "positions",
    ),
    "read-only memory": (
        lambda: posenc.rotate(ROPE, np.broadcast_to(X[0], X.shape), inplace=True),
        posenc.ArgumentError,
        "read-only",
    ),
    "windows that overlap": (
        lambda: posenc.rotate(
            ROPE, sliding_window_view(np.zeros(40), 16, writeable=True), inplace=True
        ),
        posenc.ArgumentError,
        "windows that overlap",
    ),
    "length of fewer tokens": (
        lambda: posenc.rotate(DYNAMIC, X, length=4),
        posenc.ArgumentError,
        "length: expected at least 5, .*positions reach 4.*got 4",
    ),
    "a length that is no number": (
        lambda: posenc.rotate(DYNAMIC, X, length=5.0),
        posenc.ArgumentError,
        "length: expected a number of positions",
    ),
    "keys of another width": (
        lambda: posenc.relative_score(ROPE, np.ones(16), np.ones(18), [0]),
        posenc.ArgumentError,
        "of one width, got 16 and 18",
    ),
    "a distance beyond the length": (
        lambda: posenc.relative_score(DYNAMIC, np.ones(16), np.ones(16), [0, 50], length=50),
        posenc.ArgumentError,
        "at least 51",
    ),
    "length without the cache": (
        lambda: posenc.rotate(DYNAMIC, X, offset=np.array([-5, 7]), length=11),
        posenc.ArgumentError,
        "at least 12.*cached tokens included",
    ),
    "length of fewer positions": (
        lambda: posenc.rotate(DYNAMIC, X, positions=[0, 1, 2, 3, 300], length=300),
        posenc.ArgumentError,
        "at least 301",
    ),
    "length of shorter sequences": (
        lambda: posenc.rotate(DYNAMIC, X, cu_seqlens=[0, 1, 5], length=3),
        posenc.ArgumentError,
        "at least 4",
    ),
    "length of fewer cosines": (
        lambda: posenc.cos_sin(DYNAMIC, 300, length=10),
        posenc.ArgumentError,
        "at least 300",
    ),
    "a third width": (
        lambda: posenc.cos_sin(ROPE, 3, width="double"),
        posenc.ArgumentError,
        "'half' or 'full'",
    ),
    "no coordinates": (
        lambda: posenc.rotate(
            RoPE(16, pairing="half", arrangement=Arrangement(rule="axial", axes=("h", "w"))), X
        ),
        posenc.ArgumentError,
        "axes",
    ),
    "no parameters": (
        lambda: posenc.rotate(
            posenc.MixedRoPE(16, heads=3, pairing="half"), X, positions=np.zeros((5, 2), int)
        ),
        posenc.ArgumentError,
        "params",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_calls_that_cannot_be(name: str) -> None:
    call, error, message = BAD_CALLS[name]
    with pytest.raises(error, match=message):
        call()


def test_a_length_that_holds_all_positions_is_taken_where_a_rule_reads_it() -> None:
    want = posenc.rotate(DYNAMIC.at(5), X)
    for more in ({}, {"positions": range(5)}, {"offset": 0}, {"cu_seqlens": [0, 5]}):
        assert_close(posenc.rotate(DYNAMIC, X, length=5, **more), want, 0)
        with pytest.raises(posenc.ArgumentError, match=r"length: .*no scaling.*positions= or off"):
            posenc.rotate(ROPE, X, length=5, **more)
    assert posenc.rotate(DYNAMIC, X, offset=-9, length=1).shape == X.shape
    nothing = X[..., :0, :]
    assert posenc.rotate(DYNAMIC, nothing, length=1).shape == nothing.shape
    assert posenc.cos_sin(DYNAMIC, 5, length=5)[0].shape == (5, 8)
    for call in (
        lambda: posenc.cos_sin(ROPE, 5, length=5),
        lambda: posenc.logit_scale(ROPE, length=5),
        lambda: posenc.relative_score(ROPE, np.ones(16), np.ones(16), [0], length=5),
    ):
        with pytest.raises(posenc.ArgumentError, match=r"length: expected none, got 5"):
            call()


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    steps=st.lists(st.integers(-6, 6), min_size=3, max_size=3),
)
def test_in_place_takes_any_view_whose_elements_are_apart(
    shape: list[int], steps: list[int]
) -> None:
    """Negative steps, transposes and interleaved rows are written to; no element turns twice."""
    shape, steps = [*shape, 4], [*steps[: len(shape)], 1]
    at = sum(np.ix_(*(step * np.arange(n) for n, step in zip(shape, steps, strict=True))))
    memory = np.arange(200.0) + 1
    before, at = memory.copy(), at + 100
    view = as_strided(memory[100:], shape, [8 * step for step in steps])
    spec = RoPE(4, pairing="half")
    view = view if view.ndim > 1 else view[None]
    if np.unique(at).size < at.size:
        with pytest.raises(posenc.ArgumentError, match="windows that overlap"):
            posenc.rotate(spec, view, inplace=True)
        assert_close(memory, before, 0)
        return
    want = posenc.rotate(spec, view.copy())
    assert_close(posenc.rotate(spec, view, inplace=True), want, 0)
    rest = np.setdiff1d(np.arange(200), at)
    assert_close(memory[rest], before[rest], 0)


def test_in_place_writes_over_the_input() -> None:
    for pairing in PAIRINGS:
        spec, x = RoPE(16, pairing=pairing), random(2, 5, 20)
        want = posenc.rotate(spec, x)
        got = posenc.rotate(spec, x, inplace=True)
        assert got is x
        assert (x == want).all()


def test_heads_of_a_learned_matrix_turn_by_their_own_frequencies() -> None:
    spec = posenc.MixedRoPE(8, heads=3, pairing="half")
    matrix = random(3, 2, 4)
    x, where = random(2, 3, 5, 8), np.random.default_rng(0).integers(0, 9, size=(5, 2))
    got = posenc.rotate(spec, x, positions=where, params={"frequencies": matrix})
    swapped = posenc.rotate(
        spec, x.swapaxes(1, 2), positions=where, params={"frequencies": matrix}, seq_dim=-3
    )
    assert_close(swapped.swapaxes(1, 2), got, 0)
    for h in range(3):
        angles = where @ matrix[h]
        want = posenc.apply_rotary(x[:, h], np.cos(angles), np.sin(angles), pairing="half")
        assert_close(got[:, h], want, FLOAT64)


def test_relative_tolerance_of_slow_pairs() -> None:
    """A slow pair at a small position keeps all its digits."""
    _, sin = posenc.cos_sin(RoPE(128, pairing="half", base=1e7), [1])
    want = np.array(oracle.cos_sin(1, oracle.ladder(128, 1e7))[1])
    assert (np.abs(sin[0] - want) <= RELATIVE["float32"] * want).all()


def test_frequencies_of_an_open_length_say_how_to_fix_it() -> None:
    spec = RoPE(4, pairing="half", scaling=s.LongRoPE((1, 1), (1, 2), original_length=64))
    with pytest.raises(posenc.ArgumentError, match=r"got None\. Fix it: `spec\.at\(length\)`"):
        posenc.frequencies(spec)
    assert (posenc.frequencies(spec.at(65)) == [1, 0.005]).all()

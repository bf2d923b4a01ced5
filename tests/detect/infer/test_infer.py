"""`posenc.infer_spec`: from implementations and recordings to specs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import posenc
from posenc import Arrangement, Pairing, RoPE, RotaryMagnitude, scaling
from posenc._core.io.files import rounded
from posenc.detect.subject import plan
from tests.drawing import drawn


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A survey of fewer calls, where a test is not about them."""
    for name, value in {"STRETCHES": 4, "SCATTERED": 2, "DRAWN": 4, "EDGES": [1, 17, 64]}.items():
        monkeypatch.setattr(plan, name, value)


def implementation(spec: Any) -> Any:
    return lambda x, positions: posenc.rotate(spec, x, positions=positions)


def half_by_hand(x: Any, positions: Any, base: float = 10_000.0) -> Any:
    """Halves, in plain NumPy, float64: no line of posenc."""
    n = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-np.arange(n) / n)
    a, b = x[..., :n], x[..., n:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


SPECS = {
    "half": RoPE(64, pairing="half"),
    "interleaved": RoPE(64, pairing="interleaved", base=500_000),
    "backward": RoPE(64, pairing=Pairing("half", direction="backward")),
    "de-interleaved": RoPE(64, pairing=Pairing("interleaved", output="half")),
    "linear": RoPE(128, pairing="half", scaling=scaling.Linear(4)),
    "llama3": RoPE(
        128, pairing="half", base=500_000, scaling=scaling.Llama3(8, original_length=8192)
    ),
    "yarn": RoPE(128, pairing="half", scaling=scaling.YaRN(8, original_length=4096)),
    "yarn with its own factor": RoPE(
        128,
        pairing="half",
        base=1e6,
        scaling=scaling.YaRN(4, original_length=32768),
        magnitude=RotaryMagnitude(attention_factor=1.3),
    ),
    "proportional": RoPE(64, pairing="half", scaling=scaling.Proportional(0.5)),
    "ntk": RoPE(128, pairing="half", scaling=scaling.NTK(4)),
    "multipliers": RoPE(
        16,
        pairing="half",
        scaling=scaling.Multipliers((1, 0.9, 0.8, 0.75, 0.6, 0.5, 0.45, 0.3)),  # no even ramp
    ),
    "start": RoPE(64, pairing="half", arrangement=Arrangement(start=3)),
    "xpos": posenc.XPos(64, pairing="half"),
}
GRIDS = {
    "sections": RoPE(
        128,
        pairing="half",
        arrangement=Arrangement(rule="sections", axes=("t", "h", "w"), sizes=(16, 24, 24)),
    ),
    "cyclic": RoPE(
        128,
        pairing="half",
        arrangement=Arrangement(rule="cyclic", axes=("t", "h", "w"), sizes=(24, 20, 20)),
    ),
    "axial": RoPE(64, pairing="half", arrangement=Arrangement(rule="axial", axes=("h", "w"))),
    "axial, exchanged": RoPE(
        64,
        pairing="half",
        arrangement=Arrangement(rule="axial", axes=("h", "w"), order=("w", "h")),
    ),
    "axial in blocks": RoPE(
        64,
        pairing=Pairing("half", blocks=(16, 16)),
        arrangement=Arrangement(rule="axial", axes=("h", "w")),
    ),
    "start": RoPE(
        64,
        pairing="half",
        arrangement=Arrangement(rule="axial", axes=("h", "w"), start=1),
    ),
    "parity": RoPE(
        64, pairing="interleaved", arrangement=Arrangement(rule="parity", axes=("h", "w"))
    ),
}


# --- rotations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", drawn([*SPECS], 5, "detect/infer"))
@pytest.mark.usefixtures("short")
def test_specs_are_their_own_answer(name: str) -> None:
    spec = SPECS[name]
    found = posenc.infer_spec(implementation(spec), dim=spec.dim)
    assert found.spec == spec
    assert found.matches


@pytest.mark.usefixtures("short")
def test_of_rules_with_the_same_frequencies_the_one_of_this_size() -> None:
    """Four pairs leave open whether it is Llama 3 or YaRN; the attention factor does not."""
    frequencies = scaling.Llama3(8, original_length=8192)
    factor = 0.1 * np.log(4.681482597220151) + 1
    magnitude = RotaryMagnitude(attention_factor=factor)
    spec = RoPE(8, pairing="half", scaling=frequencies, magnitude=magnitude)
    found = posenc.infer_spec(implementation(spec), dim=8)
    assert found.matches
    assert isinstance(found.spec, RoPE)
    assert isinstance(found.spec.scalings[0], scaling.YaRN)
    assert found.spec.magnitude == RotaryMagnitude()
    found = posenc.infer_spec(implementation(spec.replace(magnitude=RotaryMagnitude())), dim=8)
    assert isinstance(found.spec, RoPE)
    assert isinstance(found.spec.scalings[0], scaling.Llama3)


@pytest.mark.parametrize("name", drawn([*GRIDS], 2, "detect/infer"))
@pytest.mark.usefixtures("short")
def test_several_axes(name: str) -> None:
    spec = GRIDS[name]
    found = posenc.infer_spec(implementation(spec), dim=spec.dim, axes=spec.axes)
    assert found.spec == spec
    assert found.matches


@pytest.mark.parametrize("order", ["half", "interleaved"])
@pytest.mark.parametrize("part", ["leading", "trailing"])
@pytest.mark.usefixtures("short")
def test_a_part_of_a_head(order: Any, part: Any) -> None:
    spec = RoPE(32, pairing=Pairing(order, part=part))
    found = posenc.infer_spec(implementation(spec), dim=80)
    assert found.spec == spec


@settings(max_examples=8, deadline=None)
@given(
    base=st.integers(2, 10**9),
    pairs=st.sampled_from([8, 20, 32, 64]),
    order=st.sampled_from(["half", "interleaved"]),
)
@example(base=964_004_228, pairs=64, order="half")  # whose square is round in four digits
@pytest.mark.costly
@pytest.mark.usefixtures("short")
def test_any_base_is_solved_for(base: int, pairs: int, order: Any) -> None:
    spec = RoPE(2 * pairs, pairing=order, base=base)
    found = posenc.infer_spec(implementation(spec), dim=spec.dim)
    assert found.matches
    assert isinstance(found.spec, RoPE)
    assert found.spec.channels.order == order
    wanted, got = posenc.frequencies(spec), posenc.frequencies(found.spec)
    assert np.abs(got / wanted - 1).max() < 1e-5


def test_plain_numpy() -> None:
    found = posenc.infer_spec(half_by_hand, dim=64)
    assert found.spec == RoPE(64, pairing="half")
    found = posenc.infer_spec(lambda x, p: half_by_hand(x, p, 123_456.0), dim=64)
    assert isinstance(found.spec, RoPE)
    assert abs(found.spec.base / 123_456 - 1) < 1e-5


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("off", "matches"), [(0.0, True), (1e-14, False)])
def test_a_line_of_frequencies_may_be_off_by_its_rounding(off: float, matches: bool) -> None:
    """`numpy.linspace` rounds to units of its largest number, and errors grow with positions."""
    theta = np.linspace(1.0, 1e-4, 32) + off * (np.arange(32) % 2)

    def mine(x: Any, positions: Any) -> Any:
        angle = positions[:, None] * theta
        a, b, cos, sin = x[..., :32], x[..., 32:], np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    assert posenc.infer_spec(mine, dim=64).matches is matches


LAYOUTS = {
    "batch, heads, seq": lambda x, p: half_by_hand(_rank(x, 4), p),
    "batch, seq": lambda x, p: half_by_hand(_rank(x, 3), p),
    "tokens": lambda x, p: half_by_hand(_rank(x, 2), p),
    "batch, seq, heads": lambda x, p: np.moveaxis(
        half_by_hand(np.moveaxis(_rank(x, 4), 2, 1), p), 1, 2
    ),
    "positions with a batch": lambda x, p: half_by_hand(x, _rank(p, 2)[0]),
}


def _rank(x: Any, rank: int) -> Any:
    if x.ndim != rank:
        raise ValueError(f"rank {x.ndim}")
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("short")
def test_layouts_are_found(layout: str) -> None:
    found = posenc.infer_spec(LAYOUTS[layout], dim=32, framework="numpy")
    assert found.spec == RoPE(32, pairing="half")


def test_what_counts_positions_itself() -> None:
    found = posenc.infer_spec(lambda x: half_by_hand(x, np.arange(x.shape[-2])), dim=32)
    assert found.spec == RoPE(32, pairing="half")
    assert found.matches
    assert found.reach.length == 4097
    assert 4096 < (found.reach.position or 0) < 2**14
    assert "counts tokens itself" in str(found)


@pytest.mark.costly
def test_torch_and_its_neighbours() -> None:
    torch = pytest.importorskip("torch", reason="the framework of most implementations")

    def llama(q: Any, positions: Any) -> Any:
        n = q.shape[-1] // 2
        inverse = 1.0 / 10_000.0 ** (torch.arange(n).float() / n)
        angle = torch.outer(positions.float(), inverse)
        angle = torch.cat([angle, angle], dim=-1)
        rotated = torch.cat([-q[..., n:], q[..., :n]], dim=-1)
        return q * angle.cos() + rotated * angle.sin()

    found = posenc.infer_spec(llama, dim=128)
    assert found.spec == RoPE(128, pairing="half")
    assert found.matches
    assert found.reach.position == 2**20
    assert "torch arrays" in found.notes[0]
    peers = pytest.importorskip("rotary_embedding_torch", reason="a peer")
    module = peers.RotaryEmbedding(32)

    def peer(q: Any, positions: Any) -> Any:
        return peers.apply_rotary_emb(module(positions.float()), q)

    found = posenc.infer_spec(peer, dim=64)
    assert found.spec == RoPE(32, pairing="interleaved")


def test_short_implementations() -> None:
    table = np.arange(100)

    def short(x: Any, positions: Any) -> Any:
        return half_by_hand(x, table[positions])

    found = posenc.infer_spec(short, dim=32)
    assert found.spec == RoPE(32, pairing="half")
    assert found.matches
    assert (found.reach.position, found.reach.differs) == (99, None)
    assert "refused: positions to 1,048,576 (IndexError" in str(found)


@pytest.mark.costly
@pytest.mark.usefixtures("short")
def test_any_permutation_of_pairs() -> None:
    spec = RoPE(32, pairing="half", base=5000)
    order = np.random.default_rng(0).permutation(32)
    back = np.argsort(order)

    def shuffled(x: Any, positions: Any) -> Any:
        return posenc.rotate(spec, x[..., order], positions=positions)[..., back]

    found = posenc.infer_spec(shuffled, dim=32)
    assert found.spec == spec
    assert found.matches
    assert found.channels is not None
    assert sorted(found.channels) == list(range(32))
    x = np.random.default_rng(1).normal(size=(3, 32))
    made = posenc.rotate(spec, x[:, list(found.channels)])
    assert np.abs(made - shuffled(x, np.arange(3))[:, list(found.channels)]).max() < 1e-6


def test_frequencies_that_mix_axes() -> None:
    spec = posenc.MixedRoPE(16, heads=1, pairing="half")
    params = posenc.init(spec, seed=3)

    def mixed(x: Any, positions: Any) -> Any:
        return posenc.rotate(spec, x, positions=positions, params=params)

    found = posenc.infer_spec(mixed, dim=16, axes=("x", "y"))
    assert isinstance(found.spec, posenc.MixedRoPE)
    assert np.abs(found.params["frequencies"] - params["frequencies"]).max() < 1e-5
    assert found.difference < 1e-3 * found.reach.largest


def test_real_coordinates() -> None:
    xy = Arrangement(rule="axial", axes=("y", "x"))
    ladder = posenc.Ladder(first=2 * np.pi)
    spec = RoPE(32, pairing="half", base=100, ladder=ladder, arrangement=xy, phase="real")
    found = posenc.infer_spec(implementation(spec), dim=32, axes=("y", "x"), unit=1 / 64)
    assert isinstance(found.spec, RoPE)
    assert found.matches
    assert found.spec.phase == "real"
    assert np.abs(posenc.frequencies(found.spec) / posenc.frequencies(spec) - 1).max() < 1e-5


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, p: x * 1.0, "equal tokens come out equal"),
        (lambda x, p: half_by_hand(x, p * p), "not a rotation linear in positions"),
        (lambda x, p: half_by_hand(x, np.log1p(p)), "not a rotation linear in positions"),
        (lambda x, p: x[..., ::-1] * 1.0, "equal tokens come out equal"),
        (lambda x, p: np.cumsum(x, axis=-1), "equal tokens come out equal"),
        (lambda x, p: x * np.nan, "no finite numbers"),
    ],
)
def test_what_is_no_rotation(function: Any, words: str) -> None:
    found = posenc.infer_spec(function, dim=8)
    assert found.spec is None
    assert not found.matches
    assert words in str(found)


def test_tiled_sines_are_no_rotation() -> None:
    """The mistake of a published model: sines tiled where cosines are repeated."""

    def tiled(x: Any, positions: Any) -> Any:
        n = x.shape[-1] // 2
        angle = positions[:, None] * 10_000.0 ** (-np.arange(n) / n)
        cos, sin = np.repeat(np.cos(angle), 2, axis=-1), np.tile(np.sin(angle), 2)
        turned = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
        return x * cos + turned * sin

    found = posenc.infer_spec(tiled, dim=16)
    assert found.spec is None
    assert "does not turn as a pair does" in str(found)


def test_mirrored_pairs() -> None:
    def mirrored(x: Any, positions: Any) -> Any:
        y = half_by_hand(x, positions)
        return np.concatenate([y[..., :4], -y[..., 4:]], axis=-1)

    assert "is mirrored" in str(posenc.infer_spec(mirrored, dim=8))


def in_float32(x: Any, positions: Any, base: float = 10_000.0) -> Any:
    """Halves as published code has them: frequencies and angles in float32."""
    n = x.shape[-1] // 2
    inverse = 1 / np.float32(base) ** (np.arange(n, dtype=np.float32) / np.float32(n))
    angle = positions[:, None].astype(np.float32) * inverse
    a, b = x[..., :n], x[..., n:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def from_the_third_call_on(right: Any) -> Any:
    calls = 0

    def function(x: Any, p: Any) -> Any:
        nonlocal calls
        calls += 1
        return right(x, p, 10_000.0 if calls < 3 else 10_500.0)

    return function


def last_head(right: Any, x: Any, p: Any) -> Any:
    y = right(x, p).copy()
    if x.shape[1] > 1:
        y[:, -1] = x[:, -1]
    return y


# Each is right in the calls that an encoding is read from.
HIDDEN: dict[str, Any] = {
    "from 400 on": lambda f: lambda x, p: f(x, p + (p >= 400)),
    "from 2048 on": lambda f: lambda x, p: f(x, p + (p >= 2048)),
    "from 3000 to 3099": lambda f: lambda x, p: f(x, p + ((p >= 3000) & (p < 3100))),
    "from 2**17 on": lambda f: lambda x, p: f(x, p + (p >= 2**17)),
    "clamped": lambda f: lambda x, p: f(x, np.minimum(p, 2047)),
    "wrapped": lambda f: lambda x, p: f(x, p % 4096),
    "positions in float16": lambda f: (
        lambda x, p: f(x, np.minimum(p, 65504).astype(np.float16).astype(np.int64))
    ),
    "NaN from 100,000 on": lambda f: (
        lambda x, p: np.where((p >= 100_000)[:, None], np.nan, f(x, p))
    ),
    "larger from 5000 on": lambda f: lambda x, p: f(x, p) * (1 + 0.001 * (p > 5000))[:, None],
    "dynamic NTK": lambda f: lambda x, p: f(x, p, 10_000.0 * max(1, (p.max() + 1) / 2048) ** 1.1),
    "from the third call on": from_the_third_call_on,
    "the last head": lambda f: lambda x, p: last_head(f, x, p),
    "the second row": lambda f: (
        lambda x, p: f(
            np.where(np.arange(len(x))[:, None, None, None] == 1, 0, x) if len(x) < 16 else x, p
        )
    ),
    "odd batches": lambda f: lambda x, p: f(x, p + len(x) % 2),
    "odd lengths": lambda f: lambda x, p: f(x, p + x.shape[-2] % 2),
    "long sequences": lambda f: lambda x, p: f(x, p + (x.shape[-2] > 4000)),
    "one token": lambda f: lambda x, p: f(x, p + (len(p) == 1)),
    "large numbers": lambda f: lambda x, p: f(x, p) * np.where(np.abs(x) > 100, 2, 1),
    "small numbers": lambda f: lambda x, p: f(np.where(np.abs(x) < 1e-4, 0, x), p),
    "the key": lambda f: lambda x, p: (f(x, p), f(x, p + 1)),
}


@pytest.mark.parametrize(
    ("right", "faults"),
    [
        (half_by_hand, [*HIDDEN][::2]),
        (in_float32, [*HIDDEN][1::4]),
        *(
            pytest.param(right, [*HIDDEN], marks=pytest.mark.slow("detect/infer", "detect/subject"))
            for right in (half_by_hand, in_float32)
        ),
    ],
)
@pytest.mark.costly
def test_a_hidden_fault_is_no_match(right: Any, faults: list[str]) -> None:
    found = posenc.infer_spec(right, dim=16, framework="numpy")
    assert found.spec == RoPE(16, pairing="half")
    assert found.matches
    reach = found.reach
    assert (reach.position, reach.differs, reach.heads) == (2**20, None, 33)
    assert reach.positions > 4096
    assert reach.calls < found.probes
    assert "agrees to position 1,048,576" in str(found)
    missed = []
    for name in faults:
        found = posenc.infer_spec(HIDDEN[name](right), dim=16, framework="numpy")
        if found.matches:
            missed.append(name)
        elif "from" in name and name.split()[1].isdigit():
            assert found.reach.differs == int(name.split()[1]), name
    assert missed == []


@pytest.mark.parametrize("base", [10_000.1, 499_999.0, 500_000.0, 1_000_003.0, 123_456.789])
@pytest.mark.usefixtures("short")
def test_a_base_is_told_to_the_precision_of_the_code(base: float) -> None:
    """No rounder base is taken that fits less well than the code computes."""
    found = posenc.infer_spec(lambda x, p: half_by_hand(x, p, base), dim=64, framework="numpy")
    assert found.spec == RoPE(64, pairing="half", base=base)
    assert found.matches
    assert found.tolerance < 1e-9


# --- recordings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "width"),
    [
        (RoPE(64, pairing="half"), 64),
        (RoPE(64, pairing="interleaved", base=500_000), 64),
        (RoPE(32, pairing=Pairing("half", part="trailing")), 48),
        (SPECS["llama3"], 128),
    ],
)
def test_recordings(spec: Any, width: int) -> None:
    x = np.random.default_rng(1).normal(size=(2, 4, 300, width)).astype("float32")
    y = posenc.rotate(spec, x)
    found = posenc.infer_spec((x, y, np.arange(300)))
    assert found.spec == spec
    assert found.matches
    assert found.probes == 0
    named = {"input": x, "output": y, "positions": np.arange(300)}
    assert posenc.infer_spec(named).spec == spec


def test_recordings_that_begin_late_and_permuted_ones() -> None:
    spec = RoPE(32, pairing="half")
    order = np.random.default_rng(0).permutation(32)
    x = np.random.default_rng(1).normal(size=(1, 2, 100, 32)).astype("float32")
    y = posenc.rotate(spec, x[..., order], offset=1000)[..., np.argsort(order)]
    found = posenc.infer_spec((x, y, np.arange(1000, 1100)))
    assert found.spec == spec
    assert found.channels is not None


YARN = RoPE(128, pairing="half", base=1e6, scaling=scaling.YaRN(4, original_length=32768))
LONG = RoPE(64, pairing="half", base=5e5, scaling=scaling.Llama3(32, original_length=8192))
SHORT = RoPE(64, pairing="half", scaling=scaling.Llama3(8, original_length=8192))


@pytest.mark.parametrize(
    ("spec", "dtype", "first", "count", "decided"),
    [
        (YARN, "bfloat16", 0, 128, True),
        (YARN, "float16", 100, 256, True),
        (SPECS["llama3"], "bfloat16", 1000, 64, True),
        (RoPE(64, pairing="half", base=850_000), "bfloat16", 0, 128, True),  # solved for
        (LONG, "bfloat16", 0, 32, False),
        (SHORT, "bfloat16", 0, 16, True),  # rivals are those that fit as well, not all that fit
        (YARN.replace(scaling=scaling.YaRN(3, original_length=5000)), "bfloat16", 0, 128, False),
    ],
)
def test_recordings_in_half_precision(
    spec: Any, dtype: str, first: int, count: int, decided: bool
) -> None:
    """The rule is told; or what fits as well, or that nothing does: no guess is a match."""
    x = rounded(np.random.default_rng(1).normal(size=(8, count, spec.dim)), dtype)
    y = rounded(posenc.rotate(spec, x, offset=first), dtype)
    found = posenc.infer_spec((x, y, np.arange(first, first + count)))
    assert found.matches == decided
    assert found.spec == spec or spec in found.alternatives or (not decided and not found.spec)
    text = f"{found} {found.to_dict()}"
    assert ("or, as well" in text) == bool(found.alternatives)


def test_what_is_not_understood_says_what_to_hand_over() -> None:
    """The pair of XPOS about the middle of a sequence, tables beside a scale, timesteps."""
    spec = posenc.XPos(64, pairing="interleaved")

    def centred(q: Any, k: Any) -> tuple[Any, Any]:
        own = spec.replace(centre=q.shape[-2] // 2)
        return posenc.rotate(own, q), posenc.rotate(own, k, role="key")

    found = posenc.infer_spec(centred, dim=64)
    assert isinstance(found.spec, posenc.XPos)
    assert not found.matches
    assert "its centre follows the length of a sequence (189 of 378 tokens, 28 of 56)" in str(found)

    def make(q: Any) -> Any:
        return np.multiply.outer(np.arange(q.shape[-2]), 10_000.0 ** (-np.arange(32) / 32)), 1

    def apply(q: Any, k: Any, freqs: Any, scale: Any) -> Any:
        angle = freqs[-q.shape[-2] :] * scale.ndim
        return q * np.cos(np.tile(angle, 2)), k

    def timesteps(hidden_states: Any, scale: float = 1000.0) -> Any:
        angle = scale * hidden_states[:, None] * 10_000.0 ** (-np.arange(32) / 31)
        return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(hidden_states.dtype)

    with pytest.raises(posenc.CannotAsk, match="such as lambda q, k: apply"):
        posenc.ask((make, apply))
    verbs: dict[str, Any] = {"ask": posenc.ask, "infer": posenc.infer, "check": posenc.check}
    for name, verb in verbs.items():
        with pytest.raises(posenc.CannotAsk, match=f"^{name}: expected a function"):
            verb(None)
    with pytest.raises(posenc.CannotAsk, match=r"lambda positions: f\(positions / 1000\)"):
        posenc.ask(timesteps)


def test_recordings_that_say_too_little() -> None:
    x = np.random.default_rng(1).normal(size=(3, 16))
    found = posenc.infer_spec((x, posenc.rotate(RoPE(16, pairing="half"), x), np.arange(3)))
    assert "too few" in str(found)
    x = np.random.default_rng(1).normal(size=(40, 16))
    assert "the same" in str(posenc.infer_spec((x, x, np.arange(40))))
    noise = np.random.default_rng(2).normal(size=(40, 16))
    assert "no two channels form a pair" in str(posenc.infer_spec((x, noise, np.arange(40))))
    y = posenc.rotate(RoPE(16, pairing="half"), x, positions=np.arange(40) * 7)
    assert "one step apart" in str(posenc.infer_spec((x, y, np.arange(40) * 7 + 3)))


# --- tables and biases ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        posenc.Sinusoidal(64),
        posenc.Sinusoidal(64, order="sin_cos", ladder=posenc.Ladder(denominator="n-1")),
        posenc.Sinusoidal(128, base=123.0),
        posenc.Sinusoidal(64, arrangement=Arrangement(start=2)),
    ],
)
@pytest.mark.usefixtures("short")
def test_tables(spec: Any) -> None:
    found = posenc.infer_spec(lambda p: posenc.table(spec, p))
    assert found.spec == spec
    assert found.matches


def test_tables_behind_axes_of_one() -> None:
    spec = posenc.Sinusoidal(16)
    found = posenc.infer_spec(lambda p: posenc.table(spec, p)[None, None], kind="table")
    assert found.spec == spec


def test_two_tables_at_once_are_refused() -> None:
    message = r"5 positions became"
    with pytest.raises(posenc.ArgumentError, match=message):
        posenc.infer_spec(lambda p: np.zeros((2, np.size(p), 4)), kind="table", framework="numpy")


def test_calls_that_failed_count() -> None:
    short = posenc.table(posenc.Sinusoidal(16), 128)
    calls = 0

    def ends(positions: Any) -> Any:
        nonlocal calls
        calls += 1
        if np.max(positions) >= len(short):
            raise IndexError(positions)
        return short[positions]

    found = posenc.infer_spec(ends, kind="table", framework="numpy")
    assert found.spec == posenc.Sinusoidal(16)
    assert found.probes == calls
    assert found.matches
    assert (found.reach.position, found.reach.differs) == (127, None)


def test_a_table_of_no_known_rule_is_none() -> None:
    weight = np.random.default_rng(0).normal(size=(512, 32))
    assert "no sinusoidal convention that posenc knows" in str(
        posenc.infer_spec(lambda p: weight[p])
    )


@pytest.mark.parametrize(
    "spec",
    [
        posenc.ALiBi(8),
        posenc.ALiBi(12),
        posenc.ALiBi(12, recipe="geometric"),
        posenc.ALiBi(8, form="causal"),
        posenc.ALiBi(8, form="key_only"),
        posenc.T5(8),
        posenc.T5(4, direction="causal", buckets=16),
        posenc.T5(4, buckets=320, max_distance=800),
        posenc.T5(4, buckets=512, max_distance=2048),
        posenc.T5(4, buckets=34, max_distance=100),
        posenc.T5(4, buckets=48, max_distance=200),
        posenc.T5(4, buckets=33, max_distance=777, direction="causal"),
        posenc.Decay(4),
        posenc.Decay(6, recipe="even"),
        posenc.KERPLE(4),
        posenc.KERPLE(3, form="power"),
    ],
)
@pytest.mark.usefixtures("short")
def test_biases(spec: Any) -> None:
    params = posenc.init(spec, seed=1) or None
    found = posenc.infer_spec(lambda q, k: posenc.bias(spec, q, k, params=params))
    assert found.spec == spec
    assert found.matches
    if isinstance(spec, posenc.KERPLE):
        for name, values in found.params.items():
            np.testing.assert_allclose(values, params[name], rtol=1e-5)
    elif params:
        reached = np.unique(spec.bucket(np.arange(-3000, 3000)))
        assert (found.params["weight"][reached] == params["weight"][reached]).all()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("late", [0.0, 0.5])
def test_a_number_for_each_query_changes_no_softmax(late: float) -> None:
    slopes = posenc.ALiBi(12).arrays["slopes"].astype(np.float32)

    def score_mod(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        rel = np.asarray(kv_idx - q_idx, dtype=np.float32)
        return score + rel * slopes[head] + np.float32(late) * (kv_idx > 400)

    found = posenc.infer_spec(score_mod, heads=12)
    assert found.spec == posenc.ALiBi(12, form="key_only")
    assert found.matches == (late == 0)
    assert "changes no softmax" in str(found)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("floor", [-np.inf, -1e9, float(np.finfo(np.float32).min), -3.0])
def test_a_causal_mask_may_be_a_large_number(floor: float) -> None:
    def masked(q_positions: Any, k_positions: Any) -> Any:
        after = np.asarray(k_positions)[None] > np.asarray(q_positions)[:, None]
        return np.where(after, floor, posenc.bias(posenc.ALiBi(8), q_positions, k_positions))

    found, places = posenc.infer_spec(masked), np.arange(40)
    [finding] = posenc.identify({"relative_position_bias": masked(places, places)}).findings
    is_mask = floor < -5000
    assert (
        found.matches == is_mask == ("are masked" in str(found)) == ("are masked" in str(finding))
    )
    if is_mask:
        assert found.spec == finding.spec == posenc.ALiBi(8, form="causal")


@pytest.mark.costly
@settings(max_examples=10, deadline=None)
@given(
    side=st.integers(2, 150),
    ratio=st.floats(3, 20),
    direction=st.sampled_from(["bidirectional", "causal"]),
)
@pytest.mark.usefixtures("short")
def test_any_buckets_are_solved_for(side: int, ratio: float, direction: Any) -> None:
    exact = side // 2
    spec = posenc.T5(
        2,
        buckets=side * (2 if direction == "bidirectional" else 1),
        max_distance=max(exact + 1, int(exact * ratio)),
        direction=direction,
    )
    params = posenc.init(spec, seed=1)
    found = posenc.infer_spec(lambda q, k: posenc.bias(spec, q, k, params=params))
    assert found.matches
    rel = np.arange(-5000, 5000)
    assert isinstance(found.spec, posenc.T5)
    assert (found.spec.bucket(rel) == spec.bucket(rel)).all()


@pytest.mark.costly
@pytest.mark.parametrize("end", [300, 5000, 100_000])
def test_a_table_or_a_bias_that_is_wrong_late_is_no_match(end: int) -> None:
    def late(p: Any) -> Any:
        return p + (p >= end)

    found = posenc.infer_spec(lambda p: posenc.table(posenc.Sinusoidal(32), late(p)))
    assert not found.matches
    assert found.reach.differs is None or found.reach.differs >= end
    for spec in (posenc.ALiBi(4), posenc.KERPLE(4)):
        params = posenc.init(spec) or None
        found = posenc.infer_spec(
            lambda q, k, s=spec, w=params: posenc.bias(s, late(q), late(k), params=w)
        )
        assert not found.matches


@pytest.mark.costly
def test_what_is_no_bias_of_distance() -> None:
    rng = np.random.default_rng(0)
    content = rng.normal(size=(2, 256, 256))
    assert "more than the distance" in str(posenc.infer_spec(lambda q, k: content[:, q][:, :, k]))
    by_distance = rng.normal(size=(2, 511))
    found = posenc.infer_spec(lambda q, k: by_distance[:, k[None, :] - q[:, None] + 255])
    assert found.spec is None


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "more", "words"),
    [
        ((lambda x, p: x,), {"dim": 1}, "2 to 4,096"),
        ((lambda x, p: x,), {"dim": "64"}, "dim: expected an integer or None, got '64'"),
        ((lambda x, p: x,), {"kind": "none"}, "'rotary' or 'cos_sin'"),
        ((lambda x, p: x,), {"dim": 8, "axes": "hw"}, "a tuple of names"),
        ((lambda x, p: 1 / 0,), {"dim": 8}, "ZeroDivisionError"),
        ((lambda p: 1 / 0,), {}, "ZeroDivisionError"),
        ((lambda q, k: 1 / 0,), {}, "ZeroDivisionError"),
        ((3,), {}, "a function, "),
        (({"input": 1},), {}, "the names input"),
        (((np.ones((4, 4)), np.ones((4, 5)), np.arange(4)),), {}, "one shape"),
        (((np.ones((4, 4)), np.ones((4, 4)), np.arange(5)),), {}, "for each token"),
    ],
)
def test_mistakes(arguments: Any, more: Any, words: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=words):
        posenc.infer_spec(*arguments, **more)


@pytest.mark.usefixtures("short")
def test_the_result_is_json() -> None:
    for source, more in (
        (half_by_hand, {"dim": 16}),
        (lambda x, p: x * 1.0, {"dim": 16}),
        (lambda q, k: posenc.bias(posenc.ALiBi(4), q, k), {}),
    ):
        found = posenc.infer_spec(source, **more)
        told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        if found.spec is not None:
            assert posenc.from_json(json.dumps(told["spec"])) == found.spec


def test_arguments_are_not_written_to() -> None:
    x = np.random.default_rng(1).normal(size=(40, 16))
    kept = x.copy()
    y = posenc.rotate(RoPE(16, pairing="half"), x)
    posenc.infer_spec((x, y, np.arange(40)))
    assert (x == kept).all()

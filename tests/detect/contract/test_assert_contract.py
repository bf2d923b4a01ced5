"""Implementations held to contracts: what passes, what is named, what is not claimed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.scaling import LongRoPE, YaRN
from posenc.testing import assert_contract
from tests.detect.infer.test_infer import short  # noqa: F401 - a fixture

BASE = 10_000.0
WIDTH = 16
CONTRACT = posenc.golden(posenc.RoPE(WIDTH, pairing="half"))


class Plain:
    """A rotation as it is written in most models, float32 throughout."""

    base, start, factor, order = BASE, 0, 1.0, "half"

    def frequencies(self) -> np.ndarray:
        steps = np.arange(0, WIDTH, 2, dtype="f4") / np.float32(WIDTH)
        return (1 / np.float32(self.base) ** steps).astype("f4")

    def cos_sin(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = (positions[:, None] + self.start).astype("f4") * self.frequencies()
        return self.factor * np.cos(angles), self.factor * np.sin(angles)

    def rotate(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        cos, sin = self.cos_sin(positions)
        if self.order == "half":
            a, b = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)

    def logit_scale(self, positions: np.ndarray) -> np.ndarray:
        return np.ones(len(positions))

    def position_ids(self, case: dict[str, Any]) -> np.ndarray:
        if case["case"] == "left padding":
            mask = case["mask"].reshape(case["shape"])
            return np.where(mask == 1, np.cumsum(mask, -1) - 1, 1)
        if case["case"] == "packed":
            ends = case["cumulative_lengths"]
            return np.concatenate([np.arange(n) for n in np.diff(ends)])
        return case["past"] + np.arange(case["tokens"])


@pytest.mark.usefixtures("whole_surveys")
def test_what_follows_the_contract_passes_and_is_told_how_far() -> None:
    report = assert_contract(Plain, CONTRACT)
    assert [told.split(", called")[0] for told in report.compared] == [
        "spec: rotate, a rotation",
        "spec: cos_sin, cosines and sines",
        "spec: frequencies, 8 numbers at every length",
        "spec: logit_scale, in 5 calls to position 1,048,576",
        "spec: position_ids (left padding), from wherever a row begins to count",
        "spec: position_ids (packed)",
        "spec: position_ids (cached step)",
    ]
    for told in report.compared[:2]:
        assert "agrees to position 1,048,576" in told
        assert "each to 4,096, then one in every 128" in told
    (told,) = report.not_compared  # it cuts the channels in halves of its own width
    assert told.startswith("spec: rotate, wider heads (ValueError: operands could not")


def changed(**fields: Any) -> Any:
    return type("Changed", (Plain,), fields)()


def left_out(x: np.ndarray, turned: np.ndarray) -> np.ndarray:
    return np.concatenate([turned[:, :1], x[:, 1:]], axis=1)


def ids(wrong: str, answer: Any) -> Any:
    def position_ids(self: Any, case: dict[str, Any]) -> Any:
        return answer(case) if case["case"] == wrong else Plain.position_ids(self, case)

    return changed(position_ids=position_ids)


MUTANTS = {
    "another base": (changed(base=10_100.0), r"10000 against 10100; cos and sin to position"),
    "one position late": (changed(start=1), r"positions: position p against position p \+ 1"),
    "an attention factor": (changed(factor=1.01), r"attention_factor: 1 against 1.01"),
    "another pairing": (changed(order="interleaved"), r"pairing.order: half against interleaved"),
    "a head that is left out": (
        changed(rotate=lambda self, x, positions: left_out(x, Plain.rotate(self, x, positions))),
        r"heads: turned alike against otherwise in 0 of 4",
    ),
    "a scale of scores": (
        changed(logit_scale=lambda self, positions: np.full(len(positions), 1.5)),
        r"logit_scale: 1 against 1.5",
    ),
    "padding counted in one row as in the other": (
        ids("left padding", lambda case: np.array([[0, 0, 0, 0, 0], [0, 1, 2, 3, 4]])),
        r"positions: left padding: 0, 0, 0, 1, 2, .* against 0, 0, 0, 0, 0",
    ),
    "packed without a restart": (
        ids("packed", lambda case: np.arange(9)),
        r"positions: packed: 0, 1, 2, 0, 1, .* against 0, 1, 2, 3, 4",
    ),
    "a cache that is one short": (
        ids("cached step", lambda case: np.array([case["past"] - 1])),
        r"positions: cached step: 257 against 256",
    ),
    "positions in bfloat16": (
        changed(cos_sin=lambda self, positions: Plain.cos_sin(self, (positions >> 8) << 8)),
        r"positions: position p against 1 is taken for 0",
    ),
    "NaN": (
        changed(cos_sin=lambda self, positions: (np.full((len(positions), 8), np.nan),) * 2),
        r"numbers: finite against NaN or infinite, first at position 0",
    ),
    "one pair too few": (
        lambda layer: Plain().frequencies()[:-1],
        r"dim: 16 against a partial rotation, of 14 of 16 channels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_what_differs_is_named(name: str) -> None:
    side, words = MUTANTS[name]
    with pytest.raises(AssertionError, match=words):
        assert_contract(side, CONTRACT)


def test_a_row_of_distances_may_begin_to_count_anywhere_and_one_of_a_table_may_not() -> None:
    def padding_counted(case: dict[str, Any]) -> Any:
        if case["case"] != "left padding":
            raise NotImplementedError
        return np.tile(np.arange(5), (2, 1))

    side = changed(position_ids=lambda self, case: padding_counted(case))
    told = "spec: position_ids (left padding), from wherever a row begins to count"
    assert told in assert_contract(side, CONTRACT).compared
    assert told in posenc.diff(CONTRACT, side).compared
    table = posenc.golden(posenc.Learned(4, length=9))
    with pytest.raises(AssertionError, match=r"left padding: 0, 0, 0, 1, 2.* against 0, 1, 2"):
        assert_contract(side, table)
    assert posenc.diff(table, side).differences[0].field == "positions"
    warm = posenc.RotaryMagnitude(temperature=posenc.Temperature(rule="log", length=512))
    absolute = posenc.golden(posenc.RoPE(WIDTH, pairing="half", magnitude=warm))
    with pytest.raises(AssertionError, match=r"left padding: 0, 0, 0, 1, 2.* against 0, 1, 2"):
        assert_contract(side, absolute)
    layer = posenc.Layer(
        "a", spec=posenc.Learned(4, length=9), positions=posenc.Positions("arange")
    )
    assert assert_contract(side, posenc.golden(posenc.Reading((layer,)))).compared


def test_functions_are_known_by_their_parameters() -> None:
    plain = Plain()

    def rotate(x: Any, positions: Any) -> Any:
        return plain.rotate(x, positions)

    def cos_sin(positions: Any) -> Any:
        return plain.cos_sin(positions)

    def table(positions: Any, layer: str) -> Any:
        assert layer == "spec"
        return posenc.table(posenc.Sinusoidal(6), positions)

    def bias(q_positions: Any, k_positions: Any) -> Any:
        away = np.abs(k_positions[None] - q_positions[:, None])
        return -np.array([1 / 16, 1 / 256])[:, None, None] * away

    for side, contract in (
        (rotate, CONTRACT),
        (cos_sin, CONTRACT),
        (plain.frequencies, CONTRACT),
        (table, posenc.golden(posenc.Sinusoidal(6))),
        (bias, posenc.golden(posenc.ALiBi(2))),
    ):
        compared = assert_contract(side, contract).compared
        assert {told.split(":")[1].split(",")[0].strip() for told in compared} == {side.__name__}
    for wrong in (3, object()):
        with pytest.raises(posenc.ArgumentError, match="any of the methods"):
            assert_contract(wrong, CONTRACT)
    with pytest.raises(AssertionError, match="the answers do not depend on positions"):
        assert_contract(lambda tokens: tokens, CONTRACT)


@pytest.mark.parametrize("layout", ["halves", "channels"])
def test_cosines_of_each_channel(layout: str) -> None:
    contract = posenc.golden(posenc.RoPE(WIDTH, pairing="interleaved"))

    def cos_sin(positions: Any) -> Any:
        pairs = Plain().cos_sin(positions)
        if layout == "halves":
            return tuple(np.concatenate([each, each], -1)[None] for each in pairs)
        return tuple(np.repeat(each, 2, -1) for each in pairs)

    assert len(assert_contract(cos_sin, contract).compared) == 1


def test_nothing_compared_is_no_agreement() -> None:
    with pytest.raises(AssertionError, match="nothing of the contract was compared"):
        assert_contract(lambda q, k: np.zeros((1, 1, 1)), CONTRACT)

    with pytest.raises(AssertionError, match=r"5 positions became \(9, 8\)"):
        assert_contract(lambda positions: np.zeros((9, 8)), CONTRACT)

    class Silent:
        def cos_sin(self, positions: Any) -> Any:
            raise NotImplementedError("compiled into the kernel")

    with pytest.raises(AssertionError, match="compiled into the kernel"):
        assert_contract(Silent, CONTRACT)
    learned = posenc.golden(posenc.T5(2))
    with pytest.raises(AssertionError, match="bias: its values are learned"):
        assert_contract(lambda q, k: np.zeros((2, len(q), len(k))), learned)


def test_errors_of_a_side_are_its_own() -> None:
    def rotate(x: Any, positions: Any) -> Any:
        raise RuntimeError("out of cache")

    with pytest.raises(RuntimeError, match="out of cache"):
        assert_contract(rotate, CONTRACT)


def test_layers_are_asked_by_name() -> None:
    layers = (
        posenc.Layer("local", spec=posenc.RoPE(WIDTH, pairing="half")),
        posenc.Layer("global", spec=posenc.RoPE(WIDTH, pairing="half", base=1e6)),
    )
    contract = posenc.golden(posenc.Reading(layers))

    class Named(Plain):
        def frequencies(self, layer: str = "") -> np.ndarray:  # type: ignore[override]
            self.base = {"local": BASE, "global": 1e6}[layer]
            return super().frequencies()

    report = assert_contract(Named, contract)
    assert [told for told in report.compared if "frequencies" in told] == [
        "local: frequencies, 8 numbers at every length",
        "global: frequencies, 8 numbers at every length",
    ]
    assert (
        "local: cos_sin: it takes no `layer`, and several parts have one; choose one by `layers`"
        in (report.not_compared)
    )
    assert len(assert_contract(Plain, contract, layers=["local"]).compared) == 7
    with pytest.raises(AssertionError, match=r"global: base: 1000000 against 10000"):
        assert_contract(Plain, contract, layers=["global"])
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'local'"):
        assert_contract(Plain, contract, layers=["locale"])


def test_lengths_are_asked_where_frequencies_depend_on_them() -> None:
    scaling = LongRoPE((1.0,) * 8, (4.0,) * 8, original_length=4096, factor=4)
    contract = posenc.golden(posenc.RoPE(WIDTH, pairing="half", scaling=scaling))

    def frequencies(length: int) -> np.ndarray:
        return Plain().frequencies() / (4 if length > 4096 else 1)

    compared = assert_contract(frequencies, contract).compared
    assert compared == ("spec: frequencies, 8 numbers of sequences of 4096 and 8192",)
    with pytest.raises(AssertionError, match="LongRoPE.* against none .LongRoPE is left out"):
        assert_contract(lambda length: Plain().frequencies(), contract)
    found = assert_contract(lambda: Plain().frequencies(), contract)
    assert found.compared == ("spec: frequencies, 8 numbers of sequences of 512",)


def test_bfloat16_of_float32_angles_passes_and_bfloat16_angles_fail() -> None:
    torch = pytest.importorskip("torch")
    scaling = YaRN(8, original_length=4096)
    contract = posenc.golden(posenc.RoPE(WIDTH, pairing="half", scaling=scaling))
    rope = posenc.RoPE(WIDTH, pairing="half", scaling=scaling)
    f = torch.from_numpy(posenc.frequencies(rope)).float()
    m = rope.attention_factor

    def right(positions: Any) -> Any:
        angles = positions[:, None].float() * f
        return (m * angles.cos()).bfloat16(), (m * angles.sin()).bfloat16()

    def wrong(positions: Any) -> Any:
        angles = positions[:, None].bfloat16() * f.bfloat16()
        return m * angles.cos(), m * angles.sin()

    assert_contract(right, contract, dtype="bfloat16", library="torch")
    with pytest.raises(AssertionError, match="cos and sin to position [0-9]+ differ by"):
        assert_contract(wrong, contract, dtype="bfloat16", library="torch")
    with pytest.raises(AssertionError, match="dtype: cos and sin in float32 against in bfloat16"):
        assert_contract(right, contract, library="torch")
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'bfloat16'"):
        assert_contract(right, contract, dtype="bfloat")


@pytest.mark.costly
@pytest.mark.usefixtures("short")
def test_jax_arrays() -> None:
    jnp = pytest.importorskip("jax.numpy")

    def cos_sin(positions: Any) -> Any:
        angles = positions[:, None].astype(jnp.float32) * jnp.asarray(Plain().frequencies())[None]
        return jnp.cos(angles), jnp.sin(angles)

    assert assert_contract(cos_sin, CONTRACT, library="jax").compared


@pytest.mark.costly
def test_the_fixture_finds_the_file_beside_the_test(tmp_path: Path) -> None:
    CONTRACT.save(tmp_path / "model.golden.json")
    (tmp_path / "test_it.py").write_text("""
import numpy as np
import pytest

@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_positions(base, assert_contract):
    def cos_sin(positions):
        angles = positions[:, None] * base ** -(np.arange(8) / 8)
        return np.cos(angles), np.sin(angles)

    assert assert_contract(cos_sin, "model.golden.json").compared
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    if not installed():
        command += ["-p", "posenc.testing.pytest_plugin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "spec: base: 10000 against 500; cos and sin to position" in done.stdout


def installed() -> bool:
    import importlib.metadata

    found = importlib.metadata.entry_points(group="pytest11")
    return any(entry.value == "posenc.testing.pytest_plugin" for entry in found)

"""Contracts: their numbers against plain arithmetic, their files, and what is no contract."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import posenc
from posenc import registry
from posenc._core.io import files
from posenc._core.spec.checks import small
from posenc.detect.contract import files as contract_files, read
from posenc.detect.contract.contract import canonical, digest
from posenc.detect.contract.files import text_of
from posenc.scaling import DynamicNTK, Llama3, LongRoPE, YaRN
from tests.detect.configs import VERSION_4
from tests.detect.contract.json_schema import violation
from tests.detect.explain.test_gguf import BASIC, written
from tests.tolerances import FLOAT64, assert_close

ROOT = Path(__file__).resolve().parents[3]
PLACES = [0, 1, 2, 257, 4095, 4096, 4097, 131_071, 2**20]
LLAMA = VERSION_4["llama 3.1"]
ROPE = posenc.RoPE(8, pairing="half")


@functools.cache
def of_rope() -> posenc.Contract:
    """The contract that tests of files spoil."""
    return posenc.golden(ROPE)


def saved(contract: posenc.Contract, folder: Path, name: str = "model.golden.json") -> Path:
    contract.save(folder / name, existing="replace")
    return folder / name


def resealed(text: bytes) -> bytes:
    """A text of version 2 that was changed, with the digest of what it is now."""
    if b'"sha256": "' not in text[-79:]:
        return text
    return text[:-79] + b'"sha256": "%s"\n}\n' % hashlib.sha256(text[:-79]).hexdigest().encode()


def sealed(data: dict[str, Any]) -> bytes:
    """Values of version 2 as a text with the digest of it."""
    text = json.dumps({key: value for key, value in data.items() if key != "sha256"})
    return resealed(f'{text[:-1]},\n"sha256": "{"0" * 64}"\n}}\n'.encode())


def first_version(contract: posenc.Contract) -> str:
    """The text of a contract as version 1 has it: neither a count nor a digest."""
    data = {**contract.to_dict(), "version": 1}
    lines = text_of(contract).splitlines()
    lines[2:4] = ['"version": 1,', f'"fingerprint": "{digest(data)}",']
    return "\n".join([*lines[:-4], "]" if contract.checks else lines[-4][:-1], "}", ""])


# --- the numbers ----------------------------------------------------------------------------------


def turned(x: list[float], pairs: list[tuple[int, int]], angles: list[Any], m: float) -> list[Any]:
    """A rotation in plain loops, exact to 40 digits."""
    y = [mpmath.mpf(value) for value in x]
    for (a, b), angle in zip(pairs, angles, strict=True):
        c, s = m * mpmath.cos(angle), m * mpmath.sin(angle)
        y[a], y[b] = x[a] * c - x[b] * s, x[b] * c + x[a] * s
    return y


@pytest.mark.parametrize("order", ["half", "interleaved"])
def test_a_rotation_is_what_plain_arithmetic_gives(order: Any) -> None:
    dim, base, m = 16, 500_000.0, 1.25
    spec = posenc.RoPE(
        dim, pairing=order, base=base, magnitude=posenc.RotaryMagnitude(attention_factor=m)
    )
    contract = posenc.golden(spec)
    (known,) = contract.of("spec", "frequencies")
    rows = contract.of("spec", "angles")
    assert [row["position"].tolist() for row in rows] == [[p] for p in PLACES]
    with mpmath.workdps(40):
        f = [mpmath.mpf(base) ** (mpmath.mpf(-2 * j) / dim) for j in range(dim // 2)]
        assert known["frequencies"].tolist() == [float(value) for value in f]
        floats = [float(np.float32(float(value))) for value in f]
        assert known["frequencies_float32"].tolist() == floats
        pairs = [
            (j, j + dim // 2) if order == "half" else (2 * j, 2 * j + 1) for j in range(dim // 2)
        ]
        q = [((7 * c + 3) % 17 - 8) / 8 for c in range(dim)]
        k = [((5 * c + 1) % 13 - 6) / 8 for c in range(dim)]
        assert known["query"].tolist() == q
        assert known["key"].tolist() == k
        queries, keys = [], []
        for row, p in zip(rows, PLACES, strict=True):
            angles = [p * value for value in f]
            queries.append(turned(q, pairs, angles, m))
            keys.append(turned(k, pairs, angles, m))
            # A phase is an integer: 1.8e-19 for each position, beside the roundings of float64.
            bound = 1e-15 + 4e-19 * p
            for name, exact in (
                ("cos", [m * mpmath.cos(a) for a in angles]),
                ("sin", [m * mpmath.sin(a) for a in angles]),
                ("rotated_query", queries[-1]),
                ("rotated_key", keys[-1]),
            ):
                assert_close(row[name], np.array(exact, dtype=float), 4 * bound, f"{name} at {p}")
        scores = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in keys] for x in queries]
    (product,) = contract.of("spec", "scores")
    assert product["positions"].tolist() == PLACES
    assert_close(product["scores"], np.array(scores, dtype=float).ravel(), 1e-11, "scores")


def test_tolerances_are_the_stated_bounds() -> None:
    contract = posenc.golden(posenc.RoPE(16, pairing="half"))
    f = contract.of("spec", "frequencies")[0]["frequencies"]
    for row in contract.of("spec", "angles"):
        p = row["position"][0]
        size = max(p * x * (4 + abs(math.log(x))) + 2 for x in f.tolist())
        assert row["tolerance_float64"] == pytest.approx(2.0**-53 * size)
        assert row["tolerance_float32"] == pytest.approx(2.0**-24 * size)
        assert row["tolerance_float16"] == pytest.approx(2.0**-24 * size + 2.0**-11)
        assert row["tolerance_bfloat16"] == pytest.approx(2.0**-24 * size + 2.0**-8)
        for dtype, u in (("float32", 2.0**-24), ("bfloat16", 2.0**-8)):
            bound = 2 * (row[f"tolerance_{dtype}"] + 3 * u)
            assert row[f"rotated_tolerance_{dtype}"] == pytest.approx(bound)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0, 1e7])
def test_angles_in_float32_are_within_their_tolerance(base: float) -> None:
    """An engine as they are, at all positions of the contract."""
    dim = 128
    f = (1 / np.float32(base) ** (np.arange(0, dim, 2, dtype="f4") / np.float32(dim))).astype("f4")
    contract = posenc.golden(posenc.RoPE(dim, pairing="half", base=base))
    used = []
    for row in contract.of("spec", "angles"):
        angles = np.float32(row["position"][0]) * f
        off = np.abs(np.cos(angles) - row["cos"]).max()
        assert off <= row["tolerance_float32"]
        used.append(off / row["tolerance_float32"])
    assert 0.05 < max(used) <= 1


def test_the_original_length_settles_positions() -> None:
    contract = posenc.golden(LLAMA)
    where = [row["position"][0] for row in contract.of("attention", "angles")]
    assert where == sorted({*PLACES, 8191, 8192, 8193})
    part = contract["attention"]
    assert (part.length, part.original_length, part.layers) == (131_072, 8192, None)


@pytest.mark.parametrize(
    ("scaling", "lengths"),
    [
        (LongRoPE((1.0,) * 8, (4.0,) * 8, original_length=4096, factor=4), (4096, 8192)),
        (DynamicNTK(2, original_length=2048), (2048, 4096)),
    ],
)
def test_what_depends_on_the_length_has_two_states(scaling: Any, lengths: Any) -> None:
    spec = posenc.RoPE(16, pairing="half", scaling=scaling)
    contract = posenc.golden(spec)
    assert contract["spec"].states == ("short", "long")
    original = scaling.original_length
    wanted = sorted({*PLACES, original - 1, original, original + 1})
    for state, length in zip(("short", "long"), lengths, strict=True):
        (known,) = contract.of("spec", "frequencies", state)
        assert known["length"] == length
        assert (known["frequencies"] == posenc.frequencies(spec.at(length))).all()
        rows = contract.of("spec", "angles", state)
        assert [r["position"][0] for r in rows] == [p for p in wanted if p < length]
        for row in rows:
            cos, _ = posenc.cos_sin(spec, row["position"], length=length, dtype="float64")
            assert (row["cos"] == cos[0]).all()


def test_the_magnitude_is_where_it_acts() -> None:
    scaling = YaRN(40, original_length=4096, mscale=1.0, mscale_all_dim=0.5)
    (known,) = posenc.golden(posenc.RoPE(16, pairing="half", scaling=scaling)).of(
        "spec", "frequencies"
    )
    assert (known["acts"], known["logit_factor"]) == ("cos_sin", 1.0)
    factor = known["attention_factor"]
    at = posenc.RotaryMagnitude(at="softmax")
    contract = posenc.golden(posenc.RoPE(16, pairing="half", scaling=scaling, magnitude=at))
    (known,) = contract.of("spec", "frequencies")
    assert (known["acts"], known["attention_factor"]) == ("softmax", 1.0)
    assert known["logit_factor"] == pytest.approx(factor**2, rel=1e-12)
    first = contract.of("spec", "scores")[0]["scores"][0]
    assert first == pytest.approx(factor**2 * float(known["query"] @ known["key"]), rel=1e-12)


def test_channels_say_where_a_pair_comes_from_and_goes_to() -> None:
    pairing = posenc.Pairing("interleaved", output="half", direction="backward", part="trailing")
    contract = posenc.golden(posenc.RoPE(6, pairing=pairing))
    (known,) = contract.of("spec", "frequencies")
    assert (known["channels"], known["pairing"], known["sign"]) == ("trailing", "interleaved", -1)
    lists = [known[name].tolist() for name in ("first", "second", "first_out", "second_out")]
    assert lists == [[0, 2, 4], [1, 3, 5], [0, 1, 2], [3, 4, 5]]
    row = contract.of("spec", "angles")[1]
    q, (c, s) = known["query"], (row["cos"], row["sin"])
    a, b = q[[0, 2, 4]], q[[1, 3, 5]]
    expected = np.concatenate([a * c + b * s, b * c - a * s])
    assert_close(row["rotated_query"], expected, FLOAT64)


def test_positions_of_several_axes_tell_the_axes_apart() -> None:
    contract = posenc.golden(VERSION_4["qwen2-vl"])
    (known,) = contract.of("attention", "frequencies")
    assert np.bincount(known["axis"]).tolist() == [16, 24, 24]
    for row in contract.of("attention", "angles"):
        angles = row["position"][known["axis"]] * known["frequencies"]
        assert_close(row["cos"], np.cos(angles), 1e-9)
    cases = {c["case"]: c for c in contract.of("attention", "positions")}
    ids = cases["text and picture"]["positions"].reshape(-1, 3).tolist()
    assert ids[:4] == [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]]
    assert ids[8:] == [[3, 4, 5], [6, 6, 6], [7, 7, 7]]


def test_a_table_of_sines() -> None:
    contract = posenc.golden(posenc.Sinusoidal(6, order="sin_cos"))
    for row in contract.of("spec", "table"):
        p = int(row["position"][0])
        with mpmath.workdps(40):
            angles = [p * mpmath.mpf(10_000) ** (mpmath.mpf(-2 * j) / 6) for j in range(3)]
            exact = [f(a) for f in (mpmath.sin, mpmath.cos) for a in angles]
        assert_close(row["row"], np.array(exact, dtype=float), 1e-12)


def test_rows_of_a_learned_table() -> None:
    contract = posenc.golden(posenc.Learned(4, length=300, start=2, pad=1))
    (check,) = contract.of("spec", "rows")
    assert check["positions"].tolist() == [0, 1, 2, 257, 299]
    assert check["rows"].tolist() == [2, 3, 4, 259, 301]
    assert (check["length"], check["start"], check["pad"], check["width"]) == (300, 2, 1, 4)


def test_biases() -> None:
    near, late = posenc.golden(posenc.ALiBi(12)).of("spec", "bias")
    assert near["q_positions"].tolist() == list(range(6))
    closest = [2.0 ** -(8 * h / 8) for h in range(1, 9)]
    slopes = [*closest, *[2.0 ** -(h / 2) for h in (1, 3, 5, 7)]]
    exact = [-s * abs(i - j) for s in slopes for i in range(6) for j in range(6)]
    assert near["bias"].tolist() == exact
    assert late["q_positions"].tolist() == [4096]
    assert late["bias"][-1] == 0


def test_a_learned_bias_reads_parameters_that_anybody_can_compute() -> None:
    (near, _) = posenc.golden(posenc.T5(2)).of("spec", "bias")
    assert near["shape_weight"].tolist() == [32, 2]
    weight = [((7 * i + 3) % 17 - 8) / 8 for i in range(64)]
    # Buckets of distances below 8 are the distances; those of later keys begin at 16.
    exact = [
        weight[2 * (i - j if j <= i else 16 + j - i) + h]
        for h in range(2)
        for i in range(6)
        for j in range(6)
    ]
    assert near["bias"].tolist() == exact


def test_minus_infinity_is_the_lowest_number() -> None:
    near, _ = posenc.golden(posenc.Decay(2)).of("spec", "bias")
    found = near["bias"].reshape(2, 6, 6)
    future = np.triu(np.ones((6, 6), bool), 1)
    assert (found[:, future] == -1.7976931348623157e308).all()
    assert (found[:, ~future] > -10).all()
    assert near["tolerance_float32"] == 8 * 2.0**-24 * max(1.0, np.abs(found[:, ~future]).max())


def test_left_padding_packing_and_a_cached_step() -> None:
    contract = posenc.golden(LLAMA)
    cases = {check["case"]: check for check in contract.of("attention", "positions")}
    padded = cases["left padding"]
    real = padded["mask"] == 1
    assert padded["positions"][real].tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert cases["packed"]["positions"].tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 3]
    step = cases["cached step"]
    assert (step["past"], step["tokens"], step["positions"].tolist()) == (257, 1, [257])
    assert [257] in [row["position"].tolist() for row in contract.of("attention", "angles")]


def test_kinds_of_layers_stand_once_and_name_their_layers() -> None:
    config = {
        "model_type": "gemma3_text",
        "num_hidden_layers": 64,
        "hidden_size": 2560,
        "head_dim": 256,
        "num_attention_heads": 8,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "max_position_embeddings": 131_072,
        "sliding_window_pattern": 6,
        "sliding_window": 1024,
    }
    contract = posenc.golden(config)
    assert {part.name for part in contract.parts} == {"sliding_attention", "full_attention"}
    assert contract["full_attention"].layers == tuple(range(5, 64, 6))
    assert not {5, 11} & {*contract["sliding_attention"].layers}
    first = {p.name: contract.of(p.name, "frequencies")[0]["frequencies"] for p in contract.parts}
    assert first["full_attention"][0] == 1 / 8
    assert first["sliding_attention"][0] == 1


def test_an_attention_inside_a_layer_has_a_part_of_its_own() -> None:
    main, inner = posenc.RoPE(8, pairing="interleaved"), posenc.RoPE(4, pairing="half")
    entry = posenc.Entry(
        "sparse", specs=(main,), attentions=(posenc.Entry("indexer", specs=(inner,)),)
    )
    contract = posenc.golden(posenc.Plan((entry,), layers=("sparse",) * 3))
    assert [part.name for part in contract.parts] == ["sparse", "sparse:indexer"]
    assert contract["sparse:indexer"].layers == (0, 1, 2)
    assert contract.of("sparse:indexer", "frequencies")[0]["width"] == 4
    layers = (posenc.Layer("a", spec=main), posenc.Layer("a", spec=inner, attention="indexer"))
    assert [part.name for part in posenc.golden(posenc.Reading(layers)).parts] == ["a", "a:indexer"]


def test_two_encodings_of_one_layer_have_names_of_their_own() -> None:
    layers = (posenc.Layer("a", spec=posenc.ALiBi(2)), posenc.Layer("a", spec=ROPE))
    assert [part.name for part in posenc.golden(posenc.Reading(layers)).parts] == ["a", "a#2"]


def test_what_is_not_stated_is_named() -> None:
    part = posenc.golden(posenc.MixedRoPE(8, heads=2, pairing="half")).parts[0]
    assert part.left_out
    assert "MixedRoPE" in part.left_out[0]


# --- sources --------------------------------------------------------------------------------------


@pytest.mark.costly
def test_one_model_from_every_source_is_one_contract(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    contract = posenc.golden(LLAMA)
    path = saved(contract, tmp_path)
    reading = posenc.from_hf(LLAMA)
    (tmp_path / "reading.json").write_text(posenc.to_json(reading))
    sources = [reading, json.dumps(LLAMA), posenc.to_json(reading), contract]
    sources += [tmp_path, tmp_path / "config.json", tmp_path / "reading.json", path, str(path)]
    assert {posenc.golden(source).fingerprint for source in sources} == {contract.fingerprint}


def test_a_gguf_header(tmp_path: Path) -> None:
    file = written(tmp_path / "a.gguf", "llama", **BASIC)
    contract = posenc.golden(file)
    assert contract == posenc.golden(posenc.from_gguf(file))
    # Converters permute these weights: neighbours are pairs in the file.
    assert contract.of(contract.parts[0].name, "frequencies")[0]["pairing"] == "interleaved"


def test_names_of_presets_and_plans() -> None:
    assert posenc.golden("preset:llama:64")["llama"].spec == posenc.preset("llama", 64)
    assert len(posenc.golden("plan:gemma3").parts) == 2
    for wrong in ("preset:llama", "preset:llama:x", "preset:llama:-8", "preset:llama:"):
        with pytest.raises(posenc.ArgumentError, match="preset:llama:WIDTH, with its width"):
            posenc.golden(wrong)
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'llama'"):
        posenc.golden("preset:lama:4")


def test_a_plan_with_errors_is_refused_and_one_with_warnings_says_so() -> None:
    config = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 512}
    broken = {**config, "rope_theta": 1e4, "rope_scaling": {"rope_type": "no such"}}
    with pytest.raises(posenc.DataError, match="leaves something open"):
        posenc.golden(broken)
    layer = posenc.Layer("a", spec=ROPE)
    note = posenc.Note("warning", "an unknown key 'rope_alpha'")
    contract = posenc.golden(posenc.Reading((layer,), notes=(note,), model="x"))
    assert contract.notes == (note,)
    assert contract.model == "x"


# --- files ----------------------------------------------------------------------------------------


def scalings() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [
            (),
            (YaRN(8, original_length=512),),
            (Llama3(8, original_length=512),),
            (DynamicNTK(2, original_length=512),),
        ]
    )


def specs() -> st.SearchStrategy[Any]:
    rotary = st.builds(
        posenc.RoPE,
        st.integers(2, 8).map(lambda n: 2 * n),
        pairing=st.sampled_from(["half", "interleaved"]),
        base=st.floats(2, 1e8),
        scaling=scalings(),
    )
    tables = st.builds(posenc.Sinusoidal, st.integers(2, 9), base=st.floats(2, 1e6))
    learned = st.builds(posenc.Learned, st.integers(1, 9), length=st.integers(1, 5000))
    biases = st.one_of(
        st.builds(posenc.ALiBi, st.integers(1, 9)), st.builds(posenc.T5, st.integers(1, 4))
    )
    return st.one_of(rotary, tables, learned, biases)


@pytest.mark.costly
@settings(max_examples=15)
@given(spec=specs())
def test_what_is_saved_is_read_back_from_either_file(
    spec: posenc.RoPE, tmp_path_factory: pytest.TempPathFactory
) -> None:
    contract = posenc.golden(spec)
    folder = tmp_path_factory.mktemp("golden")
    first, second = contract.save(folder / "a.json", format="both")
    assert read(first) == contract == read(second)
    assert read(first).to_dict() == contract.to_dict() == read(second).to_dict()
    assert posenc.golden(first).parts == contract.parts


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_the_canonical_form_keeps_every_number(values: list[float]) -> None:
    text = canonical(values)
    assert json.loads(text, parse_int=float) == values
    assert canonical(json.loads(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (-333333333.33333329, "-333333333.3333333"),
        ({"b": [1, "é\n"], "a": None}, '{"a":null,"b":[1,"é\\n"]}'),
    ],
)
def test_the_canonical_form_is_that_of_rfc_8785(value: Any, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.costly
def test_the_same_source_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(VERSION_4["gpt-oss"]))
    made = []
    for seed in ("0", "1"):
        folder = tmp_path / seed
        folder.mkdir()
        command = [sys.executable, "-m", "posenc.cli", "golden", str(tmp_path / "config.json")]
        command += ["-o", str(folder / "m.golden.json"), "--format", "both"]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=env, capture_output=True)
        made.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert len(made[0]) == 2
    assert made[0] == made[1]


def test_records_are_flat_and_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    lines = saved(posenc.golden(LLAMA), tmp_path).read_text().splitlines()
    records = [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"check"')]
    assert len(records) == len(posenc.golden(LLAMA).checks)
    for record in records:
        for value in record.values():
            flat = value if isinstance(value, list) else [value]
            assert all(isinstance(item, (int, float, str)) for item in flat)


SCHEMA = json.loads((ROOT / "src/posenc/detect/contract/contract.schema.json").read_text())


@pytest.mark.parametrize("name", registry.SPECS)
def test_files_keep_the_schema(name: str) -> None:
    contract = posenc.golden(small(registry.lookup(name)))
    data = json.loads(text_of(contract))
    assert violation(data, SCHEMA) is None
    assert violation(json.loads(first_version(contract)), SCHEMA) is None
    for path, value in (
        ("version", 1),
        ("version", 3),
        ("records", ...),
        ("sha256", "0"),
        ("parts.0.spce", {}),
        ("checks.0.check", "angels"),
    ):
        if path.startswith("checks") and not contract.checks:
            continue
        spoilt = copy.deepcopy(data)
        change(spoilt, path, value)
        assert violation(spoilt, SCHEMA)


@pytest.mark.parametrize("name", VERSION_4)
def test_files_of_models_keep_the_schema(name: str) -> None:
    contract = posenc.golden(VERSION_4[name])
    assert violation(json.loads(text_of(contract)), SCHEMA) is None


def change(data: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    at: Any = data
    for key in way:
        at = at[int(key)] if key.isdigit() else at[key]
    if value is ...:
        del at[last]
    else:
        at[int(last) if last.isdigit() else last] = value


BROKEN: list[tuple[str, str, Any, str]] = [
    ("another format", "format", "x", "expected a contract, with the format"),
    ("a later version", "version", 3, "version: expected 1 or 2, of this posenc, got 3"),
    ("a version that is a text", "version", "2", "version: expected 1 or 2"),
    ("a version that is true", "version", True, "version: expected 1 or 2"),
    ("another count", "records", 13, "records: expected 14, the number of them, got 13"),
    ("no count", "records", ..., "records: expected 14, the number of them, got None"),
    ("no fingerprint", "fingerprint", ..., "got None…, which it states"),
    (
        "another fingerprint",
        "fingerprint",
        "0" * 64,
        "got 0000000000000000…, which it states. It was changed",
    ),
    ("a changed number", "checks.1.cos.0", 0.5, "another 'cos' in number 1 of them"),
    ("an unknown key", "extra", 1, "got \\['extra'\\]"),
    ("an unknown key of a part", "parts.0.spce", {}, "Did you mean 'spec'"),
    ("an unknown record", "checks.1.check", "angels", "another 'check' in number 1"),
    ("an unknown part", "checks.1.part", "spek", "the records of the spec of 'spec'"),
    ("an unknown state", "checks.1.state", "long", "another 'state' in number 1"),
    ("a list of lists", "checks.1.cos", [[1.0]], "1.0.. where numbers stand"),
    ("a text for a number", "checks.1.cos.2", "1.0", "'1.0', 1.0. where numbers stand"),
    ("true for a number", "checks.1.cos.2", True, "True, 1.0. where numbers stand"),
    ("nothing for a number", "checks.1.cos.2", None, "None, 1.0. where numbers stand"),
    ("a missing list", "checks.1.rotated_query", ..., "another 'rotated_query'"),
    ("a short list", "checks.1.cos", [1.0], "another 'cos'"),
    ("a large integer", "checks.1.position.0", 10**30, "too large"),
    ("an integer without end", "checks.1.temperature", 10**400, "expected numbers"),
    ("a width without end", "parts.0.spec.dim", 2 * 10**400, "."),
    ("a wide spec", "parts.0.spec.dim", 2 * 10**9, "."),
    ("a wrong kind", "parts.0.kind", "table", "expected 'rotary', the kind of its RoPE"),
    ("a spec that cannot be", "parts.0.spec.dim", 7, "even"),
    ("a spec of no class", "parts.0.spec.type", "RoPEE", "Did you mean 'RoPE'"),
    ("a value that is no spec", "parts.0.spec", {"type": "YaRN", "factor": 2}, "Part.spec"),
    ("a width that is not that of the query", "checks.0.width", 10, "another 'width' in number 0"),
    ("no parts", "parts", {}, "a part of its own for every record"),
    ("layers without end", "parts.0.layers", [10**9], "layers from 0 to 65535"),
    ("layers twice", "parts.0.layers", [1, 1], "each once and in order"),
    ("a length below 1", "parts.0.length", -5, "length: expected a count"),
    ("another state", "parts.0.states", ["short", "long"], "the states of the spec of 'spec'"),
    ("a number for the model", "model", 3, "what docs/golden.md describes"),
    ("records that are none", "checks", [1], "what docs/golden.md describes"),
]


@pytest.mark.parametrize(("what", "path", "value", "words"), BROKEN, ids=[row[0] for row in BROKEN])
def test_what_is_no_contract_is_refused_in_words(
    what: str, path: str, value: Any, words: str, tmp_path: Path
) -> None:
    file = saved(of_rope(), tmp_path)
    data = json.loads(file.read_text())
    change(data, path, value)
    file.write_text(json.dumps(data))
    with pytest.raises(posenc.DataError):
        read(file)
    with contextlib.suppress(OverflowError):  # whoever changes it can compute digests, too
        stated = {k: v for k, v in data.items() if k not in ("fingerprint", "records", "sha256")}
        data |= {} if path == "fingerprint" else {"fingerprint": digest(stated)}
    if path == "checks":
        data["records"] = len(value)
    file.write_bytes(sealed(data))
    with pytest.raises(posenc.DataError, match=words):
        read(file)


TEXTS: list[tuple[str, Callable[[str], str], str]] = [
    ("a key twice", lambda t: t.replace('"version": 2', '"version": 2, "version": 2'), "once"),
    ("NaN", lambda t: t.replace('"temperature": 1.0', '"temperature": NaN', 1), "expected number"),
    ("Infinity", lambda t: t.replace('"cos": [1.0', '"cos": [Infinity', 1), "expected number"),
    ("truncated", lambda t: t[:-200], "is not JSON"),
    ("a list", lambda t: "[]", "expected a contract"),
    ("nothing", lambda t: "", "is not JSON"),
    ("deep", lambda t: "[" * 100_000, "nested deeper"),
    ("many values", lambda t: "[" + "1," * 2**12 + "1]", "at most 4,096 values"),
]


@pytest.mark.parametrize(("what", "spoil", "words"), TEXTS, ids=[row[0] for row in TEXTS])
def test_a_text_that_is_no_contract(
    what: str, spoil: Callable[[str], str], words: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = saved(of_rope(), tmp_path)
    if what == "many values":
        assert contract_files.CONTRACT.most == 2**22
        monkeypatch.setattr(
            contract_files, "CONTRACT", contract_files.CONTRACT._replace(most=2**12)
        )
    file.write_bytes(resealed(spoil(file.read_text()).encode()))
    with pytest.raises(posenc.DataError, match=words):
        read(file)


def test_damage_is_refused_or_read_and_nothing_else(tmp_path: Path) -> None:
    layers = (posenc.Layer("a", spec=ROPE), posenc.Layer("b", spec=posenc.T5(2)))
    contract = posenc.golden(posenc.Reading(layers))
    random = np.random.default_rng(0)
    refused = 0
    for name in ("m.json", "m.safetensors"):
        file = saved(contract, tmp_path, name)
        whole = np.frombuffer(file.read_bytes(), dtype=np.uint8)
        for _ in range(100):
            data = whole.copy()
            # Headers more often than numbers.
            at = random.integers(0, random.choice([400, 4000, len(data)]), random.integers(1, 5))
            data[at] = random.integers(0, 256, len(at))
            file.write_bytes(data[: random.choice([len(data), at[0]])].tobytes())
            try:
                assert read(file) == contract
                assert file.read_bytes() == whole.tobytes()  # a byte that became what it was
            except posenc.DataError:
                refused += 1
    assert refused > 190


def test_a_contract_of_another_layout_is_the_same(tmp_path: Path) -> None:
    """Whole numbers as JavaScript writes them, other spaces, another order of keys."""
    contract = posenc.golden(ROPE)
    file = saved(contract, tmp_path)
    plain = json.loads(
        file.read_text(), parse_float=lambda t: int(float(t)) if float(t) % 1 == 0 else float(t)
    )
    file.write_text(json.dumps(dict(reversed(plain.items())), indent=1))
    with pytest.raises(posenc.DataError, match="cut or changed .an editor, or git's line ends"):
        read(file)
    before = {k: v for k, v in plain.items() if k not in ("fingerprint", "records", "sha256")}
    before["version"] = 1
    before["fingerprint"] = digest(before)
    file.write_text(json.dumps(dict(reversed(before.items())), indent=1))
    assert read(file) == contract


def tensors(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the header of a safetensors file."""
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    whole = struct.pack("<Q", len(text)) + text + data[8 + length : -32]
    file.write_bytes(whole + hashlib.sha256(whole).digest())


def renamed(header: dict[str, Any], old: str, new: str) -> None:
    header[new] = header.pop(old)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda h: h.pop("__metadata__"), "the key 'contract'"),
        (lambda h: renamed(h, "1.cos", "1.cosine"), "It was changed after it was written"),
        (lambda h: renamed(h, "1.cos", "99999.cos"), "named by the number of a record"),
        (lambda h: renamed(h, "1.cos", "1.position"), "each key once"),
        (lambda h: renamed(h, "1.cos", "cos"), "named by the number of a record"),
        (lambda h: h["1.cos"].update(shape=[2, 4]), "of one axis"),
        (lambda h: h["1.cos"].update(dtype="I64"), "fingerprint"),
        (lambda h: h["1.cos"].update(dtype="C64"), "float64 or int64"),
        (lambda h: renamed(h, "sha256", "99.sha256"), "sha256: expected .* got no such tensor"),
        (lambda h: h["sha256"].update(shape=[4, 8]), "sha256: expected .* got no such tensor"),
        (lambda h: h["__metadata__"].update(contract='"\ud800"'), "not JSON|UTF-8"),
        (lambda h: h["__metadata__"].update(contract="[]"), "expected a contract|record"),
    ],
)
def test_a_safetensors_file_that_is_no_contract(
    spoil: Callable[[Any], Any], words: str, tmp_path: Path
) -> None:
    file = saved(posenc.golden(posenc.RoPE(16, pairing="half")), tmp_path, "m.safetensors")
    tensors(file, spoil)
    with pytest.raises(posenc.DataError, match=words):
        read(file)


def test_nan_in_a_tensor_is_refused(tmp_path: Path) -> None:
    file = saved(posenc.golden(posenc.RoPE(16, pairing="half")), tmp_path, "m.safetensors")
    tensor = files.read_layout(file).tensors["1.cos"]
    data = bytearray(file.read_bytes())
    data[tensor.begin : tensor.begin + 8] = struct.pack("<d", math.nan)
    file.write_bytes(bytes(data[:-32]) + hashlib.sha256(data[:-32]).digest())
    with pytest.raises(posenc.DataError, match="number"):
        read(file)


def test_a_pipe_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(posenc.DataError, match="a regular file, got a pipe"):
        read(tmp_path / "pipe.json")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(posenc.DataError, match="a contract of at most"):
        read(tmp_path / "huge.json")


def test_nothing_is_overwritten_and_both_files_appear_or_none(tmp_path: Path) -> None:
    contract = posenc.golden(ROPE)
    (tmp_path / "m.safetensors").write_text("precious")
    with pytest.raises(FileExistsError):
        contract.save(tmp_path / "m.json", format="both")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.safetensors"]
    assert (tmp_path / "m.safetensors").read_text() == "precious"
    contract.save(tmp_path / "m.json", format="both", existing="replace")
    assert read(tmp_path / "m.safetensors") == contract
    with pytest.raises(FileExistsError):
        contract.save(tmp_path / "m.json")
    with pytest.raises(posenc.ArgumentError, match="another ending"):
        contract.save(tmp_path / "n.safetensors", format="both")
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'json'"):
        contract.save(tmp_path / "n", format="jsn")  # type: ignore[arg-type]


def test_a_contract_cannot_be_changed() -> None:
    contract = posenc.golden(ROPE)
    with pytest.raises(ValueError, match="read-only"):
        contract.of("spec", "angles")[1]["cos"][0] = 2
    with pytest.raises(AttributeError):
        contract.model = "x"  # type: ignore[misc]
    assert copy.copy(contract) == contract
    assert contract != posenc.golden(posenc.RoPE(8, pairing="interleaved"))

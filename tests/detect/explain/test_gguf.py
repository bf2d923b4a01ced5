"""GGUF headers: written by the reference writer, and by hand where they lie."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings, strategies as st

import posenc
from posenc.cli import app
from posenc.detect.extend import extend
from posenc.presets.families import families
from tests.tolerances import assert_close


def written(
    path: Path,
    arch: str,
    tensors: dict[str, np.ndarray] | None = None,
    *,
    words: int = 5000,
    **keys: Any,
) -> Path:
    """A file by the reference writer: rotary keys, a vocabulary to step over, small tensors."""
    gguf = pytest.importorskip("gguf", reason="writes the files of this test")
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        name = f"{arch}.{key.replace('__', '.')}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    writer.add_array("tokenizer.ggml.tokens", [f"token{i}" for i in range(words)])
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


BASIC = {
    "context_length": 8192,
    "embedding_length": 512,
    "attention__head_count": 8,
    "block_count": 4,
    "rope__dimension_count": 64,
    "rope__freq_base": 500000.0,
}


def test_a_plain_file(tmp_path: Path) -> None:
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "llama", **BASIC))
    # Converters permute these weights: neighbours are pairs in the file.
    assert plan["attention"].spec == posenc.RoPE(64, base=500_000, pairing="interleaved")
    assert plan["attention"].length == 8192
    plan = posenc.from_gguf(written(tmp_path / "b.gguf", "qwen2", **BASIC))
    assert plan["attention"].spec == posenc.RoPE(64, base=500_000, pairing="half")
    assert posenc.from_json(posenc.to_json(plan)) == plan


@pytest.mark.parametrize("length", [0, -1.0])
def test_a_length_that_is_none_is_not_used_and_a_base_in_words_is_none(
    tmp_path: Path, length: float
) -> None:
    path = written(tmp_path / "a.gguf", "llama", **{**BASIC, "context_length": length})
    assert posenc.golden(path).parts[0].length is None
    assert "context_length" in posenc.from_gguf(path).warnings[0]
    with pytest.raises(posenc.PosencError, match="trained"):
        posenc.extend(path, 8192)
    words, factors = {**BASIC, "rope__freq_base": "x" * 999}, {"rope_freqs.weight": np.ones(32)}
    path = written(tmp_path / "b.gguf", "llama", factors, **words)
    assert len(posenc.from_gguf(path, on_error="report").errors[0]) < 200
    assert "the header states" not in str(posenc.identify(path))


def test_the_width_without_its_key(tmp_path: Path) -> None:
    keys = {k: v for k, v in BASIC.items() if k != "rope__dimension_count"}
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "qwen2", **keys))
    assert plan["attention"].spec.dim == 64  # type: ignore[union-attr]


def test_a_base_that_is_left_out_is_the_formats_and_said(tmp_path: Path) -> None:
    keys = {k: v for k, v in BASIC.items() if k != "rope__freq_base"}
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "qwen2", **keys))
    assert plan["attention"].spec.base == 10_000  # type: ignore[union-attr]
    assert any("rope.freq_base is missing" in text for text in plan.warnings)
    assert ("base", "format") in {(s.field, s.origin) for s in plan["attention"].sources}


def test_scalings(tmp_path: Path) -> None:
    keys = {**BASIC, "rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    file = written(
        tmp_path / "a.gguf", "qwen2", rope__scaling__original_context_length=2048, **keys
    )
    spec = posenc.from_gguf(file)["attention"].spec
    assert spec == posenc.RoPE(
        64, base=500_000, pairing="half", scaling=posenc.scaling.YaRN(4, original_length=2048)
    )
    # llama.cpp takes the context length where the original one is left out.
    plan = posenc.from_gguf(written(tmp_path / "b.gguf", "qwen2", **keys))
    assert plan["attention"].spec.scalings[0].original_length == 8192  # type: ignore[union-attr]
    assert any("original_context_length is missing" in text for text in plan.warnings)
    keys = {**BASIC, "rope__scaling__type": "linear", "rope__scaling__factor": 2.5}
    spec = posenc.from_gguf(written(tmp_path / "c.gguf", "qwen2", **keys))["attention"].spec
    assert spec.scalings == (posenc.scaling.Linear(2.5),)  # type: ignore[union-attr]


def test_factors_that_are_tensors(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 32, dtype=np.float32)
    file = written(tmp_path / "a.gguf", "llama", {"rope_freqs.weight": factors}, **BASIC)
    spec = posenc.from_gguf(file)["attention"].spec
    plain = posenc.RoPE(64, base=500_000, pairing="interleaved")
    exact = posenc.frequencies(plain) / factors.astype(np.float64)
    assert_close(posenc.frequencies(spec), exact, 1e-15 * exact)  # type: ignore[arg-type]
    short = {"rope_freqs.weight": factors[:5]}
    with pytest.raises(posenc.DataError, match="has 5 numbers and needs 32"):
        posenc.from_gguf(written(tmp_path / "b.gguf", "llama", short, **BASIC))


def test_two_sets_of_factors(tmp_path: Path) -> None:
    tensors = {
        "rope_factors_long.weight": np.full(32, 4, np.float32),
        "rope_factors_short.weight": np.ones(32, np.float32),
    }
    keys = {**BASIC, "rope__scaling__original_context_length": 2048}
    spec = posenc.from_gguf(written(tmp_path / "a.gguf", "phi3", tensors, **keys))["attention"].spec
    assert isinstance(spec, posenc.RoPE)
    ratio = posenc.frequencies(spec.at(2048)) / posenc.frequencies(spec.at(2049))
    assert_close(ratio, np.full(32, 4.0), 1e-14)
    # llama.cpp takes a factor on cos and sin from the file alone.
    assert spec.at(2048).attention_factor == 1
    more = {"rope__scaling__type": "longrope", "rope__scaling__attn_factor": 1.19}
    file = written(tmp_path / "b.gguf", "phi3", tensors, **keys, **more)
    spec = posenc.from_gguf(file)["attention"].spec
    assert isinstance(spec, posenc.RoPE)
    assert spec.at(2048).attention_factor == pytest.approx(1.19)
    # It would divide by a factor as well, which no rule does beside two sets.
    file = written(tmp_path / "c.gguf", "phi3", tensors, **keys, **more, rope__scaling__factor=2.0)
    with pytest.raises(posenc.DataError, match="rules that go together"):
        posenc.from_gguf(file)


def test_sections(tmp_path: Path) -> None:
    keys = {**BASIC, "rope__dimension_sections": [8, 12, 12, 0]}
    spec = posenc.from_gguf(written(tmp_path / "a.gguf", "qwen2vl", **keys))["attention"].spec
    assert spec.arrangement.sizes == (8, 12, 12)  # type: ignore[union-attr]


def test_local_layers(tmp_path: Path) -> None:
    window = {"attention__sliding_window": 512}
    keys = {**BASIC, **window, "rope__freq_base_swa": 2e4, "attention__sliding_window_pattern": 2}
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "gemma3", **keys))
    assert plan["sliding_attention"].spec.base == 20_000  # type: ignore[union-attr]
    assert plan["sliding_attention"].indices == (0, 2)
    assert plan["full_attention"].indices == (1, 3)
    # Files state neither the base nor the pattern: both are llama.cpp's for the architecture.
    plan = posenc.from_gguf(written(tmp_path / "b.gguf", "gemma3", **BASIC, **window))
    assert plan["sliding_attention"].spec.base == 10_000  # type: ignore[union-attr]
    assert plan["sliding_attention"].indices == (0, 1, 2, 3)
    assert any("freq_base_swa is missing" in text for text in plan.warnings)
    del keys["attention__sliding_window"]
    plan = posenc.from_gguf(written(tmp_path / "c.gguf", "gemma3", **keys))
    assert [entry.layer for entry in plan] == ["attention"]
    assert any("llama.cpp has none here" in text for text in plan.warnings)


@pytest.mark.parametrize(
    ("architecture", "told"),
    [("gemma3", True), ("afmoe", True), ("laguna", True), ("olmo2", False)],
)
def test_windows_that_a_header_cannot_show_are_told(
    architecture: str, told: bool, tmp_path: Path
) -> None:
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", architecture, **BASIC))
    words = "attention.sliding_window is missing: models of this architecture have layers with a"
    assert any(words in text for text in plan.warnings) is told


def test_what_is_not_understood_is_refused(tmp_path: Path) -> None:
    keys = {**BASIC, "rope__scaling__alpha": 3.0}
    with pytest.raises(posenc.DataError, match=r"rope\.scaling\.alpha=3\.0 is not understood"):
        posenc.from_gguf(written(tmp_path / "a.gguf", "llama", **keys))
    with pytest.raises(posenc.DataError, match="Did you mean 'qwen2'"):
        posenc.from_gguf(written(tmp_path / "b.gguf", "qwen22", **BASIC))
    file = written(tmp_path / "c.gguf", "nobody", **BASIC)
    assert posenc.from_gguf(file, pairing="half")["attention"].spec is not None


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def header(keys: bytes, *, count: int, version: int = 3, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, count) + keys


KEY = text("general.architecture") + struct.pack("<I", 8) + text("llama")
BAD = {
    "empty": (b"", "begins with GGUF"),
    "another magic": (b"GGML" + bytes(40), "begins with GGUF"),
    "version": (header(KEY, count=1, version=9), "GGUF version 2 or 3"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(40), "big-endian"),
    "too many keys": (header(KEY, count=2**40), "too many"),
    "too many tensors": (header(KEY, count=1, tensors=2**40), "too many"),
    "cut short": (header(KEY, count=1)[:-3], "ends before"),
    "a text beyond the end": (
        header(struct.pack("<Q", 2**20) + b"abc", count=1),
        "ends before",
    ),
    "a text of 2^60": (header(struct.pack("<Q", 2**60), count=1), "texts up to"),
    "an unknown type": (header(text("a") + struct.pack("<I", 77), count=1), "type of value"),
    "a list of 2^60": (
        header(text("a") + struct.pack("<IIQ", 9, 0, 2**60), count=1),
        "ends before",
    ),
    "nested lists": (
        header(text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 50, count=1),
        "type of value",
    ),
    "no architecture": (header(b"", count=0), "general.architecture is missing"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_headers_that_lie(case: str, tmp_path: Path) -> None:
    data, words = BAD[case]
    file = tmp_path / "bad.gguf"
    file.write_bytes(data)
    with pytest.raises(posenc.DataError, match=words):
        posenc.from_gguf(file)


SCALED = {
    **BASIC,
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 8.0,
    "rope__scaling__original_context_length": 8192,
    "attention__sliding_window": 4096,
}


def test_scaling_does_not_reach_the_windows_of_olmo_3(tmp_path: Path) -> None:
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "olmo2", **SCALED))
    scaling = posenc.scaling.YaRN(8, original_length=8192)
    plain = posenc.RoPE(64, base=500_000, pairing="half")
    local, full = plan["sliding_attention"], plan["full_attention"]
    assert (local.spec, local.indices) == (plain, (0, 1, 2))
    assert full.spec.scalings == (scaling,)  # type: ignore[union-attr]
    assert full.indices == (3,)
    # OLMo 2 has no windows, and one entry.
    keys = {k: v for k, v in SCALED.items() if "window" not in k}
    assert len(posenc.from_gguf(written(tmp_path / "b.gguf", "olmo2", **keys)).layers) == 1


def test_scaling_beside_windows_is_partly_known_elsewhere(tmp_path: Path) -> None:
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "nobody", **SCALED), pairing="half")
    assert any("read in part, because some layers see a window" in text for text in plan.warnings)
    # llama.cpp gives no layer of Phi-3 a window, and scales those of GPT-OSS alike.
    for arch in ("phi3", "gpt-oss"):
        assert not posenc.from_gguf(written(tmp_path / f"{arch}.gguf", arch, **SCALED)).warnings


def test_biases_and_tables(tmp_path: Path) -> None:
    keys = {"attention__head_count": 12, "embedding_length": 96, "context_length": 512}
    spec = posenc.from_gguf(written(tmp_path / "a.gguf", "bloom", **keys))["model"].spec
    assert spec == posenc.ALiBi(12)
    more = {"attention__max_alibi_bias": 6.0}
    spec = posenc.from_gguf(written(tmp_path / "b.gguf", "mpt", **keys, **more))["model"].spec
    assert spec == posenc.ALiBi(12, max_bias=6.0)
    # Without ALiBi, MPT has a table, as GPT-2, StarCoder and BERT have.
    for arch in ("mpt", "gpt2", "starcoder", "bert"):
        plan = posenc.from_gguf(written(tmp_path / f"{arch}.gguf", arch, **keys))
        assert plan["embeddings"].spec == posenc.Learned(96, length=512)
    more = {"attention__relative_buckets_count": 20}
    plan = posenc.from_gguf(written(tmp_path / "d.gguf", "t5", **keys, **more))
    assert plan["encoder"].spec == posenc.T5(12, buckets=20)
    assert plan["decoder"].spec == posenc.T5(12, buckets=20, direction="causal")
    # The depth tells Baichuan's model with ALiBi from the one with rotation.
    for depth, kind in ((40, "bias"), (32, "rotary")):
        file = written(tmp_path / f"{depth}.gguf", "baichuan", block_count=depth, **keys)
        assert [entry.kind for entry in posenc.from_gguf(file)] == [kind]


def test_temperatures(tmp_path: Path) -> None:
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "llama4", **BASIC))
    own = posenc.Temperature(rule="log_floor", length=8192, strength=0.1, start=1)
    assert (plan["full_attention"].spec, plan["full_attention"].logit_scale) == (None, own)
    assert plan["chunked_attention"].spec.magnitude.temperature is None  # type: ignore[union-attr]
    # A window of 0 says that every layer turns, and none has a temperature.
    whole = {**BASIC, "attention__sliding_window": 0}
    plan = posenc.from_gguf(written(tmp_path / "b.gguf", "llama4", **whole))
    assert [(e.layer, e.kind, e.logit_scale) for e in plan] == [("attention", "rotary", None)]
    keys = {**BASIC, "attention__temperature_scale": 0.25}
    spec = posenc.from_gguf(written(tmp_path / "c.gguf", "mistral3", **keys))["attention"].spec
    own = posenc.Temperature(rule="log_floor", length=8192, strength=0.25)
    assert spec.magnitude.temperature == own  # type: ignore[union-attr]
    with pytest.raises(posenc.DataError, match="temperature_length is missing"):
        posenc.from_gguf(written(tmp_path / "d.gguf", "mistral4", **keys))


def test_an_indexer_has_an_entry(tmp_path: Path) -> None:
    keys = {**BASIC, "attention__indexer__head_count": 4}
    types = {"attention__indexer__types": [1, 0, 1, 0]}
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "deepseek32", **keys))
    outer, inner = plan[3]
    assert (outer.attention, inner.attention) == ("", "indexer")
    assert isinstance(outer.spec, posenc.RoPE)
    assert isinstance(inner.spec, posenc.RoPE)
    assert (outer.spec.pairing.order, outer.spec.pairing.part) == ("interleaved", "trailing")
    assert (inner.spec.pairing.order, inner.spec.pairing.part) == ("half", "leading")
    plan = posenc.from_gguf(written(tmp_path / "b.gguf", "glm-dsa", **keys, **types))
    assert [len(plan[layer]) for layer in range(4)] == [2, 1, 2, 1]
    inner = plan[2][1]
    assert inner.spec.pairing.order == "interleaved"  # type: ignore[union-attr]


def test_a_scaling_that_may_lie_elsewhere_is_said(tmp_path: Path) -> None:
    # Llama 3.1's scaling is a tensor, which old converters did not write.
    long = {**BASIC, "context_length": 131072}
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "llama", **long))
    assert any("rope_freqs.weight is missing" in text for text in plan.warnings)
    assert not posenc.from_gguf(written(tmp_path / "b.gguf", "llama", **BASIC)).warnings
    # The first of several files may have no tensors at all.
    keys = [KEY, text("split.count") + struct.pack("<IH", 2, 3)]
    keys += [text("llama.rope.dimension_count") + struct.pack("<II", 4, 64)]
    (tmp_path / "c.gguf").write_bytes(header(b"".join(keys), count=3))
    plan = posenc.from_gguf(tmp_path / "c.gguf")
    assert any("read in part, because rope_freqs.weight" in text for text in plan.warnings)


def test_layers_without_attention_and_without_positions(tmp_path: Path) -> None:
    keys = {**BASIC, "attention__head_count_kv": [2, 0, 2, 0]}
    plan = posenc.from_gguf(written(tmp_path / "a.gguf", "lfm2", **keys))
    assert [plan[layer][0].layer for layer in range(2)] == ["attention", "without attention"]
    assert [entry.kind for entry in plan] == ["rotary", "none"]
    plan = posenc.from_gguf(written(tmp_path / "b.gguf", "smollm3", **BASIC))
    assert plan[3][0].layer == "attention, without positions"
    # Where the depth is missing, it is not known which layers are which.
    shallow = {key: value for key, value in BASIC.items() if key != "block_count"}
    plan = posenc.from_gguf(written(tmp_path / "c.gguf", "smollm3", **shallow))
    assert [entry.indices for entry in plan] == [None, None]
    assert any("read in part, because the types of layers" in text for text in plan.warnings)


def test_keys_that_llama_cpp_does_not_read_are_said(tmp_path: Path) -> None:
    yarn = {**BASIC, **{k: v for k, v in SCALED.items() if "scaling" in k}}
    said = {
        "rope__scaling__yarn_beta_fast": (64.0, "which takes 32"),
        "rope__scaling__yarn_attn_factor": (1.0, "it takes 1.20794"),
        "rope__scaling__yarn_log_multiplier": (1.0, "is not read by llama.cpp"),
        "rope__scaling__original_context_length": (0, "llama.cpp takes context_length=8192"),
    }
    for number, (key, (value, words)) in enumerate(said.items()):
        file = written(tmp_path / f"{number}.gguf", "qwen2", **{**yarn, key: value})
        assert any(words in text for text in posenc.from_gguf(file).warnings), key
    # What is written as it is taken needs no word.
    same = {"rope__scaling__yarn_beta_fast": 32.0, "rope__scaling__yarn_attn_factor": 1.20794415}
    assert not posenc.from_gguf(written(tmp_path / "b.gguf", "qwen2", **yarn, **same)).warnings
    for arch in ("cohere2", "llama"):
        keys = {**BASIC, "rope__freq_base_swa": 5.0}
        plan = posenc.from_gguf(written(tmp_path / f"{arch}.gguf", arch, **keys))
        assert any("freq_base_swa is not read" in text for text in plan.warnings)


CONTRADICTORY = {
    "no depth": ({"block_count": 2**32 - 1}, "block_count=4294967295 with 0 draft layers"),
    "drafts": ({"nextn_predict_layers": 5}, "block_count=4 with 5 draft layers"),
    "no number": ({"rope__freq_base": "many"}, "rope.freq_base='many' is no number"),
    "no pattern": ({"attention__sliding_window_pattern": "LLG"}, "a list says which layers"),
    "a short list": ({"attention__sliding_window_pattern": [True]}, "not a list of 4 truth values"),
    "no base": ({"rope__freq_base_swa": -1.0}, "no base: it must be positive"),
    "no factor": ({"rope__scaling__factor": 0.5}, "factor=0.5 is below 1"),
    "no rule": ({"rope__scaling__type": "yran"}, "Did you mean 'yarn'"),
    "an odd width": ({"rope__dimension_count": 7}, "dim"),
    "no width": ({"rope__dimension_count": [64] * 4, "attention__head_count": 0}, "no number"),
    "a wide one": ({"rope__dimension_count": 128}, "count=128 is above the 64 channels of a head"),
    "wide heads": (
        {"rope__dimension_count": 2**31, "attention__key_length": 2**31}, "262144 pairs"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(CONTRADICTORY))
def test_headers_that_contradict_themselves(case: str, tmp_path: Path) -> None:
    more, words = CONTRADICTORY[case]
    keys = {**BASIC, "attention__sliding_window": 512, **more}
    file = written(tmp_path / "a.gguf", "gemma3", **keys)
    with pytest.raises(posenc.DataError, match=words):
        posenc.from_gguf(file)
    assert posenc.from_gguf(file, on_error="report").errors


def test_no_tool_goes_on_with_a_default_for_a_number_that_is_none(tmp_path: Path) -> None:
    nan = {**BASIC, "rope__freq_base": float("nan")}
    file = written(tmp_path / "a.gguf", "llama", words=5, **nan)
    for ask in (posenc.explain, posenc.golden, lambda path: extend(path, 2**16)):
        with pytest.raises(posenc.DataError, match="freq_base=nan is no number"):
            ask(file)
    keys = {**BASIC, "rope__dimension_count": 32, "attention__key_length": 128}
    file = written(tmp_path / "b.gguf", "qwen2", words=5, **keys)  # a part of a head may turn
    assert extend(file, 2**16).layers[0].baseline.spec.dim == 32


VALUES = [
    0,
    1,
    40,
    2**32 - 1,
    -1.0,
    0.5,
    1e38,
    float("nan"),
    True,
    "yarn",
    "",
    [0, 0],
    [8, 8, 8, 0],
]
VALUES += [[True, False] * 2, [1.5, 2.5], ["a"]]
KEYS = sorted(
    {
        *SCALED,
        "attention__head_count_kv",
        "attention__sliding_window_pattern",
        "rope__freq_base_swa",
        "attention__temperature_scale",
        "attention__indexer__head_count",
        "attention__indexer__types",
        "nextn_predict_layers",
        "full_attention_interval",
        "rope__dimension_sections",
        "rope__dimension_count_swa",
        "rope__scaling__yarn_log_multiplier",
        "attention__rope_pattern",
    }
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    arch=st.sampled_from(sorted(families("gguf"))),
    more=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=5),
)
def test_no_header_breaks_the_reader(arch: str, more: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.unlink(missing_ok=True)
    plan = posenc.from_gguf(written(file, arch, words=3, **{**BASIC, **more}), on_error="report")
    assert plan.layers or plan.errors
    assert posenc.from_json(posenc.to_json(plan)) == plan


def test_the_command_exits_as_for_configs(tmp_path: Path) -> None:
    """0 where nothing is open, 1 for errors and for files that are none, 2 for no file."""

    def run(path: Path) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["explain", str(path)])
        return result.exit_code, result.output

    code, told = run(written(tmp_path / "a.gguf", "qwen2", **BASIC))
    assert (code, told.partition("\n")[0].partition(":")[0]) == (0, "qwen2")
    code, told = run(written(tmp_path / "b.gguf", "qwen2", **{**BASIC, "rope__freq_base": -1.0}))
    assert code == 1
    assert "it must be positive" in told
    (tmp_path / "c.gguf").write_bytes(b"GGML")
    assert run(tmp_path / "c.gguf")[0] == 1
    assert run(tmp_path / "d.gguf")[0] == 2

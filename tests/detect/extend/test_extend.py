"""Longer contexts: numbers against loops, lines against the libraries that read them."""

from __future__ import annotations

import copy
import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings, strategies as st

import posenc
from posenc._core.errors import ArgumentError, DataError
from posenc.cli import app
from posenc.detect.extend import Extension, extend
from posenc.detect.extend.report import lines
from tests.detect.explain.test_gguf import written
from tests.tolerances import FLOAT64, RELATIVE

LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
}
SCALED = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LONG = {
    "type": "longrope",
    "short_factor": [1.0] * 48,
    "long_factor": [1.0 + j for j in range(48)],
}
# Each with a class in transformers; the kinds of layers that the rule reaches.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "llama 3.1": LLAMA | {"max_position_embeddings": 131_072, "rope_scaling": SCALED},
    "qwen3": {**LLAMA, "model_type": "qwen3", "head_dim": 128, "max_position_embeddings": 40_960},
    "gpt_neox": {
        "model_type": "gpt_neox",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "max_position_embeddings": 2048,
        "rotary_pct": 0.25,
        "rotary_emb_base": 10_000,
    },
    "phi": {
        "model_type": "phi",
        "hidden_size": 2560,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        "head_dim": 64,
        "num_hidden_layers": 4,
        "max_position_embeddings": 131_072,
        "rope_theta": 150_000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
    },
    "gemma3_text": {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "num_hidden_layers": 12,
        "max_position_embeddings": 131_072,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "qwen2_vl": {
        "model_type": "qwen2_vl",
        "text_config": {
            **LLAMA,
            "model_type": "qwen2_vl_text",
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        },
    },
}


# Tests of the numbers themselves look at every distance that a user's call does.
NUMBERS = ("test_numbers_are", "test_a_sharper_softmax", "test_the_command")


@pytest.fixture(autouse=True)
def few_distances(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are compared at few distances, but where that is the subject."""
    if not request.node.name.startswith(NUMBERS):
        monkeypatch.setattr("posenc.detect.extend.rules.EVERY", 64)
        monkeypatch.setattr("posenc.detect.extend.rules.MORE", 64)


def found_for(name: str, times: int = 4) -> Extension:
    return extend(CONFIGS[name], factor=times)


# --- the numbers ----------------------------------------------------------------------------------

TRAINED, NEW, BASE, PAIRS = 1024, 8192, 500_000.0, 64


def loop_steps(rule: str) -> list[float]:
    """Radians a position of each pair under a rule, by the formulas of the papers."""
    times = NEW / TRAINED
    plain = [BASE ** (-2 * j / 128) for j in range(PAIRS)]
    if rule == "linear":
        return [step / times for step in plain]
    if rule == "ntk":
        return [(BASE * times ** (128 / 126)) ** (-2 * j / 128) for j in range(PAIRS)]
    if rule == "llama3":
        shares = [min(max((step * TRAINED / math.tau - 1) / 3, 0), 1) for step in plain]
        return [s * (t + (1 - t) / times) for s, t in zip(plain, shares, strict=True)]
    return plain


@pytest.mark.parametrize("rule", ["none", "linear", "ntk", "llama3"])
def test_numbers_are_those_of_a_loop(rule: str) -> None:
    config = LLAMA | {"max_position_embeddings": TRAINED}
    option = extend(config, NEW).layers[0].option(rule)
    assert option is not None
    unseen = lost = resolved = 0
    arc = 0.0
    plain, steps = loop_steps("none"), loop_steps(rule)
    for before, after in zip(plain, steps, strict=True):
        turns = before * TRAINED / math.tau
        if turns < 1 and after * NEW > before * TRAINED * (1 + 1e-6):
            unseen += 1
            arc = max(arc, min(after * NEW / math.tau, 1) - turns)
        lost += turns > 32 and before / after > 1.01
        resolved += after >= 2**-8
    change = 0.0
    for distance in range(1, TRAINED):
        chords = (
            abs(
                complex(math.cos(distance * a), math.sin(distance * a))
                - complex(math.cos(distance * b), math.sin(distance * b))
            )
            for a, b in zip(plain, steps, strict=True)
        )
        change = max(change, sum(chords) / PAIRS)
    numbers = option.effect
    assert (numbers.unseen, numbers.lost, numbers.resolved) == (unseen, lost, resolved)
    # A base is written with six digits, rounded up.
    tolerance = 1e-4 if rule == "ntk" else 1e3 * FLOAT64
    assert numbers.arc == pytest.approx(arc, abs=tolerance)
    assert numbers.change == pytest.approx(change, abs=tolerance)
    assert numbers.distances == TRAINED - 1


LATENT = {
    "model_type": "deepseek_v3",
    "qk_rope_head_dim": 64,
    "num_attention_heads": 8,
    "max_position_embeddings": 163_840,
    "rope_theta": 10_000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    },
}


@pytest.mark.parametrize(
    ("config", "rule", "gain"),
    [
        (LLAMA | {"max_position_embeddings": 64}, "yarn", (0.1 * math.log(2) + 1) ** 2),
        (LATENT, "given", ((0.1 * math.log(80) + 1) / (0.1 * math.log(40) + 1)) ** 2),
    ],
)
def test_a_sharper_softmax_counts_as_a_change(
    config: dict[str, Any], rule: str, gain: float
) -> None:
    layer = extend(config, factor=2).layers[0]
    option = layer.option(rule)
    assert option is not None
    before, after = layer.baseline.steps, posenc.frequencies(option.spec)
    trained = layer.baseline.trained
    every = np.arange(1, min(trained, 4096))
    far = np.linspace(4096, trained - 1, 4096).astype(int) if trained > 4096 else every[:0]
    distances = np.concatenate([every, far])[:, None]
    chords = np.abs(gain * np.exp(1j * distances * after) - np.exp(1j * distances * before))
    assert option.effect.change == pytest.approx(chords.mean(axis=1).max(), rel=1e-9)
    assert option.effect.distances == len(distances)


@pytest.mark.costly
@settings(max_examples=15, deadline=None)
@given(
    base=st.floats(100, 1e7),
    trained=st.integers(64, 10**5),
    times=st.floats(1.01, 100),
    width=st.sampled_from([16, 64, 128]),
)
def test_the_smallest_factor_is_one(base: float, trained: int, times: float, width: int) -> None:
    config = {"model_type": "llama", "head_dim": width, "rope_theta": base}
    config["max_position_embeddings"] = trained
    length = math.ceil(trained * times)
    for option in extend(config, length).layers[0].options:
        if option.smallest is None or option.name in ("none", "base", "dynamic"):
            continue
        more, less = option.smallest * 1.0001, option.smallest * 0.99
        for factor, enough in ((more, True), (less, option.smallest == 1)):
            if factor < 1:
                continue
            rules = {
                "linear": posenc.scaling.Linear,
                "ntk": posenc.scaling.NTK,
                "yarn": lambda f: posenc.scaling.YaRN(f, original_length=trained),
                "llama3": lambda f: posenc.scaling.Llama3(f, original_length=trained),
            }
            spec = posenc.RoPE(width, base=base, pairing="half")
            plain = posenc.frequencies(spec)
            scaled = posenc.frequencies(spec.replace(scaling=rules[option.name](factor)))
            slow = plain * trained < math.tau
            unseen = slow & (scaled * length > plain * trained * (1 + 1e-5))
            assert unseen.any() != enough, (option.name, factor)


def test_layers_with_a_window_are_left() -> None:
    found = found_for("gemma3_text")
    layers = {layer.name: layer for layer in found.layers}
    assert layers["sliding_attention"].window
    assert [option.name for option in layers["full_attention"].options] == ["none", "given"]
    change = json.loads(next(iter(found.lines().values())))
    assert change["rope_parameters"]["full_attention"]["factor"] == 32.0
    assert change["rope_parameters"]["sliding_attention"]["rope_type"] == "default"
    assert "llama.cpp" not in found.lines()


def test_one_rule_for_all_layers_reaches_those_with_a_window() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    found = extend(CONFIGS["gpt_oss"] | {"layer_types": kinds}, 262_144)
    assert [layer.window for layer in found.layers] == [True, False]
    assert "reaches sliding_attention too" in found.remarks()[0]
    plan = posenc.from_hf(found.config())
    specs: list[Any] = [plan[kind].spec for kind in kinds[:2]]
    assert [spec.scalings[0].factor for spec in specs] == [64, 64]
    assert json.loads(next(iter(found.lines().values())))["rope_parameters"]["factor"] == 64


@pytest.mark.costly
def test_a_window_that_no_layer_of_the_plan_has_is_told() -> None:
    mistral = LLAMA | {"model_type": "mistral", "sliding_window": 4096}
    assert extend(mistral, 65_536).layers[0].window
    assert not extend(mistral | {"sliding_window": None}, 65_536).layers[0].window
    unused = LLAMA | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    assert not extend(unused, 65_536).notes
    left_out = LLAMA | {"model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 2}
    assert not extend(left_out, 65_536).notes
    some = unused | {"use_sliding_window": True, "max_window_layers": 2, "num_hidden_layers": 4}
    assert any("Layers 2, 3 have a window of 4096" in n for n in extend(some, 65_536).notes)
    assert not extend(LLAMA | {"sliding_window": 4096}, 65_536).notes  # never read
    doubt = extend(LLAMA | {"model_type": "olmoe", "sliding_window": 4096}, 65_536).notes
    assert any("whether the class reads it is not known here" in note for note in doubt)
    assert not any("sliding_window=" in note for note in found_for("gemma3_text").notes)
    chunks = LLAMA | {"model_type": "llama4_text", "head_dim": 128, "attention_chunk_size": 4096}
    assert any("attention_chunk_size" in note for note in extend(chunks, 65_536).notes)


def test_what_is_recommended() -> None:
    assert found_for("llama").rule == "llama3"
    # Every pair finishes a turn: nothing is left to see.
    fast = LLAMA | {"rope_theta": 10.0, "max_position_embeddings": 8192}
    found = extend(fast, 65_536)
    assert found.rule == "none"
    assert json.loads(next(iter(found.lines().values())))["max_position_embeddings"]
    # Of two pairs the slow one is stretched alike by every rule; one that grows is not written.
    narrow = {"model_type": "llama", "head_dim": 4, "rope_theta": 1_234_567.0}
    found = extend(narrow, 256, trained=64)
    dynamic = found.layers[0].option("dynamic")
    assert dynamic is not None
    assert (dynamic.effect.unseen, dynamic.effect.lost, found.rule) == (0, 0, "llama3")
    everywhere = CONFIGS["gemma3_text"] | {"layer_types": ["sliding_attention"] * 12}
    assert extend(everywhere, 262_144).rule == "none"
    assert "window" in " ".join(lines(extend(everywhere, 262_144)))


def test_what_changes_at_a_length() -> None:
    found = found_for("llama")
    assert "rerotate" in found.switches("dynamic")
    assert found.switches().startswith("No frequency changes")
    assert not {"vLLM", "SGLang"} & {*found.lines("dynamic")}
    config = {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "max_position_embeddings": 131_072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": LONG,
    }
    found = extend(config, 262_144)
    assert found.rule == ""
    assert any("LongRoPE has other frequencies above 4,096" in note for note in found.notes)
    assert "its divisors fit one length" in " ".join(lines(found))


# --- the lines ------------------------------------------------------------------------------------


def merged(config: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """As `PreTrainedConfig.update` does, part by part."""
    made = copy.deepcopy(config)
    for key, value in change.items():
        inner = isinstance(value, dict) and "model_type" in config.get(key, {})
        made[key] = merged(config[key], value) if inner else value
    return made


@pytest.mark.parametrize("name", list(CONFIGS))
def test_transformers_reads_the_lines(name: str) -> None:
    from transformers import CONFIG_MAPPING

    found = found_for(name)
    seen = 0
    for rule in found.rules:
        for engine, line in found.lines(rule).items():
            if not engine.startswith("transformers"):
                continue
            config = merged(CONFIGS[name], json.loads(line))
            for key in engine.partition("in place of ")[2].split(", "):
                config.get("text_config", config).pop(key, None)
            seen += 1
            made = CONFIG_MAPPING[config["model_type"]](**config)
            made = getattr(made, "text_config", made)
            for layer in found.layers:
                option = layer.option(rule)
                spec: Any = layer.baseline.spec if option is None else option.spec
                length = found.length if rule == "dynamic" else None
                frequencies, factor = asked(made, layer.name, length)
                expected = posenc.frequencies(spec)
                np.testing.assert_allclose(
                    frequencies, expected, rtol=10 * RELATIVE["float32"], err_msg=f"{rule} {engine}"
                )
                assert factor == pytest.approx(spec.attention_factor, rel=RELATIVE["float32"])
    assert seen >= 2


def asked(config: Any, name: str, length: int | None) -> tuple[np.ndarray, float]:
    """Frequencies and attention factor, as the rotary module of transformers computes them."""
    import importlib

    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind = name.rsplit(".", 1)[-1]
    rules = config.rope_parameters
    own = rules.get(kind, rules)
    kinds = {"layer_type": kind} if kind in rules else {}
    if own["rope_type"] == "default":
        module = type(config).__module__.replace("configuration", "modeling")
        names = vars(importlib.import_module(module))
        rotary = next(
            cls
            for cls in names.values()
            if hasattr(cls, "compute_default_rope_parameters") and "Vision" not in cls.__name__
        )
        values, factor = rotary.compute_default_rope_parameters(config, **kinds)
    else:
        more = {} if length is None else {"seq_len": length}
        values, factor = ROPE_INIT_FUNCTIONS[own["rope_type"]](config, None, **kinds, **more)
    return values.double().numpy(), float(factor)


@pytest.mark.parametrize("rule", ["linear", "ntk", "yarn", "base"])
def test_llama_cpp_reads_the_options(rule: str, tmp_path: Path) -> None:
    keys = {
        "context_length": 8192,
        "embedding_length": 512,
        "attention__head_count": 4,
        "block_count": 2,
        "rope__dimension_count": 128,
        "rope__freq_base": 500_000.0,
    }
    path = written(tmp_path / "plain.gguf", "llama", **keys)
    found = extend(path, 131_072)
    words = shlex.split(found.lines(rule)["llama.cpp"])
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert options.pop("--override-kv") == "llama.context_length=int:131072"
    assert options.pop("--ctx-size") == "131072"
    named = {
        "--rope-scaling": ("rope__scaling__type", str),
        "--rope-scale": ("rope__scaling__factor", float),
        "--yarn-orig-ctx": ("rope__scaling__original_context_length", int),
        "--rope-freq-base": ("rope__freq_base", float),
    }
    for option, value in options.items():
        key, kind = named[option]
        keys[key] = kind(value)
    plan = posenc.from_gguf(written(tmp_path / "scaled.gguf", "llama", **keys))
    option = found.layers[0].option(rule)
    assert option is not None
    assert plan["attention"].spec == option.spec


def test_options_that_llama_cpp_does_not_have() -> None:
    assert "llama.cpp" not in found_for("gpt_oss").lines()  # bounds that are not rounded
    assert any("its ramp or its magnitude" in text for text in found_for("gpt_oss").remarks())
    assert any("tensor of the GGUF" in text for text in found_for("llama").remarks())


@pytest.mark.costly
def test_sections_are_not_handed_to_engines_that_forget_them() -> None:
    found = found_for("qwen2_vl")
    assert "vLLM" not in found.lines("llama3")
    assert "vLLM" not in found.lines("yarn")  # its ramp is that of four times the length
    assert "vLLM" in found.lines("ntk")
    assert "SGLang" not in found.lines("yarn")  # it would replace text_config as a whole
    assert any("text_config" in text for text in found.remarks("yarn"))


def test_a_config_is_written_and_read_again() -> None:
    found = found_for("llama")
    for rule in found.rules:
        plan = posenc.from_hf(found.config(rule))
        option = found.layers[0].option(rule)
        assert option is not None
        assert plan["attention"].spec.at(found.length) == option.spec.at(found.length)  # type: ignore[union-attr]


# --- what cannot be planned -----------------------------------------------------------------------

ALIBI = {"model_type": "bloom", "n_head": 16, "hidden_size": 1024}
LEARNED = {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_head": 12}
CONTRADICTORY = LLAMA | {"rope_scaling": YARN}
REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (LLAMA, {"factor": 0.5}, ArgumentError, "from 1 to 2**20, got 0.5"),
    (LLAMA, {"factor": math.nan}, ArgumentError, "got nan"),
    (LLAMA, {"to": 4096}, ArgumentError, "above the trained 8192"),
    (LLAMA, {}, ArgumentError, "to or factor, got neither"),
    (LLAMA, {"to": 9000, "factor": 2}, ArgumentError, "got both"),
    (LLAMA, {"to": 9000, "trained": 0}, ArgumentError, "a length, got 0"),
    (ALIBI, {"to": 9000}, DataError, "ALiBi is defined at every distance"),
    (LEARNED, {"to": 9000}, DataError, "posenc.resize makes it longer"),
    (CONTRADICTORY, {"to": 90_000}, DataError, "8192 declared, 32768 before the scaling"),
    (
        {k: v for k, v in LLAMA.items() if k != "max_position_embeddings"} | {"model_type": "x"},
        {"to": 9000},
        DataError,
        "",
    ),
    ({"model_type": "mamba"}, {"to": 9000}, DataError, "rotates queries and keys"),
    ({"model_type": "llama", "rope_theta": -1}, {"to": 9000}, DataError, ""),
    ("", {"to": 9000}, DataError, ""),
    ({}, {"to": 9000}, DataError, ""),
    ([1], {"to": 9000}, DataError, ""),
]


@pytest.mark.parametrize(("source", "asked_for", "error", "words"), REFUSED)
def test_refused(source: Any, asked_for: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error) as raised:
        extend(source, **asked_for)
    assert words in str(raised.value)


def test_no_length_is_stated() -> None:
    plan = posenc.Reading((posenc.Layer("attention", spec=posenc.RoPE(64, pairing="half")),))
    with pytest.raises(DataError, match="a trained length, got none in the config"):
        extend(plan, 9000)
    found = extend(plan, 9000, trained=4096)
    assert found.trained == 4096
    assert "rope_parameters" in "".join(found.lines("yarn"))
    with pytest.raises(ArgumentError, match="a config to write"):
        found.config()


def test_a_scaling_that_was_added_afterwards() -> None:
    added = LLAMA | {"max_position_embeddings": 32_768, "rope_scaling": YARN}
    found = extend(added, 65_536)
    assert found.trained == 32_768
    assert found.layers[0].baseline.spec.scalings == ()
    trained = extend(CONFIGS["llama 3.1"], 262_144)
    assert trained.layers[0].baseline.spec.scalings
    assert any("trained with the config's own scaling" in note for note in trained.notes)
    assert "trained on 131,072 positions with its own scaling, asked for 262,144" in str(trained)
    before = extend(CONFIGS["llama 3.1"], 262_144, trained=8192)
    assert before.layers[0].baseline.spec.scalings == ()
    assert "trained on 8,192 positions, asked for" in str(before)


# --- the command ----------------------------------------------------------------------------------


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["extend", *arguments], input=text)


@pytest.mark.costly
def test_the_command(tmp_path: Path) -> None:
    path, output = tmp_path / "config.json", tmp_path / "longer.json"
    path.write_text(json.dumps(LLAMA))
    result = run(str(path), "--to", "131072")
    assert result.exit_code == 0
    for words in (
        "llama: trained on 8,192 positions, asked for 131,072, 16 times as many",
        "64 pairs. Within 8,192 positions, 29 slow pairs complete no turn and 19 fast pairs",
        "unchanged                    1      29    0.93     0      1   0.00",
        "first rule, in the order explained below: 'Llama 3', with factor 16",
        "contradicted two claims",
        "Quality is not predicted",
        "--max-model-len 131072",
    ):
        assert words in result.output
    result = run(str(path), "--factor", "4", "--rule", "yarn", "-o", str(output))
    assert result.exit_code == 0
    spec: Any = posenc.from_hf(output)["attention"].spec
    assert spec.scalings == (posenc.scaling.YaRN(4, original_length=8192),)
    assert run(str(path), "--factor", "4", "-o", str(output)).exit_code == 2
    assert posenc.from_hf(output)["attention"].spec == spec
    assert run(str(path), "--factor", "8", "-o", str(output), "--force").exit_code == 0
    assert posenc.from_hf(output)["attention"].spec != spec
    data = json.loads(run("-", "--to", "131072", "--json", text=json.dumps(LLAMA)).output)
    assert data == json.loads(json.dumps(extend(LLAMA, 131_072).to_dict()))


def test_mistakes_of_the_command(tmp_path: Path) -> None:
    path, output = tmp_path / "config.json", tmp_path / "longer.json"
    path.write_text(json.dumps(LLAMA))
    for arguments, code, words in (
        ((), 2, "or --factor F, and not both"),
        (("--to", "9000", "--factor", "2"), 2, "not both"),
        (("--to", "9000", "--force"), 2, "--force needs -o FILE"),
        (("--factor", "2", "--rule", "yarm", "-o", str(output)), 2, "Did you mean 'yarn'"),
        (("--to", "100"), 2, "above the trained 8192"),
    ):
        result = run(str(path), *arguments)
        assert result.exit_code == code, result.output
        assert words in result.output
        assert "trained on" not in result.output
    assert not output.exists()


@pytest.mark.costly
def test_the_picture(tmp_path: Path) -> None:
    path, output = tmp_path / "config.json", tmp_path / "rules.png"
    path.write_text(json.dumps(CONFIGS["gemma3_text"]))
    arguments = ["plot", "extend", str(path), "--to", "262144", "-o", str(output), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["caption"][0].startswith("Trained on 131,072 positions, stretched ×2 to 262,144.")
    assert output.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("value", ["many", True, 131072.0, math.nan, [131072], b"131072"])
@pytest.mark.parametrize("name", ["to", "factor", "trained"])
def test_lengths_are_integers_and_factors_numbers(name: str, value: Any) -> None:
    if name == "factor" and value == 131072.0:
        value = 4 + 0j
    options = {name: value} if name != "trained" else {"to": 131072, name: value}
    with pytest.raises(ArgumentError, match=rf"extend: {name}: expected an? \w+"):
        extend(LLAMA, **options)


@pytest.mark.costly
def test_lengths_of_numpy_are_written_as_integers() -> None:
    plain = extend(LLAMA, 131072, trained=4096)
    found = extend(LLAMA, np.int64(131072), trained=np.int32(4096))
    assert found.to_dict() == plain.to_dict()
    assert json.loads(json.dumps(found.config())) == plain.config()
    scaled = extend(LLAMA, factor=np.float32(4))
    assert scaled.to_dict() == extend(LLAMA, factor=4).to_dict()

"""What engines make of a line: a table of their code, and lines only where it is known."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

import posenc
from posenc.cli import app
from posenc.detect.extend import extend
from posenc.detect.facts.engines import as_read
from posenc.presets.families import class_defaults
from tests.detect.checkpoints import folder_of
from tests.detect.facts.folders import config_of, trained
from tests.golden.make_vllm import CONFIGS as VLLM
from tests.tolerances import ORIGINAL, RELATIVE

SIZES = {"head_dim": 64, "rope_theta": 10_000.0, "max_position_embeddings": 4096}
LATENT = {
    "model_type": "deepseek_v3",
    "qk_rope_head_dim": 64,
    "num_attention_heads": 8,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 4096,
}
CONFIGS = resources.files("posenc.presets") / "configs"
TABLE: dict[str, Any] = json.loads((CONFIGS / "engines.json").read_text(encoding="utf-8"))
SERVERS = {"vLLM", "SGLang"}
GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(autouse=True)
def few_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are compared at few distances: lines do not depend on them."""
    monkeypatch.setattr("posenc.detect.extend.rules.EVERY", 64)
    monkeypatch.setattr("posenc.detect.extend.rules.MORE", 64)


def of(model_type: str, **more: Any) -> dict[str, Any]:
    return {"model_type": model_type, **SIZES, **more}


def yarn(factor: float, **more: Any) -> dict[str, Any]:
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": 4096,
    } | more


# A config, a rule, and the engines that follow it, by reading the releases that the table names.
LINES: list[tuple[dict[str, Any], str, set[str]]] = [
    (of("llama"), "llama3", SERVERS),
    (of("llama"), "yarn", {*SERVERS, "llama.cpp"}),
    (of("llama"), "linear", {*SERVERS, "llama.cpp"}),
    (of("llama"), "dynamic", set()),
    # Both rewrite every type but `default` to `deepseek_yarn`.
    (LATENT, "llama3", set()),
    (LATENT | {"model_type": "deepseek_v2"}, "llama3", set()),
    (LATENT, "linear", set()),
    (LATENT, "yarn", SERVERS),
    (LATENT, "ntk", {*SERVERS, "llama.cpp"}),
    (LATENT | {"model_type": "glm4_moe_lite"}, "llama3", set()),
    # Attention over latents without that rewriting.
    (LATENT | {"model_type": "minicpm3", "hidden_size": 512}, "yarn", SERVERS),
    # SGLang hands the base alone to its rotary module, here as a whole number.
    (of("gemma", hidden_size=512), "yarn", {"vLLM", "llama.cpp"}),
    (of("gemma", hidden_size=512), "ntk", {*SERVERS, "llama.cpp"}),
    (of("mixtral"), "ntk", {"vLLM", "llama.cpp"}),
    # vLLM makes YaRN of every rule of gpt-oss.
    (of("gpt_oss", layer_types=["full_attention"]), "llama3", {"SGLang"}),
    # Neither was made of Persimmon; the class of GPT-J has no rule at all in transformers.
    (of("persimmon", hidden_size=512), "yarn", {"llama.cpp"}),
    (
        {"model_type": "gptj", "n_embd": 512, "n_head": 4, "n_positions": 2048},
        "yarn",
        {"vLLM", "llama.cpp"},
    ),
]


@pytest.mark.parametrize(("config", "rule", "engines"), LINES)
def test_a_line_stands_only_where_the_engine_is_known_to_follow(
    config: dict[str, Any], rule: str, engines: set[str]
) -> None:
    lines, remarks = extend(config, factor=4.03125).written(rule)
    assert {name for name in lines if not name.startswith("transformers")} == engines
    told = " ".join(remarks)
    for engine in {*SERVERS, "llama.cpp"} - engines:
        assert engine in told, "a missing line is told"
    read = class_defaults(config["model_type"])
    assert ("transformers" in " ".join(lines)) == (read is not None and read.reads is not None)
    assert "A draft model (speculative decoding)" in told


def test_a_scaling_of_mla_differs_in_deepseek_yarn() -> None:
    """The frequencies of both rules, by their formulas: why the line may not stand."""
    steps = [10_000.0 ** (-2 * j / 64) for j in range(32)]
    layer = extend(LATENT, factor=16).layers[0]
    llama3, other = layer.option("llama3"), layer.option("yarn")
    assert llama3 is not None
    assert other is not None
    made, as_read = posenc.frequencies(llama3.spec), posenc.frequencies(other.spec)
    shares = [min(max((s * 4096 / math.tau - 1) / 3, 0), 1) for s in steps]
    expected = [s * (t + (1 - t) / 16) for s, t in zip(steps, shares, strict=True)]
    np.testing.assert_allclose(made, expected, rtol=10 * RELATIVE["float32"])
    assert max((as_read / made).max(), (made / as_read).max()) > 2  # no small matter


@pytest.mark.parametrize("key", ["mscale", "mscale_all_dim"])
def test_one_factor_without_the_other_is_read_otherwise(key: str) -> None:
    stated = LATENT | {"max_position_embeddings": 16_384, "rope_scaling": yarn(4.0, **{key: 0.7})}
    found = extend(stated, 32_768)
    assert not {*found.lines("given")} & SERVERS
    both = yarn(4.0, mscale=0.7, mscale_all_dim=0.7)
    found = extend(stated | {"rope_scaling": both}, 32_768)
    assert {*found.lines("given")} >= SERVERS
    # Outside deepseek_yarn, releases read them otherwise.
    assert not any("#48621" in text for text in found.remarks("given"))
    plain = of("llama", max_position_embeddings=16_384, rope_scaling=both)
    assert any("#48621" in text for text in extend(plain, 32_768).remarks("given"))


def test_a_stated_attention_factor_goes_with_its_factor() -> None:
    own = 0.1 * math.log(8) + 1
    config = of("llama", rope_scaling=yarn(8.0, attention_factor=own))
    config["max_position_embeddings"] = 32_768
    found = extend(config, 65_536)
    lines = found.lines("given")
    change = json.loads(next(iter(lines.values())))["rope_parameters"]
    assert change["attention_factor"] == pytest.approx(0.1 * math.log(16) + 1)
    assert {*lines} >= SERVERS
    assert any("attention factor of 1.2079, that of factor 8" in note for note in found.notes)


@pytest.mark.parametrize("stated", [1.0, 1.5, 0.1 * math.log(4) + 1])
def test_an_attention_factor_of_another_factor_is_named(stated: float) -> None:
    config = of("llama", rope_scaling=yarn(8.0, attention_factor=stated))
    config["max_position_embeddings"] = 32_768
    found = extend(config, 65_536)
    lines, remarks = found.written("given")
    change = json.loads(next(iter(lines.values())))["rope_parameters"]
    assert change["attention_factor"] == pytest.approx(stated)
    meant = math.exp(10 * (stated - 1))
    note = (
        f"attention factor of {stated:.5g}, that of factor {meant:.4g}, while its own factor is 8"
    )
    assert any(note in text and "asks for 1.2773" in text for text in found.notes)
    # SGLang passes the key over, and vLLM did.
    assert "SGLang" not in lines
    assert any("attention_factor: vLLM 0.33.0 reads it" in text for text in remarks)
    # Without a stated one there is nothing to say.
    plain = config | {"rope_scaling": yarn(8.0)}
    assert not any("attention factor" in text for text in extend(plain, 65_536).notes)


def test_a_scaling_that_was_not_trained_leaves_no_attention_factor() -> None:
    config = of("llama", rope_scaling=yarn(8.0, attention_factor=1.0))
    found = extend(config, 65_536)
    change = json.loads(next(iter(found.lines("yarn").values())))["rope_parameters"]
    assert "attention_factor" not in change
    assert found.layers[0].baseline.spec.attention_factor == 1


@pytest.mark.parametrize(("name", "share"), [("phi", 0.5), ("glm", 0.5), ("glm4", 0.5)])
def test_a_line_says_the_share_that_the_class_alone_knows(name: str, share: float) -> None:
    """vLLM puts the line over the config it loaded, as transformers' `update` does."""
    from transformers import CONFIG_MAPPING

    sizes = {"hidden_size": 512, "num_attention_heads": 4, "max_position_embeddings": 4096}
    found = extend({"model_type": name, **sizes}, 8192)
    words = found.lines("yarn")["vLLM"].split("'")
    config = CONFIG_MAPPING[name]()
    config.update(json.loads(words[1]))
    assert config.rope_parameters["partial_rotary_factor"] == share
    assert config.rope_parameters["factor"] == 2


@pytest.mark.costly
def test_sections_that_the_class_alone_knows_are_not_lost() -> None:
    inner = of("qwen2_vl_text", head_dim=128)
    outer = {"model_type": "qwen2_vl", "text_config": inner}
    assert "vLLM" not in extend(outer, 65_536).lines("ntk")
    inner["rope_scaling"] = {"type": "mrope", "mrope_section": [16, 24, 24]}
    assert "vLLM" in extend(outer, 65_536).lines("ntk")
    # Its ramp of YaRN is that of four times the original length, and linear drops the sections.
    for rule in ("yarn", "linear"):
        assert "vLLM" not in extend(outer, 65_536).lines(rule)
    # An override of the whole would not reach the part that transformers 5 makes of flat keys.
    flat = extend(inner | {"model_type": "qwen2_vl"}, 65_536)
    assert not {*flat.lines("yarn")} & SERVERS


def test_every_row_of_the_table_has_a_source() -> None:
    assert {*TABLE} == {"transformers", "vLLM", "SGLang", "llama.cpp"}
    for engine, own in TABLE.items():
        assert own["release"] in own["source"], engine
        types = [name for row in own["families"] for name in row["sources"]]
        assert len(types) == len({*types}), engine
        assert all(source for row in own["families"] for source in row["sources"].values()), engine
        used = {number for row in own["families"] for number in row.get("rules", {}).values()}
        assert used == {*range(len(own["rules"]))}, engine
        for rule in own["rules"]:
            kinds = [*rule.get("kinds", {"": rule}).values()]
            for one in kinds:
                told = [key for name in ("reads", "passes", "unlike") for key in one.get(name, ())]
                assert len(told) == len({*told}), (engine, rule)
                assert ("follows" in one) != ("stops" in one) or not one, (engine, rule)
    version = json.loads((CONFIGS / "classes.json").read_text(encoding="utf-8"))["version"]
    assert TABLE["transformers"]["release"] == version


@pytest.mark.parametrize("name", [name for name in VLLM if "proportional" not in name])
def test_the_table_gives_the_numbers_of_vllm(name: str) -> None:
    """The rows of `cos_sin_cache` in `golden/vllm.safetensors`, from the keys that are read."""
    stored = load_file(GOLDEN / "vllm.safetensors")
    positions, rows = (stored[f"{name}: {key}"] for key in ("positions", "rows"))
    near = positions <= 17  # angles of float32
    reading = as_read("vLLM", VLLM[name])
    assert reading.config is not None, reading.why
    spec = posenc.from_hf(reading.config)["attention"].spec
    made = np.concatenate(posenc.cos_sin(spec, positions[near], dtype="float64"), axis=-1)
    bound = ORIGINAL * spec.attention_factor
    np.testing.assert_allclose(rows[near], made, rtol=0, atol=bound)


def test_the_command_says_what_the_order_is_worth() -> None:
    result = CliRunner().invoke(
        app, ["extend", "-", "--to", "16384"], input=json.dumps(of("llama"))
    )
    assert result.exit_code == 0
    assert "recommended" not in result.output.lower()
    assert "registered study of small models contradicted two claims" in result.output
    assert "read each config line back with its own reader" in result.output
    result = CliRunner().invoke(app, ["extend", "--help"])
    assert "recommended" not in result.output.lower()


@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
@pytest.mark.parametrize(("stated", "pairs"), [(None, "half"), (True, "interleaved")])
def test_a_key_that_is_absent_stands_for_what_the_engine_takes(
    engine: str, stated: bool | None, pairs: str
) -> None:
    """GLM's indexer turns neighbours in transformers, and in the engines where a key says so."""
    own = {} if stated is None else {"indexer_rope_interleave": stated}
    config = LATENT | {"model_type": "glm_moe_dsa", "num_hidden_layers": 4, **own}
    reading = as_read(engine, config)
    assert reading.config is not None, reading.why
    read = {layer.label: layer.spec for layer in posenc.explain(reading.config)}
    assert read["attention:indexer"].channels.order == pairs
    told = ["it takes False for indexer_rope_interleave"] if stated is None else []
    assert [text for text in reading.changes if "indexer" in text] == told


def test_a_rule_is_written_for_weights_that_record_another_pairing(tmp_path: Path) -> None:
    """The config of such a folder says half as before; a plan that pairs otherwise is not it."""
    source, converted, longer = (tmp_path / name for name in ("source", "converted", "f.json"))
    folder_of(source, trained(), config_of(max_position_embeddings=4096))
    posenc.convert(source, converted, pairing="interleaved")
    command = ["extend", str(converted), "16384", "--rule", "yarn", "-o", str(longer)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "weights pair interleaved. No line here says so" in result.stdout
    plain = extend(config_of(max_position_embeddings=4096), 16384, rule="yarn")
    assert json.loads(longer.read_text()) == plain.config()
    found = extend(converted, 16384, rule="yarn")
    assert found.layers[0].baseline.spec.channels.order == "interleaved"
    assert found.lines() == plain.lines()
    assert not any("conversion" in note for note in extend(source, 16384).notes)


@pytest.mark.parametrize(
    ("engine", "config", "why"),
    [
        ("vLLM", of("gpt_oss", rope_parameters=yarn(32.0)), "stops without beta_fast"),
        ("SGLang", of("arcee", rope_parameters={"partial_rotary_factor": 0.5, "rope_theta": 1e4}),
         "what it makes of partial_rotary_factor is not known"),
    ],
)  # fmt: skip
def test_what_a_table_does_not_tell_is_not_known(
    engine: str, config: dict[str, Any], why: str
) -> None:
    reading = as_read(engine, config)
    assert reading.config is None
    assert why in reading.why

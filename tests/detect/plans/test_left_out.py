"""What configs leave out, against what the classes of transformers make of the same files."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from tools.models import class_defaults
from tools.models.plans import SUBSTITUTES

import posenc
from posenc.detect.explain.describe import describe
from posenc.presets.families import families
from tests.detect.configs import PLAIN

# Keys whose absence changes what turns, beside those that rows of families name.
KEYS = ("layer_types", "rope_parameters", "num_hidden_layers", "sliding_window", "head_dim")
YARN = {
    "rope_type": "yarn",
    "factor": 8.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
MISTAKEN = {
    # The class has one base where the file has a dictionary for each type of layer, another where
    # it has none; the plan warns that rope_theta was not read.
    "deepseek_v4": "rope_parameters.rope_theta",
    # Which layers are of which type is not stated, and the plan warns.
    "cohere_compass_text": "layer_types",
}


def turned(plan: posenc.Reading) -> dict[Any, list[Any]]:
    """Layer -> width, frequencies and factor, or none."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for layer in plan:
        if layer.kind == "none":
            for index in layer.indices or ():
                found[index].append(None)
        if not isinstance(layer.spec, posenc.RoPE):
            continue
        spec = layer.spec.at(100) if layer.spec.needs_length else layer.spec
        turns = tuple(np.asarray(posenc.frequencies(spec)).ravel().round(12))
        for index in layer.indices if layer.indices is not None else (...,):
            found[index].append((spec.dim, turns, spec.attention_factor))
    return found


def same(one: posenc.Reading, other: posenc.Reading) -> bool:
    """Whether every layer does the same; `...` stands for all, or for those not listed."""
    x, y = turned(one), turned(other)
    if x == y:
        return True
    if set(x) == {...}:
        return all(value in (x[...], [None]) for value in y.values())
    return set(y) == {...} and all(value in (y[...], [None]) for value in x.values())


def left_out(data: dict[str, Any], keys: set[str]) -> Any:
    """The config without one key at a time."""
    yield "", data
    for key in keys & set(data):
        yield key, {k: v for k, v in data.items() if k != key}
    for key in ("rope_theta", "partial_rotary_factor"):
        without = copy.deepcopy(data)
        params = without.get("rope_parameters") or {}
        inner = [params, *(v for v in params.values() if isinstance(v, dict))]
        if [values for values in inner if values.pop(key, None) is not None]:
            yield f"rope_parameters.{key}", without


def dialects(data: dict[str, Any]) -> Any:
    """The config as it is, and in the older dialect, plain and with YaRN."""
    yield data
    params = data.get("rope_parameters") or {}
    old = {k: v for k, v in data.items() if k != "rope_parameters"}
    inner = [params, *(v for v in params.values() if isinstance(v, dict))]
    for key in ("rope_theta", "partial_rotary_factor"):
        stated = [values[key] for values in inner if key in values]
        if stated:
            old[key] = stated[0]
    yield old
    yield {**old, "rope_scaling": dict(YARN), "max_position_embeddings": 32768}


ROTARY = [
    name
    for name, row in sorted(families().items())
    if any("rotary" in rule for rule in row.entries)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow("detect/explain", "presets")
@pytest.mark.parametrize("part", range(8))
def test_a_key_left_out_is_what_the_class_takes_for_it_or_refused(part: int) -> None:
    transformers = pytest.importorskip("transformers", reason="its classes are the oracle")
    transformers.logging.set_verbosity_error()
    seen = 0
    for name in ROTARY[part::8]:
        if name in transformers.CONFIG_MAPPING:
            seen += compared(name, transformers.CONFIG_MAPPING[name])
    assert seen > 100


# Of each kind of default one: a share, a width, a base for each type, a pattern, an interval.
SOME = [
    "glm4",
    "phi",
    "gpt_neox",
    "stablelm",
    "nemotron",
    "gptj",
    "minimax_m2",
    "gemma3_text",
    "gemma3n_text",
    "olmo3",
    "modernbert",
    "deepseek_v4",
    "cohere2",
    "exaone4",
    "qwen3_next",
    "llama4_text",
    "smollm3",
    "gpt_oss",
    "mimo_v2_flash",
    "laguna",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME)
def test_some_left_out(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="its classes are the oracle")
    transformers.logging.set_verbosity_error()
    assert compared(name, transformers.CONFIG_MAPPING[name])


def compared(name: str, cls: Any) -> int:
    """How many readings were equal; a difference must be an error or a known warning."""
    config = class_defaults.made(cls, **SUBSTITUTES.get(name, {}))
    if config is None:
        return 0
    rules = [rule for rule in families()[name].entries if "rotary" in rule]
    keys = {*KEYS, *class_defaults.WIDTHS, *class_defaults.THETAS, *class_defaults.words(rules)}
    count = 0
    for whole in dialects(plain(config)):
        for key, data in left_out(whole, keys):
            stated = {k: v for k, v in copy.deepcopy(data).items() if k != "model_type"}
            made = class_defaults.made(cls, **stated)
            if made is None:
                continue
            got = posenc.from_hf(data, on_error="report")
            want = posenc.from_hf(plain(made), on_error="report")
            if got.errors or want.errors:
                continue
            if key == MISTAKEN.get(name):
                assert got.warnings or same(got, want)
                continue
            assert same(got, want), (name, key, turned(got).keys(), turned(want).keys())
            count += 1
    return count


def plain(config: Any) -> dict[str, Any]:
    data = dict(json.loads(json.dumps(config.to_dict(), default=str)))
    data.pop("transformers_version", None)
    return data


@pytest.mark.costly
def test_the_table_is_what_the_classes_say() -> None:
    transformers = pytest.importorskip("transformers", reason="its classes are asked")
    stored = json.loads(class_defaults.DATA.read_text(encoding="utf-8"))
    if stored["version"] != transformers.__version__:
        pytest.skip(f"the table is of transformers {stored['version']}")
    names = set(SOME) & set(stored["types"])
    for name in names:
        row = class_defaults.whole(transformers.CONFIG_MAPPING[name], families()[name].entries)
        kept = {key: value for key, value in stored["types"][name].items() if key != "reads"}
        assert json.loads(json.dumps(row)) == kept, name
    for name in ("gemma3", "llama4", "clip", "qwen2_5_omni_thinker", "llava", "esmfold2"):
        for part, row in class_defaults.parts(transformers.CONFIG_MAPPING[name], name).items():
            assert json.loads(json.dumps(row)) == stored["parts"][part], part


# --- by hand --------------------------------------------------------------------------------------

GEMMA_3_4B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 896,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
    },
}


def test_gemma_3_as_it_is_published() -> None:
    plan = posenc.from_hf(GEMMA_3_4B)
    layers = {entry.layer: entry for entry in plan}
    full, local = layers["text.full_attention"], layers["text.sliding_attention"]
    assert full.indices == (5, 11, 17, 23, 29)
    scaling = posenc.scaling.Linear(8)
    assert full.spec == posenc.RoPE(256, pairing="half", base=1e6, scaling=scaling)
    assert local.spec == posenc.RoPE(256, pairing="half", base=1e4)
    assert {s.origin for s in full.sources if s.field in ("base", "dim")} == {"class"}
    assert "transformers 5.23" in next(s.where for s in full.sources if s.field == "base")
    assert (
        "the class's defaults of base and dim, which the config leaves out"
        in describe(plan)["sure"]
    )


def test_scaling_of_older_files_reaches_the_layers_that_the_class_gives_it() -> None:
    config = {
        "model_type": "olmo3",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "max_position_embeddings": 65536,
        "rope_theta": 500000,
        "rope_scaling": {**YARN, "original_max_position_embeddings": 8192},
    }
    for source in (config, posenc.to_hf(config, "hf5").config):
        plan = posenc.from_hf(source)
        local, full = plan["sliding_attention"].spec, plan["full_attention"].spec
        assert local == posenc.RoPE(128, pairing="half", base=500_000)
        assert isinstance(full, posenc.RoPE)
        assert full.scalings == (posenc.scaling.YaRN(8, original_length=8192),)
    other = posenc.from_hf({**config, "rope_theta": 1e6})
    assert any("does not reach layers of type 'sliding_attention'" in w for w in other.warnings)
    unknown = {**config, "model_type": "olmo9"}
    told = posenc.from_hf(unknown, pairing="half")
    assert any("read in part, because" in text for text in told.warnings)


def test_a_missing_base_is_that_of_the_class() -> None:
    entry = posenc.from_hf({"model_type": "smollm3", "head_dim": 64})["attention"]
    assert entry.spec.base == 2e6  # type: ignore[union-attr]
    where = next(s.where for s in entry.sources if (s.field, s.origin) == ("base", "class"))
    assert where == "rope_theta=2000000, transformers 5.23.0"


def test_a_scaling_that_the_class_has_by_default_is_taken() -> None:
    config = {"model_type": "gpt_oss", "head_dim": 64, "rope_theta": 123456.0}
    entry = posenc.from_hf({**config, "num_hidden_layers": 4})["attention"]
    yarn = posenc.scaling.YaRN(32, original_length=4096, rounding="none")
    assert entry.spec == posenc.RoPE(64, pairing="half", base=123456.0, scaling=yarn)
    assert ("scaling.factor", "class") in {(s.field, s.origin) for s in entry.sources}


def test_a_base_that_the_class_does_not_read_is_said() -> None:
    plan = posenc.from_hf({"model_type": "apertus", "head_dim": 64, "rope_theta": 5000.0})
    assert plan["attention"].spec.base == 1.2e7  # type: ignore[union-attr]
    assert any("rope_theta=5000 does not reach any layer" in text for text in plan.warnings)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("qwen3_next", "LLFLLF"),  # of the period that the file states
        ("modernbert", "FSSFSS"),
        ("mimo_v2_flash", "FSSSSF"),  # behind the first
        ("gemma3_text", "SSSSSF"),
        ("muse_glimmer_text", "SFSSSF"),  # told from the last
    ],
)
def test_patterns_of_layers_that_a_file_leaves_out(name: str, types: str) -> None:
    config = {"model_type": name, "num_hidden_layers": 6, "hidden_size": 512}
    more = {"full_attention_interval": 3} if name == "qwen3_next" else {}
    words = {"F": "full_attention", "S": "sliding_attention", "L": "linear_attention"}
    given = {**config, "num_attention_heads": 8, "layer_types": [words[t] for t in types]}
    left = {key: value for key, value in given.items() if key != "layer_types"}
    assert same(posenc.from_hf({**left, **more}), posenc.from_hf(given))


def test_a_factor_below_1_names_the_ladder_that_turns_faster() -> None:
    rule = {"type": "linear", "factor": 0.5}
    with pytest.raises(posenc.DataError, match=r"Ladder\(first=2\)"):
        posenc.from_hf({**PLAIN, "rope_scaling": rule})
    with pytest.raises(posenc.SpecError, match=r"Ladder\(first=2\)"):
        posenc.scaling.Linear(0.5)
    faster = posenc.RoPE(64, pairing="half", base=1e4, ladder=posenc.Ladder(first=2))
    plain = posenc.RoPE(64, pairing="half", base=1e4)
    np.testing.assert_allclose(
        posenc.frequencies(faster), posenc.frequencies(plain) / 0.5, rtol=1e-15
    )


def test_keys_of_the_authors_that_the_class_passes_over_are_followed_and_said() -> None:
    config = {"model_type": "mimo_v2_flash", "hidden_size": 4096, "num_attention_heads": 64}
    config |= {"num_hidden_layers": 4, "hybrid_layer_pattern": [0, 1, 1, 0], "head_dim": 192}
    published = {"rope_theta": 5_000_000, "swa_rope_theta": 10_000, "partial_rotary_factor": 0.334}
    plan = posenc.from_hf({**config, **published})
    assert plan.layers[0].spec == posenc.RoPE(64, pairing="half", base=5e6)
    assert plan.layers[1].spec == posenc.RoPE(64, pairing="half", base=1e4)
    assert not plan.warnings
    other = {"rope_theta": 1e7, "swa_rope_theta": 777, "partial_rotary_factor": 0.25}
    plan = posenc.from_hf({**config, **other, "swa_head_dim": 128})
    assert plan.layers[0].spec == posenc.RoPE(48, pairing="half", base=1e7)
    assert plan.layers[1].spec == posenc.RoPE(32, pairing="half", base=777)
    assert all(
        any(f"{k}={v:.10g} is not read" in w for w in plan.warnings) for k, v in other.items()
    )
    plan = posenc.from_hf({**config, "rope_theta": 1e7})
    assert [entry.spec.base for entry in plan] == [1e7, 1e4]  # type: ignore[union-attr]
    assert any("swa_rope_theta is left out: 10000" in text for text in plan.warnings)
    # A dictionary of each type is read as the class reads it, and its rule takes 0.334.
    kinds = {"full_attention": 3e3, "sliding_attention": 4e3}
    given = {kind: {"rope_type": "default", "rope_theta": base} for kind, base in kinds.items()}
    plan = posenc.from_hf({**config, **other, "rope_parameters": given})
    assert [(e.spec.dim, e.spec.base) for e in plan] == [(48, 3e3), (48, 4e3)]  # type: ignore[union-attr]


def test_the_type_of_the_last_layer_is_what_the_class_sets() -> None:
    config = {"model_type": "gemma4_text", "head_dim": 64, "num_hidden_layers": 3}
    config["layer_types"] = ["sliding_attention"] * 3
    plan = posenc.from_hf(config)
    assert plan["full_attention"].indices == (2,)
    assert any("layer_types[2]='sliding_attention' is not read" in w for w in plan.warnings)


def test_a_pattern_that_the_class_does_not_read_is_said() -> None:
    config = {"model_type": "gemma4_text", "head_dim": 64, "num_hidden_layers": 12}
    plan = posenc.from_hf({**config, "sliding_window_pattern": 2})
    assert plan["full_attention"].indices == (5, 11)
    assert any("sliding_window_pattern=2 does not make layer_types" in w for w in plan.warnings)


@pytest.mark.parametrize("wrong", ["hiden_size", "rope_thetta"])
def test_a_misspelled_key_is_not_left_out(wrong: str) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4}
    turning = {"model_type": "qwen2", **sizes}
    config = {"model_type": "bert"} if wrong == "hiden_size" else turning
    assert posenc.from_hf(config).layers
    with pytest.raises(posenc.DataError, match=f"Did you mean '{wrong}'"):
        posenc.from_hf({**config, wrong: 64})


def test_text_keys_at_the_top_of_a_whole_model_are_read_and_told() -> None:
    text = {"head_dim": 64, "num_hidden_layers": 6, "rope_theta": 5e5, "num_attention_heads": 8}
    plan = posenc.from_hf({"model_type": "gemma3", **text})
    assert plan["full_attention"].spec.base == 5e5  # type: ignore[union-attr]
    assert any("it reads text_config. posenc reads them as keys" in w for w in plan.warnings)


# --- what transformers computes -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "rule",
    [
        {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0},
        {"rope_type": "llama3", "factor": 3.0, "low_freq_factor": 7.5, "high_freq_factor": 7.5},
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 9.0, "beta_slow": 9.0, "truncate": False},
    ],
)
def test_bounds_that_are_equal_are_what_transformers_computes(rule: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers", reason="is the oracle of this test")
    pytest.importorskip("torch", reason="transformers is written in torch")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rule = {**rule, "original_max_position_embeddings": 8192}
    keys = {"head_dim": 128, "rope_theta": 500000.0, "max_position_embeddings": 32768}
    made = transformers.LlamaConfig(**keys, rope_scaling=dict(rule))
    want, factor = ROPE_INIT_FUNCTIONS[rule["rope_type"]](made, "cpu")
    plan = posenc.from_hf({"model_type": "llama", **keys, "rope_scaling": rule}, on_error="report")
    spec = plan["attention"].spec
    assert isinstance(spec, posenc.RoPE)
    np.testing.assert_allclose(posenc.frequencies(spec), want.double().numpy(), rtol=2e-6)
    assert spec.attention_factor == pytest.approx(factor)


def test_a_factor_that_does_not_reach_is_an_error_with_a_plan() -> None:
    rule = {**YARN, "factor": 2.0}
    config = {**PLAIN, "max_position_embeddings": 32768, "rope_scaling": rule}
    with pytest.raises(posenc.DataError, match=r'contradiction.*on_error="report" returns'):
        posenc.from_hf(config)
    plan = posenc.from_hf(config, on_error="report")
    assert plan["attention"].spec.scalings[0].factor == 2  # type: ignore[union-attr]
    assert describe(plan)["sure"] == "not settled: see the errors"


@pytest.mark.filterwarnings("ignore")
def test_falcon_divides_the_bias_too() -> None:
    torch = pytest.importorskip("torch", reason="transformers is written in torch")
    transformers = pytest.importorskip("transformers", reason="is the oracle of this test")
    from transformers.models.falcon.modeling_falcon import FalconAttention, build_alibi_tensor

    keys = {"hidden_size": 64, "num_attention_heads": 8, "alibi": True, "multi_query": False}
    config = transformers.FalconConfig(**keys, new_decoder_architecture=False)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    layer, x, n = FalconAttention(config, layer_idx=0).eval(), torch.randn(1, 9, 64), 9
    alibi = build_alibi_tensor(torch.ones(1, n), 8, torch.float32)
    mask = torch.full((n, n), -torch.inf).triu(1)[None, None]
    with torch.no_grad():
        want = layer(x, alibi=alibi, attention_mask=mask)[0]
        q, k, v = layer._split_heads(layer.query_key_value(x))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        spec = posenc.from_hf({"model_type": "falcon", **keys})["model"].spec
        assert isinstance(spec, posenc.ALiBi)
        assert spec.place == "before"
        bias = torch.from_numpy(posenc.bias(spec, n, n))
        scores = (q @ k.transpose(-1, -2) + bias) / 8**0.5 + mask
        got = layer.dense((scores.softmax(-1) @ v).transpose(1, 2).reshape(1, n, 64))
    np.testing.assert_allclose(got, want, atol=1e-6)


# --- what no entry says ---------------------------------------------------------------------------

LLAMA = {"model_type": "llama", "head_dim": 64, "num_attention_heads": 8, "rope_theta": 1e4}
TEXT = {"num_hidden_layers": 6, "head_dim": 64, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
PARTLY: dict[str, tuple[dict[str, Any], str]] = {
    "an indexer": (
        {**LLAMA, "index_head_dim": 128},
        "an indexer chooses which keys are seen",
    ),
    "a temperature without its strength": (
        {
            "model_type": "ministral3",
            "num_attention_heads": 4,
            "head_dim": 64,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "original_max_position_embeddings": 64,
            },
        },
        "llama_4_scaling_beta missing: read in part, because the class multiplies queries",
    ),
    "a temperature without its length": (
        {
            "model_type": "ministral3",
            "num_attention_heads": 4,
            "head_dim": 64,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "llama_4_scaling_beta": 0.1,
            },
        },
        "original_max_position_embeddings missing: read in part, because",
    ),
    "a temperature that is learned": (
        {
            "model_type": "mistral_large4_text",
            "qk_rope_head_dim": 64,
            "num_hidden_layers": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
        "multiplied by a * ln(p + 1) + b at position p, with learned numbers",
    ),
    "chunks": (
        {**LLAMA, "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}},
        "dual_chunk_attention_config={'chunk_size': 262144, 'local_size': 8192} was not read",
    ),
    "a part for pictures": (
        {**LLAMA, "vision_config": {"model_type": "my_vit", "num_hidden_layers": 2}},
        "vision_config: unknown, because model_type 'my_vit' is not known",
    ),
    "a part for sound": (
        {**LLAMA, "audio_config": {"encoder_attention_heads": 2, "d_model": 8}},
        "audio_config: unknown, because without a model_type is not known",
    ),
    "a part that the class makes": (
        {"model_type": "gemma3n", "text_config": {**TEXT, "rope_parameters": None}},
        "unknown, because the config names a model of another package",
    ),
    "angles of heads": (
        {"model_type": "neucodec", "head_dim": 64, "rope_theta": 1e4},
        "the code turns all tokens of a head by one angle",
    ),
    "logarithms": ({**LLAMA, "use_logn_attn": True}, "use_logn_attn=True was not read"),
    "a table beside": ({**LLAMA, "learned_pos_emb": True}, "learned_pos_emb=True was not read"),
    "Fourier": ({**LLAMA, "fope_init_factor": 0.5}, "fope_init_factor=0.5 was not read"),
}


@pytest.mark.parametrize("case", sorted(PARTLY))
def test_what_no_entry_says_makes_a_plan_partly(case: str) -> None:
    config, words = PARTLY[case]
    plan = posenc.from_hf(config, on_error="report")
    assert any(words in text for text in plan.warnings), plan.warnings
    assert describe(plan)["sure"].startswith(("read in part", "not settled"))
    assert plan.layers


def test_the_first_row_is_behind_that_of_padding() -> None:
    config = {"model_type": "esm", "hidden_size": 64, "max_position_embeddings": 1026}
    assert posenc.from_hf(config)["embeddings"].spec == posenc.Learned(
        64, length=1024, start=2, pad=1
    )


@pytest.mark.parametrize("dialect", ["hf4", "hf5"])
def test_what_is_not_understood_is_lost_in_translation(dialect: Any) -> None:
    config = {**PLAIN, "rope_scaling": {**YARN, "ramp_high": 48}}
    lost = posenc.to_hf(config, dialect).lost
    assert any("ramp_high=48 is not understood" in text for text in lost)


def test_a_dictionary_that_the_class_ignores_is_told() -> None:
    config = {"model_type": "cohere2_moe", "hidden_size": 64, "num_attention_heads": 4,
              "num_hidden_layers": 4, "head_dim": 16, "rope_theta": 10000.0,
              "max_position_embeddings": 32768}  # fmt: skip
    scaled = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
    assert not posenc.from_hf(config, on_error="report").warnings
    plan = posenc.from_hf({**config, "rope_scaling": scaled}, on_error="report")
    assert any("rope_scaling is not read by the class" in text for text in plan.warnings)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_base_that_the_class_does_not_read_is_none_beside_a_scaling_either(key: str) -> None:
    """GPT-NeoX reads `rotary_emb_base`; transformers gives 10,000 for both dictionaries."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 2048}
    config = {"model_type": "gpt_neox", **sizes, key: {"type": "linear", "factor": 2.0}}
    plan = posenc.from_hf({**config, "rope_theta": 5e4})
    assert [entry.spec.base for entry in plan] == [1e4]  # type: ignore[union-attr]
    assert any("rope_theta=50000 does not reach" in text for text in plan.warnings)
    plan = posenc.from_hf({**config, "rotary_emb_base": 5e4})
    assert [entry.spec.base for entry in plan] == [5e4]  # type: ignore[union-attr]
    assert not plan.warnings


def test_a_share_at_the_top_reaches_layers_that_a_scaling_reaches() -> None:
    """Gemma 3's class ignores it under its plain rule alone."""
    sizes = {"hidden_size": 64, "head_dim": 16, "num_hidden_layers": 6}
    config = {"model_type": "gemma3_text", **sizes, "partial_rotary_factor": 0.5}
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    plan = posenc.from_hf({**config, "rope_scaling": scaling})
    widths = {entry.layer: entry.spec.dim for entry in plan}  # type: ignore[union-attr]
    assert widths == {"sliding_attention": 16, "full_attention": 8}
    assert any("is not read under the rule 'default'" in text for text in plan.warnings)
    plain = posenc.from_hf(config)
    assert {entry.spec.dim for entry in plain} == {16}  # type: ignore[union-attr]

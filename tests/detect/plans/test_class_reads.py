"""Plans follow the keys that a class of transformers reads, and name those that it passes over."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from tools.models import class_defaults, class_reads

import posenc
from posenc.detect.explain.config.unread_keys import SPELLINGS
from posenc.detect.explain.rotary.scaling_rules import READ
from posenc.presets.families import families
from tests.detect.configs import PLAIN

# A share that the plain rule reads, and a class with a list for each length.
SOME = ["glm4", "phi3"]
# A whole model writes the heads of its encoder over this key before it makes its rotation.
WRITTEN_OVER = {"moonshine": "num_attention_heads"}


def classes() -> Any:
    """The classes of configs by their types, where their models turn."""
    transformers = pytest.importorskip("transformers", reason="its classes are asked")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    return {
        name: transformers.CONFIG_MAPPING[name]
        for name, family in sorted(families().items())
        if name in transformers.CONFIG_MAPPING and any("rotary" in rule for rule in family.entries)
    }


def stored(name: str) -> Any:
    """What is stored of a type, or None."""
    table = json.loads(class_defaults.DATA.read_text(encoding="utf-8"))
    row = table["types"].get(name, {})
    return table["reads"][row["reads"]] if "reads" in row else None


def compared(name: str, cls: Any) -> tuple[int, list[Any]]:
    """How many files were read as the class computes them, and those that silently were not."""
    asked = class_reads.Asked(cls)
    assert class_reads.answered(asked) == stored(name), name
    plain = posenc.from_hf({**sizes(cls, {}), "model_type": name}, on_error="report").warnings
    labels: dict[str, str] = next(
        (
            r["rope_parameters_names"]
            for r in families()[name].entries
            if "rope_parameters_names" in r
        ),
        {},
    )
    equal, different = 0, []
    for keys, result in list(asked.answers.values()):
        if result is None or WRITTEN_OVER.get(name) in keys:
            continue
        stated = {**sizes(cls, keys), **copy.deepcopy(keys), "model_type": name}
        plan = posenc.from_hf(stated, on_error="report")
        if plan.errors or not any(entry.kind == "rotary" for entry in plan):
            continue
        if follows(plan, result, labels):
            equal += 1
        elif any("written for other code" in text for text in plan.warnings):
            continue  # its class does not take `head_dim: null`, and the plan says what it follows
        elif not {*plan.warnings} - {*plain}:
            different.append(keys)
    return equal, different


def sizes(cls: Any, keys: dict[str, Any]) -> dict[str, Any]:
    """What a file of the class says beside some keys: sizes as they make them, no other base."""
    config, whole = class_reads.made(cls), class_reads.made(cls, **copy.deepcopy(keys))
    data = {} if config is None else json.loads(json.dumps(config.to_dict(), default=str))
    data |= {key: class_reads.value(whole, key) for key in class_reads.SIZES if key in data}
    angles = {k for k, v in data.items() if "rope" in k and isinstance(v, (dict, list, float))}
    return {k: v for k, v in data.items() if k not in (*angles, *class_reads.FRACTIONS)}


def follows(plan: posenc.Reading, result: Any, labels: dict[str, str]) -> bool:
    """Whether entries turn by the frequencies of the class, and with its magnitude.

    `labels` names the dictionaries of types of layers that are called otherwise: one that no layer
    of the file is of says nothing.
    """
    main = [e for e in plan if e.kind == "rotary" and not getattr(e, "attention", "")]
    names = {id(e): e.layer.partition(",")[0].split(".") for e in main}
    for kind, frequencies, table in result:
        own = [e for e in main if kind in [labels.get(n, n) for n in names[id(e)]]]
        if kind in labels.values() and not own:
            continue
        own = own or main
        if not any(turns(entry.spec, frequencies, table) for entry in own):
            return False
    return True


def turns(spec: Any, frequencies: Any, table: Any) -> bool:
    """Whether a spec has frequencies, in the short form or the long one, and their magnitude."""
    for length in (1, 2**17 + 1):
        fixed = spec.at(length) if spec.needs_length else spec
        own = np.sort(np.asarray(posenc.frequencies(fixed)).ravel())
        own /= spec.ladder.first if len(spec.axes) > 1 else 1.0  # positions are scaled so elsewhere
        wanted = np.sort(np.asarray(frequencies))
        wanted = np.tile(wanted, max(own.size // wanted.size, 1))
        if own.shape == wanted.shape and np.allclose(own, np.sort(wanted), rtol=3e-6, atol=1e-12):
            size = table[0][0][0] if isinstance(table, tuple) else table
            return size is None or abs(fixed.attention_factor - size) < 1e-5 * size
    return False


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME)
def test_a_plan_follows_what_the_class_reads(name: str) -> None:
    equal, different = compared(name, classes()[name])
    assert not different
    assert equal


@pytest.mark.slow("detect/explain", "presets/configs")
@pytest.mark.filterwarnings("ignore")
def test_a_plan_of_any_class_follows_what_it_reads_or_says_otherwise() -> None:
    results = {name: compared(name, cls) for name, cls in classes().items()}
    assert not {name: different[:3] for name, (_, different) in results.items() if different}
    assert sum(equal for equal, _ in results.values()) > 25_000


def test_every_key_that_a_plan_may_follow_is_asked() -> None:
    for name, rule in class_reads.rules(4).items():
        followed = {*rule.must, *rule.may} | {k for more in class_reads.WITH.values() for k in more}
        assert READ[name] <= followed, name
    asked = {*class_reads.SIZES, *class_reads.BASES, *class_reads.LOCAL_BASES}
    assert {*SPELLINGS} <= asked | {*class_reads.FRACTIONS, *class_reads.ABSOLUTE}


# --- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not read under"),
        (
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "rope_parameters.partial_rotary_factor=0.5 is not read",
        ),
        ({"rotary_pct": 0.25}, "rotary_pct=0.25 is not read"),
        ({"rotary_dim": 16}, "rotary_dim=16 is not read"),
        ({"rotary_emb_base": 777.0}, "rotary_emb_base=777.0 is not read"),
        ({"swa_rope_theta": 777.0}, "swa_rope_theta=777.0 is not read"),
    ],
)
def test_a_key_that_the_class_passes_over_is_told(keys: dict[str, Any], told: str) -> None:
    plain = posenc.from_hf(PLAIN)
    plan = posenc.from_hf({**PLAIN, **keys})
    assert [entry.spec for entry in plan] == [entry.spec for entry in plain]
    assert any(told in text for text in plan.warnings)
    assert not any("was not read" in text for text in plan.warnings)
    other = posenc.from_hf(
        {**PLAIN, **keys, "model_type": "mine"}, pairing="half", on_error="report"
    )
    assert [entry.spec for entry in other] != [entry.spec for entry in plain]


def test_a_key_that_says_what_is_so_is_not_told() -> None:
    keys = {"partial_rotary_factor": 1.0, "rotary_dim": 64, "rotary_emb_base": 1e4, "n_head": 4}
    assert not posenc.from_hf({**PLAIN, **keys}).warnings


def test_dictionaries_of_types_of_layers_that_the_class_does_not_read_are_an_error() -> None:
    kinds = {"full_attention": 1e6, "sliding_attention": 1e4}
    params = {kind: {"rope_type": "default", "rope_theta": base} for kind, base in kinds.items()}
    with pytest.raises(posenc.DataError, match="it reads one for all"):
        posenc.from_hf({**PLAIN, "rope_parameters": params})
    plan = posenc.from_hf(
        {**PLAIN, "rope_parameters": params, "model_type": "mine"}, pairing="half"
    )
    assert len(plan) == 2


def test_a_rule_that_the_class_passes_over_scales_nothing() -> None:
    config = {"model_type": "esm", "position_embedding_type": "rotary", "hidden_size": 64,
              "num_attention_heads": 4, "rope_theta": 1e4}  # fmt: skip
    plan = posenc.from_hf({**config, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})
    assert not plan["attention"].spec.scalings  # type: ignore[union-attr]
    assert any("does not read: it scales nothing" in text for text in plan.warnings)


def test_parts_that_are_read_as_another_family_have_the_defaults_of_their_class() -> None:
    order = {"hidden_size": 512, "num_attention_heads": 8, "max_position_embeddings": 514}
    config = {"model_type": "pp_doclayout_v2", "reading_order_config": order}
    plan = posenc.from_hf(config, on_error="report").part("reading_order")
    assert [entry.layer.rpartition(".")[2] for entry in plan] == [
        "embeddings", "boxes", "attention, x of boxes", "attention, y of boxes"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["rt_detr", "d_fine", "pp_doclayout_v2"])
def test_a_table_of_training_alone_is_not_in_the_plan(name: str) -> None:
    config: dict[str, Any] = {"model_type": name}
    assert posenc.from_hf(config, on_error="report")["encoder"].kind == "table"
    stated = posenc.from_hf({**config, "eval_size": [640, 640]}, on_error="report")
    assert stated["encoder"].kind == "none"


@pytest.mark.parametrize("name", ["apertus", "muse_spark_text", "moonshine_streaming"])
def test_a_base_at_the_top_reaches_a_dictionary_without_one(name: str) -> None:
    # Their own dictionary has a base, so that one at the top says nothing beside no other.
    sizes = {"model_type": name, "head_dim": 64, "max_position_embeddings": 4096}
    linear = {"rope_type": "linear", "factor": 4.0}
    plan = posenc.from_hf({**sizes, "rope_theta": 54321.0, "rope_scaling": linear})
    bases = {entry.spec.base for entry in plan if isinstance(entry.spec, posenc.RoPE)}
    assert bases == {54321.0}
    assert not any("rope_theta" in text for text in plan.warnings)
    alone = posenc.from_hf({**sizes, "rope_theta": 54321.0})
    assert any("rope_theta=54321 does not reach" in text for text in alone.warnings)


def test_a_share_at_the_top_reaches_a_dictionary_without_one() -> None:
    config = {"model_type": "nemotron3_5_transcribe_asr_audio", "head_dim": 128}
    config |= {"partial_rotary_factor": 0.75}
    plan = posenc.from_hf(config)
    assert plan["attention"].spec.dim == 64  # type: ignore[union-attr]
    assert any("partial_rotary_factor=0.75 is not read" in text for text in plan.warnings)
    stated = posenc.from_hf({**config, "rope_parameters": {"rope_type": "default"}})
    assert stated["attention"].spec.dim == 96  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "keys",
    [
        {"head_dim": 192},
        {"rope_scaling": {"type": "linear", "factor": 4.0}, "partial_rotary_factor": 0.5},
    ],
)
def test_angles_that_the_attention_of_the_class_cannot_take_are_told(keys: dict[str, Any]) -> None:
    plan = posenc.from_hf({"model_type": "deepseek_v3", **keys})
    assert plan["attention"].spec.dim == 64  # type: ignore[union-attr]
    assert any("cannot run; the plan turns 64" in text for text in plan.warnings)
    assert not posenc.from_hf({"model_type": "deepseek_v3", "head_dim": 64}).warnings


def test_the_original_length_of_longrope_beside_its_dictionary() -> None:
    transformers = pytest.importorskip("transformers", reason="its class is run")
    torch = pytest.importorskip("torch")
    lists = {"short_factor": [1.0 + i / 100 for i in range(8)], "long_factor": [2.0] * 8}
    config = {**PLAIN, "head_dim": 16, "max_position_embeddings": 4096}
    config |= {"rope_scaling": {"rope_type": "longrope", **lists}}
    config |= {"original_max_position_embeddings": 512}
    spec = posenc.from_hf(config)["attention"].spec
    for length in (512, 513, 2048):
        modeling = transformers.models.llama.modeling_llama
        module = modeling.LlamaRotaryEmbedding(transformers.LlamaConfig.from_dict(config))
        cos, _ = module(torch.zeros(1), torch.arange(length)[None])
        ours, _ = posenc.cos_sin(spec, np.arange(length), length=length)  # type: ignore[arg-type]
        np.testing.assert_allclose(ours, cos[0, :, :8].numpy(), rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"model_type": "mgp-str"}, 1),
        ({"model_type": "mgp-str", "distilled": True}, 2),
    ],
)
def test_rows_before_the_grid_follow_the_switch(config: dict[str, Any], shape: int) -> None:
    assert posenc.from_hf(config)["embeddings"].spec.lookup.prefix == shape  # type: ignore[union-attr]


def test_switches_of_tables_are_followed_or_told() -> None:
    names = [
        entry.layer for entry in posenc.from_hf({"model_type": "layoutlmv3", "text_embed": False})
    ]
    assert names == ["image", "attention"]
    plan = posenc.from_hf(
        {"model_type": "internvl_vision", "use_absolute_position_embeddings": False}
    )
    assert [entry.kind for entry in plan] == ["none"]
    swin = posenc.from_hf({"model_type": "swinv2", "use_absolute_embeddings": True})
    assert any("which it cannot add" in text for text in swin.warnings)
    former = {"model_type": "maskformer", "decoder_config": {"model_type": "detr", "d_model": 256}}
    learned = copy.deepcopy(former)
    learned["decoder_config"]["position_embedding_type"] = "learned"  # type: ignore[index]
    plans = [posenc.from_hf(each, on_error="report") for each in (former, learned)]
    assert plans[0]["decoder.features"].spec == plans[1]["decoder.features"].spec


def test_a_config_without_layers_is_told() -> None:
    plan = posenc.from_hf({**PLAIN, "num_hidden_layers": 0})
    assert any("says that there are no layers" in text for text in plan.warnings)


def test_notes_on_keys_stand_in_the_order_of_the_file() -> None:
    keys = {"rotary_base": 777.0, "rotary_dim": 16, "global_rope_theta": 7.0, "rotary_pct": 0.5}
    for order in (list(keys), list(reversed(keys))):
        told = posenc.from_hf({**PLAIN, **{key: keys[key] for key in order}}).warnings
        assert [text.partition("=")[0] for text in told] == order


@pytest.mark.parametrize(
    ("config", "turning"),
    [
        ({"model_type": "qwen3_5", "text_config": {"vocab_size": 100}}, 8),
        ({"model_type": "muse_glimmer", "text_config": {"vocab_size": 100}}, 39),
        ({"model_type": "muse_glimmer_text", "num_hidden_layers": 52, "hidden_size": 512}, 39),
    ],
)
def test_layers_that_turn_where_the_file_counts_none_or_names_none(
    config: dict[str, Any], turning: int
) -> None:
    plan = [e for e in posenc.from_hf(config) if not e.layer.startswith("vision")]
    (turns,) = (entry.indices for entry in plan if entry.kind == "rotary")
    assert len(turns or ()) == turning


def test_layers_that_nothing_counts_are_left_open() -> None:
    plan = posenc.from_hf({"model_type": "qwen3_5_text", "hidden_size": 512})
    assert any("because layers of type linear_attention" in text for text in plan.warnings)


def test_a_text_part_of_a_class_that_has_none_is_told() -> None:
    plan = posenc.from_hf({"model_type": "qwen2", "text_config": {**PLAIN, "model_type": "qwen2"}})
    assert any("the file was written for other code" in text for text in plan.warnings)


def test_the_text_of_a_part_without_a_type_is_that_of_the_whole() -> None:
    text = {**PLAIN, "head_dim": 128, "rope_scaling": {"mrope_section": [24, 20, 20]}}
    del text["model_type"]
    plan = posenc.from_hf({"model_type": "qwen3_asr", "thinker_config": {"text_config": text}})
    assert plan["thinker.text"].spec.arrangement.rule == "cyclic"  # type: ignore[union-attr]


def test_the_table_of_omdet_turbo_follows_its_encoder() -> None:
    config = {"model_type": "omdet-turbo", "encoder_hidden_dim": 128}
    assert posenc.from_hf(config)["encoder"].spec.dim == 128  # type: ignore[union-attr]
    assert posenc.from_hf({**config, "eval_size": [640, 640]})["encoder"].kind == "none"

"""Every key that a plan takes for a base is tried against the class: two values, one answer each.

A list of a number for each layer is the base of each in some classes, in others it says which
layers turn, and most read none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.models import class_reads

import posenc
from posenc.detect.explain.config.view import BASES, LOCAL_BASES, NAMES
from posenc.presets.families import class_defaults, families
from tests.detect.plans.test_class_reads import classes, follows, sizes

VALUES = (12_345.0, 54_321.0)
SIZES = {"num_hidden_layers": 4, "head_dim": 64, "hidden_size": 256, "num_attention_heads": 4,
         "max_position_embeddings": 4096}  # fmt: skip


def named(name: str) -> list[str]:
    """The keys that the row of a family reads as bases, beside those of all."""
    rules = [rule for rule in families()[name].entries if "rotary" in rule]
    expressions = [word for rule in rules for word in rule.get("base_keys", ())]
    expressions += [
        key for rule in rules for row in rule.get("base_keys_by_type", {}).values() for key in row
    ]
    return sorted({key for word in expressions if "." not in word for key in NAMES.findall(word)})


def switches(name: str) -> dict[str, Any]:
    """What a file says for its layers to turn at all."""
    asked = [
        rule["when"] for rule in families()[name].entries if "rotary" in rule if "when" in rule
    ]
    return {
        one["key"]: one["one_of"][0]
        for one in asked[:1]
        if isinstance(one, dict) and "one_of" in one
    }


def tried(name: str, cls: Any, keys: list[str]) -> tuple[int, list[Any]]:
    """How many keys were followed as the class does, and those that silently were not."""
    asked, equal, different = class_reads.Asked(cls), 0, []
    labels: dict[str, str] = next(
        (
            r["rope_parameters_names"]
            for r in families()[name].entries
            if "rope_parameters_names" in r
        ),
        {},
    )
    for key in keys:
        for value in VALUES:
            keys = {**switches(name), key: value}
            result = asked.result(**keys)
            stated = {**sizes(cls, keys), **keys, "model_type": name}
            plan = posenc.from_hf(stated, on_error="report")
            if result is None or plan.errors or not any(e.kind == "rotary" for e in plan):
                continue
            if follows(plan, result, labels):
                equal += 1
            # A file of other code is said to be one, and its plan to follow all of its keys.
            elif not any(
                f"{key}=" in text or "written for other code" in text for text in plan.warnings
            ):
                different.append((key, value))
    return equal, different


@pytest.mark.costly
@pytest.mark.parametrize("name", ["dbrx", "olmo2"])
def test_a_base_in_other_words_is_followed_where_the_class_does(name: str) -> None:
    equal, different = tried(name, classes()[name], [*BASES, *LOCAL_BASES, *named(name)])
    assert not different
    assert equal >= len(VALUES)


@pytest.mark.slow("detect/explain", "presets/configs")
@pytest.mark.filterwarnings("ignore")
def test_every_key_of_a_base_is_followed_where_the_class_does() -> None:
    made = classes()
    results = {
        name: tried(name, cls, [*dict.fromkeys((*BASES, *LOCAL_BASES, *named(name)))])
        for name, cls in made.items()
    }
    assert not {name: different for name, (_, different) in results.items() if different}
    kept = {name: getattr(class_defaults(name), "bases", "") for name in made}
    assert kept == {name: class_reads.listed(cls) for name, cls in made.items()}


# --- a number for each layer ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["granite_swa", "granitemoe_swa", "muse_glimmer_text", "muse_spark_text"]
)
def test_what_a_list_of_bases_is_was_asked_of_the_class(name: str) -> None:
    known = class_defaults(name)
    assert known is not None
    assert known.bases == class_reads.listed(classes()[name])


def read(name: str, **keys: Any) -> posenc.Reading:
    config = {"model_type": name, **SIZES, **keys}
    return posenc.from_hf(config, on_error="report")


def bases(plan: posenc.Reading) -> dict[int, float]:
    """The base of each layer that turns."""
    return {
        i: e.spec.base
        for e in plan
        if isinstance(e.spec, posenc.RoPE) and isinstance(e.spec.base, float)
        for i in e.indices or range(4)
    }


FORMS: list[dict[str, Any]] = [
    {"rope_theta": 5e5, "rope_scaling": {"rope_type": "default"}},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
]


@pytest.mark.parametrize("keys", FORMS)
@pytest.mark.parametrize("name", ["muse_glimmer_text", "muse_spark_text"])
def test_a_list_that_switches_is_no_base(name: str, keys: dict[str, Any]) -> None:
    plan = read(name, **keys, layer_rope_theta=[1e4, 0, 1e4, 1e4])
    assert bases(plan) == dict.fromkeys((0, 2, 3), 5e5)
    assert any("says which layers turn" in text for text in plan.warnings)
    alike = read(name, **keys, layer_rope_theta=[5e5, 0, 5e5, 5e5])
    assert bases(alike) == bases(plan)
    assert not alike.warnings


@pytest.mark.parametrize("keys", FORMS)
def test_a_list_of_bases_stands_before_one_for_all(keys: dict[str, Any]) -> None:
    plan = read("granite_swa", **keys, layer_rope_theta=[2e4, 0, 1e4, 1e4])
    assert bases(plan) == {0: 2e4, 2: 1e4, 3: 1e4}
    (told,) = plan.warnings
    assert "layer_rope_theta is used, not" in told
    assert not read("granite_swa", **keys, layer_rope_theta=[5e5, 0, 5e5, 5e5]).warnings


def test_a_list_that_the_class_does_not_read_changes_nothing() -> None:
    plan = read("llama", rope_theta=5e5, layer_rope_theta=[1e4, 0, 1e4, 1e4])
    assert bases(plan) == dict.fromkeys(range(4), 5e5)
    assert any("layer_rope_theta is not read by the class" in text for text in plan.warnings)


def test_a_list_of_an_unknown_family_is_refused_where_it_could_be_either() -> None:
    config = {"model_type": "mine", **SIZES, "layer_rope_theta": [1e4, 0, 1e4, 1e4]}
    plan = posenc.from_hf(config, pairing="half")
    assert bases(plan) == dict.fromkeys((0, 2, 3), 1e4)
    with pytest.raises(posenc.DataError, match="the family is not known: in some the list"):
        posenc.from_hf({**config, "rope_theta": 5e5}, pairing="half")
    same = posenc.from_hf({**config, "rope_theta": 1e4}, pairing="half")
    assert bases(same) == bases(plan)


def test_layers_of_a_model_turn_as_the_list_says() -> None:
    pytest.importorskip("transformers", reason="its class is run")
    import torch
    from transformers import AutoModel, MuseGlimmerTextConfig

    outputs = []
    for listed in ([1e4, 1e4], [1e4, 5e5], [1e4, 0]):
        config = MuseGlimmerTextConfig(
            num_hidden_layers=2, hidden_size=64, intermediate_size=64, num_attention_heads=2,
            num_key_value_heads=1, head_dim=32, vocab_size=64, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, layer_types=["full_attention"] * 2, layer_rope_theta=listed,
        )  # fmt: skip
        torch.manual_seed(0)
        model = AutoModel.from_config(config).eval()
        with torch.no_grad():
            outputs.append(model(torch.arange(3, 19)[None]).last_hidden_state.numpy())
    assert (outputs[0] == outputs[1]).all()
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-4


def test_a_base_of_layers_that_nothing_names_is_told() -> None:
    config = {**SIZES, "model_type": "kimi_k2", "qk_rope_head_dim": 64, "rope_theta": 50_000.0}
    assert not posenc.explain(config).warnings
    read = posenc.explain(config | {"local_rope_theta": 1000.0})
    (warning,) = read.warnings
    assert warning == "local_rope_theta=1000.0: which layers turn by it is not known here"

"""Plans of published configs, against what transformers computes for the same dictionaries.

The rows and the numbers lie in `tests/golden/configs`; `tools/models/config_oracle.py` made the
numbers, and a slow test makes them again. `tools/models/config_corpus.py` compares.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.models import class_defaults, config_corpus, config_oracle

import posenc

IDS = [row["id"] for row in config_oracle.rows()]
DIFFERENT: dict[str, str] = {}  # none: what differs is mended, or said by the plan
REFUSED: dict[str, str] = {}  # by id, with the reason; nothing today
ROOT = Path(__file__).parents[3]
BAD = ("different", "refused")
SHARE = 0.05  # of the rows that transformers loads


@cache
def outcomes() -> dict[str, tuple[dict[str, Any], config_corpus.Outcome]]:
    """Each row of the corpus by its id, and what became of it."""
    return {row["id"]: (row, result) for row, result in config_corpus.outcomes()}


@pytest.mark.costly
@pytest.mark.parametrize("dialect", ["4", "5", "neither"])
def test_published_configs_are_read_as_transformers_computes_them_or_refused(dialect: str) -> None:
    wrong = {}
    for id_, (row, result) in outcomes().items():
        if config_corpus.dialect(row["config"]) != dialect:
            continue
        bad = result.state != "refused" if id_ in REFUSED else result.state in BAD
        if bad:
            wrong[id_] = (row["model"], result.state, result.told)
    assert not wrong


def test_few_are_refused_and_each_is_named() -> None:
    counts = Counter(result.state for _, result in outcomes().values())
    loaded = len(outcomes()) - counts["not loaded"] - counts["no class"]
    assert counts["refused"] == len(REFUSED) <= SHARE * loaded


def test_the_corpus_is_of_many_models_in_both_dialects() -> None:
    rows = [row for row, _ in outcomes().values()]
    published = [row for row in rows if row["kind"] == "published"]
    assert len({row["model"] for row in published}) >= 150
    assert len({row["config"]["model_type"] for row in rows}) >= 80
    assert {"4", "5", "neither"} == {config_corpus.dialect(row["config"]) for row in rows}
    for row in rows:
        assert len(row["commit"]) == 40, row["model"]
        assert row["repository"].count("/") == 1, row["model"]


def test_the_comparison_sees_what_is_wrong() -> None:
    kept = config_oracle.golden()
    row = next(r for r, _ in outcomes().values() if r["config"]["model_type"] == "llama")
    facts = kept[row["id"]]
    entry = facts["rotary"][0]
    broken: dict[str, Any] = {
        "frequencies": {**entry, "frequencies": entry["frequencies"] * np.float32(1.001)},
        "magnitude": {**entry, "factor": entry["factor"] * 1.01},
        "cos": {**entry, "cos": entry["cos"] + np.float32(0.01)},
    }
    for name, wrong in broken.items():
        made = {**facts, "rotary": [wrong, *facts["rotary"][1:]]}
        assert config_corpus.outcome(row["config"], made).state == "different", name
    stack, layers = next(iter(facts["turned"].items()))
    fewer = {**facts, "turned": {stack: {k: v[1:] for k, v in layers.items()}}}
    assert config_corpus.outcome(row["config"], fewer).state == "different"
    function, pairing = next(iter(facts["functions"].items()))
    for change in ({"pairing": "interleaved"}, {"width": pairing["width"] // 2}):
        other = {**facts, "functions": {function: {**pairing, **change}}}
        assert config_corpus.outcome(row["config"], other).state == "different", change


# --- other code than transformers -----------------------------------------------------------------

models = cache(config_oracle.models)


def config_of(key: str) -> dict[str, Any]:
    """The config of a row, or the small one that was made for a family without a row."""
    made: dict[str, Any] = models()[key].get("config") or outcomes()[key][0]["config"]
    return made


def test_plans_of_models_without_a_class_are_what_vllm_or_their_authors_compute() -> None:
    wrong = {}
    for key, facts in models().items():
        result = config_corpus.outcome(config_of(key), facts)
        # One file was edited so that transformers, whose class its text has, refuses it.
        allowed = ("equal", "partly", *(["not loaded"] if key == "5257f943fa" else []))
        if result.state not in allowed:
            wrong[key] = (facts["by"], result.state, result.told)
    assert not wrong


def test_files_for_other_code_are_right_by_that_code() -> None:
    second = config_corpus.second_opinions()
    assert {key for key, (_, result) in outcomes().items() if result.state == "said"} <= {*second}
    assert {result.state for result in second.values()} == {"equal"}


@pytest.mark.costly
def test_the_comparison_with_other_code_sees_what_is_wrong() -> None:
    turning = {k: v for k, v in models().items() if v.get("turned") and "parts" not in v}
    assert len(turning) > 40
    assert not {key: missed for key, facts in turning.items() if (missed := unseen(key, facts))}


def unseen(key: str, facts: dict[str, Any]) -> list[str]:
    """The changes of the facts of a model that the comparison does not see."""
    missed = []
    used = next(name for stack in facts["turned"].values() for name in stack if name != "?")
    rows, place = facts["rotary"], int(used)
    entry = rows[place]
    for wrong in (
        {"frequencies": entry["frequencies"] * np.float32(1.001)},
        {"factor": entry["factor"] * 1.01},
        {"cos": entry.get("cos", 0) + np.float32(0.01)},
    ):
        if set(wrong) <= {*entry}:
            made = {**facts, "rotary": [*rows[:place], {**entry, **wrong}, *rows[place + 1 :]]}
            if config_corpus.outcome(config_of(key), made).state != "different":
                missed += wrong
    for name, of in facts["functions"].items():
        order = "half" if of["pairing"] == "interleaved" else "interleaved"
        made = {**facts, "functions": {name: {**of, "pairing": order}}}
        state = config_corpus.outcome(config_of(key), made).state
        if state != "different" and of["exact"]:
            missed.append(name)
    return missed


def test_pictures_turn_as_in_vllm() -> None:
    pictures = {key: facts for key, facts in models().items() if "parts" in facts}
    assert pictures
    for key, facts in pictures.items():
        (row,) = facts["rotary"]
        plan = posenc.from_hf(copy.deepcopy(config_of(key)), on_error="report")
        (spec,) = (e.spec for e in plan if e.layer.startswith("vision.") and e.kind == "rotary")
        assert isinstance(spec, posenc.RoPE), key
        x = np.tile(np.arange(1.0, spec.dim + 1), (len(row["cells"]), 1))
        turned = posenc.rotate(spec, x, positions=np.array(row["cells"]))
        # float32 of up to 128.
        np.testing.assert_allclose(turned, row["turned"], rtol=0, atol=3e-4, err_msg=key)


def test_the_table_of_intern_vit_is_resized_as_its_authors_do_it() -> None:
    facts = models()["intern_vit_6b"]
    spec = posenc.from_hf(facts["config"])["embeddings"].spec
    assert isinstance(spec, posenc.Learned)
    made, params = posenc.resize(spec, {"weight": facts["weight"]}, (6, 5), method="cubic")
    assert made.length == (6, 5)
    np.testing.assert_allclose(params["weight"][1:], facts["resized"], rtol=0, atol=1e-6)
    assert (params["weight"][0] == facts["weight"][0]).all()


def test_the_page_has_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [*outcomes().values()]
    monkeypatch.setattr(config_corpus, "outcomes", lambda: kept)
    assert config_corpus.PAGE.read_text("utf-8") == config_corpus.written()


# --- with transformers ----------------------------------------------------------------------------


@pytest.mark.slow("presets/configs")
@pytest.mark.parametrize("part", range(2))
def test_the_kept_numbers_are_those_of_transformers(part: int) -> None:
    pytest.importorskip("transformers", reason="is the oracle")
    pytest.importorskip("torch", reason="transformers is written in torch")
    # The oracle watches how modules of torch are made, and leaves traces in its process.
    code = f"from tests.detect.plans.test_corpus import compute; compute({part}, 2)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def compute(part: int, parts: int) -> None:
    """Hold every so many of the rows against transformers."""
    config_oracle.prepared()
    kept = config_oracle.golden()
    for row in config_oracle.rows()[part::parts]:
        arrays: dict[str, Any] = {}
        found = json.loads(
            json.dumps(config_oracle.packed(config_oracle.timed(row["config"]), arrays))
        )
        same(config_oracle.unpacked(found, arrays), kept[row["id"]], row["model"])


def same(found: Any, kept: Any, where: str) -> None:
    """Equal, arrays within float32."""
    if isinstance(kept, dict):
        assert set(found) == set(kept), where
        for key, value in kept.items():
            same(found[key], value, f"{where} {key}")
    elif isinstance(kept, list):
        assert len(found) == len(kept), where
        for one, other in zip(found, kept, strict=True):
            same(one, other, where)
    elif isinstance(kept, np.ndarray):
        np.testing.assert_allclose(found, kept, rtol=1e-6, atol=1e-6, err_msg=where)
    elif isinstance(kept, float):
        assert found == pytest.approx(kept), where
    elif "refused" not in where:  # a sentence of somebody else
        assert found == kept, where


# --- both dialects --------------------------------------------------------------------------------

YARN = {
    "rope_type": "yarn",
    "factor": 8.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow("detect/explain", "presets/configs")
def test_a_file_of_either_dialect_gives_one_plan() -> None:
    transformers = pytest.importorskip("transformers", reason="converts one dialect to the other")
    config_oracle.prepared()
    equal, refused = 0, {}
    for name in sorted(transformers.CONFIG_MAPPING):
        config = class_defaults.made(transformers.CONFIG_MAPPING[name])
        params = class_defaults.parameters(config)
        if not params:
            continue
        older = {k: v for k, v in config.to_dict().items() if k != "rope_parameters"}
        inner = [params, *class_defaults.kinds(params).values()]
        bases = [values["rope_theta"] for values in inner if values.get("rope_theta")]
        shares = [v["partial_rotary_factor"] for v in inner if v.get("partial_rotary_factor")]
        older |= {"rope_theta": (bases or [1e4])[0], "rope_scaling": dict(YARN)}
        older |= {"max_position_embeddings": 32768}
        older |= {"partial_rotary_factor": shares[0]} if shares else {}
        stated = {key: value for key, value in older.items() if key != "model_type"}
        newer = class_defaults.made(type(config), **copy.deepcopy(stated))
        if newer is None:
            continue
        one, other = (posenc.from_hf(c, on_error="report") for c in (older, newer))
        if one.errors or other.errors:
            refused[name] = (one.errors or other.errors)[0]
            continue
        assert turns(one) == turns(other), name
        equal += 1
    assert equal > 170
    # Classes that read no dictionary for all layers, need sections in it, or whose defaults do not
    # fit together.
    reasons = ("not read: it reads one", "section is missing", "that is no rotation", "in all,")
    said = {name for name, why in refused.items() if any(part in why for part in reasons)}
    assert set(refused) - said <= {"bailing_hybrid", "cohere2_moe", "dots3_note_text"}, refused


def turns(plan: posenc.Reading) -> dict[str, Any]:
    """Frequencies, magnitude and layers of every entry that turns."""
    return {
        entry.layer: (
            posenc.frequencies(entry.spec).round(12).tolist(),
            round(entry.spec.attention_factor, 9),
            entry.indices,
        )
        for entry in plan
        if isinstance(entry.spec, posenc.RoPE) and not entry.spec.needs_length
    }


@pytest.mark.slow("detect/explain", "presets")
@pytest.mark.parametrize("id_", IDS)
def test_a_config_that_transformers_loads_and_saves_has_the_same_plan(id_: str) -> None:
    from transformers import CONFIG_MAPPING

    config = outcomes()[id_][0]["config"]
    if config.get("model_type") not in CONFIG_MAPPING:
        pytest.skip("transformers has no class for it")
    try:
        made = CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config))
    except Exception as error:  # noqa: BLE001 - whatever the class raises
        pytest.skip(f"its class does not load it: {error}"[:100])
    before = posenc.from_hf(config, on_error="report")
    after = posenc.from_hf(json.loads(made.to_json_string(use_diff=True)), on_error="report")
    # Names follow the keys, and a saved file has more of them.
    plans = [
        {(e.attention, e.spec, e.convolution) for e in p if e.kind != "none"}
        for p in (before, after)
    ]
    if before.errors:
        assert after.errors
    elif plans[0] != plans[1]:
        told = " ".join(before.warnings)
        told_why = ("authors' code", "written for other code", "of the whole", "does not look")
        assert any(why in told for why in told_why)


def test_the_rule_that_transformers_writes_beside_the_files_own() -> None:
    from transformers import Qwen2VLConfig

    own = {"type": "mrope", "mrope_section": [4, 6, 6]}
    text = {"hidden_size": 128, "num_attention_heads": 4, "rope_theta": 1e6, "rope_scaling": own}
    saved = json.loads(Qwen2VLConfig(text_config=copy.deepcopy(text)).to_json_string())
    rules = saved["text_config"]["rope_parameters"]
    assert (rules["type"], rules["rope_type"]) == ("mrope", "default")
    config = {"model_type": "qwen2_vl", "text_config": text | {"model_type": "qwen2_vl_text"}}
    plans = [posenc.from_hf(one) for one in (config, saved)]
    first, second = (next(e.spec for e in plan if e.kind == "rotary") for plan in plans)
    assert first == second

"""What was read once is read so again: the plans of published configs are written down.

`tools/models/config_plans.py` writes `tests/golden/configs/plans.jsonl`; a line of it that changes
says why in its own words.
"""

from __future__ import annotations

import copy

import pytest
from tools.models import config_oracle, config_plans

PUBLISHED = 277  # configs that the corpus does not hold, each with its source
CORPUS = 389
REFUSED = {"682ec9f5a0", "1a41458f60"}  # which transformers refuses too


@pytest.mark.costly
def test_no_plan_of_a_published_config_changes_unseen() -> None:
    changed = [
        "\n".join((name, *(f"  - {line}" for line in old), *(f"  + {line}" for line in new)))
        for name, (old, new) in config_plans.changes().items()
    ]
    todo = (
        "python tools/models/config_plans.py --write WHY, where the new plan is what the model does"
    )
    assert not changed, "\n".join([*changed[:8], f"{len(changed)} plans changed: {todo}"])


def test_every_config_has_a_plan_that_is_written_down() -> None:
    rows = config_plans.stored()
    assert rows.keys() == config_plans.configs().keys()
    assert len(rows) >= CORPUS + PUBLISHED
    assert {name for name, row in rows.items() if "refused" in row["plan"]} == REFUSED
    facts = config_oracle.golden()
    assert all("refused" in facts[name] for name in REFUSED)
    assert all(row["source"] for row in config_plans.published())


def test_the_words_of_a_plan_see_every_field() -> None:
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "num_hidden_layers": 4,
              "max_position_embeddings": 4096}  # fmt: skip
    plain = config_plans.plan_of(config)
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    for more in (
        {"rope_theta": 10_001.0},
        {"head_dim": 62},
        {"max_position_embeddings": 4097},
        {"rope_scaling": scaling},
        {"model_type": "gptj"},
    ):
        assert config_plans.plan_of({**copy.deepcopy(config), **more}) != plain, more
    assert config_plans.plan_of({"model_type": "nobody"}) == ["refused"]

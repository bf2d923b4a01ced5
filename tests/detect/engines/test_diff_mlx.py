"""`diff` of configs against the classes that mlx-lm and mlx-vlm build from them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.detect.contract.comparison import held
from posenc.detect.contract.comparison.compare import comparison
from posenc.detect.contract.sides import mlx
from posenc.detect.contract.sides.mlx import of_mlx
from posenc.detect.contract.sides.sides import side_of
from tests.detect.engines.mlx_families import (
    DIFFERENT,
    FOUR,
    UNBUILT,
    UNSAID,
    Outcome,
    configs,
    knows,
    outcome,
)
from tests.detect.engines.mlx_unlisted import UNLISTED

pytest.importorskip("mlx_lm", reason="whose classes are asked")
pytest.importorskip("transformers", reason="which mlx-lm imports")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow("detect/contract", "detect/explain", "presets/configs"),
]
ROOT = Path(__file__).resolve().parents[3]
FAULTS = json.loads((ROOT / "docs" / "data" / "faults.json").read_text(encoding="utf-8"))["rows"]
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2,
    "intermediate_size": 11008, "rms_norm_eps": 1e-5, "vocab_size": 32000,
    "max_position_embeddings": 8192, "rope_theta": 5e5,
}  # fmt: skip


def test_a_class_is_its_config() -> None:
    found = posenc.diff(LLAMA, "engine:mlx")
    assert found.verdict == "nothing differs", found.lines()
    assert any("mlx_lm.models.llama.Model, mlx_lm " in remark for remark in found.remarks)


def test_what_a_class_reads_otherwise_is_named(tmp_path: Path) -> None:
    """transformers 5 writes the base into `rope_parameters`, where 80 classes do not look."""
    starcoder = {**LLAMA, "model_type": "starcoder2", "num_key_value_heads": 2,
                 "norm_epsilon": 1e-5, "max_position_embeddings": 4096}  # fmt: skip
    assert posenc.diff(starcoder, "engine:mlx").verdict == "nothing differs"
    rope = {"rope_type": "default", "rope_theta": starcoder.pop("rope_theta")}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**starcoder, "rope_parameters": rope}))
    (row,) = posenc.diff(path, "engine:mlx").differences
    assert (row.field, row.a, row.b) == ("base", "500000", "100000")
    contract = posenc.golden(f"engine:mlx={path}")
    assert [part.spec for part in contract.parts] == [
        posenc.RoPE(128, pairing="half", base=100000.0)
    ]
    assert posenc.diff(contract, f"engine:mlx={path}").verdict == "nothing differs"


def test_a_module_that_no_forward_calls_is_not_asked() -> None:
    """Cohere 2 builds a rotation in each layer and calls three of four."""
    cohere = {**LLAMA, "model_type": "cohere2", "sliding_window": 4096, "num_hidden_layers": 4,
              "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
              "num_key_value_heads": 8, "head_dim": 128}  # fmt: skip
    found = posenc.diff(cohere, "engine:mlx")
    assert found.verdict == "nothing differs", found.lines()
    assert any("no positions: nothing turns queries there" in line for line in found.compared)
    # One that is called where the config has no positions is a difference.
    side = of_mlx({**cohere, "model_type": "llama"}, "llama")
    assert [row.field for row in comparison(side_of(cohere), side).rows] == [
        "layers",
        "pairing.order",
    ]


def test_a_config_that_no_class_builds_is_told_in_its_words() -> None:
    ernie = {k: v for k, v in LLAMA.items() if k != "rope_theta"} | {"model_type": "ernie4_5"}
    with pytest.raises(posenc.DataError, match="expected a class of MLX.*'rope_theta'"):
        posenc.diff(ernie, "engine:mlx")
    with pytest.raises(posenc.PosencError, match="Write engine:mlx=CONFIG"):
        posenc.diff(posenc.RoPE(64, pairing="half"), "engine:mlx")


def test_layers_that_differ_in_one_number_are_asked_apart() -> None:
    """A printed array leaves out its middle."""
    core = pytest.importorskip("mlx.core", reason="whose arrays are compared")
    freqs = np.ones(2048, np.float32)
    one, two = freqs.copy(), freqs.copy()
    two[1000] = 2
    a, b = (functools.partial(core.fast.rope, freqs=core.array(f)) for f in (one, two))
    assert repr(a.keywords["freqs"]) == repr(b.keywords["freqs"])
    assert mlx._settings(a) != mlx._settings(b)
    assert mlx._settings(a) == mlx._settings(functools.partial(a.func, **a.keywords))


def test_layers_without_end_are_refused() -> None:
    with pytest.raises(posenc.DataError, match="more than any model has"):
        posenc.diff({**LLAMA, "num_hidden_layers": 10**9}, "engine:mlx")


@pytest.mark.parametrize(("package", "known", "equal"), [("mlx_lm", 100, 80), ("mlx_vlm", 145, 85)])
def test_every_family_that_both_know_is_compared(
    package: str, known: int, equal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each difference is one that is known, and so is each family that does not build."""
    pytest.importorskip(package, reason="whose classes are asked")
    monkeypatch.setattr(held, "SECONDS", 0.2)  # of a survey
    kinds: dict[str, list[Outcome]] = {}
    for name, config in configs():
        if knows(package, config):
            rows = kinds.setdefault(config["model_type"], [])
            # The other dialect, where the first says that nothing differs, costs as much again.
            if name != FOUR or not (rows[-1].compared and not rows[-1].fields):
                rows.append(outcome(package, name, config))
    unbuilt = {k: " ".join(r.error for r in v) for k, v in kinds.items() if all(r.error for r in v)}
    assert len(UNBUILT[package]) < 5
    says = UNBUILT[package] | UNSAID[package]
    assert unbuilt.keys() == says.keys()
    assert [kind for kind in says if says[kind] not in unbuilt[kind]] == []
    assert len(kinds) >= known
    rows = [row for each in kinds.values() for row in each]
    assert {(r.model_type, r.config): r.fields for r in rows if r.fields} == DIFFERENT[package]
    assert len({r.model_type for r in rows if r.compared and not r.fields}) >= equal


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: f"{row['package']} {row['model_type']}")
def test_a_fault_of_the_page_is_found_again(row: dict[str, Any]) -> None:
    pytest.importorskip(row["package"], reason="whose class is asked")
    config = {"model_type": row["model_type"], **row["config"]}
    found = comparison(side_of(config), of_mlx(config, "mlx", (row["package"],)))
    first = found.rows[0]
    assert (first.field, first.a, first.b) == (row["field"], row["config says"], row["class does"])


@pytest.mark.parametrize(
    ("package", "model_type", "config"), UNLISTED, ids=[f"{p} {kind}" for p, kind, _ in UNLISTED]
)
def test_a_family_without_a_class_in_transformers_is_its_class_in_mlx(
    package: str, model_type: str, config: dict[str, Any]
) -> None:
    pytest.importorskip(package, reason="whose class is asked")
    row = outcome(package, model_type, {"model_type": model_type, **config})
    assert not row.error
    assert row.compared, row
    assert row.fields == ()

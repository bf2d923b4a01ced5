"""Windows of configs: what layers see is what their class in transformers makes of the keys."""

from __future__ import annotations

from typing import Any

import pytest

import posenc
from posenc.detect.explain import describe, lines
from posenc.presets.families import class_windows

SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
    "num_hidden_layers": 7, "max_position_embeddings": 8192, "rope_theta": 1e4,
    "vocab_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ON = {"use_sliding_window": True, "max_window_layers": 4}
LISTED = ["sliding_attention", "full_attention", *["sliding_attention"] * 5]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gemma2", {}), ("gemma3_text", {"rope_local_base_freq": 1e4}),
    ("gemma3_text", {"rope_local_base_freq": 1e4, "sliding_window_pattern": 3}),
    ("gemma3_text", {"rope_local_base_freq": 1e4, "_sliding_window_pattern": 3}),  # unread
    ("mistral", {}), ("mixtral", {}), ("qwen2", {}), ("qwen2", ON), ("qwen3", ON), ("qwen3", {}),
    ("qwen2", {**ON, "layer_types": LISTED}), ("phi3", {}), ("starcoder2", {}), ("cohere2", {}),
    ("gpt_oss", {"rope_scaling": None}), ("olmo3", {}), ("llama", {}), ("ministral", {}),
    ("qwen3_moe", {}), ("qwen3_moe", {"use_sliding_window": True}),
]  # fmt: skip


def seen(config: dict[str, Any]) -> list[int | None]:
    """The window of each layer, by the parts of the contract."""
    found: list[int | None] = [None] * config["num_hidden_layers"]
    for part in posenc.golden(config).parts:
        for layer in range(len(found)) if part.layers is None else part.layers:
            found[layer] = part.window
    return found


def oracle(config: dict[str, Any]) -> list[int | None]:
    """The same of transformers: by the types of its config class, or the attention of a model."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    data = {key: value for key, value in config.items() if key != "model_type"}
    made = transformers.CONFIG_MAPPING[config["model_type"]](**data)
    size = getattr(made, "sliding_window", None)
    types = getattr(made, "layer_types", None)
    if types is not None:
        return [size if kind == "sliding_attention" else None for kind in types]
    if config["model_type"] == "llama":  # no line of its modelling file has the key
        return [None] * config["num_hidden_layers"]
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(made)
    return [getattr(layer.self_attn.config, "sliding_window", None) for layer in model.layers]


@pytest.mark.parametrize("stated", [512, None, "left out"])
@pytest.mark.parametrize(("name", "more"), CASES)
def test_each_layer_has_the_window_that_its_class_gives_it(
    name: str, more: dict[str, Any], stated: int | str | None
) -> None:
    config = {"model_type": name, **SIZES, **more}
    config |= {} if stated == "left out" else {"sliding_window": stated}
    if name == "gemma3_text" and stated is None:
        return  # its class divides the key
    if stated is None and name == "qwen2" and "layer_types" in more:
        return  # its class refuses it
    assert seen(config) == oracle(config)


def test_a_window_of_another_size_is_a_difference_and_an_equal_one_is_none() -> None:
    for name in ("gemma3_text", "mistral", "qwen2"):
        config = {"model_type": name, **SIZES, **ON, "sliding_window": 512}
        config |= {"rope_local_base_freq": 1e4}
        rows = posenc.diff(config, config | {"sliding_window": 1024}).differences
        assert {row.field for row in rows} == {"window"}, name
        assert {(row.a, row.b) for row in rows} == {("512", "1024")}
        assert not posenc.diff(config, dict(config)).differences
    whole = config | {"use_sliding_window": False}
    rows = posenc.diff(config, whole).differences
    assert [(row.field, row.a, row.b) for row in rows] == [("window", "512", "the whole sequence")]


def test_a_plan_tells_its_windows_in_words_in_json_and_back() -> None:
    plan = posenc.from_hf({"model_type": "qwen2", **SIZES, **ON, "sliding_window": 512})
    text = "\n".join(lines(plan))
    assert "attends to keys less than 512 positions away (layers 4, 5, 6; 3 in all)" in text
    assert "attends to the whole sequence (layers 0, 1, 2, 3; 4 in all)" in text
    assert describe(plan)["layers"][0]["windows"][1] == {"size": 512, "layers": (4, 5, 6)}
    assert posenc.from_json(posenc.to_json(plan)) == plan
    assert len(plan) == 1  # its layers turn alike


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("nobody", {}, "whether the class reads it is not known here"),
        ("olmoe", {}, "whether the class reads it is not known here"),
        ("llama", {}, "does not read it"),
        ("gemma2", {"use_bidirectional_attention": True}, "is not known here"),
        ("mistral", {"sliding_window": "4096"}, "is no number of keys"),
    ],
)
def test_what_is_not_known_of_a_window_is_said_and_never_guessed(
    name: str, more: dict[str, Any], told: str
) -> None:
    config = {"model_type": name, **SIZES, "sliding_window": 4096, **more}
    plan = posenc.from_hf(config, pairing="half")
    assert [told in n.text for n in plan.notes if "sliding_window=" in n.text] == [True]
    assert all(entry.windows == () for entry in plan)
    silent = posenc.from_hf(
        {k: v for k, v in config.items() if k != "sliding_window"}, pairing="half"
    )
    assert name == "gemma2" or not any("sliding_window" in note.text for note in silent.notes)


def test_chunks_are_no_window() -> None:
    config = {"model_type": "llama4_text", **SIZES, "attention_chunk_size": 4096}
    plan = posenc.from_hf(config)
    assert all(entry.windows == () for entry in plan)
    assert all(part.window is None for part in posenc.golden(config).parts)


def test_rows_of_windows_are_those_of_the_installed_classes() -> None:
    classes = pytest.importorskip("tools.models.class_windows")
    transformers = pytest.importorskip("transformers")
    for name in ("gemma3_text", "mistral", "qwen2", "llama", "olmoe"):
        row = classes.row(transformers.CONFIG_MAPPING[name])
        known = class_windows(name)
        assert (known is None) == (row is None)
        if row is not None and known is not None and known.version == transformers.__version__:
            assert (known.layers, known.size) == (row["layers"], row.get("size"))

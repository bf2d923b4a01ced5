"""Conversions of checkpoints, against permutations by plain loops and against transformers."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import posenc
from posenc._core.io import files, headers
from posenc.detect.convert import edits, verification
from tests.detect.checkpoints import (
    HIDDEN,
    config_of,
    folder_of,
    interleaved_from_half,
    loaded,
    weights_of,
)

CONVERT = importlib.import_module("posenc.detect.convert.convert")  # the name is a function too

FAMILIES = {
    "plain": ((4, 4, 8, 8), {}),
    "grouped keys": ((4, 2, 8, 8), {}),
    "one head of keys": ((4, 1, 8, 8), {"bias": True}),
    "biases": ((2, 2, 6, 6), {"bias": True}),
    "a gain for each channel of a head": ((4, 2, 8, 8), {"norm": "head"}),
    "a gain for each channel": ((4, 2, 8, 8), {"norm": "full"}),
    "a part turns": ((2, 2, 10, 4), {"bias": True, "norm": "head"}),
    "half precision": ((4, 2, 8, 8), {"dtype": np.float16}),
}


def expected(
    weights: dict[str, np.ndarray], width: int, rotated: int, begin: int = 0
) -> dict[str, np.ndarray]:
    """The interleaved form by loops over heads and rows."""
    made = {}
    for name, array in weights.items():
        module = name.split(".")[-2]
        if module in ("q_proj", "k_proj", "q_norm", "k_norm"):
            rows = list(array)
            moved: list[Any] = []
            for head in range(len(rows) // width):
                part = rows[head * width : (head + 1) * width]
                moved += interleaved_from_half(part, begin, rotated)
            array = np.stack(moved)
        made[name] = array
    return made


def assert_same(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert sorted(got) == sorted(want)
    for name, array in want.items():
        assert got[name].dtype == array.dtype, name
        assert got[name].shape == array.shape, name
        assert got[name].tobytes() == array.tobytes(), name


def fingerprint(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


# --- pairings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("shards", [1, 3])
def test_half_to_interleaved_and_back(tmp_path: Path, name: str, shards: int) -> None:
    (heads, kv, width, rotated), choices = FAMILIES[name]
    weights = weights_of(heads, kv, width, **choices)
    config = config_of(heads, kv, width, rotated)
    source = folder_of(tmp_path / "half", weights, config, shards=shards)
    before = fingerprint(source)
    layout = posenc.Projections(stored="half")
    made = posenc.convert(source, tmp_path / "new", pairing="interleaved", layout=layout)
    assert_same(loaded(tmp_path / "new"), expected(weights, width, rotated))
    assert made.pairing == ("half", "interleaved")
    assert made.copied == sum(".v_proj" in n or ".o_proj" in n or "embed" in n for n in weights)
    assert made.probe is not None
    assert (made.probe.layers, made.probe.heads) == (2, 2 * heads)
    assert made.probe.worst < 1e-12
    # The record of the first conversion says how the weights are stored now.
    back = posenc.convert(tmp_path / "new", tmp_path / "back", pairing="half")
    assert back.source_of_pairing == "the record of a conversion in the file"
    assert_same(loaded(tmp_path / "back"), weights)
    assert fingerprint(source) == before


@pytest.mark.parametrize("side", ["leading", "trailing"])
def test_the_side_that_turns(tmp_path: Path, side: str) -> None:
    weights = weights_of(2, 1, 10)
    save_file(weights, tmp_path / "a.safetensors")
    pairing = posenc.Pairing("half", part=side)  # type: ignore[arg-type]
    layout = posenc.Projections(heads=2, rope=posenc.RoPE(4, pairing=pairing))
    target = tmp_path / "b.safetensors"
    posenc.convert(tmp_path / "a.safetensors", target, pairing="interleaved", layout=layout)
    begin = 6 if side == "trailing" else 0
    assert_same(loaded(target), expected(weights, 10, 4, begin))


def packed(q: np.ndarray, k: np.ndarray, v: np.ndarray, width: int, how: str) -> np.ndarray:
    """One module from three: by blocks, by groups, or in the four blocks of q, v, k."""
    heads, kv = len(q) // width, len(k) // width
    if how == "blocks":
        return np.concatenate([q, k, v])
    cut = [a.reshape(-1, width, *a.shape[1:]) for a in (q, k, v)]
    repeats = kv if how == "groups" else 4
    order = (0, 1, 2) if how == "groups" else (0, 2, 1)
    pieces = []
    for i in range(repeats):
        for j in order:
            each = len(cut[j]) // repeats
            pieces += list(cut[j][i * each : (i + 1) * each])
    assert heads % kv == 0
    return np.concatenate(pieces)


PACKED = {
    "blocks, said": ({"fused": "blocks"}, "mine", "Wqkv", "blocks", 2),
    "groups, said": ({"fused": "groups"}, "mine", "wqkv", "groups", 2),
    "blocks, known": ({}, "phi3", "qkv_proj", "blocks", 2),
    "one group for each head, known": ({}, "gpt_neox", "query_key_value", "groups", 4),
    "groups, known": ({}, "internlm2", "wqkv", "groups", 2),
    "four blocks, known": ({}, "codegen", "qkv_proj", "four", 4),
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("bias", [False, True])
def test_packed_projections(tmp_path: Path, name: str, bias: bool) -> None:
    said, model_type, module, how, kv = PACKED[name]
    heads, width, rotated = 4, 8, 4
    separate = weights_of(heads, kv, width, bias=True)

    def pack(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = {}
        for layer in range(2):
            at = f"model.layers.{layer}.self_attn"
            for kind in ("weight", "bias")[: 1 + bias]:
                parts = [given[f"{at}.{x}_proj.{kind}"] for x in "qkv"]
                found[f"h.{layer}.attn.{module}.{kind}"] = packed(*parts, width, how)
        return found

    config = config_of(heads, kv, width, rotated, model_type=model_type)
    config |= {"rotary_pct": 0.5} if model_type == "gpt_neox" else {}
    config |= {"hidden_size": 32, "rotary_dim": 4} if model_type == "codegen" else {}
    source = folder_of(tmp_path / "a", pack(separate), config)
    layout = posenc.Projections(stored="half", **said)  # type: ignore[arg-type]
    made = posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert_same(loaded(tmp_path / "b"), pack(expected(separate, width, rotated)))
    assert made.probe is not None
    assert made.probe.heads == 2 * heads


def test_the_packing_of_an_unknown_family_is_asked_for(tmp_path: Path) -> None:
    weights = {"h.0.attn.Wqkv.weight": np.zeros((48, HIDDEN), np.float32)}
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8, model_type="mine"))
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError, match=r'fused="blocks".*"groups"'):
        posenc.convert(source, pairing="interleaved", layout=layout)


def test_adapters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rank, heads, width = 3, 4, 8
    at = "base_model.model.model.layers.1.self_attn"
    a = rng.standard_normal((rank, HIDDEN)).astype("float32")
    b = rng.standard_normal((heads * width, rank)).astype("float32")
    magnitude = rng.standard_normal(heads * width).astype("float32")
    weights = {
        f"{at}.q_proj.lora_A.weight": a,
        f"{at}.q_proj.lora_B.default.weight": b,
        f"{at}.q_proj.lora_magnitude_vector": magnitude,
    }
    source = tmp_path / "adapter.safetensors"
    save_file(weights, source)
    config = config_of(heads, 2, width, width)
    target = tmp_path / "new.safetensors"
    layout = posenc.Projections(stored="half")
    made = posenc.convert(source, target, pairing="interleaved", layout=layout, config=config)
    rows: list[int] = []
    for head in range(heads):
        own = list(range(head * width, (head + 1) * width))
        rows += interleaved_from_half(own, 0, width)
    found = loaded(target)
    assert found[f"{at}.q_proj.lora_A.weight"].tobytes() == a.tobytes()
    assert found[f"{at}.q_proj.lora_B.default.weight"].tobytes() == b[rows].tobytes()
    assert found[f"{at}.q_proj.lora_magnitude_vector"].tobytes() == magnitude[rows].tobytes()
    assert made.probe is not None
    assert (made.probe.layers, made.probe.heads) == (0, 0)
    name = "base_model.model.model.layers.1.self_attn (adapter)"
    assert made.probe.words() == [f"not verified: queries only: {name}"]


def test_kernels_with_inputs_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    heads, width = 2, 6
    weights = {
        "params/layers_0/attn/query/kernel": rng.standard_normal((HIDDEN, heads, width)),
        "params/layers_0/attn/key/kernel": rng.standard_normal((HIDDEN, heads * width)),
        "params/layers_0/attn/query/bias": rng.standard_normal((heads, width)),
    }
    source = tmp_path / "a.safetensors"
    save_file(weights, source)
    layout = posenc.Projections(heads=heads, rope=posenc.RoPE(width, pairing="half"))
    target = tmp_path / "b.safetensors"
    posenc.convert(source, target, pairing="interleaved", layout=layout)
    order = interleaved_from_half(list(range(width)), 0, width)
    columns = [head * width + c for head in range(heads) for c in order]
    found = loaded(target)
    for name, array in weights.items():
        flat = array.reshape(-1, heads * width) if "kernel" in name else array.reshape(1, -1)
        assert found[name].tobytes() == np.ascontiguousarray(flat[:, columns]).tobytes(), name


def test_eight_bit_weights_move_with_the_scales_of_their_rows(tmp_path: Path) -> None:
    heads, width = 2, 8
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 255, (heads * width, HIDDEN), dtype=np.uint8)
    scale = rng.standard_normal((heads * width, 1)).astype("float32")
    names = [f"layers.0.attn.{n}_proj" for n in "qk"]
    tensors = {}
    for name in names:
        tensors |= {f"{name}.weight": ("float8_e4m3", weight.shape)}
        tensors |= {f"{name}.weight_scale": ("float32", scale.shape)}
    data = (weight.tobytes() + scale.tobytes()) * 2
    source = tmp_path / "a.safetensors"
    source.write_bytes(headers.safetensors_header(tensors) + data)
    layout = posenc.Projections(heads=heads, rope=posenc.RoPE(width, pairing="half"))
    target = tmp_path / "b.safetensors"
    made = posenc.convert(source, target, pairing="interleaved", layout=layout)
    told = "numbers that NumPy lacks, compared byte by byte: layers.0.attn"
    assert made.probe is not None
    assert (made.probe.heads, made.probe.words()) == (0, [f"not verified: {told}"])
    rows = []
    for head in range(heads):
        rows += interleaved_from_half(list(range(head * width, (head + 1) * width)), 0, width)
    got = target.read_bytes()
    assert got.endswith((weight[rows].tobytes() + scale[rows].tobytes()) * 2)


def test_latent_keys(tmp_path: Path) -> None:
    """Queries of 6 + 4 channels, of which the last 4 turn; one key in the last 4 of 9."""
    rng = np.random.default_rng(0)
    weights = {
        "model.layers.0.self_attn.q_b_proj.weight": rng.standard_normal((3 * 10, 5)),
        "model.layers.0.self_attn.kv_a_proj_with_mqa.weight": rng.standard_normal((9, HIDDEN)),
        "model.layers.0.self_attn.kv_a_layernorm.weight": rng.standard_normal(5),
        "model.layers.0.self_attn.kv_b_proj.weight": rng.standard_normal((30, 5)),
    }
    config = {
        "model_type": "deepseek_v3",
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4,
        "kv_lora_rank": 5,
        "rope_theta": 10000.0,
        "rope_interleave": False,
    }
    source = folder_of(tmp_path / "a", weights, config)
    made = posenc.convert(source, tmp_path / "b", pairing="interleaved")
    assert made.config == ("rope_interleave becomes true",)
    assert json.loads((tmp_path / "b" / "config.json").read_text())["rope_interleave"] is True
    found = loaded(tmp_path / "b")
    rows = []
    for head in range(3):
        rows += interleaved_from_half(list(range(head * 10, head * 10 + 10)), 6, 4)
    name = "model.layers.0.self_attn.q_b_proj.weight"
    assert found[name].tobytes() == weights[name][rows].tobytes()
    name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
    last = interleaved_from_half(list(range(9)), 5, 4)
    assert found[name].tobytes() == weights[name][last].tobytes()
    posenc.convert(tmp_path / "b", tmp_path / "c", pairing="half")
    assert_same(loaded(tmp_path / "c"), weights)


def test_layers_without_positions_and_other_attention_stay(tmp_path: Path) -> None:
    weights = weights_of(2, 2, 8)
    for name in list(weights):
        if ".0.self_attn" in name:
            weights[name.replace("self_attn", "cross_attn")] = weights[name] + 1
    config = config_of(2, 2, 8, 8, model_type="granite_swa", layer_rope_theta=[10000.0, 0.0])
    source = folder_of(tmp_path / "a", weights, config)
    layout = posenc.Projections(stored="half")
    made = posenc.convert(source, pairing="interleaved", layout=layout)
    assert sorted(made.tensors) == [
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.q_proj.weight",
    ]


def test_pieces_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes however the tensors are cut."""
    monkeypatch.setattr(files, "PIECE", 64)
    weights = weights_of(4, 2, 8, bias=True)
    source = folder_of(tmp_path / "a", weights, config_of(4, 2, 8, 8))
    largest = []
    raw = edits.Stored.raw

    def watched(self: Any, begin: int, count: int) -> np.ndarray:
        largest.append(count)
        return raw(self, begin, count)

    monkeypatch.setattr(edits.Stored, "raw", watched)
    layout = posenc.Projections(stored="half")
    posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert_same(loaded(tmp_path / "b"), expected(weights, 8, 8))
    assert max(largest) <= 8 * HIDDEN * 4  # one head


@pytest.mark.costly
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_heads(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kv = data.draw(st.integers(1, 3), label="heads of keys")
    heads = kv * data.draw(st.integers(1, 3), label="heads of queries for each")
    rotated = 2 * data.draw(st.integers(1, 4), label="pairs")
    width = rotated + data.draw(st.integers(0, 3), label="channels that stay")
    side = data.draw(st.sampled_from(["leading", "trailing"]))
    choices = {
        "bias": data.draw(st.booleans(), label="bias"),
        "norm": data.draw(st.sampled_from(["", "head", "full"])),
        "dtype": data.draw(st.sampled_from([np.float16, np.float32, np.float64])),
    }
    weights = weights_of(heads, kv, width, **choices)
    folder = tmp_path_factory.mktemp("any")
    save_file(weights, folder / "a.safetensors")
    pairing = posenc.Pairing("half", part=side)  # type: ignore[arg-type]
    layout = posenc.Projections(heads=heads, rope=posenc.RoPE(rotated, pairing=pairing))
    target = folder / "b.safetensors"
    posenc.convert(folder / "a.safetensors", target, pairing="interleaved", layout=layout)
    begin = width - rotated if side == "trailing" else 0
    assert_same(loaded(target), expected(weights, width, rotated, begin))
    posenc.convert(target, folder / "c.safetensors", pairing="half", layout=layout)
    assert_same(loaded(folder / "c.safetensors"), weights)


# --- the probe ------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["another row", "a bias", "a pair", "a channel that stays"])
def test_the_probe_sees_a_wrong_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    right = CONVERT._order

    def wrong(held: Any, heads: Any, target: Any) -> Any:
        order = right(held, heads, target)
        if broken == "another row" and "k_proj.weight" in held.name:
            order[[0, 1]] = order[[1, 0]]
        if broken == "a bias" and held.kind == "bias":
            order = np.arange(len(order))
        if broken == "a pair" and "q_proj.weight" in held.name:
            order[[8, 9, 10, 11]] = order[[10, 11, 8, 9]]
        if broken == "a channel that stays" and "q_proj" in held.name:
            order[[6, 7]] = order[[7, 6]]
        return order

    monkeypatch.setattr(CONVERT, "_order", wrong)
    rotated = 4 if broken == "a channel that stays" else 8
    weights = weights_of(2, 1, 8, bias=True)
    source = folder_of(tmp_path / "a", weights, config_of(2, 1, 8, rotated))
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError, match=r"probe of .*expected equal scores"):
        posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_the_probe_takes_weights_that_are_not_finite(tmp_path: Path) -> None:
    weights = weights_of(2, 2, 8)
    weights["model.layers.0.self_attn.q_proj.weight"][3, 2] = np.nan
    weights["model.layers.1.self_attn.k_proj.weight"][9, 1] = np.inf
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8))
    layout = posenc.Projections(stored="half")
    weights["model.layers.1.self_attn.q_proj.weight"][:8] = 0
    save_file(weights, source / "model.safetensors")
    made = posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert_same(loaded(tmp_path / "b"), expected(weights, 8, 8))
    assert made.probe is not None
    # Of four heads one is left: what is not a number agrees with nothing.
    assert (made.probe.layers, made.probe.heads) == (1, 1)
    assert made.probe.words()[1:] == [
        (
            "not verified: NaN or infinity: model.layers.0.self_attn (1 of 2 heads), "
            "model.layers.1.self_attn (1 of 2 heads)"
        ),
        "not verified: all scores are 0: model.layers.1.self_attn (1 of 2 heads)",
    ]
    assert made.to_dict()["probe"]["unverified"].keys() == made.probe.unverified.keys()


def test_a_head_that_is_not_finite_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = CONVERT._order

    def wrong(held: Any, heads: Any, target: Any) -> Any:
        order = right(held, heads, target)
        if "q_proj" in held.name:
            order[[8, 9]] = order[[9, 8]]
        return order

    monkeypatch.setattr(CONVERT, "_order", wrong)
    weights = weights_of(2, 2, 8)
    weights["model.layers.0.self_attn.q_proj.weight"][0] = np.nan  # of the first head
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8))
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError, match=r"probe of .*layers.0"):
        posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)


def renamed(weights: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {name.replace(old, new): array for name, array in weights.items()}


def less(weights: dict[str, Any], *parts: str) -> dict[str, Any]:
    return {n: array for n, array in weights.items() if not any(part in n for part in parts)}


# What is done to two layers with biases and gains: the words of the refusal.
CRIPPLED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "keys under another name": (
        lambda w: renamed(w, "1.self_attn.k_proj", "1.self_attn.k_projection"),
        {},
        r"layers.1.self_attn: expected keys beside its queries, .*k_projection.weight \[16, 12\]",
    ),
    "no keys": (lambda w: less(w, "1.self_attn.k_proj"), {}, "expected keys beside its queries"),
    "no keys anywhere": (lambda w: less(w, "k_proj"), {}, "expected keys beside its queries"),
    "queries under another name": (
        lambda w: renamed(w, "0.self_attn.q_proj", "0.self_attn.q_dense"),
        {},
        r"layers.0.self_attn: expected queries beside its keys, .*q_dense.weight \[16, 12\]",
    ),
    "no weight beside a bias": (
        lambda w: less(w, "1.self_attn.q_proj.weight"),
        {},
        "layers.1.self_attn: expected queries beside its keys",
    ),
    "biases alone": (
        lambda w: less(w, "1.self_attn.q_proj.weight", "1.self_attn.k_proj.weight"),
        {},
        "layers.1.self_attn: expected weights of queries and keys",
    ),
    "a norm on one side": (
        lambda w: renamed(w, "1.self_attn.k_norm", "1.self_attn.keys_rms"),
        {},
        r"expected gains of keys beside its gains of queries, .*keys_rms.weight \[8\]",
    ),
    "a bias under another name": (
        lambda w: renamed(w, "1.self_attn.k_proj.bias", "1.self_attn.k_bias"),
        {},
        r"expected known names of biases and norms .*1.self_attn.k_bias \[16\]",
    ),
    "a layer under another name": (
        lambda w: renamed(w, "1.self_attn.", "1.mixer."),
        {"rename": ("mixer.q_proj", "mixer.a", "mixer.k_proj", "mixer.b")},
        r"queries and keys of layer model.layers.1, .*1.mixer.a.weight .*, .*mixer.b.weight",
    ),
    "a layer that is missing": (
        lambda w: less(w, "layers.1."),
        {},
        r"layers: 2 by config key num_hidden_layers, but 1 by .* none begins with model.layers.1\.",
    ),
    "a config that counts more layers": (
        lambda w: w,
        {"num_hidden_layers": 3},
        r"layers: 3 by config key num_hidden_layers, but 2 by .* begins with model.layers.2\.",
    ),
    "a config that counts fewer layers": (
        lambda w: w,
        {"num_hidden_layers": 1},
        r"layers: 1 by config key num_hidden_layers, but 2 by .* up to model.layers.1\.",
    ),
    "two tensors of queries": (
        lambda w: w | renamed({n: a for n, a in w.items() if "q_proj.w" in n}, "q_proj", "wq"),
        {},
        "expected one tensor of queries, got .*q_proj.weight and .*wq.weight",
    ),
}


@pytest.mark.parametrize("name", CRIPPLED)
def test_a_model_that_lacks_something_is_refused(tmp_path: Path, name: str) -> None:
    cripple, more, message = CRIPPLED[name]
    weights = cripple(weights_of(2, 2, 8, bias=True, norm="head"))
    old = more.get("rename", ())
    for a, b in zip(old[::2], old[1::2], strict=True):
        weights = renamed(weights, a, b)
    config = config_of(2, 2, 8, 8, **{k: v for k, v in more.items() if k != "rename"})
    source = folder_of(tmp_path / "a", weights, config, shards=2)
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError, match=message):
        posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_name_that_the_caller_says_joins_its_layer(tmp_path: Path) -> None:
    weights = weights_of(2, 2, 8)
    weights = renamed(weights, "1.self_attn.k_proj", "1.self_attn.k_projection")
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8))
    layout = posenc.Projections(stored="half", names={"k": "*.k_projection.weight"})
    made = posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert made.probe is not None
    assert (made.probe.layers, made.probe.heads) == (2, 4)
    found = renamed(loaded(tmp_path / "b"), "k_projection", "k_proj")
    assert_same(found, expected(weights_of(2, 2, 8), 8, 8))


def test_one_file_of_several_holds_one_side(tmp_path: Path) -> None:
    """Each side converts by itself, gains too, and nothing is called verified."""
    weights = weights_of(2, 2, 8, norm="head")
    want = expected(weights, 8, 8)
    config = config_of(2, 2, 8, 8)
    layout = posenc.Projections(stored="half")
    sides = (("q_proj", "k_norm"), ("k_proj", "q_norm"))
    for number, side in enumerate(sides, 1):
        names = [n for n in weights if any(part in n for part in side)]
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({n: weights[n] for n in names}, tmp_path / file)
        target = tmp_path / f"new{number}.safetensors"
        made = posenc.convert(
            tmp_path / file, target, pairing="interleaved", layout=layout, config=config
        )
        assert_same(loaded(target), {n: want[n] for n in names})
        assert made.probe is not None
        assert made.probe.heads == 0
        told = "queries only" if number == 1 else "keys only"
        layers = "model.layers.0.self_attn, model.layers.1.self_attn"
        assert made.probe.words() == [f"not verified: {told}: {layers}"]


def test_layers_behind_the_last_and_keys_of_earlier_layers(tmp_path: Path) -> None:
    """What the config says of them is believed."""
    weights = weights_of(2, 2, 8)
    layout = posenc.Projections(stored="half")
    config = config_of(2, 2, 8, 8, num_hidden_layers=1, num_nextn_predict_layers=1)
    source = folder_of(tmp_path / "a", weights, config)
    posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert_same(loaded(tmp_path / "b"), expected(weights, 8, 8))
    weights = less(weights, "1.self_attn.k_proj")
    config = config_of(2, 2, 8, 8, num_kv_shared_layers=1)
    source = folder_of(tmp_path / "c", weights, config)
    made = posenc.convert(source, tmp_path / "d", pairing="interleaved", layout=layout)
    assert made.probe is not None
    assert made.probe.heads == 2
    assert made.probe.unverified == {"queries only": ("model.layers.1.self_attn",)}


def test_the_probe_reads_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        CONVERT,
        "probe",
        lambda attentions, result, target: (
            seen.append(sorted(result)) or verification.Probe(0, 0, 0.0)  # type: ignore[func-returns-value]
        ),
    )
    weights = weights_of(2, 2, 8)
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8))
    layout = posenc.Projections(stored="half")
    posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert seen == [sorted(weights)]


# --- files ----------------------------------------------------------------------------------------


def plain(tmp_path: Path) -> tuple[Path, posenc.Projections]:
    save_file(weights_of(2, 2, 8), tmp_path / "a.safetensors", metadata={"format": "pt"})
    rope = posenc.RoPE(8, pairing="half")
    return tmp_path / "a.safetensors", posenc.Projections(heads=2, rope=rope)


@pytest.mark.parametrize("how", ["itself", "symlink", "hardlink", "by another path"])
@pytest.mark.parametrize("existing", ["refuse", "replace"])
def test_the_source_is_never_the_output(tmp_path: Path, how: str, existing: Any) -> None:
    source, layout = plain(tmp_path)
    before = source.read_bytes()
    output = tmp_path / "b.safetensors"
    if how == "itself":
        output = source
    elif how == "symlink":
        output.symlink_to(source)
    elif how == "hardlink":
        output.hardlink_to(source)
    else:
        output = tmp_path / ".." / tmp_path.name / "a.safetensors"
    with pytest.raises(posenc.ArgumentError, match="another file than the source"):
        posenc.convert(source, output, pairing="interleaved", layout=layout, existing=existing)
    assert source.read_bytes() == before


def test_the_folder_of_the_source_is_never_the_output(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights_of(2, 2, 8), config_of(2, 2, 8, 8))
    (tmp_path / "link").symlink_to(source, target_is_directory=True)
    linked = tmp_path / "linked"
    linked.mkdir()
    os.link(source / "model.safetensors", linked / "model.safetensors")
    layout = posenc.Projections(stored="half")
    for output in (source, tmp_path / "link", source / "inside", linked):
        with pytest.raises(posenc.ArgumentError, match=r"than the source|outside the source"):
            posenc.convert(source, output, pairing="interleaved", layout=layout, existing="replace")
    assert sorted(p.name for p in source.iterdir()) == ["config.json", "model.safetensors"]


def test_an_output_that_exists_is_kept(tmp_path: Path) -> None:
    source, layout = plain(tmp_path)
    output = tmp_path / "b.safetensors"
    output.write_bytes(b"mine")
    written: list[int] = []
    with pytest.raises(FileExistsError):
        posenc.convert(
            source, output, pairing="interleaved", layout=layout, progress=written.append
        )
    assert output.read_bytes() == b"mine"
    assert written == []  # refused before hours of work, not after
    posenc.convert(source, output, pairing="interleaved", layout=layout, existing="replace")
    assert len(loaded(output)) == len(loaded(source))


def test_only_folders_of_conversions_are_replaced(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights_of(2, 2, 8), config_of(2, 2, 8, 8))
    layout = posenc.Projections(stored="half")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years")
    with pytest.raises(posenc.ArgumentError, match="a folder that a conversion wrote"):
        posenc.convert(source, mine, pairing="interleaved", layout=layout, existing="replace")
    with pytest.raises(FileExistsError):
        posenc.convert(source, mine, pairing="interleaved", layout=layout)
    assert (mine / "thesis.txt").read_text() == "years"
    for _ in range(2):
        posenc.convert(
            source, tmp_path / "b", pairing="interleaved", layout=layout, existing="replace"
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "mine"]


def test_metadata_are_kept_and_the_conversion_recorded(tmp_path: Path) -> None:
    source, layout = plain(tmp_path)
    target = tmp_path / "b.safetensors"
    posenc.convert(source, target, pairing="interleaved", layout=layout)
    with safe_open(target, framework="numpy") as opened:
        metadata = opened.metadata()
    assert metadata["format"] == "pt"
    record = json.loads(metadata["posenc.conversion"])
    assert record == {"posenc": posenc.__version__, "pairing": "interleaved"}


def test_other_files_of_a_folder(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights_of(2, 2, 8), config_of(2, 2, 8, 8), shards=2)
    (source / "tokenizer.json").write_text("{}")
    (source / "pytorch_model.bin").write_bytes(b"old weights")
    layout = posenc.Projections(stored="half")
    made = posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert made.files == {"tokenizer.json": "copied", "pytorch_model.bin": "left out"}
    assert (tmp_path / "b" / "tokenizer.json").read_text() == "{}"
    assert not (tmp_path / "b" / "pytorch_model.bin").exists()
    index = json.loads((tmp_path / "b" / "model.safetensors.index.json").read_text())
    old = json.loads((source / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == old["weight_map"]
    assert index["metadata"]["total_size"] == sum(a.nbytes for a in loaded(tmp_path / "b").values())
    assert (tmp_path / "b" / "config.json").read_bytes() == (source / "config.json").read_bytes()


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    source, layout = plain(tmp_path)
    made = posenc.convert(source, pairing="interleaved", layout=layout)
    assert made.probe is None
    assert len(made.tensors) == 4
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    assert json.loads(json.dumps(made.to_dict()))["pairing"] == ["half", "interleaved"]


# --- what is not understood -----------------------------------------------------------------------


def test_names_that_are_not_understood_are_listed(tmp_path: Path) -> None:
    weights = {
        "blocks.0.attention.mix_a.weight": np.zeros((16, 12), np.float32),
        "blocks.0.attention.mix_b.weight": np.zeros((16, 12), np.float32),
        "blocks.0.norm.weight": np.zeros(12, np.float32),
    }
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8, num_hidden_layers=1))
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError) as caught:
        posenc.convert(source, pairing="interleaved", layout=layout)
    told = str(caught.value)
    assert "blocks.0.attention.mix_a.weight [16, 12]" in told
    assert "blocks.0.attention.mix_b.weight [16, 12]" in told
    assert 'names={"q": PATTERN' in told
    named = layout._replace(names={"q": "*.mix_a.weight", "k": "*.mix_b.weight"})
    made = posenc.convert(source, pairing="interleaved", layout=named)
    assert len(made.tensors) == 2


MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "heads that do not fit": (
        {"num_attention_heads": 3, "head_dim": None, "num_key_value_heads": None},
        {},
        r"heads: 3 heads of 4 channels by the config, but 16 rows by .*q_proj.weight",
    ),
    "another width": ({"head_dim": 4}, {}, r"2 heads of 4 channels by the config, but 16 rows"),
    "keys that do not fit": (
        {"num_key_value_heads": 1},
        {},
        r"1 heads of keys of 8 channels by the config, but 16 rows by .*k_proj.weight",
    ),
    "a number of heads that is none": (
        {"num_attention_heads": 2.5, "head_dim": 8},
        {},
        r"num_attention_heads: expected a positive integer, got 2.5",
    ),
    "no heads of keys": (
        {"num_key_value_heads": 0},
        {},
        r"num_key_value_heads: expected a positive integer, got 0",
    ),
    "no heads": ({"num_attention_heads": None}, {}, r"the number of heads .*, got none of them"),
    "no pairing": ({}, {"stored": None}, r"the config leaves open: .*pairing"),
    "already so": ({}, {"stored": "interleaved"}, r"got interleaved, which it is already"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tmp_path: Path, name: str) -> None:
    changed, said, message = MISTAKES[name]
    config = {**config_of(2, 2, 8, 8), **changed}
    config = {key: value for key, value in config.items() if value is not None}
    source = folder_of(tmp_path / "a", weights_of(2, 2, 8), config)
    layout = posenc.Projections(**{"stored": "half", **said})
    with pytest.raises(posenc.DataError, match=message):
        posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=layout)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_odd_head(tmp_path: Path) -> None:
    weights = {f"layers.0.attn.{n}_proj.weight": np.zeros((14, 12), np.float32) for n in "qk"}
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 7, 7))
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError, match=r"heads of at least 8 channels, which turn"):
        posenc.convert(source, pairing="interleaved", layout=layout)


def test_a_config_that_is_missing(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights_of(2, 2, 8))
    with pytest.raises(posenc.DataError, match=r"a config beside it, got none.*Projections\("):
        posenc.convert(source, pairing="interleaved")


def test_blocks_of_scales_are_refused(tmp_path: Path) -> None:
    weights = weights_of(2, 2, 8)
    name = "model.layers.0.self_attn.q_proj.weight_scale_inv"
    weights[name] = np.ones((1, 1), np.float32)
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8))
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError, match=r"scaled in blocks cannot be reordered"):
        posenc.convert(source, pairing="interleaved", layout=layout)


def test_two_parts_that_turn_are_told_apart(tmp_path: Path) -> None:
    part = config_of(2, 2, 8, 8)
    config = {"text_config": part, "vision_config": {**part, "head_dim": 6}}
    weights = {f"language.{k}": v for k, v in weights_of(2, 2, 8).items()}
    weights |= {f"vision.{k}": v for k, v in weights_of(2, 2, 6).items()}
    source = folder_of(tmp_path / "a", weights, config)
    layout = posenc.Projections(stored="half")
    with pytest.raises(posenc.DataError) as caught:
        posenc.convert(source, pairing="interleaved", layout=layout)
    assert "one part that turns, got text, vision" in str(caught.value)
    assert "--part text --only 'language.model.layers.*'" in str(caught.value)
    one = layout._replace(part="vision", only="vision.*")
    made = posenc.convert(source, pairing="interleaved", layout=one)
    assert len(made.tensors) == 4
    assert all(name.startswith("vision.") for name in made.tensors)
    # The record is of that part: it says nothing of the other, and is believed of the same.
    posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=one)
    text = posenc.Projections(part="text", only="language.*")
    with pytest.raises(posenc.DataError, match=r"of parts: vision.\* interleaved"):
        posenc.convert(tmp_path / "b", pairing="interleaved", layout=text)
    text = text._replace(stored="half")
    posenc.convert(tmp_path / "b", tmp_path / "c", pairing="interleaved", layout=text)
    for number, only in enumerate(("vision.*", "language.*")):
        layout = posenc.Projections(part=only.split(".", maxsplit=1)[0], only=only)
        layout = layout._replace(part={"vision": "vision", "language": "text"}[layout.part or ""])
        target = tmp_path / f"back{number}"
        posenc.convert(tmp_path / ("c", "back0")[number], target, pairing="half", layout=layout)
    assert_same(loaded(tmp_path / "back1"), weights)


def test_nothing_to_change(tmp_path: Path) -> None:
    source, _ = plain(tmp_path)
    with pytest.raises(posenc.ArgumentError, match="something to change"):
        posenc.convert(source)
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'interleaved'"):
        posenc.convert(source, pairing="interleavd")  # type: ignore[arg-type]


@pytest.mark.costly
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_file_that_lies_is_an_error_of_ours(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path, target = folder / "lies.safetensors", folder / "new.safetensors"
    save_file(weights_of(2, 2, 8), path, metadata={"format": "pt"})
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, header - 1))
        content[place] = data.draw(st.integers(0, 255) | st.sampled_from(b'0123456789,:{}[]"-eq.'))
    path.write_bytes(content[: data.draw(st.integers(0, len(content))) or None])
    layout = posenc.Projections(heads=2, rope=posenc.RoPE(8, pairing="half"))
    try:
        posenc.convert(path, target, pairing="interleaved", layout=layout)
    except posenc.PosencError:
        assert not target.exists()
    target.unlink(missing_ok=True)


# --- indexes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda places: places.update(ghost="model-00001-of-00002.safetensors"), "ghost"),
        (lambda places: places.pop("model.embed_tokens.weight"), "embed_tokens"),
        (lambda places: places.update(out="../a.safetensors"), "beside the index"),
        (lambda places: places.update(out="/etc/passwd"), "beside the index"),
        (lambda places: places.update(out="a.bin"), "no 'a.bin'"),
        (lambda places: places.clear(), "an empty one"),
        (lambda places: places.update(gone="gone.safetensors"), "no 'gone.safetensors'"),
        (lambda places: places.update(number=7), "weight_map"),
    ],
)
def test_an_index_that_lies(tmp_path: Path, change: Any, message: str) -> None:
    source = folder_of(tmp_path / "a", weights_of(2, 2, 8), config_of(2, 2, 8, 8), shards=2)
    path = source / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))
    with pytest.raises(posenc.DataError, match=message):
        posenc.convert(source, pairing="interleaved", layout=posenc.Projections(stored="half"))


# --- tables ---------------------------------------------------------------------------------------


def test_a_computed_table(tmp_path: Path) -> None:
    old = posenc.Sinusoidal(8, order="sin_cos")
    new = posenc.Sinusoidal(8)
    name = "embed_positions.weight"
    save_file({name: posenc.table(old, 20), "x": np.ones(3)}, tmp_path / "a.safetensors")
    target = tmp_path / "b.safetensors"
    made = posenc.convert(tmp_path / "a.safetensors", target, tables={name: (old, new)})
    assert made.pairing is None
    assert loaded(target)[name].tobytes() == posenc.table(new, 20).tobytes()
    back = tmp_path / "c.safetensors"
    posenc.convert(target, back, tables={name: (new, old)})
    assert_same(loaded(back), loaded(tmp_path / "a.safetensors"))


def test_a_table_that_is_not_what_is_claimed(tmp_path: Path) -> None:
    name = "embed_positions.weight"
    save_file({name: posenc.table(posenc.Sinusoidal(8), 20)}, tmp_path / "a.safetensors")
    claimed = posenc.Sinusoidal(8, order="sin_cos")
    with pytest.raises(posenc.DataError, match="the table that the source spec computes"):
        posenc.convert(tmp_path / "a.safetensors", tables={name: (claimed, posenc.Sinusoidal(8))})


LEARNED: dict[str, tuple[Any, Any, str]] = {
    "reserved rows taken away": (
        posenc.Learned(4, length=8, start=2, pad=1),
        posenc.Learned(4, length=8),
        "cubic",
    ),
    "reserved rows added": (
        posenc.Learned(4, length=10),
        posenc.Learned(4, length=10, start=2, pad=1),
        "cubic",
    ),
    "extended": (
        posenc.Learned(4, length=8, start=2, pad=1),
        posenc.Learned(4, length=20, start=2, pad=1),
        "tile",
    ),
    "resized": (posenc.Learned(4, length=10), posenc.Learned(4, length=16), "linear"),
    "a grid with a prefix": (
        posenc.Learned(4, length=(3, 3), lookup=posenc.Lookup(prefix=1)),
        posenc.Learned(4, length=(2, 5), lookup=posenc.Lookup(prefix=1)),
        "cubic_antialias",
    ),
    "both": (
        posenc.Learned(4, length=8, start=2, pad=1),
        posenc.Learned(4, length=12),
        "sinusoidal",
    ),
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_learned_tables(tmp_path: Path, name: str, dtype: str) -> None:
    old, new, how = LEARNED[name]
    weight = np.random.default_rng(0).standard_normal((10, 4)).astype("float32")
    header = headers.safetensors_header({"wpe.weight": (dtype, (10, 4))})
    stored = "<u2" if dtype == "bfloat16" else "<f4"
    weight = files.decode(files.encode(weight, dtype, stored), dtype)
    source = tmp_path / "a.safetensors"
    source.write_bytes(header + files.encode(weight, dtype, stored).tobytes())
    target = tmp_path / "b.safetensors"
    posenc.convert(source, target, tables={"wpe.weight": (old, new)}, method=how)
    tensor = files.read_layout(target).pick("wpe.weight")
    rows = new.parameters()["weight"].shape[0]
    assert (tensor.dtype, tensor.shape) == (dtype, (rows, 4))
    with target.open("rb", buffering=0) as file:
        data = files.read(file, tensor.begin, 4 * rows, stored)
    got = files.decode(data, dtype).reshape(rows, 4)
    # The engine of resizing is tested by itself; here, which rows reach it and where they go.
    if old.lengths == new.lengths:
        body = weight[old.start :]
    elif how in ("tile", "sinusoidal"):
        longer = new.replace(start=old.start, pad=old.pad)
        body = posenc.resize(old, {"weight": weight}, longer.length, how=how)[1]["weight"]
        body = body[old.start :]
    else:
        body = posenc.resize(old, {"weight": weight}, new.length, method=how)[1]["weight"]
    if new.start:
        front = weight[:2].copy() if old.start else np.zeros((2, 4), np.float32)
        body = np.concatenate([front, body[-(rows - 2) :]])
    want = files.decode(files.encode(body.astype("float32"), dtype, stored), dtype)
    assert got.tobytes() == want.tobytes()


def test_the_pad_row_moves_with_its_number(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((10, 4)).astype("float32")
    save_file({"wpe.weight": weight}, tmp_path / "a.safetensors")
    old = posenc.Learned(4, length=9, start=1, pad=0)
    new = posenc.Learned(4, length=9, start=3, pad=1)
    target = tmp_path / "b.safetensors"
    posenc.convert(tmp_path / "a.safetensors", target, tables={"wpe.weight": (old, new)})
    found = loaded(target)["wpe.weight"]
    assert found[1].tobytes() == weight[0].tobytes()
    assert found[3:].tobytes() == weight[1:].tobytes()
    assert not found[0].any()


def test_a_longer_table_is_said_in_the_config(tmp_path: Path) -> None:
    config = {"model_type": "bert", "max_position_embeddings": 10, "hidden_size": 4}
    weights = {"embeddings.position_embeddings.weight": np.ones((10, 4), np.float32)}
    source = folder_of(tmp_path / "a", weights, config)
    specs = (posenc.Learned(4, length=10), posenc.Learned(4, length=30))
    made = posenc.convert(
        source,
        tmp_path / "b",
        tables={"embeddings.position_embeddings.weight": specs},
        method="linear",
    )
    assert made.config == ("max_position_embeddings=10 becomes 30",)
    found = json.loads((tmp_path / "b" / "config.json").read_text())
    assert found["max_position_embeddings"] == 30


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ((posenc.Learned(4, length=9), posenc.Learned(4, length=10)), r"\[9, 4\], as the source"),
        ((posenc.Learned(5, length=10), posenc.Learned(4, length=10)), r"\[10, 5\]"),
        ((posenc.Learned(4, length=10), posenc.Sinusoidal(4)), "two learned tables"),
        ((posenc.Learned(4, length=10), "bert"), "two tables"),
        ((posenc.Sinusoidal(4), posenc.Sinusoidal(4, base=100)), "same sines"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, specs: Any, message: str) -> None:
    save_file({"wpe.weight": np.ones((10, 4), np.float32)}, tmp_path / "a.safetensors")
    with pytest.raises(posenc.PosencError, match=message):
        posenc.convert(tmp_path / "a.safetensors", tables={"wpe.weight": specs})


# --- dialects -------------------------------------------------------------------------------------


def test_dialects_of_the_config(tmp_path: Path) -> None:
    scaling = {"rope_type": "linear", "factor": 2.0}
    config = config_of(2, 2, 8, 8, model_type="llama", rope_scaling=scaling)
    del config["partial_rotary_factor"]
    weights = weights_of(2, 2, 8)
    source = folder_of(tmp_path / "a", weights, config)
    made = posenc.convert(source, tmp_path / "b", dialect="hf5")
    found = json.loads((tmp_path / "b" / "config.json").read_text())
    assert found["rope_parameters"] == {**scaling, "rope_theta": 10000.0}
    assert "rope_scaling" not in found
    assert_same(loaded(tmp_path / "b"), weights)
    assert any("pairing" in sentence for sentence in made.config)

"""Converted checkpoints in the models of transformers: the same logits under the other pairing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.detect.facts.weights.projections import order_of
from tests.detect.checkpoints import loaded

torch = pytest.importorskip("torch", reason="runs the models")
transformers = pytest.importorskip("transformers", reason="has the models")

TINY = {
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
# Family -> what is particular about it: grouped keys, biases, gains, a part that turns, packing.
HALF: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {"num_key_value_heads": 2}),
    "qwen2": ("Qwen2ForCausalLM", {"num_key_value_heads": 1}),
    "qwen3": ("Qwen3ForCausalLM", {"num_key_value_heads": 2, "head_dim": 12}),
    "olmo2": ("Olmo2ForCausalLM", {"num_key_value_heads": 2}),
    "phi": ("PhiForCausalLM", {"partial_rotary_factor": 0.5, "qk_layernorm": True}),
    "stablelm": (
        "StableLmForCausalLM",
        {
            "num_key_value_heads": 2,
            "qk_layernorm": True,
            "use_qkv_bias": True,
            "partial_rotary_factor": 0.5,
        },
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", {"rotary_pct": 0.5}),
    "falcon": (
        "FalconForCausalLM",
        {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False},
    ),
    "falcon, one head of keys": (
        "FalconForCausalLM",
        {"multi_query": True, "new_decoder_architecture": False, "alibi": False},
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        {"global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        {
            "num_key_value_heads": 2,
            "head_dim": 16,
            "num_experts": 0,
            "layer_types": ["full_attention", "full_attention"],
        },
    ),
    "phi3": ("Phi3ForCausalLM", {"num_key_value_heads": 2}),
    "persimmon": ("PersimmonForCausalLM", {"qk_layernorm": True}),
}


def saved(folder: Path, cls: str, family: str, **more: Any) -> Any:
    """A tiny random model, in float64, and its folder."""
    torch.manual_seed(0)
    auto = transformers.AutoConfig.for_model(family, **{**TINY, **more})
    model = getattr(transformers, cls)(auto).double().eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim == 1:  # gains of 1 and biases of 0 would not be missed
                value.add_(torch.randn_like(value) * 0.3)
            else:
                value.mul_(4 if any(w in name for w in ("proj", "query", "qkv")) else 1)
    model.save_pretrained(folder)
    return model


def logits(model: Any) -> np.ndarray:
    tokens = torch.arange(3, 23)[None] * 7 % 37 + 3
    with torch.no_grad():
        return np.asarray(model(tokens).logits.numpy())


def interleaved(q: Any, k: Any, cos: Any, sin: Any, *rest: Any, unsqueeze_dim: int = 1) -> Any:
    """The rotation of neighbouring channels, in place of a model's own."""
    half = cos.shape[-1] // 2
    cos, sin = (t[..., :half].unsqueeze(unsqueeze_dim) for t in (cos, sin))

    def turned(x: Any) -> Any:
        part, rest = x[..., : 2 * half], x[..., 2 * half :]
        a, b = part[..., 0::2], part[..., 1::2]
        part = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        return torch.cat([part, rest], dim=-1)

    return turned(q), turned(k)


@pytest.mark.costly
@pytest.mark.parametrize("family", HALF)
def test_half_models_run_interleaved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    cls, more = HALF[family]
    model = saved(tmp_path / "half", cls, family.partition(",")[0], **more)
    want = logits(model)
    made = posenc.convert(tmp_path / "half", tmp_path / "new", pairing="interleaved")
    assert made.pairing == ("half", "interleaved")
    other = getattr(transformers, cls).from_pretrained(tmp_path / "new", dtype=torch.float64)
    wrong = np.abs(logits(other.eval()) - want).max()
    home = importlib.import_module(type(model).__module__)
    monkeypatch.setattr(home, "apply_rotary_pos_emb", interleaved)
    right = np.abs(logits(other) - want).max()
    assert right < 1e-6 < 1e-4 < wrong, (right, wrong)
    posenc.convert(tmp_path / "new", tmp_path / "back", pairing="half")
    old, back = loaded(tmp_path / "half"), loaded(tmp_path / "back")
    assert all(old[name].tobytes() == back[name].tobytes() for name in old)


def test_another_model_of_the_other_pairing(tmp_path: Path) -> None:
    """ERNIE 4.5 is Llama with neighbours as pairs, down to the names of its weights."""
    model = saved(tmp_path / "half", "LlamaForCausalLM", "llama", num_key_value_heads=2)
    posenc.convert(tmp_path / "half", tmp_path / "new", pairing="interleaved")
    config = transformers.AutoConfig.for_model(
        "ernie4_5",
        **{**TINY, "num_key_value_heads": 2, "rope_parameters": model.config.rope_parameters},
        use_bias=False,
        rms_norm_eps=model.config.rms_norm_eps,
        tie_word_embeddings=False,
        head_dim=8,
    )
    other = transformers.Ernie4_5ForCausalLM(config).double().eval()
    state = {k: torch.from_numpy(v.copy()) for k, v in loaded(tmp_path / "new").items()}
    other.load_state_dict(state, strict=True)
    assert np.abs(logits(other) - logits(model)).max() < 1e-6


@pytest.mark.parametrize("stored", [True, False])
def test_a_family_whose_config_says_its_pairing(tmp_path: Path, stored: bool) -> None:
    """The result needs no other code: the key of the config changes with the weights."""
    more = {
        "num_key_value_heads": 4,
        "q_lora_rank": 6,
        "kv_lora_rank": 5,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4,
        "v_head_dim": 7,
        "rope_interleave": stored,
        "first_k_dense_replace": 2,
    }
    model = saved(tmp_path / "a", "DeepseekV3ForCausalLM", "deepseek_v3", **more)
    target = "half" if stored else "interleaved"
    made = posenc.convert(tmp_path / "a", tmp_path / "b", pairing=target)  # type: ignore[arg-type]
    assert made.config == (f"rope_interleave becomes {str(not stored).lower()}",)
    other = type(model).from_pretrained(tmp_path / "b", dtype=torch.float64).eval()
    assert np.abs(logits(other) - logits(model)).max() < 1e-6


@pytest.mark.parametrize("family", ["gptj", "codegen"])
def test_interleaved_models_run_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "rotary_dim": 4}
    cls = {"gptj": "GPTJForCausalLM", "codegen": "CodeGenForCausalLM"}[family]
    model = saved(tmp_path / "a", cls, family, **sizes)
    want = logits(model)
    posenc.convert(tmp_path / "a", tmp_path / "b", pairing="half")
    other = type(model).from_pretrained(tmp_path / "b", dtype=torch.float64).eval()

    def half(x: Any, sin: Any, cos: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        cos, sin = cos[:, :, None, :], sin[:, :, None, :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    assert np.abs(logits(other) - want).max() > 1e-4
    home = importlib.import_module(type(model).__module__)
    monkeypatch.setattr(home, "apply_rotary_pos_emb", half)
    assert np.abs(logits(other) - want).max() < 1e-6


def test_the_permutation_of_published_conversions() -> None:
    """view(heads, dim / 2, 2).transpose, the script by which Llama came to be stored in halves."""
    rows, heads = np.arange(48), 4
    theirs = rows.reshape(heads, 6, 2).swapaxes(1, 2).reshape(-1)
    one = order_of(posenc.Pairing("interleaved"), posenc.Pairing("half"), 12, 12)
    ours = np.concatenate([head * 12 + one for head in range(heads)])
    assert (ours == theirs).all()

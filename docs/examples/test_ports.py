"""Rotations of three engines, held to what a config or a spec says."""

import mlx.core as mx
import nanochat
from mlx_lm.models.rope_utils import Llama3RoPE
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

import posenc

SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALING["original_max_position_embeddings"] = 8192
LLAMA = {"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0, "rope_scaling": SCALING}


def test_mlx_lm_scales_as_the_config_says(assert_contract):
    rope = Llama3RoPE(64, base=500000.0, scaling_config=SCALING)

    def rotate(x, positions):  # a call of it has one offset
        tokens = [rope(x[..., i : i + 1, :], offset=int(p)) for i, p in enumerate(positions)]
        return mx.concatenate(tokens, axis=-2)

    assert_contract(rotate, posenc.golden(LLAMA), library="mlx")


def test_rotary_embedding_torch_pairs_neighbours(assert_contract):
    rope = RotaryEmbedding(64)

    def rotate(x, positions):
        return apply_rotary_emb(rope(positions), x)

    assert_contract(rotate, posenc.golden(posenc.RoPE(64, pairing="interleaved")))


def test_nanochat_turns_backward(assert_contract):
    pairing = posenc.Pairing("half", direction="backward")

    def rotate(x, positions):
        cos, sin = nanochat.tables(int(positions.max()) + 1, 64)
        return nanochat.apply_rotary_emb(x, cos[0, positions, 0], sin[0, positions, 0])

    assert_contract(rotate, posenc.golden(posenc.RoPE(64, pairing=pairing)))

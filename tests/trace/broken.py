"""Broken models, each with one thing that is wrong in one layer, or in some, as people write it.

A row is a healthy model, what breaks it, and what is right to say of it. Nothing here knows how a
trace is made: instances are changed by other functions, hooks, buffers and attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.trace import models as m
from tests.trace.breaks import angles, families, scores, turns
from tests.trace.hand_written import complex_gpt, halves_gpt
from tests.trace.models import Build, Case

BOTH, QUERY, KEY = ("query", "key"), ("query",), ("key",)
SCORES, MASK = ("scores",), ("mask",)
PATHS = ("eager", "sdpa")
EAGER = ("eager",)
SIGN = "frequencies|pairing.direction"
PAIRING, HALF = "pairing|pairing.order", "dtype|frequencies|positions"


class Right(NamedTuple):
    """What is right to say: layers, tensors, a field; heads () for all; None where it is open."""

    field: str | None  # several that are as right stand with | between them
    tensors: tuple[str, ...] | None = BOTH
    layers: tuple[int, ...] | None = (1,)
    heads: tuple[int, ...] | None = ()
    pairs: tuple[int, ...] | None = None
    tokens: tuple[int, ...] | None = None
    says: str = ""  # what a finding has to name


class Row(NamedTuple):
    """One broken model, and its healthy twin."""

    name: str
    build: Build
    damage: Callable[[Any], None]
    right: Right
    paths: tuple[str, ...] = PATHS
    harmless: bool = False  # the outputs stay the same

    def healthy(self, attention: str) -> Case:
        return self.build(attention)

    def broken(self, attention: str) -> Case:
        case = self.build(attention)
        self.damage(case.model)
        return case

    @property
    def family(self) -> str:
        return self.name.partition(":")[0]


LLAMA3 = {
    "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 512,
    }
}  # fmt: skip
NEOX = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
}
QUARTER = {
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25
    }
}  # fmt: skip
YARN = {
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
        "original_max_position_embeddings": 1024,
    }
}  # fmt: skip
LONGROPE = {
    "original_max_position_embeddings": 1024,
    "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 10000.0,
        "short_factor": [1.0 + 0.02 * j for j in range(8)],
        "long_factor": [1.0 + 1.5 * j for j in range(8)],
        "original_max_position_embeddings": 1024,
    },
}  # fmt: skip
MISTRAL = {"sliding_window": 8}
GEMMA2 = {"sliding_window": 8, "query_pre_attn_scalar": 40}
GEMMA3 = {
    "config": "Gemma3Text", "num_hidden_layers": 6, "sliding_window": 64,
    "query_pre_attn_scalar": 16,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
    },
}  # fmt: skip
MROPE = {
    "config": "Qwen2VLText",
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]
    },
}  # fmt: skip
FALCON = {"head_dim": None, "multi_query": True, "new_decoder_architecture": False, "alibi": False}
SMOL = {"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0], "use_sliding_window": False}

llama, llama3 = m.text("Llama"), m.text("Llama", **LLAMA3)
qwen2, qwen3 = m.text("Qwen2"), m.text("Qwen3")
mistral = m.text("Mistral", **MISTRAL)
gemma2, gemma3 = m.text("Gemma2", **GEMMA2), m.text("Gemma3", **GEMMA3)
neox, neox_quarter = m.text("GPTNeoX", **NEOX), m.text("GPTNeoX", **QUARTER)
phi = m.text("Phi", **NEOX)
falcon = m.text("Falcon", **FALCON)
cohere, olmo2 = m.text("Cohere"), m.text("Olmo2")
deepseek = m.text("DeepseekV3", **m.DEEPSEEK)
llama4 = m.text("Llama4", config="Llama4Text", **m.LLAMA4)
smol = m.text("SmolLM3", **SMOL)
gptj, bloom, mpt = m.own("GPTJ", m.GPTJ), m.own("Bloom", m.BLOOM), m.own("Mpt", m.MPT)
t5 = m.own("T5", m.T5, "EncoderModel")
esm = m.text("Esm", "ForMaskedLM", position_embedding_type="rotary", calls=m.plain, mask_token_id=3)
qwen2_vl = m.text("Qwen2VL", "TextModel", calls=m.image_and_text, **MROPE)

ROWS: tuple[Row, ...] = (
    Row("Llama: base", llama, angles.base, Right("base")),
    Row("Llama: scaling left out", llama3, angles.scaling_left_out, Right("scaling")),
    Row("Llama: rows of padding counted for all", m.text("Llama", calls=m.padded), angles.first_row,
        Right("positions")),
    Row("Llama: padding counted", m.text("Llama", calls=m.padded), angles.padding_counted,
        Right("positions", None), harmless=True),
    Row("Llama: positions clamped", llama, angles.clamped,
        Right("positions", tokens=(*range(16, 24),))),
    Row("Llama: keys pooled", llama, scores.keys_pooled, Right(None, KEY)),
    Row("Llama: keys of other heads", llama, scores.heads_tiled, Right(None, None, heads=None)),
    Row("Llama: the next token is seen", llama, scores.next_seen, Right(None, MASK)),
    Row("Llama: value turned", llama, scores.value_turned, Right(None, ("value",))),
    Row("Llama: positions begin again in a step", m.text("Llama", calls=m.cached),
        angles.begins_again,
        Right("positions|kind", None, (4,))),
    Row("Qwen2: offset of the query", qwen2, angles.query_offset, Right("positions", QUERY)),
    Row("Qwen2: key not turned", qwen2, turns.key_not_turned, Right(None, KEY)),
    Row("Qwen2: heads exchanged", qwen2, scores.heads_exchanged, Right(None, QUERY, heads=(0, 3))),
    Row("Qwen2: both counted from one", qwen2, angles.both_offset, Right("positions", None),
        harmless=True),
    Row("Qwen3: sign", qwen3, turns.sign, Right(SIGN, says="backward")),
    Row("Qwen3: factor of YaRN left out", m.text("Qwen3", **YARN), angles.factor_left_out,
        Right("scale|magnitude.attention_factor", None)),
    Row("Qwen3: not turned", qwen3, turns.not_turned(2), Right(None, layers=(2,))),
    Row("Qwen3: norm after the turn", m.uneven(qwen3), turns.norm_after,
        Right(None, None)),
    Row("Llama: a converted layer", llama, turns.converted, Right(PAIRING, None), harmless=True),
    Row("Mistral: window left out", mistral, scores.window(None), Right("window", MASK)),
    Row("Mistral: window of half the size", mistral, scores.window(4), Right("window", MASK)),
    Row("Mistral: pairing", mistral, turns.interleaved, Right(PAIRING)),
    Row("Gemma 2: scale", gemma2, scores.scale_of_width, Right("scale", SCORES), EAGER),
    Row("Gemma 2: cap left out", m.text("Gemma2", **{**GEMMA2, "attn_logit_softcapping": 2.0}),
        scores.cap_left_out, Right(None, SCORES), EAGER),
    Row("Gemma 2: window in a full layer", gemma2, scores.window(8), Right("window", MASK),
        EAGER),
    Row("Gemma 3: base of full layers in all", gemma3, angles.base_everywhere,
        Right("base", layers=(0, 1, 2, 3, 4))),
    Row("Gemma 3: scaling left out", gemma3, angles.linear_left_out, Right("scaling", layers=(5,))),
    Row("GPT-NeoX: width", neox_quarter, angles.whole_width, Right(None)),
    Row("GPT-NeoX: one pair", neox, angles.one_pair, Right(None, pairs=(2,))),
    Row("GPT-J: pairing", gptj, turns.halves_of_gptj, Right(PAIRING), EAGER),
    Row("GPT-J: table in half precision", gptj, angles.half_table,
        Right(HALF, says="bfloat16"), EAGER),
    Row("Phi: turned twice", phi, turns.turned_twice, Right(None)),
    Row("Phi: key turned back", phi, turns.key_backward, Right(SIGN, KEY, says="backward")),
    Row("Phi-3: long factors", m.text("Phi3", **LONGROPE), angles.long_factors, Right("scaling")),
    Row("Phi: the other channels", phi, turns.last_channels, Right(None)),
    Row("Falcon: one head", falcon, turns.one_head, Right(None, QUERY, heads=(3,))),
    Row("Falcon: positions in half precision", m.text("Falcon", calls=m.far, **FALCON),
        angles.half_positions, Right(HALF, says="bfloat16")),
    Row("Cohere: pairing", cohere, turns.halves_of_cohere, Right(PAIRING)),
    Row("Cohere: sign of the query", cohere, turns.query_backward,
        Right(SIGN, QUERY, says="backward")),
    Row("OLMo 2: cached keys not turned", m.text("Olmo2", calls=m.cached), angles.cached_unturned,
        Right(None, KEY, (4,))),
    Row("OLMo 2: output turned", olmo2, scores.output_turned, Right(None, ("output",))),
    Row("DeepSeek V3: base", deepseek, angles.base_of_ramp, Right("base")),
    Row("DeepSeek V3: pairing", deepseek, turns.halves_of_deepseek, Right(PAIRING)),
    Row("DeepSeek V3: mscale left out", deepseek, scores.scale_of_width_mla,
        Right("scale", SCORES)),
    Row("DeepSeek V3: key not turned", deepseek, turns.key_not_turned_mla, Right(None, KEY)),
    Row("Llama 4: positions in a layer without", llama4, scores.turns_at(3, True),
        Right(None, layers=(3,))),
    Row("Llama 4: a layer that has none", llama4, scores.turns_at(1, False), Right(None)),
    Row("SmolLM3: positions in a layer without", smol, scores.turns_at(3, 1),
        Right(None, layers=(3,))),
    Row("BLOOM: slopes of six heads", bloom, scores.plain_slopes, Right(None, SCORES, heads=None),
        EAGER),
    Row("BLOOM: no bias", bloom, scores.no_bias, Right(None, SCORES), EAGER),
    Row("MPT: sign of the bias", mpt, scores.bias_backward, Right(None, SCORES), EAGER),
    Row("T5: one direction", t5, scores.one_direction, Right(None, SCORES, (0, 1))),
    Row("T5: scale", t5, scores.scale_of_t5, Right("scale", SCORES)),
    Row("ESM: turned twice", esm, turns.turned_twice, Right(None)),
    Row("ESM: half-precision angles", esm, angles.half_angles, Right(HALF, says="bfloat16")),
    Row("Qwen2-VL: sections", qwen2_vl, angles.sections, Right(None)),
    Row("Qwen2-VL: one position for three", qwen2_vl, angles.one_axis, Right("positions")),
    Row("Pixtral: rows and columns", m.pixtral, angles.rows_and_columns, Right(None)),
    Row("Qwen2-VL's vision: one head", m.qwen_vision, turns.one_head_of_vision,
        Right(None, KEY, heads=(2,))),
    Row("FLUX.1: base", m.flux, families.base_of_flux, Right("base"), ("sdpa",)),
    Row("FLUX.1: pairing", m.flux, families.halves_of_flux,
        Right(PAIRING, layers=(2,)), ("sdpa",)),
    Row("FLUX.1: one axis of three", m.flux, families.axis_left_out,
        Right(None, layers=(3,)), ("sdpa",)),
    Row("complex GPT: base", complex_gpt, families.base_of_complex, Right("base"), EAGER),
    Row("complex GPT: scale left out", complex_gpt, families.scale_left_out, Right("scale", SCORES),
        EAGER),
    Row("complex GPT: pairs exchanged", complex_gpt, families.pairs_exchanged,
        Right(None, pairs=(1, 2)), EAGER),
    Row("halves GPT: step begins again", halves_gpt, families.begins_again_in_halves,
        Right("positions|kind", None, (4,)), ("sdpa",)),
    Row("halves GPT: cosine and sine exchanged", halves_gpt, families.sine_first,
        Right(None, layers=(1, 4)),
        ("sdpa",)),
)  # fmt: skip

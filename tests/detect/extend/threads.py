"""What engines made of configs in public threads, and what their tables say of the same config.

Each row is a thread: its address, the engine, the config as far as the thread states it, and what
`posenc.diff(config, "engine:…")` has to say: the fields that differ from the config (none where
the engine follows it), or words of why nothing is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

QWEN2 = {"model_type": "qwen2", "head_dim": 128, "rope_theta": 1e6}
QWEN3_MOE = {"model_type": "qwen3_moe", "head_dim": 128, "rope_theta": 1e6}
LLAMA = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5}
GEMMA2 = {"model_type": "gemma2", "head_dim": 256, "rope_theta": 1e4}
MINISTRAL3 = {"model_type": "ministral3", "head_dim": 128, "rope_theta": 1e6}
PHI3 = {
    "model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "rope_theta": 1e4,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "head_dim": 64, "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 131072,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 1e4,
    "num_attention_heads": 8,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def yarn(factor: float, original: int, **more: Any) -> dict[str, Any]:
    """The dictionary of YaRN."""
    return {
        "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, **more
    }  # fmt: skip


class Row(NamedTuple):
    """A thread."""

    thread: str
    engine: str
    config: dict[str, Any]
    length: int
    scaling: dict[str, Any] | None = None
    differs: tuple[str, ...] = ()
    says: str = ""  # among the remarks, or why nothing is known
    known: bool = True


OPENAI = yarn(32.0, 4096, beta_fast=32.0, beta_slow=1.0, truncate=False, rope_theta=150_000.0)
V3 = yarn(40, 4096, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)
MISTRAL = yarn(16.0, 16384, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
FACTOR = ("magnitude.attention_factor",)

ROWS = (
    # Keys of the magnitude.
    Row("vllm-project/vllm#48351", "vllm", QWEN2, 65536, yarn(64.0, 4096, attention_factor=1.0)),
    Row("vllm-project/vllm#46280", "vllm", LLAMA, 65536, yarn(8.0, 8192, attention_factor=1.0)),
    Row("vllm-project/vllm#48621", "vllm", MINISTRAL3, 262144, MISTRAL),
    Row("vllm-project/vllm#48623", "vllm", QWEN2, 262144,
        yarn(16.0, 16384, mscale=1.0), says="mscale", known=False),
    Row("sgl-project/sglang#22711", "sglang", MINISTRAL3, 262144, MISTRAL),
    Row("sgl-project/sglang#33558", "sglang", LLAMA, 131072,
        yarn(128.0, 4096, attention_factor=1.0), FACTOR, "passes over attention_factor"),
    Row("ml-explore/mlx-lm#1507", "sglang", QWEN2, 65536,
        yarn(8.0, 8192, attention_factor=1.0), FACTOR, "passes over attention_factor"),
    Row("sgl-project/sglang#26203", "sglang", DEEPSEEK, 163840,
        {**V3, "apply_yarn_scaling": False}, says="apply_yarn_scaling", known=False),
    Row("ggml-org/llama.cpp#17945", "llama.cpp", DEEPSEEK, 163840, V3, says="mscale", known=False),
    # YaRN as it is documented.
    Row("vllm-project/vllm#10293", "vllm", QWEN2, 131072, yarn(4.0, 32768)),
    Row("vllm-project/vllm#4930", "vllm", QWEN2, 131072,
        {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
    Row("vllm-project/vllm-ascend#760", "vllm", {**QWEN2, "model_type": "qwen3"}, 131072,
        yarn(4.0, 32768)),
    Row("sgl-project/sglang#4145", "sglang", QWEN2, 131072, yarn(4.0, 32768)),
    Row("sgl-project/sglang#2108", "sglang", QWEN2, 131072, yarn(4.0, 32768)),
    Row("ggml-org/llama.cpp#10698", "llama.cpp", QWEN2, 131072, yarn(4.0, 32768)),
    Row("ggml-org/llama.cpp#13322", "llama.cpp", QWEN3_MOE, 131072, yarn(4.0, 32768)),
    Row("ollama/ollama#8493", "llama.cpp", QWEN2, 131072, yarn(4.0, 32768)),
    Row("vllm-project/vllm#1264", "vllm", {**LLAMA, "rope_theta": 1e4}, 65536,
        yarn(16.0, 4096, finetuned=True), says="finetuned", known=False),
    # Bounds that are not rounded.
    Row("vllm-project/vllm#27722", "vllm", GPT_OSS, 131072, OPENAI),
    Row("vllm-project/vllm#28244", "vllm", GPT_OSS, 131072, OPENAI),
    Row("huggingface/transformers#42189", "llama.cpp", GPT_OSS, 131072, OPENAI,
        ("scaling.rounding",), "passes over"),
    Row("ggml-org/llama.cpp#18013", "llama.cpp", QWEN2, 131072, yarn(4.0, 32768, truncate=False),
        ("scaling.rounding",), "passes over truncate"),
    # Llama 3.
    Row("vllm-project/vllm#9481", "vllm", LLAMA, 131072, LLAMA3),
    Row("vllm-project/vllm#6553", "vllm", LLAMA, 131072, LLAMA3),
    Row("ggml-org/llama.cpp#8676", "llama.cpp", LLAMA, 131072, LLAMA3),
    Row("ggml-org/llama.cpp#8676", "llama.cpp", QWEN2, 131072, LLAMA3, ("scaling",),
        "it makes default of llama3"),
    Row("NVIDIA/nim-deploy#60", "vllm", LLAMA, 131072, {"rope_type": "extended", "factor": 8.0},
        says="extended", known=False),
    Row("vllm-project/vllm#6689", "vllm", LLAMA, 131072, {"rope_type": "extended", "factor": 8.0},
        says="extended", known=False),
    # Dynamic NTK.
    Row("vllm-project/vllm#910", "vllm", LLAMA, 8192, {"rope_type": "dynamic", "factor": 8.0},
        ("scaling",), "it makes default of dynamic"),
    Row("vllm-project/vllm#10537", "vllm", GEMMA2, 8192, {"rope_type": "dynamic", "factor": 8.0},
        ("scaling",), "it makes default of dynamic"),
    Row("ggml-org/llama.cpp#8361", "llama.cpp", LLAMA, 4096,
        {"rope_type": "dynamic", "factor": 4.0}, ("scaling",), "it makes default of dynamic"),
    # Linear, and the base.
    Row("ggml-org/llama.cpp#2772", "llama.cpp", {**LLAMA, "rope_theta": 1e4}, 16384,
        {"type": "linear", "factor": 4.0}),
    Row("ggml-org/llama.cpp#2773", "llama.cpp", {**LLAMA, "rope_theta": 1e6}, 16384),
    Row("vllm-project/vllm#9490", "vllm", {**LLAMA, "rope_theta": 5e6}, 8192),
    # DeepSeek, whose rules are rewritten.
    Row("vllm-project/vllm#4650", "vllm", {**DEEPSEEK, "model_type": "deepseek_v2"}, 163840,
        yarn(40, 4096, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=0.707)),
    Row("vllm-project/vllm#33501", "vllm", DEEPSEEK, 4096),
    Row("vllm-project/vllm#53634", "vllm", DEEPSEEK, 1_048_576,
        {**yarn(32, 32768), "rope_type": "deepseek_yarn"}, says="deepseek_yarn", known=False),
    Row("deepspeedai/DeepSpeed#8341", "vllm", DEEPSEEK, 131072, LLAMA3, ("scaling",),
        "it makes yarn of llama3"),
    # The share of the channels.
    Row("vllm-project/vllm#29966", "vllm", {"model_type": "glm4", "head_dim": 128,
        "rope_theta": 1e4, "partial_rotary_factor": 0.5}, 131072),
    Row("vllm-project/vllm#12718", "vllm", {**PHI3, "partial_rotary_factor": 0.75}, 4096),
    # Types that no table has.
    Row("vllm-project/vllm#41185", "vllm", {"model_type": "bailing_moe_linear", "head_dim": 128,
        "rope_theta": 1e4}, 4096, says="bailing_moe_linear", known=False),
    Row("vllm-project/vllm#18427", "vllm", {"model_type": "nemotron-nas", "hidden_size": 512,
        "num_attention_heads": 4, "rope_theta": 5e5}, 4096, says="nemotron-nas", known=False),
    Row("ggml-org/llama.cpp#8259", "llama.cpp", PHI3, 131072,
        {"rope_type": "longrope", "short_factor": [1.0] * 48, "long_factor": [4.0] * 48},
        says="longrope", known=False),
)  # fmt: skip
# Drafts: what the thread says becomes of an override, and words of the note.
DRAFTS = (
    ("vllm-project/vllm#58080", "vLLM", "puts --hf-overrides over the model alone"),
    (
        "vllm-project/vllm#58094",
        "vLLM",
        (
            "has no option for the draft, so write the rule "
            "into the draft's config.json: posenc extend DRAFT"
        ),
    ),
    ("vllm-project/speculators#574", "vLLM", "has its own config, which needs the same rule"),
    ("sgl-project/sglang#6783", "SGLang", "puts the override over the draft's config too"),
    ("NVIDIA-NeMo/Automodel#2399", "llama.cpp", "gives the options to the draft too"),
)

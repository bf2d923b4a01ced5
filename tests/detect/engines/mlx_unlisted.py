"""Families without a class in transformers, as small configs of what mlx-lm or mlx-vlm builds."""

from __future__ import annotations

from typing import Any

from tests.detect.engines.mlx_families import EXPERTS

BASE = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 4, "intermediate_size": 11008, "vocab_size": 32000, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192, "rope_theta": 5e5,
}  # fmt: skip
PLAIN = {key: value for key, value in BASE.items() if key != "rope_theta"}
EXPERT = {**EXPERTS, "moe_intermediate_size": 1408, "norm_topk_prob": True,
          "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
          "moe_layer_freq": 1}  # fmt: skip
LATENT = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
          "v_head_dim": 128, "num_key_value_heads": 32}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 8.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 1024}  # fmt: skip
# By package and model type, those whose rows were read in it.
LM: dict[str, dict[str, Any]] = {
    "Klear": {**BASE, **EXPERT, "num_experts": 8, "attention_bias": False, "mlp_only_layers": [],
              "tie_word_embeddings": False, "decoder_sparse_step": 1},
    "baichuan_m1": {**BASE, "conv_window": 2, "sliding_window": 4096, "sliding_window_layers": [1],
                    "num_swa_attention_heads": 32, "num_swa_key_value_heads": 8,
                    "tie_word_embeddings": False},
    "deepseek": {**BASE, **EXPERT, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "exaone": {**BASE, "num_layers": 4, "layer_norm_epsilon": 1e-5, "rope_scaling": LLAMA3},
    "iquestloopcoder": {**BASE, "head_dim": 128},
    "kimi_vl": {"text_config": {"model_type": "deepseek_v3", **BASE, **EXPERT, **LATENT},
                "vision_config": {"model_type": "moonvit"}},
    "lille-130m": {"n_embd": 640, "n_head": 10, "n_kv_heads": 2, "n_layer": 4, "block_size": 512,
                   "vocab_size": 32000, "rope_theta": 5e5, "layer_norm_eps": 1e-5},
    "nanbeige": {**BASE, "head_dim": 128},
    "openelm": {"head_dim": 64, "num_transformer_layers": 2, "model_dim": 1280, "vocab_size": 32000,
                "ffn_dim_divisor": 256, "num_query_heads": [12, 12], "num_kv_heads": [3, 3],
                "ffn_multipliers": [0.5, 1.0], "rope_freq_constant": 20000},
    "plamo": {**BASE, "n_shared_head": 8},
    "talkie": {**BASE, "head_dim": 128},
    "telechat3": {**BASE, "head_dim": 128, "mlp_bias": False, "attention_bias": False,
                  "tie_word_embeddings": False},
    "youtu_llm": {**BASE, **LATENT},
    "afm7": {"vocab_size": 32000, "hidden_dim": 2048, "num_layers": 4, "num_kv_reuse_layers": 2,
             "num_heads": 16, "num_kv_heads": 2, "rope_theta": 500000.0},
    "gear": {**BASE, "head_dim": 128, "rope_local_base_freq": 20000.0, "rope_scaling": LINEAR,
             "layer_types": ["conv_mixer", "sliding_attention", "full_attention", "conv_mixer"]},
    "hunyuan": {**BASE, "attention_bias": False, "moe_topk": 1, "num_experts": 2,
                "num_shared_expert": 1, "use_mixed_mlp_moe": False, "use_qk_norm": True,
                "use_cla": False, "rope_scaling": {"alpha": 1e3, "factor": 1.0, "type": "dynamic"}},
    "phi3small": {"hidden_size": 4096, "dense_attention_every_n_layers": 2, "gegelu_limit": 20.0,
                  "ff_intermediate_size": 14336, "num_hidden_layers": 4, "num_attention_heads": 32,
                  "layer_norm_epsilon": 1e-5, "vocab_size": 32064, "num_key_value_heads": 8,
                  "rope_embedding_base": 900000, "max_position_embeddings": 8192},
    "phi-msft": {"num_vocab": 51200, "model_dim": 2560, "num_heads": 32, "num_layers": 4,
                 "rotary_dim": 32, "n_embd": 2560, "n_head": 32},
    "plamo2": {**PLAIN, "num_key_value_heads": 4, "hidden_size_per_head": 128,
               "mamba_num_heads": 64},
    "plamo3": {**BASE, "head_dim": 128, "rope_local_theta": 20000.0, "sliding_window_pattern": 2,
               "window_size": 2048},
    "spark2_5": {**PLAIN, "head_dim": 128, "sliding_window": 512,
                 "layer_types": ["sliding_attention", "full_attention"] * 2,
                 "rope_parameters": {
                     "sliding_attention": {"rope_type": "default", "rope_theta": 1e4,
                                           "partial_rotary_factor": 1.0},
                     "full_attention": {"rope_type": "default", "rope_theta": 1e6,
                                        "partial_rotary_factor": 0.5}}},
    "xverse": BASE,
    "joyai_llm_flash": {**BASE, **EXPERT, **LATENT},
    "lfm2-vl": {"text_config": {
        "model_type": "lfm2", "hidden_size": 1024, "num_attention_heads": 16,
        "num_key_value_heads": 8, "num_hidden_layers": 4, "vocab_size": 65536, "rope_theta": 1e6,
        "max_position_embeddings": 4096, "norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3,
        "block_dim": 1024, "block_ff_dim": 4096, "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False,
        "full_attn_idxs": [1, 3], "layer_types": ["conv", "full_attention"] * 2}},
    "deepseek_v41": {"text_config": {
        "model_type": "deepseek_v41_text", "num_hidden_layers": 6, "head_dim": 512,
        "compress_ratios": [0, 0, 2, 2, 1, 1], "qk_rope_head_dim": 64, "num_attention_heads": 64,
        "hidden_size": 5120, "rope_theta": 10000, "compress_rope_theta": 160000,
        "max_position_embeddings": 1048576, "kv_source_layer_ids": [2, 4], "index_n_heads": 32,
        "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                         "original_max_position_embeddings": 65536},
        "index_source_layer_ids": [2, 4], "index_head_dim": 128, "engram_layer_ids": [],
        "sliding_window": 128, "candidate_source_layer_id": 2}},
}  # fmt: skip
TOWER = {"model_type": "siglip_vision_model", "hidden_size": 1152, "num_attention_heads": 16,
         "num_hidden_layers": 2, "image_size": 384, "patch_size": 14}  # fmt: skip
OCR = {"model_type": "deepseek_v2", **BASE, **EXPERT, "qk_rope_head_dim": 0, "qk_nope_head_dim": 0,
       "v_head_dim": 0, "hidden_size": 1280, "num_attention_heads": 10, "num_key_value_heads": 10,
       "rope_theta": 20000.0}  # fmt: skip
SEEN = {"vision_config": {"model_type": "vision", "image_size": 384, "layers": 2, "width": 1152,
                          "patch_size": 16, "num_attention_heads": 16},
        "projector_config": {"projector_type": "linear", "input_dim": 2048,
                             "n_embed": 1280}}  # fmt: skip
VLM: dict[str, dict[str, Any]] = {
    "dots_ocr": {**BASE, "vision_config": {"model_type": "dots_vit", "embed_dim": 1536,
                                           "num_attention_heads": 12, "num_hidden_layers": 2,
                                           "spatial_merge_size": 2}},
    "llava_qwen2": {**BASE, "mm_hidden_size": 3072},
    "llava-qwen2": {**BASE, "mm_hidden_size": 1152, "vision_config": TOWER, "auto_map": {}},
    "got": BASE,
    "k2_horizon": {**BASE, "head_dim": 128, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0,
        "original_max_position_embeddings": 2048}},
    "llama_bidirec": BASE,
    "phi3_v": {**BASE, "original_max_position_embeddings": 4096},
    "phi4-siglip": {"hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 10,
                    "num_hidden_layers": 40, "rope_theta": 5e5, "max_position_embeddings": 4096},
    "nemotron_labs_diffusion": {**PLAIN, "head_dim": 128, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
        "original_max_position_embeddings": 512, "llama_4_scaling_beta": 0.1}},
    "deepseek_vl_v2": {**SEEN, "language_config": {
        **BASE, **EXPERT, **LATENT, "model_type": "deepseek_v2", "max_position_embeddings": 163840,
        "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                         "original_max_position_embeddings": 4096, "beta_fast": 32,
                         "beta_slow": 1}}},
    "deepseekocr": {**SEEN, "language_config": OCR},
    "unlimited-ocr": {**SEEN, "language_config": OCR},
    "mistral_large3": {
        "text_config": {**BASE, **EXPERT, **LATENT, "model_type": "mistral_large3"},
        "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "num_attention_heads": 16,
                          "num_hidden_layers": 2, "head_dim": 64, "image_size": 1024,
                          "patch_size": 16}},
    "moondream2": {"text_config": {**BASE, "partial_rotary_factor": 0.5}, "vision_config": {}},
    "moondream3": {"text_config": {**BASE, "num_key_value_heads": 32, "head_dim": 64,
                                   "rope_dim": 32}, "vision_config": {}},
    "xing4_0": {**BASE, **EXPERT, **LATENT},
    "longcat_flash_sparse": {**BASE, **LATENT, "num_layers": 2, "index_topk": 64,
                             "index_n_heads": 8, "index_head_dim": 128, "ffn_hidden_size": 1024,
                             "expert_ffn_hidden_size": 128, "moe_topk": 2, "n_routed_experts": 4},
    "youtu_vl": {**BASE, **LATENT, "vision_config": {
        "model_type": "siglip2_vision_model", "hidden_size": 1152, "num_attention_heads": 16,
        "num_hidden_layers": 2, "spatial_merge_size": 2}},
    "zaya1_vl": {**PLAIN, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 1e6,
                                     "partial_rotary_factor": 0.5}},
    "plamo2vl": {"vision_config": TOWER, "text_config": {
        "model_type": "plamo2", "hidden_size_per_head": 128, "rope_theta": 1e6,
        "rope_local_theta": 1e6, "num_hidden_layers": 4, "num_attention_heads": 32,
        "hidden_size": 4096}},
    "mimo_v2": {**BASE, **EXPERT, "head_dim": 192, "v_head_dim": 128, "swa_head_dim": 192,
                "swa_v_head_dim": 128, "swa_num_attention_heads": 64, "swa_rope_theta": 20000.0,
                "swa_num_key_value_heads": 8, "hybrid_layer_pattern": [0, 1, 1, 0],
                "partial_rotary_factor": 0.334, "moe_layer_freq": [0, 1, 1, 1],
                "layernorm_epsilon": 1e-5, "sliding_window_size": 128,
                "vision_config": {"model_type": "mimovl", "num_heads": 32, "qk_channels": 64,
                                  "spatial_merge_size": 2}},
    "llada2_moe": {**BASE, "partial_rotary_factor": 0.5, "num_experts": 8, "n_group": 2,
                   "topk_group": 1, "num_experts_per_tok": 2},
    "jina_vlm": {"text_config": {
        "hidden_size": 2048, "n_layers": 2, "rope_theta": 9e5, "max_sequence_length": 4096,
        "block_config": {"attn_config": {"n_heads": 16, "n_kv_heads": 8, "head_dim": 128}}}},
    "granite-vision": {"text_config": BASE, "vision_config": TOWER},
    "llmjpvl": {"text_config": BASE, "vision_config": TOWER},
    "llama_nemotron_vl_embedding": {"text_config": BASE, "vision_config": TOWER},
    "locateanything": {"text_config": BASE, "vision_config": {
        **TOWER, "model_type": "moonvit", "init_pos_emb_height": 64, "init_pos_emb_width": 64}},
    "mage_vl": {"text_config": {**BASE, "head_dim": 128}, "vision_config": {
        "model_type": "mage_vl_vision", "num_hidden_layers": 2}},
    "indic_ocr": {"text_config": {
        **PLAIN, "model_type": "qwen3_5_text", "head_dim": 256, "linear_num_value_heads": 32,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention", "full_attention"] * 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7,
                            "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25}}},
    "cohere2moe": {**BASE, "head_dim": 128, "sliding_window": 4096, "num_experts": 8,
                   "layer_types": ["sliding_attention", "full_attention"] * 2,
                   "num_experts_per_tok": 2, "layer_norm_eps": 1e-5, "first_k_dense_replace": 1},
}  # fmt: skip
# By reading alone: of SGLang, or of classes that need more than MLX.
READ: dict[str, dict[str, Any]] = {
    "multi_modality": {
        "text_config": BASE, "vision_config": {
            "model_type": "vision", "cls": "CLIPVisionTower", "params": {}},
        "aligner_config": {"model_type": "aligner", "cls": "MlpProjector", "params": {
            "projector_type": "mlp_gelu", "depth": 2, "input_dim": 1024, "n_embed": 4096}}},
    "granite4-vision": {"text_config": BASE, "vision_config": TOWER},
    "iquest_q1_mtp": {**BASE, "swa_rope_theta": 1e4, "head_dim": 128, "sliding_window": 512,
                      "rotary_dim": 32},
    "laya": {"encoder_config": {
        **PLAIN, "model_type": "modernbert", "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0}},
    "molmo_point": {
        "text_config": {**BASE, "head_dim": 128}, "patch_embed_dim": 512,
        "vision_config": {**TOWER, "image_num_pos": 729}, "adapter_config": {"hidden_size": 1152},
        "token_prediction_rotary": "one_d", "token_prediction_rotary_theta": 5e4},
    "nemotron_parse": {"encoder": {"hidden_size": 1280, "patch_size": 16},
                       "decoder": {"d_model": 1024, "max_position_embeddings": 9000}},
    "perception_encoder": {"width": 1536, "heads": 16, "layers": 47, "image_size": 728,
                           "patch_size": 14, "use_abs_posemb": True},
    "unlimited_language": {key: value for key, value in OCR.items() if key != "model_type"},
}  # fmt: skip
UNLISTED = [*(("mlx_lm", kind, config) for kind, config in LM.items()),
            *(("mlx_vlm", kind, config) for kind, config in VLM.items())]  # fmt: skip

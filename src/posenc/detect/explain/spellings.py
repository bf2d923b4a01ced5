"""How configs spell one quantity: the first that is there counts."""

from __future__ import annotations

# --- the base -------------------------------------------------------------------------------------

BASES = (
    "rope_theta",
    "global_rope_theta",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rotary_base",
    "rope_base",
    "rope_freq_base",
    "theta",
)
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
LISTED = "layer_rope_theta"  # of each layer, 0 where it does not turn; a class may read that alone
THETA_KEYS = ("rope_theta", "theta", "base")  # in a dictionary of rotary parameters
DICTIONARIES = ("rope_scaling", "rope_parameters")

# --- widths ---------------------------------------------------------------------------------------

SHARE = "partial_rotary_factor"
FRACTIONS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rotary_percent",
    "rotary_percentage",
    "rotary_emb_fraction",
    "rope_percentage",
)
ABSOLUTE = ("rotary_dim", "rotary_ndims", "rope_dim", "rotary_emb_dim")
WIDTHS = (
    "head_dim",
    "kv_channels",
    "hidden_size // num_attention_heads",
    "n_embd // n_head",
    "d_model // n_heads",
    "d_model // num_heads",
    "d_model // num_attention_heads",
    "embed_dim // num_heads",
    "embed_dim // num_attention_heads",
    "hidden_size // num_heads",
    "hidden_size // n_heads",
    "hidden_size // n_head",
    "n_embed // n_head",
    "dim // n_heads",
    "dim // num_heads",
)
HEAD_COUNTS = ("num_attention_heads", "n_head", "n_heads", "num_heads")

# --- lengths and magnitudes -----------------------------------------------------------------------

TRAINED = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_seq_length",
    "max_sequence_length",
    "n_ctx",
    "seq_length",
    "model_max_length",
)
ORIGINAL_KEYS = ("original_max_position_embeddings",)
ATTENTION_KEYS = ("attention_factor", "attn_factor")

# --- layers and parts -----------------------------------------------------------------------------

COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "depth")
TYPE_KEYS = ("layer_types", "layers_block_type")
LOCAL, GLOBAL = "sliding_attention", "full_attention"
# Layers that mix tokens without attention: no queries, no keys, no positions.
OTHER = frozenset(
    {
        "linear_attention",
        "mamba",
        "mamba2",
        "conv",
        "recurrent",
        "moe",
        "mlp",
        "ssm",
        "gated_delta_net",
    }
)
PATTERN_KEYS = ("sliding_window_pattern", "_sliding_window_pattern")
# Layers behind the counted ones, which predict further tokens.
MORE_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
# Sub-configs of the text, which may leave out their name, as the model's own says it.
MAIN_PARTS = ("text_config", "language_config", "llm_config")

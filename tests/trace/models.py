"""Tiny healthy models of many families, and inputs that they are run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

TOKENS, HEADS, WIDTH = 24, 4, 16
SIZES: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": HEADS * WIDTH, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "initializer_range": 0.2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "head_dim": WIDTH,
}  # fmt: skip
# What families call these sizes otherwise.
GPTJ: dict[str, Any] = {
    "vocab_size": 61, "n_embd": 64, "n_layer": 3, "n_head": HEADS, "n_inner": 48, "rotary_dim": 8,
    "n_positions": 2048, "initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BLOOM: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 96, "n_layer": 3, "n_head": 6, "initializer_range": 0.2,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
MPT: dict[str, Any] = {
    "vocab_size": 61, "d_model": 64, "n_heads": HEADS, "n_layers": 3, "max_seq_len": 64,
    "expansion_ratio": 1, "initializer_range": 0.2,
}  # fmt: skip
T5: dict[str, Any] = {
    "vocab_size": 61, "d_model": 64, "d_kv": WIDTH, "d_ff": 48, "num_layers": 2, "num_heads": HEADS,
    "relative_attention_num_buckets": 16, "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "num_key_value_heads": HEADS, "head_dim": 8, "q_lora_rank": 24, "kv_lora_rank": 20,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12, "v_head_dim": 14, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16, "first_k_dense_replace": 3,
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 512,
    },
}  # fmt: skip
LLAMA4: dict[str, Any] = {
    "num_hidden_layers": 4, "intermediate_size_mlp": 48, "num_local_experts": 2,
    "interleave_moe_layer_step": 8, "no_rope_layers": [1, 1, 1, 0], "use_qk_norm": True,
    "attention_chunk_size": 64, "attn_temperature_tuning": False,
    "layer_types": ["chunked_attention"] * 3 + ["full_attention"],
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "image_size": 64, "patch_size": 8, "head_dim": WIDTH, "initializer_range": 0.2,
}  # fmt: skip


class Case(NamedTuple):
    """A model, the calls it is run with, one after the other, and what it is meant to be."""

    model: nn.Module
    calls: tuple[dict[str, Any], ...]
    expected: Any  # a config, or the spec of a model that has none
    positions: torch.Tensor | None = None  # (rows, tokens, axes), where no argument is called so

    def outputs(self) -> torch.Tensor:
        """What the last call returns."""
        with torch.no_grad():
            for call in self.calls:
                answer = self.model(**call)
        return answer if isinstance(answer, torch.Tensor) else answer[0]


Build = Callable[[str], Case]


def ids(rows: int = 1, tokens: int = TOKENS) -> torch.Tensor:
    return torch.randint(3, 61, (rows, tokens), generator=torch.Generator().manual_seed(5))


def _case(kind: str, config: Any, attention: str, calls: Any) -> Case:
    import transformers

    torch.manual_seed(0)
    config._attn_implementation = attention
    model = getattr(transformers, kind)(config).eval()
    return Case(model, tuple(calls), config.to_dict())


def text(family: str, kind: str = "ForCausalLM", calls: Any = None, **more: Any) -> Build:
    """A model of text in transformers, with sizes that are the same for most families."""

    def build(attention: str) -> Case:
        import transformers

        config = getattr(transformers, f"{more.get('config', family)}Config")
        keys = {k: v for k, v in {**SIZES, **more}.items() if k != "config" and v is not None}
        handed = [{"input_ids": ids(), "use_cache": False}] if calls is None else calls()
        return _case(family + kind, config(**keys), attention, handed)

    return build


def own(family: str, keys: dict[str, Any], kind: str = "ForCausalLM") -> Build:
    """A model of text in transformers whose config has other keys."""

    def build(attention: str) -> Case:
        import transformers

        config = getattr(transformers, f"{family}Config")(**keys)
        call = {"input_ids": ids()}
        if family == "T5" and kind == "Model":
            call = {"input_ids": ids(), "decoder_input_ids": ids(1, 9)}
        return _case(family + kind, config, attention, [{**call, "use_cache": False}])

    return build


def padded() -> list[dict[str, Any]]:
    """Two rows of which the first begins with five tokens of padding, as `generate` calls it."""
    mask = torch.ones(2, TOKENS, dtype=torch.long)
    mask[0, :5] = 0
    places = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    return [
        {"input_ids": ids(2), "attention_mask": mask, "position_ids": places, "use_cache": False}
    ]


def far() -> list[dict[str, Any]]:
    """Positions as in the middle of a long text."""
    return [{"input_ids": ids(), "position_ids": 1001 + torch.arange(TOKENS)[None]}]


def cached() -> list[dict[str, Any]]:
    """A prefill, and a step with the cache it leaves."""
    from transformers import DynamicCache

    cache, tokens = DynamicCache(), ids()
    return [
        {"input_ids": tokens[:, :-1], "past_key_values": cache, "use_cache": True},
        {"input_ids": tokens[:, -1:], "past_key_values": cache, "use_cache": True},
    ]


def image_and_text() -> list[dict[str, Any]]:
    """Three positions a token: a line of text, an image of 3 x 4 patches, and text again."""
    rows, columns = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    image = torch.stack([torch.zeros(12, dtype=torch.long), rows.flatten(), columns.flatten()])
    before, after = torch.arange(6).expand(3, 6), 10 + torch.arange(6).expand(3, 6)
    places = torch.cat([before, 6 + image, after], dim=1)[:, None]
    return [{"input_ids": ids(), "position_ids": places, "use_cache": False}]


def pixtral(attention: str) -> Case:
    import transformers

    picture = torch.randn(1, 3, 40, 48, generator=torch.Generator().manual_seed(3))
    config = transformers.PixtralVisionConfig(**VISION)
    case = _case("PixtralVisionModel", config, attention, [{"pixel_values": picture}])
    return case._replace(positions=_grid(5, 6)[None])


def qwen_vision(attention: str) -> Case:
    from transformers.models.qwen2_vl import modeling_qwen2_vl as module
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig

    torch.manual_seed(0)
    config = Qwen2VLVisionConfig(
        depth=3, embed_dim=64, hidden_size=64, num_heads=4, mlp_ratio=1, patch_size=4,
        spatial_merge_size=2, temporal_patch_size=1, initializer_range=0.2,
    )  # fmt: skip
    config._attn_implementation = attention
    model = module.Qwen2VisionTransformerPretrainedModel._from_config(config).eval()
    grid = torch.tensor([[1, 4, 6]])
    patches = torch.randn(24, 48, generator=torch.Generator().manual_seed(3))
    # Patches that are merged stand side by side.
    places = _grid(4, 6).view(2, 2, 3, 2, 2).transpose(1, 2).reshape(24, 2)
    call = {"hidden_states": patches, "grid_thw": grid}
    return Case(model, (call,), config.to_dict(), places[None])


def _grid(rows: int, columns: int) -> torch.Tensor:
    """The row and column of each cell."""
    cells = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([each.flatten() for each in cells], dim=-1)


def flux(_: str) -> Case:
    import diffusers

    torch.manual_seed(0)
    model = diffusers.FluxTransformer2DModel(
        in_channels=4, num_layers=2, num_single_layers=2, attention_head_dim=16,
        num_attention_heads=4, joint_attention_dim=20, pooled_projection_dim=20,
        axes_dims_rope=(4, 6, 6), guidance_embeds=False,
    ).eval()  # fmt: skip
    with torch.no_grad():  # attention is not the mean
        for name, weight in model.named_parameters():
            weight.mul_(
                4.0 if name.endswith(("to_q.weight", "to_k.weight", "norm_q.weight")) else 1
            )
    own_seed = torch.Generator().manual_seed(3)
    places = torch.cat([torch.zeros(20, 1), _grid(4, 5)], dim=1)
    call = {
        "hidden_states": torch.randn(1, 20, 4, generator=own_seed),
        "encoder_hidden_states": torch.randn(1, 6, 20, generator=own_seed),
        "pooled_projections": torch.randn(1, 20, generator=own_seed),
        "timestep": torch.tensor([0.5]), "img_ids": places, "txt_ids": torch.zeros(6, 3),
        "return_dict": False,
    }  # fmt: skip
    config = dict(model.config) | {"_class_name": "FluxTransformer2DModel"}
    return Case(model, (call,), config, torch.cat([call["txt_ids"], places])[None].long())


def plain() -> list[dict[str, Any]]:
    """Token ids alone."""
    return [{"input_ids": ids()}]


def uneven(build: Build) -> Build:
    """The same model with norms of queries and keys that have another weight for each channel."""

    def built(attention: str) -> Case:
        case = build(attention)
        with torch.no_grad():
            for name, weight in case.model.named_parameters():
                if name.endswith(("q_norm.weight", "k_norm.weight")):
                    weight.copy_(torch.linspace(0.5, 1.5, len(weight)))
        return case

    return built

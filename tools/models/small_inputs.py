"""What small models are given that take more than tokens, a picture or a sound.

Each function is of the model types of one name, makes its numbers from a generator, and names what
it gives as the forward of the model does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _normal(generator: Any, *shape: int) -> Any:
    import torch

    return torch.randn(shape, generator=generator)


def _tokens(generator: Any, rows: int, count: int) -> Any:
    import torch

    return torch.randint(10, 30, (rows, count), generator=generator)


def _bytes(_: Any, generator: Any) -> dict[str, Any]:
    """Its cache asks for a number of layers that its config does not have."""
    return {"input_ids": _tokens(generator, 2, 24), "use_cache": False}


def _canvas(model: Any, generator: Any) -> dict[str, Any]:
    """A text, and the tokens of a canvas, which are drawn where they are not given."""
    count = model.config.canvas_length
    ids, drawn = _tokens(generator, 2, 12), _tokens(generator, 2, count)
    return {"input_ids": ids, "decoder_input_ids": drawn, "use_cache": False}


def _codec(model: Any, generator: Any) -> dict[str, Any]:
    """A sound, and as many frames of its spectrum: (1, frames, bins)."""
    bins = model.config.semantic_model_config.feature_projection_input_dim
    sound, spectrum = _normal(generator, 1, 1, 6400), _normal(generator, 1, 20, bins)
    return {"input_values": sound, "input_features": spectrum}


def _florence2(model: Any, generator: Any) -> dict[str, Any]:
    """A picture, and a token for each of its features before those of a text."""
    import torch

    picture = _normal(generator, 1, 3, 224, 224)
    with torch.no_grad():
        features = model.get_image_features(picture)
    count = getattr(features, "pooler_output", features).shape[-2]
    ids = torch.cat([torch.full((1, count), model.config.image_token_id),
                     _tokens(generator, 1, 6)], dim=1)  # fmt: skip
    return {"pixel_values": picture, "input_ids": ids, "decoder_input_ids": ids[:, -6:]}


def _kosmos2(model: Any, generator: Any) -> dict[str, Any]:
    """A picture whose features stand in place of some tokens of a text."""
    import torch

    count = model.config.latent_query_num
    ids = _tokens(generator, 1, count + 12)
    where = (torch.arange(count + 12) < count)[None].long()
    size = model.config.vision_config.image_size
    return {
        "pixel_values": _normal(generator, 1, 3, size, size),
        "input_ids": ids, "image_embeds_position_mask": where,
    }  # fmt: skip


def _pi0(model: Any, generator: Any) -> dict[str, Any]:
    """A state, noise in place of actions, a time of the flow, and a picture before a text."""
    import torch

    config, vision = model.config, model.config.vlm_config.vision_config
    count = (vision.image_size // vision.patch_size) ** 2
    ids = _tokens(generator, 2, count + 12)
    ids[:, :count] = config.vlm_config.image_token_id
    return {
        "state": _normal(generator, 2, config.max_state_dim),
        "noise": _normal(generator, 2, config.chunk_size, config.max_action_dim),
        "timestep": torch.tensor([0.25, 0.75]), "input_ids": ids,
        "pixel_values": _normal(generator, 2, 1, 3, vision.image_size, vision.image_size),
        "pixel_attention_mask": torch.ones(2, 1, dtype=torch.bool),
    }  # fmt: skip


def _speech(model: Any, generator: Any) -> dict[str, Any]:
    """A spectrum, and a token for each of its features before those of a text."""
    import torch

    audio = model.config.audio_config
    features = _normal(generator, 1, 96, audio.asr_config.num_mel_bins)
    mask = torch.ones(1, 96, dtype=torch.int64)
    with torch.no_grad():
        count = len(model.get_audio_features(features, mask).pooler_output)
    ids = _tokens(generator, 1, count + 12)
    ids[:, :count] = model.config.audio_token_id
    return {"input_features": features, "input_features_mask": mask, "input_ids": ids}


def _shared(model: Any, generator: Any) -> dict[str, Any]:
    """Embeddings, and the keys and values that its target has for each type of layer."""
    states = {}
    for kind, layer in zip(model.config.text_config.layer_types, model.model.layers, strict=True):
        if hasattr(layer.self_attn, "k_proj"):
            width = layer.self_attn.head_dim
            heads = layer.self_attn.k_proj.out_features // width
            states[kind] = tuple(_normal(generator, 2, heads, 12, width) for _ in range(2))
    wide = model.pre_projection.in_features
    return {"inputs_embeds": _normal(generator, 2, 12, wide), "shared_kv_states": states}


def _timed(model: Any, generator: Any) -> dict[str, Any]:
    """Tokens, and the embedding of a time that norms are scaled by."""
    return {
        "input_ids": _tokens(generator, 2, 12),
        "t_cond": _normal(generator, 1, 1, model.config.hidden_size), "use_cache": False,
    }  # fmt: skip


def _videoprism(model: Any, generator: Any) -> dict[str, Any]:
    """Two videos and two texts: of one, what it is most like would be certain."""
    vision = model.config.vision_config
    sizes = vision.num_frames, vision.num_channels, vision.image_size, vision.image_size
    return {
        "pixel_values_videos": _normal(generator, 2, *sizes),
        "input_ids": _tokens(generator, 2, 12),
    }


def _session(model: Any, generator: Any) -> dict[str, Any]:
    """Two frames of a video; the first has a point, and memory attention joins the second."""
    import torch

    home = importlib.import_module(type(model).__module__)
    make = next(v for k, v in vars(home).items() if k.endswith("VideoInferenceSession"))
    size = model.config.image_size if hasattr(model.config, "image_size") else 1024
    frames = _normal(generator, 2, 3, size, size)
    point = {
        "point_coords": torch.tensor([[[[99.0, 120.0]]]]),
        "point_labels": torch.tensor([[[1]]]),
    }

    session = make(frames, size, size, dtype=torch.float32, video_storage_device=frames.device)
    row = session.obj_id_to_idx(1)
    session.add_point_inputs(row, 0, point)
    session.obj_with_new_inputs = [1]
    with torch.no_grad():
        model(session, frame_idx=0)
    return {"inference_session": session, "frame_idx": 1}


INPUTS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "blt": _bytes,
    "diffusion_gemma": _canvas,
    "edgetam_video": _session,
    "florence2": _florence2,
    "gemma4_unified_assistant": _shared,
    "kosmos-2": _kosmos2,
    "nemo_speechlm": _speech,
    "neucodec": _codec,
    "pi0": _pi0,
    "sam2_video": _session,
    "sam3_tracker_video": _session,
    "videoprism": _videoprism,
    "voxtral_realtime_text": _timed,
    "xcodec2": _codec,
}

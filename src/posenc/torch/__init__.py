"""PyTorch modules: one for each kind of encoding. A new encoding does not touch them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from posenc._core.foreign import taught
from posenc.torch.attend import attend
from posenc.torch.attention import attention
from posenc.torch.flex import alibi_mask_mod, alibi_reach, packed_mask_mod, score_mod, slopes
from posenc.torch.libraries import get_1d_rotary_pos_embed, rope_parameters, rope_types
from posenc.torch.modules import AttentionBias, PositionTable, RelativeAttention
from posenc.torch.rotary import RotaryEmbedding

if TYPE_CHECKING:
    from posenc.detect.loaded import (
        LayerFinding,
        Trace,
        TracedLayer,
        TracedTensor,
        adopt,
        adopting,
        release,
        trace,
        tracing,
    )
    from posenc.torch import cache, parallel

__all__ = [
    "AttentionBias",
    "LayerFinding",
    "PositionTable",
    "RelativeAttention",
    "RotaryEmbedding",
    "Trace",
    "TracedLayer",
    "TracedTensor",
    "adopt",
    "adopting",
    "alibi_mask_mod",
    "alibi_reach",
    "attend",
    "attention",
    "cache",
    "get_1d_rotary_pos_embed",
    "packed_mask_mod",
    "parallel",
    "release",
    "rope_parameters",
    "rope_types",
    "score_mod",
    "slopes",
    "trace",
    "tracing",
]

# Imported when first used; what is of `posenc.detect` stands above this package.
_LAZY = {
    **dict.fromkeys(__all__, "posenc.detect.loaded"),
    "cache": "posenc.torch.cache",
    "parallel": "posenc.torch.parallel",
}


# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            taught("posenc.torch", __all__)(name)
        module = importlib.import_module(_LAZY[name])
        value = getattr(module, name, module)
        globals()[name] = value
        return value

"""PyTorch modules: one for each kind of encoding. A new encoding does not touch them."""

from posenc.torch.attend import attend
from posenc.torch.bias import AttentionBias, alibi_mask_mod, alibi_reach, score_mod, slopes
from posenc.torch.relative import RelativeAttention
from posenc.torch.rotary import RotaryEmbedding
from posenc.torch.table import PositionTable

__all__ = [
    "AttentionBias",
    "PositionTable",
    "RelativeAttention",
    "RotaryEmbedding",
    "alibi_mask_mod",
    "alibi_reach",
    "attend",
    "score_mod",
    "slopes",
]

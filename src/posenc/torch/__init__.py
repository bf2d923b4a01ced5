"""PyTorch modules: one for each kind of encoding. A new encoding does not touch them."""

from posenc.torch.rotary import RotaryEmbedding
from posenc.torch.table import PositionTable

__all__ = ["PositionTable", "RotaryEmbedding"]

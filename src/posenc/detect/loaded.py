"""What is done with a loaded model of PyTorch: what `posenc.torch` offers of the detective."""

from posenc.detect.adopt import adopt, adopting, release
from posenc.detect.trace import LayerFinding, Trace, TracedLayer, TracedTensor, trace, tracing

__all__ = [
    "LayerFinding",
    "Trace",
    "TracedLayer",
    "TracedTensor",
    "adopt",
    "adopting",
    "release",
    "trace",
    "tracing",
]

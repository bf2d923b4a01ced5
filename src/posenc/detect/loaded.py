"""What is done with a loaded model of PyTorch: what `posenc.torch` offers of the detective."""

from posenc.detect.adopt import adopt, adopting, release
from posenc.detect.trace.result import LayerFinding, Trace, TracedLayer, TracedTensor
from posenc.detect.trace.run import trace, tracing

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

"""What each attention of a loaded model does: the autograd graph of one run, read."""

from posenc.detect.trace.result import LayerFinding, Trace, TracedLayer, TracedTensor
from posenc.detect.trace.run import trace, tracing

__all__ = ["LayerFinding", "Trace", "TracedLayer", "TracedTensor", "trace", "tracing"]

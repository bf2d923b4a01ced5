"""What each attention of a loaded model does: the autograd graph of one run, read."""

from posenc.detect.trace.result import Finding, Trace, TracedLayer, TracedTensor
from posenc.detect.trace.run import trace, tracing

__all__ = ["Finding", "Trace", "TracedLayer", "TracedTensor", "trace", "tracing"]

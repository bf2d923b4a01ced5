"""Numbers -> the spec that made them, with what was compared."""

from posenc.detect.identify.identify import identify
from posenc.detect.identify.result import Finding, Identification, lines

__all__ = [
    "Finding",
    "Identification",
    "identify",
    "lines",
]

"""Numbers -> the spec that made them, with what was compared."""

from posenc.detect.identify.description_length import bits_of, roundest
from posenc.detect.identify.fit_frequencies import fit_frequencies
from posenc.detect.identify.identify import identify
from posenc.detect.identify.result import Finding, Identification
from posenc.detect.identify.sentences import lines

__all__ = [
    "Finding",
    "Identification",
    "bits_of",
    "fit_frequencies",
    "identify",
    "lines",
    "roundest",
]

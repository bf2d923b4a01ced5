"""Numbers -> the spec that made them, with what was compared."""

from posenc.detect.identify.description_length import bits_of, roundest
from posenc.detect.identify.fits.frequencies import FrequencyFit, fit_frequencies, tolerance_of
from posenc.detect.identify.identify import identify
from posenc.detect.identify.result import Finding, Identification
from posenc.detect.identify.sentences import lines
from posenc.detect.identify.verdicts.bias import buckets_of

__all__ = [
    "Finding",
    "FrequencyFit",
    "Identification",
    "bits_of",
    "buckets_of",
    "fit_frequencies",
    "identify",
    "lines",
    "roundest",
    "tolerance_of",
]

"""Numbers -> the spec that made them, with what was compared."""

from posenc.detect.identify.description_length import bits_of, roundest
from posenc.detect.identify.fit_frequencies import FrequencyFit, fit_frequencies, tolerance_of
from posenc.detect.identify.identify import identify
from posenc.detect.identify.judge_bias import buckets_of
from posenc.detect.identify.result import Finding, Identification
from posenc.detect.identify.sentences import lines

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

"""A checkpoint -> the same in another convention, in a new file, its scores compared."""

from posenc.detect.convert.convert import Conversion, convert
from posenc.detect.facts.verbs import detect_pairing
from posenc.detect.facts.weights.heads import Projections
from posenc.detect.facts.weights.pairing import THRESHOLD, PairingFinding

__all__ = ["THRESHOLD", "Conversion", "PairingFinding", "Projections", "convert", "detect_pairing"]

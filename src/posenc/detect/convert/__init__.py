"""A checkpoint -> the same in another convention, in a new file, its scores compared."""

from posenc.detect.convert.convert import Conversion, convert
from posenc.detect.facts.weights.heads import Projections
from posenc.detect.facts.weights.pairing import THRESHOLD, PairingFinding, detect_pairing

__all__ = ["THRESHOLD", "Conversion", "PairingFinding", "Projections", "convert", "detect_pairing"]

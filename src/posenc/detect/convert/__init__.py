"""A checkpoint -> the same in another convention, in a new file, its scores compared."""

from posenc.detect.convert.convert import Conversion, convert
from posenc.detect.convert.heads import Projections
from posenc.detect.convert.pairing import THRESHOLD, PairingFinding, detect_pairing

__all__ = ["THRESHOLD", "Conversion", "PairingFinding", "Projections", "convert", "detect_pairing"]

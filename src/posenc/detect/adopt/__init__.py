"""A loaded model -> the same model with exact positions, and back."""

from posenc.detect.adopt.blocks import adopting
from posenc.detect.adopt.exchange import adopt, release
from posenc.detect.adopt.report import Adoption, Replacement

__all__ = ["Adoption", "Replacement", "adopt", "adopting", "release"]

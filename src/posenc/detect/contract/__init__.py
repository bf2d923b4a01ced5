"""A model -> the numbers of its positions, as a file that any language can check itself against."""

from posenc.detect.contract.comparison.diff import Comparison, Difference, diff
from posenc.detect.contract.contract import Check, Contract, Part
from posenc.detect.contract.files import read
from posenc.detect.contract.make import golden

__all__ = ["Check", "Comparison", "Contract", "Difference", "Part", "diff", "golden", "read"]

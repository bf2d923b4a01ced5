"""A model -> the numbers of its positions, as a file that any language can check itself against."""

from posenc.detect.contract.contract import Check, Contract, Part

__all__ = ["Check", "Contract", "Part"]

"""A function -> the spec that it computes, with how far that was looked at."""

from posenc.detect.infer.infer import infer_spec
from posenc.detect.infer.result import Inferred

__all__ = ["Inferred", "infer_spec"]

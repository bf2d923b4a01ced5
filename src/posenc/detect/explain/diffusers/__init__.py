"""Configs of diffusers: a transformer, or the pipeline that it belongs to."""

from posenc.detect.explain.diffusers.reader import from_diffusers, is_diffusers

__all__ = ["from_diffusers", "is_diffusers"]

"""Longer texts for a model that is trained: at once, and after a short training on them.

The task is that of `text-lm`. Encodings such as `rope-ntk` change their rotations for a text that
is longer than those they were trained on; `nats` says how well that works at once. The last row,
`nats-tuned`, is measured at four times the length, after some steps on texts of that length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from posenc_study.tasks.base import Scalar
from posenc_study.tasks.text_lm import DIGEST, TextLM


class RopeScaling(TextLM):
    """A language model of characters, then the same model on longer texts."""

    name = "rope-scaling"
    words = "longer texts, at once and after a short training on them"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 64,
        "steps": 1000,
        "rate": 0.004,
        "factors": "1 2 4",
        "examples": 192,
        "data": DIGEST,
        "tuning": 100,
        "tuning_rate": 0.0005,
    }

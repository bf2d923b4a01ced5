"""A longer context without training: every rule of `posenc extend`, on one trained model.

The task is that of `text-lm`. Beside its own rows it has those of
`posenc_study.training.extension`: the loss of each rule along the positions of texts of 2, 4 and 8
times the trained length, and how well each number that `posenc extend` prints ranks the rules by
their loss. All lengths see one text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from posenc_study.tasks.base import Scalar
from posenc_study.tasks.text_lm import DIGEST, TextLM


class Extension64(TextLM):
    """Trained on 64 characters, and read at up to 512 under each rule."""

    name = "extension-64"
    words = "longer texts under each rule of `posenc extend`"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 64,
        "steps": 1000,
        "rate": 0.004,
        "heads": 2,  # of 16 pairs each: the rules differ from pair to pair
        "factors": "1 2 4 8",
        "examples": 512,
        "data": DIGEST,
    }

    def lengths(self, factor: float) -> tuple[int, ...]:
        """The length itself: a rule is made for one length."""
        return (round(factor * self.length),)


class Extension256(Extension64):
    """Trained on as many characters, 256 at a time."""

    name = "extension-256"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        **Extension64.defaults,
        "length": 256,
        "batch": 8,
        "examples": 128,
    }

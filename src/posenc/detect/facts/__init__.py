"""A model -> what is known of it, each fact with its source, and which of these exclude others."""

from posenc.detect.facts.fact import Contradiction, Fact
from posenc.detect.facts.model import ASKED, Facts, facts
from posenc.detect.facts.verbs import detect_pairing, explain
from posenc.detect.facts.weights.heads import Projections

__all__ = [
    "ASKED",
    "Contradiction",
    "Fact",
    "Facts",
    "Projections",
    "detect_pairing",
    "explain",
    "facts",
]

"""A config -> the plan of its layers, each number with where it was read."""

from posenc.detect.explain.config.parts import beside, part_at
from posenc.detect.explain.config.view import (
    ATTENTION_KEYS,
    COUNT_KEYS,
    MORE_LAYERS,
    PAIRINGS,
    TRAINED,
    Keys,
    check_name,
    is_open,
    settled,
)
from posenc.detect.explain.conversion import convert_config, targets
from posenc.detect.explain.describe import describe, lines, plan_lines
from posenc.detect.explain.dialects import DIALECTS, to_hf
from posenc.detect.explain.formats import fitting, in_words
from posenc.detect.explain.gguf.reader import from_gguf
from posenc.detect.explain.layers.groups import has_window, window_words
from posenc.detect.explain.reader import from_hf

__all__ = [
    "ATTENTION_KEYS",
    "COUNT_KEYS",
    "DIALECTS",
    "MORE_LAYERS",
    "PAIRINGS",
    "TRAINED",
    "Keys",
    "beside",
    "check_name",
    "convert_config",
    "describe",
    "fitting",
    "from_gguf",
    "from_hf",
    "has_window",
    "in_words",
    "is_open",
    "lines",
    "part_at",
    "plan_lines",
    "settled",
    "targets",
    "to_hf",
    "window_words",
]

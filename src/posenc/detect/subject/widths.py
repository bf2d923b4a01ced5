"""Code of a width that nobody stated, asked at those that its own error tells of."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from posenc.detect.subject.ask import asked
from posenc.detect.subject.code import CannotAsk
from posenc.detect.subject.subject import Subject

MOST_WIDE = 2**13


def at_its_width(target: Any, why: CannotAsk, **options: Any) -> Subject:
    """`asked` at the first such width, the largest first; where none answers, that error."""
    sizes = sorted({*map(int, re.findall(r"\d+", why.says))}, reverse=True)
    for width in (width for size in sizes for width in (2 * size, size)):  # of halves, or whole
        with contextlib.suppress(CannotAsk):
            if 1 < width <= MOST_WIDE:
                return asked(target, dim=width, **options)
    raise why

"""With which of torch's compilers a test runs."""

from __future__ import annotations

import pytest


def each_compiler(*subjects: str) -> pytest.MarkDecorator:
    """By Dynamo and AOT autograd, which say whether a graph is whole; and by Inductor, if slow.

    Inductor calls a C++ compiler for seconds, and writes the same loops for each encoding.
    """
    return pytest.mark.parametrize(
        "compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow(*subjects))]
    )

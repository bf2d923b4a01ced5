"""Coroutines in tests that are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns.

    It runs in a thread of its own: the browser that a worker keeps for its tests has a loop of
    events running in the main one, and `asyncio.run` refuses to start there.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()

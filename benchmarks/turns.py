"""Times of several ways to one thing, which take turns: what else the machine does meets all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

Way = Callable[[], Any]
WARM = 2  # calls before the clock runs
TICK = 2e-4  # seconds beside which reading the clock is nothing
MOST = 200  # calls in a row


def in_turns(
    ways: Mapping[str, Way],
    *,
    seconds: float,
    least: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of a call of each way: for about `seconds` in all, and at least `least` times each.

    Short calls are made several times in a row, for a mean of them. With `time.thread_time` as the
    clock they are seconds of this thread, which what else the machine does counts little in.
    """
    for way in ways.values():
        for _ in range(WARM):
            way()
    gc.collect()
    calls = {name: _calls(way, clock) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + seconds
    while min(map(len, times.values())) < least or time.perf_counter() < end:
        for name, way in ways.items():
            times[name].append(_mean(way, calls[name], clock))
    return times


def _mean(way: Way, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        way()
    return (clock() - start) / calls


def _calls(way: Way, clock: Callable[[], float]) -> int:
    """Calls in a row that take long beside the clock's own time; the least of three decides."""
    once = min(_mean(way, 1, clock) for _ in range(3))
    return max(1, min(MOST, int(TICK / max(once, 1e-7))))

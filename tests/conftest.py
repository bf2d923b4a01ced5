"""Settings for all tests, and which of them a tier runs.

make test-fast      the first row of every test that is neither slow nor costly
make test           all tests that are not slow
make test-slow      sweeps, other people's models, engines
make test-changed   the slow tests whose subject changed since a commit; LIMIT=… ends that
make test-one       the tests that concern one encoding
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# What is collected and imported stays, and a search for garbage among it finds none.
gc.disable()

ROOT = Path(__file__).resolve().parents[1]
BEGIN = pytest.StashKey[float]()  # when the tests begin, for --limit

# Libraries read these when they are imported. JAX is as strict as people set it, and keeps what it
# compiled for the other worker and the next run. Threads of OpenMP that wait by spinning take the
# cores of the other worker: ten times the time of a small call.
for name, value in (
    ("JAX_NUMPY_RANK_PROMOTION", "raise"),
    ("JAX_NUMPY_DTYPE_PROMOTION", "strict"),
    ("JAX_DEBUG_NANS", "1"),
    ("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "jax")),
    ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0"),
    ("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1"),
    ("OMP_WAIT_POLICY", "PASSIVE"),
):
    os.environ.setdefault(name, value)
# Tests send these to processes that they start, which inherit what is ignored (of `nohup`, or of a
# shell's `&`), and do not inherit a handler.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
os.environ.pop("COLUMNS", None)  # workers have it, and commands would wrap their lines

# Two shared cores: a first call may compile or import, and no test of this suite is timed.
settings.register_profile(
    "posenc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", parent=settings.get_profile("posenc"), max_examples=1000)
settings.load_profile("posenc")


@pytest.fixture
def nan_results() -> Iterator[None]:
    """For tests in which NaN under JAX is the right result, which `jax_debug_nans` would refuse."""
    try:
        import jax
    except ImportError:
        yield
        return
    with jax.debug_nans(False):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Look for garbage among new objects alone, and seldom: millions that are imported stay."""
    session.config.stash[BEGIN] = time.monotonic()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 10, 10)


def pytest_sessionfinish() -> None:
    """Look for garbage once, not five times, when pytest ends."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers = parser.getgroup("tiers of the suite of posenc")
    tiers.addoption("--fast", action="store_true", help="the first row of each cheap test")
    tiers.addoption("--since", metavar="COMMIT", help="slow tests whose subject changed since then")
    tiers.addoption("--encoding", metavar="NAME", help="tests that concern this encoding")
    tiers.addoption(
        "--limit", type=float, metavar="SECONDS", help="draw the order; skip what begins later"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: list[Callable[[pytest.Item], bool]] = []
    if config.getoption("--fast"):
        wanted.append(_is_first_and_cheap())
    if commit := config.getoption("--since"):
        changed = _changed_since(commit)
        wanted.append(lambda item: _subject_changed(item, changed))
    if name := config.getoption("--encoding"):
        wanted.append(lambda item: concerns(item, name))
    kept = [item for item in items if all(wants(item) for wants in wanted)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept
    if config.getoption("--limit"):  # each commit draws another order
        commit = _git("rev-parse", "HEAD")
        items.sort(key=lambda item: hashlib.sha256(f"{commit} {item.nodeid}".encode()).digest())


def pytest_runtest_setup(item: pytest.Item) -> None:
    limit = item.config.getoption("--limit")
    if limit and time.monotonic() - item.config.stash[BEGIN] > limit:
        pytest.skip(f"not begun within --limit {limit:g}; make test-slow runs it")


# --- a row of each test ---------------------------------------------------------------------------


def _is_first_and_cheap() -> Callable[[pytest.Item], bool]:
    seen: set[str] = set()

    def wants(item: pytest.Item) -> bool:
        if item.get_closest_marker("slow") or item.get_closest_marker("costly"):
            return False
        function = item.nodeid.partition("[")[0]
        if function in seen:
            return False
        seen.add(function)
        return True

    return wants


# --- slow tests whose subject changed -------------------------------------------------------------


def _changed_since(commit: str) -> list[str]:
    try:
        return _git("diff", "--name-only", commit).split()
    except subprocess.CalledProcessError as error:
        raise pytest.UsageError(f"--since {commit}: git does not know it: {error.stderr}") from None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def subjects(item: Any) -> list[str]:
    """The files and folders that the slow marks of a test name, below `src/posenc`."""
    return [subject for mark in item.iter_markers("slow") for subject in mark.args]


def _subject_changed(item: pytest.Item, changed: Sequence[str]) -> bool:
    if any(mark.kwargs.get("release") for mark in item.iter_markers("slow")):
        return False  # minutes each: run before a release, by `make test-slow`
    own = item.path.relative_to(ROOT).as_posix()
    prefixes = tuple(f"src/posenc/{subject}" for subject in subjects(item))
    return own in changed or any(path.startswith(prefixes) for path in changed)


# --- one encoding ---------------------------------------------------------------------------------


def concerns(item: Any, name: str) -> bool:
    """Whether the encoding is a parameter of the test, or is named in its name or its source."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        values = [getattr(value, "spec", value) for value in callspec.params.values()]
        specs = [value for value in values if hasattr(type(value), "__dataclass_fields__")]
        if any(name in {type(spec).__name__, *_within(spec)} for spec in specs):
            return True
        if specs:
            return False
    return bool(re.search(rf"\b{re.escape(name)}\b", f"{item.name}\n{_source(item.function)}"))


def _within(spec: Any) -> set[str]:
    """The names of the specs that a spec is composed of."""
    return set(re.findall(r"(\w+)\(", repr(spec)))


@cache
def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""

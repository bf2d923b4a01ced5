"""Commands that run other people's code do so in a process of their own, which this one watches."""

from __future__ import annotations

import contextlib
import ctypes
import io
import math
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from posenc._core import guard
from posenc._core.errors import mismatch

SECONDS = 60.0  # of an import or a call, where the command line does not say
GRACE = 1.0  # for the end of a process that has said how it ends
NONE = -1  # instead of an exit code
limit = [SECONDS]

# Options of prctl, which Linux alone has.
DIES_WITH_PARENT, ADOPTS_ORPHANS = 1, 36


class Shared(ctypes.Structure):
    """What both processes see: what runs, until when it may, and the exit code."""

    _fields_ = (
        ("until", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("code", ctypes.c_int),
        ("what", ctypes.c_char * 256),
    )


class Stream(io.TextIOWrapper):
    """A stream that keeps nothing back and that nobody closes: its process may end at any word."""

    def close(self) -> None:
        """Stay open, for the answer."""

    def write(self, text: str) -> int:
        """Write and flush."""
        written = super().write(text)
        self.flush()
        return written


def watched(work: Callable[[], int], say: Callable[[str], None]) -> int:
    """Run `work` in a child process, and return its exit code; 3 where it has none to give.

    What the child started, in sessions of their own too where the system is Linux, ends with it.
    `say` is told why there is no code.
    """
    if not hasattr(os, "fork"):
        return work()
    page = Shared.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
    page.until, page.code = math.inf, NONE
    _prctl(ADOPTS_ORPHANS, 1)
    others = _children()
    child = os.fork()  # nothing heavy is imported yet, and there is one thread
    if child == 0:
        _work(work, page)
    status: list[int] = []
    ended = threading.Event()

    def wait() -> None:
        status.append(os.waitpid(child, 0)[1])
        ended.set()

    # The event is waited for: a thread whose `join` a signal interrupts counts as ended.
    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    try:
        while not ended.is_set() and time.monotonic() <= page.until:
            ended.wait(0.25)
        late = not ended.is_set()
    except (KeyboardInterrupt, guard.Interrupted) as error:
        # The child may have answered by now; then it has an exit code.
        os.kill(child, getattr(error, "number", signal.SIGINT))
        ended.wait(GRACE)
        if page.code == NONE:
            raise
    finally:
        _end(child, ended, others)
        waiter.join()
    if page.code != NONE:
        return int(page.code)
    what = page.what.decode(errors="replace") or "the command"
    if late:
        say(
            mismatch(
                what,
                f"an end within {page.seconds:g} s",
                "none",
                "Nothing of it is left running; --timeout SECONDS gives it longer.",
            )
        )
    else:
        number = os.waitstatus_to_exitcode(status[0])
        how = f"exit code {number}" if number >= 0 else signal.Signals(-number).name
        say(mismatch(what, "code that returns", f"{how}: it ended the process"))
    return 3


def _work(work: Callable[[], int], page: Shared) -> None:
    """What the child does: work, say how it ends, and end."""
    os.setsid()
    _prctl(DIES_WITH_PARENT, signal.SIGKILL)
    own, handler = os.getpid(), signal.getsignal(signal.SIGTERM)
    masks, ends = threading.local(), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def held() -> None:
        # Python forgets a signal that arrives before a new process has looked for one.
        masks.own = signal.pthread_sigmask(signal.SIG_BLOCK, ends)

    def released() -> None:
        for number in ends:
            if os.getpid() != own and signal.getsignal(number) is handler:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.own)

    # What the code forks ends as its own code says: a pool by SIGTERM, without a traceback.
    os.register_at_fork(before=held, after_in_parent=released, after_in_child=released)

    def report(what: str, timed: bool) -> None:
        if os.getpid() != own:
            return  # another process of the code, which asks posenc something
        page.what, page.seconds = what.encode()[:255], limit[0]
        page.until = time.monotonic() + limit[0] if timed else math.inf

    guard.report[0] = report
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            # A descriptor of its own, as the code may close the others.
            copy = os.fdopen(os.dup(stream.fileno()), "wb")
            setattr(sys, name, Stream(copy, stream.encoding, "replace"))
            os.dup2(stream.fileno(), 1)  # at last that of errors: what the code writes is no answer
    code = work()
    page.code, page.until = code, time.monotonic() + GRACE
    sys.exit(code)


def _end(child: int, ended: threading.Event, others: set[int]) -> None:
    """Kill the child, and all that it started and that is still there."""
    for kill in (os.killpg, os.kill):
        if kill is os.killpg or not ended.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(child, signal.SIGKILL)
    ended.wait()
    # Whose parent ends becomes a child of this process, until there is none.
    while left := _children() - others:
        for orphan in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)


def _children() -> set[int]:
    """Processes whose parent this one is; none where the system does not tell."""
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_bytes().rpartition(b")")[2].split()[1]) == os.getpid():
                children.add(int(stat.parent.name))
    return children


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)

"""The guard behind which other people's code runs: imports, calls, the building of models.

A function that asks such code is decorated by `foreign`, and each import and call inside it stands
in a `with foreign(…)` of its own. Code that ends the process then ends in one error. A command runs
in a process of its own, whose parent learns of each import and call through `report`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from posenc._core.errors import EndedError, mismatch

SCHEMES = ("http", "https", "ftp", "s3", "gs", "ssh")
DATA = re.compile(
    r"\.(bin|ckpt|csv|gguf|h5|ipynb|json|md|np[yz]|onnx|pickle|pkl|pth?|py[cd]|safetensors|so|toml|"
    r"txt|ya?ml)",
    re.IGNORECASE,
)
DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

_running: ContextVar[tuple[str, ...]] = ContextVar("_running", default=())


class Interrupted(BaseException):
    """A signal that asks the command to end; no `Exception`, so that nothing swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _unheard(what: str, timed: bool) -> None:
    """Without a parent nobody waits."""


# Called as report[0](what, timed) when an import or call begins, and when it ends.
report: list[Callable[[str, bool], None]] = [_unheard]


@contextlib.contextmanager
def foreign(what: str, *, timed: bool = True, alone: bool = False) -> Iterator[None]:
    """Run other people's code; for a function that asks it, and around each import and call.

    `what` names it. Only the outermost guard makes an error of a `BaseException`, as those inside
    stand where every `Exception` is an answer; one that is `alone` does so wherever it stands.
    What is not `timed` may take as long as it likes.
    """
    outer = _running.get()
    token = _running.set((*outer, what))
    streams, own = (sys.stdout, sys.stderr), os.getpid()
    report[0](what, timed)
    # What the code prints in a command is no part of the answer, which a program may read.
    sys.stdout = sys.stdout if report[0] is _unheard else sys.stderr
    try:
        yield
    except (Exception, KeyboardInterrupt, Interrupted):
        raise
    except BaseException as error:
        vars(error).setdefault("during", what)
        if (outer and not alone) or of_pytest(error):
            raise
        raise ended(error) from error
    finally:
        # Code that puts its own streams there takes the answer of a command with them.
        sys.stdout, sys.stderr = streams
        if os.getpid() != own and report[0] is not _unheard:
            os._exit(0)  # a copy of the command's process: the answer is given once
        _running.reset(token)
        # What posenc does between two calls may touch their objects: the clock starts anew.
        report[0](outer[-1] if outer else what, True)


def of_pytest(error: BaseException) -> bool:
    """Whether a test that runs is skipped, failed or ended by an exception."""
    outcomes: Any = sys.modules.get("_pytest.outcomes")
    if outcomes is None or "PYTEST_VERSION" not in os.environ:
        return False
    return isinstance(error, (outcomes.OutcomeException, outcomes.Exit))


def ended(error: BaseException) -> EndedError:
    """What is said of code that raised an exception made to end a process."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    text = " ".join(str(error).split())[:100]
    todo = 'Put what a script does under `if __name__ == "__main__":`, and raise an error instead.'
    return EndedError(
        mismatch(
            getattr(error, "during", "the examined code"),
            "code that returns",
            f"{type(error).__name__}{f': {text}' if text else ''}{place}: it ended the process",
            todo,
        )
    )


def why_no_code(target: str) -> str:
    """Why a text names no code to import, MODULE:NAME or FILE.py:NAME; empty where it does."""
    module, _, name = target.rpartition(":")
    shown = repr(target[:200])
    if "://" in target or module.lower() in SCHEMES:
        return f"{shown} is an address, and posenc opens none: load the file, and look at it first."
    if module.endswith(".py") and DOTTED.fullmatch(name):
        return "" if Path(module).is_file() else f"{module[:200]!r} is not there."
    if not module and DATA.fullmatch(Path(target).suffix) and Path(target).is_file():
        return f"{shown} holds data and no code: `posenc {target}` says what it follows."
    if not (DOTTED.fullmatch(module) and DOTTED.fullmatch(name)):
        return (
            f"{shown} is no MODULE:NAME. Such as mypackage.rope:RotaryEmbedding or rope.py:rotate."
        )
    return (
        f"{shown} is no MODULE:NAME: {module} is the name of a file that is no Python."
        if DATA.fullmatch(Path(module).suffix) or Path(module).is_file()
        else ""
    )


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Refuse every connection, and tell the libraries of the Hub not to ask for one."""
    import socket

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError("posenc opens no connection here")

    constants: Any = sys.modules.get("huggingface_hub.constants")
    changed: list[tuple[Any, str, Any]] = [
        (socket.socket, "connect", refused),
        (socket, "create_connection", refused),
        (socket, "getaddrinfo", refused),
    ]
    changed += [] if constants is None else [(constants, "HF_HUB_OFFLINE", True)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changed]
    try:
        for owner, name, value in changed:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)

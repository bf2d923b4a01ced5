"""Servers for the tests of the page: the command itself, and one that is slow on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser_path() -> str | None:
    """The browser of `CHROME`, or the first one on the path."""
    named = os.environ.get("CHROME")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`posenc explore` as a user starts it, on a free port, and the address that it prints."""
    paths = [str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc.cli", "explore", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, reversed(paths)))},
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            if found:
                break
        else:
            raise AssertionError(f"posenc explore gave no address: {said}")
        yield process, found.group()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Slow:
    """The explorer with every picture made late, counting how many are made at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.most, self.asked = seconds, 0, 0, []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from posenc.explore import app

        if scope["path"] != "/api/frame":
            await app()(scope, receive, send)
            return
        self.asked.append(scope["query_string"].decode())
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        await app()(scope, receive, send)
        self.now -= 1


@contextlib.contextmanager
def slow(seconds: float) -> Iterator[tuple[Slow, str]]:
    """A slow explorer in a thread, and its address."""
    import uvicorn

    from posenc.explore.server.server import bound

    late = Slow(seconds)
    with bound(0) as listening:
        settings = uvicorn.Config(late, log_level="error", lifespan="off", ws="none", http="h11")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield late, f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)

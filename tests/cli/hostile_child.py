"""Reads files in one process and says what each cost: run by `test_hostile.py`.

Usage: python hostile_child.py < [[reader, path], …] in JSON; a line of JSON for each.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLOWEST = 20  # seconds that a reader is waited for


def readers() -> dict[str, Callable[[Path], object]]:
    """Every way by which posenc reads a file, by name."""
    import posenc
    from posenc._core.io import files, inputs
    from posenc.cli.detective.numbers import _recording
    from posenc.cli.options.arrays import ParameterChoice, _tokenize, learnt_from, vector_from
    from posenc.cli.options.encodings import spec_of
    from posenc.detect.explain import from_gguf, from_hf, to_hf
    from posenc.explore.state.files import load
    from posenc.plot.export import read_table
    from posenc_study import engine
    from posenc_study.claims import registered
    from posenc_study.results import records, store
    from posenc_study.tasks.files import text_of
    from posenc_study.training.saved import _read

    learned = posenc.Learned(4, length=3)

    def encoded(path: Path) -> None:
        layout = files.read_layout(path)
        layout.pick(None)

    def converted(path: Path) -> None:
        posenc.convert(path, pairing="half")

    return {
        "identify": posenc.identify,
        "layout": encoded,
        "convert": converted,
        "config": lambda path: from_hf(path, on_error="report"),
        "translate": lambda path: to_hf(path, "hf5"),
        "gguf": lambda path: from_gguf(path, on_error="report"),
        "spec": lambda path: spec_of(str(path), "--spec"),
        "explore": lambda path: load([str(path)]),
        "explore table": lambda path: load(tables=[str(path)]),
        "plot": read_table,
        "infer": lambda path: _recording(str(path)),
        "parameters": lambda path: learnt_from(ParameterChoice(str(path)), learned),
        "vector": lambda path: vector_from(str(path), 0, None),
        "tokenizer": lambda path: _tokenize("a text", path),
        "store": store.read_store,
        "claims": registered.read_claims,
        "results": lambda path: records._read(path, ("a", "b"), dict),
        "scheduler": engine._address,
        "model": _read,
        "text": text_of,
        "page": lambda path: inputs.text_of(path, inputs.PAGE),
    }


class TooSlowError(BaseException):
    """A reader that does not end."""


def too_slow(number: int, frame: object) -> None:
    raise TooSlowError


def peak() -> int:
    """The largest resident size since the last `forget`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def forget() -> None:
    """Begin to measure the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    import click

    from posenc._core.errors import PosencError

    signal.signal(signal.SIGALRM, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))
    known = readers()
    for name, path in json.load(sys.stdin):
        forget()
        before, begin, wall = peak(), time.process_time(), time.monotonic()
        outcome = "read"
        message: Any = ""
        signal.alarm(SLOWEST)
        try:
            with contextlib.redirect_stdout(None):
                known[name](Path(path))
        except (PosencError, OSError, click.ClickException) as error:
            outcome, message = "refused", f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001 - that is what the test looks for
            outcome, message = type(error).__name__, str(error)
        signal.alarm(0)
        cost = {
            "reader": name,
            "file": Path(path).name,
            "outcome": outcome,
            "message": str(message)[:160],
            "cpu": round(time.process_time() - begin, 3),
            "wall": round(time.monotonic() - wall, 3),
            "bytes": peak() - before,
        }
        print(json.dumps(cost), flush=True)


if __name__ == "__main__":
    main()

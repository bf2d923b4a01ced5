"""JupyterLab and marimo for the tests of the widget, from this environment or a named one."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.browser.serving import ROOT

MADE = """import posenc
from posenc.explore import Widget
widget = Widget(posenc.RoPE(64, pairing='half'))
widget"""
CELLS = (
    MADE,
    "widget.state = {**widget.state, 'v': 'waves'}",
    "print('view:', widget.state['v'])",
    "posenc.Sinusoidal(64)",
)
MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import posenc
    from posenc.explore import Widget
    inner = Widget(posenc.RoPE(64, pairing="half"))

    def to_waves(_):
        inner.state = {**inner.state, "v": "waves"}

    widget = mo.ui.anywidget(inner)
    button = mo.ui.button(label="to waves", on_click=to_waves)
    mo.vstack([button, widget, posenc.Sinusoidal(64)])
    return mo, widget


@app.cell
def _(mo, widget):
    mo.md("view: " + widget.value["state"]["v"])
    return
"""


def python() -> str:
    """The Python that has the notebooks: that of `NOTEBOOKS`, or this one."""
    return os.environ.get("NOTEBOOKS", sys.executable)


def missing(name: str) -> str:
    """Why a notebook cannot be tested here; empty where it can."""
    if "NOTEBOOKS" in os.environ or importlib.util.find_spec(name) is not None:
        return ""
    return f"{name} is not installed; NOTEBOOKS may name a Python that has it"


@contextlib.contextmanager
def _served(folder: Path, arguments: list[str], port: int, ready: str) -> Iterator[str]:
    address = f"http://127.0.0.1:{port}"
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    env = {**os.environ, **own, "IPYTHONDIR": str(folder / "ipython"), "HOME": str(folder)}
    env["PYTHONPATH"] = str(ROOT / "src")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [python(), "-m", *arguments], cwd=folder, env=env, stdout=log, stderr=log
        )
        try:
            for _ in range(240):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(address + ready, timeout=2)
                    break
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                time.sleep(0.5)
            yield address
        finally:
            process.terminate()
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """The address of a notebook with `CELLS` in JupyterLab."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{n}",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": source,
        }
        for n, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}}
    (folder / "one.ipynb").write_text(json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 5}))
    port = _free_port()
    arguments = ["jupyterlab", "--no-browser", f"--port={port}", "--ip=127.0.0.1", "--allow-root"]
    arguments += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    arguments += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
    with _served(folder, arguments, port, "/api/status") as address:
        yield f"{address}/lab/tree/one.ipynb"


@contextlib.contextmanager
def marimo(folder: Path) -> Iterator[str]:
    """The address of a marimo app: the widget, a button that changes its state, and its view."""
    (folder / "one.py").write_text(MARIMO)
    port = _free_port()
    arguments = ["marimo", "run", "one.py", "--headless", f"--port={port}", "--host=127.0.0.1"]
    with _served(folder, [*arguments, "--no-token"], port, "/health") as address:
        yield address

"""`posenc doctor`: what is installed, what of it works, and which arithmetic runs."""

from __future__ import annotations

import importlib.util
import os
import platform
import signal
import subprocess
import sys
from typing import Any

import click

import posenc
from posenc.cli._options import as_json
from posenc.cli._show import print_json
from posenc.kernels import report

__all__ = ["command", "probe"]

# Package -> what it is for. The first three are needed, the rest optional.
PACKAGES = {
    "numpy": "arrays (needed)",
    "array_api_compat": "one interface to all array libraries (needed)",
    "click": "this command (needed)",
    "torch": "modules and tensors",
    "jax": "JAX arrays",
    "array_api_strict": "tests against the array API standard",
    "ml_dtypes": "bfloat16 as a NumPy dtype",
    "triton": "kernels for GPUs",
    "tokenizers": "encode --tokenizer",
    "matplotlib": "plots",
}
NEEDED = ("numpy", "array_api_compat", "click")
PATIENCE = 120  # seconds for an import


@click.command()
@as_json
@click.pass_context
def command(ctx: click.Context, json_: bool) -> None:
    """Report versions, optional libraries and kernels.

    Each library is imported in a process of its own, so that a broken one is reported rather than
    met. The exit code is 1 if one that is installed does not import, or one that is needed is
    absent.
    """
    libraries = [{"name": name, "use": use, **probe(name)} for name, use in PACKAGES.items()]
    system = {
        "posenc": posenc.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }
    if any(row["name"] == "torch" and row["status"] == "works" for row in libraries):
        import torch  # noqa: F401 - whether it has a GPU is one of the reasons
    kernels = report()
    broken = [
        name
        for name, row in zip(PACKAGES, libraries, strict=True)
        if row["status"] == "broken" or (row["status"] == "absent" and name in NEEDED)
    ]
    if json_:
        print_json({"system": system, "libraries": libraries, "kernels": kernels, "broken": broken})
    else:
        _print(system, libraries, kernels, broken)
    if broken:
        ctx.exit(1)


def _print(
    system: dict[str, Any],
    libraries: list[dict[str, Any]],
    kernels: list[dict[str, Any]],
    broken: list[str],
) -> None:
    for key, value in system.items():
        click.echo(f"{key:<17} {value}")
    click.echo(f"\n{'library':<17} {'status':<9} {'version':<14} use")
    for row in libraries:
        version = row["version"] or "-"
        click.echo(f"{row['name']:<17} {row['status']:<9} {version:<14} {row['use']}")
        if row["reason"]:
            click.echo(f"{'':<17} {row['reason']}")
    click.echo(f"\n{'op':<17} {'kernel':<9} {'runs':<14} reason")
    for row in kernels:
        runs = "yes" if row["runs"] else "no"
        click.echo(f"{row['op']:<17} {row['kernel']:<9} {runs:<14} {row['reason']}")
    if broken:
        click.echo(f"\nnot working: {', '.join(broken)}")


def probe(package: str) -> dict[str, str | None]:
    """Whether a package imports, in a process of its own: status, version, reason."""
    try:
        found = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # a module without a spec, a broken path
        found = False
    if not found:
        return {"status": "absent", "version": None, "reason": None}
    code = (
        f"import {package}, importlib.metadata as m; v = getattr({package}, '__version__', None)\n"
        f"print(v or m.version({package!r}))"
    )
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": "broken", "version": None, "reason": f"no end within {PATIENCE} s"}
    if done.returncode < 0:
        reason = f"its import ended by {signal.Signals(-done.returncode).name}"
        return {"status": "broken", "version": None, "reason": reason}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"status": "broken", "version": None, "reason": last}
    lines = done.stdout.strip().splitlines() or [""]
    return {"status": "works", "version": lines[-1] or None, "reason": None}

"""`posenc doctor`: where a port differs from its model, or what is installed, and what works."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
from typing import Any

import click

import posenc
from posenc.cli.options.common import (
    InputFile,
    as_json,
    base_option,
    config_option,
    library_option,
    refuse,
    runs_code,
    side_named,
    stored_option,
)
from posenc.cli.output.lines import print_answer, print_json, print_lines

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


@click.command(
    epilog="""\b
Examples:
  posenc doctor
  posenc doctor llama/ rope.py:rotate
"""
)
@click.argument("model", metavar="[MODEL]", type=InputFile(), required=False)
@click.argument("engine", metavar="[ENGINE]", required=False)
@stored_option
@base_option
@config_option
@library_option
@click.option(
    "--import", "imported", is_flag=True, help="Import the optional libraries too; takes seconds."
)
@runs_code
@as_json
@click.pass_context
def command(
    ctx: click.Context, /, model: str | None, engine: str | None, imported: bool, json_: bool,
    library: Any, **stated: Any,
) -> None:  # fmt: skip
    """Find where a port and its model differ, or report what is installed.

    MODEL is a folder, weights, a config.json or a GGUF file. ENGINE is a side as of posenc diff:
    MODULE:NAME or FILE.py:NAME, which is imported and run, hf:FOLDER, engine:vllm, buffers,
    another config. The page shows what the model says, what the weights say, where they and the
    engine differ, the smallest call that shows it, and the line to change. It asks explain,
    pairing, identify, diff and check, and the exit code is that of diff: 0 if nothing differs in
    what was compared, 1 for a fault, 2 for a mistake in the command line, 3 if nothing was
    compared.

    Without MODEL it reports versions, optional libraries and kernels. "works" was imported in a
    process of its own, so that a broken library is reported rather than met; "installed" was not
    imported: its version is what the package says of itself. The exit code is then 1 if an import
    fails, or a library that is needed is absent.
    """
    refuse(
        model is None and (library or any(value is not None for value in stated.values())),
        "MODEL is missing: a folder, weights, a config.json or a GGUF file.",
    )
    refuse(model is not None and imported, "--import is for the report without a MODEL.")
    if model is None:
        _report(ctx, imported, json_)
        return
    from posenc.testing.doctor import doctor

    side = None if engine is None else side_named(engine)
    diagnosis = doctor(model, side, library=library, **stated)
    print_answer(json_, diagnosis.to_dict, diagnosis.lines())
    ctx.exit(diagnosis.exit_code)


def _report(ctx: click.Context, imported: bool, json_: bool) -> None:
    """What is installed, and what of it works."""
    libraries = [
        {"name": name, "use": use, **probe(name, imported=imported or name in NEEDED)}
        for name, use in PACKAGES.items()
    ]
    system = {
        "posenc": posenc.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }
    usable = {row["name"] for row in libraries if row["status"] in ("works", "installed")}
    compiled, reason = kernels(with_torch={"torch", "triton"} <= usable)
    broken = [
        name
        for name, row in zip(PACKAGES, libraries, strict=True)
        if row["status"] == "broken" or (row["status"] == "absent" and name in NEEDED)
    ]
    broken += [f"posenc.kernels ({reason})"] if reason else []
    if json_:
        print_json(
            {"system": system, "libraries": libraries, "kernels": compiled, "broken": broken}
        )
    else:
        _print(system, libraries, compiled, broken)
    if broken:
        ctx.exit(1)


def _print(
    system: dict[str, Any],
    libraries: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    broken: list[str],
) -> None:
    lines = [f"{key:<16}  {value}" for key, value in system.items()]
    lines += ["", f"{'library':<16}  {'status':<9}  {'version':<11}  use"]
    for row in libraries:
        version = f"{row['version'] or '-':<11}"
        lines.append(f"{row['name']:<16}  {row['status']:<9}  {version}  {row['use']}")
        lines += [f"{'':<16}  {row['reason']}"] if row["reason"] else []
    lines += ["", f"{'operation':<16}  {'kernel':<9}  {'runs':<11}  reason"]
    for row in rows:
        runs = "yes" if row["runs"] else "no"
        lines.append(f"{row['op']:<16}  {row['kernel']:<9}  {runs:<11}  {row['reason']}")
    print_lines([*lines, *(["", f"not working: {', '.join(broken)}"] if broken else [])])


def probe(package: str, *, imported: bool) -> dict[str, str | None]:
    """Status, version and reason of a package, imported in a process of its own or only found."""
    try:
        installed = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # a module without a spec, a broken path
        installed = False
    if not installed:
        return {"status": "absent", "version": None, "reason": None}
    stated = importlib.metadata.distributions(name=package)  # of which there is none, or one
    version = next((distribution.version for distribution in stated), None)
    if not imported:
        return {"status": "installed", "version": version, "reason": None}
    output, reason = _answer(f"import {package}\nprint(getattr({package}, '__version__', ''))")
    if reason:
        return {"status": "broken", "version": version, "reason": reason}
    last = (output.strip().splitlines() or [""])[-1]
    return {"status": "works", "version": version or last or None, "reason": None}


def kernels(*, with_torch: bool) -> tuple[list[dict[str, Any]], str | None]:
    """What runs of the kernels, or why they could not be asked.

    Where there may be a GPU, only torch can say what it can do; elsewhere its import is spared.
    """
    beside = "from posenc.kernels.choose import gpu_device\nif gpu_device():\n    import torch\n"
    output, reason = _answer(
        f"import json\n{beside if with_torch else ''}"
        "from posenc.kernels import report\nprint(json.dumps(report()))"
    )
    return ([], reason) if reason else (json.loads(output.strip().splitlines()[-1]), None)


def _answer(code: str) -> tuple[str, str | None]:
    """What a process of its own prints, or why it did not end well."""
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
        return "", f"no end within {PATIENCE} s"
    if done.returncode < 0:
        return "", f"its import ended by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or ["no message"])[-1]
    return done.stdout, None

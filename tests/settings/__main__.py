"""Cells of the floor in a process of their own, as JSON: a file here, its setting, and a subject.

    echo '[["on_jax", "jit", "RoPE"]]' | python -m tests.settings

One line of JSON for each cell that failed, and the number of cells that were gone through.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings

from tests.settings.subjects import subjects


def main() -> None:
    """Go through the cells, and print what failed."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    warnings.simplefilter("ignore")
    cells, every = json.load(sys.stdin), subjects()
    for module, setting, name in cells:
        settings = importlib.import_module(f"tests.settings.{module}").SETTINGS
        try:
            settings[setting](every[name])
        except Exception as error:  # noqa: BLE001 - what a cell raises is its result
            text = f"{type(error).__name__}: {error}"
            print(json.dumps({"cell": [module, setting, name], "error": text[:600]}), flush=True)
    print(json.dumps({"done": len(cells)}))


main()

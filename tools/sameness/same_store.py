"""Where `tools/same.py` keeps what one tree says: names, and texts, bytes or arrays."""

from __future__ import annotations

import io
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# What differs between two runs of one tree, and why; `tools/same.py --masks` prints it.
MASKS: tuple[tuple[str, str, str], ...] = (
    (r"\b0x[0-9a-f]{8,16}\b", "0x…", "addresses of objects in memory"),
)

# What a wrong argument raises. Others, such as a name that is gone, are for the caller to see.
TOLD = (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError, OSError)


class SnapshotError(Exception):
    """The snapshot itself cannot go on: a public name or a folder is not where it was."""


def masked(text: str, places: Mapping[str, str]) -> str:
    """A text without what two runs of one tree write differently."""
    for place, word in places.items():
        text = text.replace(place, word)
    for pattern, word, _ in MASKS:
        text = re.sub(pattern, word, text)
    return text


class Store:
    """Named values in the order in which they were found.

    A value is a text, bytes, or an array as ("array", dtype, shape, bytes).
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        # The longest first: one folder may lie in another.
        self.places = dict(sorted(places.items(), key=lambda item: -len(item[0])))
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        """Keep a value; the parts of a mapping or sequence under names of their own."""
        made = _plain(value)
        if isinstance(made, Mapping):
            for key, inner in made.items():
                self.put(f"{name}.{key}", inner)
        elif isinstance(made, list):
            for number, inner in enumerate(made):
                self.put(f"{name}.{number}", inner)
        elif name in self.values:
            raise SnapshotError(f"two things are called {name!r}")
        else:
            self.values[name] = masked(made, self.places) if isinstance(made, str) else made

    def attempt(self, name: str, call: Callable[[], Any], told: Any = TOLD) -> Any:
        """Keep what a call returns, or what its error says, and its warnings."""
        posenc = sys.modules["posenc"]
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                value = call()
            except (posenc.PosencError, *told) as error:
                value = f"{type(error).__name__}: {error}"
        self.put(name, value)
        if heard:
            texts = [f"{one.category.__name__}: {one.message}" for one in heard]
            self.put(f"{name} warns", "\n".join(texts))
        return value

    def save(self, path: Path) -> None:
        """Write all of it."""
        with path.open("wb") as file:
            pickle.dump(self.values, file, protocol=pickle.HIGHEST_PROTOCOL)


def _plain(value: Any) -> Any:
    if isinstance(value, (str, bytes, bytearray)) or value is None:
        return "nothing" if value is None else value
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (tuple, list)):
        return list(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _array(value)
    return repr(value)


def _array(value: Any) -> tuple[str, str, tuple[int, ...], bytes]:
    import numpy as np

    dtype = str(value.dtype).rpartition(".")[2]
    if type(value).__module__.startswith("torch"):
        torch = sys.modules["torch"]
        value = value.detach().cpu().contiguous()
        value = (value.view(torch.int16) if dtype == "bfloat16" else value).numpy()
    array = np.asarray(value)
    return "array", dtype, tuple(array.shape), array.tobytes()


# --- the command ----------------------------------------------------------------------------------


def entry(tree: Path, program: str = "posenc") -> tuple[str, str]:
    """The module and the function of a command, as the projects of a tree declare it."""
    import tomllib

    for path in (tree / "pyproject.toml", *sorted(tree.glob("*/pyproject.toml"))):
        if path.exists():
            project = tomllib.loads(path.read_text("utf-8")).get("project", {})
            if program in project.get("scripts", {}):
                module, _, function = project["scripts"][program].partition(":")
                return module, function
    raise SnapshotError(f"no pyproject.toml of {tree} has a script {program!r}")


def ran(main: Callable[[], Any], words: list[str]) -> str:
    """Run the command in this process: its exit code and what it wrote."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    kept = sys.argv, sys.stdout, sys.stderr, warnings.formatwarning
    sys.argv, sys.stdout, sys.stderr = ["posenc", *words], out, err
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv, sys.stdout, sys.stderr, warnings.formatwarning = kept
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "backslashreplace"))
    return f"exit {code or 0}\n--- output\n{texts[0]}--- errors\n{texts[1]}"


def environment(tree: Path, home: Path) -> dict[str, str]:
    """That of a process that imports posenc from a tree: one thread, no colours, fixed dates."""
    paths = [tree / "src", *sorted(path for path in tree.glob("*/src") if path.is_dir())]
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("POSENC", "PYTEST"))},
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONHASHSEED": "0",
        "PYTHONIOENCODING": "utf-8",
        "SOURCE_DATE_EPOCH": "1000000000",
        "TMPDIR": str(home),
        "TZ": "UTC",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "JAX_PLATFORMS": "cpu",
        # Compiling is what JAX spends its time on here.
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }

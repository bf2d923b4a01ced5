"""The worst error of exact phases on each array library: `python benchmarks/backends.py`.

Random positions up to +-(2**31 - 1) beside 0, 1, 2, 17 and the ends, for several bases and widths,
float32 output; and float64 output where the library has it. The truth is found without posenc:
frequencies in 60 digits, the fraction of a turn in integers of 128 bits. A step is rounded, which
moves a phase by 1.8e-19 for each position; `beyond` is what an error is more than that.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import posenc
from benchmarks.rows import append, circumstances

LARGEST = 2**31 - 1
SPECS = tuple((base, dim) for base in (10, 100, 1e4, 5e5, 1e7) for dim in (2, 64, 512))
Table = Callable[[posenc.Sinusoidal, np.ndarray], np.ndarray]


def truth(base: float, dim: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine as longdouble, right to 1e-19: (positions, dim / 2)."""
    with mpmath.workdps(60):
        pairs = range(dim // 2)
        turns = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim) / (2 * mpmath.pi) for i in pairs]
        steps = np.array([int(mpmath.nint(turn * 2**128)) for turn in turns], dtype=object)
        turn = positions.astype(object)[:, None] * steps % 2**128
        pi = np.longdouble(str(+mpmath.pi))
    signed = np.where(turn >= 2**127, turn - 2**128, turn)
    high = (signed >> 64).astype(np.int64).astype(np.longdouble)
    low = (signed & (2**64 - 1)).astype(np.uint64).astype(np.longdouble)
    angle = (high + low * np.longdouble(2) ** -64) * (np.longdouble(2) ** -63 * pi)
    return np.sin(angle), np.cos(angle)


def errors(table: Table, count: int) -> dict[str, float]:
    """The worst error: absolute, beyond the rounding of steps, and relative."""
    rng = np.random.default_rng(0)
    random = rng.integers(-LARGEST, LARGEST, size=count, endpoint=True)
    positions = np.concatenate([[0, 1, 2, 17, LARGEST, -LARGEST], random])
    absolute = beyond = relative = 0.0
    for base, dim in SPECS:
        spec = posenc.Sinusoidal(dim, base=base, order="sin_cos")
        exact = np.concatenate(truth(base, dim, positions), axis=1)
        error = np.abs(table(spec, positions).astype(np.longdouble) - exact)
        rounding = 1.8e-19 * np.abs(positions.astype(np.longdouble))[:, None]
        size = np.maximum(np.abs(exact), np.finfo(np.longdouble).tiny)
        absolute = max(absolute, float(error.max()))
        beyond = max(beyond, float((error - rounding).max()))
        relative = max(relative, float((np.maximum(error - rounding, 0) / size).max()))
    return {"absolute": absolute, "beyond": beyond, "relative": relative}


def identity(function: Any) -> Any:
    return function


def ways() -> dict[str, Table]:
    """What is measured: name -> a table from a spec and positions."""
    import array_api_strict
    import jax
    import torch

    def compiled(spec: posenc.Sinusoidal, p: np.ndarray) -> np.ndarray:
        torch.compiler.reset()  # one function for each spec is more than its cache holds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about itself
            run = torch.compile(lambda x: posenc.table(spec, x), fullgraph=True)
            return np.asarray(run(torch.tensor(p)))

    def in_jax(transform: Callable[..., Any]) -> Table:
        return lambda spec, p: np.asarray(
            transform(lambda x: posenc.table(spec, x))(jax.numpy.asarray(p.astype(np.int32)))
        )

    return {
        "NumPy": posenc.table,
        "array-api-strict": lambda spec, p: posenc.table(spec, array_api_strict.asarray(p))._array,
        "torch": lambda spec, p: posenc.table(spec, torch.tensor(p)).numpy(),
        "torch.compile": compiled,
        "JAX": in_jax(identity),
        "jax.jit": in_jax(jax.jit),
        "jax.vmap": in_jax(jax.vmap),
        "NumPy, float64": lambda spec, p: posenc.table(spec, p, dtype="float64"),
        "torch, float64": lambda spec, p: posenc.table(
            spec, torch.tensor(p), dtype="float64"
        ).numpy(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--positions", type=int, default=2000)
    asked = parser.parse_args()
    common = circumstances("numpy", "array-api-strict", "torch", "jax")
    rows = []
    for name, table in ways().items():
        found = errors(table, asked.positions)
        print(f"{name:18}", *(f"{key} {value:.2e}" for key, value in found.items()))
        rows.append({"way": name, "positions": asked.positions, **found, **common})
    append("backends", rows)


if __name__ == "__main__":
    main()

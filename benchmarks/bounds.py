"""The bounds that the documentation states, measured: `python benchmarks/bounds.py`.

Width 128, base 10000, float32 in and out. Positions: all below 2**12, 2**13 random ones below 2**31
and the last 2**10; for xPos, whose range ends, up to 30,000 from its centre. The truth is that of
`precision.py`, found without posenc; factors and sums are formed in float64.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.precision import BASE, DIM, truth
from benchmarks.rows import append, circumstances

PAIRS = DIM // 2
LONGER = (1.001, 2, 8, 32, 100, 1e3, 1e5)  # times 4096 positions
REACH = 30_000
# What is stated, as a multiple of what, and where.
STATED = {
    "table": (1e-7, "1"),
    "cos_sin": (1e-7, "1"),
    "cos_sin with an attention factor": (1.5e-7, "the factor"),
    "rotate": (1.8e-7, "the size of the pair"),
    "add": (2.3e-7, "max(1, |sum|)"),
    "rotate by XPos": (5e-7, "the size of the pair, to 30,000 from the centre"),
    "bias of TUPE": (2e-6, "max(1, |bias|)"),
    "bias of TUPE without float64": (1e-4, "max(1, |bias|), for products up to 200"),
}

Put = Callable[[np.ndarray], Any]
Measured = Iterator[tuple[str, float]]


def positions() -> np.ndarray:
    """Near, far and last ones."""
    drawn = np.random.default_rng(0).integers(0, 2**31, 1 << 13)
    return np.concatenate([np.arange(1 << 12), drawn, np.arange(2**31 - (1 << 10), 2**31)])


def worst(got: Any, exact: np.ndarray, of: np.ndarray | float = 1.0) -> float:
    """The largest error as a multiple of `of`."""
    return float((np.abs(np.asarray(got, np.float64) - exact) / of).max())


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Pairs half a width apart."""
    a, b = x[:, :PAIRS].astype(np.float64), x[:, PAIRS:].astype(np.float64)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)


def sizes(exact: np.ndarray) -> np.ndarray:
    """The size of the pair of each entry."""
    return np.tile(np.hypot(exact[:, :PAIRS], exact[:, PAIRS:]), 2)


def by_phases(put: Put, run: Callable[[Any], Any], kernel: Any) -> Measured:
    """Tables, rotations and sums."""
    import posenc

    where = positions()
    cos, sin = truth(where)
    both = np.concatenate([cos, sin], axis=1)
    x = np.random.default_rng(1).normal(size=(len(where), DIM)).astype(np.float32)
    p, there = put(where), put(x)
    table = posenc.Sinusoidal(DIM, base=BASE, order="cos_sin")
    yield "table", worst(run(lambda p: posenc.table(table, p, kernel=kernel))(p), both)
    added = run(lambda x, p: posenc.add(table, x, positions=p, kernel=kernel))(there, p)
    yield "add", worst(added, x + both, np.maximum(1, np.abs(x + both)))
    rope = posenc.RoPE(DIM, pairing="half", base=BASE)

    def of_factor(factor: float, spec: Any) -> float:
        got = run(lambda p: posenc.cos_sin(spec, p, kernel=kernel))(p)
        return max(worst(a, factor * b, factor) for a, b in zip(got, (cos, sin), strict=True))

    yield "cos_sin", of_factor(1.0, rope)
    flat = (1.0,) * PAIRS  # the same frequencies, so the factor alone is new
    found = []
    for times in LONGER:
        longer = posenc.scaling.LongRoPE(flat, flat, original_length=4096, factor=times)
        factor = math.sqrt(1 + math.log(times) / math.log(4096))
        found.append(of_factor(factor, rope.replace(scaling=longer).at(8192)))
    yield "cos_sin with an attention factor", max(found)
    got = run(lambda x, p: posenc.rotate(rope, x, positions=p, kernel=kernel))(there, p)
    exact = turned(x, cos, sin)
    yield "rotate", worst(got, exact, sizes(exact))


def by_powers(put: Put, run: Callable[[Any], Any]) -> Measured:
    """XPos, to a distance where JAX, too, has all entries: it flushes the smallest to zero."""
    import posenc

    where = np.random.default_rng(2).integers(0, REACH + 1, 1 << 13)
    where[:2] = 0, REACH
    cos, sin = truth(where)
    x = np.random.default_rng(3).normal(size=(len(where), DIM)).astype(np.float32)
    spec = posenc.XPos(DIM, pairing="half", base=BASE)
    zeta = np.log((2 * np.arange(PAIRS) / DIM + 0.4) / 1.4)
    found = 0.0
    for role, sign in (("query", 1), ("key", -1)):
        size = np.exp(sign * where[:, None] / 512 * zeta)
        exact = turned(x, cos * size, sin * size)
        rotate = run(lambda x, p, role=role: posenc.rotate(spec, x, positions=p, role=role))
        found = max(found, worst(rotate(put(x), put(where)), exact, sizes(exact)))
    yield "rotate by XPos", found


def by_sums(put: Put, run: Callable[[Any], Any], name: str) -> Measured:
    """TUPE with parameters of unit size, whose products reach hundreds and cancel."""
    import posenc

    heads, dim, length = 4, 64, 64
    spec = posenc.TUPE(heads, dim=dim, length=length, class_position="tied")
    rng = np.random.default_rng(4)
    w = {name: rng.normal(size=shape).astype(np.float32) for name, shape in spec.shapes.items()}
    d = {name: value.astype(np.float64) for name, value in w.items()}
    p = d["position"] - d["position"].mean(axis=-1, keepdims=True)
    p = p / np.sqrt((p * p).mean(axis=-1, keepdims=True) + 1e-5)
    p = p * d["norm_weight"] + d["norm_bias"]
    q, k = (
        np.einsum("hcd,nd->hnc", d[f"{side}_weight"], p) + d[f"{side}_bias"][:, None]
        for side in ("query", "key")
    )
    exact = np.einsum("hmc,hnc->hmn", q, k) / math.sqrt(2 * dim / heads)
    given = {name: put(value) for name, value in w.items()}
    got = run(lambda w: posenc.bias(spec, length, params=w))(given)
    yield name, worst(got, exact, np.maximum(1, np.abs(exact)))


def libraries() -> Iterator[tuple[str, Put, Callable[[Any], Any], str]]:
    """Name, how arrays get there, what runs a verb, and the kernel."""
    import jax
    import torch

    def jax_array(x: np.ndarray) -> Any:
        return jax.numpy.asarray(x.astype(np.int32) if x.dtype == np.int64 else x)

    def plain(verb: Any) -> Any:
        return verb

    yield "NumPy", np.asarray, plain, "auto"
    yield "NumPy, reference", np.asarray, plain, "reference"
    yield "torch", torch.from_numpy, plain, "auto"
    yield "torch, reference", torch.from_numpy, plain, "reference"
    yield "JAX", jax_array, plain, "reference"
    yield "JAX, jit", jax_array, jax.jit, "reference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    common = circumstances("numpy", "torch", "jax")
    rows = []
    for library, put, run, kernel in libraries():
        sums = "bias of TUPE" + " without float64" * library.startswith("JAX")
        found = [*by_phases(put, run, kernel), *by_powers(put, run), *by_sums(put, run, sums)]
        for what, value in found:
            bound, of = STATED[what]
            row = {"what": what, "library": library, "stated": bound, "of": of}
            rows.append({"bench": "bounds", **row, "worst": float(f"{value:.3g}"), **common})
            mark = "" if value <= bound else "  BEYOND WHAT IS STATED"
            print(
                f"{library:18} {what:34} {value:9.3g}  stated {bound:g} of {of}{mark}", flush=True
            )
    if not dry:
        print(append("bounds", rows))


if __name__ == "__main__":
    main()

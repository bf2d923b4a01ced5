"""Tables, rotations, biases and gradients of every encoding, for `tools/same.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from same_store import Store

import posenc

USUAL: dict[str, dict[str, Any]] = {
    "table": {"dim": 64},
    "rotary": {"dim": 64, "pairing": "half"},
    "bias": {"heads": 4},
    "relative": {"dim": 64},
}
DTYPES = {
    "numpy": (
        ("float64", "auto"),
        ("float32", "auto"),
        ("float32", "reference"),
        ("float16", "auto"),
    ),
    "torch": (
        ("float64", "auto"),
        ("float32", "auto"),
        ("float32", "reference"),
        ("bfloat16", "auto"),
        ("bfloat16", "reference"),
    ),
    "jax": (("float32", "auto"),),
}
Call = Callable[[dict[str, Any]], Any]


def specs() -> Iterator[tuple[str, Any]]:
    """A small one of every encoding of the registry, by its name."""
    for cls in importlib.import_module("posenc.registry").specs():
        fields = cls.__dataclass_fields__
        usual = {name: value for name, value in USUAL[cls.kind].items() if name in fields}
        yield cls.__name__, cls(**{**usual, **cls.example.fields})


def _examples() -> Iterator[dict[str, Any]]:
    for name, spec in specs():
        points = spec.example.points
        axes = len(getattr(spec, "axes", ("position",)))
        if points is not None:
            where = np.asarray(points())[:16]
        else:
            side = {1: 16, 2: 4}.get(axes, 2)
            cells = np.indices((side,) * axes).reshape(axes, -1).T
            where = cells[:, 0] if axes == 1 else cells
        made = {"name": f"example {name}", "json": posenc.to_json(spec), "params": None}
        yield made | {"positions": where, "queries": where, "keys": where, "heads": None}


class Library:
    """An array library: its arrays, and its gradients."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.xp = importlib.import_module("jax.numpy" if name == "jax" else name)

    def array(self, values: Any, dtype: str | None = None) -> Any:
        """An array of the library; integers and positions keep their kind."""
        array = np.asarray(values)
        if self.name == "numpy":
            return array if dtype is None else array.astype(dtype)
        if self.name == "torch":
            made = self.xp.from_numpy(np.array(array))
            return made if dtype is None else made.to(getattr(self.xp, dtype))
        if dtype is None and array.dtype == np.int64:
            array = array.astype(np.int32)
        return self.xp.asarray(array, dtype=dtype)

    def gradients(self, call: Call, given: dict[str, Any]) -> Any:
        """Those of a weighted sum of what a call returns, by the names of what it is given."""
        if self.name == "torch":
            leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
            total = self._total(call(leaves))
            if not getattr(total, "requires_grad", False):
                return "no gradient"
            found = self.xp.autograd.grad(total, [*leaves.values()], allow_unused=True)
            return dict(zip(leaves, found, strict=True))
        return importlib.import_module("jax").grad(lambda leaves: self._total(call(leaves)))(given)

    def _total(self, made: Any) -> Any:
        parts = made if isinstance(made, tuple) else (made,)
        total = None
        for part in parts:
            weights = np.cos(np.arange(int(np.prod(part.shape)))).reshape(part.shape)
            wide = part.to(self.xp.float64) if self.name == "torch" else part.astype("float32")
            one = (wide * self.array(weights, str(wide.dtype).rpartition(".")[2])).sum()
            total = one if total is None else total + one
        return total


def _calls(
    spec: Any, case: Mapping[str, Any], lib: Library, dtype: str, kernel: str
) -> Iterator[Any]:
    """What is asked of a spec: a name, a call of float arrays, and these."""
    params = case["params"]
    if params is None and spec.shapes:
        params = posenc.init(spec, seed=7)
    learned = {key: lib.array(value) for key, value in (params or {}).items()}
    held = dict(learned)
    rng = np.random.default_rng(5)

    def carried(given: dict[str, Any]) -> Any:
        return {name: given[name] for name in held} or None

    if spec.kind in ("bias", "relative"):
        sides = [lib.array(case[side]) for side in ("queries", "keys")]
        counts = [len(case[side]) for side in ("queries", "keys")]
    else:
        where = lib.array(case["positions"])
        count = len(case["positions"])
    if spec.kind == "table":
        yield (
            "table",
            lambda g: posenc.table(spec, where, params=carried(g), dtype=dtype, kernel=kernel),
            learned,
        )
        x = lib.array(rng.normal(size=(2, count, spec.dim)), dtype)
        yield (
            "add",
            lambda g: posenc.add(spec, g["x"], params=carried(g), positions=where, kernel=kernel),
            learned | {"x": x},
        )
    elif spec.kind == "rotary":
        heads = getattr(spec, "heads", None) or 2
        x = lib.array(rng.normal(size=(2, heads, count, spec.dim)), dtype)
        for width in ("half", "full"):
            yield (
                f"cos_sin {width}",
                lambda g, w=width: posenc.cos_sin(
                    spec, where, width=w, dtype=dtype, params=carried(g), kernel=kernel
                ),
                learned,
            )
        for role, inverse in (("query", False), ("key", False), ("query", True)):
            yield (
                f"rotate {role}{' inverse' * inverse}",
                lambda g, r=role, i=inverse: posenc.rotate(
                    spec,
                    g["x"],
                    positions=where,
                    role=r,
                    inverse=i,
                    params=carried(g),
                    kernel=kernel,
                ),
                learned | {"x": x},
            )
    elif spec.kind == "bias":
        yield (
            "bias",
            lambda g: posenc.bias(spec, *sides, params=carried(g), dtype=dtype, kernel=kernel),
            learned,
        )
    elif kernel == "auto":
        heads = case["heads"] or getattr(spec, "count", None) or 2
        q, k = (lib.array(rng.normal(size=(2, heads, n, spec.dim)), dtype) for n in counts)
        weights = lib.array(rng.random(size=(2, heads, *counts)), dtype)
        yield (
            "relative",
            lambda g: posenc.relative(spec, g["q"], g["k"], *sides, params=carried(g)),
            learned | {"q": q, "k": k},
        )
        yield (
            "relative_values",
            lambda g: posenc.relative_values(spec, g["w"], *sides, params=carried(g)),
            learned | {"w": weights},
        )


def numbers(cases: list[dict[str, Any]], store: Store, library: str, every: int = 1) -> None:
    """Every case and every example on one library, with gradients where it has them."""
    lib = Library(library)
    # JAX compiles each operation for each shape: the examples stand for the cases there, and what
    # is left out differs from what is asked in no operation of its own.
    jax = library == "jax"
    for case in (list(_examples()) if jax else [*cases, *_examples()])[::every]:
        spec = posenc.from_json(case["json"])
        for dtype, kernel in DTYPES[library]:
            for name, call, given in _calls(spec, case, lib, dtype, kernel):
                if jax and name in ("cos_sin full", "rotate query inverse"):
                    continue
                title = f"{case['name']}: {name}, {dtype}, {kernel}"
                store.attempt(title, lambda c=call, g=given: c(g))
                asked = library == "torch" or (jax and name not in ("cos_sin half", "rotate key"))
                if given and asked:
                    gradient = lambda c=call, g=given: lib.gradients(c, g)  # noqa: E731
                    store.attempt(f"{title}, gradient", gradient)
        if library == "numpy":
            _constants(spec, case, store)
        if library == "torch" and case["name"].startswith("example"):
            _module(spec, case, store)


def _constants(spec: Any, case: Mapping[str, Any], store: Store) -> None:
    """What a spec is, and what follows from it alone."""
    name = case["name"]
    store.put(f"{name}: spec", f"{spec!r}\n{posenc.to_json(spec)}\n{spec.fingerprint}")
    store.put(f"{name}: constants", dict(spec.arrays))
    store.put(f"{name}: shapes", repr(dict(spec.shapes)))
    store.attempt(f"{name}: first values", lambda: posenc.init(spec, seed=3))
    for verb in ("frequencies", "wavelengths", "resolution", "logit_scale"):
        if verb != "logit_scale":
            store.attempt(f"{name}: {verb}", lambda v=verb: getattr(posenc, v)(spec))
        else:
            store.attempt(f"{name}: {verb}", lambda: posenc.logit_scale(spec, np.arange(40)))
    if spec.kind == "table":
        store.attempt(f"{name}: similarity", lambda: posenc.similarity(spec, np.arange(-9, 9)))
        store.attempt(f"{name}: shift", lambda: posenc.shift(spec, 3))
        learned = case["params"] or (posenc.init(spec, seed=7) if spec.shapes else {})
        for verb in ("resize", "extend"):
            store.attempt(f"{name}: {verb}", lambda v=verb: getattr(posenc, v)(spec, learned, 40))
    if spec.kind == "rotary":
        rng = np.random.default_rng(6)
        q, k = rng.normal(size=(2, spec.dim))
        store.attempt(
            f"{name}: relative_score",
            lambda: posenc.relative_score(spec, q, k, np.arange(-9, 9)),
        )
        turned = rng.normal(size=(1, getattr(spec, "heads", None) or 2, 4, spec.dim))
        store.attempt(
            f"{name}: rerotate",
            lambda: posenc.rerotate(spec, turned, np.arange(4) + 90, np.arange(4)),
        )


def _module(spec: Any, case: Mapping[str, Any], store: Store) -> None:
    """The PyTorch module of a spec: its state, what it returns, and its gradients."""
    import torch

    homes = {
        "table": "PositionTable",
        "rotary": "RotaryEmbedding",
        "bias": "AttentionBias",
        "relative": "RelativeAttention",
    }
    name = f"{case['name']}: module"
    module = getattr(posenc.torch, homes[spec.kind])(spec, seed=4)
    store.put(name, repr(module))
    store.put(f"{name} state", dict(module.state_dict()))
    where = torch.from_numpy(np.array(case["positions"]))
    count = len(where)
    torch.manual_seed(3)
    heads = getattr(spec, "heads", None) or getattr(spec, "count", None) or 2
    if spec.kind == "table":
        given: tuple[Any, ...] = (torch.randn(2, count, spec.dim), where)
    elif spec.kind == "bias":
        given = (where, where)
    else:
        given = (
            torch.randn(2, heads, count, spec.dim),
            torch.randn(2, heads, count, spec.dim),
            where,
        )
        given += (where,) * (spec.kind == "relative")

    def backward() -> Any:
        made = module(*given)
        total = sum(part.sum() for part in (made if isinstance(made, tuple) else (made,)))
        if not total.requires_grad:
            return "no gradient"
        total.backward()
        return {key: value.grad for key, value in module.named_parameters()}

    store.attempt(f"{name} output", lambda: module(*given))
    store.attempt(f"{name} gradient", backward)

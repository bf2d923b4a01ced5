"""The Python that makes the numbers of a picture."""

from __future__ import annotations

import math
from typing import Any

from posenc.explore.state.catalogue import grid_of
from posenc.explore.state.fields import short
from posenc.explore.state.scene import Scene


def spec_lines(scene: Scene, name: str = "pe") -> list[str]:
    """The lines that make the encoding, and what stands in for what it has learned."""
    lines = ["import posenc", "", f"{name} = {scene.a.code}"]
    if scene.a.random:
        lines.append(f"params = posenc.init({name}, seed=0)")
    return lines


def params_of(scene: Scene) -> str:
    """The argument for what the encoding has learned, if it has learned something."""
    return ", params=params" if scene.a.params else ""


def table(scene: Scene, rows: tuple[int, int], p: int, j: int) -> str:
    """The table that is on the screen, and the number under the cursor."""
    first, last = rows
    lines, positions, at = _cells(scene, "pe", f"range({first}, {last})" if first else f"{last}", p)
    more = params_of(scene)
    if scene.a.entry.kind == "rotary":
        return "\n".join([*lines, f"cos, sin = posenc.cos_sin(pe, {positions}{more})"])
    number = f'posenc.table(pe, {at}{more}, dtype="float64")[0, {j}]'
    return "\n".join([*lines, f"rows = posenc.table(pe, {positions}{more})", number])


def _cells(scene: Scene, name: str, usual: str, p: int) -> tuple[list[str], str, str]:
    """The lines that make an encoding, its positions, and the one of the cursor."""
    lines, sides = spec_lines(scene, name), grid_of(scene.a.spec, scene["L"])
    if not sides:
        return lines, usual, f"[{p}]"
    grid = f"np.stack(np.unravel_index(np.arange({math.prod(sides)}), {sides}), axis=-1)"
    return ["import numpy as np", *lines, f"cells = {grid}"], "cells", f"cells[[{p}]]"


def distance(scene: Scene, k: int) -> str:
    """The product of rows k positions apart."""
    steps = (
        f'rows = posenc.table(pe, {scene["L"]}{params_of(scene)}, dtype="float64")',
        f"rows @ rows.T  # the diagonals are distances, {k} among them",
    )
    if scene.a.code.startswith("posenc.Sinusoidal("):
        steps = (f"posenc.similarity(pe, [0, {k}])", f"posenc.shift(pe, {k})")
    elif scene.a.entry.kind == "rotary":
        steps = (
            f'cos, sin = posenc.cos_sin(pe, {scene["L"]}, dtype="float64")',
            f"cos[0] @ cos[{k}] + sin[0] @ sin[{k}]",
        )
    return "\n".join([*spec_lines(scene), *steps])


def bias(scene: Scene, head: int, p: int, kp: int) -> str:
    """One entry of the bias, and a head of it."""
    lines, positions, query = _cells(scene, "spec", str(scene["L"]), p)
    more, one = params_of(scene), f", heads=({head}, {head + 1}))"
    _, _, key = _cells(scene, "spec", "", kp)
    if positions == "cells":
        one = f")[{head}]"
    lines.append(f"posenc.bias(spec, {positions}{more})[{head}]")
    return "\n".join([*lines, f"posenc.bias(spec, {query}, {key}{more}{one}"])


SCALINGS = {
    "linear": "posenc.scaling.Linear({f})",
    "ntk": "posenc.scaling.NTK({f})",
    "dynamic": "posenc.scaling.DynamicNTK(1, original_length={t}, length={n})",
    "yarn": "posenc.scaling.YaRN({f}, original_length={t})",
    "yarn_paper": 'posenc.scaling.YaRN({f}, original_length={t}, ramp="turns")',
    "llama3": "posenc.scaling.Llama3({f}, original_length={t})",
}


def stretch(scene: Scene, rule: str, data: Any) -> str:
    """The wavelengths under one rule."""
    line = f"rope = rope.at({data.length})"
    if rule in SCALINGS:
        scaling = SCALINGS[rule].format(f=short(data.factor), t=data.original_length, n=data.length)
        line = f"rope = rope.replace(scaling=({scaling},))"
    elif rule == "none":
        line = "rope = rope.replace(scaling=())"
    return "\n".join(
        [*spec_lines(scene, "rope"), line, "posenc.wavelengths(rope)", "rope.attention_factor"]
    )


def attention(scene: Scene, content: Any, order: tuple[int, ...], *, causal: bool) -> str:
    """The attention of the encoding that has settings."""
    words, stored = list(content.words), scene.session.heads
    sizes = f"{content.dim}, width={content.width}, head={content.head}"
    lines = [f"words = random_content({words}, {sizes})"]
    if scene["qk"] in ("previous", "content"):
        lines = [f"words = trained_content({words}, {scene['qk']!r})"]
    elif scene["qk"] == "file" and stored is not None:
        name = stored.name
        load = "numpy.load" if name.endswith(".npz") else "safetensors.numpy.load_file"
        head = (content.head, content.heads)
        lines = [
            f"import {load.rpartition('.')[0]}",
            f"stored = {load}({name!r})",
            'sides = [stored[side] for side in ("qkv" if "v" in stored else "qkk")]',
            f"q, k, v = (x[{head[0]} * len(x) // {head[1]}][:{len(words)}] for x in sides)",
            f"words = from_arrays({words}, q, k, v, name={name!r}, head={head})",
        ]
    source = lines[-1].removeprefix("words = ").partition("(")[0]
    more = f"order={order}, shift={scene['shift']}, causal={causal}, dtype={scene['prec']!r}"
    return "\n".join(
        [
            f"from posenc.plot.content import {source}",
            "from posenc.plot.views import attention",
            *spec_lines(scene),
            *lines,
            f"view = attention.data(pe, words, {more}{params_of(scene)})",
            "view.scores, view.weights, view.change, view.equal",
        ]
    )

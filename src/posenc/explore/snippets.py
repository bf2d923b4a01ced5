"""The Python and the command line that make the same picture."""

from __future__ import annotations

import json

from posenc.explore.scene import Scene

__all__ = ["distance", "plot", "sentence", "spec_lines", "table", "waves"]


def spec_lines(scene: Scene, name: str = "pe") -> list[str]:
    """The lines that make the encoding, and what stands in for what it has learned."""
    lines = ["import posenc", "", f"{name} = {scene.a.code}"]
    if scene.a.random:
        lines.append(f"params = posenc.init({name}, seed=0)")
    return lines


def _params(scene: Scene) -> str:
    return ", params=params" if scene.a.params else ""


def table(scene: Scene, rows: tuple[int, int], p: int, j: int) -> str:
    """The table that is on the screen, and the number under the cursor."""
    first, last = rows
    positions = f"{last}" if first == 0 else f"range({first}, {last})"
    lines = spec_lines(scene)
    more = _params(scene)
    if scene.a.entry.kind == "rotary":
        lines.append(f"cos, sin = posenc.cos_sin(pe, {positions}{more})")
    else:
        lines.append(f"rows = posenc.table(pe, {positions}{more})")
        lines.append(f'posenc.table(pe, [{p}]{more}, dtype="float64")[0, {j}]')
    return "\n".join(lines)


def waves(scene: Scene) -> str:
    """The wavelengths of the pairs."""
    return "\n".join([*spec_lines(scene), "posenc.wavelengths(pe)"])


def distance(scene: Scene, k: int) -> str:
    """The product of rows k positions apart."""
    lines = spec_lines(scene)
    if scene.a.code.startswith("posenc.Sinusoidal("):
        return "\n".join([*lines, f"posenc.similarity(pe, [0, {k}])", f"posenc.shift(pe, {k})"])
    rows = f"rows = posenc.table(pe, {scene['L']}{_params(scene)}, dtype=\"float64\")"
    if scene.a.entry.kind == "rotary":
        rows = f"cos, sin = posenc.cos_sin(pe, {scene['L']}, dtype=\"float64\")"
        return "\n".join([*lines, rows, f"cos[0] @ cos[{k}] + sin[0] @ sin[{k}]"])
    return "\n".join([*lines, rows, f"rows @ rows.T  # the diagonals are distances, {k} among them"])


def sentence(scene: Scene, words: list[str]) -> str:
    """The input of the sentence."""
    scale = " * pe.dim ** 0.5" if scene["scale"] else ""
    return "\n".join(
        [
            "import numpy as np",
            *spec_lines(scene),
            f"words = {words!r}",
            f"rng = np.random.default_rng({scene['seed']})  # stand-ins for embeddings",
            "vectors = {w: rng.normal(size=pe.dim) for w in dict.fromkeys(words)}",
            f"x = np.stack([vectors[w] for w in words]){scale}",
            f"posenc.add(pe, x{_params(scene)})",
        ]
    )


def plot(name: str, scene: Scene, rows: tuple[int, int]) -> str:
    """The command that draws the same picture in a file."""
    spec = json.dumps(scene.a.spec.to_dict(), separators=(",", ":"))
    length = rows[1] - rows[0]
    return f"posenc plot {name} --spec '{spec}' --length {length} -o {name}.png"

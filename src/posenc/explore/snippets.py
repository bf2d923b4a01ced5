"""The Python and the command line that make the same picture."""

from __future__ import annotations

import json

from posenc.explore.scene import Scene

__all__ = ["plot", "spec_lines", "table"]


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


def plot(name: str, scene: Scene, rows: tuple[int, int]) -> str:
    """The command that draws the same picture in a file."""
    spec = json.dumps(scene.a.spec.to_dict(), separators=(",", ":"))
    length = rows[1] - rows[0]
    return f"posenc plot {name} --spec '{spec}' --length {length} -o {name}.png"

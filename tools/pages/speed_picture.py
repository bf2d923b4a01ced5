"""Draw the speed of rotations, the floor and the peers: `python tools/pages/speed_picture.py`.

Bars of median times on a logarithmic axis, from the last run in benchmarks/results/speed.jsonl.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.rows import latest

OUT = Path(__file__).resolve().parents[2] / "docs" / "img" / "speed.png"
ROWS = tuple(f"rotate {d} half 1 x 32/8 x 2048 x 128" for d in ("float32", "bfloat16"))
OURS, FLOOR, THEIRS = "#1f5fbf", "#9a9a9a", "#d0693c"


def colour(way: str) -> str:
    """Whose bar it is."""
    if way.startswith("posenc"):
        return OURS
    return FLOOR if way.startswith("copy") else THEIRS


def draw(path: Path = OUT) -> Path:
    """Write the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = {row["row"]: row for row in latest("speed")}
    figure = Figure(figsize=(9, 3.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, 2), ROWS, strict=True):
        median = dict(sorted(rows[name]["median_ms"].items(), key=lambda item: -item[1]))
        bars = axes.barh(list(median), list(median.values()), color=[colour(n) for n in median])
        axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(right=3 * max(median.values()))
        axes.set_xlabel("milliseconds")
        axes.set_title(name.split()[1], fontsize=10)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Turning q 1×32×2048×128 and k 1×8×2048×128", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The version of matplotlib would change the bytes of an equal picture.
    figure.savefig(path, metadata={"Software": None})
    return path


if __name__ == "__main__":
    print(draw())

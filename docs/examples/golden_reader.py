"""Hold angles in float32 to a golden file of posenc, with NumPy alone: golden_reader.py FILE."""

import json
import sys
from pathlib import Path

import numpy as np


def rotate(x, cos, sin, known):
    """Queries or keys (..., width) turned by cosines and sines (..., pairs)."""
    a, b, sign = x[..., known["first"]], x[..., known["second"]], known["sign"]
    turned = np.empty(np.broadcast_shapes(x.shape[:-1], cos.shape[:-1]) + x.shape[-1:], "f4")
    turned[..., known["first_out"]] = a * cos - sign * b * sin
    turned[..., known["second_out"]] = b * cos + sign * a * sin
    return turned


def differences(contract):
    """Yield the part, the position and the name of each number that is off, and how far."""
    for check in contract["checks"]:
        if check["check"] == "frequencies":
            known = check  # of the records of angles that follow
        if check["check"] != "angles" or "cos" not in check:
            continue
        position = np.array(check["position"], "f4")[known["axis"]] + np.float32(known["start"])
        angles = position * np.array(known["frequencies_float32"], "f4")
        factor = np.float32(known["attention_factor"])
        cos, sin = factor * np.cos(angles), factor * np.sin(angles)
        query = rotate(np.array(known["query"], "f4"), cos, sin, known)
        bounds = check["tolerance_float32"], check["rotated_tolerance_float32"]
        mine = ("cos", cos, bounds[0]), ("sin", sin, bounds[0]), ("rotated_query", query, bounds[1])
        for name, got, bound in mine:
            off = float(np.abs(got - np.array(check[name])).max())
            yield check["part"], check["position"], name, off, bound


if __name__ == "__main__":
    contract = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if (contract["format"], contract["version"]) != ("posenc contract", 1):
        sys.exit("not a golden file of version 1")
    rows = list(differences(contract))
    wrong = [row for row in rows if not row[3] <= row[4]]
    for part, position, name, off, bound in wrong:
        print(f"{part}: {name} at position {position} is off by {off:.3g}, allowed {bound:.3g}")
    print(f"{len(rows)} arrays compared, {len(wrong)} differ")
    sys.exit(bool(wrong) or not rows)

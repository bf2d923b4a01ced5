"""Hold angles in float32 to a golden file of posenc, with NumPy alone: golden_reader.py FILE."""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np

UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
PLACE = ("check", "part", "state", "length", "case", "position", "positions", "q_positions")


def contract_of(data):
    """The contract in the bytes of a file, or `ValueError` if it is not whole."""
    contract = json.loads(data)
    if contract["format"] != "posenc contract" or contract["version"] not in (1, 2):
        raise ValueError("not a golden file of version 1 or 2")
    if contract["version"] == 2:
        end = re.fullmatch(rb'"sha256": "([0-9a-f]{64})"\n}\n', data[-79:])
        if end is None or hashlib.sha256(data[:-79]).hexdigest().encode() != end[1]:
            raise ValueError("cut or changed: the digest at the end is not that of what precedes")
        if len(contract["checks"]) != contract["records"]:
            raise ValueError("not as many records as stated")
    places = {json.dumps([check.get(key) for key in PLACE]) for check in contract["checks"]}
    if len(places) != len(contract["checks"]):
        raise ValueError("a record stands twice")
    return contract


def rotate(x, cos, sin, known):
    """Queries or keys (..., width) turned by cosines and sines (..., pairs)."""
    a, b, sign = x[..., known["first"]], x[..., known["second"]], known["sign"]
    turned = np.empty(np.broadcast_shapes(x.shape[:-1], cos.shape[:-1]) + x.shape[-1:], "f4")
    turned[..., known["first_out"]] = a * cos - sign * b * sin
    turned[..., known["second_out"]] = b * cos + sign * a * sin
    return turned


def bounds_of(check, angles, known):
    """The tolerances of a record, which may not be wider than the rule of docs/golden.md."""
    f = np.abs(np.array(known["frequencies"]))
    size = np.abs(angles.astype("f8")) * (4 + np.abs(np.log(np.where(f == 0, 1, f)))) + 2
    m, unit = abs(known["attention_factor"]), 2.0**-24
    own = m * unit * float(size.max())
    stated = check["tolerance_float32"], check["rotated_tolerance_float32"]
    for bound, most in zip(stated, (own, 2 * (own + 3 * m * unit)), strict=True):
        if not 0 <= bound <= most * 1.001:
            raise ValueError(f"a tolerance of {bound} at position {check['position']}")
    return stated


def differences(contract):
    """Yield the part, the position and the name of each number that is off, and how far."""
    known = {}
    for check in contract["checks"]:
        if check["check"] == "frequencies":
            known = check  # of the records of angles that follow
        if check["check"] != "angles" or "cos" not in check:
            continue
        if any(check[key] != known[key] for key in ("part", "state")):
            raise ValueError("angles without their frequencies")
        position = np.array(check["position"], "f4")[known["axis"]] + np.float32(known["start"])
        angles = position * np.array(known["frequencies_float32"], "f4")
        factor = np.float32(known["attention_factor"])
        cos, sin = factor * np.cos(angles), factor * np.sin(angles)
        query = rotate(np.array(known["query"], "f4"), cos, sin, known)
        bounds = bounds_of(check, angles, known)
        mine = ("cos", cos, bounds[0]), ("sin", sin, bounds[0]), ("rotated_query", query, bounds[1])
        for name, got, bound in mine:
            if got.shape != np.shape(check[name]):
                raise ValueError(f"another number of values of {name}")
            off = float(np.abs(got - np.array(check[name])).max())
            yield check["part"], check["position"], name, off, bound


if __name__ == "__main__":
    try:
        rows = list(differences(contract_of(Path(sys.argv[1]).read_bytes())))
    except UNREADABLE as error:
        sys.exit(f"{sys.argv[1]}: no golden file that is whole: {error!r:.200}")
    wrong = [row for row in rows if not row[3] <= row[4]]
    for part, position, name, off, bound in wrong:
        print(f"{part}: {name} at position {position} is off by {off:.3g}, allowed {bound:.3g}")
    print(f"{len(rows)} arrays compared, {len(wrong)} differ")
    sys.exit(bool(wrong) or not rows)

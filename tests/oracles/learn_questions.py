"""The answers of the questions, and what else their texts name, given what was drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from tests.oracles.learn_formulas import (
    TAU,
    collision,
    entry,
    frequency,
    matching,
    only,
    similarity,
    slope,
    t5_bucket,
    wavelength,
    wavelengths,
    yarn,
)

Drawn = Mapping[str, Any]


def _t5_alone(buckets: int, most: int) -> int:
    found = [t5_bucket(d, buckets, most) for d in range(4 * most)]
    return sum(found.count(b) == 1 for b in found)


def _ramp(x: Drawn) -> str:
    paper, code = (yarn(x["d"], 1e4, x["factor"], x["length"], r) for r in ("turns", "index"))
    difference = paper[x["pair"]] - code[x["pair"]]
    return "alike" if abs(difference) < 1e-6 else "paper" if difference > 0 else "code"


def _partner(x: Drawn) -> int:
    if x["layout"] == "interleaved":
        return x["c"] ^ 1
    return (x["c"] + x["d"] // 2) % x["d"]


def _misprint(x: Drawn) -> int:
    printed = [float(word) for word in x["shown"].split()]
    off = [abs(v - entry(x["p"], j, x["d"], x["n"])) for j, v in enumerate(printed)]
    return only([j for j, error in enumerate(off) if error > 0.00501])


def _slip(x: Drawn) -> str:
    pair = x["at"] // 2
    exponents = {
        "none": 2 * pair / x["d"],
        "half": pair / x["d"],
        "one-less": pair / (x["d"] // 2 - 1),
    }
    return only(
        [k for k, e in exponents.items() if f"{math.sin(x['p'] / x['n'] ** e):.6f}" == x["value"]]
    )


# The distinctive words of titles, as the papers have them.
TITLES = {
    "RoFormer": "RoPE",
    "Train Short, Test Long": "ALiBi",
    "Unified Text-to-Text": "T5",
    "Attention Is All You Need": "Sinusoidal",
    "Kernelized Relative": "KERPLE",
    "Functional Interpolation": "FIRE",
    "Length-Extrapolatable": "XPos",
}


def _encoding_of(title: str) -> str:
    return only([name for words, name in TITLES.items() if words in title])


ANSWERS: dict[tuple[str, str], Callable[[Drawn], Any]] = {
    ("why", "swap"): lambda x: "rows",
    ("why", "swap-with-positions"): lambda x: "no",
    ("why", "orders"): lambda x: math.factorial(x["words"]),
    ("why", "mask"): lambda x: "can",
    ("formula", "value"): lambda x: entry(x["p"], x["j"], x["d"], x["n"]),
    ("formula", "exponent"): lambda x: "twice",
    ("formula", "pair"): lambda x: x["j"] // 2,
    ("formula", "odd-width"): lambda x: len(range(0, x["d"], 2)),
    ("formula", "bounded"): lambda x: 1,
    ("adding", "width-added"): lambda x: x["d"],
    ("adding", "width-appended"): lambda x: x["d"] + x["k"],
    ("adding", "length"): lambda x: math.sqrt(x["d"] / 2),
    ("adding", "scale"): lambda x: math.sqrt(x["d"]),
    ("adding", "more-weights"): lambda x: x["k"] * x["h"],
    ("frequencies", "which-end"): lambda x: "first",
    ("frequencies", "last-wavelength"): lambda x: TAU * x["n"] ** ((x["d"] - 2) / x["d"]),
    ("frequencies", "wavelength-of-dimension"): lambda x: wavelength(x["j"] // 2, x["d"], x["n"]),
    ("frequencies", "narrower"): lambda x: "longer",
    ("frequencies", "turning"): lambda x: sum(
        w <= x["length"] for w in wavelengths(x["d"], x["n"])
    ),
    ("frequencies", "ratio"): lambda x: x["n"] ** (2 / x["d"]),
    ("binary", "period"): lambda x: 2 ** (x["bit"] + 1),
    ("binary", "flips"): lambda x: sum(
        a != b for a, b in zip(f"{x['p']:016b}", f"{x['p'] + 1:016b}", strict=True)
    ),
    ("binary", "doubling-base"): lambda x: round(2 ** (x["d"] / 2)),
    ("binary", "neighbours"): lambda x: "same",
    ("offsets", "elsewhere"): lambda x: "offset",
    ("offsets", "itself"): lambda x: x["d"] // 2,
    ("offsets", "decays"): lambda x: "trend",
    ("offsets", "angle"): lambda x: x["k"] * frequency(x["i"], x["d"], x["n"]),
    ("offsets", "back"): lambda x: "transposed",
    ("extrapolation", "which-statement"): lambda x: "defined",
    ("extrapolation", "unseen"): lambda x: sum(
        w > x["length"] for w in wavelengths(x["d"], x["n"])
    ),
    ("extrapolation", "learned-end"): lambda x: x["length"] - 1,
    ("extrapolation", "collision"): lambda x: collision(x["d"], x["n"], x["dtype"])[1],
    ("learned", "parameters"): lambda x: x["d"] * x["length"],
    ("learned", "fixed-parameters"): lambda x: 0,
    ("learned", "beyond"): lambda x: "fixed",
    ("learned", "untrained"): lambda x: "sinusoidal",
    ("rope", "both-moved"): lambda x: "same",
    ("rope", "angle"): lambda x: x["p"] * frequency(x["i"], x["d"], x["n"]),
    ("rope", "partner"): _partner,
    ("rope", "norm"): lambda x: x["length"],
    ("rope", "layouts"): lambda x: "same" if x["p"] == 0 else "other",
    ("biases", "alibi-distance"): lambda x: -x["far"] * slope(x["head"], x["heads"]),
    ("biases", "farthest-head"): lambda x: "last",
    ("biases", "slope"): lambda x: 2.0**-8,
    ("biases", "t5-shared"): lambda x: _t5_alone(x["buckets"], x["most"]),
    ("biases", "t5-bucket"): lambda x: (
        "no"
        if t5_bucket(x["near"], 32, 128) == t5_bucket(x["near"] + x["step"], 32, 128)
        else "yes"
    ),
    ("models", "nope-layers"): lambda x: x["layers"] // 4,
    ("models", "global-layers"): lambda x: (
        x["layers"] // 6 if x["name"] == "gemma3" else -(-x["layers"] // 3)
    ),
    ("models", "which-base"): lambda x: "global",
    ("models", "paper"): lambda x: "it" if _encoding_of(x["title"]) == x["encoding"] else None,
    ("stretching", "slow-pairs"): lambda x: "whole",
    ("stretching", "fast-pairs"): lambda x: "yarn",
    ("stretching", "ntk-base"): lambda x: x["n"] * x["factor"] ** (x["d"] / (x["d"] - 2)),
    ("stretching", "ramp"): _ramp,
    ("stretching", "attention-factor"): lambda x: 0.1 * math.log(x["factor"]) + 1,
    ("inverse", "from-a-value"): lambda x: only(
        matching({x["at"]: x["value"]}, x["d"], x["n"], x["limit"], 4)
    ),
    ("inverse", "from-a-row"): lambda x: only(
        matching(dict(enumerate(x["shown"].split())), x["d"], x["n"], x["limit"], 2)
    ),
    ("inverse", "convention"): _slip,
    ("inverse", "sine-alone"): lambda x: len(
        matching({x["at"]: x["value"]}, x["d"], x["n"], x["limit"], 2)
    ),
    ("mistakes", "true-statement"): lambda x: "grows",
    ("mistakes", "misprint"): _misprint,
    ("mistakes", "blank-columns"): lambda x: (
        2 * sum(w < 2 * x["rows"] / x["pixels"] for w in wavelengths(x["d"]))
    ),
    ("mistakes", "which-word"): lambda x: ["first", "second", "third", "fourth"][
        only(matching({x["at"]: x["value"]}, x["d"], x["n"], len(x["sentence"].split()) - 1, 2))
    ],
}


def _print(p: int, j: int, x: Drawn, digits: int) -> str:
    return f"{entry(p, j, x['d'], x['n']):.{digits}f}"


def _decays(x: Drawn) -> dict[str, Any]:
    falls = [similarity(k, x["d"]) for k in range(x["far"] + 1)]
    rises = [later > earlier for earlier, later in itertools.pairwise(falls)]
    return {"low": rises.index(True), "share": sum(rises) / len(rises)}


def _shown_misprint(x: Drawn) -> dict[str, Any]:
    row = [round(entry(x["p"], j, x["d"], x["n"]), 2) for j in range(x["d"])]
    correct = f"{row[x['bad']]:.2f}"
    row[x["bad"]] += x["off"]
    shown = " ".join(f"{value:.2f}" for value in row)
    return {"shown": shown, "correct": correct, "wrong": f"{row[x['bad']]:.2f}"}


def _slipped(x: Drawn) -> dict[str, Any]:
    pair = x["at"] // 2
    slip = {"d": pair / x["d"], "n-1": pair / (x["d"] // 2 - 1)}[x["slip"]]
    return {
        "value": f"{math.sin(x['p'] / x['n'] ** slip):.6f}",
        "stated": f"{math.sin(x['p'] / x['n'] ** (2 * pair / x['d'])):.6f}",
    }


def _words(x: Drawn) -> dict[str, Any]:
    words = [*x["sentence"].split(), "none of these"]
    names = ("first", "second", "third", "fourth")
    return dict(zip(names, words, strict=False)) | {"value": _print(x["p"], x["at"], x, 2)}


PATTERNS = {
    "llama4": "rope rope rope nope",
    "smollm3": "rope rope rope nope",
    "gemma3": "local local local local local global",
    "modernbert": "global local local",
}

# What the texts of a question name beside what was drawn, given its draw.
SAID: dict[tuple[str, str], Callable[[Drawn], dict[str, Any]]] = {
    ("formula", "value"): lambda x: {
        "pair": x["j"] // 2,
        "function": ("sine", "cosine")[x["j"] % 2],
        "angle": x["p"] * frequency(x["j"] // 2, x["d"], x["n"]),
    },
    ("formula", "exponent"): lambda x: {
        "slip": TAU * x["n"] ** ((x["d"] / 2 - 1) / x["d"]),
        "last": wavelength(x["d"] // 2 - 1, x["d"], x["n"]),
    },
    ("frequencies", "which-end"): lambda x: {
        "first": TAU,
        "last": wavelength(x["d"] // 2 - 1, x["d"], x["n"]),
    },
    ("frequencies", "last-wavelength"): lambda x: {
        "full": TAU * x["n"],
        "short": f"{x['d'] - 2}/{x['d']}",
    },
    ("frequencies", "wavelength-of-dimension"): lambda x: {"pair": x["j"] // 2},
    ("frequencies", "narrower"): lambda x: {
        "half": x["d"] // 2,
        "wide_text": f"{wavelength(x['i'], x['d'], x['n']):,.2f}",
        "narrow_text": f"{wavelength(x['i'], x['d'] // 2, x['n']):,.2f}",
    },
    ("frequencies", "turning"): lambda x: {"pairs": x["d"] // 2},
    ("binary", "flips"): lambda x: {"next": x["p"] + 1},
    ("offsets", "elsewhere"): lambda x: {
        "q": x["p"] + x["k"],
        "end": x["far"] + x["k"],
        "wrong": x["far"] + x["k"] + 1,
        "double": 2 * x["p"],
        "twice": 2 * (x["p"] + x["k"]),
    },
    ("offsets", "decays"): _decays,
    ("extrapolation", "which-statement"): lambda x: {
        "far": x["length"] * x["factor"],
        "unseen": sum(w > x["length"] for w in wavelengths(x["d"])),
    },
    ("extrapolation", "unseen"): lambda x: {"pairs": x["d"] // 2},
    ("extrapolation", "collision"): lambda x: {"first": collision(x["d"], x["n"], x["dtype"])[0]},
    ("learned", "beyond"): lambda x: {"far": x["length"] + x["more"]},
    ("biases", "alibi-distance"): lambda x: {"slope": slope(x["head"], x["heads"])},
    ("biases", "t5-bucket"): lambda x: {
        "far": x["near"] + x["step"],
        "one": t5_bucket(x["near"], 32, 128),
        "other": t5_bucket(x["near"] + x["step"], 32, 128),
    },
    ("models", "nope-layers"): lambda x: {"pattern": PATTERNS[x["name"]]},
    ("models", "global-layers"): lambda x: {"pattern": PATTERNS[x["name"]]},
    ("models", "paper"): lambda x: {"title": x["title"], "one": x["one"], "two": x["two"]},
    ("stretching", "ntk-base"): lambda x: {"short": f"{x['d']}/{x['d'] - 2}"},
    ("inverse", "from-a-value"): lambda x: {"value": _print(x["p"], x["at"], x, 4)},
    ("inverse", "from-a-row"): lambda x: {
        "shown": " ".join(_print(x["p"], j, x, 2) for j in range(4))
    },
    ("inverse", "convention"): _slipped,
    ("inverse", "sine-alone"): lambda x: {"value": _print(x["p"], x["at"], x, 2)},
    ("mistakes", "misprint"): _shown_misprint,
    ("mistakes", "blank-columns"): lambda x: {"covers": x["rows"] / x["pixels"]},
    ("mistakes", "which-word"): _words,
}

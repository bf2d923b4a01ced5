"""The answers of the questions, and what else their texts name, given what was drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.oracles.learn_formulas import (
    TAU,
    entry,
    frequency,
    matching,
    only,
    slope,
    t5_bucket,
    wavelength,
    wavelengths,
)

Drawn = Mapping[str, Any]


def _rule(x: Drawn) -> str:
    rules = ["linear interpolation", "NTK", "YaRN"]
    return "abc"[x["order"].index(rules.index(x["rule"]))]


def _weight(x: Drawn) -> float:
    return math.exp(x["a"]) / sum(math.exp(x[name]) for name in "abc")


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
    ("attention", "weight"): lambda x: _weight(x),
    ("attention", "which-sharper"): lambda x: "abc"[x["order"].index(4)],
    ("why", "swap"): lambda x: "rows",
    ("why", "mask"): lambda x: "can",
    ("formula", "value"): lambda x: entry(x["p"], x["j"], x["d"], x["n"]),
    ("formula", "exponent"): lambda x: "twice",
    ("formula", "which-dimension"): lambda x: "abc"[x["order"].index(1)],
    ("adding", "length"): lambda x: math.sqrt(x["d"] / 2),
    ("adding", "more-weights"): lambda x: x["k"] * x["h"],
    ("frequencies", "which-end"): lambda x: "first",
    ("frequencies", "last-wavelength"): lambda x: TAU * x["n"] ** ((x["d"] - 2) / x["d"]),
    ("frequencies", "narrower"): lambda x: "longer",
    ("binary", "flips"): lambda x: sum(
        a != b for a, b in zip(f"{x['p']:016b}", f"{x['p'] + 1:016b}", strict=True)
    ),
    ("binary", "neighbours"): lambda x: "same",
    ("offsets", "elsewhere"): lambda x: "offset",
    # The sinusoidal table is the first of those drawn from.
    ("offsets", "which-curve"): lambda x: "abc"[x["order"].index(0)],
    ("extrapolation", "which-statement"): lambda x: "defined",
    ("extrapolation", "unseen"): lambda x: sum(
        w > x["length"] for w in wavelengths(x["d"], x["n"])
    ),
    ("learned", "beyond"): lambda x: "fixed",
    ("learned", "untrained"): lambda x: "sinusoidal",
    ("rope", "both-moved"): lambda x: "same",
    ("rope", "partner"): _partner,
    ("rope", "layouts"): lambda x: "same" if x["p"] == 0 else "other",
    ("rope", "by-hand"): lambda x: (
        x["x"] * math.cos(x["p"] * x["w"]) - x["y"] * math.sin(x["p"] * x["w"])
    ),
    ("rope", "which-score"): lambda x: "abc"[x["order"].index(1)],
    ("biases", "alibi-distance"): lambda x: -x["far"] * slope(x["head"], x["heads"]),
    ("biases", "t5-bucket"): lambda x: (
        "no"
        if t5_bucket(x["near"], 32, 128) == t5_bucket(x["near"] + x["step"], 32, 128)
        else "yes"
    ),
    ("biases", "which-head"): lambda x: "abc"[x["order"].index(1)],
    ("grids", "text-goes-on"): lambda x: x["before"] + max(x["h"], x["w"]),
    ("grids", "which-channel"): lambda x: "abc"[x["order"].index(1)],
    ("models", "nope-layers"): lambda x: x["layers"] // 4,
    ("models", "paper"): lambda x: "it" if _encoding_of(x["title"]) == x["encoding"] else None,
    ("stretching", "slow-pairs"): lambda x: "whole",
    ("stretching", "ntk-base"): lambda x: x["n"] * x["factor"] ** (x["d"] / (x["d"] - 2)),
    ("stretching", "which-rule"): _rule,
    ("inverse", "from-a-value"): lambda x: only(
        matching({x["at"]: x["value"]}, x["d"], x["n"], x["limit"], 4)
    ),
    ("inverse", "convention"): _slip,
    ("inverse", "sine-alone"): lambda x: len(
        matching({x["at"]: x["value"]}, x["d"], x["n"], x["limit"], 2)
    ),
    ("mistakes", "true-statement"): lambda x: "grows",
    ("mistakes", "misprint"): _misprint,
    ("mistakes", "which-word"): lambda x: ["first", "second", "third", "fourth"][
        only(matching({x["at"]: x["value"]}, x["d"], x["n"], len(x["sentence"].split()) - 1, 2))
    ],
}


def _print(p: int, j: int, x: Drawn, digits: int) -> str:
    return f"{entry(p, j, x['d'], x['n']):.{digits}f}"


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


def _sharpest(x: Drawn) -> dict[str, Any]:
    scores = 4 * np.random.default_rng(x["seed"]).normal(size=x["n"])
    return {"most": max(np.exp(scores)) / sum(np.exp(scores))}


PATTERNS = {
    "llama4": "rope rope rope nope",
    "smollm3": "rope rope rope nope",
    "gemma3": "local local local local local global",
    "modernbert": "global local local",
}

# What the texts of a question name beside what was drawn, given its draw.
SAID: dict[tuple[str, str], Callable[[Drawn], dict[str, Any]]] = {
    ("attention", "weight"): lambda x: {
        "top": math.exp(x["a"]),
        "sum": sum(math.exp(x[name]) for name in "abc"),
    },
    ("attention", "which-sharper"): _sharpest,
    ("formula", "which-dimension"): lambda x: {
        "wave": wavelength(x["j"] // 2, x["d"], x["n"]),
        "fast": TAU,
        "slow": wavelength(5, x["d"], x["n"]),
    },
    ("rope", "by-hand"): lambda x: {"angle": x["p"] * x["w"]},
    ("biases", "which-head"): lambda x: {
        "asked": 2,
        "one": slope(1, x["heads"]),
        "two": slope(2, x["heads"]),
    },
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
    ("frequencies", "narrower"): lambda x: {
        "half": x["d"] // 2,
        "wide_text": f"{wavelength(x['i'], x['d'], x['n']):,.2f}",
        "narrow_text": f"{wavelength(x['i'], x['d'] // 2, x['n']):,.2f}",
    },
    ("binary", "flips"): lambda x: {"next": x["p"] + 1},
    ("offsets", "elsewhere"): lambda x: {
        "q": x["p"] + x["k"],
        "end": x["far"] + x["k"],
        "wrong": x["far"] + x["k"] + 1,
        "double": 2 * x["p"],
        "twice": 2 * (x["p"] + x["k"]),
    },
    ("extrapolation", "which-statement"): lambda x: {
        "far": x["length"] * x["factor"],
        "unseen": sum(w > x["length"] for w in wavelengths(x["d"])),
    },
    ("extrapolation", "unseen"): lambda x: {"pairs": x["d"] // 2},
    ("learned", "beyond"): lambda x: {"far": x["length"] + x["more"]},
    ("biases", "alibi-distance"): lambda x: {"slope": slope(x["head"], x["heads"])},
    ("biases", "t5-bucket"): lambda x: {
        "far": x["near"] + x["step"],
        "one": t5_bucket(x["near"], 32, 128),
        "other": t5_bucket(x["near"] + x["step"], 32, 128),
    },
    ("models", "nope-layers"): lambda x: {"pattern": PATTERNS[x["name"]]},
    ("models", "paper"): lambda x: {"title": x["title"], "one": x["one"], "two": x["two"]},
    ("stretching", "ntk-base"): lambda x: {"short": f"{x['d']}/{x['d'] - 2}"},
    ("inverse", "from-a-value"): lambda x: {"value": _print(x["p"], x["at"], x, 4)},
    ("inverse", "convention"): _slipped,
    ("inverse", "sine-alone"): lambda x: {"value": _print(x["p"], x["at"], x, 2)},
    ("mistakes", "misprint"): _shown_misprint,
    ("mistakes", "which-word"): _words,
}

"""What the lessons, the questions and the tour should say, worked out from the papers' formulas.

Plain loops and NumPy; posenc is never imported. A number that is a fact about somebody's model was
read in the configuration classes of transformers 5.23.0, those named beside it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

TAU = 2 * math.pi


def frequency(i: int, d: int, n: float = 10_000.0) -> float:
    return n ** (-2 * i / d)


def wavelength(i: int, d: int, n: float = 10_000.0) -> float:
    return TAU / frequency(i, d, n)


def wavelengths(d: int, n: float = 10_000.0) -> list[float]:
    return [wavelength(i, d, n) for i in range(d // 2)]


def entry(p: int, j: int, d: int, n: float = 10_000.0) -> float:
    angle = p * frequency(j // 2, d, n)
    return math.cos(angle) if j % 2 else math.sin(angle)


def row(p: int, d: int, n: float = 10_000.0) -> list[float]:
    return [entry(p, j, d, n) for j in range(d)]


def table(length: int, d: int, n: float = 10_000.0) -> np.ndarray:
    return np.array([row(p, d, n) for p in range(length)])


def similarity(k: int, d: int, n: float = 10_000.0) -> float:
    return math.fsum(math.cos(k * frequency(i, d, n)) for i in range(d // 2))


def attend(x: np.ndarray) -> np.ndarray:
    mixed = []
    for query in x:
        weights = [math.exp(sum(query * key) / math.sqrt(len(query))) for key in x]
        mixed.append(sum(w * key for w, key in zip(weights, x, strict=True)) / sum(weights))
    return np.array(mixed)


def slope(head: int, heads: int) -> float:
    """Of head 1, 2, …; heads a power of two."""
    return 2.0 ** (-8 * head / heads)


def t5_bucket(distance: int, buckets: int, most: int) -> int:
    """The bucket of a key so far back, of a decoder."""
    exact = buckets // 2
    if distance < exact:
        return distance
    part = math.log(distance / exact) / math.log(most / exact)
    return min(buckets - 1, exact + int(part * (buckets - exact)))


def yarn(d: int, n: float, factor: float, length: int, ramp: str) -> list[float]:
    """By how much each pair is slowed."""
    slowed = []

    def index(turns: float) -> float:
        return d * math.log(length / (turns * TAU)) / (2 * math.log(n))

    low, high = max(math.floor(index(32)), 0), min(math.ceil(index(1)), d - 1)
    for i in range(d // 2):
        if ramp == "turns":
            turns = length / wavelength(i, d, n)
            share = 1 - min(max((turns - 1) / (32 - 1), 0), 1)
        else:
            share = min(max((i - low) / (high - low), 0), 1)
        slowed.append(1 / (1 - share + share / factor))
    return slowed


def bfloat16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def collision(d: int, n: float, dtype: str, limit: int = 200_000) -> tuple[int, int]:
    """The first row that repeats an earlier one once rounded, and which one it repeats."""
    angles = np.arange(limit)[:, None] * np.array([frequency(i, d, n) for i in range(d // 2)])
    rows = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    rounded = bfloat16(rows) if dtype == "bfloat16" else rows.astype(np.float16).view(np.uint16)
    seen: dict[bytes, int] = {}
    for p, key in enumerate(map(bytes, rounded)):
        if key in seen:
            return seen[key], p
        seen[key] = p
    raise AssertionError("every row is distinct")


def matching(values: Mapping[int, str], d: int, n: float, limit: int, digits: int) -> list[int]:
    """Positions from 0 to the limit whose entries print as these."""
    return [
        p
        for p in range(limit + 1)
        if all(f"{entry(p, j, d, n):.{digits}f}" == text for j, text in values.items())
    ]


def only(found: list[int]) -> int:
    assert len(found) == 1, found
    return found[0]


# --- lessons --------------------------------------------------------------------------------------


def _moved() -> float:
    x = np.random.default_rng(0).normal(size=(3, 16))
    swapped, pe = [2, 1, 0], table(3, 16)
    return float(abs(attend(x[swapped] + pe) - attend(x + pe)[swapped]).max())


def _first_stated() -> int:
    p = np.arange(1_000_000)
    values = np.sin(p / 10_000.0 ** (1088 / 5120))
    return int(np.flatnonzero(np.round(values, 6) == 0.488814)[0])


def _chance() -> float:
    low, high = 0.488814, 0.488815  # digits that were cut
    density = 2 * (math.asin(high) - math.asin(low)) / TAU
    return 1 / (8 * 62 * density)  # positions up to 7, and the conventions tried


def _drawn_and_true() -> tuple[float, float]:
    drawn = max(abs(math.sin(int(k * (45_000 / 670)))) for k in range(670))
    sines = np.sin(np.arange(45_000))
    means = [abs(sines[a : a + 67].mean()) for a in range(0, 45_000 - 67, 67)]
    return drawn, max(means)


def _falls() -> tuple[int, float]:
    falls = [similarity(k, 512) for k in range(513)]
    rises = [later > earlier for earlier, later in itertools.pairwise(falls)]
    return rises.index(True), sum(rises) / len(rises)


def facts() -> dict[str, list[dict[str, Any]]]:
    """The value of each fact of each section of each lesson."""
    low, share = _falls()
    code, paper = (yarn(128, 1e4, 8, 4096, ramp) for ramp in ("index", "turns"))
    unseen = sum(w > 4096 for w in wavelengths(128))
    drawn, mean = _drawn_and_true()
    moves = abs(np.diff(table(1000, 64), axis=0)).mean(axis=0)
    last_512 = TAU * 10_000 ** (510 / 512)
    step_8 = math.sqrt(sum(2 - 2 * math.cos(frequency(i, 8)) for i in range(4)))
    return {
        "why": [{"words": 3, "orders": 6}, {"moved": _moved()}, {}],
        "formula": [
            {
                "base": 10_000,
                "sine": 0,
                "cosine": 1,
                "first_sine": math.sin(1),
                "first_cosine": math.cos(1),
                "second_sine": math.sin(0.01),
                "ratio": 100,
            },
            {"d": 16, "n": 100, "at": 3, "right": math.cos(2 / 100 ** (2 / 16))},
            {"odd": 5, "sines": 3, "cosines": 2, "dtype": "float32"},
        ],
        "adding": [
            {
                "position": 2,
                "d": 16,
                "embedding": 0.02,
                "encoding": math.sin(2),
                "first": 0.02 + math.sin(2),
            },
            {"d": 512, "factor": math.sqrt(512), "norm": 16},
            {"extra": 8, "d": 16, "more": 0.5},
        ],
        "frequencies": [
            {
                "first": TAU,
                "ratio": 10_000 ** (2 / 512),
                "d": 512,
                "last": last_512,
                "full": TAU * 10_000,
            },
            {
                "index": 6,
                "d": 50,
                "of_pair": TAU * 10_000 ** (12 / 50),
                "pair": 3,
                "of_dimension": TAU * 10_000 ** (6 / 50),
                "apart": 10_000 ** (6 / 50),
            },
            {
                "i": 2,
                "length": 128,
                "narrow": sum(w < 128 for w in wavelengths(16)),
                "pairs_narrow": 8,
                "d_narrow": 16,
                "wide": sum(w < 128 for w in wavelengths(512)),
                "pairs_wide": 256,
                "d_wide": 512,
            },
        ],
        "binary": [
            {"bits": 8, "position": 150, "digits": "10010110", "d": 8},
            {"base": 10_000, "d": 8, "doubling": 16, "shortest": TAU, "fastest": 2, "next": 4},
            {
                "before": 127,
                "after": 128,
                "flips": 8,
                "even": 128,
                "odd": 129,
                "step": step_8,
                "d": 8,
            },
        ],
        "offsets": [
            {"entries": 16, "pairs": 4},
            {"d": 512, "zero": 256, "ten": similarity(10, 512)},
            {"d": 512, "low": low, "next": low + 1, "far": 512, "share": share},
        ],
        "extrapolation": [
            {"last": 1023},
            {
                "d": 4,
                "first": collision(4, 10_000, "bfloat16")[0],
                "second": collision(4, 10_000, "bfloat16")[1],
                "searched": 2**20,
            },
            {"d": 128, "n": 10_000, "trained": 4096, "slow": unseen, "pairs": 64},
        ],
        "learned": [
            {"length": 1024, "d": 512, "count": 1024 * 512, "none": 0},
            {},
            {"offset": 2},  # OPTLearnedPositionalEmbedding, create_position_ids_from_input_ids
        ],
        "rope": [
            {"pair": 3, "p": 40, "d": 64, "angle": 40 * frequency(3, 64)},
            {"offset": -7},
            {"d": 64, "c": 5, "partner": 37},
        ],
        "biases": [
            {
                "far": 100,
                "heads": 8,
                "first": -100 * slope(1, 8),
                "last": -100 * slope(8, 8),
                "drop": 50,
                "parameters": 0,
            },
            {"heads": 8, "odd": 12, "paper": slope(1, 8), "formula": 2 ** (-8 / 12)},
            {
                "buckets": 32,
                "far": 128,
                "shared": 128,
                "beyond": 10_000,
                "bucket": t5_bucket(128, 32, 128),
                "one": 1,
            },
        ],
        "models": [
            # Llama4TextConfig: num_hidden_layers, no_rope_layer_interval, floor_scale
            {"layers": 48, "generation": "4", "without": 48 // 4, "chunk": 8192},
            # Gemma3TextConfig and ModernBertConfig: layers, every sixth and every third, the bases
            {
                "generation": "3",
                "local": 26 - 26 // 6,
                "whole": 26 // 6,
                "local_base": 1e4,
                "global_base": 1e6,
                "times": (1e6 / 1e4) ** (254 / 256),
                "encoder_global": -(-22 // 3),
                "encoder_layers": 22,
            },
            {"plans": 19, "rotary": 14},
        ],
        "stretching": [
            {
                "d": 128,
                "n": 10_000,
                "trained": 4096,
                "factor": 8,
                "first": 8,
                "before": 1,
                "step": 0.125,
                "kept": sum(s == 1 for s in code),
                "slow": sum(math.isclose(s, 8) for s in code),
                "between": sum(1 < s < 7.999 for s in code),
            },
            {"unseen": unseen, "pairs": 64, "trained": 4096, "longer": 8 * 4096},
            {
                "pair": 36,
                "paper": paper[36],
                "code": code[36],
                "attention": 0.1 * math.log(8) + 1,
            },
        ],
        "inverse": [
            {
                "d": 16,
                "n": 100,
                "value": 0.85,
                "at": 3,
                "pair": 1,
                "slow": 100 ** (2 / 16),
                "exact": 100 ** (2 / 16) * math.acos(0.85),
                "rounded": 1,
                "word": "the",
                "book": 2,
                "others": ", ".join(map(str, matching({3: "0.85"}, 16, 100, 600, 2)[1:4])),
            },
            {
                "searched": 1000,
                "p": 40,
                **{
                    name: len(
                        matching({j: f"{entry(40, j, 4):.2f}" for j in range(n)}, 4, 1e4, 1000, 2)
                    )
                    for name, n in (("sine", 1), ("pair", 2), ("all", 4))
                },
            },
            {
                "d": 5120,
                "n": 10_000,
                "value": "0.488814",
                "at": 1088,
                "expected": 7,
                "there": math.sin(7 / 10_000 ** (1088 / 5120)),
                "first": _first_stated(),
                "slip": math.sin(7 / 10_000 ** (544 / 5120)),
                "chance": _chance(),
            },
            {"back": 710, "turns": 113, "rest": abs(math.sin(710))},
        ],
        "mistakes": [
            {
                "zero": 0,
                "one": 1,
                "first": moves[0],
                "second": moves[1],
                "last": math.ceil(max(moves[-2:]) * 1e4) / 1e4,
            },
            {"d": 512, "last": last_512, "full": TAU * 10_000, "one": wavelength(1, 512)},
            {
                "right": math.cos(2 / 100 ** (2 / 16)),
                "inverse": 1,
                "wrong": "book",
                "word": "the",
            },
            {
                "rows": 45_000,
                "d": 50,
                "pixels": 670,
                "skip": 45_000 / 670,
                "columns": 2 * sum(w < 2 * 45_000 / 670 for w in wavelengths(50)),
                "drawn": drawn,
                "mean": mean,
                "blank": 2 * sum(w < 2 * 45_000 / 670 for w in wavelengths(50)),
            },
            {},
        ],
    }


# --- questions ------------------------------------------------------------------------------------

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


# --- the tour -------------------------------------------------------------------------------------


def stops() -> dict[str, tuple[str, dict[str, Any]]]:
    """The right option and the facts of each stop."""
    rows = table(128, 128)
    apart = [math.dist(row, rows[40]) for q, row in enumerate(rows) if q != 40]
    low, share = _falls()
    kept = sum(s == 1 for s in yarn(128, 1e4, 8, 4096, "index"))
    return {
        "fast-end": (
            "first",
            {
                "d": 128,
                "length": 128,
                "zero": 0,
                "last": 127,
                "fast": TAU,
                "slow": wavelength(63, 128),
            },
        ),
        "repeat": (
            "two",
            {
                "p": 40,
                "j": 21,
                "wave": wavelength(10, 128),
                "twice": 2 * wavelength(10, 128),
                "one": 66,
                "two": matching(
                    {20: f"{entry(40, 20, 128):.2f}", 21: f"{entry(40, 21, 128):.2f}"},
                    128,
                    1e4,
                    127,
                    2,
                )[1],
                "double": 80,
                "length": 128,
                "nearest": min(apart),
            },
        ),
        "last-wavelength": (
            "shorter",
            {
                "pairs": 64,
                "d": 128,
                "small": 16,
                "n": 10_000,
                "last": wavelength(63, 128),
                "short": wavelength(7, 16),
                "full": TAU * 10_000,
                "exponent": "14/16",
                "wide_one": wavelength(1, 128),
                "narrow_one": wavelength(1, 16),
            },
        ),
        "swap": ("same", {}),
        "distance": (
            "trend",
            {
                "d": 512,
                "zero": 256,
                "low": low,
                "next": low + 1,
                "share": share,
                "far": 512,
                "length": 513,
            },
        ),
        "rotate": (
            "each",
            {"m": 40, "n": 36, "by": 100, "pairs": 8, "difference": 4, "later": 140},
        ),
        "alibi": (
            "little",
            {
                "heads": 8,
                "far": 100,
                "first": -100 * slope(1, 8),
                "last": -100 * slope(8, 8),
                "eighth": -50 / 8,
                "more": -400,
                "steep": slope(1, 8),
                "flat": slope(8, 8),
                "last_head": 7,
            },
        ),
        "yarn": (
            "divide",
            {
                "trained": 4096,
                "factor": 8,
                "unseen": sum(w > 4096 for w in wavelengths(128)),
                "pairs": 64,
                "kept": kept,
                "last": 127,
            },
        ),
        "find": (
            "other",
            {
                "d": 5120,
                "value": "0.488814",
                "at": 1088,
                "expected": 7,
                "there": math.sin(7 / 10_000 ** (1088 / 5120)),
                "first": _first_stated(),
            },
        ),
    }

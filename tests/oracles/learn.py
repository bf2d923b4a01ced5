"""What the lessons and the tour should say, worked out from the papers' formulas.

posenc is never imported. A number that is a fact about somebody's model was read in its published
config, whose keys are compared with the corpus, or in the class named beside it.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tests.oracles.learn_formulas import (
    TAU,
    attend,
    collision,
    entry,
    frequency,
    matching,
    similarity,
    slope,
    t5_bucket,
    table,
    wavelength,
    wavelengths,
    yarn,
)


def _moved() -> float:
    x = np.random.default_rng(0).normal(size=(3, 16))
    swapped, pe = [2, 1, 0], table(3, 16)
    return float(abs(attend(x[swapped] + pe) - attend(x + pe)[swapped]).max())


def _moved_by_rotation() -> int:
    """Words of five that get something else when two change places, turned pair by pair."""
    x = np.random.default_rng(0).normal(size=(5, 16))
    order = [2, 1, 0, 3, 4]

    def outputs(rows: np.ndarray) -> np.ndarray:
        turned = [
            [
                complex(row[2 * i], row[2 * i + 1]) * np.exp(1j * m * frequency(i, 16))
                for i in range(8)
            ]
            for m, row in enumerate(rows)
        ]
        scores = (np.array(turned) @ np.conj(turned).T).real / 4
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights @ rows / weights.sum(axis=1, keepdims=True)

    return int((abs(outputs(x[order]) - outputs(x)[order]).max(axis=1) > 1e-9).sum())


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


def _plain_number() -> dict[str, float]:
    length = math.hypot(*table(1, 64)[0])
    return {
        "far": 1000,
        "times": 1000 / length,
        "d": 64,
        "n_short": 10,
        "short": 0.1,
        "n_long": 1000,
        "long": 0.001,
    }


def _by_hand() -> dict[str, float]:
    """A query (3, 1) at position 2 and a key (2, 1) at position 1, turned by their positions."""
    qx, qy = 3 * math.cos(2) - math.sin(2), 3 * math.sin(2) + math.cos(2)
    kx, ky = 2 * math.cos(1) - math.sin(1), 2 * math.sin(1) + math.cos(1)
    stated = {"w": 1, "m": 2, "n": 1, "c": math.cos(2), "s": math.sin(2), "x": 3, "y": 1}
    keys = {"kx0": 2, "ky0": 1, "kx": kx, "ky": ky, "dot": 3 * 2 + 1 * 1, "cross": 3 * 1 - 1 * 2}
    return {**stated, **keys, "qx": qx, "qy": qy, "near": 7 * math.cos(1) + math.sin(1)}


def _falls() -> tuple[int, float]:
    falls = [similarity(k, 512) for k in range(513)]
    rises = [later > earlier for earlier, later in itertools.pairwise(falls)]
    return rises.index(True), sum(rises) / len(rises)


def facts() -> dict[str, list[dict[str, Any]]]:
    """The value of each fact of each section of each lesson."""
    low, share = _falls()
    code, paper = (yarn(128, 1e4, 8, 4096, ramp) for ramp in ("index", "turns"))
    unseen = sum(w > 4096 for w in wavelengths(128))
    trained_turns = [8192 / (TAU * 5e5 ** (2 * pair / 128)) for pair in range(64)]
    drawn, mean = _drawn_and_true()
    moves = abs(np.diff(table(1000, 64), axis=0)).mean(axis=0)
    last_512 = TAU * 10_000 ** (510 / 512)
    step_8 = math.sqrt(sum(2 - 2 * math.cos(frequency(i, 8)) for i in range(4)))
    return {
        "attention": [
            {"person": 0, "verb": 1, "q": 2, "d": 4},
            {
                "root": 2,
                "q0": 2,
                "k0": 2,
                "product": 4,
                "john": 2,
                "e_john": math.exp(2),
                "e_likes": 1,
                "e_jane": math.exp(3),
                "sum": math.exp(2) + 1 + math.exp(3),
                "w_john": math.exp(2) / (math.exp(2) + 1 + math.exp(3)),
                "w_likes": 1 / (math.exp(2) + 1 + math.exp(3)),
                "w_jane": math.exp(3) / (math.exp(2) + 1 + math.exp(3)),
                "v_john": 4,
                "v_likes": 0,
                "v_jane": 8,
                "out": (4 * math.exp(2) + 8 * math.exp(3)) / (math.exp(2) + 1 + math.exp(3)),
            },
            {},
            {"later": 100, "none": 3},
        ],
        "why": [{"words": 3, "orders": 6}, {"moved": _moved()}, _plain_number(), {}],
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
                "small_base": 100,
                "small": TAU * 100 ** (510 / 512),
                "base": 10_000,
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
            {},
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
            _by_hand(),
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
        "grids": [
            {"rows": 3, "columns": 4},
            {"half": 4, "row": 2, "down": 1, "right": 2},
            {},
            # mrope_section of the config
            {
                "before": 2,
                "h": 2,
                "w": 3,
                "behind": 2,
                "t": 16,
                "rows": 24,
                "columns": 24,
                "pairs": 64,
                "patches": 6,
                "step": 3,
            },
            {"image": 224, "patch": 16, "side": 224 // 16},
        ],
        "models": [
            {
                "billions": 8,
                "d": 4096 // 32,
                "hidden": 4096,
                "heads": 32,
                "base": 5e5,
                "trained": 8192,
                "factor": 8,
                "length": 131_072,
                # Between one and four turns in 8,192 positions pairs lie on the ramp.
                "kept": sum(turn >= 4 for turn in trained_turns),
                "between": sum(1 < turn < 4 for turn in trained_turns),
                "slow": sum(turn <= 1 for turn in trained_turns),
                "fast": 4,
                "product": 8 * 8192,
            },
            # Llama4TextConfig of transformers 5.23.0: no_rope_layer_interval 4, floor_scale 8192
            {
                "generation": "4",
                "layers": 48,
                "without": 48 // 4,
                "chunk": 8192,
                "base": 5e5,
                "factor": 16,
            },
            {
                "generation": "3",
                "billions": 27,
                "each": 5,
                "window": 1024,
                "local_base": 1e4,
                "global_base": 1e6,
                "linear": 8,
                "times": 8 * (1e6 / 1e4) ** (126 / 128),
                "size": 20,
                "oss_window": 128,
                "trained": 4096,
                "long": 131_072,
            },
            {"size": 7, "heads": 32, "buckets": 32, "sound": 1500, "rows": 448},
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
        ],
        "mistakes": [
            {
                "zero": 0,
                "one": 1,
                "first": moves[0],
                "second": moves[1],
                "last": math.ceil(max(moves[-2:]) * 1e4) / 1e4,
            },
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


# --- the tour -------------------------------------------------------------------------------------


def stops() -> dict[str, tuple[str, dict[str, Any]]]:
    """The right option and the facts of each stop."""
    rows = table(128, 128)
    apart = [math.dist(row, rows[40]) for q, row in enumerate(rows) if q != 40]
    low, share = _falls()
    kept = sum(s == 1 for s in yarn(128, 1e4, 8, 4096, "index"))
    return {
        "bag": ("none", {"dim": 64, "count": 5, "moved": _moved_by_rotation(), "shift": 100}),
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

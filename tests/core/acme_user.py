"""Somebody with `acme_positions` installed: parts that `test_register.py` runs, in processes."""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import posenc
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

CLOCKWORK = '{"type": "Clockwork", "dim": 6, "teeth": {"type": "Teeth", "count": 7}}'
HARMONIC = '{"type": "Harmonic", "dim": 4, "pairing": {"type": "Pairing", "order": "half"}}'
RAMP = '{"type": "Ramp", "heads": 2, "reach": 3}'
NEIGHBOUR = '{"type": "Neighbour", "dim": 4}'
ALL = (CLOCKWORK, HARMONIC, RAMP, NEIGHBOUR)
X = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)


# --- the rules, in plain loops --------------------------------------------------------------------


def clockwork(p: int) -> list[float]:
    angles = [2 * math.pi * (p % (7 * j)) / (7 * j) for j in (1, 2, 3)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def harmonic(x: np.ndarray) -> np.ndarray:
    made = np.empty(x.shape)
    for p, j in np.ndindex(x.shape[-2], 2):
        c, s = math.cos(p * (j + 1) / 1000), math.sin(p * (j + 1) / 1000)
        a, b = x[..., p, j].astype(float), x[..., p, j + 2].astype(float)
        made[..., p, j], made[..., p, j + 2] = a * c - b * s, a * s + b * c
    return made


def ramp(h: int, m: int, n: int) -> float:
    return -(h + 1) * (abs(m - n) % 3) / 2


def neighbour(w: np.ndarray) -> np.ndarray:
    made = np.empty((2, 5, 5))
    for h, m, n in np.ndindex(made.shape):
        made[h, m, n] = X[h, m].astype(float) @ w[1 + (n > m) - (n < m)].astype(float)
    return made


def command(*words: str, code: int = 0) -> str:
    from posenc.cli import app

    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


# --- parts ----------------------------------------------------------------------------------------


def names() -> None:
    """Nothing is read before an unknown name is asked for, and one package is imported then."""
    posenc.table(posenc.from_json(posenc.to_json(posenc.Sinusoidal(8))), 4)
    assert "importlib.metadata" not in sys.modules
    assert "acme_positions" not in sys.modules
    from posenc import registry

    assert set(registry.names()) - set(registry.SPECS) == {
        "Clockwork", "Harmonic", "Neighbour", "Ramp", "Teeth"
    }  # fmt: skip
    assert "acme_positions" not in sys.modules
    for text in ALL:
        spec = posenc.from_json(text)
        assert type(spec).__module__ == "acme_positions"
        assert posenc.from_json(posenc.to_json(spec)) == spec
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        others = [cls.__name__ for cls in registry.specs()][len(registry.SPECS) :]
    assert others == ["Clockwork", "Harmonic", "Neighbour", "Ramp"]


def verbs() -> None:
    """The numbers of each are those of its rule."""
    spec = posenc.from_json(CLOCKWORK)
    positions = [0, 1, 5, -4, 10**9, 2**31 - 1]
    exact = np.array([clockwork(p) for p in positions])
    far = PER_POSITION * np.abs(np.array(positions, dtype=float))[:, None]
    assert_close(posenc.table(spec, positions), exact, ABSOLUTE["float32"] + far)
    precise = posenc.table(spec, positions, dtype="float64")
    assert_close(precise, exact, ABSOLUTE["float64"] + far)
    turned = posenc.rotate(posenc.from_json(HARMONIC), X)
    assert_close(turned, harmonic(X), 4 * ABSOLUTE["float32"])
    exact = np.array([[[ramp(h, m, n) for n in range(6)] for m in range(6)] for h in range(2)])
    assert_close(posenc.bias(posenc.from_json(RAMP), 6), exact, 0)
    spec = posenc.from_json(NEIGHBOUR)
    learned = posenc.init(spec, seed=0)
    made = posenc.relative(spec, X, X, params=learned)
    assert_close(made, neighbour(learned["weight"]), 1e-7)


def tools() -> None:
    """The command lists, cites and draws numbers; the explorer and `identify` know them."""
    listed = json.loads(command("list", "--json"))
    assert [row["name"] for row in listed["encodings"]][-4:] == [
        "Clockwork", "Harmonic", "Neighbour", "Ramp"
    ]  # fmt: skip
    assert command("cite", "ramp").startswith("@misc{ramp,")
    assert json.loads(command("table", "--spec", CLOCKWORK, "--positions", "5:6", "--json"))
    assert posenc.golden(CLOCKWORK).parts[0].spec == posenc.from_json(CLOCKWORK)
    [told] = posenc.diff(CLOCKWORK, CLOCKWORK.replace("7", "9")).differences
    assert (told.field, told.a, told.b) == ("teeth.count", "7", "9")
    table = posenc.table(posenc.from_json('{"type": "Clockwork", "dim": 16}'), 48)
    [finding] = posenc.identify(table)
    assert finding.verdict == "claimed"
    assert posenc.to_json(finding.spec) == posenc.to_json(
        posenc.from_json(CLOCKWORK).replace(dim=16, teeth=type(posenc.from_json(CLOCKWORK).teeth)())
    )
    assert_close(finding.rebuild(), table, ABSOLUTE["float32"])
    bias = posenc.bias(posenc.from_json('{"type": "Ramp", "heads": 4}'), 40)
    [finding] = posenc.identify({"relative_attention_bias": bias})
    assert (finding.verdict, type(finding.spec).__name__) == ("claimed", "Ramp")
    [finding] = posenc.identify(np.random.default_rng(0).normal(size=(48, 16)))
    assert finding.verdict == "unknown"
    from posenc.explore import frame, unpack
    from posenc.explore.state import catalogue

    for view, name in (("table", "Clockwork"), ("rotate", "Harmonic"), ("bias", "Ramp")):
        header = unpack(frame({"v": view, "enc": name.lower(), "L": "16"})).header
        assert header["state"]["enc"] == name.lower(), header["notes"]
        assert not header["problems"]
        entry = catalogue.by_id()[name.lower()]
        values = {"d": 8, "heads": 4, "pairing": "half", "s": 0, "L": 16}
        assert eval(entry.code(values), {"posenc": posenc}) == entry.build(values)
    header = unpack(frame({"v": "bias", "enc": "neighbour"})).header
    assert "Neighbour is an encoding that needs the content" in header["notes"][0]


def modules() -> None:
    """The modules of torch, and the laws that every encoding is held to."""
    import torch

    from posenc.testing import check, of_spec
    from posenc.torch import AttentionBias, PositionTable, RelativeAttention, RotaryEmbedding

    x = torch.tensor(X)
    spec = posenc.from_json(CLOCKWORK)
    rows = PositionTable(spec)(torch.zeros(1, 9, 6))
    assert_close(rows[0].numpy(), np.array([clockwork(p) for p in range(9)]), 1e-7)
    turned, _ = RotaryEmbedding(posenc.from_json(HARMONIC))(x[None], x[None])
    assert_close(turned[0].numpy(), harmonic(X), 4e-7)
    exact = np.array([[[ramp(h, m, n) for n in range(6)] for m in range(6)] for h in range(2)])
    assert_close(AttentionBias(posenc.from_json(RAMP))(6).numpy(), exact, 0)
    some = AttentionBias(posenc.from_json(RAMP), heads=(1, 2))
    assert_close(some(6).numpy(), exact[1:], 0)
    module = RelativeAttention(posenc.from_json(NEIGHBOUR))
    weight = module.state_dict()["weight"].numpy()
    again = RelativeAttention(posenc.from_json(NEIGHBOUR))
    again.load_state_dict(module.state_dict())
    assert_close(again(x, x).detach().numpy(), neighbour(weight), 1e-7)
    for text in (CLOCKWORK.replace("6", "16"), HARMONIC, RAMP):
        card = check(of_spec(posenc.from_json(text)))
        assert card.passed, "\n".join(card.lines())
        assert card.name.startswith("acme_positions.")


def pictures() -> None:
    """What the plots draw, from the command."""
    for name, words in (
        ("table", ("--encoding", "clockwork", "--dim", "8")),
        ("bias", ("--encoding", "Ramp", "--heads", "4")),
        ("rotation", ("--encoding", "Harmonic", "--dim", "8", "--pairing", "half")),
    ):
        command("plot", name, *words, "--output", f"{name}.svg")
        assert Path(f"{name}.svg").stat().st_size > 1000


def jax() -> None:
    """The verbs on JAX, where integers have 32 bits."""
    import jax as library

    spec, turn = posenc.from_json(CLOCKWORK), posenc.from_json(HARMONIC)
    rows = library.jit(lambda p: posenc.table(spec, p))(library.numpy.arange(9))
    assert_close(np.asarray(rows), np.array([clockwork(p) for p in range(9)]), 1e-7)
    turned = posenc.rotate(turn, library.numpy.asarray(X))
    assert_close(np.asarray(turned), harmonic(X), 4e-7)


def study() -> None:
    """A name in the study, where its example fits; and a model that trains with it."""
    from posenc_study.model.encodings import ENCODINGS
    from posenc_study.model.fitting import FittedSizes

    sizes = FittedSizes(width=64, heads=4, layers=1, length=32, longest=64)
    assert ENCODINGS["clockwork"].scheme(sizes).decoder.embeddings.specs[0].dim == 64


PARTS = {part.__name__: part for part in (names, verbs, tools, modules, pictures, jax, study)}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        PARTS[name]()
        print(name)

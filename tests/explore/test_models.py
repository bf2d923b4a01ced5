"""A model's own picture: its layers, two models beside each other, and what a table learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import posenc
from posenc.cli import app
from posenc.explore import frame, unpack
from posenc.explore.spectra import analysis, nearest
from posenc.explore.state.catalogue import VIEWS_OF, offered
from posenc.explore.state.files import load
from posenc.explore.views.rotate import use_of_pairs
from posenc.plot.panels.text import whole
from tests.detect.checkpoints import folder_of
from tests.detect.facts.folders import config_of, trained, turned

ROWS = Path(__file__).parents[1] / "golden" / "configs" / "rows.jsonl"
GEMMA = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 26,
    "head_dim": 256,
    "num_attention_heads": 4,
    "hidden_size": 1152,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "max_position_embeddings": 32768,
}
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}


def written(path: Path, config: object) -> str:
    path.write_text(json.dumps(config))
    return str(path)


def page(session, **state: str):
    message = unpack(frame({"v": "layers", "w": "200", "h": "200", **state}, session))
    return message.header, message.arrays


def panel(header, identity: str):
    return next(p for p in header["panels"] if p["id"] == identity)


def column(header, name: str) -> dict[str, str]:
    """The facts of one type of layer."""
    types = panel(header, "types")
    place = types["columns"].index(name)
    return {row[0]: row[place] for row in types["rows"]}


@pytest.mark.costly
def test_a_config_opens_on_its_layers(tmp_path):
    """Cells, facts and links are those of the plan; a click on a row chooses its type."""
    session = load([written(tmp_path / "config.json", GEMMA)])
    first, second = session.entries
    header, arrays = page(session, enc=second.id)
    assert not header["problems"]
    plan = posenc.from_hf(GEMMA)
    strips = {s["label"]: s for s in panel(header, "layers-")["strips"]}
    for entry, layer in zip((first, second), plan, strict=True):
        filled = np.flatnonzero(arrays[strips[layer.layer]["tile"]])
        np.testing.assert_array_equal(filled, layer.indices)
        assert (strips[layer.layer]["key"], strips[layer.layer]["value"]) == ("enc", entry.id)
        facts = column(header, layer.layer)
        assert facts["base"] == whole(layer.spec.base)
        assert (facts["width"], facts["pairs"]) == (str(layer.spec.dim), str(layer.spec.pairs))
        assert facts["trained length"] == f"{whole(layer.length)} (as declared)"
    assert column(header, "sliding_attention")["window"] == "512"
    assert column(header, "full_attention")["window"] == "–"
    links = next(b for b in header["readout"] if b["kind"] == "links")["links"]
    assert {link["state"]["v"] for link in links} == set(VIEWS_OF["rotary"])
    for link in links:
        view = unpack(frame(link["state"], session)).header
        assert (view["view"], view["state"]["enc"]) == (link["state"]["v"], second.id)


def test_the_trained_length_is_the_model_s_own(tmp_path):
    session = load([written(tmp_path / "config.json", LLAMA)])
    header, arrays = page(session, enc=session.entries[0].id)
    facts = column(header, "attention")
    assert facts["trained length"] == f"{whole(8192)} (that of its Llama3)"
    assert (facts["declared length"], facts["layers"]) == (whole(131072), "all 32")
    series = panel(header, "wavelengths")["series"][0]
    expected = posenc.wavelengths(posenc.from_hf(LLAMA)["attention"].spec)
    np.testing.assert_allclose(arrays[series["y"]], expected, rtol=1e-6)


@pytest.mark.parametrize("config", [{}, {"model_type": "llama", "head_dim": 64, "rope_theta": "x"}])
def test_a_refused_config_gives_its_reason(tmp_path, config):
    session = load([written(tmp_path / "config.json", config)])
    plan = posenc.from_hf(config, on_error="report")
    header, _ = page(session, enc=session.entries[0].id)
    assert panel(header, "notes-error")["paragraphs"]
    for reason in plan.errors:
        assert any(reason in text for text in panel(header, "notes-error")["paragraphs"])
    # No other view can show it, and says so.
    other = unpack(frame({"v": "stretch", "enc": session.entries[0].id}, session)).header
    assert "Layers can show it" in " ".join(other["notes"])


def test_a_folder_whose_weights_contradict_its_config_says_so(tmp_path):
    folder_of(tmp_path, turned(trained()), config_of())
    session = load([str(tmp_path)])
    header, _ = page(session, enc=session.entries[0].id)
    told = panel(header, "notes-error")["paragraphs"]
    assert told == [posenc.facts(tmp_path).contradictions[0].text]


@pytest.mark.costly
def test_two_configs_are_compared_as_diff_does(tmp_path):
    session = load([written(tmp_path / "a.json", GEMMA), written(tmp_path / "b.json", LLAMA)])
    a, b = session.entries[0].id, session.entries[-1].id
    header, _ = page(session, **{"enc": a, "b.enc": b})
    expected = posenc.diff(posenc.from_hf(GEMMA), posenc.from_hf(LLAMA))
    rows = panel(header, "differences")["rows"]
    assert [row[:3] for row in rows] == [[d.field, d.a, d.b] for d in expected.differences]
    assert panel(header, "differences-compared")["paragraphs"] == list(expected.compared)
    assert [p["title"] for p in header["panels"] if p["kind"] == "strips"] == [
        "A: 26 layers, a row for each type",
        "B: 32 layers, a row for each type",
    ]
    assert panel(header, "types")["columns"][1:] == [
        "A: sliding_attention",
        "A: full_attention",
        "B: attention",
    ]
    same, _ = page(session, **{"enc": a, "b.enc": session.entries[1].id})
    assert panel(same, "differences-compared")["title"] == "nothing differs, compared"
    assert header["command"] == "posenc diff a.json b.json"


def test_the_command_compares_two_configs(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("posenc.explore.server.server.serve", lambda *_: None)
    a, b = written(tmp_path / "a.json", GEMMA), written(tmp_path / "b.json", LLAMA)
    run = CliRunner().invoke(app, ["explore", a, "--compare", b, "--no-browser", "--json"])
    opened.append(json.loads(run.output)["address"])
    assert opened[0].endswith(
        "#k=1&v=layers&enc=file:gemma3_text-sliding_attention&b.enc=file:llama-attention"
    )
    alone = CliRunner().invoke(app, ["explore", "--compare", b, "--no-browser"])
    assert alone.exit_code == 2
    assert "--compare takes a config beside another" in alone.output
    table = str(tmp_path / "t.npy")
    np.save(table, np.ones((9, 8)))
    other = CliRunner().invoke(app, ["explore", a, b, "--compare", table, "--no-browser"])
    assert "--compare takes a config beside another" in other.output


@pytest.mark.costly
def test_published_models_can_be_chosen():
    """Every plan of the presets, and its encodings in their own views."""
    for entry in offered("layers"):
        header, _ = page(None, enc=entry.id)
        assert (header["problems"], header["state"]["enc"]) == ([], entry.id)
        assert panel(header, "types")["rows"]
        assert "default sizes" in header["lead"]
        for view in VIEWS_OF.get(entry.kind, ())[:1]:
            other = unpack(frame({"v": view, "enc": entry.id, "w": "99", "h": "99"})).header
            assert (other["problems"], other["state"]["enc"]) == ([], entry.id)


def configs(step: int) -> list[dict]:
    return [json.loads(line)["config"] for line in ROWS.read_text().splitlines()[::step]]


def swept(tmp_path: Path, config: dict, views) -> None:
    session = load([written(tmp_path / "config.json", config)])
    for entry in session.entries:
        for view in views(entry):
            state = {"v": view, "enc": entry.id, "w": "99", "h": "99"}
            header = unpack(frame(state, session)).header
            large = "would learn" in "".join(p["message"] for p in header["problems"])
            assert large or not header["problems"], (view, entry.id, header["problems"])
            told = any("Drawn with" in note for note in header["notes"])
            assert large or told or header["state"]["enc"] == entry.id
            assert header["panels"]


@pytest.mark.costly
def test_published_configs_have_a_picture(tmp_path):
    for config in configs(3):
        swept(tmp_path, config, lambda _: ("layers",))


@pytest.mark.slow("explore", "detect")
def test_published_configs_have_every_picture(tmp_path):
    for config in configs(1):
        swept(tmp_path, config, lambda entry: ("layers", *VIEWS_OF.get(entry.kind, ())))


def test_a_rule_that_waits_for_a_length_is_drawn(tmp_path):
    """A rotation whose frequencies follow from the length, in a session, in every view."""
    config = {
        "model_type": "phi3",
        "hidden_size": 128,
        "num_attention_heads": 4,
        "rope_theta": 10000.0,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16},
    }
    swept(tmp_path, config, lambda entry: ("layers", *VIEWS_OF[entry.kind]))


# --- learned tables -------------------------------------------------------------------------------


def least_squares(column: np.ndarray, wavelength: float) -> float:
    """The share of variance that one sinusoid explains, by NumPy's own least squares."""
    angles = 2 * np.pi * np.arange(len(column)) / wavelength
    basis = np.stack([np.ones(len(column)), np.cos(angles), np.sin(angles)], axis=1)
    rest = column - basis @ np.linalg.lstsq(basis, column, rcond=None)[0]
    return 1 - rest.var() / column.var()


@pytest.mark.costly
def test_the_nearest_sinusoid_is_the_nearest():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 12))
    rows[:, :6] = rows[:, :6].cumsum(axis=0)
    waves = nearest(rows)
    grid = 2 * 90 / np.arange(1, 91, 0.1)  # twice the rows down to 2
    for j, column_of in enumerate(rows.T):
        own = least_squares(column_of, waves.wavelengths[j])
        np.testing.assert_allclose(waves.shares[j], own, atol=1e-12)
        np.testing.assert_allclose(
            1 - (column_of - waves.curve(j)).var() / column_of.var(), own, atol=1e-12
        )
        assert own >= max(least_squares(column_of, w) for w in grid) - 1e-9


def test_known_waves_are_found_again():
    wavelengths = np.array([2.0, 5.3, 17.2, 100.7, 300.0, 900.0])
    angles = 2 * np.pi * np.arange(512)[:, None] / wavelengths + np.arange(6)
    waves = nearest(3 + 2 * np.cos(angles))
    np.testing.assert_allclose(waves.wavelengths, wavelengths, rtol=1e-3)
    np.testing.assert_allclose(waves.shares, 1.0, atol=1e-5)


def test_constant_columns_have_no_wave():
    data = analysis(np.ones((16, 3)))
    assert np.isnan(data.nearest.wavelengths).all()
    assert (data.nearest.explained, data.by_chance) == (0.0, 0.0)
    np.testing.assert_array_equal(data.nearest.curve(1), 1.0)


def test_a_table_of_a_file_is_taken_apart(tmp_path):
    rows = np.random.default_rng(1).normal(size=(64, 24))
    np.save(tmp_path / "t.npy", rows)
    session = load([], [str(tmp_path / "t.npy")])
    header, arrays = page(session, v="spectrum", enc=session.entries[0].id, j="3")
    assert not header["problems"]
    series = {p["id"]: p["series"] for p in header["panels"] if p["kind"] == "chart"}
    (spectrum,) = (p for p in header["panels"] if p["id"] == "spectrum")
    assert spectrum["marks"][0]["at"] == analysis(rows).nearest.wavelengths[3]
    centred = rows - rows.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False) ** 2
    expected = {"nearest-sinusoid": rows[:, 3]}
    expected["components"] = 100 * np.cumsum(singular) / singular.sum()
    power = (np.abs(np.fft.rfft(centred, axis=0)[1:]) ** 2).sum(axis=1)[::-1]
    expected["spectrum"] = 100 * power / power.sum()
    for name, values in expected.items():
        np.testing.assert_allclose(arrays[series[name][0]["y"]], values, rtol=1e-5, atol=1e-6)


# --- the use of pairs -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["half", "interleaved"])
@pytest.mark.parametrize("part", ["leading", "trailing"])
def test_the_use_of_pairs_is_the_product_of_lengths(tmp_path, order, part):
    """Against complex numbers made of the channels by hand; the bound on scores holds."""
    rng = np.random.default_rng(2)
    q, k = rng.normal(size=(2, 3, 7, 12))
    channels = posenc.Pairing(order, part=part)
    spec = posenc.RoPE(8, pairing=channels)
    first = {"leading": 0, "trailing": 4}[part]
    pairs = [(j, j + 4) if order == "half" else (2 * j, 2 * j + 1) for j in range(4)]
    lengths = [
        np.stack([np.abs(x[..., first + a] + 1j * x[..., first + b]) for a, b in pairs], axis=-1)
        for x in (q, k)
    ]
    expected = lengths[0].mean(axis=1) * lengths[1].mean(axis=1)
    np.testing.assert_allclose(use_of_pairs(q, k, spec), expected, rtol=1e-12)
    assert use_of_pairs(q[..., :6], k[..., :6], spec) is None
    np.savez(tmp_path / "qk.npz", q=q, k=k)
    session = load(
        [written(tmp_path / "spec.json", json.loads(posenc.to_json(spec)))],
        heads=str(tmp_path / "qk.npz"),
    )
    header, arrays = page(session, v="rotate", enc=session.entries[0].id)
    series = panel(header, "use")["series"][0]
    for name, values in {
        "y": expected.mean(axis=0),
        "lo": expected.min(axis=0),
        "hi": expected.max(axis=0),
    }.items():
        np.testing.assert_allclose(arrays[series[name]], values, rtol=1e-6)
    narrow, _ = page(session, v="rotate", enc="rope", d="64")
    assert "Heads of qk.npz have 12 channels" in panel(narrow, "use")["paragraphs"][0]

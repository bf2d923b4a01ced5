"""Dumps of other programs: names, layouts and dtypes that are read, faults that are named."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import posenc  # noqa: E402
from posenc._core.io.files import rounded  # noqa: E402
from posenc.detect.trace.dumps import place_of  # noqa: E402

WIDTH, HEADS, TOKENS = 64, 8, 32
CONFIG = {
    "model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
    "num_hidden_layers": 4, "max_position_embeddings": 4096, "rope_theta": 1e4,
}  # fmt: skip
ROPE = posenc.RoPE(WIDTH, pairing="half")
# From (rows, heads, tokens, channels).
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "heads first": lambda a: a,
    "tokens first": lambda a: a.swapaxes(1, 2),
    "no rows": lambda a: a[0],
    "tokens first, no rows": lambda a: a[0].swapaxes(0, 1),
    "heads joined": lambda a: a.swapaxes(1, 2).reshape(1, a.shape[2], -1),
    "heads joined, no rows": lambda a: a[0].swapaxes(0, 1).reshape(a.shape[2], -1),
    "axes of ggml": lambda a: a[0].swapaxes(0, 1).T,
}
DTYPES = ("float32", "float16", "bfloat16")


def turned(spec: Any, dtype: str = "float32", seed: int = 0, **positions: Any) -> dict[str, Any]:
    """Queries and keys before and after, (rows, heads, tokens, channels)."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, heads in (("q", HEADS), ("k", 2)):
        before = rounded(rng.normal(size=(1, heads, TOKENS, WIDTH)), dtype)
        after = np.asarray(posenc.rotate(spec, before, **positions))
        arrays |= {f"{name}.before": before, f"{name}.after": rounded(after, dtype)}
    return arrays


def written(folder: Path, arrays: dict[str, Any], layer: int = 0) -> Path:
    for name, array in arrays.items():
        np.save(folder / f"layer{layer}.{name}.npy", np.asarray(array, dtype=np.float32))
    return folder


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [
        pytest.param(
            layout, dtype, marks=() if number % 11 == 0 else pytest.mark.slow("detect/trace")
        )
        for number, (layout, dtype) in enumerate(itertools.product(LAYOUTS, DTYPES))
    ],
)
def test_layouts(layout: str, dtype: str, tmp_path: Path) -> None:
    """Each layout in each dtype: agreement, another base, another pairing."""
    form = LAYOUTS[layout]
    for spec, field in (
        (ROPE, None),
        (ROPE.replace(base=5e5), "base"),
        (ROPE.replace(pairing="interleaved"), "pairing.order"),
    ):
        arrays = {
            f"layers.2.{name}": torch.tensor(form(a).copy()).to(getattr(torch, dtype))
            for name, a in turned(spec, dtype).items()
        }
        torch.save(arrays, tmp_path / "dump.pt")
        trace = posenc.trace_folder(tmp_path / "dump.pt", CONFIG)
        assert {finding.field for finding in trace.findings} == ({field} if field else set())
        assert [layer.index for layer in trace.layers] == [2]
        if field:
            assert {f.tensor for f in trace.findings} == {"query", "key"}
            assert trace.layers[0].query.spec == spec
        assert trace.exit_code == (1 if field else 0)


def _one_head(a: dict[str, Any]) -> None:
    a["q.after"][:, 5] = a["q.before"][:, 5]


def _unturned(a: dict[str, Any]) -> None:
    a["k.after"] = a["k.before"]


def _clamped(a: dict[str, Any]) -> None:
    a |= turned(ROPE, positions=np.minimum(np.arange(TOKENS), 15))


def _later(a: dict[str, Any]) -> None:
    a["q.after"] = np.asarray(posenc.rotate(ROPE, a["q.before"], positions=np.arange(TOKENS) + 1))


FAULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one head": (_one_head, {"tensor": "query", "heads": (5,), "field": "kind"}),
    "key not turned": (_unturned, {"tensor": "key", "heads": (), "field": "kind"}),
    "clamped": (_clamped, {"field": "positions", "tokens": (*range(16, 32),)}),
    "offset": (_later, {"tensor": "query", "field": "positions"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str, tmp_path: Path) -> None:
    """A fault of one layer of two is named, and no other layer is blamed."""
    damage, right = FAULTS[name]
    arrays = turned(ROPE)
    written(tmp_path, arrays, 0)
    damage(arrays)
    written(tmp_path, arrays, 3)
    trace = posenc.trace_folder(tmp_path, CONFIG)
    assert {finding.layer for finding in trace.findings} == {3}
    assert trace.first is not None
    assert {key: getattr(trace.first, key) for key in right} == right


def test_positions(tmp_path: Path) -> None:
    """Positions beside the arrays are those that count."""
    places = np.arange(TOKENS) + 1000
    written(tmp_path, {**turned(ROPE, positions=places), "positions": places})
    assert posenc.trace_folder(tmp_path, CONFIG).verdict == "agrees"
    np.save(tmp_path / "layer0.positions.npy", np.arange(TOKENS, dtype=np.float32))
    assert posenc.trace_folder(tmp_path, CONFIG).verdict == "differs"


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt"])
def test_formats(ending: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    arrays = {f"l1.{n}": np.asarray(a, np.float32) for n, a in turned(ROPE).items()}
    if ending == ".npy":
        written(tmp_path, turned(ROPE), 1)
    elif ending == ".npz":
        np.savez(tmp_path / "dump.npz", **arrays)
    elif ending == ".safetensors":
        save_file(arrays, tmp_path / "dump.safetensors")
    else:
        torch.save({n: torch.from_numpy(a) for n, a in arrays.items()}, tmp_path / "dump.pt")
    trace = posenc.trace_folder(tmp_path, CONFIG)
    assert (trace.verdict, [layer.index for layer in trace.layers]) == ("agrees", [1])


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("layer0.q.before", (0, "query", "before")),
        ("model.layers.12.self_attn.k_rotated", (12, "key", "after")),
        ("blk.3.Kcur.out", (3, "key", "after")),
        ("Qcur-7_before", (7, "query", "before")),
        ("layer_4/positions", (4, "", "positions")),
        ("positions", (None, "", "positions")),
        ("layer0.v.before", None),
        ("layer0.q", None),
        ("q.before", None),
        ("layer1.layer2.q.before", None),
    ],
)
def test_names(name: str, place: tuple[Any, ...] | None) -> None:
    assert place_of(name) == place


def test_a_map_of_names(tmp_path: Path) -> None:
    """Names that say nothing are given others; those of no name are listed as not read."""
    for number, array in enumerate([*turned(ROPE).values(), np.zeros(3)]):
        np.save(tmp_path / f"t{number}.npy", np.asarray(array, np.float32))
    with pytest.raises(posenc.DataError, match="names.json"):
        posenc.trace_folder(tmp_path, CONFIG)
    names = {f"t{number}": f"layer 0 {name}" for number, name in enumerate(turned(ROPE))}
    (tmp_path / "names.json").write_text(json.dumps(names))
    trace = posenc.trace_folder(tmp_path, CONFIG)
    assert not trace.findings
    assert any("t4" in text for text in trace.unseen)
    assert trace.exit_code == 3
    (tmp_path / "names.json").write_text("[1]")
    with pytest.raises(posenc.DataError, match=r"names\.json"):
        posenc.trace_folder(tmp_path, CONFIG)


class _Runs:
    def __reduce__(self) -> Any:
        return (Path("/tmp/posenc-was-here").touch, ())


def test_nothing_is_executed(tmp_path: Path) -> None:
    """Arrays of objects and pickles are refused, and not run."""
    np.save(tmp_path / "layer0.q.before.npy", np.array([_Runs()], dtype=object))
    with pytest.raises(posenc.DataError, match="pickled"):
        posenc.trace_folder(tmp_path, CONFIG)
    (tmp_path / "layer0.q.before.npy").unlink()
    (tmp_path / "dump.pt").write_bytes(pickle.dumps(_Runs()))
    with pytest.raises(posenc.DataError, match="pickle"):
        posenc.trace_folder(tmp_path, CONFIG)
    assert not Path("/tmp/posenc-was-here").exists()


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    arrays = turned(ROPE)
    arrays["k.after"] = arrays["k.after"][:, :, :-1]
    with pytest.raises(posenc.DataError, match="as many positions"):
        posenc.trace_folder(written(tmp_path, arrays), CONFIG)
    arrays = turned(ROPE)
    written(tmp_path, {**arrays, "q.after": arrays["q.after"][:, :4]})
    with pytest.raises(posenc.DataError, match="one shape"):
        posenc.trace_folder(tmp_path, CONFIG)
    written(tmp_path, {**turned(ROPE), "positions": np.arange(7)})
    with pytest.raises(posenc.DataError, match="as many positions"):
        posenc.trace_folder(tmp_path, CONFIG)
    with pytest.raises(posenc.ArgumentError, match="expected"):
        posenc.trace_folder(tmp_path, None)

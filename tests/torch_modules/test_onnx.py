# ruff: noqa: E402 - onnx and torch may be absent, and are asked for first
"""ONNX: its own tests of RotaryEmbedding, and exported models in onnxruntime at far positions."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx.backend.test.case.node import rotaryembedding

import posenc
from posenc import RoPE, Sinusoidal, scaling as s
from tests.tolerances import ABSOLUTE, assert_close

FAR = (0, 1_000_000, 2**31 - 20)


def node_tests() -> list[Any]:
    """What ONNX tests of its operator: attributes, inputs and outputs of each case."""
    cases: list[Any] = []

    def expect(node: Any, inputs: Any, outputs: Any, name: str, **_: Any) -> None:
        attributes = {a.name: a.i for a in node.attribute}
        cases.append(pytest.param(attributes, inputs, outputs[0], id=name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rotaryembedding, "expect", expect)
        for _, export in inspect.getmembers(rotaryembedding.RotaryEmbedding, inspect.isfunction):
            if export.__name__.startswith("export"):
                export()
    return cases


CASES = node_tests()


def test_the_cases_are_found() -> None:
    assert len(CASES) == 8


@pytest.mark.parametrize(("attributes", "inputs", "expected"), CASES)
def test_apply_rotary_is_the_operator(attributes: Any, inputs: Any, expected: Any) -> None:
    x, cos, sin, *ids = inputs
    if ids:  # tables of all positions, read at these
        cos, sin = cos[ids[0]], sin[ids[0]]
    pairing = "interleaved" if attributes.get("interleaved") else "half"
    heads = attributes.get("num_heads")
    if heads:  # (batch, seq, heads * dim)
        x = x.reshape(*x.shape[:2], heads, -1)
    got = posenc.apply_rotary(x, cos, sin, pairing=pairing, seq_dim=-3 if heads else -2)
    assert_close(got.reshape(expected.shape), expected, 4 * ABSOLUTE["float32"])


# --- onnxruntime ----------------------------------------------------------------------------------


def session(model: Any) -> Any:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return runtime.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_tables_for_the_operator(pairing: Any) -> None:
    """`cos_sin` gives the tables that the operator reads, and it then does what `rotate` does."""
    spec = RoPE(16, pairing=pairing, base=500_000)
    names = ["x", "cos", "sin", "ids"]
    node = onnx.helper.make_node(
        "RotaryEmbedding", names, ["y"], interleaved=int(pairing == "interleaved")
    )
    types = [onnx.TensorProto.FLOAT] * 3 + [onnx.TensorProto.INT64]
    shapes = [(2, 3, 5, 16), (40, 8), (40, 8), (2, 5)]
    values = map(onnx.helper.make_tensor_value_info, names, types, shapes)
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shapes[0])
    graph = onnx.helper.make_graph([node], "rotary", list(values), [out])
    opset = [onnx.helper.make_opsetid("", 23)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    x = np.random.default_rng(0).normal(size=shapes[0]).astype("float32")
    ids = np.array([[0, 1, 2, 3, 4], [39, 7, 7, 0, 20]])
    cos, sin = posenc.cos_sin(spec, 40)
    feeds = dict(zip(names, [x, cos, sin, ids], strict=True))
    [got] = session(model.SerializeToString()).run(None, feeds)
    assert_close(got, posenc.rotate(spec, x, positions=ids), 4 * ABSOLUTE["float32"])


def exported(module: Any, args: Any, path: Path, **options: Any) -> Any:
    """A session of the exported module; torch's exporter warns of its own matters."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, args, dynamo=True, opset_version=23, verbose=False, **options
        )
        program.save(path)
    return session(path)


@pytest.mark.slow("torch", "kernels", "functional/_rotate.py", "_core/numeric/phase.py")
@pytest.mark.parametrize(
    "spec",
    [
        RoPE(16, pairing="half", base=500_000),
        RoPE(16, pairing="interleaved", scaling=s.Llama3(8, original_length=8192)),
    ],
    ids=["half", "llama3"],
)
def test_exported_rotations_are_right_at_any_position(spec: RoPE, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import RotaryEmbedding

    class Rotary(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary = RotaryEmbedding(spec)

        def forward(self, q: Any, k: Any, positions: Any) -> Any:
            return self.rotary(q, k, positions=positions)

    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq")
    args = torch.randn(2, 4, 9, 16), torch.randn(2, 2, 9, 16), torch.zeros(2, 9, dtype=torch.long)
    run = exported(
        Rotary().eval(),
        args,
        tmp_path / "rotary.onnx",
        dynamic_shapes=({0: batch, 2: seq}, {0: batch, 2: seq}, {0: batch, 1: seq}),
        input_names=["q", "k", "positions"],
    ).run
    generator = np.random.default_rng(0)
    for start in FAR:
        for rows, length in ((3, 7), (1, 1)):
            q = generator.normal(size=(rows, 4, length, 16)).astype("float32")
            k = generator.normal(size=(rows, 2, length, 16)).astype("float32")
            positions = start + generator.permuted(np.tile(np.arange(length), (rows, 1)), axis=1)
            got = run(None, {"q": q, "k": k, "positions": positions})
            for x, y in zip((q, k), got, strict=True):
                exact = posenc.rotate(spec, x.astype("float64"), positions=positions)
                assert_close(y, exact, 8 * ABSOLUTE["float32"])


@pytest.mark.slow("torch", "kernels", "functional/_table.py", "_core/numeric/phase.py")
def test_exported_tables_are_right_at_any_position(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    spec = Sinusoidal(12)

    class Embeddings(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = PositionTable(spec)

        def forward(self, x: Any, offset: Any) -> Any:
            return self.positions(x, offset=offset)

    args = torch.randn(2, 9, 12), torch.tensor([0, 4])
    run = exported(
        Embeddings().eval(),
        args,
        tmp_path / "table.onnx",
        dynamic_shapes=({1: torch.export.Dim("seq")}, {}),
        input_names=["x", "offset"],
    ).run
    x = np.zeros((2, 5, 12), "float32")
    for start in FAR:
        offset = np.array([start, 3])
        [got] = run(None, {"x": x, "offset": offset})
        assert_close(got, posenc.add(spec, x.astype("float64"), offset=offset), ABSOLUTE["float32"])

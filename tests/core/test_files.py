"""Files in pieces: headers that lie, numbers that must not change, outputs that appear whole."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from posenc import ArgumentError, DataError
from posenc._core.io import files, headers, outputs

DTYPES = ["float64", "float32", "float16", ">f4", ">f8", "int64", "uint8", "bool", "complex64"]


def npy_bytes(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    width = "<H" if version == b"\x01\x00" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(header)) + header + data


def safetensors_bytes(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def f32(shape: Any, begin: int, end: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


def layout_of(tmp_path: Path, content: bytes) -> headers.Layout:
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    return files.read_layout(path)


def read_all(layout: headers.Layout, tensor: headers.Tensor) -> np.ndarray:
    assert tensor.stored is not None
    with layout.path.open("rb", buffering=0) as file:
        count = int(np.prod(tensor.shape, dtype=np.int64))
        stored = files.read(file, tensor.begin, count, tensor.stored)
    return files.decode(stored, tensor.dtype).reshape(tensor.shape)


# --- reading what is honest -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_bytes(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], version: tuple[int, int]
) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    layout = layout_of(tmp_path, buffer.getvalue())
    tensor = layout.pick()
    assert (layout.format, tensor.shape, tensor.dtype) == ("npy", shape, np.dtype(dtype).name)
    assert tensor.order == "C"
    got = read_all(layout, tensor)
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, array)


def test_fortran_order_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.asfortranarray(np.ones((3, 4))))
    assert files.read_layout(tmp_path / "f.npy").pick().order == "F"


def test_safetensors_bytes(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "é b": np.arange(4, dtype=ml_dtypes.bfloat16),
        "scalar": np.float64(3.5)[None].reshape(()),
        "none": np.zeros((0, 3), np.float16),
    }
    save_file(arrays, tmp_path / "x.safetensors", metadata={"who": "me"})
    layout = files.read_layout(tmp_path / "x.safetensors")
    assert layout.format == "safetensors"
    assert layout.metadata == {"who": "me"}
    assert set(layout.tensors) == set(arrays)
    for name, array in arrays.items():
        tensor = layout.pick(name)
        assert (tensor.dtype, tensor.shape) == (array.dtype.name, array.shape)
        np.testing.assert_array_equal(
            read_all(layout, tensor),
            array.astype(tensor.dtype if array.dtype.name != "bfloat16" else np.float32),
        )


def test_pick_lists_the_names(tmp_path: Path) -> None:
    save_file({"key": np.ones(2), "value": np.ones(2)}, tmp_path / "x.safetensors")
    layout = files.read_layout(tmp_path / "x.safetensors")
    with pytest.raises(ArgumentError, match="several: key, value"):
        layout.pick()
    with pytest.raises(ArgumentError, match="Did you mean 'value'"):
        layout.pick("valeu")


# --- refusing what is not -------------------------------------------------------------------------

GOOD = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"

BAD_NPY = {
    "no version": b"\x93NUMPY",
    "version 9": b"\x93NUMPY\x09\x00" + b"\x00" * 20,
    "header cut": npy_bytes(GOOD, bytes(8))[:30],
    "header beyond the file": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + GOOD,
    "data cut": npy_bytes(GOOD, bytes(7)),
    "data left over": npy_bytes(GOOD, bytes(9)),
    "not a dict": npy_bytes(b"[1, 2]"),
    "no text": npy_bytes(b"\xff\xfe\x00"),
    "not utf-8": npy_bytes(b"\xff\xfe\x00", version=b"\x03\x00"),
    "a call": npy_bytes(b"__import__('os').system('true')"),
    "deep": npy_bytes(b"(" * 9000),
    "wide": npy_bytes(b"-" * 60000 + b"1"),
    "key missing": npy_bytes(b"{'descr': '<f4', 'shape': (2,)}", bytes(8)),
    "key too many": npy_bytes(GOOD[:-1] + b"'x': 1}", bytes(8)),
    "order 1": npy_bytes(GOOD.replace(b"False", b"1"), bytes(8)),
    "negative": npy_bytes(GOOD.replace(b"(2,)", b"(-2,)"), bytes(8)),
    "bool size": npy_bytes(GOOD.replace(b"(2,)", b"(True, 2)"), bytes(8)),
    "float size": npy_bytes(GOOD.replace(b"(2,)", b"(2.0,)"), bytes(8)),
    "list": npy_bytes(GOOD.replace(b"(2,)", b"[2]"), bytes(8)),
    "huge": npy_bytes(GOOD.replace(b"(2,)", b"(9" + b"9" * 17 + b", 10)"), bytes(8)),
    "rank": npy_bytes(GOOD.replace(b"(2,)", b"(" + b"1," * 65 + b")"), bytes(4)),
    "dtype unknown": npy_bytes(GOOD.replace(b"<f4", b"<zz"), bytes(8)),
    "dtype number": npy_bytes(GOOD.replace(b"'<f4'", b"7"), bytes(8)),
    "structured": npy_bytes(GOOD.replace(b"'<f4'", b"[('a', '<f4')]"), bytes(8)),
    "raw": npy_bytes(GOOD.replace(b"<f4", b"|V4"), bytes(8)),
}


@pytest.mark.parametrize("what", sorted(BAD_NPY))
def test_bad_npy_is_refused(tmp_path: Path, what: str) -> None:
    with pytest.raises(DataError) as caught:
        layout_of(tmp_path, BAD_NPY[what])
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_long_npy_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    header = GOOD + b" " * 2**16
    with pytest.raises(DataError, match="a header of at most 10,000 bytes"):
        layout_of(tmp_path, npy_bytes(header, bytes(8), version=b"\x02\x00"))
    with pytest.raises(DataError, match="a header of at most 69 bytes, got 4294967295"):
        layout_of(tmp_path, BAD_NPY["header beyond the file"])


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was loaded",))


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    assert b"pytest" in buffer.getvalue()
    with pytest.raises(DataError, match="pickled Python objects"):
        layout_of(tmp_path, buffer.getvalue())
    with pytest.raises(DataError):
        layout_of(tmp_path, pickle.dumps(Bomb()))


ONE = {"a": f32([2], 0, 8)}

BAD_SAFETENSORS = {
    "empty": b"",
    "seven bytes": b"1234567",
    "length beyond the file": struct.pack("<Q", 1000) + b"{}",
    "length enormous": struct.pack("<Q", 2**63) + b"{}",
    "text": b"this is no array at all",
    "not JSON": safetensors_bytes(b"{nope}"),
    "not UTF-8": safetensors_bytes(b'{"\xff": 1}'),
    "a list": safetensors_bytes(b"[]"),
    "a space in front": safetensors_bytes(b" {}"),
    "NaN": safetensors_bytes(b'{"__metadata__": NaN}'),
    "Infinity": safetensors_bytes(
        b'{"a": {"dtype":"F32","shape":[Infinity],"data_offsets":[0,0]}}'
    ),
    "deep": safetensors_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "twice": safetensors_bytes(b'{"a": 1, "a": 2}'),
    "twice inside": safetensors_bytes(
        b'{"a":{"dtype":"F32","shape":[2],"shape":[1],"data_offsets":[0,4]}}', bytes(4)
    ),
    "digits": safetensors_bytes(b'{"a":{"dtype":"F32","shape":[' + b"9" * 9000 + b"]}}"),
    "no entry": safetensors_bytes({"a": 3}),
    "key missing": safetensors_bytes({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)),
    "key too many": safetensors_bytes({"a": {**f32([2], 0, 8), "x": 1}}, bytes(8)),
    "dtype unknown": safetensors_bytes({"a": {**f32([2], 0, 8), "dtype": "F33"}}, bytes(8)),
    "dtype list": safetensors_bytes({"a": {**f32([2], 0, 8), "dtype": []}}, bytes(8)),
    "negative size": safetensors_bytes({"a": f32([-2], 0, 8)}, bytes(8)),
    "two negatives": safetensors_bytes({"a": f32([-1, -2], 0, 8)}, bytes(8)),
    "float size": safetensors_bytes({"a": f32([2.0], 0, 8)}, bytes(8)),
    "bool size": safetensors_bytes({"a": f32([True, 2], 0, 8)}, bytes(8)),
    "shape text": safetensors_bytes({"a": f32("2", 0, 8)}, bytes(8)),
    "rank": safetensors_bytes({"a": f32([1] * 65, 0, 4)}, bytes(4)),
    "a product of giants": safetensors_bytes({"a": f32([2**62] * 60, 0, 8)}, bytes(8)),
    "size of another": safetensors_bytes({"a": f32([3], 0, 8)}, bytes(8)),
    "offsets swapped": safetensors_bytes({"a": f32([2], 8, 0)}, bytes(8)),
    "offsets negative": safetensors_bytes({"a": f32([2], -8, 0)}, bytes(8)),
    "three offsets": safetensors_bytes({"a": {**ONE["a"], "data_offsets": [0, 8, 8]}}, bytes(8)),
    "beyond the file": safetensors_bytes(ONE, bytes(7)),
    "left over": safetensors_bytes(ONE, bytes(9)),
    "overlap": safetensors_bytes({"a": f32([2], 0, 8), "b": f32([2], 4, 12)}, bytes(12)),
    "same bytes": safetensors_bytes({"a": f32([2], 0, 8), "b": f32([2], 0, 8)}, bytes(8)),
    "gap": safetensors_bytes({"a": f32([1], 0, 4), "b": f32([1], 8, 12)}, bytes(12)),
    "gap in front": safetensors_bytes({"a": f32([1], 4, 8)}, bytes(8)),
    "metadata a list": safetensors_bytes({"__metadata__": []}),
    "metadata a number": safetensors_bytes({"__metadata__": {"a": 1}}),
    "half a byte": safetensors_bytes({"a": {**f32([3], 0, 2), "dtype": "F4"}}, bytes(2)),
}


@pytest.mark.parametrize("what", sorted(BAD_SAFETENSORS))
def test_bad_safetensors_is_refused(tmp_path: Path, what: str) -> None:
    with pytest.raises(DataError) as caught:
        layout_of(tmp_path, BAD_SAFETENSORS[what])
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_header_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(200_000_000)
    with pytest.raises(DataError, match="at most 100,000,000 bytes, got one of 100,000,001"):
        files.read_layout(path)


def test_a_folder_and_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder"):
        files.read_layout(tmp_path)
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    with pytest.raises(DataError, match="a pipe"):
        files.read_layout(tmp_path / "pipe")


def test_reading_past_the_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(10))
    with (tmp_path / "x").open("rb", buffering=0) as file:
        with pytest.raises(DataError, match="truncated"):
            files.read(file, 4, 2, "<f4")


# --- writing headers ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
@pytest.mark.parametrize("shape", [(2,), (2, 3), (0, 5), (10**6, 10**6)])
def test_npy_header_is_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    ours = io.BytesIO(headers.npy_header(dtype, shape))
    assert np.lib.format.read_magic(ours) == (1, 0)
    found = np.lib.format.read_array_header_1_0(ours)
    assert found == (shape, False, np.dtype(dtype))
    assert ours.tell() % 64 == 0
    assert ours.read() == b""


def test_npy_header_has_no_bfloat16() -> None:
    with pytest.raises(DataError, match="bfloat16"):
        headers.npy_header("bfloat16", (2,))


def test_safetensors_header_is_read_by_the_library(tmp_path: Path) -> None:
    header = headers.safetensors_header(
        {"x": ("float32", (2, 2)), "y": ("bfloat16", (3,))}, {"note": "ü"}
    )
    assert len(header) % 8 == 0
    x, y = np.arange(4, dtype="<f4").reshape(2, 2), np.arange(3, dtype=ml_dtypes.bfloat16)
    path = tmp_path / "x.safetensors"
    path.write_bytes(header + x.tobytes() + y.tobytes())
    found = load_file(path)
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["y"], y)
    assert files.read_layout(path).metadata == {"note": "ü"}


# --- bfloat16 -------------------------------------------------------------------------------------


def test_every_bfloat16_goes_through_float32_and_back() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    wide = files.from_bfloat16(patterns)
    np.testing.assert_array_equal(
        wide.view(np.uint32), patterns.view(ml_dtypes.bfloat16).astype(np.float32).view(np.uint32)
    )
    again = files.to_bfloat16(wide)
    nan = np.isnan(wide)
    np.testing.assert_array_equal(again[~nan], patterns[~nan])
    assert np.isnan(files.from_bfloat16(again[nan])).all()


def test_rounding_to_bfloat16_is_to_nearest_even() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    # Around every tie: half a unit, one bit less, one bit more.
    ties = (np.arange(2**16, dtype=np.uint32) << 16)[:, None] + np.array(
        [0x7FFF, 0x8000, 0x8001], np.uint32
    )
    values = np.concatenate([bits, ties.reshape(-1)]).view(np.float32)
    got = files.to_bfloat16(values)
    with np.errstate(all="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    nan = np.isnan(values)
    np.testing.assert_array_equal(got[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(files.from_bfloat16(got[nan])).all()


# --- outputs that appear whole --------------------------------------------------------------------


def test_replacing_writes_beside_and_renames(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with outputs.replacing(target, existing="refuse") as file:
        files.write(file, 0, b"abc")
        assert not target.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert target.read_bytes() == b"abc"
    assert list(tmp_path.iterdir()) == [target]


def test_permissions_are_those_of_a_new_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with outputs.replacing(tmp_path / "new", existing="refuse"):
        pass
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").chmod(0o640)
    with outputs.replacing(tmp_path / "plain", existing="replace"):
        pass
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("existing", ["refuse", "replace"])
def test_nothing_is_left_of_a_failure(
    tmp_path: Path, error: type[BaseException], existing: Any
) -> None:
    target = tmp_path / "out"
    if existing == "replace":
        target.write_bytes(b"old")

    def fail() -> None:
        with outputs.replacing(target, existing=existing) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert [p.read_bytes() for p in tmp_path.iterdir()] == (
        [b"old"] if existing == "replace" else []
    )


def test_a_name_taken_is_refused_even_if_it_is_taken_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "out"

    def collide() -> None:
        with outputs.replacing(target, existing="refuse") as file:
            file.write(b"new")
            target.write_bytes(b"other")

    with pytest.raises(FileExistsError):
        collide()
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"other"
    with pytest.raises(FileExistsError):
        with outputs.replacing(target, existing="refuse"):
            pytest.fail("it was opened")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with (
        pytest.raises(FileNotFoundError, match="No such file") as told,
        outputs.replacing(missing / "x", existing="refuse"),
    ):
        pass
    assert told.value.filename == str(missing)


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    for existing in ("refuse", "replace"):
        with pytest.raises(IsADirectoryError):
            with outputs.replacing(tmp_path, existing=existing):  # type: ignore[arg-type]
                pytest.fail("it was opened")


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with outputs.replacing(tmp_path / "link", existing="replace") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_write_and_copy_go_to_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 3)
    (tmp_path / "a").write_bytes(b"0123456789")
    with (tmp_path / "a").open("rb", buffering=0) as source:
        with outputs.replacing(tmp_path / "b", existing="refuse") as sink:
            files.copy(source, 2, 10, sink, 4)
            files.write(sink, 0, np.array([[1, 2], [3, 4]], dtype="u1"))
    assert (tmp_path / "b").read_bytes() == b"\x01\x02\x03\x0423456789"

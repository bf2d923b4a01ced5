"""Files of arrays: what they hold is read lazily, and what they claim is not believed."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import posenc
from posenc._core.io.checkpoints.store import open_store
from posenc._core.io.headers import MOST_ENTRIES, ArrayStore, npy_header, safetensors_header

QUIET = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
X = np.arange(24, dtype=np.float32).reshape(4, 6)


def listed(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    with open_store(path) as store:
        return {name: (array.dtype, array.shape) for name, array in store.arrays.items()}


def content(path: Path, name: str) -> np.ndarray:
    with open_store(path) as store:
        array = store.pick(name)
        return array.read().reshape(array.shape)


# --- what is right --------------------------------------------------------------------------------


def safetensors_file(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    head = safetensors_header({k: (v.dtype.name, v.shape) for k, v in arrays.items()})
    path.write_bytes(head + b"".join(v.tobytes() for v in arrays.values()))
    return path


def test_safetensors_and_npy(tmp_path: Path) -> None:
    path = safetensors_file(tmp_path / "a.safetensors", {"x": X, "y": X[0]})
    assert listed(path) == {"x": ("float32", (4, 6)), "y": ("float32", (6,))}
    assert np.array_equal(content(path, "x"), X)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    assert np.array_equal(content(tmp_path / "f.npy", "f"), X)


def test_parts_are_read_alone(tmp_path: Path) -> None:
    path = safetensors_file(tmp_path / "a.safetensors", {"x": X})
    with open_store(path) as store:
        assert np.array_equal(store.arrays["x"].read(6, 12), X[1])


def test_a_model_of_several_files(tmp_path: Path) -> None:
    safetensors_file(tmp_path / "1.safetensors", {"x": X})
    safetensors_file(tmp_path / "2.safetensors", {"y": X + 1, "unlisted": X})
    index = {"weight_map": {"x": "1.safetensors", "y": "2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert list(listed(tmp_path)) == ["x", "y"]
    assert np.array_equal(content(tmp_path, "y"), X + 1)


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=np.asfortranarray(X))
    np.savez_compressed(tmp_path / "b.npz", x=X)
    for name, key in (("a.npz", "x"), ("a.npz", "y"), ("b.npz", "x")):
        assert np.array_equal(content(tmp_path / name, key), X)


def test_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="writes the files of this test")
    state = {
        "w": torch.from_numpy(X.copy()),
        "half": torch.randn(5).bfloat16(),
        "window": torch.arange(20.0)[4:9],
        "parameter": torch.nn.Parameter(torch.randn(2, 3)),
        "turned": torch.randn(3, 2).t(),
    }
    path = tmp_path / "a.pt"
    torch.save({"model": state, "step": 3, "rates": [0.1, None], "name": "x" * 300}, path)
    names = [f"model.{name}" for name in state]
    assert list(listed(path)) == names
    with open_store(path) as store:
        for name, value in state.items():
            array = store.arrays[f"model.{name}"]
            assert array.shape == tuple(value.shape)
            if name == "turned":
                assert array.fetch is None
                assert "side by side" in array.why_not
            else:
                assert np.array_equal(array.read(), value.detach().float().numpy().ravel())


def test_a_state_dict_of_a_module(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="writes the files of this test")
    module = torch.nn.TransformerEncoderLayer(8, 2, 16)
    torch.save(module.state_dict(), tmp_path / "a.bin")
    want = {k: ("float32", tuple(v.shape)) for k, v in module.state_dict().items()}
    assert listed(tmp_path / "a.bin") == want


def gguf_file(path: Path, tensors: dict[str, tuple[int, tuple[int, ...], bytes]]) -> Path:
    """Version 3, one key, tensors as (type, shape with the last axis first, bytes)."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1)
    head += text("llama.rope.freq_base") + struct.pack("<If", 6, 500_000.0)
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


def test_gguf(tmp_path: Path) -> None:
    half = X.astype(np.float16)
    tensors = {
        "x": (0, (6, 4), X.tobytes()),
        "h": (1, (6, 4), half.tobytes()),
        "q": (8, (32,), b""),
    }
    path = gguf_file(tmp_path / "a.gguf", tensors)
    assert np.array_equal(content(path, "x"), X)
    assert np.array_equal(content(path, "h"), half)
    with open_store(path) as store:
        assert store.arrays["q"].fetch is None
        assert store.facts["llama.rope.freq_base"] == 500_000


# --- what lies ------------------------------------------------------------------------------------


def zipped(path: Path, members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    return path


def tensor_pickle(count: int, shape: tuple[int, ...], offset: int = 0, stride: int = 1) -> bytes:
    """What `torch.save` writes for {"w": tensor}, with sizes of our choice."""

    def long(n: int) -> bytes:
        raw = n.to_bytes(n.bit_length() // 8 + 1, "little")
        return b"\x8a" + bytes([len(raw)]) + raw

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    sizes = b"(" + b"".join(map(long, shape)) + b"t"
    strides = b"(" + long(stride) * len(shape) + b"t"
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    storage += long(count) + b"tQ"
    rebuilt = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + long(offset) + sizes + strides
    rebuilt += b"\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\x02}" + text("w") + rebuilt + b"s."


def bomb(path: Path, size: int) -> bytes:
    """A compressed .npz member that claims and unpacks to `size` bytes of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            member.write(npy_header("float32", (size // 4,)))
            for _ in range(size // 2**20):
                member.write(bytes(2**20))
    return b""


class Runs:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def header(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def tensors(**entries: tuple[str, list[int], list[int]]) -> bytes:
    return json.dumps(
        {k: {"dtype": d, "shape": s, "data_offsets": o} for k, (d, s, o) in entries.items()}
    ).encode()


def npy(text: str, data: bytes = b"") -> bytes:
    raw = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + data


def object_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{}, []], dtype=object), allow_pickle=True)
    return file.getvalue()


F4 = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"
HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.safetensors", b"", "0 bytes"),
    "a header of 2**63 bytes": (
        "a.safetensors",
        struct.pack("<Q", 2**63) + b"{}",
        "another format",
    ),
    "a pointer of Git LFS": (
        "a.safetensors",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "`git lfs pull` fetches the file.",
    ),
    "a header of 50 MB": ("a.safetensors", header(b" " * 50_000_000), "JSON object"),
    "a header of 100 MB and more": (
        "a.safetensors",
        header(b"{" + b" " * 100_000_000),
        "at most 100,000,000",
    ),
    "not JSON": ("a.safetensors", header(b"\x00\x01"), "JSON"),
    "deep JSON": ("a.safetensors", header(b'{"a":' + b"[" * 100_000), "JSON"),
    "many braces": ("a.safetensors", header(b'{"a":[' + b"{}," * 1_300_000 + b"{}]}"), "values"),
    "offsets beyond the end": (
        "a.safetensors",
        header(tensors(x=("F32", [10], [0, 40])), b"\0" * 20),
        "truncated",
    ),
    "overlapping offsets": (
        "a.safetensors",
        header(tensors(x=("F32", [2], [0, 8]), y=("F32", [2], [4, 12])), b"\0" * 12),
        "overlaps",
    ),
    "huge offsets": (
        "a.safetensors",
        header(tensors(x=("F32", [2**60], [0, 2**62]))),
        "lists of sizes",
    ),
    "a gigantic shape": (
        "a.safetensors",
        header(tensors(x=("F32", [2**40, 2**40], [0, 8])), b"\0" * 8),
        "data_offsets",
    ),
    "a gigantic .npy": ("a.npy", npy(F4 % "(1000000000000, 1000)"), "truncated"),
    "a .npy cut short": ("a.npy", npy(F4 % "(4, 4)", b"\0" * 10), "truncated"),
    "objects": ("a.npy", object_array(), "pickled"),
    "a nested .npy header": ("a.npy", npy("(" * 100), "header"),
    "a bare pickle": ("a.pt", pickle.dumps({"w": 1}), "bare pickle"),
    "a .gguf cut short": ("a.gguf", b"GGUF" + struct.pack("<IQQ", 3, 5, 5), "ends before"),
    "a .gguf of 2**60 keys": ("a.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "too many"),
    "a .gguf of long texts": (
        "a.gguf",
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 3)
        + b"".join(
            struct.pack("<Q1sIQ", 1, key, 8, 2**24 - 1) + bytes(2**24 - 1)
            for key in (b"a", b"b", b"c")
        ),
        "a longer one",
    ),
    "a zip without an end": ("a.npz", b"PK\x03\x04" + b"\0" * 100, "zip"),
    "an index of deep JSON": ("a.index.json", b'{"weight_map":' + b"[" * 100_000, "JSON"),
    "an index of files that are not there": (
        "a.index.json",
        b'{"weight_map": {"x": "nowhere.safetensors"}}',
        "no 'nowhere.safetensors'",
    ),
    "an index that leaves its folder": (
        "a.index.json",
        b'{"weight_map": {"x": "../../etc/passwd"}}',
        "beside the index",
    ),
    "an index that names itself": (
        "a.index.json",
        b'{"weight_map": {"x": "a.index.json"}}',
        "beside the index, got 'a.index.json'",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_lies_are_told(name: str, tmp_path: Path) -> None:
    file, raw, words = HOSTILE[name]
    (tmp_path / file).write_bytes(raw)
    with pytest.raises(posenc.DataError, match=words):
        posenc.identify(tmp_path / file)


def zip_cases(folder: Path) -> dict[str, tuple[Path, str]]:
    marker = folder / "ran"
    made = {
        "objects inside": zipped(folder / "a.npz", {"x.npy": object_array()}),
        "a shape without data": zipped(folder / "b.npz", {"x.npy": npy(F4 % "(9, 9)")}),
        "no arrays": zipped(folder / "c.npz", {"x.txt": b""}),
        "runs code": zipped(folder / "d.pt", {"a/data.pkl": pickle.dumps({"w": Runs(marker)})}),
        "a tensor after its storage": zipped(
            folder / "e.pt", {"a/data.pkl": tensor_pickle(4, (5,)), "a/data/0": b"\0" * 16}
        ),
        "a storage that is shorter": zipped(
            folder / "f.pt", {"a/data.pkl": tensor_pickle(2**40, (2**40,)), "a/data/0": b"\0" * 16}
        ),
        "no storage": zipped(folder / "g.pt", {"a/data.pkl": tensor_pickle(4, (4,))}),
        "a pickle without an end": zipped(
            folder / "h.pt", {"a/data.pkl": b"\x80\x02}" + b"0" * 99}
        ),
        "a long pickle": zipped(folder / "i.pt", {"a/data.pkl": b"\x80\x02" + b"N" * (2**23 + 1)}),
        "a text without end": zipped(
            folder / "j.pt", {"a/data.pkl": b"\x80\x02\x8d" + struct.pack("<Q", 2**62)}
        ),
        "two pickles": zipped(folder / "k.pt", {"a/data.pkl": b".", "b/data.pkl": b"."}),
    }
    words = {
        "objects inside": "pickled",
        "a shape without data": "truncated",
        "no arrays": "neither",
        "runs code": "posix.system, which was not run",
        "a tensor after its storage": "ends after its storage",
        "a storage that is shorter": "truncated",
        "no storage": "no data/0",
        "a pickle without an end": "empty stack",
        "a long pickle": "at most 8,388,608 bytes",
        "a text without end": "ends before",
        "two pickles": "one data.pkl",
    }
    return {name: (path, words[name]) for name, path in made.items()}


@pytest.mark.parametrize(
    "name",
    [
        "objects inside",
        "a shape without data",
        "no arrays",
        "runs code",
        "a tensor after its storage",
        "a storage that is shorter",
        "no storage",
        "a pickle without an end",
        "a long pickle",
        "a text without end",
        "two pickles",
    ],
)
def test_zips_that_lie(name: str, tmp_path: Path) -> None:
    path, words = zip_cases(tmp_path)[name]
    with pytest.raises(posenc.DataError, match=words):
        posenc.identify(path)
    assert not (tmp_path / "ran").exists()


def test_the_bomb_would_have_run(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Runs(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


def test_what_a_pickle_names_besides_is_told_and_not_run(tmp_path: Path) -> None:
    raw = tensor_pickle(4, (4,))
    # {"w": tensor, "e": os.system("touch ran")}
    call = b"X\x01\x00\x00\x00ecposix\nsystem\n(X\x09\x00\x00\x00touch ran" + b"tRs."
    path = zipped(
        tmp_path / "a.pt", {"a/data.pkl": raw[:-1] + call, "a/data/0": X[0, :4].tobytes()}
    )
    with open_store(path) as store:
        assert store.remarks == ("its pickle also names posix.system: nothing of it was run",)
        assert np.array_equal(store.arrays["w"].read(), X[0, :4])


def test_containers_that_hold_themselves(tmp_path: Path) -> None:
    # d = {}; d["d"] = d, and a list of a list of … each held twice by the next.
    loop = b"\x80\x02}q\x00X\x01\x00\x00\x00dh\x00s."
    with open_store(zipped(tmp_path / "a.pt", {"data.pkl": loop})) as store:
        assert not store.arrays
    laughs = (
        b"\x80\x02]q\x00"
        + b"".join(
            b"(h" + bytes([i]) + b"h" + bytes([i]) + b"lq" + bytes([i + 1]) for i in range(60)
        )
        + b"."
    )
    with open_store(zipped(tmp_path / "b.pt", {"data.pkl": laughs})) as store:
        assert not store.arrays


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link to nothing", "link to itself"])
def test_paths_that_are_no_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "link to nothing":
        path.symlink_to(tmp_path / "nothing")
    else:
        path.symlink_to(path)
    with pytest.raises((posenc.DataError, OSError)):
        posenc.identify(path)


def test_tables_of_nan_are_unclear() -> None:
    [found] = posenc.identify(np.full((50, 16), np.nan, dtype=np.float32)).findings
    assert found.verdict == "unclear"
    assert "NaN" in found.remarks[0]


# --- in little time and memory --------------------------------------------------------------------

MEASURE = """
import resource, sys, time
import posenc
from posenc.detect.identify import identify as _
import posenc._core.io.checkpoints.store, zipfile, posenc.registry
posenc.identify([[1.0, 2.0], [3.0, 4.0]])
def peak():  # of this process alone: ru_maxrss begins at that of the parent
    with open("/proc/self/status") as file:
        return int(next(l for l in file if l.startswith("VmHWM")).split()[1]) * 1024
before = peak()  # so that what a file leaves behind counts against the next one as well
for path in sys.argv[1:]:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins again
    began = time.process_time()
    try:
        posenc.identify(path)
        print("no error", end=" ")
    except posenc.PosencError as error:
        print("error", end=" ")
    print(time.process_time() - began, peak() - before)
"""


def spent(*paths: Path) -> list[tuple[str, float, float]]:
    """Whether it was an error, the seconds of processor time, and the bytes beyond imports."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.rsplit(maxsplit=2) for line in done.stdout.splitlines()]
    assert len(rows) == len(paths)
    return [(words, float(seconds), float(size)) for words, seconds, size in rows]


@pytest.mark.costly
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_errors_cost_little(tmp_path: Path) -> None:
    names = ("a header of 50 MB", "deep JSON", "many braces", "a gigantic .npy", "huge offsets")
    paths = []
    for number, name in enumerate(names):
        file, raw, _ = HOSTILE[name]
        paths.append(tmp_path / str(number) / file)
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(raw)
    for name, (outcome, seconds, size) in zip(names, spent(*paths), strict=True):
        assert outcome == "error", name
        assert seconds < 2, name  # of processor time: asked is 1, on an idle core
        assert size < 100 * 2**20, name


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.costly
def test_bombs_cost_little(tmp_path: Path) -> None:
    bomb(tmp_path / "a.npz", 2**28)  # 256 MiB in 256 KiB
    assert (tmp_path / "a.npz").stat().st_size < 2**20
    with open_store(tmp_path / "a.npz") as store:
        assert store.arrays["x"].size > MOST_ENTRIES
        assert store.arrays["x"].fetch is None
    sparse = tmp_path / "b.safetensors"
    head = header(tensors(x=("F32", [2**20, 2**10], [0, 2**32])))
    with sparse.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + 2**32)
    for outcome, seconds, size in spent(tmp_path / "a.npz", sparse):
        assert (outcome, seconds < 1, size < 100 * 2**20) == ("no error", True, True)


# --- fuzz -----------------------------------------------------------------------------------------


def survives(path: Path) -> None:
    """Whatever a file holds, it is listed and read, or refused in words."""
    try:
        with open_store(path) as store:
            _read_all(store)
    except (posenc.DataError, posenc.ArgumentError):
        pass


def _read_all(store: ArrayStore) -> None:
    for array in store.arrays.values():
        if array.fetch is not None and array.size <= 2**16:
            array.read()


def seeds(folder: Path) -> dict[str, bytes]:
    np.savez_compressed(folder / "a.npz", x=X)
    pt = zipped(folder / "a.pt", {"a/data.pkl": tensor_pickle(24, (24,)), "a/data/0": X.tobytes()})
    return {
        "a.safetensors": safetensors_file(folder / "s.safetensors", {"x": X}).read_bytes(),
        "a.npy": npy_header("float32", X.shape) + X.tobytes(),
        "a.npz": (folder / "a.npz").read_bytes(),
        "a.pt": pt.read_bytes(),
        "a.gguf": gguf_file(folder / "g.gguf", {"x": (0, (6, 4), X.tobytes())}).read_bytes(),
        "a.index.json": json.dumps({"weight_map": {"x": "s.safetensors"}}).encode(),
    }


FORMATS = ("a.safetensors", "a.npy", "a.npz", "a.pt", "a.gguf", "a.index.json")


@pytest.mark.parametrize("name", FORMATS)
def test_changed_bytes(name: str, tmp_path: Path) -> None:
    raw = seeds(tmp_path)[name]
    path = tmp_path / f"changed.{name.partition('.')[2]}"

    @QUIET
    @given(
        changes=st.lists(
            st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), min_size=1, max_size=6
        ),
        cut=st.integers(0, len(raw)) | st.none(),
        tail=st.binary(max_size=20),
    )
    def check(changes: list[tuple[int, int]], cut: int | None, tail: bytes) -> None:
        data = bytearray(raw)
        for at, value in changes:
            data[at] = value
        path.write_bytes(bytes(data[:cut]) + tail)
        survives(path)

    check()


@QUIET
@given(program=st.binary(max_size=200))
def test_any_pickle(program: bytes, tmp_path: Path) -> None:
    survives(zipped(tmp_path / "a.pt", {"data.pkl": b"\x80\x02" + program + b"."}))


OPCODES = st.sampled_from(
    [bytes([c]) for c in b"(.0N)]}tlduase\x85\x86\x87\x90\x94Rb\x93Q\x81\x88"]
)
PIECES = st.one_of(
    OPCODES,
    st.just(b"K\x01"),
    st.just(b"q\x00"),
    st.just(b"h\x00"),
    st.just(b"ctorch._utils\n_rebuild_tensor_v2\n"),
    st.just(b"ccollections\nOrderedDict\n"),
    st.just(b"ctorch\nFloatStorage\n"),
    st.just(b"X\x01\x00\x00\x00a"),
)


@QUIET
@given(program=st.lists(PIECES, max_size=60))
def test_any_program_of_the_machine(program: list[bytes], tmp_path: Path) -> None:
    survives(zipped(tmp_path / "a.pt", {"data.pkl": b"".join(program)}))


@QUIET
@given(
    entry=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "x"]), inner)
        ),
        max_leaves=12,
    )
)
@pytest.mark.costly
def test_any_safetensors_header(entry: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(header(json.dumps({"x": entry}).encode(), b"\0" * 8))
    survives(path)

"""The readers without posenc in `docs/examples`, built, and run on many files."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
CPP = ("g++", "-std=c++17", *WARNINGS, "-x", "c++", "-DPOSENC_GOLDEN_IMPLEMENTATION")
SANE = ("-g", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
DEBIAN = Path("/usr/share/cargo/registry")
CARGO = """[package]
name = "golden_reader"
version = "0.0.0"
edition = "2021"

[dependencies]
serde_json = "1"
sha2 = "0.10"
"""
VENDORED = f"""[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "{DEBIAN}"
"""


def built(folder: Path, *options: str) -> str:
    """The reader in C, of objects of both compilers; beside it the header's as a library."""
    for compiler in ("g++", "gcc"):
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
    commands: tuple[tuple[str, ...], ...] = (
        (*CPP, *options, "-fPIC", "-c", str(EXAMPLES / "posenc_golden.h"), "-o", "header.o"),
        ("gcc", "-std=c11", *WARNINGS, *options, "-c", str(EXAMPLES / "golden_reader.c")),
        ("g++", *options, "golden_reader.o", "header.o", "-lm", "-o", "golden_reader"),
        ("g++", *options, "-shared", "header.o", "-o", "libposenc_golden.so"),
    )
    for command in commands:
        subprocess.run(command, check=True, cwd=folder)
    return str(folder / "golden_reader")


def built_as_cpp(folder: Path, *options: str) -> str:
    """The same reader, compiled as C++ in one command."""
    built(folder, *options)  # skips what it lacks
    source, target = str(EXAMPLES / "golden_reader.c"), str(folder / "golden_reader_cpp")
    subprocess.run([*CPP, *options, source, "-o", target], check=True)
    return target


def built_in_rust(folder: Path, *_: str) -> str:
    """The reader in Rust, with the crates that Debian packages."""
    lacking = [name for name in ("cargo", "rustc") if shutil.which(name) is None]
    lacking += [name for name in ("serde_json", "sha2") if not [*DEBIAN.glob(f"{name}-*")]]
    if lacking:
        pytest.skip(f"{', '.join(lacking)}: not installed")
    for place, text in (("Cargo.toml", CARGO), (".cargo/config.toml", VENDORED)):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(text)
    (folder / "src").mkdir()
    shutil.copy(EXAMPLES / "golden_reader.rs", folder / "src" / "main.rs")
    env = {**os.environ, "RUSTFLAGS": "-D warnings"}
    subprocess.run(["cargo", "build", "--quiet", "--offline"], check=True, cwd=folder, env=env)
    return str(folder / "target" / "debug" / "golden_reader")


BUILD = {"c": built, "cpp": built_as_cpp, "rs": built_in_rust}


# --- the header -----------------------------------------------------------------------------------


class Face:
    """The functions of `posenc_golden.h` on one file, of its library."""

    def __init__(self, library: str, file: Path) -> None:
        self.library = ctypes.CDLL(library)
        for name, result in (
            ("open", ctypes.c_void_p), ("name", ctypes.c_char_p), ("error", ctypes.c_char_p),
            ("count", ctypes.c_size_t), ("shape", ctypes.c_size_t), ("values", ctypes.c_size_t),
            ("compare", ctypes.c_int), ("close", None),
        ):  # fmt: skip
            function = getattr(self.library, f"posenc_golden_{name}")
            function.restype = result
            setattr(self, f"_{name}", function)
        self.file = ctypes.c_void_p(self._open(str(file).encode()))

    def place(self, record: int, key: str) -> tuple[Any, ...]:
        return self.file, ctypes.c_size_t(record), key.encode()

    def values(self, record: int, key: str) -> np.ndarray:
        where = self.place(record, key)
        found = np.empty(self._values(*where, None, ctypes.c_size_t(0)))
        self._values(*where, found.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(found.size))
        return found

    def shape(self, record: int, key: str) -> tuple[int, ...]:
        sizes = (ctypes.c_size_t * 3)()
        return tuple(sizes[: self._shape(*self.place(record, key), sizes)])

    def compare(self, record: int, key: str, mine: Any, dtype: str) -> int:
        mine = np.ascontiguousarray(mine, dtype=float)
        data = mine.ctypes.data_as(ctypes.c_void_p)
        size = ctypes.c_size_t(mine.size)
        return int(self._compare(*self.place(record, key), data, size, dtype.encode()))

    def error(self) -> str:
        return str(self._error().decode())


# --- many files -----------------------------------------------------------------------------------

DRIVER = """
import { readFileSync, writeFileSync } from "node:fs";
const [reader, folder, count] = process.argv.slice(2);
const codes = [];
process.exit = (code) => { throw { code }; };
console.log = console.error = () => {};
for (let i = 0; i < Number(count); ++i) {
  process.argv[2] = `${folder}/${i}.json`;
  try {
    await import(`${reader}?${i}`);
  } catch (error) {
    codes.push(error.code ?? String(error));
  }
}
writeFileSync(`${folder}/codes.json`, JSON.stringify(codes));
"""


def codes_in_javascript(folder: Path, count: int) -> list[Any]:
    """The exit codes of the reader in JavaScript, all from one process."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (folder / "driver.mjs").write_text(DRIVER)
    reader = (EXAMPLES / "golden_reader.mjs").as_uri()
    subprocess.run(
        ["node", str(folder / "driver.mjs"), reader, str(folder), str(count)], check=True
    )
    return list(json.loads((folder / "codes.json").read_text()))


def codes_in_python(folder: Path, count: int) -> list[Any]:
    """The exit codes of the reader in Python, without a process for each file."""
    place = importlib.util.spec_from_file_location("reader", EXAMPLES / "golden_reader.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    codes = []
    for i in range(count):
        try:
            rows = [*module.differences(module.contract_of((folder / f"{i}.json").read_bytes()))]
            codes.append(0 if rows and all(row[3] <= row[4] for row in rows) else 1)
        except module.UNREADABLE:
            codes.append(1)
    return codes


def codes_of_processes(program: str, folder: Path, count: int) -> list[Any]:
    """The exit codes of a compiled reader, which no sanitizer stopped."""
    codes = []
    for i in range(count):
        done = subprocess.run([program, f"{folder}/{i}.json"], capture_output=True, check=False)
        assert not re.search(b"Sanitizer|runtime error|panicked", done.stderr), (i, done.stderr)
        codes.append(done.returncode)
    return codes


def codes_of(language: str, folder: Path, count: int) -> list[Any]:
    """The exit codes of a reader for the files `0.json`, `1.json`, … of a folder."""
    if language == "py":
        return codes_in_python(folder, count)
    if language == "mjs":
        return codes_in_javascript(folder, count)
    (folder / "build").mkdir()
    program = BUILD[language](folder / "build", "-O1", *SANE)
    return codes_of_processes(program, folder, count)

"""The recipe for llama.cpp, compiled against a stand-in for ggml: its files are dumps."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import posenc

RECIPE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "dump_rotary.cpp"
# What the recipe takes of ggml, and nothing else: names, sizes, the kind of node, and its numbers.
GGML = """
#pragma once
#include <cstdint>
#include <cstring>
enum { GGML_OP_VIEW, GGML_OP_ROPE };
struct ggml_tensor { int64_t ne[4]; int op; char name[64]; void * data; };
inline int64_t ggml_nelements(const ggml_tensor * t) {
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}
inline size_t ggml_nbytes(const ggml_tensor * t) { return 4 * ggml_nelements(t); }
inline void ggml_backend_tensor_get(const ggml_tensor * t, void * to, size_t at, size_t size) {
    std::memcpy(to, static_cast<const char *>(t->data) + at, size);
}
"""
MAIN = """
#include "{recipe}"
int main() {{
    for (int layer = 0; layer < 2; layer++) for (const char * name : {{"Qcur", "Kcur", "ffn"}})
        for (int op : {{GGML_OP_VIEW, GGML_OP_ROPE}}) {{
        int heads = name[0] == 'K' ? 2 : 4;
        ggml_tensor t = {{{{16, heads, 12, 1}}, op, "", nullptr}};
        std::snprintf(t.name, 64, "%s-%d", name, layer);
        std::vector<float> x(ggml_nelements(&t));
        std::string file = std::string(name, 1) + (op == GGML_OP_ROPE ? "1" : "0");
        if (FILE * f = fopen(file.c_str(), "rb")) {{
            if (!fread(x.data(), 4, x.size(), f)) return 1;
            fclose(f);
        }}
        t.data = x.data();
        if (dump(&t, true, nullptr)) dump(&t, false, nullptr);
    }}
}}
"""


@pytest.mark.slow("detect/trace")
@pytest.mark.skipif(shutil.which("g++") is None, reason="the recipe is C++")
def test_llama_cpp(tmp_path: Path) -> None:
    rope, rng = posenc.RoPE(16, pairing="half"), np.random.default_rng(0)
    for name, heads in (("Q", 4), ("K", 2)):
        before = rng.normal(size=(heads, 12, 16)).astype("float32")
        for when, x in enumerate((before, posenc.rotate(rope, before))):
            np.asarray(x, np.float32).swapaxes(0, 1).tofile(tmp_path / f"{name}{when}")
    for header in ("ggml.h", "ggml-backend.h"):
        (tmp_path / header).write_text(GGML)
    (tmp_path / "main.cpp").write_text(MAIN.format(recipe=RECIPE))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    subprocess.run(["g++", *flags, "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    (tmp_path / "dumps").mkdir()
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    trace = posenc.trace_folder(tmp_path / "dumps", rope)
    assert (trace.verdict, len(trace.layers)) == ("agrees", 2)
    wrong = posenc.trace_folder(tmp_path / "dumps", rope.replace(base=5e5))
    assert {f.field for f in wrong.findings} == {"base"}

"""Keys and tensors that llama.cpp's converter writes of a config: rows of gguf/headers.jsonl.

    python tests/golden/make_gguf.py LLAMA_CPP config.json

prints what a row has as `keys` and `tensors`. LLAMA_CPP is a checkout with `conversion/` and
`gguf-py/`; the rows were made with the one inside the source package of llama-cpp-python 0.3.36,
which is ggml-org/llama.cpp at 0c1e57098. No weights are needed: the converter's own methods say
what the header holds, and vocabulary and weights are left out. A config without `architectures`
got the one of its type in transformers 5.23.0.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def header(root: Path, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The keys, and the small tensors that no checkpoint has, such as `rope_freqs.weight`."""
    sys.path[:0] = [str(root), str(root / "gguf-py")]
    import conversion
    import gguf
    from conversion import base

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        stated = base.ModelBase.load_hparams(folder, False)
        architecture = base.get_model_architecture(stated, base.ModelType.TEXT)
        converter = conversion.get_model_class(architecture)
        converter.set_vocab = lambda self: None
        converter.index_tensors = lambda self, remote_hf_model_id=None: {}
        model = converter(folder, gguf.LlamaFileType.ALL_F32, folder / "a.gguf", eager=True)
        model.set_gguf_parameters()
        keys = {k: v.value for part in model.gguf_writer.kv_data for k, v in part.items()}
        tensors = {name: values.tolist() for name, values in model.generate_extra_tensors()}
    return keys, tensors


if __name__ == "__main__":
    where, file = map(Path, sys.argv[1:])
    keys, tensors = header(where, json.loads(file.read_text(encoding="utf-8")))
    print(json.dumps({"keys": keys, "tensors": tensors}))

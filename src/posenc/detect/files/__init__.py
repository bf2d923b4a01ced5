"""The files that the detective reads: each header checked before any of it is believed."""

from posenc.detect.files.arrays import MOST_ENTRIES, Array, ArrayStore
from posenc.detect.files.config_json import FILE as CONFIG
from posenc.detect.files.config_json import folder_of, load
from posenc.detect.files.gguf_header import Header, read_header, read_tensor
from posenc.detect.files.safetensors_model import RECORD, Checkpoint, Stored, open_checkpoint
from posenc.detect.files.store import open_store

__all__ = [
    "CONFIG",
    "MOST_ENTRIES",
    "RECORD",
    "Array",
    "ArrayStore",
    "Checkpoint",
    "Header",
    "Stored",
    "folder_of",
    "load",
    "open_checkpoint",
    "open_store",
    "read_header",
    "read_tensor",
]

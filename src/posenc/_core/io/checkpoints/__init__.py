"""The files that the detective reads: each header checked before any of it is believed."""

from posenc._core.io.checkpoints.gguf_header import Header, read_header, read_tensor
from posenc._core.io.checkpoints.safetensors_model import (
    RECORD,
    Checkpoint,
    Stored,
    open_checkpoint,
)
from posenc._core.io.checkpoints.store import open_store
from posenc._core.io.headers import MOST_ENTRIES, Array, ArrayStore
from posenc._core.io.inputs import CONFIG_FILE as CONFIG, folder_of, load

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

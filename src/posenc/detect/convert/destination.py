"""Where a conversion goes: never onto its source, and under its name only when it is complete."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from posenc._core.errors import DataError, bad_argument
from posenc._core.io import files, inputs, outputs
from posenc._core.io.checkpoints import CONFIG, Checkpoint, Stored, open_checkpoint
from posenc.detect.convert.edits import Change, write_file

# Weights in other formats: they hold the old convention, so they do not travel along.
OTHER_WEIGHTS = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".npz",
    ".npy",
)


def target_of(checkpoint: Checkpoint, output: Path, existing: str) -> Path:
    """The output, if it is another place than the source and may be written."""
    caller, folder = "convert: output", checkpoint.folder
    inputs = [layout.path for layout in checkpoint.layouts.values()]
    inputs += [] if folder is None else filter(Path.is_file, folder.iterdir())
    places = [output, *(output.iterdir() if output.is_dir() else ())]
    same = any(_same(p, q) for p in inputs for q in places)
    single, weights = folder is None, output.suffix == ".safetensors"
    within = folder is not None and folder.resolve() in output.resolve().parents
    for wrong, expected in (
        (same or (folder and _same(folder, output)), "another file than the source"),
        (single and not weights, "a name that ends in .safetensors"),
        (not single and weights, "a folder, as the source is one"),
        (within, "a folder outside the source"),
        (single and output.is_dir(), "a file, as the source is one"),
    ):
        if wrong:
            raise bad_argument(caller, expected, str(output))
    if output.exists() and existing == "refuse":
        raise FileExistsError(errno.EEXIST, "File exists", str(output))
    if output.is_dir() and not _ours(output):
        raise bad_argument(
            caller,
            "a folder that a conversion wrote",
            str(output),
            "Remove it yourself, or choose another.",
        )
    if output.exists() and folder is not None and not output.is_dir():
        raise bad_argument(caller, "a folder, as the source is one", str(output))
    return output


def _same(a: Path, b: Path) -> bool:
    """Whether two names are of one file, by whatever links."""
    with contextlib.suppress(OSError):
        return a.samefile(b)
    return False


def _ours(folder: Path) -> bool:
    try:
        checkpoint = open_checkpoint(folder, config={}, caller="convert")
    except (DataError, OSError):
        return not any(folder.iterdir())
    return bool(checkpoint.record)


def others(checkpoint: Checkpoint) -> dict[str, str]:
    """What becomes of the other files of a folder."""
    files = {}
    own = {*checkpoint.layouts, CONFIG, checkpoint.index_name}
    for path in sorted(checkpoint.folder.iterdir()) if checkpoint.folder is not None else ():
        if path.name not in own and not path.name.startswith("."):
            weights = path.suffix in OTHER_WEIGHTS or path.name.endswith(".index.json")
            files[path.name] = "copied" if path.is_file() and not weights else "left out"
    return files


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Everything that writing needs."""

    checkpoint: Checkpoint
    changes: Mapping[str, Change]
    record: Mapping[str, Any]
    config: Mapping[str, Any] | None
    progress: Callable[[int], object]

    @contextlib.contextmanager
    def written(
        self, target: Path, existing: Literal["refuse", "replace"]
    ) -> Iterator[dict[str, Stored]]:
        """The tensors of the result before it gets its name, which it does if nothing raises."""
        if self.checkpoint.folder is None:
            (layout,) = self.checkpoint.layouts.values()
            with outputs.replacing(target, existing=existing, source=layout.path) as sink:
                write_file(layout, self.changes, self.record, sink, self.progress)
                copy = files.read_open_layout(target, sink)
                yield {name: Stored(tensor, sink) for name, tensor in copy.tensors.items()}
            return
        old = target if target.exists() else None
        with outputs.replacing_folder(target, old=old) as folder:
            yield self._fill(folder)

    def _fill(self, folder: Path) -> dict[str, Stored]:
        result: dict[str, Stored] = {}
        for name, layout in self.checkpoint.layouts.items():
            place = folder / name
            with outputs.replacing(place, existing="refuse", source=layout.path) as sink:
                write_file(layout, self.changes, self.record, sink, self.progress)
            copy = files.read_layout(place)
            result |= {n: Stored(t, place) for n, t in copy.tensors.items()}
        source = next(iter(self.checkpoint.layouts.values())).path.parent
        if self.checkpoint.index is not None:
            about = self.checkpoint.index.get("metadata")
            size = sum(s.tensor.end - s.tensor.begin for s in result.values())
            metadata = {**(about if isinstance(about, dict) else {}), "total_size": size}
            text = json.dumps({**self.checkpoint.index, "metadata": metadata}, indent=2)
            outputs.write_whole(folder / self.checkpoint.index_name, f"{text}\n")
        if self.config is not None:
            text = json.dumps(self.config, indent=2, ensure_ascii=False)
            outputs.write_whole(folder / CONFIG, text + "\n")
        elif (source / CONFIG).is_file():
            _copy(source / CONFIG, folder / CONFIG)
        for name, what in others(self.checkpoint).items():
            if what == "copied":
                _copy(source / name, folder / name)
        return result


def _copy(source: Path, target: Path) -> None:
    copy = outputs.replacing(target, existing="refuse", source=source)
    with inputs.opened(source) as file, copy as sink:
        shutil.copyfileobj(file, sink, files.PIECE)

"""Whatever can be compared, as a side: what it says of each part of a model, or answers when asked.

A side that describes a model (config, plan, spec, preset, GGUF, contract) has specs. Any other
(a function, a loaded model, the buffers of a checkpoint, an engine) only has numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from posenc._core.errors import ArgumentError, mismatch
from posenc._core.guard import why_no_code
from posenc._core.io import inputs
from posenc._core.reading import Layer, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.contract.make import PREFIXES, described, parts_of
from posenc.detect.contract.sides.models import of_checkpoint, of_engine, of_folder, of_model
from posenc.detect.contract.sides.side import (
    METHODS,
    CannotSay,
    Comparand,
    Implementation,
    Library,
    speaks,
)
from posenc.detect.subject import CannotAsk, asked
from posenc.detect.subject.code import name_of

PLAIN: dict[str, Any] = dict.fromkeys(("heads", "kind", "library", "layout")) | {"dim": 64}
ENGINE, FOLDER = "engine:", "hf:"
ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".npy", ".index.json")


def side_of(source: Any, *, name: str = "", library: Library | None = None) -> Comparand:
    """A source as a side, and what it is called; parameters and errors as of `posenc.diff`."""
    if isinstance(source, Comparand):
        return source
    if isinstance(source, (str, Path)):
        text = str(source)
        return _of_text(text, name or (text if len(text) <= 60 else f"{text[:57]}..."))
    answers = any(callable(getattr(source, method, None)) for method in METHODS)
    if not answers and callable(getattr(source, "named_buffers", None)):
        return of_model(source, name or type(source).__name__)
    described_ = isinstance(source, (Contract, Reading, Plan, Spec, Mapping, Layer))
    if described_ or (not answers and callable(getattr(source, "to_dict", None))):
        return _description(source, name or _title(source))
    if answers or speaks(source):
        return of_code(Implementation(source, library or "numpy"), name)
    return of_subject(source, name, library)


def of_subject(target: Any, name: str, library: Library | None) -> Comparand:
    """Code in any form, which is asked as wide as each part is."""
    if not callable(target) and not isinstance(target, (tuple, list)):
        asked(target, **PLAIN)  # which says what it is not
    kept: dict[Any, Implementation] = {}

    def answers(part: Part, _: object) -> tuple[Implementation]:
        spec: Any = part.spec
        dim = getattr(spec, "dim", getattr(spec, "width", 64))
        heads = spec.heads if part.kind == "bias" and spec is not None else None
        axes = len(getattr(spec, "axes", "p"))
        if (dim, heads, axes) not in kept:
            options = {"dim": dim, "heads": heads, "axes": axes, "library": library}
            kept[dim, heads, axes] = Implementation(_protocol(target, part.kind, options))
            kept[dim, heads, axes].name = name or name_of(target)
        return (kept[dim, heads, axes],)

    return Comparand(name or name_of(target), whole=False, answers=answers, shared=True)


def _protocol(target: Any, kind: str, options: dict[str, Any]) -> Any:
    """What a subject answers, under the names of the protocol."""
    try:
        subject = asked(target, kind=None, layout=None, **options)
    except CannotAsk as error:
        if kind != "bias":
            raise CannotSay(str(error)) from error
        subject = asked(target, kind=kind, layout=None, **options)
    method = {"rotary": "rotate", "table": "rows", "bias": "bias"}.get(subject.kind, "cos_sin")
    name = {"rows": "table"}.get(method, method)
    return SimpleNamespace(**{name: getattr(subject, method)})


def of_code(code: Implementation, name: str = "") -> Comparand:
    """An implementation that answers for every part."""
    return Comparand(name or code.name, whole=False, answers=lambda *_: (code,), shared=True)


def _title(source: Any) -> str:
    if isinstance(source, Mapping):
        return f"config of {source.get('model_type', 'a model')}"
    model = getattr(source, "model", "") or getattr(source, "model_type", "")
    return f"{type(source).__name__}{f' of {model}' if model else ''}"


def _description(source: Any, name: str) -> Comparand:
    preset = isinstance(source, str) and source.startswith("preset:")
    source = Reading((source,)) if isinstance(source, Layer) else source
    model = described(source, f"diff: {name}")
    notes = (note for note in getattr(model, "notes", ()) if note.level == "warning")
    remarks = tuple(f"{name}: {note.text}" for note in notes)
    # A spec speaks of one encoding, and not of the layers of a model.
    whole = not preset and not isinstance(model, Spec)
    return Comparand(name, parts_of(model), whole, remarks=remarks)


# --- texts ----------------------------------------------------------------------------------------


def is_code(text: str) -> bool:
    """Whether a text is MODULE:NAME, code to import, and none of the other sides."""
    if text.lower().startswith((*PREFIXES, FOLDER, ENGINE, "peer:")) or text.lstrip()[:1] == "{":
        return False
    why = "" if Path(text).exists() else why_no_code(text)
    if why.endswith("is not there.") or "an address" in why:
        raise ArgumentError(why)
    return not why and not Path(text).exists()


def _of_text(text: str, name: str) -> Comparand:
    if text.startswith(PREFIXES) or text.lstrip().startswith("{"):
        return _description(text, name)
    if text.startswith(FOLDER):
        return of_folder(text.removeprefix(FOLDER), name)
    if text.startswith(ENGINE):
        return of_engine(text.removeprefix(ENGINE), name)
    if text and (path := Path(text)).exists():
        if path.name.endswith(ENDINGS) and not _is_contract(path):
            return of_checkpoint(path, name)
        return _description(path, name)
    todo = (
        "A side is a file or folder, JSON, preset:NAME:WIDTH, plan:NAME, hf:FOLDER, "
        "engine:vllm=CONFIG or, of the command, MODULE:NAME."
    )
    raise ArgumentError(mismatch("diff", "a side that is there", repr(name), todo))


def _is_contract(path: Path) -> bool:
    if path.suffix != ".safetensors":
        return False
    with inputs.opened(path) as file:
        return b"posenc contract" in (file.read(2**16) or b"")

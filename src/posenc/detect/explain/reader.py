"""Configs of models, read into plans: layer -> encoding, every field with its source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from posenc._core.errors import ArgumentError, DataError, mismatch, suggest
from posenc._core.reading import Layer, Note, Reading, Source
from posenc.detect.explain.config_view import Keys
from posenc.detect.explain.layer_groups import COUNT_KEYS
from posenc.detect.explain.non_rotary import applies, read_other, words
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.rotary_entries import has_rotary, read_rotary, unread
from posenc.detect.explain.rotary_fields import ABSOLUTE, BASES, FRACTIONS, Given
from posenc.detect.files import load
from posenc.presets.families import (
    ClassDefaults,
    ClassParts,
    Family,
    class_defaults,
    class_parts,
    families,
    family,
    family_of_architectures,
)

__all__ = ["check_arguments", "from_hf"]

PAIRINGS = ("half", "interleaved")
ON_ERROR = ("raise", "report")
# Words in the names of keys that concern positions: such a key is read, or reported.
WORDS = (
    "rope",
    "rotary",
    "theta",
    "alibi",
    "position_embedding_type",
    "relative_attention",
    "yarn",
    "fope",
    "ntk",
    "logn",
    "pos_emb",
    "posemb",
    "positional",
    "abs_pos",
    "rel_pos",
    "relative_bias",
    "sinusoid",
    "nope",
    "index_head_dim",
    "indexer_head_dim",
)
# What a key means that no entry of a plan can say.
CHUNKS = (
    "Dual Chunk Attention, which engines such as vLLM and SGLang run, counts the positions of far "
    "keys anew in every chunk: no entry can say it, and scores beyond the first chunk are others"
)
INDEXER = (
    "an indexer chooses which keys are seen by scores of its own, and what it does about positions "
    "is in no entry"
)
MEANINGS = {
    "index_head_dim": INDEXER,
    "indexer_head_dim": INDEXER,
    "dual_chunk_attention_config": CHUNKS,
}
# Words in the names of parts that are no models and concern positions.
PART_WORDS = ("attention", "rope", "rotary", "position", "index")
# Keys that name a part which has a file of its own.
TOWERS = ("mm_vision_tower", "mm_audio_tower", "mm_speech_tower")
# Keys of parts that are models.
MODELS, HEADS = ("n_heads", "num_heads", "n_head", "heads"), "attention_heads"
SIZES = ("head_dim", "hidden_size", "d_model", "dim", "embed_dim", "width")
# Keys with one of those words that say nothing of angles or biases.
SILENT = (
    "rope_interleave",
    "no_rope_layer_interval",
    "rope_feat_sizes",
    "dropout",
    "nope_head_dim",  # channels that do not turn: those that do are stated beside it
    "pos_embed_rescale",  # of coordinates, in training alone
    "num_conv_pos_embedding",  # of a convolution that other keys turn on
)
# Keys of a config with attention of its own, beside its parts.
OWN = ("num_attention_heads", "n_head", "n_heads", "num_heads")
DEEPEST_PART = 8
NOTHING = "nothing in the config says what the model does about positions"
# Sub-configs of the text, which may leave out their name, as the model's own says it.
MAIN_PARTS = ("text_config", "language_config", "llm_config")
# Those without which a plan is none; what is wrong with another is a warning.
WHOLES = ("vlm_config", "thinker_config", "decoder_config")
NEEDED = (*MAIN_PARTS, *WHOLES, "encoder", "decoder", "generator")


def from_hf(
    config: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    on_error: Literal["raise", "report"] = "raise",
) -> Reading:
    """Read the config of a transformers model into a plan.

    Both dialects are understood: `rope_scaling` with `type` beside `rope_theta` (version 4), and
    `rope_parameters` with `rope_type` and `rope_theta` inside, flat or for each type of layer
    (version 5). Nothing is taken for granted: a base that is not stated, a key nobody understands
    and two keys that contradict each other are errors that name the keys. What no config ever
    states, the pairing above all, comes from the row of the family, and `Layer.sources` says so.

    Parameters
    ----------
    config : mapping, str, path, or config object
        A dictionary, JSON text, the path of a `config.json` or of its folder, or an object with
        `to_dict`.
    pairing : {"half", "interleaved"}, optional
        The pairing of channels, for families that are not known; it overrides the row of others.
    base : float, optional
        The base, for configs that do not state it; it overrides those that do.
    on_error : {"raise", "report"}
        Whether to raise what cannot be settled, or return it as `plan.errors`; entries that could
        not be settled are left out then.

    Returns
    -------
    Reading
        An entry for each type of layer of each part of the model.

    Raises
    ------
    DataError
        If the config cannot be read, or something that changes numbers is left open.
    ArgumentError
        If an argument is none of its choices.

    Examples
    --------
    >>> import posenc
    >>> config = {"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0,
    ...           "max_position_embeddings": 8192}
    >>> plan = posenc.from_hf(config)
    >>> plan["attention"].spec == posenc.RoPE(64, pairing="half", base=500_000)
    True
    >>> [(s.field, s.origin) for s in plan["attention"].sources][:3]
    [('base', 'config'), ('dim', 'config'), ('pairing', 'preset')]
    """
    check_arguments("from_hf", pairing, base, on_error)
    data = load(config, "from_hf")
    plan = _Reader(Given(pairing, None if base is None else float(base))).plan(data)
    if plan.errors and on_error == "raise":
        told = "; ".join(plan.errors)
        todo = 'on_error="report" returns what could be read.'
        raise DataError(f"from_hf: {told}. {todo}")
    return plan


def check_arguments(caller: str, pairing: object, base: object, on_error: object) -> None:
    """Raise `ArgumentError` for arguments of a reader that are none of its choices."""
    if pairing is not None and pairing not in PAIRINGS:
        todo = suggest(pairing, PAIRINGS)
        raise ArgumentError(mismatch(f"{caller}: pairing", "one of its names", repr(pairing), todo))
    number = isinstance(base, (int, float)) and not isinstance(base, bool)
    if base is not None and not (number and base > 0):  # type: ignore[operator]
        raise ArgumentError(mismatch(f"{caller}: base", "a positive number", repr(base)))
    if on_error not in ON_ERROR:
        todo = suggest(on_error, ON_ERROR)
        raise ArgumentError(
            mismatch(f"{caller}: on_error", "one of its names", repr(on_error), todo)
        )


class _Reader:
    """One reading: parts of a config, and what is noted on the way."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.entries: list[Layer] = []
        self.notes: list[Note] = []
        self.model: object = None  # the type of the whole

    def plan(self, data: Mapping[str, Any]) -> Reading:
        model = self.model = data.get("model_type") or ""
        if not isinstance(model, str):
            told = repr(model)[:60]
            self.notes.append(Note("error", f"model_type={told} is not the name of a family"))
            model = ""
        self.part(data, "", "", depth=0)
        if not self.entries and not any(note.level == "error" for note in self.notes):
            text = NOTHING
            known = suggest(model, families()) if model and family(model) is None else ""
            text += f", and {model!r} is no known family" if known else ""
            text += f". {known}" if known.startswith("Did") else ""
            self.notes.append(Note("error", text))
        return Reading(tuple(self.entries), notes=tuple(self.notes), model=model)

    def part(
        self,
        data: Mapping[str, Any],
        path: str,
        name: str,
        *,
        depth: int,
        called: str | None = None,
        fixed: bool = False,
        of_class: str | None = None,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """One config or sub-config, and those inside it.

        `called` names one without a name, or whatever it says, if `fixed`; `of_class` is the type
        of its class, if that is another. One without keys is as its class makes it, with `more`.
        """
        keys = Keys(data, path)
        row, called = self._recognised(keys, name, called, fixed)
        made = class_parts(called)
        inside = {k: v for k, v in _whole(data, made).items() if _is_part(k, v, made)}
        flat = _flat(keys, made)
        if flat:
            row = family(made.types[flat])
            self._note_flat(keys, made, name, flat)
        known = class_defaults(made.types[flat] if flat else of_class or called)
        if known is not None:
            keys.defaults = known.left_out(data)
            keys.sizes = known.sizes if path else {}
        keys.defaults = {**_parts_left_out(data, made), **keys.defaults, **more}
        without = {key: kind for key, kind in made.types.items() if key not in made.none}
        if row is not None and not _hollow(keys, row, {**without, **inside}):
            self._known(keys, row, known, name)
        elif row is None and has_rotary(keys) and not _hollow(keys, None, inside):
            self._unknown(keys, name)
        elif row is None and not inside and (data or not made.types):
            self._nothing(keys, name, called)
        if depth == DEEPEST_PART and (inside or made.types):
            where = keys.where(next(iter(inside or made.types)))
            notes = Notes(name)
            notes.warning(f"{where} was not read: parts lie more than {depth} deep")
            self.notes += notes.notes
        elif depth < DEEPEST_PART:
            for key, value in inside.items():
                if key not in made.types and _options(keys, key, value):
                    continue
                own = None if row is None else row.inside.get(key)
                name_of = own or made.types.get(key)
                # The whole makes it in its own way, whatever its class does elsewhere.
                others = own is not None and value.get("model_type") == made.types.get(key, "")
                if name_of is None and key in MAIN_PARTS:
                    name_of = _name_of_text(keys.data.get("model_type") or self.model)
                self.part(
                    {**value, "model_type": own} if others else value,
                    keys.where(key),
                    _joined(name, key),
                    depth=depth + 1,
                    called=name_of,
                    fixed=key in made.types and key not in made.open,
                    of_class=made.types.get(key) if own else None,
                )
            self._left_out(keys, made, row, name, flat=flat, depth=depth)

    def _nothing(self, keys: Keys, name: str, called: str | None) -> None:
        """Note a config of which nothing is known."""
        data, path = keys.data, keys.path
        model = data.get("model_type")
        said = f"model_type {model!r}" if model else "without a model_type"
        if called is not None and not model:
            said = f"{called!r}"
        todo = suggest(model, families()) if isinstance(model, str) and model else ""
        hint = f". {todo}" if todo.startswith("Did") else ""
        notes = Notes(name)
        told = f"{path or 'the config'}: {said} is not known, and states no rotary base"
        if path and (model or not data or _has_heads(data)):
            notes.warning(f"{path}: unknown, because {said} is not known{hint}")
        elif path and any(word in path.rpartition(".")[2] for word in PART_WORDS):
            key = path.rpartition(".")[2]
            told = f"{path}={repr(dict(data))[:200]} was not read"
            notes.warning(f"{told}: {MEANINGS[key]}" if key in MEANINGS else told)
        else:
            notes.remark(told + hint)
        self.notes += notes.notes

    def _note_flat(self, keys: Keys, made: ClassParts, name: str, flat: str) -> None:
        notes = Notes(name)
        if made.flat == flat:
            told = "keys of the text stand in the config of the whole, where its class reads them"
            notes.remark(told)
        else:
            notes.warning(
                "keys of the text stand in the config of the whole, while the class in "
                f"transformers {made.version} reads {keys.where(flat)} alone: they are read as "
                f"those of type {made.types[flat]!r}"
            )
        self.notes += notes.notes

    def _left_out(
        self, keys: Keys, made: ClassParts, row: Family | None, name: str, *, flat: str, depth: int
    ) -> None:
        """Parts that the class makes where the file has none, or that are no dictionaries."""
        parts = [k for k, v in keys.data.items() if k not in made.types and _is_part(k, v, made)]
        text = [key for key in parts if key in MAIN_PARTS]
        if text and not made.types and class_defaults(keys.data.get("model_type")) is not None:
            notes = Notes(name)
            notes.warning(
                f"{keys.where(text[0])} is no part of the class in transformers {made.version}, "
                "which reads keys beside it: the file was written for other code"
            )
            self.notes += notes.notes
        labels = {_label(key) for key in parts}
        absent = [key for key in made.types if not keys.data.get(key)]
        missing = [key for key in absent if key in MAIN_PARTS or _label(key) in labels]
        others = [key for key in parts if key in NEEDED]
        foreign = bool(missing and others) and not flat
        if foreign:
            notes = Notes(name)
            notes.warning(
                f"{keys.where(missing[0])}, which the class in transformers {made.version} reads "
                f"alone, is left out, and {keys.where(others[0])} is there: the file was written "
                "for other code, whose parts these are; those of the class are in no entry"
            )
            self.notes += notes.notes
        for key, kind in made.types.items():
            value, where, notes = keys.data.get(key), keys.where(key), Notes(name)
            value = keys.data.get(f"{key}_dict") or value
            if isinstance(value, Mapping) and value:
                continue
            if value is not None and value != {}:
                told = repr(value)[:80]
                notes.warning(
                    f"{where}={told} was not read: a dictionary of type {kind!r} belongs there"
                )
            elif key not in made.none and key != flat and not foreign:
                of = f"a part of type {kind!r}, by its class in transformers {made.version}"
                notes.remark(f"{where} is left out: {of}")
                self.notes += notes.notes
                self.part(
                    {},
                    where,
                    _joined(name, key),
                    depth=depth + 1,
                    called=(None if row is None else row.inside.get(key)) or kind,
                    fixed=True,
                    of_class=kind,
                    more=made.values.get(key, {}),
                )
                continue
            self.notes += notes.notes

    def _recognised(
        self, keys: Keys, name: str, called: str | None, fixed: bool
    ) -> tuple[Family | None, str | None]:
        """The row of the family, and the name by which it was found."""
        stated = keys.get("model_type")
        key = keys.path.rpartition(".")[2]
        model_type = stated or called
        notes = Notes(name)
        if key and key not in keys.data and key in class_parts(stated).types:
            # A part that is called as the whole.
            model_type = class_parts(stated).types[key]
        if fixed and called is not None and model_type != called:
            told = (
                f"{keys.where('model_type')}={stated!r}, which the class of the whole in "
                f"transformers {class_parts(None).version} does not read: the part is of type "
                f"{called!r}"
            )
            (notes.warning if family(model_type) is not None else notes.remark)(told)
            model_type = called
        row = family(model_type)
        if row is None:
            found = family_of_architectures(keys.get("architectures"))
            if found is not None and not class_parts(model_type).types:
                row = found[1]
                called = found[0]
                said = f"{keys.where('architectures')} names the family {found[0]!r}"
                notes.remark(
                    said if model_type is None else f"{said}; model_type is {model_type!r}"
                )
                self.notes += notes.notes
                return row, called
        self.notes += notes.notes
        return row, model_type if isinstance(model_type, str) else None

    def _known(self, keys: Keys, row: Family, known: ClassDefaults | None, name: str) -> None:
        notes = Notes(name)
        for rule in row.entries:
            for key in rule.get("unused", ()):
                keys.get(key)
        if row.note:
            notes.remark(row.note)
        turning = any("rotary" in rule and applies(keys, rule) for rule in row.entries)
        stated = () if turning else (*BASES, *FRACTIONS, *ABSOLUTE)
        for rule in row.entries:
            if not applies(keys, rule):
                for key in (*words(rule), *(stated if "rotary" in rule else ())):
                    keys.get(key)  # it means nothing here
                continue
            if "partly" in rule:
                notes.warning(f"{rule.get('name', 'attention')}: partly, because {rule['partly']}")
            if "warn" in rule:
                notes.warning(rule["warn"])
            if "rotary" in rule:
                rotary = {**rule, "preset": rule["rotary"], "class": known}
                self.entries += read_rotary(keys, rotary, name, self.given, notes)
            else:
                self.entries += read_other(keys, rule, name, notes)
        for key, value in keys.defaulted.items() if keys.data else ():
            notes.remark(
                f"{keys.where(key)} is left out: {repr(value)[:80]}, which the class in "
                f"transformers {class_parts(None).version} takes for it"
            )
        self._finish(keys, notes)

    def _unknown(self, keys: Keys, name: str) -> None:
        notes = Notes(name)
        model_type = keys.data.get("model_type")
        if model_type is not None:
            todo = suggest(model_type, families())
            hint = f" {todo}" if todo.startswith("Did") else ""
            notes.warning(f"{keys.where('model_type')}={model_type!r} is not a known family.{hint}")
        self.entries += read_rotary(keys, {}, name, self.given, notes)
        self._finish(keys, notes)

    def _finish(self, keys: Keys, notes: Notes) -> None:
        count = keys.first(key for key in COUNT_KEYS if key in keys.data)
        if count is not None and count[1] < 1:
            notes.warning(
                f"{keys.where(count[0])}={count[1]:g} says that there are no layers: the plan is "
                "that of layers as the rest of the config describes them"
            )
        left = {*MEANINGS} & {*keys.defaults} - {*keys.data, *keys.defaulted}
        for key in sorted(left):
            notes.warning(
                f"{keys.where(key)}={keys.defaults[key]!r}, which the file leaves to the "
                f"class, was not read: {MEANINGS[key]}"
            )
        for key in TOWERS if not class_parts(keys.data.get("model_type")).types else ():
            if isinstance(keys.data.get(key), str) and keys.data[key]:
                notes.warning(
                    f"{keys.where(key)}={keys.data[key][:80]!r} was not read: the tower that it "
                    "names has a file of its own, and is in no entry"
                )
        for key in unread(keys, WORDS):
            said = keys.data[key] is not False and keys.data[key] != "absolute"
            if said and not any(word in key for word in SILENT):
                told = f"{keys.where(key)}={repr(keys.data[key])[:200]} was not read"
                notes.warning(f"{told}: {MEANINGS[key]}" if key in MEANINGS else told)
        self._add(notes, keys.path)

    def _add(self, notes: Notes, path: str) -> None:
        """Keep notes; what is wrong with a part that is not needed leaves the others right."""
        if all(key in NEEDED for key in path.split(".") if key):
            self.notes += notes.notes
            return
        for note in notes.notes:
            left = note.level == "error" and not note.text.startswith("unknown, because")
            text = f"unknown, because {note.text}"
            self.notes.append(Note("warning", text, layer=note.layer) if left else note)


def _whole(data: Mapping[str, Any], made: ClassParts) -> Mapping[str, Any]:
    """A config whose parts are those of an older spelling, which goes before the newer one."""
    older = {key: data[f"{key}_dict"] for key in made.types if data.get(f"{key}_dict")}
    spelled = {f"{key}_dict" for key in older}
    return {**{k: v for k, v in data.items() if k not in spelled}, **older} if older else data


def _is_part(key: str, value: Any, made: ClassParts) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    if key in ("rope_parameters", "rope_scaling", "quantization_config", "per_layer_config"):
        return False
    named = key in made.types or key.endswith("_config") or key in ("encoder", "decoder")
    return named or "model_type" in value or _has_heads(value)


def _options(keys: Keys, key: str, value: Mapping[str, Any]) -> bool:
    """Whether a dictionary has no model: a rule has read it, or it is called as the whole."""
    if not value.get("model_type"):
        return key in keys.read
    sized = _has_heads(value) or any(size in value for size in SIZES)
    return value["model_type"] == keys.data.get("model_type") and not sized


def _has_heads(data: Mapping[str, Any]) -> bool:
    return any(isinstance(key, str) and (key in MODELS or HEADS in key) for key in data)


def _name_of_text(model_type: object) -> str | None:
    """The family of the text part of a model, by the name of the whole."""
    for name in (f"{model_type}_text", model_type):
        if family(name) is not None:
            return str(name)
    return None


def _parts_left_out(data: Mapping[str, Any], made: ClassParts) -> dict[str, Any]:
    """What the class has in parts that a config leaves out, for rules of the whole."""
    found = {}
    for key, kind in made.types.items():
        known = class_defaults(kind)
        if not data.get(key) and key not in made.none:
            own = {} if known is None else known.left_out({})
            found[key] = {**own, **made.values.get(key, {})}
    return found


def _joined(name: str, key: str) -> str:
    return ".".join(part for part in (name, _label(key)) if part)


def _flat(keys: Keys, made: ClassParts) -> str:
    """The key of the part for text, where its keys stand in the config of the whole."""
    if not any(key in keys for key in OWN) or (made.own and not made.flat):
        return ""
    missing = [key for key in MAIN_PARTS if key in made.types and not keys.data.get(key)]
    return next((key for key in missing if family(made.types[key]) is not None), "")


def _label(key: str) -> str:
    return key.removesuffix("_config").removesuffix("_model") or key


def _hollow(keys: Keys, row: Family | None, inside: Mapping[str, Any]) -> bool:
    """Whether a config only holds others: it has parts, and no attention of its own."""
    if not inside:
        return False
    if row is not None and row.entries and row.entries[0].get("own"):
        return False
    turning = row is not None and any("rotary" in rule for rule in row.entries)
    if turning and has_rotary(Keys(keys.data)) and not any(key in inside for key in NEEDED):
        return False
    return not any(key in keys for key in OWN)


def source_of(entry: Layer, field: str) -> Source | None:
    """Where a field of an entry was found."""
    for source in entry.sources:
        if source.field == field:
            return source
    return None

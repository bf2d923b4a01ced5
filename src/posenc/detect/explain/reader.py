"""Configs of models, read into plans: layer -> encoding, every field with its source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from posenc._core.annotations import show
from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, suggest
from posenc._core.io.checkpoints import folder_of, load
from posenc._core.io.yaml_text import Unclear
from posenc._core.reading import Layer, Note, Reading
from posenc.detect.explain.config.modelling_file import by_file, modelling_of
from posenc.detect.explain.config.parts import (
    NEEDED,
    flat_part,
    has_heads,
    is_hollow,
    is_options,
    is_part,
    joined,
    label_of,
    name_of_text,
    parts_left_out,
    text_part,
    with_older_parts,
)
from posenc.detect.explain.config.unread_keys import (
    check_numbers,
    left_out,
    note_flat,
    note_repeated,
    note_unread,
    nothing_said,
    told_of,
    unclear,
)
from posenc.detect.explain.config.view import (
    ABSOLUTE,
    BASES,
    COUNT_KEYS,
    FRACTIONS,
    MAIN_PARTS,
    Keys,
    Notes,
    check_base,
    settled,
)
from posenc.detect.explain.diffusers import from_diffusers, is_diffusers
from posenc.detect.explain.formats import agreed, fitting, in_own_words, nearest
from posenc.detect.explain.layers.groups import with_windows
from posenc.detect.explain.layers.non_rotary import applies, read_other, words
from posenc.detect.explain.rotary.entries import has_rotary, read_rotary
from posenc.detect.explain.rotary.fields import Given
from posenc.presets.families import (
    NO_CLASS,
    ClassDefaults,
    ClassParts,
    Family,
    class_defaults,
    class_parts,
    families,
    family,
    family_of_architectures,
)

# Words in the names of parts that are no models and concern positions.
PART_WORDS = ("attention", "rope", "rotary", "position", "index")
DEEPEST_PART = 8


@checked_call
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
    check_base("from_hf", base)
    data = load(config, "from_hf")
    if is_diffusers(data):
        if pairing is not None or base is not None:
            todo = "posenc knows both by the class; change the spec by `replace`."
            raise bad_argument(
                "from_hf", "a config of diffusers without pairing= and base=", "one of them", todo
            )
        return settled(from_diffusers(data, folder_of(config)), "from_hf", on_error)
    given = Given(pairing, None if base is None else float(base))
    if read := fitting(data):
        plans = [in_own_words(_Reader(given).plan(one.config), one) for one in read]
        return settled(agreed(plans, read), "from_hf", on_error)
    return settled(_Reader(given, folder_of(config)).plan(data), "from_hf", on_error)


class _Reader:
    """One reading: parts of a config, and what is noted on the way."""

    def __init__(self, given: Given, folder: Path | None = None) -> None:
        self.given = given
        self.folder = folder
        self.entries: list[Layer] = []
        self.notes: list[Note] = []
        self.model: object = None  # the type of the whole

    def plan(self, data: Mapping[str, Any]) -> Reading:
        model = self.model = data.get("model_type") or ""
        if not isinstance(model, str):
            text = f"model_type={show(model)} is not the name of a family"
            self.notes.append(Note("error", text))
            model = ""
        self.part(data, "", "", depth=0)
        if not self.entries:
            wrong = any(note.level == "error" for note in self.notes)
            text = "" if wrong and family(model) is not None else nearest(data)
            text = text if wrong else f"{nothing_said(data, model)}{text}".replace("?. ", "? ")
            self.notes += [Note("error", text.removeprefix(". "))] if text else []
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
        keys, notes = Keys(data, path), Notes(name, self.notes)
        self.given = self.given._replace(file=modelling_of(data, self.folder))
        row, called = self._recognised(keys, called, fixed, notes)
        made = class_parts(called)
        inside = {k: v for k, v in with_older_parts(data, made).items() if is_part(k, v, made)}
        for key, value in data.items():
            if isinstance(value, Unclear) and is_part(key, {"": value}, made):
                notes.error(*unclear(value, keys.where(key)))
        if flat := flat_part(keys, made):
            of_class = made.types[flat]
            row = family(of_class)
            note_flat(keys, made, flat, notes)
        of_class = of_class or called
        if (known := class_defaults(of_class)) is not None:
            keys.defaults = left_out(keys, known, notes)
            computed = "head_dim" if {*known.sizes} & {*data} else ""  # of others, some stated
            keys.sizes = {k: v for k, v in known.sizes.items() if path and k != computed}
        keys.defaults = {**parts_left_out(data, made), **keys.defaults, **more}
        before = len(self.entries)
        without = made.types.keys() - {*made.none}
        if row is not None and (flat or not is_hollow(keys, row, without | inside.keys())):
            self._known(keys, row, known, name)
        elif row is None and (text := text_part(made, inside)):
            note_repeated(keys, text, inside[text], notes)
        elif row is None and has_rotary(keys) and not is_hollow(keys, None, inside):
            self._unknown(keys, name)
        elif row is None and not inside and (data or not made.types):
            self._nothing(keys, called, notes)
        if own_entries := self.entries[before:]:
            self.entries[before:] = with_windows(keys, of_class, known, own_entries, notes)
        if depth == DEEPEST_PART and (inside or made.types):
            first = next(iter(inside or made.types))
            notes.warning(f"{keys.where(first)} was not read: parts lie more than {depth} deep")
        elif depth < DEEPEST_PART:
            for key, value in inside.items():
                if key not in made.types and is_options(keys, key, value):
                    continue
                own = None if row is None else row.parts.get(key)
                name_of = own or made.types.get(key)
                # The whole makes it in its own way, whatever its class does elsewhere.
                stated = value.get("model_type")
                others = own is not None and stated == made.types.get(key, stated)
                if name_of is None and key in MAIN_PARTS:
                    name_of = name_of_text(keys.data.get("model_type") or self.model)
                self.part(
                    {**value, "model_type": own} if others else value,
                    keys.where(key),
                    joined(name, key),
                    depth=depth + 1,
                    called=name_of,
                    fixed=key in made.types and key not in made.open,
                    of_class=made.types.get(key) if own else None,
                )
            self._left_out(keys, made, row, notes, flat=flat, depth=depth)

    def _nothing(self, keys: Keys, called: str | None, notes: Notes) -> None:
        """Note a config of which nothing is known."""
        data, path = keys.data, keys.path
        model, key = data.get("model_type"), path.rpartition(".")[2]
        unnamed = "without a model_type" if called is None else f"{called!r}"
        said = f"model_type {model!r}" if model else unnamed
        todo = suggest(model, families()) if isinstance(model, str) and model else ""
        hint = f". {todo}" if todo.startswith("Did") else ""
        if path and (model or not data or has_heads(data)):
            notes.warning(f"{path}: unknown, because {said} is not known{hint}")
        elif path and any(word in key for word in PART_WORDS):
            notes.warning(told_of(f"{path}={repr(dict(data))[:200]} was not read", key))
        else:
            notes.remark(
                f"{path or 'the config'}: {said} is not known, and states no rotary base{hint}"
            )

    def _left_out(
        self,
        keys: Keys,
        made: ClassParts,
        row: Family | None,
        notes: Notes,
        *,
        flat: str,
        depth: int,
    ) -> None:
        """Parts that the class makes where the file has none, or that are no dictionaries."""
        parts = [k for k, v in keys.data.items() if k not in made.types and is_part(k, v, made)]
        text = [key for key in parts if key in MAIN_PARTS]
        if text and not made.types and class_defaults(keys.data.get("model_type")) is not None:
            notes.warning(
                f"{keys.where(text[0])} is not read by the class in transformers {made.version}, "
                "which reads the keys around it: the file was written for other code"
            )
        labels = {label_of(key) for key in parts}
        missing = [
            key
            for key in made.types
            if not keys.data.get(key) and (key in MAIN_PARTS or label_of(key) in labels)
        ]
        others = [key for key in parts if key in NEEDED]
        foreign = bool(missing and others) and not flat
        if foreign:
            notes.warning(
                f"the class in transformers {made.version} reads {keys.where(missing[0])}, and "
                f"{keys.where(others[0])} stands in its place: the file was written for other "
                "code; the plan has the parts of the file, not those of the class"
            )
        for key, kind in made.types.items():
            value, where = keys.data.get(f"{key}_dict") or keys.data.get(key), keys.where(key)
            if isinstance(value, Mapping) and value:
                continue
            if value is not None and value != {}:
                notes.warning(
                    f"{where}={repr(value)[:80]} was not read: a dictionary of type {kind!r} "
                    "belongs there"
                )
            elif key not in made.none and key != flat and not foreign:
                notes.remark(
                    f"{where} is left out: a part of type {kind!r}, by its class in transformers "
                    f"{made.version}"
                )
                self.part(
                    {},
                    where,
                    joined(notes.layer, key),
                    depth=depth + 1,
                    called=(None if row is None else row.parts.get(key)) or kind,
                    fixed=True,
                    of_class=kind,
                    more=made.values.get(key, {}),
                )

    def _recognised(
        self, keys: Keys, called: str | None, fixed: bool, notes: Notes
    ) -> tuple[Family | None, str | None]:
        """The row of the family, and the name by which it was found."""
        stated, key = keys.get("model_type"), keys.path.rpartition(".")[2]
        model_type = stated or called
        if key and key not in keys.data:
            # A part that is called as the whole.
            model_type = class_parts(stated).types.get(key, model_type)
        if fixed and called is not None and model_type != called:
            told = (
                f"{keys.where('model_type')}={show(stated)}, which the class of the whole in "
                f"transformers {class_parts(None).version} does not read: the part is of type "
                f"{called!r}"
            )
            (notes.warning if family(model_type) is not None else notes.remark)(told)
            model_type = called
        if (row := family(model_type)) is None:
            found = family_of_architectures(keys.get("architectures"))
            if found is not None and not class_parts(model_type).types:
                more = "" if model_type is None else f"; model_type is {model_type!r}"
                notes.remark(f"{keys.where('architectures')} names the family {found[0]!r}{more}")
                return found[1], found[0]
        return row, model_type if isinstance(model_type, str) else None

    def _known(self, keys: Keys, row: Family, known: ClassDefaults | None, name: str) -> None:
        notes = Notes(name)
        for key in (key for rule in row.entries for key in rule.get("ignored_keys", ())):
            keys.get(key)
        if row.note:
            notes.remark(row.note)
        turning = any("rotary" in rule and applies(keys, rule) for rule in row.entries)
        stated = () if turning else (*BASES, *FRACTIONS, *ABSOLUTE)
        before = len(self.entries)
        for rule in row.entries:
            if not applies(keys, rule):
                for key in (*words(rule), *(stated if "rotary" in rule else ())):
                    keys.get(key)  # it means nothing here
                continue
            if "partial_because" in rule:
                notes.warning(
                    f"{rule.get('name', 'attention')}: read in part, because "
                    f"{rule['partial_because']}"
                )
            if "note" in rule:
                notes.remark(rule["note"])
            if "warning" in rule:
                notes.warning(rule["warning"])
            if "rotary" in rule:
                rotary: Any = {**rule, "preset": rule["rotary"], "class": known or NO_CLASS}
                self.entries += read_rotary(keys, rotary, name, self.given, notes)
            else:
                self.entries += read_other(keys, rule, name, notes)
        if known is not None and (file := self.given.file) is not None:
            self.entries[before:] = by_file(keys, row, self.entries[before:], file, notes)
        for key, value in keys.defaulted.items() if keys.data else ():
            notes.remark(
                f"{keys.where(key)} is left out: {repr(value)[:80]}, the default of the class in "
                f"transformers {class_parts(None).version}"
            )
        self._finish(keys, notes)

    def _unknown(self, keys: Keys, name: str) -> None:
        notes = Notes(name)
        if (model_type := keys.data.get("model_type")) is not None:
            todo = suggest(model_type, families())
            hint = f" {todo}" if todo.startswith("Did") else ""
            notes.warning(f"{keys.where('model_type')}={model_type!r} is not a known family.{hint}")
        nothing: Any = {"class": NO_CLASS}
        self.entries += read_rotary(keys, nothing, name, self.given, notes)
        self._finish(keys, notes)

    def _finish(self, keys: Keys, notes: Notes) -> None:
        count = keys.first(key for key in COUNT_KEYS if key in keys.data)
        if count is not None and count[1] < 1:
            notes.warning(
                f"{keys.where(count[0])}={count[1]:g} says that there are no layers: the plan is "
                "that of layers as the rest of the config describes them"
            )
        if not check_numbers(keys, notes):
            self.entries = []  # nothing can be computed of such numbers
        note_unread(keys, notes)
        # What is wrong with a part that is not needed leaves the others right.
        needed = all(key in NEEDED for key in keys.path.split(".") if key)
        for note in notes.notes:
            left = note.level == "error" and not note.text.startswith("unknown, because")
            lesser = Note("warning", f"unknown, because {note.text}", layer=note.layer)
            self.notes.append(lesser if left and not needed else note)

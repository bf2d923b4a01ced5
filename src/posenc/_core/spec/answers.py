"""What a spec answers itself, and what it says to who expects the methods of another library.

Also how values are written, shown in notebooks and cited. The verbs and pictures stand in layers
above; `posenc` hands down what finds them, in `_names.HANDED`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from abc import ABCMeta
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from posenc._core.annotations import show
from posenc._core.errors import KeywordError, PosencError, closest
from posenc._core.foreign import (
    ARGUMENTS,
    SCALING_NAMES,
    SHARES,
    WHOLE,
    letters,
    meanings,
    rule_named,
    verb_called,
)
from posenc._core.spec.attributes import ATTRIBUTES, RESULTS, ROWS, STRETCH
from posenc._names import ALIASES, HANDED, HOMES, SPECS

if TYPE_CHECKING:
    import numpy as np


class Displayed:
    """Base of specs, plans and findings: `print` says what the command does, a notebook draws.

    For a name that they do not have, they say what to write.
    """

    # A type checker must not see it: to it, every misspelt name would then be there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if hasattr(type(self), name):  # a property that failed says why
                return object.__getattribute__(self, name)
            if isinstance(self, Answering):
                return answer(self, name)
            raise AttributeError(Absent(self, name))

    def __str__(self) -> str:
        return "\n".join(HANDED["told"](self))

    def _repr_html_(self) -> str:
        return str(HANDED["card"](self))


def brief(value: Any, write: Callable[[Any], str] = repr) -> str:
    """The call that makes a value, without the fields that have their defaults."""
    shown, by_place = [], True
    for field in dataclasses.fields(value):
        argument = getattr(value, field.name)
        # By their texts, as 0.0 and -0.0 are equal and have other JSON.
        if field.default is not dataclasses.MISSING and repr(argument) == repr(field.default):
            by_place = False
            continue
        by_place &= not field.kw_only
        # A value that is known by a word is written so, whoever writes.
        word = getattr(argument, "word", argument.__repr__)()
        text = write(argument) if word == repr(argument) else word
        shown.append(f"{'' if by_place else f'{field.name}='}{text}")
    return f"{type(value).__name__}({', '.join(shown)})"


class Citation:
    """`bibtex` of an encoding class: the entry of `encodings/papers.bib` that its `paper` names."""

    def __get__(self, spec: object, cls: Any) -> str:
        return _entries()[cls.paper] if cls.paper else ""


@functools.cache
def _entries() -> dict[str, str]:
    """The entries by their keys; a blank line is between two."""
    file = resources.files("posenc") / "encodings" / "papers.bib"
    return {
        entry.partition("{")[2].partition(",")[0]: entry
        for entry in file.read_text(encoding="utf-8").strip().split("\n\n")
    }


# --- answers --------------------------------------------------------------------------------------

# By kinds: a name of a spec, and the function below `posenc` that it calls with the spec first.
VERBS: dict[str, dict[str, str]] = {
    "table": {"table": "table", "add": "add", "plot": "plot.table"},
    "rotary": {"rotate": "rotate", "cos_sin": "cos_sin", "plot": "plot.rotation"},
    "bias": {"bias": "bias", "plot": "plot.bias"},
    "relative": {"relative": "relative", "plot": "plot.attention"},
}
PHASES = ("frequencies", "wavelengths")  # values of whatever has phases
# What `dir` shows beside these and the fields; all else is for authors of encodings.
SHOWN = {
    "": "bibtex fingerprint kind replace to_dict axes",
    "table": "width embedding_scale",
    "rotary": "at attention_factor logit_factor pairs",
    "bias": "place",
    "relative": "heads on_values place scale",
}
MODULES = {
    "table": "PositionTable",
    "rotary": "RotaryEmbedding",
    "bias": "AttentionBias",
    "relative": "RelativeAttention",
}


def answer(spec: Any, name: str) -> Any:
    """A verb as a method of a spec, or a value of its phases."""
    path = VERBS[spec.kind].get(name, "")
    if path:
        return functools.partial(HANDED["verb"](path), spec)
    if name not in PHASES or not hasattr(type(spec), "matrix"):
        raise AttributeError(Unanswered(type(spec), name))
    try:
        return HANDED["verb"](name)(spec)
    except PosencError as error:  # `hasattr` and what lists attributes ask, too
        raise AttributeError(str(error)) from None


def shown(cls: Any) -> set[str]:
    """The names of a spec that are for users."""
    return {
        *getattr(cls, "__dataclass_fields__", ()),
        *VERBS[cls.kind],
        *(PHASES if hasattr(cls, "matrix") else ()),
        *({"slopes"} if hasattr(cls, "slopes") else ()),
        *f"{SHOWN['']} {SHOWN[cls.kind]}".split(),
    }


def refusal(spec: Any, use: str) -> KeywordError:
    """The error of who calls a spec, or takes it for a list."""
    return KeywordError(
        f"{type(spec).__name__}: a spec is not {use}: "
        f"{_fit(ROWS if use in ('indexed', 'counted') else WHOLE, type(spec))}."
    )


# What other libraries put in front of a name, and their names themselves, for one that is misspelt.
PREFIX = re.compile(r"^(num|n|get|is|has|compute|calc|make|build|the)_")
FOREIGN = re.findall(r"\w{4,}", " ".join([*dict(ATTRIBUTES), *(row[0] for row in ARGUMENTS)]))


class AnsweringClass(ABCMeta):
    """The class of the classes of specs, which say what to write for names of other libraries."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(
                Unanswered(cls, name)
                if not name.startswith("_") and name != "kind" and hasattr(cls, "kind")
                else name
            )


class Answering(metaclass=AnsweringClass):
    """Base of specs: verbs as methods, and what to write for what is otherwise elsewhere."""

    if TYPE_CHECKING:
        plot: Callable[..., Any]
        frequencies: np.ndarray
        wavelengths: np.ndarray

    def __dir__(self) -> list[str]:
        return sorted(shown(type(self)))

    # A spec is true all the same, and no list and no container, and NumPy leaves operators to it.
    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None
    __array_ufunc__: ClassVar[None] = None

    def __bool__(self) -> bool:
        return True

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise refusal(self, "called")

    def __getitem__(self, _: Any) -> NoReturn:
        raise refusal(self, "indexed")

    def __len__(self) -> NoReturn:
        raise refusal(self, "counted")

    def __add__(self, _: Any) -> NoReturn:
        raise refusal(self, "an array to calculate with")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = __add__


def unchanged(value: Any, name: str, new: object) -> NoReturn:
    """Refuse an assignment, in the words of `replace`."""
    fields = value.__dataclass_fields__
    field = next((each for each in (name, *meanings(name)[0]) if each in fields), "")
    todo = f"write spec.replace({field}={show(new)})" if field else "it has fields alone"
    raise dataclasses.FrozenInstanceError(
        f"{type(value).__name__}: a value does not change. For another {name!r}, {todo}."
    )


def verb_of(name: str, kind: str) -> str:
    """The call of a verb of posenc that takes a spec of a kind first; nothing for other names."""
    verb = HANDED["verb"](name) if ALIASES.get(name, name) in HOMES and name not in SPECS else None
    about = "".join(re.split(r"\n    (?=\S[^\n]* : )", getattr(verb, "__doc__", "") or "")[1:2])
    kinds = re.findall(r"(\w+)Spec", about) or [kind.title()]
    if not inspect.isfunction(verb) or "spec" not in about.lower() or kind.title() not in kinds:
        return ""
    fields = [*inspect.signature(verb).parameters.values()][1:]
    others = (f.name for f in fields if f.default is f.empty and f.kind is not f.VAR_KEYWORD)
    return f"posenc.{name}({', '.join(['spec', *others])}) does that."


class Absent(NamedTuple):
    """What an error says of a name that a finding does not have, worked out where it is read."""

    value: Any
    name: str

    def __str__(self) -> str:
        own = [name for name in dir(self.value) if not name.startswith("_")]
        rows = (
            f"{text}."
            for pattern, needed, text in RESULTS
            if re.fullmatch(pattern, self.name) and hasattr(self.value, needed)
        )
        near = closest(self.name, own, cutoff=0.75)
        says = (
            next(rows, "")
            or self._inside()
            or (f"Did you mean {near!r}?" if near else f"It has {', '.join(own)}.")
        )
        return f"{type(self.value).__name__} has no {self.name!r}. {says}"

    def _inside(self) -> str:
        """What the first value or spec inside has by that name, or says of it."""
        for name, part in getattr(self.value, "__dict__", {}).items():
            first, path = part, f"value.{name}"
            if isinstance(part, tuple) and part:
                first, path = part[0], f"value.{name}[0]"
            if not inspect.isroutine(getattr(first, self.name, len)) and first is not part:
                return f"Write {path}.{self.name}."
            if not isinstance(first, Answering) and hasattr(first, "spec"):
                first, path = first.spec, f"{path}.spec"
            if isinstance(first, Answering):
                verb = self.name in shown(type(first))
                says = "spec.NAME has that." if verb else Unanswered(type(first), self.name).says()
                return says.replace("spec.NAME", f"spec.{self.name}").replace("spec.", f"{path}.")
        return ""


class Unanswered(NamedTuple):
    """What an error says of a name that a spec does not have, worked out where it is read."""

    cls: Any
    name: str

    def says(self) -> str:
        """What to write in place of the name; nothing where nobody knows."""
        near = closest(self.name, FOREIGN, cutoff=0.83 if self.name[5:] else 1) or self.name
        parts = filter(lambda part: part[3:], self.name.split("_"))
        forms = dict.fromkeys((self.name, PREFIX.sub("", self.name), near, *parts))
        says = next(filter(None, map(self._means, forms)), "")
        return says or verb_of(verb_called(self.name), self.cls.kind)

    def _means(self, name: str) -> str:
        """What to write in place of one form of the name."""
        own = getattr(self.cls, "__dataclass_fields__", ())
        targets, sentence = meanings(name)
        field = next((target for target in targets if target in own), "")
        row = next((text for names, text in ATTRIBUTES if re.fullmatch(names, name)), "")
        families = HANDED["verb"]("presets.names")()
        family = next((each for each in families if letters(each) == letters(name)), "")
        near = closest(name, shown(self.cls), cutoff=0.75)
        says = f"{_fit(row, self.cls)}." if row else ""
        # The name of a rule is no field, and that of a helper that turns none either.
        if field and row not in (STRETCH, WHOLE):
            share = " times the share that turns" * (name in SHARES.split())
            says = f"It is spec.{field}{', the width of a head' * bool(share)}{share}."
        says = f"It is posenc.preset({family!r}, dim)." if family else says
        if near and (not says or closest(name, [near], cutoff=0.9)):
            says = f"Did you mean {near!r}?"
        says = says.replace("YaRN", rule_named(name, SCALING_NAMES) or "YaRN")
        return says or sentence or verb_of(name, self.cls.kind)

    def __str__(self) -> str:
        return f"{self.cls.__name__} has no {self.name!r}. " + (
            self.says() or f"{_fit(WHOLE, self.cls)}; dir(spec) has all names."
        )


def _fit(text: str | dict[str, str], cls: Any) -> str:
    """A sentence in the words of a class of encodings."""
    sentence = text[cls.kind] if isinstance(text, dict) else text
    if not {*re.findall(r"spec\.(\w+)", sentence)} <= shown(cls):  # that one has no phases, say
        sentence = WHOLE[cls.kind]
    if "table" in cls.__dataclass_fields__:
        sentence = sentence.replace("spec.table(", "posenc.table(spec, ")
    return sentence.replace("MODULE", MODULES[cls.kind])

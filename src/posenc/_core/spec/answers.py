"""What a spec answers itself, and what it says to who expects the methods of another library.

Also how values are written, shown in notebooks and cited. The verbs and pictures stand in layers
above; `posenc` hands down what finds them, in `_names.HANDED`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from posenc._core.errors import KeywordError, PosencError, closest
from posenc._core.foreign import meanings
from posenc._core.spec.checks import show
from posenc._names import HANDED

if TYPE_CHECKING:
    import numpy as np


class Displayed:
    """Base of specs, plans and findings: notebooks show them by name, with a small picture."""

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
        shown.append(f"{'' if by_place else f'{field.name}='}{write(argument)}")
    return f"{type(value).__name__}({', '.join(shown)})"


class Citation:
    """`bibtex` of an encoding class: the entry of `encodings/papers.bib` that its `paper` names."""

    def __get__(self, spec: object, cls: Any) -> str:
        return _entries()[cls.paper] if cls.paper else ""


@functools.cache
def _entries() -> dict[str, str]:
    """The entries by their keys; a blank line is between two."""
    file = resources.files("posenc") / "encodings" / "papers.bib"
    entries = file.read_text(encoding="utf-8").strip().split("\n\n")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}


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
# Calls that stand for a whole encoding, for its rows of numbers, and for their shape.
WHOLE = {
    "table": "spec.add(x) adds it to embeddings, and spec.table(n) has its rows",
    "rotary": "spec.rotate(x) turns queries or keys, and spec.cos_sin(n) has cosines and sines",
    "bias": "spec.bias(n) has what is added to the scores of n tokens",
    "relative": "spec.relative(q, k, params=…) has what is added to the scores",
}
ROWS = {
    **WHOLE,
    "table": "spec.table([5]) has the row of position 5, spec.table(n) the first n",
    "rotary": "spec.cos_sin([5]) has cosines and sines of position 5, spec.rotate(x) turns x",
}
LONGER = "Positions have no end but where they are learned: posenc.resize makes more of those"
STRETCH = {
    "table": LONGER,
    "rotary": "RoPE has a field for that: spec.replace(scaling=posenc.scaling.YaRN(…))",
    "bias": LONGER,
    "relative": LONGER,
}
# Attributes in other libraries, and the call here: a sentence, or one for each kind.
ATTRIBUTES: tuple[tuple[str, str | dict[str, str]], ...] = (
    (
        r"(\w*_)?inv_freqs?|frequencies|wavelengths|freqs?|thetas?_?i?|freq_?bands?|omega|angles?|div_term",
        "spec.frequencies has that",
    ),
    (
        (
            r"shape|ndim|size|T|numpy|tolist|data|item|pe|pos_?(emb|enc)\w*|position\w*|weights?|"
            r"encodings?|embeddings?|(cos|sin|freqs_?c\w+|\w*cache\w*|emb|encode|get_\w+|compute_\w+)"
        ),
        ROWS,
    ),
    (r"forward|apply\w*|call|rotate\w*|add\w*|embed|encode|table|bias|relative|cos_sin", WHOLE),
    (r"dtype|device", "A spec has neither; the call that computes takes dtype= and device="),
    (
        (
            r"to|cuda|cpu|half|float|bfloat16|train|eval|(load_)?state_dict|(named_)?parameters_?|"
            r"buffers|modules|register_buffer|requires_grad_?|reset_parameters|module"
        ),
        "A spec is no module: those are in posenc.torch, such as MODULE(spec)",
    ),
    (r"to_json|save\w*|dump\w*|json|as_?dict|config", "posenc.to_json(spec) is its text"),
    (r"from_(pretrained|config|hf)", "posenc.from_hf reads the config of a model"),
    (r"(from|load)\w*", "posenc.from_json(text) makes a spec of its text"),
    (r"attention_scaling|mscale", "spec.attention_factor, of a rotation, has that"),
    (r"extend\w*|scale|scaled|interpolate|set_scaling|resize", STRETCH),
    (r"show|draw|heatmap|imshow|visuali[sz]e", "spec.plot() draws it"),
    (r"copy|clone|set\w*|update|_?replace|evolve", "spec.replace(field=value) makes another"),
)
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
        *cls.__dataclass_fields__,
        *VERBS[cls.kind],
        *(PHASES if hasattr(cls, "matrix") else ()),
        *f"{SHOWN['']} {SHOWN[cls.kind]}".split(),
    }


def refusal(spec: Any, use: str) -> KeywordError:
    """The error of who calls a spec, or takes it for a list."""
    says = _fit(WHOLE if use == "called" else ROWS, type(spec))
    return KeywordError(f"{type(spec).__name__}: a spec is not {use}: {says}.")


class Answering:
    """Base of specs: verbs as methods, and what to write for what is otherwise elsewhere."""

    # A type checker must not see the second: to it, every misspelt name would then be there.
    if TYPE_CHECKING:
        plot: Callable[..., Any]
        frequencies: np.ndarray
        wavelengths: np.ndarray
    else:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if hasattr(type(self), name):  # a property that failed says why
                return object.__getattribute__(self, name)
            return answer(self, name)

    def __dir__(self) -> list[str]:
        return sorted(shown(type(self)))

    # A spec is true all the same, and neither iterable nor a container.
    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None

    def __bool__(self) -> bool:
        return True

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise refusal(self, "called")

    def __getitem__(self, _: Any) -> NoReturn:
        raise refusal(self, "indexed")

    def __len__(self) -> NoReturn:
        raise refusal(self, "counted")


def unchanged(value: Any, name: str, new: object) -> NoReturn:
    """Refuse an assignment, in the words of `replace`."""
    fields = value.__dataclass_fields__
    field = next((each for each in (name, *meanings(name)[0]) if each in fields), "")
    todo = f"write spec.replace({field}={show(new)})" if field else "it has fields alone"
    raise dataclasses.FrozenInstanceError(
        f"{type(value).__name__}: a value does not change. For another {name!r}, {todo}."
    )


class Unanswered(NamedTuple):
    """What an error says of a name that a spec does not have, worked out where it is read."""

    cls: Any
    name: str

    def __str__(self) -> str:
        own = self.cls.__dataclass_fields__
        targets, sentence = meanings(self.name)
        field = next((target for target in targets if target in own), "")
        row = next((text for names, text in ATTRIBUTES if re.fullmatch(names, self.name)), "")
        near = closest(self.name, shown(self.cls), cutoff=0.75)
        says = f"It is spec.{field}." if field else row and f"{_fit(row, self.cls)}."
        if near and (not says or closest(self.name, [near], cutoff=0.9)):
            says = f"Did you mean {near!r}?"
        says = says or sentence or f"{_fit(WHOLE, self.cls)}; dir(spec) has all names."
        return f"{self.cls.__name__} has no {self.name!r}. {says}"


def _fit(text: str | dict[str, str], cls: Any) -> str:
    """A sentence in the words of a class of encodings."""
    sentence = text[cls.kind] if isinstance(text, dict) else text
    if not {*re.findall(r"spec\.(\w+)", sentence)} <= shown(cls):  # that one has no phases, say
        sentence = WHOLE[cls.kind]
    if "table" in cls.__dataclass_fields__:
        sentence = sentence.replace("spec.table(", "posenc.table(spec, ")
    return sentence.replace("MODULE", MODULES[cls.kind])

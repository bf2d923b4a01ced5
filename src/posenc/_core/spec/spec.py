"""Values and specs: frozen dataclasses that check themselves and are their own JSON.

A `Value` is a set of named choices (`Ladder`, `Arrangement`, `Magnitude`, a scaling). A `Spec` is a
value that *is* an encoding. Both are compared, hashed and fingerprinted by their fields alone.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import operator
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from posenc._core.annotations import show
from posenc._core.calls import check_call, checked_call
from posenc._core.errors import PosencError, SpecError, bad_spec, mismatch, suggest
from posenc._core.foreign import argument_advice
from posenc._core.io import inputs
from posenc._core.spec.answers import Answering, Citation, Displayed, brief, unchanged
from posenc._core.spec.checks import Example, at_least, coerce, texts_of
from posenc._core.tracing import compile_time, is_followed, unseen

Self = TypeVar("Self", bound="Value")

DEEPEST_NESTING = 32  # of a JSON text; specs nest three or four deep


class Value(Displayed):
    """Base of every composed value. Subclasses are `@final @dataclass(frozen=True)`.

    Construction coerces each field to its annotated type (NumPy integers become `int`, lists become
    tuples, integers become `float` where a float is annotated) and raises `SpecError` otherwise, so
    that equal meanings have equal JSON. `check` is the hook for conditions between fields.
    """

    __str__ = object.__str__  # the call that makes it
    _counted: ClassVar[tuple[str, ...]] = ()  # fields that are 1 or more, where a class has them

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__repr__" not in cls.__dict__:  # or a dataclass writes one with every default
            cls.__repr__ = Value.__repr__  # type: ignore[method-assign]
        if "check" in cls.__dict__:  # others try code by that name
            cls.check = checked_call(cls.check)  # type: ignore[method-assign]
        # A dataclass would take the property for the default, and could not set the field.
        for name in vars(cls).get("__annotations__", {}):
            base = next((base for base in cls.__mro__ if name in vars(base)), cls)
            if isinstance(vars(base).get(name), property) and base is not cls:
                raise bad_spec(
                    cls.__name__,
                    "fields that hide nothing of their kind",
                    f"a field {name!r}, which is a property of {base.__name__}",
                    f"Name the field otherwise, such as `count`, and give `{name}` from it.",
                )

    def __new__(cls, *args: Any, **kwargs: Any) -> typing.Self:
        if is_followed():
            return _built(cls, args, tuple(kwargs), tuple(kwargs.values()))
        if args or kwargs:  # copies and pickles bring their fields afterwards
            places, needed, named = _usual_call(cls)  # type: ignore[arg-type]  # is hashable
            if not (len(args) == places and needed <= kwargs.keys() <= named):
                check_call(cls.__name__, _signature(cls), args, kwargs)  # type: ignore[arg-type]
        return object.__new__(cls)

    def __repr__(self) -> str:
        """The call that makes the value anew, without the fields that have their defaults."""
        return brief(self)

    def word(self) -> str:
        """What stands for the value inside the `repr` of another."""
        return repr(self)

    def __post_init__(self) -> None:
        unseen(_settle, self)

    @checked_call
    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""

    def _mismatch(
        self, field: str, expected: str, received: object = ..., todo: str = ""
    ) -> SpecError:
        """The error of a field, or of several; without `received` its value is what came."""
        caller = f"{type(self).__name__}: {field}" if field else type(self).__name__
        came = operator.attrgetter(field)(self) if received is ... else received
        return SpecError(mismatch(caller, expected, came, todo))

    def _require(
        self, holds: bool, field: str, expected: str, received: object = ..., todo: str = ""
    ) -> None:
        """Raise the error of `_mismatch` unless a condition holds."""
        if not holds:
            raise self._mismatch(field, expected, received, todo)

    def replace(self, **changes: Any) -> typing.Self:
        """The same value with some fields changed, checked anew."""
        if is_followed():
            return _replaced(self, tuple(changes), tuple(changes.values()))
        hints = _hints(type(self))
        for key in (name for name in changes if name not in hints):
            todo = argument_advice(key, _signature(type(self)))  # type: ignore[arg-type]
            raise self._mismatch("replace", "the name of a field", repr(key), todo)
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON types, with defaults, and the class name under `type`."""
        return {
            "type": type(self).__name__,
            **{key: plain(getattr(self, key)) for key in _hints(type(self))},
        }

    def __getstate__(self) -> dict[str, Any]:
        # Only fields travel: what else hangs on the object is derived, and may hold device memory.
        return {key: self.__dict__[key] for key in _hints(type(self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@functools.cache
def _usual_call(cls: type) -> tuple[int, frozenset[str], frozenset[str]]:
    """How many places, which names, and which it may have: enough to let a right call pass."""
    fields = [p for p in _signature(cls).values() if p.default is p.empty]
    places = [p.name for p in fields if p.kind is p.POSITIONAL_OR_KEYWORD]
    needed = {p.name for p in fields} - {*places}
    return len(places), frozenset(needed), frozenset({*_signature(cls)} - {*places})


@functools.cache
def _signature(cls: Any) -> Mapping[str, inspect.Parameter]:
    return dict([*inspect.signature(cls.__init__).parameters.items()][1:])  # not of `__new__`


def _settle(value: Value) -> None:
    """Bring the fields to the types of their annotations, and check them."""
    name = type(value).__name__
    for field, hint in _hints(type(value)).items():
        stated = getattr(value, field)
        coerced = coerce(stated, hint, f"{name}: {field}")
        if coerced is not stated:
            object.__setattr__(value, field, coerced)
    own = vars(value)
    at_least(name, **{each: own[each] for each in value._counted if isinstance(own.get(each), int)})
    value.check()


@compile_time
def _built(
    cls: type[Self], args: tuple[Any, ...], names: tuple[str, ...], values: tuple[Any, ...]
) -> Self:
    value = cls(*args, **dict(zip(names, values, strict=True)))
    # Dynamo goes on to initialise what `__new__` returned, and looks for the method here first.
    object.__setattr__(value, "__init__", _initialised)
    return value


@compile_time
def _replaced(value: Self, names: tuple[str, ...], values: tuple[Any, ...]) -> Self:
    return value.replace(**dict(zip(names, values, strict=True)))


def _initialised(*args: Any, **kwargs: Any) -> None:
    """Stand in for `__init__`, for a value that has its fields."""


class FirstValues(Protocol):
    """A rule for the first values of a parameter."""

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """First values of a shape, float32."""


class Parameter(NamedTuple):
    """A learned array of a spec.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    init : Init or Spec
        Its first values, as a rule or the rows of another encoding.
    """

    shape: tuple[int, ...]
    init: FirstValues | Spec


class Spec(Answering, Value):
    """Base of the four kinds of encodings.

    A spec works its constants out when it is constructed, outside anything that traces:

    - `arrays`, its constants as NumPy arrays, read-only;
    - `texts`, the same as (dtype, shape, numbers in a text), which a tracer can embed in a graph:
      it takes a text for a constant, but may take a number for a variable;
    - `shapes`, those of its parameters by name;
    - `device_arrays`, a cache of the same on devices, filled on first real use;
    - `plans`, what kernels made of them, likewise.

    The caches are no fields: copies, pickles and equality leave them out.
    """

    kind: ClassVar[Literal["table", "rotary", "bias", "relative"]]
    _counted: ClassVar[tuple[str, ...]] = ("heads", "count")
    paper: ClassVar[str] = ""  # a key of `encodings/papers.bib`
    bibtex: ClassVar[str] = Citation()  # type: ignore[assignment]  # a text, got from its class
    example: ClassVar[Example] = Example()
    by_head: ClassVar[Mapping[str, int]] = {}  # the axis of heads in constants and parameters
    arrays: Mapping[str, np.ndarray]
    texts: Mapping[str, tuple[str, tuple[int, ...], str]]
    shapes: Mapping[str, tuple[int, ...]]
    device_arrays: dict[Any, Any]
    plans: dict[Any, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        unseen(_derive, self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__post_init__()

    def constants(self) -> dict[str, np.ndarray]:
        """The paper's constants, from the fields alone; int64 arrays are bit patterns of steps."""
        of_phases: Any = self if hasattr(type(self), "matrix") else None
        return of_phases.matrix.constants() if of_phases else {}

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position; more than one means a trailing axis of that length."""
        space = vars(self).get("space")
        named = space if isinstance(space, tuple) else ("position",)
        return getattr(vars(self).get("arrangement"), "axes", named)

    @property
    def coordinates(self) -> Literal["integer", "real"]:
        """Whether positions are integers, or may be real numbers."""
        return "integer"

    def parameters(self) -> dict[str, Parameter]:
        """The shape and the first values of each learned array, by name; none by default."""
        return {}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first values of one parameter, float32."""
        shape, init = self.parameters()[name]
        if isinstance(init, Spec):
            raise TypeError(f"{type(self).__name__}: `initial` must copy an encoding's numbers")
        return init.draw(shape, rng)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the spec: the SHA-256 of its JSON."""
        return _digest(self)


@compile_time
def _digest(spec: Spec) -> str:
    return hashlib.sha256(to_json(spec).encode()).hexdigest()[:16]


def _derive(spec: Spec) -> None:
    """Give a spec what follows from its fields."""
    arrays, texts = _derived(spec)
    vars(spec).update(
        arrays=arrays,
        texts=texts,
        shapes={name: tuple(p.shape) for name, p in spec.parameters().items()},
        device_arrays={},
        plans={},
    )


@functools.lru_cache(maxsize=256)
def _derived(
    spec: Spec,
) -> tuple[dict[str, np.ndarray], dict[str, tuple[str, tuple[int, ...], str]]]:
    arrays = spec.constants()
    for array in arrays.values():
        array.setflags(write=False)
    return arrays, texts_of(arrays)


@compile_time
def to_json(value: Value, *, indent: int | None = None) -> str:
    """The JSON of a spec or value: keys sorted, defaults written out.

    Parameters
    ----------
    value : Value
        Any spec or composed value.
    indent : int, optional
        Spaces per level for people; the default is one line.

    Returns
    -------
    str
        Text that `from_json` turns into an equal object.

    Examples
    --------
    >>> import posenc
    >>> posenc.to_json(posenc.Magnitude())
    '{"embedding_scale": 1.0, "learned": "nothing", "table_scale": 1.0, "type": "Magnitude"}'
    """
    if not isinstance(value, Value):
        raise bad_spec("to_json", "a spec", type(value).__name__)
    return json.dumps(value.to_dict(), sort_keys=True, allow_nan=False, indent=indent)


def from_json(text: str | bytes, resolve: Callable[[str], type[Value]]) -> Value:
    """Parse a JSON text; `resolve` maps a `type` name to its class."""
    is_name = isinstance(text, str) and text[-5:] == ".json"
    if is_name or not isinstance(text, (str, bytes, bytearray)):
        came = f"the name of a file. Write posenc.from_json(open({text!r}).read())"
        raise bad_spec("from_json", "a JSON text", came if is_name else type(text).__name__)
    return from_dict(
        inputs.parse(text, "from_json: text", inputs.SPEC, error=SpecError, constant=_not_finite),
        resolve,
    )


def from_dict(
    data: object, resolve: Callable[[str], type[Value]], place: str = "from_json", depth: int = 0
) -> Value:
    """Build a spec or value from plain JSON types."""
    if depth > DEEPEST_NESTING:
        raise SpecError(f"{place[:80]}: nested deeper than {DEEPEST_NESTING:,} levels")
    if not isinstance(data, Mapping):
        raise bad_spec(place, "a JSON object with a key 'type'", show(data))
    if not isinstance(data.get("type"), str):
        received = f"keys {sorted(map(str, data))}" if "type" not in data else show(data["type"])
        raise bad_spec(place, "a key 'type' that names an encoding", received)
    cls = resolve(data["type"])
    data, fields = getattr(cls, "of_older", dict)(data), _hints(cls)
    arguments: dict[str, Any] = {}
    for key, value in data.items():
        if key == "type":
            continue
        if key not in fields:
            raise bad_spec(
                f"{place}: {cls.__name__}", "known keys only", repr(key), suggest(key, fields)
            )
        arguments[key] = _build(value, resolve, f"{place}: {cls.__name__}.{key}", depth + 1)
    missing = [
        field.name
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in arguments
    ]
    if missing:
        raise bad_spec(f"{place}: {cls.__name__}", f"the keys {missing}", sorted(data))
    try:
        return cls(**arguments)
    except Exception as error:
        # One of another kind is of posenc itself, or of a class that others wrote.
        if isinstance(error, PosencError) or (
            cls.__module__.partition(".")[0] == "posenc"
            and not isinstance(error, (ArithmeticError, MemoryError, ValueError))
        ):
            raise
        received = f"{show(arguments)} ({type(error).__name__}: {error})"
        raise bad_spec(
            f"{place}: {cls.__name__}", "numbers that its constants can be computed from", received
        ) from error


def _build(value: object, resolve: Callable[[str], type[Value]], place: str, depth: int) -> object:
    if isinstance(value, list):
        return tuple(_build(item, resolve, place, depth + 1) for item in value)
    return from_dict(value, resolve, place, depth) if isinstance(value, Mapping) else value


def _not_finite(name: str) -> object:
    raise bad_spec("from_json", "finite numbers", name)


def plain(value: object) -> object:
    """A field as JSON has it."""
    if isinstance(value, Value):
        return value.to_dict()
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _find_hints(cls: type) -> dict[str, Any]:
    if cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        cls.__setattr__ = unchanged  # type: ignore[assignment]  # in place of the dataclass's
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


_hints: Callable[[type], dict[str, Any]] = functools.cache(_find_hints)

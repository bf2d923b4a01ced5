"""Encodings and values by their names, those of other packages too, and their JSON."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from posenc._core.calls import checked_call
from posenc._core.errors import SpecError, bad_spec, mismatch, printed, suggest
from posenc._core.guard import foreign
from posenc._core.spec import spec as _spec
from posenc._core.spec.json_classes import values_inside, why_no_json
from posenc._core.spec.spec import Spec, Value
from posenc._core.tracing import compile_time
from posenc._names import SPECS, VALUES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

V = TypeVar("V", bound=Value)

GROUP = "posenc.encodings"  # of entry points
# Names that JSON knows; a `Part` is one of a contract. Commands do not tell cases apart.
_TAKEN = {name.lower(): name for name in (*SPECS, *VALUES, "Part")}
_registered: dict[str, type[Value]] = {}


def lookup(name: str) -> type[Value]:
    """The class of an encoding or composed value by its name.

    The entry points of installed packages are read where nobody else has the name; what they name
    is all that is imported.
    """
    module = SPECS.get(name) or VALUES.get(name)
    if module is not None:
        return cast("type[Value]", getattr(importlib.import_module(module), name))
    if name in _registered:
        return _registered[name]
    offers = _offers()
    for offer in offers:
        if offer.name == name:
            return _accepted(offer, offers)
    todo = suggest(name, [*SPECS, *VALUES, *(offer.name for offer in offers)])
    todo += " A class of your own is known after posenc.register, or by an entry point."
    raise bad_spec("posenc", "the name of an encoding or value", repr(name), todo)


def spelled(name: str) -> str:
    """The name of an encoding that was written in any case of letters; nothing where none is."""
    return next((known for known in names() if known.lower() == name.lower()), "")


def names() -> tuple[str, ...]:
    """The names of all encodings: ours, and those of other packages, which this does not import."""
    others = {
        offer.name
        for offer in _offers()
        if offer.name.lower() not in _TAKEN and (offer.cls is None or issubclass(offer.cls, Spec))
    }
    return (*SPECS, *sorted(others))


def registered() -> tuple[type[Value], ...]:
    """The classes of other packages that are loaded: as long as these stay, so do all names."""
    return tuple(_registered.values())


def specs() -> Iterator[type[Spec]]:
    """Every encoding class: ours in the order of the registry, then those of other packages."""
    yield from cast("Iterator[type[Spec]]", map(lookup, SPECS))
    yield from others()


def others() -> Iterator[type[Spec]]:
    """The encoding classes of other packages, by name.

    An entry point that has no encoding is a warning, with its package and the reason.
    """
    offers = _offers()
    for offer in sorted(offers, key=lambda offer: offer.name):
        try:
            cls = _accepted(offer, offers)
        except SpecError as error:
            warnings.warn(printed(str(error)), stacklevel=2)
        else:
            if issubclass(cls, Spec):
                yield cls


def register(encoding: type[V]) -> type[V]:
    """Make a class of encodings known by its name: to JSON, and to every command of this process.

    It then has what the encodings of posenc have. An installed package needs no call: it names its
    classes in the group `posenc.encodings` of its entry points, and is imported when one of them
    is asked for.

    Parameters
    ----------
    encoding : type
        A frozen dataclass of one of the four kinds in `posenc.encodings.api`, or a composed value
        that is a field of one. Its name is the `type` in its JSON.

    Returns
    -------
    type
        The class itself, so that this serves as a decorator.

    Raises
    ------
    SpecError
        If JSON could not rebuild it, or another class has its name; the same class again, as when
        a notebook runs a cell once more, takes the place of the earlier one.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import posenc
    >>> from posenc.encodings.api import BiasSpec, distance
    >>> @posenc.register
    ... @dataclass(frozen=True)
    ... class Near(BiasSpec):
    ...     heads: int
    ...     reach: int = 4
    ...
    ...     def score(self, q, k, head, constants, *, dtype, xp):
    ...         return xp.astype(xp.abs(distance(q, k)) <= self.reach, dtype)
    >>> posenc.from_json('{"type": "Near", "heads": 2}')
    Near(2)
    """
    _check(encoding, "register")
    own = _Offer(encoding.__name__, encoding.__module__, encoding.__qualname__, cls=encoding)
    rival = next((o for o in _offers() if own.clashes(o) and not own.same(o)), None)
    if rival is not None or own.name.lower() in _TAKEN:
        other = f"{_TAKEN[own.name.lower()]} of posenc" if rival is None else rival.origin
        raise bad_spec(
            "register",
            f"a name for {own.origin} that no other class has",
            f"that of {other}",
            "Rename it: JSON has no other way to tell them apart.",
        )
    _registered[own.name] = encoding
    return encoding


@compile_time
@checked_call
def from_json(text: str | bytes, kind: type[Value] = Value) -> Value:
    """Parse the JSON of a spec or value; the inverse of `to_json`.

    Keys may stand in any order and defaults may be left out. A text can name classes of posenc,
    those given to `posenc.register`, and those of installed packages by their entry points, which
    are imported then; nothing else that it says is imported or run.

    Parameters
    ----------
    text : str or bytes
        A JSON object with a key `type`.
    kind : type, optional
        The class that is expected, such as `posenc.RoPE`; type checkers know the result by it.

    Returns
    -------
    Spec or Value
        An object equal to the one that wrote the text.

    Raises
    ------
    SpecError
        If the text is of another class than `kind` or no JSON, a name or key is unknown (with a
        suggestion), a key is missing or stands twice, or a number is not finite.

    Examples
    --------
    >>> import posenc
    >>> posenc.from_json('{"type": "Sinusoidal", "dim": 512}') == posenc.Sinusoidal(512)
    True
    """
    value = _spec.from_json(text, lookup)
    if not isinstance(value, kind):
        raise bad_spec("from_json", f"the JSON of a {kind.__name__}", type(value).__name__)
    return value


# --- classes of other packages --------------------------------------------------------------------


class _Offer(NamedTuple):
    """A class that another package offers, loaded or not."""

    name: str
    module: str
    attribute: str
    cls: type[Value] | None = None
    point: EntryPoint | None = None

    @property
    def origin(self) -> str:
        """Where it comes from, for a message."""
        if self.point is None:
            return f"{self.module}:{self.attribute}"
        package = self.point.dist
        named = "a package" if package is None else f"{package.name} {package.version}"
        return f"{named} ({self.name} = {self.point.value})"

    def clashes(self, other: _Offer) -> bool:
        """Whether two have one name, in any case of letters, as commands do not tell them apart."""
        return self.name.lower() == other.name.lower()

    def same(self, other: _Offer) -> bool:
        """Whether two are one class, which a package may offer from several of its modules."""
        packages = [offer.module.partition(".")[0] for offer in (self, other)]
        return packages[0] == packages[1] and self.attribute == other.attribute


def _offers() -> list[_Offer]:
    """What other packages offer: what was registered or loaded, then their entry points."""
    from importlib.metadata import distributions

    offers = [
        _Offer(name, cls.__module__, cls.__qualname__, cls=cls) for name, cls in _registered.items()
    ]
    for distribution in distributions():
        try:
            points = distribution.entry_points.select(group=GROUP)
        except Exception as error:  # noqa: BLE001 - one unreadable file must not hide the others
            path = getattr(distribution, "_path", "an installed package")
            expected = f"entry points in {path} that can be read"
            text = mismatch("posenc", expected, f"{type(error).__name__}: {error}")
            warnings.warn(printed(text), stacklevel=4)
            continue
        for point in points:
            offer = _Offer(point.name, point.module, point.attr, point=point)
            if not any(offer.name == other.name and offer.same(other) for other in offers):
                offers.append(offer)
    return offers


def _accepted(offer: _Offer, offers: list[_Offer]) -> type[Value]:
    """The class of an offer, loaded if need be."""
    if offer.cls is not None:
        return offer.cls
    caller = f"posenc: the entry point of {offer.origin}"
    rivals = [f"{name} of posenc" for name in [_TAKEN.get(offer.name.lower())] if name]
    rivals += [o.origin for o in offers if offer.clashes(o) and o is not offer]
    if rivals:
        todo = "It is left out; uninstall one of the two, or ask for another name."
        raise bad_spec(caller, "a name that no other class has", rivals[0], todo)
    assert offer.point is not None  # noqa: S101 - for the type checker
    todo = "It is left out; all others work without it."
    try:
        with foreign(f"the import of {offer.module}", alone=True):
            cls = offer.point.load()
    except Exception as error:
        raise bad_spec(caller, "a class", f"{type(error).__name__}: {error}", todo) from error
    _check(cls, caller)
    if cls.__name__ != offer.name:
        raise bad_spec(
            caller,
            f"the name of the class, {cls.__name__!r}, as JSON writes it",
            repr(offer.name),
            todo,
        )
    _registered[offer.name] = cls
    return cast("type[Value]", cls)


def _check(cls: Any, caller: str) -> None:
    """Raise `SpecError` unless JSON can write and rebuild what a class makes."""
    why = why_no_json(cls) or _unknown_inside(cls)
    if why:
        raise bad_spec(
            caller,
            "a frozen dataclass of an encoding or a value, of plain fields",
            f"{getattr(cls, '__name__', cls)!s}: {why}",
        )


def _unknown_inside(cls: type[Value]) -> str:
    """Which class of its fields JSON does not know yet; empty where it knows all."""
    for inner in values_inside(cls) - {cls}:
        try:
            known = lookup(inner.__name__) is inner
        except SpecError:
            known = False
        if not known:
            return f"a field holds {inner.__name__}, which is not registered; do that first"
    return ""

"""From what somebody names to a subject: a spec, a module, a function, or a subject itself."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc import functional
from posenc._core.errors import ArgumentError, DataError, DependencyError, mismatch, suggest
from posenc._core.guard import foreign, why_no_code
from posenc._core.spec.spec import Spec
from posenc.encodings.bias.base import BiasSpec
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.table.base import TableSpec
from posenc.testing.subject import (
    Kind,
    Library,
    NotOffered,
    Subject,
    check_from_zero,
    start_of,
    tensor_of,
)

Layout = Literal["bhsd", "bshd"]

# Names by which implementations take what a battery asks for.
POSITIONS = ("positions", "position_ids", "input_pos", "pos", "positions_ids")
OFFSETS = ("offset", "start_pos", "start_index", "start", "seqlen_offset", "past_length")
QUERIES = ("q_positions", "query_positions", "pos_i", "q_pos")
KEYS = ("k_positions", "key_positions", "pos_j", "k_pos")
WIDTHS = ("dim", "head_dim", "d_model", "channels", "embedding_dim", "size")
HEADS = ("heads", "num_heads", "n_heads", "total_num_heads")
BASES = ("base", "theta", "rope_theta", "max_wavelength", "max_period", "temperature")
_SETTINGS = {"dim": WIDTHS, "heads": HEADS, "base": BASES}


class _How(NamedTuple):
    """What a call must know beside what is called."""

    dim: int
    library: Library
    layout: Layout


def of_spec(spec: Spec, *, library: Library = "torch", name: str | None = None) -> Subject:
    """A spec of posenc as a subject: its torch module, or its verb with another library.

    Parameters
    ----------
    spec : Spec
        A table, a rotation or a bias without parameters of its own.
    library : {"torch", "numpy", "jax"}
        What it runs on.
    name : str, optional
        In the score card; that of the class by default.

    Returns
    -------
    Subject
        Compared with its own float64 arithmetic.

    Raises
    ------
    ArgumentError
        If the spec is of another kind.

    Examples
    --------
    >>> import posenc
    >>> from posenc.testing import check, of_spec
    >>> check(of_spec(posenc.ALiBi(12), library="numpy")).count("fail")
    0
    """
    changes: dict[str, Any] = {"library": library, "spec": spec}
    make = _maker(spec, library)
    title = name or f"{type(spec).__module__.partition('.')[0]}.{type(spec).__name__}"
    if isinstance(spec, RotarySpec):

        def rotated(implementation: Any, x: Any, positions: Any) -> Any:
            indices = None if positions is None else _like(positions, library)
            if library == "torch":
                return implementation(x, x, indices)[0]
            return functional.rotate(implementation, x, positions=indices)

        return Subject(title, "rotary", make, rotated, dim=spec.dim, **changes)
    if isinstance(spec, BiasSpec):

        def biased(implementation: Any, q: Any, k: Any) -> Any:
            q, k = _like(q, library), _like(k, library)
            if library == "torch":
                return implementation(q, k)
            return functional.bias(implementation, q, k)

        return Subject(title, "bias", make, biased, heads=spec.heads, **changes)
    if isinstance(spec, TableSpec):

        def tabled(implementation: Any, positions: Any, dtype: str) -> Any:
            indices = _like(positions, library)
            implementation = implementation.spec if library == "torch" else implementation
            return functional.table(implementation, indices, dtype=dtype)

        axes = len(spec.axes) if getattr(spec, "axes", None) else 1
        return Subject(title, "table", make, tabled, dim=spec.width, axes=axes, **changes)
    expected = "a table, a rotation or a bias"
    raise ArgumentError(mismatch("of_spec", expected, type(spec).__name__))


def _maker(spec: Any, library: Library) -> Any:
    def make(**changes: Any) -> Any:
        fields = {field.name for field in dataclasses.fields(spec)}
        for name in changes.keys() - fields:
            raise NotOffered(f"{type(spec).__name__} has no field {name}")
        changed = dataclasses.replace(spec, **changes)
        if library != "torch":
            return changed
        from posenc import torch as modules

        kind = {"rotary": "RotaryEmbedding", "bias": "AttentionBias", "table": "PositionTable"}
        return getattr(modules, kind[spec.kind])(changed)

    return make


def _like(positions: np.ndarray, library: Library) -> Any:
    if library == "torch":
        return tensor_of(positions, None)
    if library == "jax":
        import jax.numpy as jnp

        return jnp.asarray(positions)
    return positions


def adapt(
    made: Any,
    kind: Kind,
    *,
    name: str | None = None,
    dim: int = 64,
    heads: int = 8,
    library: Library = "torch",
    layout: Layout = "bhsd",
    arguments: Mapping[str, Any] | None = None,
    spec: Spec | None = None,
) -> Subject:
    """A class, module or function as a subject, by the names of its parameters.

    Parameters
    ----------
    made : class or callable
        A class is made anew for each law, with `arguments` and the width or number of heads under
        the name that its constructor has for it (dim, head_dim, d_model, channels, heads, …). What
        it makes, or the function, is then called with what it has names for:

        - rotary: `(x, positions)`, `(x, offset)` or `(x)`; x alone means positions 0, 1, …
        - table: `(positions)`; or `(x)` or `(x, offset)`, where x is (batch, seq, dim), zeros, so
          that it does not matter whether the rows are returned or added
        - bias: `(q_positions, k_positions)`, or `(q_len, k_len)` for the last queries of k_len keys
    kind : {"table", "rotary", "bias"}
        Where it acts.
    name : str, optional
        In the score card.
    dim, heads : int
        Width of a head or row; heads of a bias.
    library : {"torch", "numpy", "jax"}
        Of its arrays.
    layout : {"bhsd", "bshd"}
        Order of the axes of queries: batch, heads, sequence, dim; or the sequence before the heads.
    arguments : mapping, optional
        More arguments of the class.
    spec : Spec, optional
        What it should compute.

    Returns
    -------
    Subject
        To be given to `check`. Where the guess is wrong, write a `Subject` with a `call` of your
        own.

    Raises
    ------
    ArgumentError
        If it cannot be called, or no way to call it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from posenc.testing import adapt, check
    >>> def slopes(q_positions, k_positions):              # one slope for both heads
    ...     return np.stack(2 * [-abs(q_positions[..., :, None] - k_positions[..., None, :])])
    >>> card = check(adapt(slopes, "bias", heads=2, library="numpy"), laws=["shift", "rows"])
    >>> [(r.law, r.status) for r in card.results]
    [('shift', 'pass'), ('rows', 'fail')]
    """
    if not callable(made):
        raise ArgumentError(mismatch("adapt", "a class or callable", type(made).__name__))
    title = str(name or getattr(made, "__name__", type(made).__name__))
    fixed = dict(arguments or {})

    def make(**changes: Any) -> Any:
        if inspect.isclass(made):
            size = {"heads": heads} if kind == "bias" else {"dim": dim}
            return made(**_constructor(made, size, changes, fixed))
        # A function of x learns the width from x.
        if set(changes) - ({"dim"} if kind == "rotary" else set()):
            raise NotOffered("it is one object, with settings of its own")
        return made

    def call(target: Any, *args: Any) -> Any:
        return _CALLS[kind](target, *args, _How(dim, library, layout))

    return Subject(
        title,
        kind,
        make,
        call,
        dim=dim,
        heads=heads,
        library=library,
        spec=spec,
        versions=_versions(made),
    )


def _constructor(
    implementation: Any,
    size: Mapping[str, int],
    changes: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> dict[str, Any]:
    """The arguments of a class: sizes and changes under its own names for them."""
    names = _parameters(implementation)
    arguments = dict(fixed)
    for what, value in {**size, **changes}.items():
        keyword = _first(_SETTINGS[what], names)
        if keyword is not None and (keyword not in fixed or what in changes):
            arguments[keyword] = value
        elif what in changes:
            raise NotOffered(f"its constructor has no name for {what} that is known")
    return arguments


def _parameters(target: Any) -> list[str]:
    # The signature of a module is that of its `forward`.
    function = getattr(target, "forward", target) if not inspect.isclass(target) else target
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _first(choices: tuple[str, ...], names: list[str]) -> str | None:
    """The first choice that is one of a function's."""
    return next((name for name in choices if name in names), None)


def _placed(names: list[str], positions: Any, x: Any, how: _How) -> dict[str, Any]:
    """The argument that says where tokens of `x` stand, as positions or as an offset."""
    if place := _first(POSITIONS, names):
        return {place: _positions_of(positions, x, how)}
    if start := _first(OFFSETS, names):
        return {start: start_of(positions)}
    check_from_zero(positions)
    return {}


def _call_rotary(implementation: Any, x: Any, positions: Any, how: _How) -> Any:
    x = x if how.layout == "bhsd" else x.swapaxes(1, 2)
    y = implementation(x, **_placed(_parameters(implementation), positions, x, how))
    if isinstance(y, tuple):
        y = y[0]
    return y if how.layout == "bhsd" else y.swapaxes(1, 2)


def _positions_of(positions: Any, x: Any, how: _How) -> Any:
    if positions is None:
        import torch

        return torch.arange(x.shape[-2 if how.layout == "bhsd" else -3])
    return _like(positions, how.library)


def _call_table(implementation: Any, positions: Any, dtype: str, how: _How) -> Any:
    names = _parameters(implementation)
    if names and names[0] == _first(POSITIONS, names):
        return implementation(_like(positions, how.library))
    zeros = np.zeros((1, positions.shape[-1], how.dim))
    x = Subject("", "table", lambda: None, lambda: None, library=how.library).array(zeros, dtype)
    return implementation(x, **_placed(names, positions, x, how))[0]


def _call_bias(implementation: Any, q: Any, k: Any, how: _How) -> Any:
    names = _parameters(implementation)
    query, key = _first(QUERIES, names), _first(KEYS, names)
    if query is not None and key is not None:
        return implementation(**{query: _like(q, how.library), key: _like(k, how.library)})
    first, last = start_of(k), int(k.reshape(-1)[-1])
    if first != 0 or start_of(q) + q.shape[-1] - 1 != last:
        raise NotOffered("it takes lengths: the queries are the last of the keys, which start at 0")
    return implementation(q.shape[-1], k.shape[-1])


_CALLS: dict[str, Any] = {"rotary": _call_rotary, "table": _call_table, "bias": _call_bias}


def _versions(implementation: Any) -> dict[str, str]:
    package = (getattr(implementation, "__module__", None) or "").split(".")[0]
    names = importlib.metadata.packages_distributions().get(package, [])
    return {name: importlib.metadata.version(name) for name in names[:1]}


def load(target: str) -> Any:
    """The object that `MODULE:NAME` or `FILE.py:NAME` means; importing it runs its code.

    Parameters
    ----------
    target : str
        A module on the path or a Python file, a colon, and a name in it, dots allowed.

    Returns
    -------
    object
        What stands there.

    Raises
    ------
    ArgumentError
        If the words have another form, or there is no such module, file, or name in it.
    DependencyError
        If the module needs another that is absent.
    DataError
        If the module fails.
    EndedError
        If it ends the process, as `sys.exit` does.

    Examples
    --------
    >>> from posenc.testing import load
    >>> load("posenc:RoPE").__name__
    'RoPE'
    """
    if why := why_no_code(target):
        raise ArgumentError(why)
    module, _, name = target.rpartition(":")
    with foreign(f"the import of {module}"):
        return _found(module, name)


def _found(module: str, name: str) -> Any:
    inner = _import(module)
    for part in name.split("."):
        if not hasattr(inner, part):
            names = [n for n in dir(inner) if not n.startswith("_")]
            todo = suggest(part, names[:1000]) if names else "It has none."
            raise ArgumentError(f"{module} has no {part!r}. {todo}")
        inner = getattr(inner, part)
    return inner


def _import(module: str) -> Any:
    try:
        return _of_file(module) if module.endswith(".py") else importlib.import_module(module)
    except ModuleNotFoundError as error:
        absent = str(error.name)
        if f"{module}.".startswith(f"{absent}."):
            todo = "It is looked for in the current folder and where Python finds its packages."
            raise ArgumentError(f"there is no module {absent!r}. {todo}") from error
        raise DependencyError(f"{module} needs the module {absent!r}, which is absent.") from error
    except Exception as error:
        received = f"{type(error).__name__}: {error}"
        raise DataError(mismatch(module, "a module that imports", received)) from error


def _of_file(file: str) -> Any:
    name = Path(file).stem
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Pickling looks classes up by the name of their module.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

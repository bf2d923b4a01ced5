"""From what somebody names to a subject: a spec, a module, a function, or a subject itself."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.arrays.array import dtype_name
from posenc._core.errors import (
    ArgumentError,
    DataError,
    DependencyError,
    bad_argument,
    mismatch,
    suggest,
)
from posenc._core.guard import foreign, why_no_code
from posenc._core.spec.spec import Spec
from posenc.detect.subject import Subject as Asked, asked
from posenc.detect.subject.arrays import carried, dtype_in, library_of, numbers, parts_of
from posenc.detect.subject.calling import turn
from posenc.detect.subject.code import instance, refuse_if
from posenc.detect.subject.discovery import Found
from posenc.detect.subject.forms import (
    Form,
    Inquiry as AskedOf,
    Raised,
    call as call_of,
    native,
    numbered,
)
from posenc.testing.places import places_of
from posenc.testing.subject import (
    KINDS,
    Kind,
    Library,
    NotOffered,
    Subject,
    check_from_zero,
    not_offered_where,
    start_of,
)


def _sizes_of(spec: Spec | None) -> dict[str, Any]:
    """How large something is that computes a spec."""
    if spec is None or spec.kind not in KINDS:
        return {}
    if spec.kind == "bias":
        return {"heads": spec.heads}  # type: ignore[attr-defined]
    dim: int = spec.dim  # type: ignore[attr-defined]
    refuse_if(
        getattr(spec, "output_dim", dim) != dim,
        f"check: {type(spec).__name__}: expected a rotation, to which laws apply, got one that "
        "widens heads. Compare what your code gives with `posenc.rotate` of the spec.",
    )
    # Of what is appended, the rows are tried alone.
    own = {"dim": getattr(spec, "width", dim) - dim or dim, "heads": getattr(spec, "per_head", 0)}
    return {name: size for name, size in own.items() if size}


def of_spec(spec: Spec, *, library: Library = "torch", name: str | None = None) -> Subject:
    """A spec of posenc as a subject: its torch module, or its verb with another library.

    Parameters
    ----------
    spec : Spec
        A table, a rotation or a bias; what it learns is as `posenc.init` begins.
    library : {"torch", "numpy", "jax", "mlx"}
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
    if spec.kind not in KINDS:
        raise bad_argument("of_spec", "a table, a rotation or a bias", type(spec).__name__)
    title = name or f"{type(spec).__module__.partition('.')[0]}.{type(spec).__name__}"
    answer = _of_module if library == "torch" and spec.kind != "table" else _of_verb

    places, placed = places_of(spec), slice(spec.kind == "rotary", 2)

    def call(encoding: Any, *arguments: Any) -> Any:
        native = [*arguments]
        native[placed] = [numbered(places, p) if isinstance(p, np.ndarray) else p
                          for p in native[placed]]  # fmt: skip
        native = [carried(a, library) if isinstance(a, np.ndarray) else a for a in native]
        return answer(encoding, *native)

    return Subject(
        title, spec.kind, _maker(spec, library), call, library=library, spec=spec,  # type: ignore[arg-type]
        places=places, **_sizes_of(spec),
    )  # fmt: skip


def _of_module(encoding: Any, *arguments: Any) -> Any:
    turned = (
        encoding(arguments[0], *arguments)
        if encoding.spec.kind == "rotary"
        else encoding(*arguments)
    )
    return turned[0] if isinstance(turned, tuple) else turned


def _of_verb(encoding: Any, *arguments: Any) -> Any:
    spec = getattr(encoding, "spec", encoding)
    params: Any = functional.init(spec)
    if spec.kind == "table":
        library = "torch" if hasattr(arguments[0], "detach") else "numpy"
        dtype = arguments[1] if arguments[1] != "bfloat16" else dtype_in(library, "bfloat16")
        return functional.table(spec, arguments[0], dtype=dtype, params=params)
    return (
        functional.bias(spec, *arguments, params=params)
        if spec.kind == "bias"
        else functional.rotate(spec, arguments[0], positions=arguments[1], params=params)
    )


def _maker(spec: Any, library: Library) -> Any:
    def make(**changes: Any) -> Any:
        for name in changes.keys() - {field.name for field in dataclasses.fields(spec)}:
            raise NotOffered(f"{type(spec).__name__} has no field {name}")
        changed = dataclasses.replace(spec, **changes)
        if library != "torch":
            return changed
        from posenc import torch as modules

        kind = {"rotary": "RotaryEmbedding", "bias": "AttentionBias", "table": "PositionTable"}
        return getattr(modules, kind[spec.kind])(changed, seed=0)

    return make


def adapt(
    made: Any,
    kind: Kind | None = None,
    *,
    name: str | None = None,
    dim: int | None = None,
    heads: int | None = None,
    library: Library | None = None,
    layout: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    spec: Spec | None = None,
) -> Subject:
    """A class, module or function as a subject, in the form that `posenc.ask` finds.

    Parameters
    ----------
    made : class or callable
        A class is made anew for each law, with `arguments` and the width or number of heads under
        the name that its constructor has for it (dim, head_dim, d_model, channels, heads, …).
    kind : {"table", "rotary", "bias"}, optional
        Where it acts; found out by default. Cosines and sines are held to the laws of a rotation,
        of halves that they turn.
    name : str, optional
        In the score card.
    dim, heads : int
        Width of a head or row; heads of a bias. Those of `spec` by default; without one 64 and 8.
    library : {"torch", "numpy", "jax", "mlx"}, optional
        Of its arrays; found out by default.
    layout : str, optional
        Order of the axes of queries, as `"bhsd"`; found out by default.
    arguments : mapping, optional
        More arguments of the class.
    spec : Spec, optional
        What it should compute.

    Returns
    -------
    Subject
        To be given to `check`. Where the guess is wrong, write a `Subject` with its own `call`.

    Raises
    ------
    CannotAsk
        If it cannot be called, or no way to call it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from posenc.testing import adapt, check
    >>> def slopes(q_positions, k_positions):              # one slope for both heads
    ...     return np.stack(2 * [-abs(q_positions[..., :, None] - k_positions[..., None, :])])
    >>> card = check(adapt(slopes, heads=2), laws=["shift", "rows"])
    >>> [(r.law, r.status) for r in card.results]
    [('shift', 'pass'), ('rows', 'fail')]
    """
    title = str(name or getattr(made, "__name__", type(made).__name__))
    is_class = inspect.isclass(made)
    sizes: dict[str, Any] = {"dim": 64, "heads": 8, **_sizes_of(spec)}
    sizes |= {k: v for k, v in {"dim": dim, "heads": heads}.items() if v is not None}

    def make(**changes: Any) -> Any:
        if is_class:
            return instance(made, sizes, arguments, changes)
        # A function of x learns the width from x.
        fixed = set(changes) - {"dim"} or (changes and not (found.form.layout and rotary))
        not_offered_where(fixed, "it is finished, and is not made anew with other settings")
        return made

    places = places_of(spec)
    stated = kind or (spec.kind if spec is not None and spec.kind != "rotary" else None)
    options: dict[str, Any] = {
        "kind": stated, "library": library, "layout": layout, "places": places,
        "headed": hasattr(spec, "heads"), "heads": sizes["heads"],
    }  # fmt: skip
    width = sizes["dim"] if is_class or spec is not None else dim
    subject = asked(make() if is_class else made, dim=width, **options)
    sizes["dim"] = subject.dim
    not_offered_where(
        places is not None and not subject._found.form.has("positions", "q_positions", "distances"),
        f"{type(spec).__name__} has places that are no numbers, and the code takes no positions",
    )
    found: Found = subject._found
    if subject.kind == "bias" and heads is None and spec is None:
        sizes["heads"] = len(subject.bias(np.arange(2), np.arange(2)))  # of its own
    rotary = subject.kind in ("rotary", "cos_sin", "angles")
    own: Any = "rotary" if rotary else subject.kind

    def call(target: Any, *args: Any) -> Any:
        # Under a compiler there are no positions, and it would trace how posenc asks as well.
        not_offered_where(args[-1] is None, "posenc asks it by NumPy, which no compiler reads")
        code = found.form.code
        if target is not made:  # another instance
            code = code._replace(function=getattr(target, code.name.rpartition(".")[2], target))
        form = found.form._replace(code=code)
        try:
            return answered(subject, found._replace(form=form), *args)
        except Raised as error:
            own_error = error.__cause__ or error
        raise own_error  # which is what a law looks at, and not that it was asked

    return Subject(
        title, own, make, call, library=subject.library,  # type: ignore[arg-type]
        spec=spec, places=places, versions=_versions(made), asked=subject,
        **sizes,
    )  # fmt: skip


def answered(subject: Asked, found: Found, *args: Any) -> Any:
    """What a form answers to a law, in arrays of its library."""
    if subject.kind == "rotary":
        return _turned(subject, found.form, *args)
    again = dataclasses.replace(subject, _found=found)
    if subject.kind == "bias":
        q, k = args
        not_offered_where(
            q.ndim > 1 and (found.aligned or found.form.has("score", "distances")),
            "it takes lengths, distances or positions of one row",
        )
        if q.ndim == 1:
            return carried(again.bias(q, k), subject.library)
        answer = parts_of(call_of(found.form, AskedOf(None, q, keys=k), subject._counter))[0]
        alone = (*answer.shape[:1], *answer.shape[-2:]) != (len(q), q.shape[1], k.shape[1])
        not_offered_where(alone, "it takes positions of one row")
        return carried(answer, subject.library)
    if subject.kind == "table":
        fixed = args[1] != "float32" and not found.form.has("dtype", "x")
        not_offered_where(fixed, "it takes no dtype, nor tokens that have one")
        return carried(again.rows(args[0], dtype=args[1]), subject.library, args[1])
    x, positions = args
    cos, sin = again.cos_sin(positions)
    half = x.shape[-1] // 2
    cos, sin = (
        carried(t if t.ndim == 2 else t[:, None], subject.library, dtype_name(x.dtype))
        for t in (cos, sin)
    )
    a, b = x[..., :half], x[..., half:]
    return library_of(subject.library).concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _turned(subject: Asked, form: Form, x: Any, positions: Any) -> Any:
    """Queries, by the same function of native arrays that its users call."""
    rows = np.broadcast_to(positions, (x.shape[0], x.shape[-2]))
    if form.way == "offset":
        start_of(rows)  # raises where they have none
    elif form.way in ("counted", "packed"):
        check_from_zero(rows)
    alike = bool((rows == rows[:1]).all())
    wide = {"b", "h"} <= {*form.layout.replace("t", "b").replace("f", "h")}
    if wide and (alike or "b" in form.place or form.place == "t"):
        return native(form, x, rows)
    dtype = dtype_name(x.dtype)
    turned = turn(form, AskedOf(numbers(x), rows, dtype), subject._counter)
    return carried(turned[0], subject.library, dtype)


# All that is installed is looked through, once.
_distributions = functools.cache(importlib.metadata.packages_distributions)


def _versions(implementation: Any) -> dict[str, str]:
    package = (getattr(implementation, "__module__", None) or "").split(".")[0]
    names = _distributions().get(package, [])
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
        absent = error.name or module
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

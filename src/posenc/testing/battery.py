"""The battery: every law of a kind, tried on a subject."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from posenc._core.calls import check_call, checked_call
from posenc._core.errors import one_of
from posenc._core.guard import foreign
from posenc._core.spec.checks import small
from posenc._core.spec.spec import Spec
from posenc.testing.lab import LAWS, Law, run
from posenc.testing.peers import peer
from posenc.testing.subject import KINDS, Card, Kind, Result, Subject
from posenc.testing.target import adapt, of_spec

# The laws register themselves where they stand, and are tried in this order.
for _name in ("rotary", "table", "every_kind", "torch"):
    importlib.import_module(f"posenc.testing._laws_{_name}")


def laws(kind: Kind) -> tuple[Law, ...]:
    """The laws of a kind, in the order in which they are tried.

    Parameters
    ----------
    kind : {"table", "rotary", "bias"}
        Where the implementations act.

    Returns
    -------
    tuple of Law
        Each has a `name` and a `statement`.

    Raises
    ------
    ArgumentError
        If there is no such kind.

    Examples
    --------
    >>> from posenc.testing import laws
    >>> [law.name for law in laws("bias")][:3]
    ['shift', 'history', 'long']
    """
    one_of(kind, KINDS, "laws: kind")
    return tuple(law for law in LAWS if kind in law.kinds)


@foreign("check", timed=False)
@checked_call
def check(
    target: Any,
    *,
    laws: Iterable[str] | None = None,
    progress: Callable[[int], object] | None = None,
    **how: Any,
) -> Card:
    """Hold an implementation to the laws of its kind.

    Parameters
    ----------
    target : posenc.testing.Subject, spec, str or object
        What is tried: code as `adapt` takes it, a spec or a class of specs, which is made as its
        example, `"peer:NAME"`, or a subject.
    laws : iterable of str, optional
        Names of the laws to try; all of them by default.
    progress : callable, optional
        Called with 1 after each law.
    **how
        Of code, as for `adapt`: `kind`, `name`, `dim`, `heads`, `library`, `layout`, `arguments`
        and `spec`.

    Returns
    -------
    Card
        A result for each law. An exception of the implementation is a result, too.

    Raises
    ------
    ArgumentError
        If a law is not known.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half")
    >>> posenc.check(rope, library="numpy", laws=["shift", "near 2^31"]).passed
    True
    """
    subject = subject_of(target, **how)
    gathered = []
    for result in results(subject, laws):
        gathered.append(result)
        if progress is not None:
            progress(1)
    return Card(subject.name, subject.kind, tuple(gathered), dict(subject.versions))


def subject_of(target: Any, **how: Any) -> Subject:
    """What is to be tried as a subject; an option that nothing reads is an error."""
    options = {**inspect.signature(check).parameters, **inspect.signature(adapt).parameters}
    allowed = {key: one for key, one in options.items() if key not in ("how", "made")}
    check_call("check", allowed, (target,), how)
    if isinstance(target, type) and issubclass(target, Spec):  # of some package: its example
        target = small(target)
    if isinstance(target, Subject):
        return target
    if isinstance(target, str) and target.startswith("peer:"):
        return peer(target.removeprefix("peer:"))
    return (
        of_spec(target, library=how.get("library") or "torch")
        if isinstance(target, Spec)
        else adapt(target, **how)
    )


def results(subject: Subject, names: Iterable[str] | None = None) -> Iterator[Result]:
    """The results one by one, as they come."""
    for law in _chosen(subject.kind, names):
        yield run(law, subject)


def _chosen(kind: Kind, names: Iterable[str] | None) -> tuple[Law, ...]:
    every = {law.name: law for law in laws(kind)}
    if names is None:
        return tuple(every.values())
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        one_of(name, every, "check: laws", f"laws of a {kind}")
    return tuple(law for name, law in every.items() if name in wanted)

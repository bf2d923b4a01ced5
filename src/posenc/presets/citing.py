"""Whom to cite for an encoding, or for what a preset was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from posenc._core.errors import bad_argument, bad_data, suggest
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec
from posenc.presets import names as preset_names
from posenc.presets import row
from posenc.registry import lookup, names, spelled


@dataclass(frozen=True)
class Reference(Displayed):
    """Whom to cite.

    Parameters
    ----------
    name : str
        As it was asked for.
    encoding : str
        The encoding that it names.
    bibtex : str
        The entry of the paper.
    sources : tuple of mapping
        What a preset was read from.

    Examples
    --------
    >>> import posenc
    >>> posenc.cite("whisper").encoding
    'Sinusoidal'
    """

    name: str
    encoding: str
    bibtex: str
    sources: tuple[Mapping[str, str], ...] = ()

    def __str__(self) -> str:
        lines = (f"% {self.name}: {', '.join(source.values())}" for source in self.sources)
        return "\n".join([*lines, self.bibtex])

    def to_dict(self) -> dict[str, Any]:
        """The reference as plain JSON types, as `posenc cite --json` prints it."""
        return {**asdict(self), "sources": list(map(dict, self.sources))}


def cite(name: Any) -> Reference:
    """Whom to cite for an encoding or a preset.

    Parameters
    ----------
    name : str, Spec or class
        An encoding, by its name in any case of letters, its class or a spec of it; or a preset.

    Returns
    -------
    Reference
        `print` shows its BibTeX.

    Raises
    ------
    ArgumentError
        If it is no encoding and no preset.
    DataError
        If the encoding has no reference.

    Examples
    --------
    >>> import posenc
    >>> print(posenc.cite(posenc.ALiBi(8)))  # doctest: +ELLIPSIS
    @inproceedings{...
    """
    asked = name if isinstance(name, str | type) else type(name)
    text = asked if isinstance(asked, str) else asked.__name__
    encoding = spelled(text)
    sources: tuple[Mapping[str, str], ...] = ()
    if text in preset_names():
        encoding, sources = row(text).spec["type"], tuple(row(text).sources)
    elif not encoding:
        raise bad_argument(
            "cite",
            "an encoding or a preset",
            repr(text[:60]),
            suggest(text, [*names(), *preset_names()]),
        )
    cls = lookup(encoding)
    bibtex = cls.bibtex if issubclass(cls, Spec) else ""
    if not bibtex:
        raise bad_data("cite", "an encoding with a reference", encoding)
    return Reference(text, encoding, bibtex, sources)

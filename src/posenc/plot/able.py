"""Which pictures show an encoding, and how a picture says that it does not."""

from __future__ import annotations

from typing import Any, NoReturn

from posenc._core.errors import SpecError, mismatch
from posenc._core.spec import Spec
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.column_phases import inner, sinusoids
from posenc.encodings.table.learned import Learned

__all__ = ["pictures_of", "refuse"]


def pictures_of(spec: Any) -> tuple[str, ...]:
    """The pictures that can show an encoding, by its kind and fields.

    Parameters
    ----------
    spec : Spec
        An encoding of any kind.

    Returns
    -------
    tuple of str
        Names of pictures; empty for encodings that need the contents of queries and keys.

    Examples
    --------
    >>> import posenc
    >>> from posenc.plot.able import pictures_of
    >>> pictures_of(posenc.ALiBi(heads=8))
    ('bias',)
    >>> "stretch" in pictures_of(posenc.RoPE(64, pairing="half"))
    True
    """
    if not isinstance(spec, Spec):
        return ()
    table = inner(spec)
    single = len(getattr(table, "axes", ("position",))) == 1
    names: list[str] = []
    if spec.kind in ("table", "rotary"):
        names += ["table", "waves", "offset", "similarity"]
    if hasattr(table, "matrix"):
        names.append("wavelengths")
    if single and hasattr(table, "matrix") and spec.kind in ("table", "rotary"):
        names.append("counter")
    if spec.kind == "table" and single:
        names.append("sum")
    if spec.kind == "rotary" and single:
        names.append("rotation")
    if spec.kind == "bias":
        names.append("bias")
    if isinstance(spec, RoPE):
        names.append("stretch")
    if sinusoids(table) or isinstance(table, Learned):
        names.append("find")
    return tuple(names)


def refuse(picture: str, spec: Any, expected: str) -> NoReturn:
    """Raise `SpecError`: what the picture shows, and which pictures show this encoding.

    Parameters
    ----------
    picture : str
        Its name.
    spec : Spec
        What it cannot show.
    expected : str
        What it can.
    """
    able = [name for name in pictures_of(spec) if name != picture]
    listed = ", ".join(repr(name) for name in able)
    todo = f"Pictures that show it: {listed}." if able else "No picture shows it."
    if getattr(spec, "kind", "") == "relative" and not able:
        todo = "No picture shows it: it needs the contents of queries and keys."
    raise SpecError(mismatch(f"plot {picture}", expected, type(spec).__name__, todo))

"""Arguments of the readers of configs."""

from __future__ import annotations

from posenc._core.errors import ArgumentError, mismatch, suggest

PAIRINGS = ("half", "interleaved")
ON_ERROR = ("raise", "report")


def check_arguments(caller: str, pairing: object, base: object, on_error: object) -> None:
    """Raise `ArgumentError` for arguments of a reader that are none of its choices."""
    if pairing is not None and pairing not in PAIRINGS:
        todo = suggest(pairing, PAIRINGS)
        raise ArgumentError(mismatch(f"{caller}: pairing", "one of its names", repr(pairing), todo))
    number = isinstance(base, (int, float)) and not isinstance(base, bool)
    if base is not None and not (number and base > 0):  # type: ignore[operator]
        raise ArgumentError(mismatch(f"{caller}: base", "a positive number", repr(base)))
    if on_error not in ON_ERROR:
        todo = suggest(on_error, ON_ERROR)
        raise ArgumentError(
            mismatch(f"{caller}: on_error", "one of its names", repr(on_error), todo)
        )

"""What a kernel says when it cannot do what it is asked."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):  # noqa: N818 - it reaches no user: the reference takes over, or an ArgumentError
    """The reason why a kernel did not run; nothing has been written."""

"""Small Transformers, trained with each encoding and compared honestly."""

from __future__ import annotations

__all__: list[str] = []

"""Tools that read other people's models."""

from __future__ import annotations

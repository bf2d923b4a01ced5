"""Formulas in MathML, piece by piece, and the same in plain text for whoever cannot see them."""

from __future__ import annotations

from html import escape


def literal(text: str) -> str:
    """A number."""
    return f"<mn>{escape(text)}</mn>"


def identifier(text: str) -> str:
    """A name."""
    return f"<mi>{escape(text)}</mi>"


def operator(text: str) -> str:
    """An operator or a bracket."""
    return f"<mo>{escape(text)}</mo>"


def row(*parts: str) -> str:
    """Parts one after another."""
    return f"<mrow>{''.join(parts)}</mrow>"


def fraction(over: str, under: str) -> str:
    """One part over another."""
    return f"<mfrac>{over}{under}</mfrac>"


def power(base: str, exponent: str) -> str:
    """One part raised to another."""
    return f"<msup>{base}{exponent}</msup>"


def apply(name: str, inner: str) -> str:
    """A function of something."""
    return row(identifier(name), operator("("), inner, operator(")"))


def formula(inner: str) -> str:
    """A whole formula."""
    return f'<math display="block">{inner}</math>'

"""What the command line named: files, read once, before anything is served.

The pages can choose among these and nothing else; no state holds a path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posenc.explore.state.entry import CatalogueEntry


class Embeddings(NamedTuple):
    """Embeddings of a file for the sentence: a row for each word."""

    name: str
    rows: np.ndarray  # (words, dim) float64


class HeadsFile(NamedTuple):
    """Queries, keys and values of a file, (heads, words, dim) float64, and its tokens if named."""

    name: str
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    tokens: tuple[str, ...] = ()
    total: int = 0  # of the words in the file, of which the arrays may hold the first


@dataclass(frozen=True)
class Session:
    """What the pages of one server can show beyond the registry and the presets.

    Parameters
    ----------
    entries : tuple of CatalogueEntry
        Encodings of files.
    embeddings : Embeddings, optional
        Vectors for the words of the sentence.
    heads : HeadsFile, optional
        Queries and keys for the attention.

    Examples
    --------
    >>> from posenc.explore import Session
    >>> Session().entries
    ()
    """

    entries: tuple[CatalogueEntry, ...] = ()
    embeddings: Embeddings | None = None
    heads: HeadsFile | None = None

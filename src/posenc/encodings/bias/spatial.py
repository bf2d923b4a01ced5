"""Buckets of distances in a text and on its page (Xu et al. 2021)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.buckets import bucket_of, check_buckets, direction_thresholds
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    lookup,
    summed,
)


@final
@dataclass(frozen=True)
class SpatialBuckets(BiasSpec):
    """Spatial-aware relative biases of documents (Xu et al. 2021, arXiv:2012.14740).

        logits[h, m, n] += weight[b(n - m), h] + x_weight[b'(n_x - m_x), h]
                                               + y_weight[b'(n_y - m_y), h]

    A position is the number of a token in the text, and the coordinates x and y of its box on the
    page. b and b' are the bidirectional buckets of `T5`, with their own counts and limits.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    buckets, max_distance : int
        Buckets of distances in the text, both directions together, and where the last begins.
    spatial_buckets, max_spatial_distance : int
        The same on the page.
    added : {"after", "before"}
        Whether the bias is added after the scores are divided by sqrt(d), or before.
    init : Init
        First values of the tables.

    Raises
    ------
    SpecError
        If there are too few buckets, or the largest distance lies below the exact ones.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.SpatialBuckets(heads=4)
    >>> {name: array.shape for name, array in posenc.init(spec).items()}
    {'weight': (32, 4), 'x_weight': (64, 4), 'y_weight': (64, 4)}
    """

    heads: int
    _: KW_ONLY
    buckets: int = 32
    max_distance: int = 128
    spatial_buckets: int = 64
    max_spatial_distance: int = 256
    added: Literal["after", "before"] = "after"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 1, "x_weight": 1, "y_weight": 1}
    example = Example(
        {"init": Init(scale=1.0)},
        points=lambda: _page(8, 8),
        where="64 tokens in 8 lines of a page",
        unsuited="Its positions are boxes on a page.",
    )
    paper = "xu2021layoutlmv2"
    axes = ("position", "x", "y")

    def check(self) -> None:
        """Raise `SpecError` when buckets and distances contradict each other."""
        check_buckets("SpatialBuckets", self.buckets, self.max_distance, directions=2)
        check_buckets(
            "SpatialBuckets",
            self.spatial_buckets,
            self.max_spatial_distance,
            directions=2,
            prefix="spatial_",
        )

    def constants(self) -> dict[str, np.ndarray]:
        """The least distance in each bucket but the first, in the text and on the page."""
        page = direction_thresholds(self.spatial_buckets // 2, self.max_spatial_distance)
        text = direction_thresholds(self.buckets // 2, self.max_distance)
        return {"thresholds": text, "spatial_thresholds": page}

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each bucket and head, along the text and along both axes of the page."""
        page = Parameter((self.spatial_buckets, self.heads), self.init)
        text = Parameter((self.buckets, self.heads), self.init)
        return {"weight": text, "x_weight": page, "y_weight": page}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The sum of three scalars."""

        def scalar(m: Array, n: Array, name: str) -> Array:
            prefix, buckets = (
                ("", self.buckets) if name == "weight" else ("spatial_", self.spatial_buckets)
            )
            key = f"{prefix}thresholds"
            size = self.texts[key][1][0]  # a traced constant does not tell its length
            row = bucket_of(n - m, constants[key], size, buckets // 2, xp=xp)
            return astype(lookup(constants[name], row, head, xp=xp), dtype, xp)

        return summed(map(scalar, q, k, self.shapes))


def _page(lines: int, columns: int) -> np.ndarray:
    """Tokens in the order of reading: their numbers, and where their boxes begin."""
    token = np.arange(lines * columns)
    return np.stack([token, 12 * (token % columns), 12 * (token // columns)], axis=-1)

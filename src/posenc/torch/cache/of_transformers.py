"""The cache in a class that models of transformers take."""

from __future__ import annotations

from transformers.cache_utils import Cache

from posenc._core.errors import bad_argument, refuse_argument
from posenc.torch.cache.layers import MovableLayer
from posenc.torch.cache.ledger import counted
from posenc.torch.cache.movable import MovableCache


class TransformersCache(MovableCache, Cache):  # type: ignore[misc]
    """A `MovableCache` that is a `transformers.Cache`."""

    layer_class_to_replicate = None
    offloading = False

    def _layer(self, index: int) -> MovableLayer:
        layers = self.movable
        layer = self.layers[index] if index < len(self.layers) else layers[0]
        return layer if isinstance(layer, MovableLayer) else layers[0]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The tokens that the model counts, before those of this step that the layer lacks."""
        return self._layer(layer_idx).get_seq_length()

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """The number of keys beside so many queries, and which place the first has in a mask."""
        return self._layer(layer_idx).get_mask_sizes(query_length)

    @property
    def is_compileable(self) -> bool:
        """It is not: a read copies what moved. `write(cache, into=...)` fills a static cache."""
        return False

    @property
    def is_initialized(self) -> bool:
        """It is: it came with its keys."""
        return True

    @property
    def is_croppable(self) -> bool:
        """Whether the last tokens can be taken back: not once a window has lost older ones."""
        return all(layer.stored == layer.seen for layer in self.movable)

    def crop(self, tokens_to_remove: int) -> None:
        """Take back the last tokens."""
        from posenc.torch.cache.operations import evict

        counted("crop", tokens_to_remove, -len(self.ledger), 0)
        count = -tokens_to_remove
        refuse_argument(
            count and not self.is_croppable,
            "crop",
            "layers that store all tokens",
            "a sliding window, whose older tokens are gone and would be seen again",
            "Keep the cache that you had before those tokens: `evict` leaves it as it is.",
        )
        if count:
            self.become(evict(self, range(len(self.ledger) - count), gaps="keep"))

    def reset(self) -> None:
        """Not possible: a model may fill a cache of its own kind from the start."""
        raise bad_argument(
            "reset",
            "a cache that began empty",
            "one that did not",
            "Make a new cache; this one began with keys.",
        )

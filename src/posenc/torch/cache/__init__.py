"""Keys that move: what serving does to a KV cache, with the positions right.

track    a cache of transformers, or a list of (keys, values)  ->  one with a ledger
evict    drop tokens; the gaps closed, or left
shift    other positions
reuse    a prefix at another offset
merge    caches behind each other
switch   another base, or LongRoPE across its original length
stream   the first and the last tokens alone; `streaming` does it after each step
verify   whether keys are turned as they claim
write    keys rotated to where they stand, in place of those that were stored
"""

from posenc._core.foreign import taught
from posenc.torch.cache.evidence import verify
from posenc.torch.cache.ledger import Ledger
from posenc.torch.cache.merging import merge, write
from posenc.torch.cache.movable import MovableCache
from posenc.torch.cache.operations import evict, reuse, shift, stream, streaming, switch
from posenc.torch.cache.tracking import track

__all__ = [
    "Ledger",
    "MovableCache",
    "evict",
    "merge",
    "reuse",
    "shift",
    "stream",
    "streaming",
    "switch",
    "track",
    "verify",
    "write",
]

__getattr__ = taught(__name__, __all__)

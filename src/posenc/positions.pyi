# Written by tools/generate.py.
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

import numpy as np

from posenc.functional.arguments.common import SomeArray

from posenc._core.positions.packing import randomised as randomised
from posenc._core.positions.sequences import variable as variable
from posenc._core.positions.serving import delta as delta
from posenc._core.positions.serving import paged as paged
from posenc._core.positions.serving import path as path

_X = TypeVar("_X", bound=SomeArray)

from posenc._core.positions.counting import arange as _arange
@overload
def arange(
    length: int,
    *,
    start: int = ...,
    single: int | None = ...,
    device: Any = ...,
) -> np.ndarray: ...
@overload
def arange(
    length: int,
    *,
    start: int = ...,
    single: int | None = ...,
    xp: ModuleType,
    device: Any = ...,
) -> Any: ...

from posenc._core.positions.grid import boxes as _boxes
@overload
def boxes(
    corners: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    form: Literal['centre', 'corners', 'corners_and_size'] = ...,
    size: tuple[float, float] | None = ...,
) -> np.ndarray: ...
@overload
def boxes(
    corners: _X,
    *,
    form: Literal['centre', 'corners', 'corners_and_size'] = ...,
    size: tuple[float, float] | None = ...,
) -> _X: ...

from posenc._core.positions.counting import descending as _descending
@overload
def descending(
    first: int,
    last: int,
    *,
    clip: int | None = ...,
    device: Any = ...,
) -> np.ndarray: ...
@overload
def descending(
    first: int,
    last: int,
    *,
    clip: int | None = ...,
    xp: ModuleType,
    device: Any = ...,
) -> Any: ...

from posenc._core.positions.serving import following as _following
@overload
def following(
    length: int | np.integer | Sequence[Any] | np.ndarray,
    count: int = ...,
    *,
    delta: Any = ...,
    axes: int = ...,
) -> np.ndarray: ...
@overload
def following(
    length: _X,
    count: int = ...,
    *,
    delta: Any = ...,
    axes: int = ...,
) -> _X: ...

from posenc._core.positions.grid import from_grid_mask as _from_grid_mask
@overload
def from_grid_mask(
    mask: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    start: float = ...,
    normalise: Literal['none', 'unit'] = ...,
    margin: float = ...,
    axes: int = ...,
    dtype: Any = ...,
) -> np.ndarray: ...
@overload
def from_grid_mask(
    mask: _X,
    *,
    start: float = ...,
    normalise: Literal['none', 'unit'] = ...,
    margin: float = ...,
    axes: int = ...,
    dtype: Any = ...,
) -> _X: ...

from posenc._core.positions.counting import from_mask as _from_mask
@overload
def from_mask(
    mask: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    pad: int = ...,
) -> np.ndarray: ...
@overload
def from_mask(
    mask: _X,
    *,
    pad: int = ...,
) -> _X: ...

from posenc._core.positions.serving import from_token_types as _from_token_types
@overload
def from_token_types(
    token_types: int | np.integer | Sequence[Any] | np.ndarray,
    image_grid_thw: Any = ...,
    video_grid_thw: Any = ...,
    *,
    merge: int = ...,
    video: Literal['frames', 'whole'] = ...,
    interval: Any = ...,
    mask: Any = ...,
) -> np.ndarray: ...
@overload
def from_token_types(
    token_types: _X,
    image_grid_thw: Any = ...,
    video_grid_thw: Any = ...,
    *,
    merge: int = ...,
    video: Literal['frames', 'whole'] = ...,
    interval: Any = ...,
    mask: Any = ...,
) -> _X: ...

from posenc._core.positions.grid import grid as _grid
@overload
def grid(
    sizes: Mapping[str, int] | Sequence[int],
    *,
    axes: Sequence[str] | None = ...,
    order: Literal['row_major', 'column_major'] = ...,
    start: float = ...,
    normalise: Literal['none', 'unit', 'centred', 'reference'] = ...,
    ends: Literal['cells', 'points'] = ...,
    reference: Sequence[float] | float | None = ...,
    scale: Sequence[float] | float = ...,
    block: int = ...,
    prefix: int = ...,
    dtype: Any = ...,
    device: Any = ...,
) -> np.ndarray: ...
@overload
def grid(
    sizes: Mapping[str, int] | Sequence[int],
    *,
    axes: Sequence[str] | None = ...,
    order: Literal['row_major', 'column_major'] = ...,
    start: float = ...,
    normalise: Literal['none', 'unit', 'centred', 'reference'] = ...,
    ends: Literal['cells', 'points'] = ...,
    reference: Sequence[float] | float | None = ...,
    scale: Sequence[float] | float = ...,
    block: int = ...,
    prefix: int = ...,
    dtype: Any = ...,
    xp: ModuleType,
    device: Any = ...,
) -> Any: ...

from posenc._core.positions.sequences import multimodal as _multimodal
@overload
def multimodal(
    layout: Sequence[int | tuple[Any, int, int]],
    *,
    start: int = ...,
    after: Literal['largest', 'space'] = ...,
    device: Any = ...,
) -> np.ndarray: ...
@overload
def multimodal(
    layout: Sequence[int | tuple[Any, int, int]],
    *,
    start: int = ...,
    after: Literal['largest', 'space'] = ...,
    xp: ModuleType,
    device: Any = ...,
) -> Any: ...

from posenc._core.positions.counting import offset as _offset
@overload
def offset(
    length: int,
    offsets: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    device: Any = ...,
) -> np.ndarray: ...
@overload
def offset(
    length: int,
    offsets: _X,
    *,
    device: Any = ...,
) -> _X: ...
@overload
def offset(
    length: int,
    offsets: Any,
    *,
    xp: ModuleType,
    device: Any = ...,
) -> Any: ...

from posenc._core.positions.packing import packed as _packed
@overload
def packed(
    cu_seqlens: int | np.integer | Sequence[Any] | np.ndarray,
    total: int | None = ...,
    *,
    tail: int | None = ...,
) -> np.ndarray: ...
@overload
def packed(
    cu_seqlens: _X,
    total: int | None = ...,
    *,
    tail: int | None = ...,
) -> _X: ...

from posenc._core.positions.packing import packed_mask as _packed_mask
@overload
def packed_mask(
    cu_seqlens: int | np.integer | Sequence[Any] | np.ndarray,
    total: int | None = ...,
    *,
    direction: Literal['causal', 'bidirectional'] = ...,
) -> np.ndarray: ...
@overload
def packed_mask(
    cu_seqlens: _X,
    total: int | None = ...,
    *,
    direction: Literal['causal', 'bidirectional'] = ...,
) -> _X: ...

from posenc._core.positions.counting import padding_mask as _padding_mask
@overload
def padding_mask(
    mask: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    queries: int | None = ...,
    direction: Literal['causal', 'bidirectional'] = ...,
) -> np.ndarray: ...
@overload
def padding_mask(
    mask: _X,
    *,
    queries: int | None = ...,
    direction: Literal['causal', 'bidirectional'] = ...,
) -> _X: ...

from posenc._core.positions.packing import segments as _segments
@overload
def segments(
    cu_seqlens: int | np.integer | Sequence[Any] | np.ndarray,
    total: int | None = ...,
) -> np.ndarray: ...
@overload
def segments(
    cu_seqlens: _X,
    total: int | None = ...,
) -> _X: ...

from posenc._core.positions.sequences import shard as _shard
@overload
def shard(
    length: int,
    *,
    world: int,
    rank: int,
    layout: Literal['contiguous', 'head_tail', 'zigzag', 'striped'] = ...,
    device: Any = ...,
) -> np.ndarray: ...
@overload
def shard(
    length: int,
    *,
    world: int,
    rank: int,
    layout: Literal['contiguous', 'head_tail', 'zigzag', 'striped'] = ...,
    xp: ModuleType,
    device: Any = ...,
) -> Any: ...

from posenc._core.positions.serving import tree as _tree
@overload
def tree(
    parents: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    start: Any = ...,
) -> np.ndarray: ...
@overload
def tree(
    parents: _X,
    *,
    start: Any = ...,
) -> _X: ...

__all__ = [
    "arange",
    "boxes",
    "delta",
    "descending",
    "following",
    "from_grid_mask",
    "from_mask",
    "from_token_types",
    "grid",
    "multimodal",
    "offset",
    "packed",
    "packed_mask",
    "padding_mask",
    "paged",
    "path",
    "randomised",
    "segments",
    "shard",
    "tree",
    "variable",
]

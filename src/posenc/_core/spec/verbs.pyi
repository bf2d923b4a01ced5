# The types of verbs that specs have as methods; what they take beside is that of the functions.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from posenc.functional.arguments.common import SomeArray

_X = TypeVar("_X", bound=SomeArray)
_Places: TypeAlias = int | np.integer | Sequence[Any] | np.ndarray

class Rows(Protocol):
    @overload
    def __call__(self, positions: Any, *places: Any, xp: ModuleType, **options: Any) -> Any: ...
    @overload
    def __call__(self, positions: _Places, *places: Any, **options: Any) -> np.ndarray: ...
    @overload
    def __call__(self, positions: _X, *places: Any, **options: Any) -> _X: ...

class Angles(Protocol):
    @overload
    def __call__(self, positions: Any, *, xp: ModuleType, **options: Any) -> tuple[Any, Any]: ...
    @overload
    def __call__(self, positions: _Places, **options: Any) -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def __call__(self, positions: _X, **options: Any) -> tuple[_X, _X]: ...

class Turned(Protocol):
    def __call__(self, x: _X, /, **options: Any) -> _X: ...

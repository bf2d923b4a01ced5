"""The settings of array-api-strict, which has what the standard says and nothing more."""

from __future__ import annotations

from collections.abc import Callable

import array_api_strict as xp
import numpy as np

from tests.settings.subjects import Subject
from tests.tolerances import SETTINGS as BOUNDS, assert_close


def _plain(dtype: str, length: int) -> Callable[[Subject], None]:
    def check(subject: Subject) -> None:
        floats = {n: v.astype(dtype) for n, v in subject.floats(length).items()}
        where = subject.where(length)
        got = subject({n: xp.asarray(v) for n, v in floats.items()}, xp.asarray(where))
        exact = subject.exact(floats, where)
        result = np.asarray(got._array, dtype="float64")
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(result[~finite], exact[~finite])
        result, exact = (np.where(finite, a, 0) for a in (result, exact))
        assert_close(result, exact, BOUNDS[dtype] * (1 + np.abs(exact)), subject.name)

    return check


SETTINGS: dict[str, Callable[[Subject], None]] = {
    "strict_float32": _plain("float32", 6),
    "strict_float64": _plain("float64", 6),
    "strict_empty": _plain("float32", 0),
    "strict_one_token": _plain("float32", 1),
}

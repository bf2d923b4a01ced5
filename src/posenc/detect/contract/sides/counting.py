"""Functions that number the tokens of a batch, by its mask or its token ids."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc.detect.subject import refuse_if
from posenc.detect.subject.arrays import carried, numbers
from posenc.detect.subject.code import role_of

NAMED = re.compile(r"^(?!.*(emb|enc)).*pos", re.IGNORECASE)  # not what makes vectors
# What an argument is -> what it is of a batch.
ROLES = {"tokens": "tokens", "tensor": "tokens", "mask": "mask", "offset": "past"}
TOKEN = 5  # of every place without padding, beyond the padding's own


def _numbered(code: Any, roles: Mapping[str, str], case: Mapping[str, Any]) -> np.ndarray:
    """The numbers of a padded batch or a cached step, of positions or of rows."""
    steps = "past" in case and {"tokens", "past"} <= {*roles.values()}
    refuse_if("mask" not in case and not steps, f"it takes {', '.join(roles)} alone")
    mask, pad = case.get("mask", np.ones(case["shape"])), int(case["pad"])
    mask = np.reshape(mask, (-1, case["shape"][-1])).astype(int)
    plain = {"pad": pad, "past": int(case.get("past", 0))}
    arrays = {"mask": mask, "tokens": np.where(mask, pad + TOKEN, pad)}

    def answer(library: str) -> np.ndarray:
        asked: dict[str, Any] = {r: carried(array, library) for r, array in arrays.items()}
        return numbers(code(**{name: (asked | plain)[role] for name, role in roles.items()}))

    try:
        numbered = answer("numpy")
    except (TypeError, AttributeError):
        numbered = answer("torch")
    whole = numbered.size == mask.size and np.all(numbered % 1 == 0)
    refuse_if(not whole, "it answers with no whole number for each token")
    return numbered


def _role(name: str) -> str:
    """What an argument is of a batch; nothing where the name does not tell."""
    plain = ROLES.get(name) or ROLES.get(role_of(name), "")
    return "pad" if re.search(r"pad.*id", name) else plain


def counting(code: Any) -> Callable[..., Any] | None:
    """A function that numbers tokens; None for others, and for one of a record of a contract."""
    plain = inspect.isfunction(code) or inspect.ismethod(code)
    slots = inspect.signature(code).parameters if plain and NAMED.search(code.__name__) else {}
    roles = {name: role for name in slots if (role := _role(name))}
    needed = {name for name, slot in slots.items() if slot.default is slot.empty}
    fits = needed <= {*roles} and {"tokens", "mask"} & {*roles.values()}
    return functools.partial(_numbered, code, roles) if fits else None

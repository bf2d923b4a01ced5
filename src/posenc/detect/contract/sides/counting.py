"""Functions that number the tokens of a batch, by its mask or its token ids."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc._core.foreign import STARTS
from posenc.detect.subject import refuse_if
from posenc.detect.subject.arrays import carried, numbers

NAMED = re.compile(r"^(?!.*(emb|enc)).*pos", re.IGNORECASE)  # not what makes vectors
ROLES = {
    "tokens": "input_ids token_ids tokens tensor",
    "mask": "attention_mask attn_mask padding_mask pad_mask mask",
    "pad": "padding_idx pad_idx pad_token_id",
    "past": STARTS,
}
TOKEN = 5  # of every place without padding, beyond the padding's own


class Counting(NamedTuple):
    """Such a function, with the role of each parameter that is known."""

    function: Callable[..., Any]
    roles: Mapping[str, str]

    def __call__(self, case: Mapping[str, Any]) -> np.ndarray:
        """The numbers of a padded batch or a cached step, of positions or of rows."""
        steps = "past" in case and {"tokens", "past"} <= {*self.roles.values()}
        refuse_if("mask" not in case and not steps, f"it takes {', '.join(self.roles)} alone")
        mask = np.reshape(case.get("mask", np.ones(case["shape"])), (-1, case["shape"][-1])).astype(
            int
        )
        pad = int(case["pad"])
        given = {"mask": mask, "tokens": np.where(mask, pad + TOKEN, pad)}
        plain = {"pad": pad, "past": int(case.get("past", 0))}
        for library in ("numpy", "torch"):
            arrays = {role: carried(array, library) for role, array in given.items()}
            values = {name: (arrays | plain)[role] for name, role in self.roles.items()}
            try:
                answer = numbers(self.function(**values))
            except (TypeError, AttributeError):
                if library == "torch":
                    raise
            else:
                break
        whole = answer.size == mask.size and np.all(answer % 1 == 0)
        refuse_if(not whole, "it answers with no whole number for each token")
        return answer


def counting(code: Any) -> Counting | None:
    """A function that numbers tokens; None for others, and for one of a record of a contract."""
    if not (inspect.isroutine(code) and NAMED.search(code.__name__)):
        return None
    roles, required = {}, set()
    for name, slot in inspect.signature(code).parameters.items():
        role = next((role for role, words in ROLES.items() if name in words.split()), "")
        roles |= {name: role} if role else {}
        required |= {role} if slot.default is slot.empty else set()
    return (
        Counting(code, roles)
        if {"tokens", "mask"} & {*roles.values()} and "" not in required
        else None
    )

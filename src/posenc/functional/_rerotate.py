"""Keys that are rotated already, moved to other positions."""

from __future__ import annotations

from typing import Any

from posenc._core.arrays.array import is_divided, numpy_rules
from posenc._core.errors import SpecError, mismatch
from posenc.encodings.rotary.base import RotarySpec
from posenc.functional.arguments.common import Array, X, name_of, without_request
from posenc.functional.arguments.lengths import at_length
from posenc.functional.arguments.moves import check_alike, warn_of_small_moves
from posenc.functional.arguments.rotation import checked, require_plain
from posenc.functional.arguments.tokens import token_positions
from posenc.kernels import Rerotate, run


@numpy_rules
def rerotate(
    spec: RotarySpec,
    k: X,
    old_positions: Any,
    new_positions: Any,
    new_spec: RotarySpec | None = None,
    *,
    seq_dim: int = -2,
) -> X:
    """Rerotate keys that are rotated already to other positions, or to another base or scaling.

        k' = R'(new) R(old)^-1 k

    The two phases are subtracted as integers, so the angle is exact however far keys move; each
    move rounds once, to the dtype of the keys. `n` moves differ from one by at most n roundings.

    In half precision that is much where moves are small: a pair that turns by less than half a
    unit in the last place (0.002 in bfloat16, 0.0002 in float16) stays where it was. A thousand
    moves by one position leave an error of half the key in bfloat16 and of 0.07 in float16, one
    move by a thousand 0.002 and 0.0003 (width 128, base 10000). So move keys seldom and far, or
    keep them in float32; `posenc.torch.cache` keeps them as written and adds up their moves.

    Parameters
    ----------
    spec : RotarySpec
        What the keys were rotated by; with a length-dependent scaling, `spec.at(length)`.
    k : array
        (..., seq, channels), keys as cached.
    old_positions, new_positions : array of integers
        (seq,), (batch, seq) or the leading shape of `k`.
    new_spec : RotarySpec, optional
        What they shall be rotated by; `spec` by default.
    seq_dim : int
        The axis of `k` that holds the sequence.

    Returns
    -------
    array
        As `k`, in its dtype.

    Raises
    ------
    SpecError
        If the two specs do not turn the same pairs.

    Warns
    -----
    UserWarning
        If keys in half precision move by fewer than 64 positions and some pairs cannot follow.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope, k = posenc.RoPE(4, pairing="half"), np.ones((3, 4))
    >>> cached = posenc.rotate(rope, k, positions=[7, 8, 9])
    >>> moved = posenc.rerotate(rope, cached, [7, 8, 9], [0, 1, 2])
    >>> bool(abs(moved - posenc.rotate(rope, k, positions=[0, 1, 2])).max() < 1e-15)
    True
    """
    direct = without_request()
    if direct is not None:
        result = direct.moved(
            spec, spec if new_spec is None else new_spec, k, old_positions, new_positions, seq_dim
        )
        if result is not None:
            return result
    caller = f"rerotate({name_of(spec)})"
    if is_divided(k, old_positions, new_positions):
        return _divided_move(
            spec, k, old_positions, new_positions, target=new_spec, seq_dim=seq_dim
        )
    target = spec if new_spec is None else new_spec
    (spec, _), (target, _) = (at_length(each, None, "rerotate") for each in (spec, target))
    check_alike(spec, target, caller)
    require_plain(spec, caller)
    if spec.channels.output == "half" and spec.channels.order != "half":
        todo = "Rotate the keys from scratch."
        raise SpecError(mismatch(caller, "keys in the order of the weights", "output='half'", todo))
    xp, _ = checked(spec, k, caller)
    old = token_positions(spec, k, old_positions, None, seq_dim=seq_dim, xp=xp, caller=caller)
    new = token_positions(target, k, new_positions, None, seq_dim=seq_dim, xp=xp, caller=caller)
    if target == spec:
        warn_of_small_moves(spec, k, old, new, caller)
    return run(Rerotate(spec, target, k, old, new, seq_dim, xp, caller), "auto")


def _divided_move(
    spec: RotarySpec, k: Array, old: Any, new: Any, *, target: RotarySpec | None, seq_dim: int
) -> Array:
    from posenc.functional.arguments.divided import on_tokens

    def part_moved(k: Array, old: Any, new: Any) -> Array:
        return rerotate(spec, k, old, new, target, seq_dim=seq_dim)

    caller, last = f"rerotate({name_of(spec)})", int(len(spec.axes) > 1)
    return on_tokens(part_moved, ("k", k), seq_dim, {"old": old, "new": new}, caller, last=last)

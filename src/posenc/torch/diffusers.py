"""The rotary function of Hugging Face diffusers, by the name and signature that it has there."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from posenc import functional
from posenc._core.errors import bad_argument, bad_dtype
from posenc._core.numeric.ladder import Ladder
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling.linear import Linear


def get_1d_rotary_pos_embed(
    dim: int,
    pos: np.ndarray | Tensor | int,
    theta: float = 10000.0,
    use_real: bool = False,
    linear_factor: float = 1.0,
    ntk_factor: float = 1.0,
    repeat_interleave_real: bool = True,
    freqs_dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor] | Tensor:
    """Rotations of positions along one axis, in the place of the function of diffusers.

        exp(i * pos * f[j]),   f[j] = (theta * ntk_factor) ** (-2j / dim) / linear_factor

    Parameters
    ----------
    dim : int
        Channels, even.
    pos : int, array or Tensor
        A number n for the positions 0 to n - 1, or positions of shape (seq,), whole or real.
    theta : float
        The base.
    use_real : bool
        Whether cosines and sines are returned by themselves, rather than complex numbers.
    linear_factor, ntk_factor : float
        What divides every frequency, and what multiplies the base; both positive.
    repeat_interleave_real : bool
        With `use_real`: whether each entry stands twice in a row, or the whole row twice.
    freqs_dtype : torch.dtype
        float32 or float64, in which angles are held; real positions of float64 widen it.

    Returns
    -------
    Tensor or tuple of Tensor
        (seq, dim / 2), complex64 or complex128 as the angles are; with `use_real` cosines and sines
        (seq, dim) in float32.

    Raises
    ------
    ArgumentError
        If `dim` is odd, `pos` has other axes, or a factor is not positive.
    DTypeError
        If `freqs_dtype` is neither of the two.

    Notes
    -----
    Angles of whole positions are exact at every position: entries are right to 1e-7 in float32, and
    in float64 to 4e-16 and 1.8e-19 for each position. The function of diffusers multiplies position
    and frequency in `freqs_dtype` and rounds the product. At dim=128 and theta=10000 its largest
    error, measured in diffusers 0.42.1 on a CPU, is

        positions up to           1,023     65,535    1,048,575
        float32, its default    5.7e-05    3.9e-03      6.2e-02
        float64                 9.4e-14    6.7e-12      1.1e-10

    Examples
    --------
    >>> import torch
    >>> from posenc.torch import get_1d_rotary_pos_embed
    >>> cos, sin = get_1d_rotary_pos_embed(4, 2, use_real=True)
    >>> sin[1]
    tensor([0.8415, 0.8415, 0.0100, 0.0100])
    """
    caller = "get_1d_rotary_pos_embed"
    if freqs_dtype not in (torch.float32, torch.float64):
        raise bad_dtype(f"{caller}: freqs_dtype", "float32 or float64", freqs_dtype)
    if not linear_factor > 0:
        raise bad_argument(f"{caller}: linear_factor", "above 0", linear_factor)
    if isinstance(pos, int):
        pos = torch.arange(pos)
    where = torch.from_numpy(pos) if isinstance(pos, np.ndarray) else pos
    if where.ndim != 1:
        expected, received = "a number, or positions of shape (seq,)", tuple(where.shape)
        raise bad_argument(f"{caller}: pos", expected, received)
    real = where.is_floating_point()
    dtype = torch.promote_types(where.dtype, freqs_dtype) if real else freqs_dtype
    spec = RoPE(
        dim,
        pairing="interleaved" if repeat_interleave_real else "half",
        base=float(theta * ntk_factor),
        phase="real" if real else "exact",
    )
    if linear_factor > 1:
        spec = spec.replace(scaling=Linear(float(linear_factor)))
    elif linear_factor < 1:  # which no scaling does, as it turns faster
        spec = spec.replace(ladder=Ladder(first=1 / linear_factor))
    where = where.to(dtype) if real else where
    cos, sin = functional.cos_sin(spec, where, width="full" if use_real else "half", dtype=dtype)
    return (cos.float(), sin.float()) if use_real else torch.complex(cos, sin)

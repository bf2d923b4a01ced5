"""More hidden faults: heads, rows, dtypes, state, strides, keys; tables and biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import posenc
from tests.detect.subject.faulty.rotations import FAULTS, ROPE, SPEEDS, TWOS, fault, turn
from tests.detect.subject.loops import slopes

__all__ = ["FAULTS"]

SINES, ALIBI = posenc.Sinusoidal(64), posenc.ALiBi(8)


# --- heads, rows, widths --------------------------------------------------------------------------


@fault("head 32 of 33 turns backward", True, "head")
def last_head() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        out = turn(x, positions)
        if x.ndim == 4 and x.shape[1] > 32:
            out[:, 32] = turn(x[:, 32:33], -np.asarray(positions))[:, 0]
        return out

    return rotate


@fault("head 7 of exactly 8 does not turn", True, "head")
def eight_heads() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        out = turn(x, positions)
        if x.ndim == 4 and x.shape[1] == 8:
            out[:, 7] = x[:, 7]
        return out

    return rotate


@fault("a single head is taken for the batch", True, "head|row")
def one_head() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        if x.ndim == 4 and x.shape[1] == 1 and x.shape[0] > 1:
            return turn(x, np.asarray(positions) + np.arange(len(x))[:, None])
        return turn(x, positions)

    return rotate


@fault("the second row of a batch is one position late", True, "row")
def second_row() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        out = turn(x, positions)
        if x.ndim == 4 and len(x) > 1:
            places = np.asarray(positions)
            out[1] = turn(x[1:2], (places[1:2] if places.ndim == 2 else places) + 1)[0]
        return out

    return rotate


@fault("channels beyond 64 of a wider head are 0", True, "channel|wider")
def wider_zero() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        out = turn(x, positions)
        out[..., 64:] = 0
        return out

    return rotate


@fault("channels beyond 64 of a wider head are one per thousand larger", True, "channel|wider")
def wider_scaled() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        out = turn(x, positions)
        out[..., 64:] *= 1.001
        return out

    return rotate


# --- dtypes, state, strides -----------------------------------------------------------------------


def torch_turn(x: Any, positions: Any, sign: int = 1) -> Any:
    import torch

    theta = positions.double()[..., None] * torch.from_numpy(SPEEDS) * sign
    theta = theta[:, None] if theta.dim() == 3 else theta
    a, b = x.double().chunk(2, dim=-1)
    cos, sin = theta.cos(), theta.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


@fault("angles are kept for a length and its ends", True, "after a call")
def kept_by_ends() -> Any:
    kept: dict[Any, Any] = {}

    def rotate(x: Any, positions: Any) -> Any:
        places = np.asarray(positions)
        ends = places.shape, places[..., 0].tobytes(), places[..., -1].tobytes(), places.sum()
        if kept.get("ends") != ends:
            kept.update(ends=ends, places=places)
        return turn(x, kept["places"])

    return rotate


def in_dtype(name: str, change: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """Over torch, other where the tokens are of one dtype."""

    def make() -> Any:
        import torch

        wanted = getattr(torch, name)
        return lambda x, positions: (
            change(x, positions) if x.dtype == wanted else torch_turn(x, positions)
        )

    return make


fault("float64 turns backward", True, "float64")(
    in_dtype("float64", lambda x, positions: torch_turn(x, positions, -1))
)
fault("bfloat16 is one position late", True, "bfloat16")(
    in_dtype("bfloat16", lambda x, positions: torch_turn(x, positions + 1))
)
fault("float16 is one percent small", True, "float16")(
    in_dtype("float16", lambda x, positions: 0.99 * torch_turn(x, positions))
)
fault("float32 beyond 65,536 is one position late", True, "float32")(
    in_dtype("float32", lambda x, positions: torch_turn(x, positions + (positions > 65_536)))
)
fault("bfloat16 of one token does not turn", False, "")(
    in_dtype("bfloat16", lambda x, positions: x if x.shape[-2] == 1 else torch_turn(x, positions))
)


@fault("the second call and those after it are one position late", True, "call")
def second_call() -> Any:
    calls = [0]

    def rotate(x: Any, positions: Any) -> Any:
        calls[0] += 1
        return turn(x, np.asarray(positions) + (calls[0] > 1))

    return rotate


@fault("every tenth call does not turn", True, "")
def tenth_call() -> Any:
    calls = [0]

    def rotate(x: Any, positions: Any) -> Any:
        calls[0] += 1
        return turn(x, positions) if calls[0] % 10 else x

    return rotate


@fault("tables are kept in the dtype that came first", True, "dtype|bfloat16|float")
def first_dtype() -> Any:
    import torch

    class Rotary:
        def __init__(self) -> None:
            self.tables: Any = None

        def __call__(self, x: Any, positions: Any) -> Any:
            theta = torch.arange(65_536).double()[:, None] * torch.from_numpy(SPEEDS)
            if self.tables is None:
                self.tables = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
            cos, sin = (t[positions] for t in self.tables)
            cos, sin = (t[:, None] if t.dim() == 3 else t for t in (cos, sin))
            a, b = x.chunk(2, dim=-1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)

    return Rotary


@fault("angles are kept for a length, whatever the positions", True, "position")
def kept_for_length() -> Any:
    class Rotary:
        def __init__(self) -> None:
            self.kept: dict[int, Any] = {}

        def __call__(self, x: Any, positions: Any) -> Any:
            return turn(x, self.kept.setdefault(x.shape[-2], np.array(positions)))

    return Rotary


@fault("the table of the first length is taken modulo its length", True, "token|position|call")
def grown() -> Any:
    kept: list[int] = []

    def rotate(x: Any, positions: Any) -> Any:
        kept.append(int(np.max(positions)) + 1) if not kept else None
        return turn(x, np.asarray(positions) % max(kept[0], 4_096))

    return rotate


@fault("an array that is not contiguous is read as if it were", True, "contiguous|stride")
def strides() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        if not x.flags.c_contiguous:
            x = np.ravel(x, order="K").reshape(x.shape)
        return turn(x, positions)

    return rotate


@fault("every second channel of a strided array is read, over torch", True, "contiguous|stride")
def torch_strides() -> Any:
    import torch

    def rotate(x: Any, positions: Any) -> Any:
        if not x.is_contiguous():
            size = x.numel()
            x = torch.as_strided(x, (size,), (1,))[:size].reshape(x.shape)
        return torch_turn(x, positions)

    return rotate


# --- queries and keys -----------------------------------------------------------------------------


@fault("keys turn backward", True, "key")
def keys() -> Any:
    return lambda q, k, positions: (turn(q, positions), turn(k, -np.asarray(positions)))


@fault("keys of fewer heads are one position late", True, "key")
def fewer_keys() -> Any:
    def rotate(q: Any, k: Any, positions: Any) -> Any:
        late = int(k.shape[1] < q.shape[1])
        return turn(q, positions), turn(k, np.asarray(positions) + late)

    return rotate


@fault("queries and keys are returned in each other's place", True, "")
def swapped() -> Any:
    return lambda q, k, positions: (turn(k, positions), turn(q, positions))


@fault("neighbours are paired as halves from head 4 on", True, "head", TWOS)
def mixed() -> Any:
    def twos(x: Any, positions: Any) -> Any:
        order = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)])
        return turn(x[..., order], positions)[..., np.argsort(order)]

    def rotate(x: Any, positions: Any) -> Any:
        out = twos(x, positions)
        if x.ndim == 4 and x.shape[1] > 4:
            out[:, 4:] = turn(x[:, 4:], positions)
        return out

    return rotate


@fault("cosines and sines are exchanged for one position", True, "one|1 token")
def exchanged() -> Any:
    def cos_sin(position_ids: Any) -> Any:
        theta = np.multiply.outer(np.asarray(position_ids, dtype=np.float64), SPEEDS)
        both = np.cos(theta), np.sin(theta)
        return both[::-1] if theta.shape[-2] == 1 else both

    return cos_sin


# --- tables ---------------------------------------------------------------------------------------


def sines(positions: Any) -> Any:
    theta = np.multiply.outer(np.asarray(positions, dtype=np.float64), SPEEDS)
    return np.stack([np.sin(theta), np.cos(theta)], axis=-1).reshape(len(theta), -1)


def table(change: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: lambda positions: sines(change(np.asarray(positions)))


fault("a table wraps at 5,000", True, "position", SINES)(table(lambda p: p % 5_000))
fault("a table's row 4,095 is that before", True, "4,?095", SINES)(
    table(lambda p: p - (p == 4_095))
)
fault("a table's rows are sorted", True, "position", SINES)(table(np.sort))
fault("a table of one percent of far positions", True, "position", SINES)(
    table(lambda p: p + ((p >= 800_000) & (p < 810_486)))
)
fault("a table of one row alone", True, "one|1", SINES)(table(lambda p: p + (len(p) == 1)))


@fault("the last channel of a table is a sine", True, "", SINES)
def last_channel() -> Any:
    def rows(positions: Any) -> Any:
        out = sines(positions)
        out[:, 63] = np.sin(np.asarray(positions) * SPEEDS[31])
        return out

    return rows


# --- biases ---------------------------------------------------------------------------------------


def far(queries: Any, keys: Any) -> Any:
    return np.abs(np.asarray(keys)[None] - np.asarray(queries)[:, None])


def alibi(change: Callable[[Any, Any, Any], Any]) -> Callable[[], Any]:
    """The bias of 8 heads; `change` takes positions of queries and keys, and the right one."""

    def make() -> Any:
        def bias(q_positions: Any, k_positions: Any) -> Any:
            right = -np.array(slopes(8))[:, None, None] * far(q_positions, k_positions)
            return change(q_positions, k_positions, right)

        return bias

    return make


def by_index(q: Any, k: Any, right: Any) -> Any:
    if len(q) != len(k):
        return right
    return -np.array(slopes(8))[:, None, None] * far(np.arange(len(q)), np.arange(len(k)))


def two_percent(q: Any, k: Any, right: Any) -> Any:
    return right * np.where(np.arange(8) == 3, 1.02, 1.0)[:, None, None]


BIASES: tuple[tuple[str, Callable[[Any, Any, Any], Any], str], ...] = (
    ("slope 3 is two percent off", two_percent, ""),
    ("indices where lengths are equal", by_index, ""),
    (
        "one query is a position late",
        lambda q, k, right: (
            right if len(q) > 1 else -np.array(slopes(8))[:, None, None] * far(np.asarray(q) + 1, k)
        ),
        "one|1 query",
    ),
    (
        "distances end at 1,024",
        lambda q, k, right: np.maximum(right, -1_024 * np.array(slopes(8))[:, None, None]),
        "",
    ),
    (
        "keys that jump are taken in order",
        lambda q, k, right: -np.array(slopes(8))[:, None, None] * far(q, np.sort(k)),
        "",
    ),
    (
        "keys behind the query get nothing",
        lambda q, k, right: np.where(np.asarray(k)[None] > np.asarray(q)[:, None], 0.0, right),
        "",
    ),
    (
        "distances in float16",
        lambda q, k, right: (
            -np.array(slopes(8))[:, None, None] * far(q, k).astype(np.float16).astype(np.float64)
        ),
        "",
    ),
    ("more keys than queries: the last key is left out", lambda q, k, right: (
        right if len(k) <= len(q) else np.concatenate([right[..., :-1], right[..., -2:-1]], -1)
    ), ""),
)  # fmt: skip
for _name, _alter, _says in BIASES:
    _named = "slope 3" if _alter is two_percent else ""
    fault(f"bias: {_name}", True, _says, ALIBI, "bias", _named)(alibi(_alter))


@fault("bias: 12 heads have the slopes of a power", True, "", posenc.ALiBi(12), "bias")
def geometric() -> Any:
    def bias(q_positions: Any, k_positions: Any) -> Any:
        numbers = 2.0 ** (-8 * (np.arange(12) + 1) / 12)
        return -numbers[:, None, None] * far(q_positions, k_positions)

    return bias


fault("x beyond 100 is clipped", False, "", ROPE)(
    lambda: lambda x, positions: turn(np.clip(x, -100, 100), positions)
)

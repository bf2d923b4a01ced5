"""What `adopt` did to a model, as a value; and computed rows in it, tables of sines that it keeps.

The rows stand in a buffer, or in a parameter that is not trained (Whisper's encoder, Marian). Where
they are saved with the model, its state dict goes on to hold the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self, final

import numpy as np
import torch
from torch import nn

from posenc import functional
from posenc._core.grouping import grouped
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.fit.turns import CONSIDERABLE, attempt
from posenc.detect.subject import Reach
from posenc.encodings.rotary.base import RotarySpec

CALLER = "adopt"
KEPT = "_posenc_rows"  # of a module: name of a tensor -> Kept
FEWEST = 8  # rows that say which table it is
ROOM = 8 * 2.0**-24  # of angles in float32, for each radian


class Distance(NamedTuple):
    """How far a module, or stored rows, are from exact angles."""

    change: float  # the largest up to `last`
    place: int  # where it is
    last: int
    wrong: int | None  # the first that is off by more than 1e-3, if there is one
    looked: int  # the farthest that was asked for
    reach: Reach | None = None  # of a module, which is asked; all rows that are stored are seen

    @classmethod
    def of(cls, places: np.ndarray, off: np.ndarray, last: int, reach: Reach | None = None) -> Self:
        """By the differences at positions."""
        within = np.where(places <= last, off, 0.0)
        worst, wrong = int(within.argmax()), places[off > CONSIDERABLE]
        return cls(
            float(within[worst]),
            int(places[worst]),
            last,
            int(wrong.min()) if wrong.size else None,
            int(places.max()),
            reach,
        )


@final
@dataclass(frozen=True)
class Replacement(Displayed):
    """One module that was replaced, for one type of layer, or one buffer of rows.

    Parameters
    ----------
    path : str
        The path of the module, the first where it stands at several, or of the buffer.
    layer : str
        The entry of the plan whose numbers it has.
    spec : Spec, optional
        What is computed in its place; None where nothing turns.
    was : str
        The class of the module that was replaced, or that has the buffer.
    change : float
        The largest difference of cosines and sines, or of rows, between it and exact angles, at the
        positions up to `last`.
    place : int
        The position of that difference.
    last : int
        The last position that the model is declared for.
    wrong : int, optional
        The first position, of those that were asked, where the module was off by more than 0.001.
    looked : int
        The farthest position that was asked.
    reach : Reach, optional
        How a module was looked at, with what arithmetic in float32 explains; see `posenc.ask`.
    what : {"cos and sin", "rows"}
        Which numbers were replaced.
    trained : Spec, optional
        What the config says, for which the weights were trained, where another encoding was put in
        on purpose.

    Examples
    --------
    >>> from posenc.torch import adopt
    """

    path: str
    _: KW_ONLY
    layer: str
    spec: Spec | None
    was: str
    change: float
    place: int
    last: int
    wrong: int | None
    looked: int
    reach: Reach | None = None
    what: str = "cos and sin"
    trained: Spec | None = None

    @property
    def text(self) -> str:
        """The replacement as a sentence."""
        return f"{self.path} ({self.was}), {self.numbers}"

    @property
    def numbers(self) -> str:
        """What changed, in words."""
        change = (
            f"{self.layer}: {self.what} change by at most {self.change:.2g} up to position "
            f"{self.last:,}, at {self.place:,}; "
        )
        if self.trained is not None:
            change += "no positions" if self.spec is None else repr(self.spec)
            return f"{change} in place of {self.trained!r}, on purpose"
        bound = (
            f"no more than {CONSIDERABLE:g} up to {self.looked:,}"
            if self.wrong is None
            else f"more than {CONSIDERABLE:g} from position {self.wrong:,} on"
        )
        return f"{change}the old ones were off by {bound}"


@final
@dataclass(frozen=True)
class Adoption(Displayed):
    """What `posenc.torch.adopt` replaced in a model, what it left, and why.

    Parameters
    ----------
    model : str
        The class of the model.
    replaced : tuple of Replacement
        Each module, for each type of layer that it answers for.
    left : tuple of str
        What was left as it was, and why.
    remarks : tuple of str
        What else there is to know.

    Examples
    --------
    >>> from posenc.torch import adopt
    """

    model: str
    _: KW_ONLY
    replaced: tuple[Replacement, ...]
    left: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.model}: {len(self.replaced)} replaced, {len(self.left)} left"]
        alike = grouped(((row.was, row.numbers), row) for row in self.replaced)
        for (was, numbers), rows in alike.items():
            more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            lines.append(f"  replaced  {rows[0].path}{more} ({was}), {numbers}")
            reach = rows[0].reach if rows[0].trained is None else None
            looked = ["as float32 has angles, the module:", *reach.lines()] if reach else ()
            lines += [f"            {line}" for line in looked]
        lines += [f"  left      {row}" for row in self.left]
        return "\n".join([*lines, *(f"  remark    {row}" for row in self.remarks)])


# --- computed rows --------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A tensor of rows and what the plan has in its place."""

    module: nn.Module
    name: str
    exact: torch.Tensor
    distance: Distance

    @property
    def same(self) -> bool:
        """Whether the rows are the exact ones, to the last bit of their dtype."""
        return self.distance.change == 0


class Kept(NamedTuple):
    """What stood in the place of rows that were put in."""

    old: torch.Tensor
    exact: torch.Tensor  # a copy of what was put in, which tells whether it is still there


def row_tensors(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """(path, module, name) of each tensor of a module that may be a table and is not trained."""
    for path, module in model.named_modules():
        for name, rows in {**module._buffers, **module._parameters}.items():
            if (
                # Of other types are those that are quantised or sharded.
                rows is not None and type(rows) in (torch.Tensor, nn.Parameter)
                and not rows.is_meta and rows.is_floating_point() and not rows.requires_grad
                and rows.ndim == 2 and rows.shape[0] >= FEWEST and rows.shape[1] > 1
            ):  # fmt: skip
                yield f"{path}.{name}".lstrip("."), module, name


def exact_rows(module: nn.Module, name: str, spec: Any, phase: str) -> Rows | None:
    """The exact rows of a spec in place of a tensor; None where it holds others."""
    now: torch.Tensor = getattr(module, name)
    stored = np.asarray(now.detach().to("cpu", torch.float64))
    # Tables in float64 are made of angles in float32.
    unit = max(ROUNDING[str(now.dtype).removeprefix("torch.")], ROUNDING["float32"])
    wanted = attempt(_rows, spec, stored, "exact", unit)
    kept = (
        wanted if phase == "exact" or wanted is None else attempt(_rows, spec, stored, phase, unit)
    )
    if wanted is None or kept is None:
        return None
    exact = torch.from_numpy(kept).to(now.device, now.dtype)
    off = (
        np.zeros(len(stored))
        if phase == "exact" and np.array_equal(np.asarray(exact.to("cpu", torch.float64)), stored)
        else np.abs(stored - wanted).max(axis=1)
    )
    return Rows(module, name, exact, Distance.of(np.arange(len(off)), off, len(off) - 1))


def _rows(spec: Any, stored: np.ndarray, phase: str, unit: float) -> np.ndarray | None:
    """The rows of a spec in the order of the columns that are stored."""
    chosen = spec if phase == "exact" else spec.replace(phase=phase)
    dtype = "float64" if phase == "exact" else "float32"
    if isinstance(spec, RotarySpec):
        if len(spec.axes) > 1 or spec.needs_length or stored.shape[1] != 2 * spec.pairs:
            return None
        places = torch.arange(len(stored))
        cos, sin = (np.asarray(t) for t in functional.cos_sin(chosen, places, dtype=dtype))
        # A channel of each pair, or those of cosines and of sines apart.
        orders = ((sin, cos), (cos, sin))
        candidates = [np.concatenate(parts, axis=1) for parts in orders]
        candidates += [np.stack(parts, axis=-1).reshape(len(stored), -1) for parts in orders]
    else:
        start = getattr(getattr(spec, "arrangement", None), "start", 0)
        if (
            spec.kind != "table" or spec.parameters() or stored.shape[1] != spec.dim
            or len(getattr(spec, "axes", ("p",))) > 1 or not isinstance(start, int)
        ):  # fmt: skip
            return None
        places = torch.arange(len(stored)) - start
        candidates = [np.asarray(functional.table(chosen, places, dtype=dtype))]
    room = ROOM * (np.arange(len(stored))[:, None] + 4)
    return next(
        (rows for rows in candidates if rows.shape == stored.shape
         and np.all(np.abs(rows - stored) <= room + 4 * unit)), None,
    )  # fmt: skip


def put_in(rows: Rows) -> None:
    """Put the exact rows in, and keep the old ones beside the module."""
    module, name = rows.module, rows.name
    if KEPT not in module.__dict__:
        module.__dict__[KEPT] = {}
        module.register_state_dict_post_hook(_saved)  # type: ignore[no-untyped-call]
        module.register_load_state_dict_pre_hook(_loaded)  # type: ignore[no-untyped-call]
    module.__dict__[KEPT][name] = Kept(getattr(module, name), rows.exact.clone())
    _set(module, name, rows.exact)


def has_rows(module: nn.Module) -> bool:
    """Whether rows of a module were replaced."""
    return KEPT in module.__dict__


def restore(module: nn.Module) -> None:
    """Put the old rows of a module back where the exact ones still stand."""
    for name, kept in module.__dict__.pop(KEPT, {}).items():
        now = getattr(module, name)
        if name in module._non_persistent_buffers_set or _stands(now, kept):
            # The very object, unless the model was moved or cast meanwhile.
            _set(module, name, kept.old.to(now.device, now.dtype))
    for hooks, hook in (
        (module._state_dict_hooks, _saved), (module._load_state_dict_pre_hooks, _loaded),
    ):  # fmt: skip
        for key, value in list(hooks.items()):
            if value is hook or getattr(value, "hook", None) is hook:
                del hooks[key]


def _set(module: nn.Module, name: str, rows: torch.Tensor) -> None:
    if name in module._parameters:
        module._parameters[name] = (
            rows if isinstance(rows, nn.Parameter) else nn.Parameter(rows, requires_grad=False)
        )
    else:
        module._buffers[name] = rows


def _stands(now: torch.Tensor, kept: Kept) -> bool:
    """Whether a tensor holds what was put in: no other rows were loaded, and it was not trained."""
    return now.is_meta or (
        now.shape == kept.old.shape and torch.equal(now, kept.exact.to(now.device, now.dtype))
    )


def _saved(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Rows that are saved are the old ones, as if nothing had been put in."""
    for name, kept in module.__dict__.get(KEPT, {}).items():
        if (now := state.get(prefix + name)) is not None and _stands(now, kept):
            state[prefix + name] = kept.old.detach().to(now.device, now.dtype)


def _loaded(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Where the old rows are loaded, the exact ones stay."""
    for name, kept in module.__dict__.get(KEPT, {}).items():
        rows: Any = state.get(prefix + name)
        if (
            rows is not None and not rows.is_meta and rows.shape == kept.old.shape
            and torch.equal(rows, kept.old.to(rows.device, rows.dtype))
        ):  # fmt: skip
            state[prefix + name] = kept.exact.to(rows.device, rows.dtype)

"""The model class of mlx-lm or mlx-vlm for a config, asked for the rotations that its layers use.

MLX computes what is asked for and nothing else: the model is built at its published size, and a run
of two tokens says which modules turn queries in which layer, without a number of its weights.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_data
from posenc._core.guard import foreign, offline
from posenc._core.numeric.arrangement import Arrangement
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import LAYER, Comparand, Implementation, digest_of
from posenc.detect.facts.folders import library, without_code
from posenc.detect.facts.model import facts
from posenc.detect.subject import refuse_if
from posenc.detect.subject.arrays import numbers
from posenc.detect.subject.calling import without_repeats

PACKAGES = ("mlx_lm", "mlx_vlm")  # in the order in which a class is looked for
TURNS = re.compile(r"(rope|rotary)(?!\w*attention)", re.IGNORECASE)  # in names of a module, a class
# Widths that heads follow from, and parts, are none that a stand-in could be for.
POSITIONAL = re.compile(
    r"rope|rotary|theta|head_dim|position|partial|^d_model$|^n_(heads?|embd)$|_config$",
    re.IGNORECASE,
)
# What stands for a number that a class requires, its config lacks, and no position depends on.
STAND_INS: dict[str, Any] = {"int": 2, "float": 1.0, "bool": False, "str": ""}
MISSING = re.compile(r"(\w+)\.__init__\(\) missing \d+ required positional arguments?: (.*)")
APART = re.compile(
    r"vision|audio|image|video|speech|talker|wav"
)  # in names of parts that no token reaches
COUNTED = 2**14  # tokens of a run in which one stands at its place


class RotationInUse(NamedTuple):
    """What turned queries in a run: where, by what, and how wide a head it was handed."""

    path: str
    layer: int | None  # None where it is called outside of the layers, for all of them
    function: Callable[..., Any]
    width: int
    tables: bool = False  # whether it gives cosines and sines
    apart: int = 0  # of how many axes each has a table of its own, of which a caller takes sections

    @property
    def place(self) -> str:
        """Its path without the number of the layer."""
        return re.sub(r"\d+", "*", self.path)

    def acts_in(self, part: Part, names: Sequence[str]) -> bool:
        """Whether it acts in the layers and the attention of a part, among the names of all."""
        inside, _, mine = part.name.partition(":")
        others = {own for name in names if (own := name.partition(":")[2])} - {mine}
        return (
            not APART.search(inside)
            and (self.layer is None or part.layers is None or self.layer in part.layers)
            and mine in self.path
            and not any(own in self.path for own in others)
        )


def of_mlx(
    config: Mapping[str, Any],
    name: str,
    packages: Sequence[str] = PACKAGES,
    *,
    caller: str = "diff",
) -> Comparand:
    """The class that mlx-lm, or else mlx-vlm, has for a config."""
    caller = f"{caller}: {name}"
    core = library("mlx.core", "which mlx-lm computes with", caller)
    if "model_type" not in config:
        todo = "Write engine:mlx=CONFIG."
        raise bad_data(caller, "a config with model_type, which names the class", "none", todo)
    for error in facts(config).plan.errors:  # a class would build layers without end
        refuse_if("more than any model has" in error, f"{caller}: {error}", DataError)
    with _building(caller):
        model, remarks = built(without_code(dict(config)), packages)
        turns = used(model, core)
    left = dict.fromkeys(turn.place for turn in turns)

    def answers(part: Part, names: Sequence[str]) -> list[Implementation]:
        codes: dict[Any, Implementation] = {}
        for turn in turns:
            if turn.acts_in(part, names):
                left.pop(turn.place, None)
                codes.setdefault(_settings(turn.function), _implementation(turn, core, part))
        refuse_if(not codes, "a run of tokens calls nothing there that is named after a rotation")
        return [*codes.values()]

    def turning(part: Part, names: Sequence[str]) -> list[str]:
        here = (t for t in turns if t.acts_in(part, names) and None not in (t.layer, part.layers))
        return [*dict.fromkeys(turn.place for turn in here)]

    def narrowed(part: Part) -> tuple[Part, str]:
        spec: Any = part.spec
        # Scores see no order of channels that queries and keys share.
        own = spec.replace(pairing=spec.channels.replace(output="same"))
        whole = any(turn.tables and not turn.apart for turn in turns)
        if len(spec.axes) == 1 or whole or not spec.arrangement.shared:
            return replace(part, spec=own), ""
        rungs = spec.arrangement.layout(spec.pairs).index
        line = Arrangement(rule="explicit", axis=(0,) * spec.pairs, index=rungs)
        why = "positions of several axes: it takes one for each token, as text has them"
        return replace(part, spec=own.replace(arrangement=line), positions=None), why

    return Comparand(
        name, whole=False, answers=answers, unasked=lambda: tuple(left),
        remarks=tuple(f"{name}: {remark}" for remark in remarks), turning=turning,
        narrowed=narrowed,
    )  # fmt: skip


@contextlib.contextmanager
def _building(caller: str) -> Iterator[None]:
    """Behind the guard, without connections or output; whatever a class raises is data."""
    with foreign(f"the building of {caller}", timed=False), offline():
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise bad_data(caller, "a class of MLX that is built and run", reason) from error


# --- models ---------------------------------------------------------------------------------------


def built(config: dict[str, Any], packages: Sequence[str]) -> tuple[Any, list[str]]:
    """A model of a config by the first package that has its class, and what is to be said of it."""
    errors: list[str] = []
    for package in packages:
        utils = library(f"{package}.utils", "whose class is asked", "diff")
        version = importlib.metadata.version(package)
        try:
            make = (_of_lm if package == "mlx_lm" else _of_vlm)(utils, config)
        except (ValueError, KeyError) as error:
            errors.append(str(error)[:100])
            continue
        model, stated = _with_stand_ins(make, config)
        home = f"{type(model).__module__}.{type(model).__name__}, {package} {version}"
        return model, [home, *stated]
    raise ValueError("; ".join(errors))


def _of_lm(utils: Any, config: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    model, arguments = utils._get_classes(config)
    return lambda data: model(arguments.from_dict(data))


def _of_vlm(utils: Any, config: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    home, _ = utils.get_model_and_args(config)

    def make(data: dict[str, Any]) -> Any:
        empty: dict[str, Any] = {f"{part}_config": {} for part in ("text", "vision", "audio")}
        data |= {key: part for key, part in empty.items() if data.get(key) is None}
        whole = home.ModelConfig.from_dict(data)
        parts = ["text", "vision", "perceiver", "projector", "audio"]
        return home.Model(utils.update_module_configs(whole, home, data, parts))

    return make


def _with_stand_ins(
    make: Callable[[dict[str, Any]], Any], config: dict[str, Any]
) -> tuple[Any, list[str]]:
    """A model; numbers that its class requires and the config lacks are made up if none turns."""
    made_up: dict[str, Any] = {}
    while True:
        text = config.get("text_config")
        more = {"text_config": {**made_up, **text}} if isinstance(text, dict) else {}
        try:
            model = make({**made_up, **config, **more})
            break
        except TypeError as error:
            match = MISSING.match(str(error))
            names = re.findall(r"'(\w+)'", match[2]) if match else []
            if not names or any(POSITIONAL.search(n) or n in made_up for n in names):
                raise
            frame: Any = inspect.trace()[-1].frame
            scope = {**vars(sys.modules[frame.f_globals["__name__"]])}
            kind: Any = frame.f_locals.get("cls") or scope[match[1]]  # type: ignore[index]
            hints = {n: str(getattr(t, "__name__", t)) for n, t in kind.__annotations__.items()}
            made_up |= {n: STAND_INS.get(hints.get(n, ""), STAND_INS["int"]) for n in names}
    says = f"it requires {', '.join(made_up)}, which the config lacks: stand-ins were taken"
    return model, [says] if made_up else []


# --- which of its modules turn queries ------------------------------------------------------------


def used(model: Any, core: Any) -> list[RotationInUse]:
    """What turns queries in a run of two tokens, each place once, in the order of the calls.

    A module counts where its name or class says so and it changes what it is handed; a call of
    MLX's own rotation outside of such a module counts as well.
    """
    paths = {id(module): path for path, module in model.named_modules()}
    stack: list[str] = []  # paths of the modules whose call has not ended
    inside: list[str] = []  # such ones among them
    turns: dict[Any, RotationInUse] = {}

    def tell(function: Any, arguments: Mapping[Any, Any], answer: Any) -> None:
        x: Any = next(iter(arguments.values()), None)
        tables = isinstance(answer, tuple)
        if hasattr(x, "ndim") and x.ndim > 2 and answer is not x:
            layers = [n for path in reversed(stack) for n in LAYER.findall(path)[-1:]]
            layer = int(layers[0]) if layers else None
            own_shape = (answer[0] if tables else x).shape
            several = tables and len(own_shape) > 3 and own_shape[0] > 1  # of a batch of one
            apart = own_shape[0] if several else 0
            turn = RotationInUse(stack[-1], layer, function, own_shape[-1], tables, apart)
            turns.setdefault((turn.path, layer, _settings(function)), turn)

    def watched(call: Callable[..., Any], module: Any, *args: Any, **more: Any) -> Any:
        stack.append(paths.get(id(module), ""))
        names = stack[-1].rpartition(".")[2], type(module).__name__
        turns_x = not inside and any(map(TURNS.search, names))
        inside.extend([stack[-1]] if turns_x else [])
        try:
            answer = call(module, *args, **more)
            if turns_x:
                tell(module, {**dict(enumerate(args)), **more}, answer)
        finally:
            stack.pop()
            del inside[len(inside) - turns_x :]
        return answer

    def rope(x: Any, *args: Any, offset: Any = 0, **more: Any) -> Any:
        answer = own(x, *args, offset=offset, **more)
        if not inside:
            tell(
                functools.partial(own, **dict(zip(["dims"], args, strict=False)), **more),
                {"x": x},
                answer,
            )
        return answer

    own, idle = core.fast.rope, lambda *_: None
    with contextlib.ExitStack() as after:
        kind: Any
        for kind in {type(module) for module in model.modules()}:
            call = kind.__call__
            after.callback(*(
                (setattr, kind, "__call__", call) if "__call__" in vars(kind)
                else (delattr, kind, "__call__")
            ))  # fmt: skip
            kind.__call__ = functools.partialmethod(functools.partial(watched, call))
        # What is asked for in between would compute weights at their published size.
        for place, name, stand_in in ((core.fast, "rope", rope), (core, "eval", idle),
                                      (core, "async_eval", idle)):  # fmt: skip
            after.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, stand_in)
        tokens = core.array([[0, 1]])
        try:
            getattr(model, "language_model", model)(tokens)
        except TypeError:  # it takes what the whole makes of tokens
            model(tokens)
    return [*turns.values()]


def _settings(function: Any) -> Any:
    """What tells modules apart that are called alike: their class, and all numbers they hold."""
    if isinstance(function, functools.partial):
        own, state = repr(function.args), function.keywords
    else:
        own, state = repr(type(function)), {**vars(function), **function}
    arrays = {
        key: digest_of(numbers(v))
        for key, v in state.items()
        if hasattr(v, "dtype") and hasattr(v, "ndim")
    }
    return own, repr(sorted(({k: repr(v) for k, v in state.items()} | arrays).items()))


# --- what they answer -----------------------------------------------------------------------------


def _implementation(turn: RotationInUse, core: Any, part: Part) -> Implementation:
    """It as code that is asked by the names of its methods."""
    method, answer = ("cos_sin", _tables) if turn.tables else ("rotate", _rotate)
    width = max(turn.width, getattr(part.spec, "dim", 0))  # of a narrower head less turns
    asked = {method: functools.partial(answer, core, turn), "head_dim": width}
    code = Implementation(SimpleNamespace(**asked), "mlx")
    code.name = turn.path
    return code


def _rotate(core: Any, turn: RotationInUse, x: Any, positions: Any) -> Any:
    """Queries (batch, heads, seq, channels) where they stand: a run, or each token as a row."""
    places = np.asarray(positions)
    first = int(places[0]) if len(places) else 0
    if np.array_equal(places, first + np.arange(len(places))):
        return turn.function(x, offset=first)
    rows = x.transpose(2, 0, 1, 3)
    flat = rows.reshape(len(places), -1, 1, x.shape[-1])
    try:
        out = turn.function(flat, offset=positions.astype(core.int32))
        out = out.reshape(rows.shape).transpose(1, 2, 0, 3)
        least = int(places.argmin())
        alone = turn.function(x[:, :, least : least + 1], offset=int(places[least]))
        alike = bool(core.allclose(out[:, :, least : least + 1], alone, atol=1e-5))
    except (TypeError, ValueError):
        alike = False
    # Of several offsets it may take one, the largest, for all rows.
    return out if alike else _in_place(core, turn, x, places)


def _in_place(core: Any, turn: RotationInUse, x: Any, places: np.ndarray) -> Any:
    """Tokens at their places in a run from 0 on, one for each time that a position comes."""
    end = int(places.max()) + 1
    refuse_if(end > COUNTED, f"{turn.path} takes a run of tokens, and {end:,} are too many")
    out = core.zeros_like(x)
    for tokens in without_repeats(places):
        of, at = core.array(tokens), core.array(places[tokens])
        run = core.zeros((*x.shape[:2], end, x.shape[3]), x.dtype)
        run[:, :, at] = x[:, :, of]
        out[:, :, of] = turn.function(run, offset=0)[:, :, at]
    return out


def _tables(core: Any, turn: RotationInUse, positions: Any) -> Any:
    """Cosines and sines of positions (seq,) or (seq, axes)."""
    ids = positions[None] if positions.ndim == 1 else positions.T[:, None]
    ids = core.broadcast_to(ids, (turn.apart, *ids.shape)) if turn.apart else ids
    cos, sin = turn.function(core.zeros((1, 1, len(positions), turn.width)), ids)
    return (cos[0], sin[0]) if turn.apart else (cos, sin)

"""A view of a config that remembers which keys were read, and how configs spell one quantity."""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from posenc._core import expressions
from posenc._core.errors import DataError, PosencError, bad_argument, suggest
from posenc._core.reading import Level, Note, Origin, Reading, Source

# Of several spellings of one quantity the first that is there counts.

# --- the base -------------------------------------------------------------------------------------

BASES = (
    "rope_theta",
    "global_rope_theta",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rotary_base",
    "rope_base",
    "rope_freq_base",
    "theta",
)
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta", "rope_local_theta")
LISTED = "layer_rope_theta"  # of each layer, 0 where it does not turn; a class may read that alone
THETA_KEYS = ("rope_theta", "theta", "base")  # in a dictionary of rotary parameters
DICTIONARIES = ("rope_scaling", "rope_parameters")

# --- widths ---------------------------------------------------------------------------------------

SHARE = "partial_rotary_factor"
FRACTIONS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rotary_percent",
    "rotary_percentage",
    "rotary_emb_fraction",
    "rope_percentage",
)
ABSOLUTE = ("rotary_dim", "rotary_ndims", "rope_dim", "rotary_emb_dim")
WIDTHS = (
    "head_dim",
    "kv_channels",
    "hidden_size // num_attention_heads",
    "n_embd // n_head",
    "d_model // n_heads",
    "d_model // num_heads",
    "d_model // num_attention_heads",
    "embed_dim // num_heads",
    "embed_dim // num_attention_heads",
    "hidden_size // num_heads",
    "hidden_size // n_heads",
    "hidden_size // n_head",
    "n_embed // n_head",
    "dim // n_heads",
    "dim // num_heads",
)
HEAD_COUNTS = ("num_attention_heads", "n_head", "n_heads", "num_heads")

# --- lengths and magnitudes -----------------------------------------------------------------------

TRAINED = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_seq_length",
    "max_sequence_length",
    "n_ctx",
    "seq_length",
    "model_max_length",
)
# Of other kinds than a rotation.
LENGTHS = ("max_source_positions", "max_text_positions", "max_speech_positions")
ORIGINAL_KEYS = ("original_max_position_embeddings",)
ATTENTION_KEYS = ("attention_factor", "attn_factor")

# --- layers and parts -----------------------------------------------------------------------------

COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "depth")
TYPE_KEYS = ("layer_types", "layers_block_type")
LOCAL, GLOBAL = "sliding_attention", "full_attention"
# Layers that mix tokens without attention: no queries, no keys, no positions.
OTHER = frozenset(
    {
        "linear_attention",
        "mamba",
        "mamba2",
        "conv",
        "conv_mixer",
        "recurrent",
        "moe",
        "mlp",
        "ssm",
        "gated_delta_net",
    }
)
PATTERN_KEYS = ("sliding_window_pattern", "_sliding_window_pattern")
# Layers behind the counted ones, which predict further tokens.
MORE_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
# Sub-configs of the text, which may leave out their name, as the model's own says it.
MAIN_PARTS = ("text_config", "language_config", "llm_config")


P = ParamSpec("P")
R = TypeVar("R")

NAMES = re.compile(r"[A-Za-z_]\w*")
WIDEST = 65_536  # of whatever has constants to compute: a width, a number of heads

LONGEST_WORD = 32


class Keys:
    """A dictionary of a config, and the keys of it that were read."""

    # Sizes that its class takes where nothing else says them.
    sizes: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, data: Mapping[str, Any], path: str = "", defaults: Mapping[str, Any] | None = None
    ) -> None:
        self.data = data
        self.path = path
        self.defaults: Mapping[str, Any] = {} if defaults is None else defaults
        self.read: set[str] = set()
        self.defaulted: dict[str, Any] = {}
        self.hidden: dict[str, Any] = {}

    def without(self, names: Iterable[str], of_class: Iterable[str] = ()) -> Keys:
        """The same config, in which some keys are `hidden`; what is read of it is read of both.

        Those `of_class` are not what its class takes either, where it leaves them out.
        """
        names = {*names}  # in the order of the file
        hidden = {key: value for key, value in self.data.items() if key in names}
        defaults = {key: self.defaults[key] for key in self.defaults.keys() - {*of_class}}
        if not hidden and len(defaults) == len(self.defaults):
            return self
        shown = {key: value for key, value in self.data.items() if key not in hidden}
        view = Keys(shown, self.path, defaults)
        view.sizes, view.read, view.defaulted = self.sizes, self.read, self.defaulted
        view.hidden = {**self.hidden, **hidden}
        self.read.update(hidden)
        return view

    def __contains__(self, key: str) -> bool:
        return self.data.get(key, self.defaults.get(key)) is not None

    def get(self, key: str) -> Any:
        """The value of a key, or what the class takes for it; None where it is null or neither."""
        if key in self.data:
            self.read.add(key)
            return self.data[key]
        if key in self.defaults:
            self.defaulted[key] = self.defaults[key]
        return self.defaults.get(key)

    def misspelled(self, key: str) -> str | None:
        """A key that is there, was not read, and has a letter or two of this one otherwise."""
        words = key.split("_")
        for other in self.data:
            theirs = other.split("_") if isinstance(other, str) and other not in self.read else []
            pairs = [pair for pair in zip(words, theirs, strict=False) if pair[0] != pair[1]]
            if len(theirs) == len(words) and len(pairs) == 1 and _alike(*pairs[0]):
                return str(other)
        return None

    def origin(self, expression: str) -> Origin:
        """Whether the keys of an expression were stated, or one of them is the class's."""
        words = NAMES.findall(expression)
        stated: Origin = "class" if any(word in self.defaulted for word in words) else "config"
        return stated if words else "preset"

    def number(self, key: str) -> float | None:
        """The value of a key if it is a finite number."""
        return _finite(self.get(key))

    def integer(self, key: str) -> int | None:
        """The value of a key if it is a whole number."""
        value = self.number(key)
        return None if value is None or value != int(value) else int(value)

    def first(self, keys: Iterable[str]) -> tuple[str, float] | None:
        """The first of some keys that holds a number."""
        return next(((key, value) for key in keys if (value := self.number(key)) is not None), None)

    def wrong(self, keys: Iterable[str]) -> str | None:
        """The first of some keys that is stated, but not as a number: `key=value`."""
        return next(
            (
                f"{self.where(key)}={repr(value)[:80]}"
                for key in keys
                if (value := self.get(key)) is not None and not is_number(value)
            ),
            None,
        )

    def evaluate(self, expression: str, stage: int | None = None) -> float | None:
        """A number from an expression in keys: `hidden_size // num_attention_heads`.

        `window_size[0]` is an item of a list, or the number where a number stands for all of its
        items; `text_config.hidden_size` is a key of a part, `widths.length` the length of a list;
        `i` is the number of the stage. None where a key is absent, or a division by zero or an
        overflow leaves no number.
        """
        names = {} if stage is None else {"i": stage}
        with contextlib.suppress(LookupError, ArithmeticError):
            return _finite(self._value(expressions.parsed(expression), names))
        return None

    def stated(self, expression: str, stage: int | None = None) -> float | None:
        """The same from what the config states alone, without what its class takes for the rest."""
        return self.without((), self.defaults).evaluate(expression, stage)

    def _value(self, node: ast.expr, names: Mapping[str, int]) -> Any:
        def item(place: ast.expr) -> Any:
            if isinstance(place, ast.Name) and place.id in names:
                return names[place.id]
            if (value := _finite(self._item(place, names))) is None:
                raise LookupError(ast.unparse(place))
            return value

        return expressions.evaluate(node, item)

    def _item(self, node: ast.expr, names: Mapping[str, int]) -> Any:
        """What a key, an item of a list or a key of a part holds."""
        if isinstance(node, ast.Name):
            return self.get(node.id)
        if isinstance(node, ast.Attribute):
            part = self._item(node.value, names)
            if isinstance(part, (list, tuple)) and node.attr == "length":
                return len(part)
            return part.get(node.attr) if isinstance(part, Mapping) else None
        if isinstance(node, ast.Subscript):
            value = self._item(node.value, names)
            listed = isinstance(value, (list, tuple))
            return value[int(self._value(node.slice, names))] if listed else value
        raise ValueError(f"{ast.unparse(node)!r} is no key of a preset")

    def where(self, key: str) -> str:
        """The path of a key, for people."""
        return f"{self.path}.{key}" if self.path else key


def _alike(word: str, other: str) -> bool:
    """Whether one word may be the other, misspelled."""
    longest = max(len(word), len(other))
    ratio = difflib.SequenceMatcher(None, word, other).ratio() if longest <= LONGEST_WORD else 0
    return word[:1] == other[:1] and min(len(word), len(other)) > 3 and ratio >= 0.8


def _finite(value: Any) -> Any:
    """A value if it is a number that a float can hold; no truth value is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def is_length(value: Any) -> bool:
    """Whether a value may be a number of positions; nothing, and 0, state none."""
    return value is None or (is_number(value) and 0 <= value < 2**53)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    return _finite(value) is not None


# Words of warnings that leave something of the model out of the plan.
OPEN = ("unknown, because", "read in part, because", "was not read")


def is_open(note: Note) -> bool:
    """Whether a note says that the plan does not hold all that the config says."""
    return note.level == "warning" and any(words in note.text for words in OPEN)


class UnsettledError(Exception):
    """What the config does not settle, or contradicts; its text is for people."""


def unsettled_if(bad: object, says: str) -> None:
    """Raise `UnsettledError` in these words where something is so."""
    if bad:
        raise UnsettledError(says)


class Notes:
    """Notes on one entry of a plan, or on all of it; at the end of a list, if that is given."""

    def __init__(self, layer: str = "", notes: list[Note] | None = None) -> None:
        self.layer = layer
        self.notes: list[Note] = [] if notes is None else notes
        self.sources: list[Source] = []
        self.failed = False  # whether an entry cannot be made

    def _add(self, level: Level, text: str) -> None:
        if (note := Note(level, text, layer=self.layer)) not in self.notes:
            self.notes.append(note)

    def error(self, text: str) -> None:
        """Something undecided that changes numbers, and without which there is no entry."""
        self.failed = True
        self._add("error", text)

    def contradiction(self, text: str) -> None:
        """Something that cannot be meant so; the entry is what models compute of it."""
        self._add("error", text)

    def warning(self, text: str) -> None:
        """Something a reader should know."""
        self._add("warning", text)

    def remark(self, text: str) -> None:
        """Something that helps to understand."""
        self._add("remark", text)

    def source(self, field: str, origin: Origin, where: str) -> None:
        """Where a field comes from."""
        self.sources.append(Source(field, origin=origin, where=where))


PAIRINGS = ("half", "interleaved")


def settled(plan: Reading, caller: str, on_error: str) -> Reading:
    """A plan without errors, or as it is where these are reported."""
    if plan.errors and on_error == "raise":
        errors = "; ".join(plan.errors)
        end = "" if errors.endswith("?") else "."
        raise DataError(f'{caller}: {errors}{end} on_error="report" returns what could be read.')
    return plan


def check_name(caller: str, value: Any, choices: tuple[str, ...], *, optional: bool = True) -> None:
    """Raise `ArgumentError` unless a value is one of some names, or None where it may be absent."""
    if value not in choices and (value is not None or not optional):
        raise bad_argument(caller, "one of its names", repr(value), suggest(value, choices))


def check_base(caller: str, base: object) -> None:
    """Raise `ArgumentError` for a base that is no positive number."""
    number = isinstance(base, (int, float)) and not isinstance(base, bool)
    if base is not None and not (number and base > 0):  # type: ignore[operator]
        raise bad_argument(f"{caller}: base", "a positive number", repr(base))


def noted(read: Callable[P, R]) -> Callable[P, R | None]:
    """A reader of one thing: what it cannot settle is an error in its notes, and gives None."""

    @functools.wraps(read)
    def settled(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return read(*args, **kwargs)
        except (UnsettledError, PosencError) as error:
            notes = next(one for one in (*args, *kwargs.values()) if isinstance(one, Notes))
            notes.error(str(error))
            return None

    return settled

"""What a trace has seen: of each attention what ran, and what is not as expected."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Literal, final

import numpy as np

from posenc._core.errors import bad_data, refuse, refuse_data
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec
from posenc.detect.contract.checks import records
from posenc.detect.contract.comparison.fields import words
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.subject.reach import listed

TensorName = Literal["query", "key", "value", "output", "scores", "mask"]
UNTURNED = "not turned"
SHOWN = 6  # numbers of heads, pairs or tokens that a sentence lists


@final
@dataclass(frozen=True)
class LayerFinding(Displayed):
    """One thing that a layer does otherwise than expected.

    Parameters
    ----------
    layer : int
        The number of the attention in `Trace.layers`.
    tensor : str
        `query`, `key`, `value`, `output`, `scores` or `mask`.
    heads : tuple of int
        The heads that do; () for all.
    pairs : tuple of int
        The pairs of channels; () for all.
    tokens : tuple of int
        The tokens of the sequence; () for all.
    field : str
        In the words of `posenc.diff`: `kind`, `base`, `dim`, `heads`, `pairing.order`, `scaling`,
        `frequencies`, `positions`, `dtype`, `scale`, `window`, `mask`, `bias`.
    expected, found : str
        What it is on both sides.

    Examples
    --------
    >>> from posenc.torch import LayerFinding
    >>> print(LayerFinding(2, "key", field="base", expected="10000", found="500000"))
    layer 2, key: base: expected 10000, found 500000
    """

    layer: int
    tensor: TensorName
    heads: tuple[int, ...] = ()
    pairs: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    _: KW_ONLY
    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        rows = [("heads", self.heads), ("pairs", self.pairs), ("tokens", self.tokens)]
        parts = [f"{name[:-1] if len(numbers) == 1 else name} {_listed(numbers)}"
                 for name, numbers in rows if numbers]  # fmt: skip
        place = ", ".join((f"layer {self.layer}", self.tensor, *parts))
        return f"{place}: {self.field}: expected {self.expected}, found {self.found}"


@final
@dataclass(frozen=True, eq=False)
class TracedTensor(Displayed):
    """What queries, keys, values or the output of one attention went through.

    Parameters
    ----------
    spec : Spec, optional
        The rotation that ran; None where nothing turned, or no spec says how.
    positions : numpy.ndarray, optional
        The position of each row and token, (sequences, tokens) or (sequences, tokens, axes).
    pairs : int
        How many pairs of channels turn.
    passing : int
        How many channels pass.
    factor : float
        What the turned pairs are multiplied by.
    heads : tuple of int
        The heads that do otherwise than the others.
    dtype : str
        That of the numbers.
    why : str
        What it is, where no spec says; and what was not seen, and why.

    Examples
    --------
    >>> import posenc, torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2, vocab_size=32)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> trace = posenc.torch.trace(model, torch.arange(12)[None])
    >>> trace.layers[0].query.pairs, trace.layers[0].value.pairs
    (8, 0)
    """

    spec: Spec | None = None
    _: KW_ONLY
    positions: np.ndarray | None = None
    pairs: int = 0
    passing: int = 0
    factor: float = 1.0
    heads: tuple[int, ...] = ()
    dtype: str = ""
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON types."""
        return {
            "spec": None if self.spec is None else self.spec.to_dict(),
            "positions": None if self.positions is None else self.positions.tolist(),
            "pairs": self.pairs, "passing": self.passing, "factor": self.factor,
            "heads": list(self.heads), "dtype": self.dtype, "why": self.why,
        }  # fmt: skip

    def __str__(self) -> str:
        if self.spec is None:
            return self.why or UNTURNED
        return words(self.spec) + (f" ({self.why})" if self.why else "")


@final
@dataclass(frozen=True, eq=False)
class TracedLayer(Displayed):
    """One attention that ran.

    Parameters
    ----------
    index : int
        Its number among those that ran.
    path : str
        The module that called it, for people: nothing rests on the name.
    call : int
        The run of the model, from 0.
    query, key, value, output : TracedTensor
        What each went through.
    scale : float, optional
        What products of queries and keys are multiplied by.
    bias : str
        What is added to the scores, in words; empty for nothing.
    window : int, optional
        Keys are seen that are less than so far from the query; None for all.
    mask : str
        `causal`, `all`, or what else is seen.
    heads : int
        The number of heads.
    tokens : int
        The number of queries of a sequence; 0 where dumps do not say.

    Examples
    --------
    >>> import posenc, torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2, vocab_size=32)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> trace = posenc.torch.trace(model, torch.arange(12)[None])
    >>> trace.layers[1].mask, trace.layers[1].scale
    ('causal', 0.25)
    """

    index: int
    path: str
    call: int
    _: KW_ONLY
    query: TracedTensor
    key: TracedTensor
    value: TracedTensor
    output: TracedTensor
    scale: float | None = None
    bias: str = ""
    window: int | None = None
    mask: str = ""
    heads: int = 0
    tokens: int = 0

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON types."""
        tensors = {n: getattr(self, n).to_dict() for n in ("query", "key", "value", "output")}
        names = ("index", "path", "call", "scale", "bias", "window", "mask", "heads", "tokens")
        return {**{name: getattr(self, name) for name in names}, **tensors}

    def __str__(self) -> str:
        same = str(self.query) == str(self.key)
        turned = f"query and key: {self.query}" if same else f"query: {self.query}; key: {self.key}"
        window = "" if self.window is None else f", window {self.window}"
        place = f" ({self.path})" if self.path else ""
        bias = f"; bias: {self.bias}" if self.bias else ""
        return f"layer {self.index}{place}: {turned}; mask: {self.mask}{window}{bias}"


@final
@dataclass(frozen=True, eq=False)
class Trace(Displayed):
    """Every attention of a run, and what is not as expected.

    Parameters
    ----------
    layers : tuple of TracedLayer
        One for each attention that ran, in the order in which they ran.
    findings : tuple of Finding
        What is not as expected; the first layer first.
    expected : str
        What it was held against.
    unseen : tuple of str
        What was not seen, and why: no agreement is claimed of it.
    remarks : tuple of str
        What differs and changes no score.

    Raises
    ------
    DataError
        By `bool(…)`, which tells whether there are findings, where nothing was compared.

    Examples
    --------
    >>> import posenc, torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2, vocab_size=32)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> trace = posenc.torch.trace(model, torch.arange(12)[None])
    >>> trace.verdict, trace.first, len(trace.layers)
    ('agrees', None, 2)
    """

    layers: tuple[TracedLayer, ...]
    findings: tuple[LayerFinding, ...] = ()
    _: KW_ONLY
    expected: str = ""
    unseen: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def first(self) -> LayerFinding | None:
        """The first finding, or None."""
        return self.findings[0] if self.findings else None

    @property
    def verdict(self) -> Literal["agrees", "differs", "not compared"]:
        """`differs`; `agrees`, in all that was seen; or `not compared`."""
        if self.findings:
            return "differs"
        return "agrees" if self.expected and not self.unseen else "not compared"

    @property
    def exit_code(self) -> int:
        """0 where all layers agree, 1 for a finding, 3 where something could not be compared."""
        return {"agrees": 0, "differs": 1, "not compared": 3}[self.verdict]

    def __bool__(self) -> bool:
        if self.verdict == "not compared":
            reasons = "; ".join(self.unseen[:4]) or "nothing was expected"
            raise bad_data("trace", "each layer compared", f"some that were not: {reasons}")
        return bool(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON types."""
        return {
            "verdict": self.verdict,
            "expected": self.expected,
            "findings": [vars(finding) for finding in self.findings],
            "layers": [layer.to_dict() for layer in self.layers],
            "unseen": list(self.unseen),
            "remarks": list(self.remarks),
        }

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        existing: Literal["refuse", "replace"] = "refuse",
    ) -> tuple[str, ...]:
        """Write what ran as a contract, which a trace of another program is held against.

        Parameters
        ----------
        path : path
            Where to: `.json` or `.safetensors`.
        existing : {"refuse", "replace"}
            What happens to a file that exists.

        Returns
        -------
        tuple of str
            The names of the files.

        Raises
        ------
        DataError
            If there are findings, or queries and keys of a layer do not turn alike, as a spec says.
        FileExistsError
            If a file exists that is not to be replaced.
        """
        refuse_data(
            bool(self.findings), "trace", "a model that computes what is expected", str(self.first),
            "Say what the model is: expected=.",
        )  # fmt: skip
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for layer in (one for one in self.layers if one.call == self.layers[0].call):
            refuse_data(
                layer.query.spec != layer.key.spec or any(
                    t.spec is None and (t.pairs or t.why not in ("", UNTURNED))
                    for t in (layer.query, layer.key)
                ),
                f"layer {layer.index}", "queries and keys that turn alike, as a spec says",
                f"{layer.query} and {layer.key}",
            )  # fmt: skip
            kinds.setdefault(
                (layer.query.spec, layer.window, bool(layer.mask), layer.scale, bool(layer.bias)),
                [],
            ).append(layer.index)
        parts = tuple(
            Part(
                f"attention#{number}" if len(kinds) > 1 else "attention",
                kind="none" if spec is None else spec.kind, spec=spec, layers=tuple(own),
                window=window, whole=seen and window is None, scale=scale or None,
                left_out=("the bias on its scores, which is no spec",) * biased,
            )
            for number, ((spec, window, seen, scale, biased), own) in enumerate(kinds.items())
        )  # fmt: skip
        return Contract("", *records(parts), settled="a run of it, as it was traced").save(
            path, existing=existing
        )

    def _reach(self) -> str:
        """On how many tokens, and at which positions, as far as something turned there."""
        places = [own for layer in self.layers if (own := layer.query.positions) is not None]
        if places and all(own.ndim == 2 for own in places):
            return f" on {listed(np.unique(np.concatenate([*map(np.ravel, places)])).tolist())}"
        count = max((layer.tokens for layer in self.layers), default=0)
        cells = (own.reshape(-1, own.shape[-1]) for own in places if own.ndim == 3)
        last = max((tuple(own.max(axis=0).tolist()) for own in cells), default=())
        axes = f" at positions of {len(last)} axes, to {last}" if last else ""
        return f" on {count:,} token{'s' * (count != 1)}{axes}" if count else ""

    def __str__(self) -> str:
        against = f", held against {self.expected}" if self.expected else ""
        runs = [
            (text, [layer.index for layer in own])
            for text, own in itertools.groupby(self.layers, lambda one: str(one).partition(": ")[2])
        ]
        ran = f"{len(self.layers)} attention{'s' * (len(self.layers) != 1)} ran"
        return "\n".join((
            f"{self.verdict}: {ran}{self._reach()}{against}",
            *map(str, self.findings),
            *(f"not seen: {line}" for line in self.unseen),
            *(f"remark: {line}" for line in self.remarks),
            "",
            *(f"layers {own[0]}–{own[-1]}, as they ran: {text}" if len(own) > 1
              else f"layer {own[0]}, as it ran: {text}"
              for text, own in runs),
        ))  # fmt: skip


def numbered(layers: Iterable[int] | None) -> list[int] | None:
    """The numbers of layers that are looked at, in their order; None for all."""
    if layers is None:
        return None
    own = [*layers] if isinstance(layers, Iterable) and not isinstance(layers, (str, bytes)) else []
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) and n >= 0 for n in own)
    refuse((not own or not whole, "trace: layers", "numbers of layers from 0, at least one",
            repr(layers)))  # fmt: skip
    return sorted({*map(int, own)})


def _listed(numbers: tuple[int, ...]) -> str:
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    more = f", … ({len(numbers)})" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN])) + more

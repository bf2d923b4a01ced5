"""What a trace has seen: of each attention what ran, and what is not as expected."""

from __future__ import annotations

import json
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.errors import bad_data, refuse_data
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec, to_json
from posenc.detect.contract.checks import records
from posenc.detect.contract.comparison.fields import words
from posenc.detect.contract.contract import Contract, Part

TensorName = Literal["query", "key", "value", "output", "scores", "mask"]
SHOWN = 6  # numbers of heads, pairs or tokens that a sentence lists
EXIT_CODES = {"agrees": 0, "differs": 1, "not compared": 3}


@final
@dataclass(frozen=True)
class Finding(Displayed):
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
    >>> from posenc.torch import Finding
    >>> print(Finding(2, "key", field="base", expected="10000", found="500000"))
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
        parts = [f"layer {self.layer}, {self.tensor}"]
        for name in ("heads", "pairs", "tokens"):
            numbers = getattr(self, name)
            if numbers:
                one = name[:-1] if len(numbers) == 1 else name
                parts.append(f"{one} {_listed(numbers)}")
        return f"{', '.join(parts)}: {self.field}: expected {self.expected}, found {self.found}"


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
            "spec": None if self.spec is None else json.loads(to_json(self.spec)),
            "positions": None if self.positions is None else self.positions.tolist(),
            "pairs": self.pairs, "passing": self.passing, "factor": self.factor,
            "heads": list(self.heads), "dtype": self.dtype, "why": self.why,
        }  # fmt: skip

    def __str__(self) -> str:
        if self.spec is None:
            return self.why or "not turned"
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

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON types."""
        tensors = {n: getattr(self, n).to_dict() for n in ("query", "key", "value", "output")}
        names = ("index", "path", "call", "scale", "bias", "window", "mask", "heads")
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
    """

    layers: tuple[TracedLayer, ...]
    findings: tuple[Finding, ...] = ()
    _: KW_ONLY
    expected: str = ""
    unseen: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def first(self) -> Finding | None:
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
        return EXIT_CODES[self.verdict]

    def __bool__(self) -> bool:
        if self.verdict == "not compared":
            reasons = "; ".join(self.unseen[:4]) or "nothing was expected"
            raise bad_data(
                "trace", "layers that were all compared", f"some that were not: {reasons}"
            )
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
        todo = "Say what the model is: expected=."
        refuse_data(bool(self.findings), "trace", "a run as expected", str(self.first), todo)
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for layer in (one for one in self.layers if one.call == self.layers[0].call):
            refuse_data(
                layer.query.spec != layer.key.spec or any(
                    t.spec is None and (t.pairs or t.why not in ("", "not turned"))
                    for t in (layer.query, layer.key)
                ),
                f"layer {layer.index}", "queries and keys that turn alike, as a spec says",
                f"{layer.query} and {layer.key}",
            )  # fmt: skip
            kind = (layer.query.spec, layer.window, bool(layer.mask), layer.scale, bool(layer.bias))
            kinds.setdefault(kind, []).append(layer.index)
        parts = tuple(
            Part(
                f"attention#{number}" if len(kinds) > 1 else "attention",
                kind="none" if spec is None else spec.kind, spec=spec, layers=tuple(own),
                window=window, whole=seen and window is None, scale=scale or None,
                left_out=("the bias on its scores, which is no spec",) * biased,
            )
            for number, ((spec, window, seen, scale, biased), own) in enumerate(kinds.items())
        )  # fmt: skip
        about = "a run of it, as it was traced"
        return Contract("", *records(parts), settled=about).save(path, existing=existing)

    def __str__(self) -> str:
        count = f"{len(self.layers)} attentions ran"
        held = f", held against {self.expected}" if self.expected else ""
        lines = [f"{self.verdict}: {count}{held}"]
        lines += map(str, self.findings)
        lines += [f"not seen: {line}" for line in self.unseen]
        lines += [f"remark: {line}" for line in self.remarks]
        return "\n".join([*lines, "", *_rolled(self.layers)])


def _rolled(layers: tuple[TracedLayer, ...]) -> list[str]:
    """A line for each run of layers that are alike."""
    lines: list[tuple[str, list[int]]] = []
    for layer in layers:
        text = str(layer).partition(": ")[2]
        if lines and lines[-1][0] == text:
            lines[-1][1].append(layer.index)
        else:
            lines.append((text, [layer.index]))
    return [
        f"layers {own[0]}–{own[-1]}, as they ran: {text}"
        if len(own) > 1
        else f"layer {own[0]}, as it ran: {text}"
        for text, own in lines
    ]


def _listed(numbers: tuple[int, ...]) -> str:
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    more = f", … ({len(numbers)})" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN])) + more

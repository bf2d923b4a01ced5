"""`posenc.torch.trace`: what each attention of a model does to its queries and keys."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from posenc._core.calls import checked_call
from posenc._core.errors import bad_data, refuse, refuse_data
from posenc._core.guard import foreign
from posenc.detect.trace.expected import (
    Expectations,
    Expected,
    ExpectedPlaces,
    expectations,
    places_of,
)
from posenc.detect.trace.findings import Judgement, Seen, compare_layers, grid, judge
from posenc.detect.trace.recorder import RecordedAttention, Recorder
from posenc.detect.trace.result import Trace, numbered
from posenc.detect.trace.scores import scores_of
from posenc.detect.trace.state import kept, without_graphs
from posenc.detect.trace.turned import find_outputs, mixes, output_turned, turned

# Cuts that are followed to tell whether queries and keys are of one sequence. Six lead from a
# decoder to its encoder, through the attention before.
ANCESTORS = 5


@checked_call
def trace(
    model: Any,
    inputs: Any,
    *,
    expected: Any = None,
    positions: Any = None,
    layers: Iterable[int] | None = None,
) -> Trace:
    """See what each attention of a model does to its queries, keys, values, output and scores.

        q' = M q,   M = d q' / d q  where q leaves the last product with a weight

    The model runs once. The autograd graph of that run is the record: between a product with a
    weight and the product of queries and keys everything is linear, so gradients of ones are the
    matrix that each token and head went through, exactly, in whatever dtype. No name of a module is
    known, and none of its buffers is read.

    Parameters
    ----------
    model : torch.nn.Module or callable
        The model: loaded or hand-written.
    inputs : Tensor or mapping
        What it is called with: a tensor, or keywords.
    expected : object, optional
        What it is held against: a config (mapping, object or path), a `Reading`, `Plan`, `Spec` or
        `Facts`, another `Trace`; by default `model.config`, where there is one.
    positions : array, optional
        The positions of the tokens, (tokens,), (sequences, tokens) or with axes; by default the
        `position_ids` of the inputs, or 0, 1, 2, …
    layers : iterable of int, optional
        Numbers of the attentions that are looked at; by default all that run.

    Returns
    -------
    Trace
        `layers`, `findings`, `first`, and what was not seen.

    Raises
    ------
    ArgumentError
        If the inputs or what is expected cannot be used.
    DataError
        If the model does not run, or no attention of it was seen.

    Notes
    -----
    The model is left bit for bit as it was: buffers, caches inside it, hooks, what asks for
    gradients, random states; a cache handed over grows by this one run.

    Examples
    --------
    >>> import posenc, torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2, vocab_size=32)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> trace = posenc.torch.trace(model, torch.arange(12)[None])
    >>> trace.verdict, trace.layers[1].query.spec
    ('agrees', RoPE(16, pairing='half'))
    """
    return traced(model, inputs, expected, positions, layers)


def traced(
    model: Any, inputs: Any, expected: Any = None, positions: Any = None,
    layers: Iterable[int] | None = None, built: Sequence[int] | None = None,
) -> Trace:  # fmt: skip
    """`trace`, of a model of which these layers alone may have been built."""
    refuse((not callable(model), "trace: model", "a module or function", repr(model)))
    against, chosen = expectations(expected, model), numbered(layers)
    with _recording(model) as recorder:
        called = _original(model)
        try:
            with foreign("the model"):
                called(**inputs) if isinstance(inputs, Mapping) else called(inputs)
        except Exception as error:
            raise bad_data(
                "trace", "a model that runs with these inputs",
                f"{type(error).__name__}: {str(error)[:200].rstrip('.')}",
                "Set its attention to sdpa or eager." * ("FlexAttention" in str(error)),
            ) from error  # fmt: skip
    if not recorder.calls:
        recorder.calls.append(dict(inputs) if isinstance(inputs, Mapping) else {"": (inputs,)})
    return _read(recorder, against, positions, chosen, built)


class Tracing:
    """What `posenc.torch.tracing` is entered as; it has the fields of `Trace` at its end."""

    result: Trace | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse_data(
            self.result is None, "tracing", "the end of the block", f"{name} inside it",
            "Read it after the `with` block.",
        )  # fmt: skip
        return getattr(self.result, name)

    def __str__(self) -> str:
        return "tracing: it runs" if self.result is None else str(self.result)


@contextlib.contextmanager
@checked_call
def tracing(
    model: Any,
    *,
    expected: Any = None,
    positions: Any = None,
    layers: Iterable[int] | None = None,
) -> Iterator[Tracing]:
    """See what attentions do while a block runs: pipelines, several calls, a prefill and steps.

    Parameters
    ----------
    model : torch.nn.Module
        The model whose attentions are meant.
    expected, positions, layers : object
        As of `posenc.torch.trace`.

    Yields
    ------
    Tracing
        After the block it has the fields of `Trace`.

    Raises
    ------
    DataError
        If no attention was seen, or something is read inside the block.

    Examples
    --------
    >>> import posenc, torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=1, vocab_size=32)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> with posenc.torch.tracing(model) as trace:
    ...     _ = model.generate(torch.arange(6)[None], min_new_tokens=2, max_new_tokens=2)
    >>> trace.verdict, len(trace.layers)
    ('agrees', 2)
    """
    against, chosen = expectations(expected, model), numbered(layers)
    tracer = Tracing()
    with _recording(model) as recorder:
        yield tracer
    tracer.result = _read(recorder, against, positions, chosen)


# --- the run --------------------------------------------------------------------------------------


def _original(model: Any) -> Any:
    """The model behind `torch.compile`, which would compile the recorder too."""
    return getattr(model, "_orig_mod", model)


@contextlib.contextmanager
def _recording(model: Any) -> Iterator[Recorder]:
    """Record all functions of torch, and which module each attention stands in."""
    root = _original(model)
    is_module = isinstance(root, nn.Module)
    recorder = Recorder(root.parameters() if is_module else iter(()))
    names = {id(m): name for name, m in root.named_modules()} if is_module else {}
    stack: list[Any] = []

    def called(_: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        recorder.call += 1
        recorder.calls.append({**keywords, "": args})

    def after(module: nn.Module, _: Any, __: Any) -> None:
        while stack and stack.pop() is not module:
            pass

    recorder.place = lambda: _place(root, names, stack)
    recorder.call = -1 if is_module else 0
    hooks = [register_module_forward_pre_hook(lambda module, _: stack.append(module)),
             register_module_forward_hook(after, always_call=True)]  # fmt: skip
    if is_module:
        hooks += [root.register_forward_pre_hook(called, prepend=True, with_kwargs=True),
                  root.register_forward_hook(
                      lambda _, __, answer: recorder.calls[-1].update({" ": answer})
                  )]  # fmt: skip
    try:
        # What is compiled runs as it was written.
        compiles = "torch._dynamo" in sys.modules
        eagerly = torch.compiler.set_stance("force_eager") if compiles else contextlib.nullcontext()
        with kept(root), recorder, eagerly:
            yield recorder
    finally:
        for hook in hooks:
            hook.remove()
        for taken in recorder.calls:  # a cache that was handed over keeps no graph
            without_graphs(taken)


def _place(root: Any, names: dict[int, str], stack: list[Any]) -> tuple[str, int | None, str]:
    """The path of the module that runs, its number in the outermost list, and which list."""
    path = next((names[id(m)] for m in reversed(stack) if id(m) in names), "")
    parts = path.split(".")
    for number, part in enumerate(parts):
        if part.isdecimal() and isinstance(
            root.get_submodule(".".join(parts[:number])), (nn.ModuleList, nn.Sequential)
        ):
            return path, int(part), ".".join((*parts[:number], "*", *parts[number + 1 :]))
    return path, None, path if not path else "*"


# --- what was recorded ----------------------------------------------------------------------------


def _read(
    recorder: Recorder, against: Expectations, positions: Any, chosen: Sequence[int] | None,
    built: Sequence[int] | None = None,
) -> Trace:  # fmt: skip
    """Look at each attention, and hold it against what is expected."""
    attentions = recorder.attentions
    refuse_data(
        not attentions, "trace", "a model with attention",
        "; ".join(["no product of queries and keys ran", *recorder.missed]),
        "Attention is seen in scaled_dot_product_attention and in softmax.",
    )  # fmt: skip
    indices = range(len(attentions)) if chosen is None else chosen
    refuse((indices[-1] >= len(attentions), "trace: layers",
            f"0 to {len(attentions) - 1}, of the attentions that ran", indices[-1]))  # fmt: skip
    calls = recorder.calls or [{}]
    sequences = _sequences(calls[0], attentions)
    every = [places_of(taken, positions, sequences) for taken in calls]
    find_outputs(recorder)
    # Layers that were built alone keep the numbers that they have in the model.
    labels = built if built and len(built) == len(attentions) else range(len(attentions))
    seen = {
        index: _seen(recorder, attentions[index], labels[index], sequences) for index in indices
    }
    fitting = {(rows, own.tokens[0]) for own in seen.values() for rows in (1, own.sequences)}
    shape = None if positions is None or every[0].positions is None else every[0].positions.shape
    refuse((shape is not None and shape[1] > 1 and shape[:2] not in fitting, "trace: positions",
            "those of the sequences and tokens of an attention, "
            + " or ".join(map(str, sorted(fitting))), shape))  # fmt: skip
    stacks: dict[Any, list[int]] = {}
    turns: Counter[Any] = Counter()
    for index, own in seen.items():
        attention = attentions[index]
        # A layer may attend window by window: the first windows of all layers are alike.
        window = attention.path, attention.call
        key = attention.stack, attention.call, turns[window], own.tokens
        turns[window] += attention.layer is not None
        stacks.setdefault(key, []).append(index)
    judged: dict[Any, list[Judgement]] = {}
    for stack, members in stacks.items():
        numbers = [
            order if attentions[index].layer is None else attentions[index].layer
            for order, index in enumerate(members)
        ]
        options = (
            _judged([seen[index] for index in members], numbers, part,
                    every[min(stack[1], len(every) - 1)], read=against.read)
            for part in against.parts.values()
        )  # fmt: skip
        # Of the parts of a model it is the one from which fewest layers differ.
        judged[stack] = min(options, key=_disagreement)
    compare_layers(judged, read=against.read, stated=every[0].stated)
    layers = sorted((one for own in judged.values() for one in own), key=lambda j: j.layer.index)
    return Trace(
        tuple(one.layer for one in layers),
        tuple(finding for one in layers for finding in one.findings),
        expected=against.name,
        unseen=(*against.notes, *recorder.missed, *(text for one in layers for text in one.unseen)),
        remarks=(
            *dict.fromkeys(text for one in layers for text in one.remarks),
            *["layers are numbered in the order in which they ran"]
            * (built is not None and labels is not built),
        ),
    )


def _judged(
    layers: Sequence[Seen], numbers: Sequence[Any], expected: Callable[[int], Expected],
    places: ExpectedPlaces, *, read: bool,
) -> list[Judgement]:  # fmt: skip
    """The layers of a list, held against a part of a model."""
    pairs = [(own, expected(number)) for own, number in zip(layers, numbers, strict=True)]
    own = places.positions
    if own is None or not any(own.shape[1] in (1, layer.tokens[0]) for layer in layers):
        grids = [
            grid(own, wanted) for own, wanted in pairs
            if wanted.rotary is not None and len(wanted.rotary.axes) > 1 and not own.cross
        ]  # fmt: skip
        clear = [one for one in grids if one is not None]
        count = Counter(one.tobytes() for one in clear)
        if clear:
            places = places._replace(
                positions=max(clear, key=lambda one: count[one.tobytes()]), stated=True
            )
        elif grids:
            places = places._replace(unseen=True)
    return [judge(own, wanted, places, read=read) for own, wanted in pairs]


def _disagreement(layers: Sequence[Judgement]) -> float:
    """How much speaks against a part of a model; causal layers are hardly those of pictures."""
    findings = [finding for one in layers for finding in one.findings]
    unseen = sum(len(one.unseen) * (3 if one.layer.mask == "causal" else 0.5) for one in layers)
    return len(findings) + 4 * sum(f.field in ("dim", "pairing", "kind") for f in findings) + unseen


def _sequences(inputs: dict[str, Any], attentions: list[RecordedAttention]) -> int:
    """How many sequences run at once."""
    values = [*inputs.get("", ()), *inputs.values()]
    sizes = [v.shape[0] for v in values if isinstance(v, Tensor) and v.ndim > 1]
    first = attentions[0].query
    return sizes[0] if sizes and first.ndim < 4 else int(first.shape[0]) if first.ndim > 3 else 1


def _seen(recorder: Recorder, attention: RecordedAttention, index: int, sequences: int) -> Seen:
    query, key, value = attention.query, attention.key, attention.value
    own = int(query.shape[0]) if query.ndim > 3 else sequences
    q, k = int(query.shape[-2]), int(key.shape[-2])
    # Whether they come from two sequences.
    before = (
        recorder.behind(own, ANCESTORS, lambda _, source: source.requires_grad)
        for own in (query, key)
    )
    cross = not set.intersection(*map(set, before))
    tensors = {
        "query": turned(recorder, query, own),
        "key": turned(recorder, key, own),
        # Values may be the keys.
        "value": None
        if key.shape == value.shape and torch.equal(key, value)
        else mixes(recorder, value, own),
        "output": output_turned(attention, own),
    }
    return Seen(
        index, tensors, (q, k), own, scores_of(recorder, attention, own), attention.path,
        max(attention.call, 0), cross, 0 if cross else max(k - q, 0),
    )  # fmt: skip

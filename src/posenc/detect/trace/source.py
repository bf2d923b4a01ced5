"""`posenc.trace`: a folder of a model, a loaded model or dumps, traced."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from posenc._core.calls import checked_call
from posenc._core.errors import bad_data, refuse
from posenc._core.foreign import hub_advice
from posenc._core.guard import foreign
from posenc._core.io.checkpoints import CONFIG
from posenc._core.io.inputs import named
from posenc.detect.facts.folders import read
from posenc.detect.trace.result import Trace, numbered

TOKENS = 64
MOST_TOKENS = 4096
SEED = 0
FAR = (0, 1, 2, 3, 4, 5, 17, 64, 255, 257, 511, 4095, 131_071)
# What is no model and no dump, and what to write for it.
NO_DUMPS = {
    ".json": "A config alone does not run: name its folder, with the weights beside it.",
    ".py": "Name what returns the model: FILE.py:NAME in a shell, the function itself in Python.",
}
IN_LAYER = re.compile(r"\.(\d+)\.")


@foreign("trace", timed=False)
@checked_call
def trace(
    source: Any,
    *,
    expected: Any = None,
    tokens: int | None = None,
    layers: Iterable[int] | None = None,
) -> Trace:
    """See which layer of a model turns its queries and keys otherwise than expected.

        q' = M q   for each attention, token and head of one run

    A folder of a model is built by the class of transformers that its config names, without code
    or kernels of its own, and its weights are read; then it runs once, with random tokens. Dumps of
    another program are read as by `posenc.trace_folder`.

    Parameters
    ----------
    source : path or object
        A folder with a config.json and `.safetensors`; dumps, a file or folder without one; a
        loaded model; or a function without arguments that returns a model, or a model and its
        inputs.
    expected : object, optional
        What it is held against: a config, a contract, a `Reading`, `Plan`, `Spec`, another `Trace`.
        By default the model's own config; dumps have none.
    tokens : int, optional
        How many tokens run, 1 to 4096; 64 by default.
    layers : iterable of int, optional
        Layers that are looked at. Of a folder these alone are built and read, in the dtype of the
        file, so that a model larger than the memory can be traced.

    Returns
    -------
    Trace
        `layers`, `findings`, `first`, and what was not seen.

    Raises
    ------
    ArgumentError
        If the source is none of these, or an argument has no meaning for it.
    DataError
        If the model cannot be built or run, no attention is seen, or a file is no dump.
    DependencyError
        If torch is absent, or transformers, which builds the model of a folder.
    EndedError
        If code that runs ends the process.

    Examples
    --------
    >>> import posenc
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2, vocab_size=32)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8))
    >>> model.model.layers[1].self_attn.q_proj.weight.data *= 2  # no matter of positions
    >>> posenc.trace(model, tokens=16).verdict
    'agrees'
    """
    refuse((
        tokens is not None
        and not (type(tokens) is not bool and isinstance(tokens, Integral)
                 and 1 <= tokens <= MOST_TOKENS),
        "trace: tokens", f"1 to {MOST_TOKENS}", repr(tokens),
    ))  # fmt: skip
    chosen = numbered(layers)
    if isinstance(source, (str, os.PathLike)):
        path = named(source, "trace")
        if not path.exists():  # the advice imports all presets
            raise bad_data(
                "trace", "a folder of a model, or dumps, that exist", repr(str(path)[:200]),
                hub_advice(str(path)),
            )  # fmt: skip
        if not (path / CONFIG).is_file():
            advice = NO_DUMPS.get(path.suffix, "")
            refuse(
                (advice, "trace", "a folder of a model, or dumps", path, advice),
                (tokens is not None or chosen is not None, "trace",
                 "tokens= and layers= of a model", f"those of {path}, dumps"),
            )  # fmt: skip
            return trace_folder(path, expected)
        model, missing = read(path, chosen, f"trace: {path}")
        return _with_missing(_of_model(model, None, expected, tokens, None, chosen), missing)
    model, inputs = source, None
    if inspect.isroutine(source) or isinstance(source, type):
        try:
            with foreign(f"a call of {source.__name__}"):
                model = source()
        except Exception as error:
            raise bad_data(
                "trace: source",
                "a function without arguments that returns a model, or a model and its inputs",
                f"{type(error).__name__}: {str(error)[:200]}",
            ) from error
        model, inputs = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    return _of_model(model, inputs, expected, tokens, chosen)


def _of_model(
    model: Any, inputs: Any, expected: Any, tokens: int | None, layers: Sequence[int] | None,
    built: Sequence[int] | None = None,
) -> Trace:  # fmt: skip
    """The trace of a loaded model, of which no other layers than these may have been built."""
    from posenc.detect.trace.run import traced  # torch is loaded when it runs

    refuse(
        (not callable(model), "trace: source", "a folder, a model, or a function that returns one",
         type(model).__name__),
        (inputs is not None and tokens is not None, "trace", "tokens= of inputs that posenc makes",
         "inputs too"),
    )  # fmt: skip
    inputs = _inputs(model, tokens or TOKENS) if inputs is None else inputs
    return traced(model, inputs, expected, layers=layers, built=built)


def of_side(model: Any, other: Any) -> Trace:
    """The trace of a loaded model at positions near and far, for a `diff` with another side."""
    import torch

    from posenc.detect.trace.run import traced

    inputs, config = _inputs(model, len(FAR)), getattr(model, "config", None)
    names = inspect.signature(model.forward).parameters
    longest = getattr(config, "max_position_embeddings", None) or FAR[-1] + 1
    if "position_ids" in names and "decoder_input_ids" not in inputs:
        places = torch.tensor([[p if p < longest else n for n, p in enumerate(FAR)]])
        inputs["position_ids"] = places
        if "attention_mask" in names:  # without one, ids that jump are those of several texts
            inputs["attention_mask"] = torch.ones_like(places)
    return traced(model, inputs, other)


def _inputs(model: Any, tokens: int) -> Any:
    """Random tokens under the names that a model has for them; by themselves where it has none."""
    import torch

    names = inspect.signature(getattr(model, "forward", model)).parameters
    modules = model.modules() if hasattr(model, "modules") else ()
    sizes = [m.num_embeddings for m in modules if isinstance(m, torch.nn.Embedding)]
    with contextlib.suppress(AttributeError, NotImplementedError):
        sizes = [model.get_input_embeddings().num_embeddings]
    refuse((not sizes, "trace", "a model of tokens", f"{type(model).__name__}, which embeds none",
            "Hand over a function that returns the model and its inputs."))  # fmt: skip
    ids = torch.randint(
        min(4, sizes[0] - 1), sizes[0], (1, tokens), generator=torch.Generator().manual_seed(SEED)
    )
    first = next(iter(names.values()), None)
    if first is None or first.kind is first.VAR_POSITIONAL:  # it hands on what it gets
        return ids
    taken = {"input_ids", "decoder_input_ids"} & {*names} or {first.name}
    return dict.fromkeys(taken, ids) | ({"use_cache": False} if "use_cache" in names else {})


def _with_missing(traced: Trace, missing: list[str]) -> Trace:
    """A trace that does not vouch for layers of which the checkpoint lacks weights."""
    numbers = sorted({*map(int, IN_LAYER.findall(" ".join(missing)))})
    inside = {n: [name for name in missing if f".{n}." in name] for n in numbers}
    rest = [name for name in missing if not IN_LAYER.search(name)]
    lines = {f"layer {n}: ": own for n, own in inside.items()} | ({"": rest} if rest else {})
    texts = [
        f"{place}random numbers stand in for weights that the folder lacks: {', '.join(names[:4])}"
        for place, names in lines.items()
    ]
    return replace(
        traced, unseen=(*traced.unseen, *texts[: len(inside)]),
        remarks=(*traced.remarks, *texts[len(inside) :]),
    )  # fmt: skip


@checked_call
def trace_folder(path: str | os.PathLike[str], expected: Any) -> Trace:
    """See what another program did to queries and keys, by the files that it wrote.

        q' = R(p) q   for each token and head, with q and q' as they were written

    Each layer has queries before and after they turn, or keys, or both. Names say which; layouts
    are told by shapes; numbers are float64, float32, float16 or bfloat16. What is too small for the
    dtype of the numbers is not seen.

    Parameters
    ----------
    path : path
        A folder of `.npy`, `.npz`, `.safetensors` or `.pt` files, or one such file. Names hold the
        number of the layer, `q` or `k`, and `before` or `after`: `layer0.q.before`. A `names.json`
        beside the files may map other names to such. `positions`, or `layer0.positions`, are the
        positions of tokens, (tokens,) or (rows, tokens); 0, 1, 2, … by default.
    expected : object
        What the layers are held against: a config (mapping or path), a contract that
        `Trace.save` or `posenc.golden` wrote, a `Reading`, `Plan` or `Spec`, or another `Trace`.

    Returns
    -------
    Trace
        Its layers have the numbers of the names; `unseen` says what such files do not hold.

    Raises
    ------
    DataError
        If a file is not what it claims to be or holds objects, if no layer has both arrays, or if
        shapes do not fit together. Nothing of a file is executed.
    ArgumentError
        If what is expected is none of these.

    Examples
    --------
    >>> import numpy as np, posenc, tempfile
    >>> rope = posenc.RoPE(16, pairing="half", base=500_000)
    >>> q = np.random.default_rng(0).normal(size=(1, 4, 32, 16)).astype("float32")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/layer0.q.before.npy", q)
    ...     np.save(f"{folder}/layer0.q.after.npy", posenc.rotate(rope, q))
    ...     trace = posenc.trace_folder(folder, posenc.RoPE(16, pairing="half"))
    >>> print(trace.first)
    layer 0, query: base: expected 10000, found 500000
    """
    from posenc.detect.trace.dumps import of_folder  # torch is loaded when something is traced

    return of_folder(path, expected)

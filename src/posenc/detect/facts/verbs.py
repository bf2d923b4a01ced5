"""What people ask of a model: what it does about positions, and how its channels are paired."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument
from posenc._core.reading import Reading
from posenc.detect.explain import PAIRINGS, settled
from posenc.detect.facts.loaded import opened
from posenc.detect.facts.model import ASKED, facts, of_weights
from posenc.detect.facts.weights.heads import Projections
from posenc.detect.facts.weights.pairing import PairingFinding, examined


@checked_call
def explain(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    on_error: Literal["raise", "report"] = "raise",
) -> Reading:
    """Read the positions of a model, as the command `posenc explain` does.

    Parameters
    ----------
    source : mapping, str, path, or config object
        The path of a GGUF file, which `posenc.from_gguf` reads, or whatever `posenc.from_hf` takes:
        a dictionary, JSON text, the path of a `config.json` or of its folder.
    pairing : {"half", "interleaved"}, optional
        The pairing of channels, for families that are not known.
    base : float, optional
        The base, for sources that do not state it; it overrides those that do.
    on_error : {"raise", "report"}
        As in `posenc.from_hf`.

    Returns
    -------
    Reading
        An entry for each type of layer; `print` shows it.

    Raises
    ------
    DataError
        If the source cannot be read, or something that changes numbers is left open.

    Examples
    --------
    >>> import posenc
    >>> plan = posenc.explain({"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0})
    >>> plan["attention"].spec.base
    500000.0
    """
    about = facts(source, pairing=pairing, base=base)
    if on_error == "raise":
        about.require("explain", *ASKED)
    return settled(about.explained, "explain", on_error)


@checked_call
def detect_pairing(
    checkpoint: Any,
    *,
    probe: Callable[[str], Any] | None = None,
    layout: Projections | None = None,
    config: Any = None,
) -> PairingFinding:
    """Tell which channels of queries and keys are paired: what is stated, measured, and probed.

    The record of a conversion and the config come first: a known family says its pairing. The
    weights are measured as well, as evidence: two statistics, each in standard deviations over all
    orders of the channels. They are believed from 4.5 on, and overrule nothing: weights that
    contradict what is stated make the answer `unknown`, until a probe settles it. No weights prove
    a pairing, as those of one convention in another order are those of the other.

    Parameters
    ----------
    checkpoint : path or loaded model
        A `.safetensors` file, an index of several, a list of files, or a folder.
    probe : callable, optional
        The loss of the model on some text, in nats per token, with the pairing it is called with:
        `probe("half") -> float`; or logits (…, classes) and the right classes, as a pair.
    layout : Projections, optional
        What the config does not say: heads, the width that turns, how fused weights are packed.
        `stored` and the pairing of `rope` are not looked at.
    config : mapping or path, optional
        The config, where it does not stand beside the weights.

    Returns
    -------
    PairingFinding
        The answer, which may be `unknown`, and what it rests on.

    Raises
    ------
    DataError
        If the tensors or the config are not understood.

    Notes
    -----
    Of a model without positions no order of channels is special, so a false claim of one statistic
    has the probability of a normal number beyond 4.5: 7e-6. The table of what was right on trained
    models is in the documentation.

    Examples
    --------
    >>> import numpy as np, posenc, tempfile, pathlib
    >>> from safetensors.numpy import save_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "random.safetensors"
    >>> rng = np.random.default_rng(0)
    >>> save_file({f"layers.0.{n}_proj.weight": rng.standard_normal((32, 8)) for n in "qk"}, path)
    >>> layout = posenc.Projections(heads=2, rope=posenc.RoPE(16, pairing="half"))
    >>> posenc.detect_pairing(path, layout=layout).pairing
    'unknown'
    """
    weights = opened(checkpoint, config, "detect_pairing")
    plan = of_weights(weights, checkpoint, config=config, stored="half").plan
    losses = {} if probe is None else {name: _loss(probe(name), name) for name in PAIRINGS}
    return examined(weights, plan, layout or Projections(), "detect_pairing", losses=losses)


def _loss(value: Any, name: str) -> float:
    """A loss, or the cross entropy of logits."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        logits, classes = np.asarray(value[0], dtype=np.float64), np.asarray(value[1])
        if logits.shape[:-1] != classes.shape or classes.dtype.kind not in "iu":
            expected = "logits (…, classes) and integer classes (…)"
            received = f"{logits.shape} and {classes.shape}, {classes.dtype}"
            raise bad_argument("detect_pairing: probe", expected, received)
        logits = logits - logits.max(-1, keepdims=True)
        right = np.take_along_axis(logits, classes[..., None], axis=-1)[..., 0]
        return float(np.mean(np.log(np.exp(logits).sum(-1)) - right))
    caller = f"detect_pairing: probe({name!r})"
    try:
        loss = float(value)
    except (TypeError, ValueError):
        received = type(value).__name__
        raise bad_argument(caller, "a loss, or logits and classes", received) from None
    if not math.isfinite(loss):
        raise bad_argument(caller, "a finite loss", loss)
    return loss

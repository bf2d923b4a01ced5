"""Models that are adopted as soon as they are loaded."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from torch import nn

from posenc.detect.adopt.exchange import adopt, release
from posenc.detect.adopt.report import Adoption


@contextlib.contextmanager
def adopting(**options: Any) -> Iterator[list[Adoption]]:
    """Adopt the models that are built inside a block, by this thread, when the block ends.

    Other threads, and models that were there before, are left alone. After an exception, in the
    block or because a model cannot be adopted, every model is as transformers made it.

    Parameters
    ----------
    **options
        Those of `posenc.torch.adopt`.

    Yields
    ------
    list of Adoption
        Empty inside of the block; then a report for each model.

    Raises
    ------
    ArgumentError, DataError
        As `posenc.torch.adopt` does, when the block ends.

    Examples
    --------
    >>> import posenc.torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> sizes = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=8)
    >>> with posenc.torch.adopting() as reports:
    ...     model = LlamaModel(LlamaConfig(**sizes, intermediate_size=8))
    >>> type(model.rotary_emb).__name__, reports[0].replaced[0].path
    ('AdoptedRotary', 'rotary_emb')
    """
    built: list[weakref.ref[nn.Module]] = []
    reports: list[Adoption] = []
    with _watch.noting(built):
        yield reports
    done: list[nn.Module] = []
    models = [model for model in (reference() for reference in built) if model is not None]
    inside = {id(part) for model in models for part in model.modules() if part is not model}
    try:
        for model in models:
            if id(model) not in inside:
                reports.append(adopt(model, **options))
                done.append(model)
    except BaseException:
        reports.clear()
        for model in done:
            release(model)
        raise


class _Watch:
    """The open blocks of each thread; the class of models is ours while there are any."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._lock = threading.Lock()
        self._open = 0
        self._plain: Any = None  # the `__init__` of models that is put back after the last block

    @contextlib.contextmanager
    def noting(self, built: list[weakref.ref[nn.Module]]) -> Iterator[None]:
        """Add the models of transformers that this thread builds to a list."""
        blocks = vars(self._here).setdefault("blocks", [])
        self._change(1)
        blocks.append(built)
        try:
            yield
        finally:
            blocks.pop()
            self._change(-1)

    def _change(self, more: int) -> None:
        from transformers import PreTrainedModel

        with self._lock:
            if self._open == 0:
                self._plain = plain = PreTrainedModel.__init__

                @functools.wraps(plain)
                def noted(model: Any, *args: Any, **kwargs: Any) -> None:
                    for built in vars(self._here).get("blocks", [])[-1:]:
                        built.append(weakref.ref(model))
                    plain(model, *args, **kwargs)

                PreTrainedModel.__init__ = noted  # type: ignore[method-assign, assignment]
            self._open += more
            if self._open == 0:
                PreTrainedModel.__init__ = self._plain  # type: ignore[method-assign]


_watch = _Watch()

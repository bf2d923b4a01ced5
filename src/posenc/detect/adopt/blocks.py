"""Models that are adopted as soon as they are loaded."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from torch import nn

from posenc.detect.adopt.exchange import adopt, release
from posenc.detect.adopt.report import Adoption


@contextlib.contextmanager
def adopting(**options: Any) -> Iterator[list[Adoption]]:
    """Adopt the models that are built inside a block, by this thread, when the block ends.

    Other threads and tasks, and models that were there before, are left alone. After an exception,
    in the block or because a model cannot be adopted, every model is as transformers made it.

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

    Notes
    -----
    While a generator waits inside its block, what its caller builds is built inside the block.

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
    with _noting(built):
        yield reports
    done: list[nn.Module] = []
    # A class and the one that it derives from may both say that they are built.
    models = {model: None for model in (reference() for reference in built) if model is not None}
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


class _Opened(NamedTuple):
    """A block, and the models that were built inside it."""

    thread: int
    built: list[Any]


# The blocks of a task. A thread that asyncio starts has those of who started it, and they may be
# closed elsewhere, as those of generators are: so it is asked whether they are its own, and open.
_blocks: ContextVar[tuple[_Opened, ...]] = ContextVar("posenc_adopting", default=())
_lock = threading.Lock()
_open: list[_Opened] = []  # of all threads; the class of models is ours while there are any


@contextlib.contextmanager
def _noting(built: list[weakref.ref[nn.Module]]) -> Iterator[None]:
    """Add the models of transformers that this thread builds to a list."""
    from transformers import PreTrainedModel

    of_models: Any = PreTrainedModel
    block = _Opened(threading.get_ident(), built)
    with _lock:
        _open.append(block)
        if len(_open) == 1:
            of_models.post_init = _noted(of_models.post_init)
    _blocks.set((*_blocks.get(), block))
    try:
        yield
    finally:
        _blocks.set(tuple(other for other in _blocks.get() if other is not block))
        with _lock:
            _open[:] = [other for other in _open if other is not block]
            if not _open:
                of_models.post_init = of_models.post_init.__wrapped__


def _noted(plain: Any) -> Any:
    @functools.wraps(plain)
    def post_init(model: Any) -> None:
        plain(model)  # the last that a model does when it is built
        thread, open_ones = threading.get_ident(), [*map(id, _open)]
        for built in [
            block.built for block in _blocks.get()
            if block.thread == thread and id(block) in open_ones
        ][-1:]:  # fmt: skip
            built.append(weakref.ref(model))

    return post_init

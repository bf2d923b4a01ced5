"""Which modules a model's forward leaves unused, seen in one run without numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TOKENS = 2


def unused_modules(model: Any, holds: Callable[[Any], bool]) -> frozenset[str]:
    """Paths of those of several modules that no forward calls or reads, though their parent ran.

    Two tokens go through the model on the meta device, which computes shapes alone. Nothing is said
    of a model that does not run so, nor of parts that these tokens do not reach.
    """
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_leaves

    meant = {path: module for path, module in model.named_modules() if path and holds(module)}
    if len(meant) < 2:  # the one there is, is the one that turns
        return frozenset()
    ran: set[int] = set()
    read: set[int] = set()

    class OperandLog(TorchFunctionMode):
        """Notes every tensor that a function of torch gets."""

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            read.update(id(leaf) for leaf in tree_leaves((args, kwargs)))
            return func(*args, **(kwargs or {}))

    # Rules of a length write other frequencies into their modules.
    kept = [(module, dict(vars(module)), dict(module._buffers)) for module in model.modules()]
    state = {
        name: tensor.detach().to("meta")
        for source in (model.named_parameters, model.named_buffers)
        for name, tensor in source(remove_duplicate=False)
    }
    own = {
        path: {id(t) for name, t in state.items() if name.rpartition(".")[0] == path}
        | {id(value) for value in vars(module).values() if isinstance(value, torch.Tensor)}
        for path, module in meant.items()
    }
    ids = torch.zeros(1, TOKENS, dtype=torch.int64, device="meta")
    hook = register_module_forward_pre_hook(lambda module, _: ran.add(id(module)))
    try:
        with torch.no_grad(), OperandLog():
            torch.func.functional_call(model, state, (ids,))
    except Exception:  # noqa: BLE001 - other people's models raise anything
        return frozenset()
    finally:
        hook.remove()
        for module, values, buffers in kept:
            vars(module).clear()
            vars(module).update(values)
            module._buffers.clear()
            module._buffers.update(buffers)

    def reached(path: str) -> bool:
        parent = path.rpartition(".")[0]
        home = model.get_submodule(parent)
        lists = (torch.nn.ModuleList, torch.nn.ModuleDict)
        return reached(parent) if parent and isinstance(home, lists) else id(home) in ran

    return frozenset(
        path
        for path, module in meant.items()
        if id(module) not in ran and not own[path] & read and reached(path)
    )

"""The record of one forward run: attentions, and the products between which everything is linear.

Every product with a weight, every function that is not linear and every product of two activations
ends a graph of autograd, and begins another one at a *cut*: the same numbers, as a leaf. So what
lies between two cuts is a linear map, and its graph is the record of it. Gradients are kept
although the model runs without them, and no parameter is asked for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

NAMES = {
    kind: frozenset(names.split())
    for kind, names in {
        "product": "linear matmul __matmul__ __rmatmul__ mm bmm addmm addbmm baddbmm einsum "
        "tensordot conv1d conv2d conv3d embedding bilinear",
        "norm": "layer_norm rms_norm group_norm normalize batch_norm instance_norm",
        "softmax": "softmax _softmax _safe_softmax sparsemax",
        "function": "exp exp2 sigmoid tanh softplus silu gelu relu elu selu leaky_relu mish "
        "hardtanh logsigmoid pow square __pow__ sqrt rsqrt reciprocal abs norm vector_norm var std "
        "log log1p log_sigmoid max min amax amin logsumexp cumprod sin cos clamp erf relu6 celu "
        "softsign sign round floor ceil trunc sort topk",
        # What makes cosines of learned frequencies, or takes rows of them: it makes no weight.
        "table": "cos sin exp polar view_as_complex __getitem__ index_select gather narrow select",
    }.items()
}
KINDS = {name: kind for kind in ("norm", "softmax", "function") for name in NAMES[kind]}
AVERAGES = frozenset(("mean", "sum"))
WIDEST_TURN = 512  # channels that a constant matrix may turn, rather than project
FUSED = "scaled_dot_product_attention"
OPAQUE = re.compile(r"attention|attn|encoder_layer")  # functions inside which nothing is seen
MOST_CUTS = 64  # that are followed back from a tensor
DEEPEST = 3  # functions of one number between scores and their product
WEIGHT = "_posenc_weight"  # an attribute of tensors that were made of weights alone


@dataclass(eq=False)
class Cut:
    """Numbers at which a graph ends and another one begins."""

    kind: str  # "projection", "product", "softmax", "norm", "scale", "function", "attention", …
    name: str  # of the function of torch
    leaf: Tensor
    sources: tuple[Tensor, ...] = ()  # what the function took, at the end of the graph before
    number: int = 0


@dataclass(eq=False)
class RecordedAttention:
    """One attention: queries and keys (…, tokens, channels) as they met, values, and the output."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Cut | None
    path: str = ""
    layer: int | None = None  # its number among the modules of its list
    stack: Any = 0  # which list of modules it stands in
    call: int = 0
    scores: Tensor | None = None  # what softmax took
    product: Cut | None = None
    scale: float = 0.0  # where it is an argument
    mask: Tensor | None = None  # likewise
    causal: bool = False
    after: Tensor | None = None  # what the next projection took of the output
    order: tuple[int, ...] = ()  # of the axes of scores, as (…, queries, keys)


class Recorder(TorchFunctionMode):
    """Sees every function of torch that a model calls."""

    def __init__(self, parameters: Iterator[Tensor]) -> None:
        super().__init__()
        self.cuts: dict[int, Cut] = {}
        self.order: list[Cut] = []
        self.attentions: list[RecordedAttention] = []
        self.place: Callable[[], tuple[str, int | None, Any]] = lambda: ("", None, 0)
        self.missed: dict[str, None] = {}  # attentions that were not seen, and why, in words
        self.call = 0
        self.calls: list[dict[str, Any]] = []  # the keywords of each run of the model
        self._weights = {p.untyped_storage().data_ptr() for p in parameters if _stored(p)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        # A shape or a flag is asked for, or one of the views that are properties.
        asked = getattr(getattr(func, "__self__", None), "__name__", "")
        views = ("T", "mT", "H", "mH", "real", "imag")
        if name in ("__set__", "__delete__") or (name == "__get__" and asked not in views):
            return func(*args, **kwargs)
        if name in ("numpy", "__array__", "tolist", "item") and args[0].requires_grad:
            return func(args[0].detach(), *args[1:], **kwargs)
        if name == "detach":  # what rounds does so, and what keeps keys for a next call
            func = torch.Tensor.view_as
            args = (args[0], args[0])
        if OPAQUE.search(name) and name != FUSED:
            self._miss(f"{name} is one function, inside which nothing is seen")
        result = _with_gradients(func, args, kwargs)
        with torch.inference_mode(False), torch.enable_grad():
            return self._seen(name, args, kwargs, result)

    # --- what is a cut ----------------------------------------------------------------------------

    def _seen(self, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if name == FUSED:
            return self._attention(args, kwargs, result)
        active = [t for t in tensors if _active(t)]
        if not active:
            return self._of_weights(name, tensors, result)
        if not isinstance(result, Tensor):
            reduced = KINDS.get(name) == "function" and isinstance(result, tuple)
            return _detached(result) if reduced else result
        if any(result is t for t in tensors) or not result.is_floating_point():
            return result  # written in place
        if name in NAMES["product"]:
            return self._product(name, args, kwargs, tensors, result)
        summed = name in AVERAGES and _over_channels(args, kwargs)
        if name in KINDS or summed:
            return self.cut(KINDS.get(name, "function"), name, result, active[0])
        if name in ("mul", "__mul__", "__rmul__", "multiply") and len(tensors) == 2:
            other = tensors[1] if _active(tensors[0]) else tensors[0]
            if len(active) == 1 and self._whole_weight(other):
                return self.cut("scale", name, result, active[0])
        return result

    def _of_weights(self, name: str, tensors: list[Tensor], result: Any) -> Any:
        """Weights stay weights, whatever they are cast to; what multiplies a constant is a cut."""
        weights = [t for t in tensors if self._weight(t)]
        if not weights or not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        constants = [t for t in tensors if not self._weight(t) and t.is_floating_point()]
        if name in NAMES["product"] and (constants or name == "embedding"):
            return self.cut(
                "embedding" if name == "embedding" else "projection", name, result, *constants[:1]
            )
        if not constants and name not in NAMES["table"]:
            setattr(result, WEIGHT, True)
        return result

    def _product(
        self, name: str, args: Any, kwargs: Any, tensors: list[Tensor], result: Tensor
    ) -> Any:
        added = name in ("addmm", "baddbmm", "addbmm")
        operands = tensors[1:3] if added else tensors[:2]
        if len(operands) < 2:
            return result
        one, other = operands
        if _active(one) and _active(other):
            cut = self._cut("product", name, result, *operands)
            self._second(name, args, operands, cut)
            cut.sources = (*operands, *tensors[:1]) if added else tuple(operands)
            vars(cut)["arguments"] = (args, kwargs)
            return cut.leaf.clone()
        weight, x = (other, one) if _active(one) else (one, other)
        square = weight.shape[-1] == weight.shape[-2 if weight.ndim > 1 else -1]
        constant = not self._weight(weight) and (
            (square and weight.shape[-1] <= WIDEST_TURN)
            or name not in ("linear", "conv1d", "conv2d")
        )
        # Only the bias of a product of constants may be active.
        return self.cut("projection", name, result, x) if _active(x) and not constant else result

    def _weight(self, tensor: Tensor) -> bool:
        if _active(tensor):
            return False
        marked = getattr(tensor, WEIGHT, False) or isinstance(tensor, torch.nn.Parameter)
        return marked or (_stored(tensor) and tensor.untyped_storage().data_ptr() in self._weights)

    def _whole_weight(self, tensor: Tensor) -> bool:
        """Whether it is all of a weight, and no rows of a table of cosines."""
        if not self._weight(tensor) or tensor.numel() == 1:
            return False
        size = tensor.numel() * tensor.element_size()
        return getattr(tensor, WEIGHT, False) or size == tensor.untyped_storage().nbytes()

    def cut(self, kind: str, name: str, result: Tensor, *sources: Tensor) -> Tensor:
        """The same numbers at the beginning of a graph, which may be written to."""
        return self._cut(kind, name, result, *sources).leaf.clone()

    def _cut(self, kind: str, name: str, result: Tensor, *sources: Tensor) -> Cut:
        cut = Cut(kind, name, result.detach().requires_grad_(), sources, len(self.order))
        self.cuts[id(cut.leaf)] = cut
        self.order.append(cut)
        return cut

    def _miss(self, why: str) -> None:
        """Note that the attention that runs is not seen."""
        self.missed[f"{self.place()[0] or 'an attention'}, because {why}"] = None

    # --- attentions -------------------------------------------------------------------------------

    def _attention(self, args: Any, kwargs: Any, result: Tensor) -> Tensor:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        query, key, value = (arguments[n] for n in names[:3])
        if not (query.requires_grad and key.requires_grad):
            self._miss("queries or keys come from no product with a weight in this run")
            return result
        cut = self._cut("attention", FUSED, result)
        mask, scale = arguments.get("attn_mask"), arguments.get("scale")
        self.attentions.append(
            RecordedAttention(
                query.clone(), key.clone(), value.clone(), cut, *self.place(), self.call,
                scale=query.shape[-1] ** -0.5 if scale is None else scale,
                mask=None if mask is None else mask.detach().clone(),
                causal=bool(arguments.get("is_causal")),
            )
        )  # fmt: skip
        return cut.leaf.clone()

    def _second(self, name: str, args: Any, operands: list[Tensor], output: Cut) -> None:
        """Whether a product is that of an attention with its values."""
        behind = (
            (index, cut) for index, operand in enumerate(operands) for cut in self.reached(operand)
            if cut.kind in ("softmax", "function")
        )  # fmt: skip
        for index, softmax in behind:
            scores = softmax.sources[0]
            before = self.behind(  # what took each number by itself, as tanh does, is crossed
                scores, DEEPEST, lambda c, own: c.kind == "function" and own.shape == c.leaf.shape
            )
            product = next((c for c in before if c.kind == "product"), None)
            if product is None or any(a.product is product for a in self.attentions):
                continue
            query, key, order = arranged(
                product.name, vars(product)["arguments"][0], *product.sources[:2]
            )
            left, right, _ = arranged(name, args, *operands)
            value = (left if index else right).transpose(-1, -2)
            if value.shape[-2] != key.shape[-2] or value.ndim < 2:
                continue  # scores that are summed over something else than keys
            self.attentions.append(
                RecordedAttention(
                    query.clone(), key.clone(), value.clone(), output, *self.place(), self.call,
                    scores=scores, product=product, order=order,
                )
            )  # fmt: skip
            return

    def behind(
        self, tensor: Tensor, deepest: int, across: Callable[[Cut, Tensor], bool]
    ) -> dict[Cut, None]:
        """The cuts behind a tensor, and behind what these took, where that is to be crossed."""
        behind: dict[Cut, None] = {}
        line = [tensor]
        for _ in range(deepest):
            cuts = [cut for one in line for cut in self.reached(one) if cut not in behind]
            behind |= dict.fromkeys(cuts)
            line = [own for cut in dict.fromkeys(cuts) for own in cut.sources if across(cut, own)]
            if len(behind) > MOST_CUTS:
                break
        return behind

    def reached(self, tensor: Tensor) -> list[Cut]:
        """The cuts that a tensor is linear in, the latest first."""
        behind: dict[int, Cut] = {}
        nodes, seen = [tensor.grad_fn], set()
        if tensor.grad_fn is None and id(tensor) in self.cuts:
            return [self.cuts[id(tensor)]]
        while nodes:
            node = nodes.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) in self.cuts:
                behind[id(variable)] = self.cuts[id(variable)]
            nodes += [before for before, _ in node.next_functions]
        return sorted(behind.values(), key=lambda cut: -cut.number)


def _active(tensor: Tensor) -> bool:
    """Whether a tensor depends on a cut; weights that ask for gradients do not."""
    return tensor.requires_grad and not isinstance(tensor, torch.nn.Parameter)


def _stored(tensor: Tensor) -> bool:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return not wrapped and not tensor.is_meta and tensor.layout == torch.strided


def _with_gradients(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function so that its graph is kept, and not as a checkpoint."""
    before = torch.is_grad_enabled()
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor),
    ):
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if before or "requires grad" not in str(error):
                raise
    return func(*args, **kwargs)


def _detached(result: Any) -> Any:
    parts = [t.detach() if isinstance(t, Tensor) else t for t in result]
    return type(result)(parts) if hasattr(result, "n_fields") else tuple(parts)


def _over_channels(args: Any, kwargs: Any) -> bool:
    """Whether a sum is over the last axis, which stays: that of a norm."""
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    keep = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    return bool(keep) and dims in ((-1,), (args[0].ndim - 1,))


# --- operands -------------------------------------------------------------------------------------


Operands = tuple[Tensor, Tensor, tuple[int, ...]]


def arranged(name: str, args: Any, one: Tensor, other: Tensor) -> Operands:
    """Both operands of a product, as rows of channels that are summed, and how it is laid out.

    The rows are (…, tokens, channels); the last are the axes of the product as (…, tokens of one,
    of the other), where these are in another order.
    """
    if name == "einsum":
        return _of_equation(str(args[0]), one, other)
    if name == "__rmatmul__":
        one, other = other, one
    return one, other.transpose(-1, -2) if other.ndim > 1 else other[None], ()


def _of_equation(equation: str, one: Tensor, other: Tensor) -> Operands:
    inputs, _, output = equation.replace(" ", "").partition("->")
    a, b = inputs.split(",")
    if "..." in a or "..." in b:
        letters = "ABCDEFGH"[: one.ndim - len(a.replace("...", ""))]
        a, b, output = (part.replace("...", letters) for part in (a, b, output))
    summed = [c for c in a if c in b and c not in output]
    shared = [c for c in output if c in a and c in b]
    rows, columns = ([c for c in own if c not in rest] for own, rest in ((a, b), (b, a)))
    return (
        one.permute([a.index(c) for c in (*shared, *rows, *summed)]),
        other.permute([b.index(c) for c in (*shared, *columns, *summed)]),
        tuple(output.index(c) for c in (*shared, *rows, *columns) if c in output),
    )

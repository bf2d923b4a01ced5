"""Another encoding than that of the config, on purpose, in all layers or layer by layer."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from posenc._core.errors import ArgumentError, bad_argument, mismatch
from posenc._core.reading import Layer, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.adopt.fitting import parameters
from posenc.detect.adopt.matching import Answered
from posenc.detect.adopt.report import CALLER
from posenc.detect.subject import refuse_if
from posenc.encodings.api import BiasSpec, RelativeSpec, RotarySpec
from posenc.torch.adopted import CosSinForm, LayerCosSin
from posenc.torch.libraries import RegisteredNames

KEPT = "_posenc_attention"  # of a model: its use of another attention


class _Wish(NamedTuple):
    """What one layer is to do."""

    rotary: RotarySpec | None
    scores: Spec | None


class Trial:
    """What is put into a model beside, or in place of, what its config says."""

    def __init__(
        self,
        model: nn.Module,
        reading: Reading,
        modules: Sequence[Answered],
        spec: Spec | None,
        plan: Plan | Reading | None,
    ) -> None:
        refuse_if(
            spec is not None and plan is not None,
            mismatch(CALLER, "spec or plan", "both"),
            ArgumentError,
        )
        self.model = model
        self.hooks: list[tuple[nn.Module, LayerCosSin]] = []
        # What a module is to compute for a type of layer, where that is not its own.
        self.forms: dict[tuple[int, str | None], CosSinForm] = {}
        wishes = [_of_spec(spec)] if plan is None else _of_plan(plan)
        self._scores = [wish.scores for wish in wishes]
        if len({wish.rotary for wish in wishes}) == 1:
            self._everywhere(modules, wishes[0])
        else:
            self._layer_by_layer(reading, modules, wishes)
        if any(scores is not None for scores in self._scores):
            self._check_attention()
        own = sorted({f"{e.layer}: {e.spec!r}" for one in modules for e, _ in one.forms.values()})
        what = "the plan that was given" if plan is not None else type(spec).__name__
        self.remarks = (
            f"the weights were not trained for {what}: its config says {'; '.join(own)}",
        )

    def _everywhere(self, modules: Sequence[Answered], wish: _Wish) -> None:
        why: list[str] = []
        for one in modules:
            for label, (entry, form) in one.forms.items():
                if wish.rotary is None:
                    self.forms[id(one.module), label] = form.stilled()
                elif reason := _why_not(wish.rotary, entry, form):
                    why.append(f"{one.path}: {reason}")
                else:
                    self.forms[id(one.module), label] = form._replace(spec=wish.rotary)
        refuse_if(
            not self.forms,
            mismatch(
                f"{CALLER}: spec",
                "an encoding that a rotary module of the model can compute",
                f"{wish.rotary!r}: {'; '.join(why) or 'no module answers for its plan'}",
            ),
            ArgumentError,
        )

    def _layer_by_layer(
        self, reading: Reading, modules: Sequence[Answered], wishes: Sequence[_Wish]
    ) -> None:
        one, layers = _stack(self.model, modules, len(wishes))
        kinds = getattr(getattr(one.module, "config", None), "layer_types", None)
        for number, (layer, wish) in enumerate(zip(layers, wishes, strict=True)):
            label = None if None in one.forms else kinds[number] if kinds else ""
            if label not in one.forms or not _turns(reading, one, number):
                refuse_if(
                    wish.rotary is not None,
                    mismatch(
                        f"{CALLER}: layer {number}",
                        "no rotation, as the code of this layer turns nothing",
                        repr(wish.rotary),
                    ),
                    ArgumentError,
                )
                continue
            entry, form = one.forms[label]
            if wish.rotary is None:
                self.hooks.append((layer, LayerCosSin(form.stilled())))
            elif wish.rotary != form.spec:
                if reason := _why_not(wish.rotary, entry, form):
                    raise bad_argument(f"{CALLER}: layer {number}", reason, repr(wish.rotary))
                self.hooks.append((layer, LayerCosSin(form._replace(spec=wish.rotary))))

    # --- scores -----------------------------------------------------------------------------------

    def _check_attention(self) -> None:
        refuse_if(
            not getattr(self.model, "_can_set_attn_implementation", lambda: False)(),
            mismatch(
                CALLER,
                "a model whose layers ask AttentionInterface for their attention",
                type(self.model).__name__,
            ),
            ArgumentError,
        )
        heads = getattr(_text(self.model), "num_attention_heads", None)
        for scores in self._scores:
            count = getattr(scores, "heads", heads)
            refuse_if(
                scores is not None and count != heads,
                mismatch(f"{CALLER}: {type(scores).__name__}", f"{heads} heads", count),
                ArgumentError,
            )

    def put_in(self) -> None:
        """Hooks on layers, and the attention that adds to scores."""
        for layer, hook in self.hooks:
            layer.register_forward_pre_hook(hook, with_kwargs=True)
        if not any(scores is not None for scores in self._scores):
            return
        config: Any = self.model.config
        kept = {
            key: getattr(part, "_attn_implementation", None)
            for key, part in {
                "": config,
                **{key: getattr(config, key, None) for key in config.sub_configs},
            }.items()
        }
        use = _Use(self._scores[0] if len({*self._scores}) == 1 else list(self._scores), kept)
        self.model.__dict__[KEPT] = use
        main = next((k for k in config.sub_configs if getattr(config, k) is _text(self.model)), "")
        self.model.set_attn_implementation({**kept, main: use.name})  # type: ignore[operator]
        refuse_if(
            _text(self.model)._attn_implementation != use.name,
            mismatch(
                CALLER,
                "a model that takes another attention implementation",
                type(self.model).__name__,
            ),
            ArgumentError,
        )


class _Use:
    """Attention by a name that is registered as long as a model asks for it.

    A copy of the model, or one that comes out of a file, has a use of its own.
    """

    def __init__(self, encodings: Any, kept: dict[str, Any]) -> None:
        from posenc.torch.attention import attention

        self.encodings = encodings
        self.kept = kept
        self.name = f"posenc_{hashlib.sha256(repr(encodings).encode()).hexdigest()[:12]}"
        if self.name not in _registered:
            _registered[self.name] = (attention(encodings).register(self.name), [])
        _registered[self.name][1].append(id(self))
        self.end = weakref.finalize(self, _end, self.name, id(self))
        self.end.atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _Use, (self.encodings, self.kept)


# Names under which models ask for attention: what takes the name out again, and the uses.
_registered: dict[str, tuple[RegisteredNames, list[int]]] = {}


def _end(name: str, use: int) -> None:
    registered, uses = _registered[name]
    uses.remove(use)
    if not uses:
        registered.remove()
        del _registered[name]


def forget(model: Any) -> None:
    """Take hooks and attention out of a model."""
    for module in model.modules():
        for key, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, LayerCosSin):
                del module._forward_pre_hooks[key]
                module._forward_pre_hooks_with_kwargs.pop(key, None)
    use: _Use | None = model.__dict__.pop(KEPT, None)
    if use is not None:
        model.set_attn_implementation(use.kept)
        use.end()


def _of_spec(spec: Any) -> _Wish:
    if isinstance(spec, RotarySpec):
        return _Wish(spec, None)
    if isinstance(spec, (BiasSpec, RelativeSpec)):
        return _Wish(None, spec)
    raise bad_argument(f"{CALLER}: spec", "a rotation, or a bias or relative encoding", repr(spec))


def _of_plan(plan: Any) -> list[_Wish]:
    """What each layer is to do."""
    if isinstance(plan, Plan):
        every = [list(entry.specs) for entry in plan]
    elif isinstance(plan, Reading):
        if any(entry.layer.startswith("text.") for entry in plan):
            plan = plan.part("text")
        every = [
            [e.spec for e in plan.at(i) if e.spec is not None and not e.attention]
            for i in range(1 + max((i for e in plan for i in e.indices or ()), default=0))
        ]
    else:
        raise bad_argument(f"{CALLER}: plan", "a Plan or a Reading", type(plan).__name__)
    wishes = []
    for number, specs in enumerate(every):
        scores = [s for s in specs if isinstance(s, (BiasSpec, RelativeSpec))]
        rotary = [s for s in specs if isinstance(s, RotarySpec)]
        refuse_if(
            len(scores) > 1 or len(rotary) > 1 or len(scores) + len(rotary) < len(specs),
            mismatch(
                f"{CALLER}: layer {number}",
                "at most a rotation and one encoding of scores",
                ", ".join(type(s).__name__ for s in specs),
            ),
            ArgumentError,
        )
        wishes.append(_Wish(rotary[0] if rotary else None, scores[0] if scores else None))
    refuse_if(not wishes, mismatch(f"{CALLER}: plan", "layers", "none"), ArgumentError)
    return wishes


def _why_not(spec: RotarySpec, entry: Layer, form: CosSinForm) -> str:
    """Why a module cannot compute another rotation; nothing where it can."""
    own: Any = entry.spec
    if spec.parameters():
        return "a rotation without parameters, as its own has none"
    if spec.pairs != own.pairs or len(spec.axes) != len(form.order):
        axes = "one axis" if len(form.order) == 1 else f"{len(form.order)} axes"
        return f"{own.pairs} pairs along {axes}, as its heads have"
    return f"{own.channels}, as its code turns" if spec.channels != own.channels else ""


def _stack(
    model: nn.Module, modules: Sequence[Answered], count: int
) -> tuple[Answered, nn.ModuleList]:
    """So many layers, beside a rotary module, that take its cosines and sines."""
    seen = []
    for one in modules:
        for stack in model.get_submodule(one.path.rpartition(".")[0]).children():
            if isinstance(stack, nn.ModuleList) and all(
                "position_embeddings" in parameters(layer) for layer in stack
            ):
                seen.append(len(stack))
                if len(stack) == count:
                    return one, stack
    raise bad_argument(
        f"{CALLER}: plan",
        f"one for each of the layers that take cosines and sines, {seen or 'none'}",
        f"{count} layers",
    )


def _turns(reading: Reading, one: Answered, number: int) -> bool:
    """Whether an entry of the same part of the model that acts in a layer turns."""
    part = next(iter(one.forms.values()))[0].layer.rpartition(".")[0]
    return any(
        entry.kind == "rotary" and not entry.attention
        for entry in (reading.part(part) if part else reading).at(number)
    )


def _text(model: Any) -> Any:
    """The config of the text, which is that of the whole where it has no parts."""
    return model.config.get_text_config(decoder=True)

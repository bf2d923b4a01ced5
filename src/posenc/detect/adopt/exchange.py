"""The command `adopt`: exact positions inside a loaded model, and back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

from torch import nn

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.guard import foreign
from posenc._core.reading import Layer, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.adopt.fitting import adopt_diffusion, distance
from posenc.detect.adopt.matching import (
    Answered,
    Place,
    answers_of,
    config_change,
    covers,
    is_diffusion,
    places_of,
    refuse_model,
    why_left,
)
from posenc.detect.adopt.report import (
    CALLER,
    Adoption,
    Replacement,
    Rows,
    exact_rows,
    has_rows,
    put_in,
    restore,
    row_tensors,
)
from posenc.detect.adopt.trial import Trial, forget
from posenc.detect.facts import ASKED, facts
from posenc.detect.subject import refuse_if
from posenc.scaling.base import Scaling
from posenc.torch.adopted import (
    AdoptedPicture,
    AdoptedRotary,
    AdoptedSequence,
    CosSinForm,
    PictureRotary,
    SequenceRotary,
)

Swap = tuple[list[Place], AdoptedRotary]  # where a module stands, and the one for its place


@foreign("adopt")
def adopt(
    model: Any,
    *,
    spec: Spec | None = None,
    plan: Plan | Reading | None = None,
    scaling: Scaling | None = None,
    phase: Literal["exact", "float32"] = "exact",
) -> Adoption:
    """Put exact positions into a loaded model of transformers or diffusers, this instance alone.

    The config of the model is read into a plan. Each module that turns position ids into cosines
    and sines is asked for them at near and far positions; where its answers are those of an entry
    of the plan, up to what angles in float32 may be off, a module takes its place that computes
    them from integer phases and answers in the same shape and dtype. Rows of sines that a module
    keeps in a buffer are compared and replaced as well. Nothing is replaced before everything was
    checked. `release` puts the old modules back.

    In a model of diffusers (the `transformer` of a pipeline) the rotary module is asked on: where a
    token stands is read from its cosines and sines, which are checked in every call, and exact
    ones in the same form take their place. So its tables end where they ended.

    Parameters
    ----------
    model : PreTrainedModel or ModelMixin
        A loaded model, on any device and of any floating dtype.
    spec : Spec, optional
        Another encoding, on purpose, for which the weights were not trained: a rotation of as many
        pairs, or a bias or relative encoding, with which the rotations stand still.
    plan : Plan or Reading, optional
        The same, layer by layer: another rotation in some layers, no positions in others.
    scaling : Scaling, optional
        Of a diffusion model, for which its weights were not trained: a `posenc.scaling.PerAxis` of
        `RIFLEx`, `DyPE` and others. It acts after what the config says of scaling.
    phase : {"exact", "float32"}
        `exact`, or the classic arithmetic, which gives the bits of the module where it is written
        in the usual way.

    Returns
    -------
    Adoption
        What was replaced, what was left and why, and how far the old modules were off.

    Raises
    ------
    ArgumentError
        If it is no loaded model, or was adopted before; if the model cannot compute the other
        encoding; for `scaling` of a model of transformers, `spec` or `plan` of a diffusion model.
    SpecError
        If the scaling does not fit the axes of the model, or contradicts what its config says.
    DataError
        If nothing is replaced, as where the pipeline hands the rotation to `forward`; if a module
        contradicts the config; if the code is not that of transformers: remote code, or a subclass
        with a forward of its own. The model is untouched.

    Notes
    -----
    Parameters, buffers that are saved, and the keys of the state dict stay as they are. Learned
    parameters are never replaced, so weights may be quantised, sharded, offloaded or spread over
    devices: modules of positions hold none, and hooks on them stay. Of an encoding that depends on
    the length of the sequence, the old module may remember the longest one; ours goes by the
    largest position of each call.

    Examples
    --------
    >>> import posenc.torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> sizes = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=8)
    >>> model = LlamaModel(LlamaConfig(**sizes, intermediate_size=8))
    >>> report = posenc.torch.adopt(model)
    >>> report.replaced[0].path, report.replaced[0].change < 1e-4, report.left
    ('rotary_emb', True, ())
    >>> posenc.torch.release(model)
    >>> type(model.rotary_emb).__name__
    'LlamaRotaryEmbedding'
    """
    refuse_if(
        phase not in ("exact", "float32"),
        mismatch(f"{CALLER}: phase", "'exact' or 'float32'", repr(phase)),
        ArgumentError,
    )
    of_axes = is_diffusion(model)
    refuse_model(model, diffusion=of_axes)
    refuse_if(
        scaling is not None if not of_axes else spec is not None or plan is not None,
        mismatch(
            CALLER,
            "scaling= for a model of diffusers, spec= or plan= for one of transformers",
            f"the other for a {type(model).__name__}",
            "There, spec=posenc.RoPE(…, scaling=…) has it.",
        ),
        ArgumentError,
    )
    if of_axes:
        return adopt_diffusion(model, scaling, phase)
    about = facts(model)
    others = about.require(CALLER, *ASKED)
    reading = about.reading
    other = spec is not None or plan is not None
    stored = [] if other else [*_tables(model, reading, phase)]
    modules, left = answers_of(model, reading, {table.module for table, _ in stored})
    left += [f"{row.path}: its {row.last + 1:,} rows are the exact ones of {row.layer}"
             for table, row in stored if table.same]  # fmt: skip
    trial = Trial(model, reading, modules, spec, plan) if other else None
    replaced: list[Replacement] = []
    swaps: list[Swap] = []
    for one in modules:
        forms: dict[str | None, CosSinForm] = {}
        for label, (entry, own) in one.forms.items():
            form = own if phase == "exact" else own._replace(spec=own.spec.replace(phase=phase))
            tried = form if trial is None else trial.forms.get((id(one.module), label), form)
            forms[label] = tried
            replaced.append(_replacement(one, label, entry, own, tried, other=tried != form))
        specs = [entry.spec for entry, _ in one.forms.values()]
        kind = {SequenceRotary: AdoptedSequence, PictureRotary: AdoptedPicture}.get(type(one.asked))
        new = (kind(one.asked, one.module, forms, specs) if kind
               else AdoptedRotary(one.module, forms, specs))  # fmt: skip
        swaps.append((one.places, new))
    covered = [spec for _, new in swaps for spec in new.encodings] + [row.spec for _, row in stored]
    replaced += [row for table, row in stored if not table.same]
    left += [why for e in reading if not covers(e.spec, covered) for why in why_left(e)]
    left += reading.errors
    refuse_if(
        not replaced,
        mismatch(
            CALLER,
            "cosines and sines, or rows, that a module of the model computes by its plan",
            f"none: {'; '.join(left) or 'no positions'}",
            "" if hasattr(model, "base_model_prefix") else "Give the whole model: adopt(model).",
        ),
        DataError,
    )
    _exchange(model, swaps, [table for table, _ in stored if not table.same], trial)
    return Adoption(
        type(model).__name__, replaced=tuple(replaced), left=tuple(dict.fromkeys(left)),
        remarks=(*(trial.remarks if trial else ()), *others, *reading.warnings),
    )  # fmt: skip


def release(model: Any) -> None:
    """Put back what `adopt` replaced, the very objects.

    Parameters
    ----------
    model : nn.Module
        A model that was adopted, or a copy of one.

    Raises
    ------
    ArgumentError
        If nothing in it was adopted.

    Warns
    -----
    UserWarning
        If its config was changed since: the old modules know nothing of that.

    Examples
    --------
    >>> import posenc.torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> sizes = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=8)
    >>> model = LlamaModel(LlamaConfig(**sizes, intermediate_size=8))
    >>> old = model.rotary_emb
    >>> report = posenc.torch.adopt(model)
    >>> posenc.torch.release(model)
    >>> model.rotary_emb is old
    True
    """
    refuse_if(
        not isinstance(model, nn.Module),
        mismatch("release", "a model that was adopted", type(model).__name__),
        ArgumentError,
    )
    adopted = [(place, m) for place, m in places_of(model) if isinstance(m, AdoptedRotary)]
    rows = [module for module in model.modules() if has_rows(module)]
    refuse_if(
        not adopted and not rows,
        mismatch(
            "release",
            "a model that was adopted",
            f"a {type(model).__name__} in which nothing was adopted",
        ),
        ArgumentError,
    )
    changed = config_change(model)
    for place, module in adopted:
        if not isinstance(module.original, nn.Module):  # which a module would refuse to be
            delattr(place.parent, place.leaf)
        setattr(place.parent, place.leaf, module.original)
    for owner in rows:
        restore(owner)
    forget(model)
    if changed:
        warnings.warn(f"release: {changed}; the old modules follow the config before", stacklevel=2)


def _tables(model: nn.Module, reading: Reading, phase: str) -> Iterator[tuple[Rows, Replacement]]:
    """Tensors that hold rows of the plan, and what there is to say of each."""
    for path, module, name in row_tensors(model):
        for entry in reading:
            rows = None if entry.spec is None else exact_rows(module, name, entry.spec, phase)
            if rows is not None:
                kind = "buffer" if name in module._buffers else "parameter"
                yield rows, Replacement(
                    path, layer=entry.layer, spec=entry.spec, what="rows",
                    was=f"a {kind} of {type(module).__name__}", **rows.distance._asdict(),
                )  # fmt: skip
                break


def _replacement(
    one: Answered,
    label: str | None,
    entry: Layer,
    own: CosSinForm,
    form: CosSinForm,
    *,
    other: bool,
) -> Replacement:
    """What there is to say of a module, for one type of layer."""
    return Replacement(
        one.path, layer=entry.layer, spec=None if form.still else form.spec,
        was=type(one.module).__name__, trained=entry.spec if other else None,
        **distance(
            one.asked, label, form if other else own, entry.length,
        )._asdict(),
    )  # fmt: skip


def _exchange(model: nn.Module, swaps: list[Swap], tables: list[Rows], trial: Trial | None) -> None:
    """Put everything in, or nothing."""
    moves = [(place, new) for places, new in swaps for place in places]
    try:
        for place, new in moves:
            place.parent._modules[place.leaf] = new
        for rows in tables:
            put_in(rows)
        if trial is not None:
            trial.put_in()
    except BaseException:
        forget(model)
        for rows in tables:
            restore(rows.module)
        for place, new in moves:
            place.parent._modules[place.leaf] = new.old
        raise

"""What specs answer, what they say to the words of other libraries, and what they still are."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import functools
import inspect
import pickle
import re
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.calls import checked_call
from posenc._core.errors import closest
from posenc._core.spec.answers import ATTRIBUTES, VERBS, shown
from posenc._core.spec.checks import small
from posenc._names import SPECS
from posenc.encodings import api
from posenc.registry import lookup

PROMISED = {"constants", "parameters", "initial", "check"}  # to authors, by `posenc.encodings.api`
ENTRIES = {"table": "rows", "rotary": "phasors", "bias": "score", "relative": "score"}
WORDS = [
    "shape",
    "attend",
    "dtype",
    "ndim",
    "unrotate",
    "inverse",
    "decay",
    "scores",
    "get_slopes",
    "to_jax",
    "angles",
    "equal",
    "test",
    "code",
    "name",
    "decode",
    "num_params",
    "original_length",
    "to_hf",
    "score_mod",
    "shift",
    "explain",
    "at",
    "lookup",
    "weight",
    "theta",
    "rope_theta",
    "inv_freq",
    "freqs",
    "freqs_cis",
    "cos",
    "sin",
    "d_model",
    "max_len",
    "num_heads",
    "head_dim",
    "forward",
    "apply_rotary",
    "encode",
    "embed",
    "get_bias",
    "compute_bias",
    "to",
    "cuda",
    "state_dict",
    "pe",
    "save",
    "from_pretrained",
    "extend",
    "scale_up",
    "wavelength",
    "rotate",
    "add",
    "table",
    "bias",
    "relative",
    "cos_sin",
    "frequencies",
    "wavelengths",
    "plot_",
    "draw",
    "set_base",
    "nobody_knows",
    "slopes_of",
    "position_ids",
    "seq_len",
    "cache",
    "attention_scaling",
    "load",
    "ndim",
    "reset_parameters",
    "to_json",
    "copy",
]


@functools.cache
def one(name: str) -> Any:
    return small(lookup(name))


every = pytest.mark.parametrize("name", SPECS)


@every
def test_a_spec_is_still_a_value(name: str) -> None:
    """What makes it callable, long or indexed elsewhere makes it no list, array or function."""
    spec = one(name)
    assert bool(spec)
    assert copy.deepcopy(spec) == copy.copy(spec) == pickle.loads(pickle.dumps(spec)) == spec
    assert len({spec, copy.deepcopy(spec)}) == 1
    assert np.asarray(spec).shape == ()
    assert np.asarray(spec).item() is spec
    assert np.array([spec, spec]).shape == (2,)
    abc = collections.abc
    assert not isinstance(spec, (abc.Iterable, abc.Container, abc.Sequence, abc.Mapping))
    for spread in (iter, list, dict, lambda value: 3 in value):
        with pytest.raises(TypeError):
            spread(spec)
    fields = {field.name for field in dataclasses.fields(spec)}
    unknown = {*WORDS, "named_buffers", "detach", "__array__", "__len_hint__"} - shown(type(spec))
    assert not [word for word in unknown - fields if hasattr(spec, word) and word != "cos_sin"]


@every
def test_an_operator_and_a_class_teach_and_a_name_that_is_there_stays(name: str) -> None:
    spec, rows = one(name), np.ones((2, 3))
    for use in (lambda: rows + spec, lambda: spec * rows, lambda: 2 * spec, lambda: spec @ rows):
        with pytest.raises(posenc.KeywordError, match=r"to calculate with: spec\.|posenc\.table"):
            use()
    assert (rows == spec) is False  # as for every other object that is no array
    assert type(spec).kind == spec.kind
    assert isinstance(spec, type(spec))
    with pytest.raises(AttributeError, match=f"^{name} has no 'from_pretrained'"):
        type(spec).from_pretrained  # noqa: B018
    assert not hasattr(type(spec), "__wrapped__")


def test_a_finding_says_where_a_name_is_and_its_own_errors_stay() -> None:
    reading = posenc.explain({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4})
    assert not hasattr(reading, "spec")
    assert not hasattr(reading, "_spec")
    assert copy.deepcopy(reading) == pickle.loads(pickle.dumps(reading)) == reading
    with pytest.raises(AttributeError, match=r"Write value\.layers\[0\]\.spec\."):
        reading.spec  # noqa: B018
    with pytest.raises(AttributeError, match="Linear has no 'zz'. It has .*factor"):
        posenc.scaling.Linear(2.0).zz  # noqa: B018


@every
def test_verbs_that_ask_what_is_callable_take_no_spec_for_a_function(name: str) -> None:
    spec = one(name)
    for verb in (posenc.ask, posenc.infer_spec):
        with pytest.raises(posenc.CannotAsk, match="expected code, got a spec"):
            verb(spec)
    with pytest.raises(posenc.ArgumentError, match="expected a path, an array"):
        posenc.identify(spec)
    with pytest.raises(posenc.SpecError, match="base: expected a number or a tuple of a number"):
        posenc.RoPE(8, pairing="half", base=spec)
    told = f"expected integer positions, got {type(spec).__name__}"
    with pytest.raises(posenc.DTypeError, match=told):
        posenc.bias(posenc.ALiBi(2), spec)


@every
def test_dir_is_for_users(name: str) -> None:
    spec = one(name)
    names = dir(spec)
    assert len(names) <= 25
    assert {field.name for field in dataclasses.fields(spec)} <= {*names}
    assert {*VERBS[spec.kind], "replace", "to_dict", "bibtex"} <= {*names}
    assert not [each for each in names if each.startswith("_") or not hasattr(spec, each)]
    promised = {*PROMISED, ENTRIES[spec.kind]}
    assert not promised & {*names}
    assert all(hasattr(spec, each) for each in promised)


@every
def test_methods_are_the_verbs(name: str) -> None:
    spec = one(name)
    for method in VERBS[spec.kind]:
        if method in type(spec).__dataclass_fields__ or method in ("cos_sin", "plot"):
            continue
        verb = getattr(posenc, method)
        bound = getattr(spec, method)
        assert (bound.func, bound.args) == (verb, (spec,))
        assert [*inspect.signature(bound).parameters] == [*inspect.signature(verb).parameters][1:]
    if hasattr(type(spec), "matrix"):
        assert np.array_equal(spec.frequencies, posenc.frequencies(spec))
        assert np.array_equal(spec.wavelengths, posenc.wavelengths(spec))


@every
def test_what_is_written_elsewhere_is_told_and_no_word_misleads(name: str) -> None:
    """Each name of a spec that an error names is one that this spec has."""
    spec = one(name)
    said = []
    for use in (lambda: spec(1), lambda: spec(x=1), lambda: spec[5], lambda: len(spec)):
        with pytest.raises(posenc.KeywordError, match=f"^{name}: a spec is not") as called:
            use()
        said.append(str(called.value))
    for word in WORDS:
        if not hasattr(spec, word):
            with pytest.raises(
                AttributeError, match=f"^{name} has no '{word}'. .*[.?]$"
            ) as unknown:
                getattr(spec, word)
            said.append(str(unknown.value))
    told = {each for text in said for each in re.findall(r"\bspec\.(\w+)", text)}
    assert told <= shown(type(spec))
    assert all("\n" not in text and len(text) < 250 for text in said)


@every
def test_an_assignment_names_replace(name: str) -> None:
    spec = one(name)
    first = dataclasses.fields(spec)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError, match=rf"spec\.replace\({first}=3\)"):
        setattr(spec, first, 3)
    with pytest.raises(dataclasses.FrozenInstanceError, match="fields alone"):
        spec.nobody_knows = 3


def test_a_length_that_is_open_is_no_attribute_yet() -> None:
    rope = posenc.RoPE(8, pairing="half", scaling=posenc.scaling.DynamicNTK(2, original_length=64))
    assert not hasattr(rope, "frequencies")
    with pytest.raises(AttributeError, match=r"spec\.at\(length\)"):
        rope.wavelengths  # noqa: B018
    assert np.array_equal(rope.at(128).frequencies, posenc.frequencies(rope.at(128)))


def test_a_property_that_fails_says_why() -> None:
    class Broken(api.TableSpec):
        @property
        def matrix(self) -> Any:
            return self.nothing_of_the_kind

        def rows(self, *_: Any, **__: Any) -> Any: ...

    with pytest.raises(AttributeError, match="has no 'nothing_of_the_kind'"):
        Broken.matrix.fget(dataclasses.make_dataclass("B", [], bases=(Broken,), frozen=True)())  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class Older(api.RotarySpec):
    """An encoding of an author who knew `phasors` as `cos_sin`, and asks another by that name."""

    dim: int
    pairing: posenc.Pairing = posenc.Pairing("half")
    inner: posenc.RoPE = posenc.RoPE(4, pairing="half")

    def constants(self) -> Any:
        return self.inner.constants()

    def cos_sin(self, positions: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
        return self.inner.cos_sin(positions, constants, dtype=dtype, xp=xp)


class Later(Older):
    """One that builds on it."""

    def cos_sin(self, positions: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
        cos, sin = super().cos_sin(positions, constants, dtype=dtype, xp=xp)
        return cos, -sin


def test_encodings_with_the_older_name_go_on() -> None:
    rope, older, later = posenc.RoPE(4, pairing="half"), Older(4), Later(4)
    cos, sin = posenc.cos_sin(rope, 6)
    for spec, sign in ((rope, 1), (older, 1), (later, -1)):
        for got in (posenc.cos_sin(spec, 6), spec.cos_sin(6), spec.cos_sin(positions=range(6))):
            assert np.array_equal(got[0], cos)
            assert np.array_equal(got[1], sign * sin)
    x = np.ones((6, 4), np.float32)
    assert np.array_equal(older.rotate(x), rope.rotate(x))
    assert np.array_equal(later.rotate(x), posenc.rotate(rope, x, inverse=True))


def test_rows_of_words_are_reached() -> None:
    """No row of the table is hidden by one before it."""
    patterns = [pattern for pattern, _ in ATTRIBUTES]
    first = {next((p for p in patterns if re.fullmatch(p, word)), "") for word in WORDS}
    assert len(first & {*patterns}) >= len(patterns) - 3


@pytest.mark.costly
def test_methods_are_followed_by_dynamo() -> None:
    torch = pytest.importorskip("torch")
    rope, q = posenc.RoPE(8, pairing="half"), torch.randn(2, 5, 8)

    def turned(q: Any) -> Any:
        return rope.rotate(q) if rope and not hasattr(rope, "nothing") else q

    compiled = torch.compile(turned, fullgraph=True, backend="eager")
    assert torch.equal(compiled(q), posenc.rotate(rope, q))


def test_an_error_from_inside_a_call_stays_what_it_is() -> None:
    """A call whose arguments fit is not blamed for a mistake of the function."""

    @checked_call
    def verb(x: Any, /, *, y: int = 0) -> None:
        raise TypeError("of the inside")

    with pytest.raises(TypeError, match="of the inside"):
        verb(1)
    with pytest.raises(posenc.PosencError, match="known arguments, got z="):
        verb(1, z=2)


def test_a_word_with_a_negation_is_not_near_the_word_without() -> None:
    """`unrotate` does the opposite of `rotate`, however near it is in letters."""
    words = ("rotate", "interleave", "table")
    assert [
        closest(word, words) for word in ("unrotate", "de_interleave", "inverse_rotate")
    ] == 3 * [None]
    near = {"rotat": "rotate", "Rotate": "rotate", "tabel": "table", "interleaved": "interleave"}
    assert {word: closest(word, words) for word in near} == near

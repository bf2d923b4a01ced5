"""Specs: what can be written, what cannot, and what the errors say."""

from __future__ import annotations

import copy
import json
import pickle
import re
from importlib import resources
from typing import Any, cast

import numpy as np
import pytest

import posenc
from posenc import Arrangement, Ladder, Magnitude, Sinusoidal, SpecError
from posenc._core.spec.spec import Spec, to_json
from posenc._names import SPECS, VALUES
from posenc.registry import from_json, lookup


def refused(match: str, *args: Any, **kwargs: Any) -> None:
    with pytest.raises(SpecError, match=match):
        Sinusoidal(*args, **kwargs)


def test_json_writes_defaults_and_sorts_keys() -> None:
    text = to_json(Sinusoidal(8))
    data = json.loads(text)
    assert list(data) == sorted(data)
    assert list(data["ladder"]) == sorted(data["ladder"])
    assert data["base"] == 10000.0
    assert data["arrangement"]["start"] == 0
    assert data["phase"] == "exact"


def test_equal_meanings_have_equal_json() -> None:
    plain = Sinusoidal(8, base=10_000)
    same = Sinusoidal(np.int32(8), base=np.float32(10_000))
    assert plain == same
    assert to_json(plain) == to_json(same)
    assert hash(plain) == hash(same)
    listed = Ladder(spacing="explicit", frequencies=[1, 2])  # type: ignore[arg-type]
    assert listed == Ladder(spacing="explicit", frequencies=(1.0, 2.0))
    assert to_json(listed) == to_json(Ladder(spacing="explicit", frequencies=(1.0, 2.0)))


def test_a_different_field_is_a_different_fingerprint() -> None:
    specs = [
        Sinusoidal(8),
        Sinusoidal(10),
        Sinusoidal(8, base=500_000),
        Sinusoidal(8, order="sin_cos"),
        Sinusoidal(8, odd="cut"),
        Sinusoidal(8, phase="float32"),
        Sinusoidal(8, ladder=Ladder(denominator="n-1")),
        Sinusoidal(8, arrangement=Arrangement(start=2)),
        Sinusoidal(8, magnitude=Magnitude(embedding_scale="sqrt_dim")),
    ]
    assert len({spec.fingerprint for spec in specs}) == len(specs)
    assert Sinusoidal(8).fingerprint == Sinusoidal(8).fingerprint


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"type": "Sinusoidel", "dim": 4}', "Sinusoidel.*Did you mean 'Sinusoidal'"),
        ('{"type": "sinusoidal", "dim": 4}', "Did you mean 'Sinusoidal'"),
        ('{"type": "Sinusoidal", "dim": 4, "bsae": 2}', "'bsae'.*Did you mean 'base'"),
        ('{"type": "Sinusoidal"}', r"the keys \['dim'\]"),
        ('{"dim": 4}', "a key 'type'"),
        ('{"type": 3}', "a key 'type'"),
        ('{"type": "Sinusoidal", "dim": 4, "base": NaN}', "finite numbers, got NaN"),
        ('{"type": "Sinusoidal", "dim": 4, "base": Infinity}', "finite numbers, got Infinity"),
        ('{"type": "Sinusoidal", "dim": 4, "base": 1e999}', "finite number, got inf"),
        ('{"type": "Sinusoidal", "dim": 4, "dim": 8}', "each key once.*dim"),
        ('{"type": "Sinusoidal", "dim": "4"}', "dim: expected an integer, got '4'"),
        ('{"type": "Sinusoidal", "dim": 4.0}', "dim: expected an integer, got 4.0"),
        ('{"type": "Sinusoidal", "dim": true}', "dim: expected an integer, got True"),
        ('{"type": "Sinusoidal", "dim": 4, "ladder": 7}', "ladder: expected a Ladder, got 7"),
        ('{"type": "Sinusoidal", "dim": 4, "ladder": {"type": "Magnitude"}}', "a Ladder"),
        ('{"type": "Sinusoidal", "dim": 4, "order": "sincos"}', "Did you mean 'sin_cos'"),
        ("[1, 2]", "a JSON object"),
        ("nonsense", "not JSON"),
        ("", "^from_json: text is not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[" * 100_000, "nested deeper|not JSON"),
        (
            '{"type":"Sinusoidal","dim":' + '{"type":"Ladder","first":' * 60 + "1" + "}" * 61,
            "nested",
        ),
    ],
)
def test_bad_json_is_refused_with_a_reason(text: str | bytes, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        from_json(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "Sinusoidal", "dim": 2**40},
        {"type": "Timestep", "dim": 2**40},
        {"type": "RoPE", "dim": 2**40, "pairing": "half"},
        {
            "type": "GoldenGateRoPE",
            "dim": 8,
            "heads": 2**40,
            "pairing": "half",
            "lowest": 1,
            "highest": 2,
        },
        {"type": "ALiBi", "heads": 2**40},
        {"type": "Sandwich", "heads": 2**40},
        {"type": "LogCPB", "heads": 4, "window": [2**20, 2**20]},
        {"type": "DynamicBias", "heads": 4, "window": [2**40], "width": 8},
        {"type": "NEZHA", "dim": 8, "clip": 2**40},
    ],
    ids=lambda fields: fields["type"],
)
def test_a_stranger_cannot_have_constants_without_end(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="expected at most"):
        from_json(json.dumps(fields))


def test_from_json_gives_the_class_that_was_asked_for() -> None:
    text = posenc.to_json(posenc.RoPE(8, pairing="half"))
    assert posenc.from_json(text, posenc.RoPE) == posenc.RoPE(8, pairing="half")
    with pytest.raises(posenc.SpecError, match="expected the JSON of a XPos, got RoPE"):
        posenc.from_json(text, posenc.XPos)


def test_from_json_takes_texts_only() -> None:
    with pytest.raises(SpecError, match="a JSON text, got dict"):
        from_json({"type": "Sinusoidal", "dim": 4})  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="a spec, got int"):
        to_json(4)  # type: ignore[arg-type]


def test_json_keys_may_stand_in_any_order_and_defaults_may_be_left_out() -> None:
    text = '{"ladder": {"denominator": "n-1", "type": "Ladder"}, "dim": 4, "type": "Sinusoidal"}'
    assert from_json(text) == Sinusoidal(4, ladder=Ladder(denominator="n-1"))
    assert from_json(text.encode()) == from_json(text)


def test_values_have_json_of_their_own() -> None:
    for value in (Ladder(start=1), Magnitude(), Arrangement(rule="axial", axes=("h", "w"))):
        assert from_json(to_json(value)) == value


def test_bad_fields() -> None:
    refused("dim: expected a width of at least 1, got 0", 0)
    refused("dim: expected a width of at least 1, got -4", -4)
    refused("base: expected a positive number, got 0.0", 4, base=0)
    refused("base: expected a positive number", 4, base=-1)
    refused("base: expected a finite number, got nan", 4, base=float("nan"))
    refused("base: expected a finite number, got inf", 4, base=float("inf"))
    refused("order.*'interleaved' or 'sin_cos' or 'cos_sin'.*got 'cos'", 4, order="cos")
    refused("odd='error' allows for 2 pairs.*dim=5.*zero_pad", 5, odd="error")
    refused("frequencies up to 2", 64, base=1e-60)
    two_axes = Arrangement(rule="axial", axes=("h", "w"))
    refused("a width that odd='sin_extra' allows for 6 pairs", 9, arrangement=two_axes)
    with pytest.raises(TypeError):
        Sinusoidal(4, 100)  # type: ignore[misc]  # only the width is positional


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"denominator": "q"}, "'d/2', 'n', 'n-1'"),
        ({"denominator": "n-"}, "an expression"),
        ({"denominator": 0}, "other than 0"),
        ({"spacing": "linear"}, "`last` with spacing='linear'"),
        ({"last": 3}, "`last` only with spacing='linear'"),
        ({"spacing": "explicit"}, "`frequencies` with spacing='explicit'"),
        ({"frequencies": (1,)}, "`frequencies` only with spacing='explicit'"),
        ({"spacing": "octave", "start": 1}, "start and cos_shift 0 unless geometric"),
        ({"first": 0}, "a positive frequency"),
        ({"spacing": "explicit", "frequencies": (1, float("nan"))}, "a finite number"),
        ({"spacing": "explicit", "frequencies": 3}, "a tuple of a number"),
    ],
)
def test_bad_ladders(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(SpecError, match=match):
        Ladder(**fields)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"axes": ()}, "distinct names"),
        ({"axes": ("h", "h"), "rule": "axial"}, "distinct names"),
        ({"axes": ("h", "w")}, "one axis with rule='single'"),
        ({"axes": ("h", "w"), "rule": "axial", "order": ("h",)}, "the names"),
        ({"axes": ("h", "w"), "rule": "axial", "sizes": (3,)}, "2 counts of pairs"),
        ({"axes": ("h", "w"), "rule": "axial", "sizes": (3, -1)}, "2 counts of pairs"),
        ({"rule": "explicit"}, "axis: expected it with rule='explicit'"),
        ({"axis": (0,), "index": (0,)}, "rule='explicit' alone"),
        ({"rule": "explicit", "axis": (1,), "index": (0,)}, "one axis below 1"),
        ({"rule": "explicit", "axis": (0, 0), "index": (0,)}, "one axis below 1"),
        ({"start": 2**60}, "up to 2"),
    ],
)
def test_bad_arrangements(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(SpecError, match=match):
        Arrangement(**fields)


def test_sizes_must_add_up() -> None:
    uneven = Arrangement(rule="sections", axes=("t", "h"), sizes=(2, 1))
    with pytest.raises(SpecError, match="add up to 3"):
        uneven.layout(4)
    with pytest.raises(SpecError, match="divisible by the 2 axes.*3"):
        Arrangement(rule="axial", axes=("h", "w")).layout(3)
    with pytest.raises(SpecError, match="one for each rung|3 frequencies"):
        Sinusoidal(6, ladder=Ladder(spacing="explicit", frequencies=(1.0, 2.0)))


def test_specs_are_frozen() -> None:
    spec = Sinusoidal(8)
    with pytest.raises(AttributeError):
        spec.dim = 10  # type: ignore[misc]
    for array in spec.arrays.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_replace_checks_anew() -> None:
    assert Sinusoidal(8).replace(base=100) == Sinusoidal(8, base=100)
    with pytest.raises(SpecError, match="a width of at least 1"):
        Sinusoidal(8).replace(dim=0)
    with pytest.raises(SpecError, match="'bas'.*Did you mean 'base'"):
        Sinusoidal(8).replace(bas=3)


def test_copies_carry_fields_only_and_still_work() -> None:
    spec = Sinusoidal(8, arrangement=Arrangement(start=3))
    spec.device_arrays["a device"] = object()
    expected = posenc.table(spec, 4)
    for other in (copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert other == spec
        assert other.device_arrays == {}
        np.testing.assert_array_equal(posenc.table(other, 4), expected)
    assert len(pickle.dumps(Sinusoidal(4096))) < 2000


def test_registry_resolves_every_name() -> None:
    for name in (*SPECS, *VALUES):
        assert lookup(name).__name__ == name
        home = posenc if hasattr(posenc, name) else posenc.scaling
        assert getattr(home, name) is lookup(name)


def test_no_spec_has_more_than_eight_fields() -> None:
    import dataclasses

    from posenc._core.positions.builder import BUILDERS

    # These record what was read: a layer, and the arguments of one of several functions.
    records = {"Layer", "Positions"}
    for name in {*SPECS, *VALUES} - records:
        count = len(dataclasses.fields(lookup(name)))  # type: ignore[arg-type]
        assert count <= 8, f"{name} has {count} fields"
    assert max(len(builder.arguments) for builder in BUILDERS.values()) <= 8


def test_public_names() -> None:
    assert sorted(posenc.__all__, key=str) == sorted(set(posenc.__all__), key=str)
    for name in posenc.__all__:
        assert getattr(posenc, name) is not None
        assert name in dir(posenc)
    with pytest.raises(AttributeError, match="Did you mean 'Sinusoidal'"):
        _ = posenc.Sinusoidl


def test_a_repr_is_a_short_call_that_makes_the_same_spec() -> None:
    """What differs from the defaults, and what has none."""
    from tests.cases import CASES

    names = {**vars(posenc.scaling), **{name: getattr(posenc, name) for name in posenc.__all__}}
    for case in CASES:
        text = repr(case.spec)
        again = eval(text, names)
        assert again == case.spec
        assert posenc.to_json(again) == posenc.to_json(case.spec)
    assert repr(Sinusoidal(8)) == "Sinusoidal(8)"
    trailing = posenc.Pairing("half", part="trailing")
    assert repr(posenc.RoPE(64, pairing="half", base=10_000)) == "RoPE(64, pairing='half')"
    assert repr(posenc.RoPE(8, pairing=trailing)) == (
        "RoPE(8, pairing=Pairing('half', part='trailing'))"
    )
    assert repr(posenc.RoPE(8, pairing="half", scaling=posenc.scaling.Linear(2))) == (
        "RoPE(8, pairing='half', scaling=(Linear(2.0),))"
    )
    # Zeros of either sign are equal, and are two in JSON.
    ladder = posenc.Ladder(cos_shift=-0.0)
    assert posenc.to_json(eval(repr(ladder), names)) == posenc.to_json(ladder)


def test_papers_are_those_that_encodings_name() -> None:
    text = (resources.files("posenc") / "encodings" / "papers.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(.+),$", text, re.MULTILINE)
    assert keys == sorted({cast("type[Spec]", lookup(name)).paper for name in SPECS})
    for name in SPECS:
        cls = cast("type[Spec]", lookup(name))
        entry = re.escape(cls.paper) + r",\n([^\n]+\n)+\}"
        assert re.fullmatch(r"@(article|inproceedings|misc)\{" + entry, cls.bibtex)

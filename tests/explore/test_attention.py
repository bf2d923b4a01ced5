"""Attention and decay: the numbers against other code, and what the page says of them."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import posenc
from posenc._core.errors import ArgumentError, DataError, PosencError, PositionError
from posenc.explore import Session, frame, unpack
from posenc.explore.state import catalogue
from posenc.explore.state.entry import made, samples
from posenc.explore.state.files import load
from posenc.plot import content
from posenc.plot.content import from_arrays, random_content, trained_content
from posenc.plot.panels import text as words
from posenc.plot.views import attention
from posenc.plot.views.offset import decay

WORDS = ("John", "likes", "Jane", "very", "much")
HEADS = Path(content.__file__).parent / "data"
FEW = random_content(WORDS, 16)


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def every(sizes=16):
    """Each encoding that the view offers, at a small size, with its parameters."""
    for entry in catalogue.offered("attention"):
        values = {**samples(entry), "s": 0, "L": 64, "d": sizes, "heads": 8}
        try:
            chosen = made(entry, values)
        except PosencError:
            continue  # has a width of its own
        if getattr(chosen.spec, "dim", sizes) == sizes:
            yield entry.id, chosen.spec, chosen.params


SPECS = {name: (spec, params) for name, spec, params in every()}


def test_encodings_of_every_kind_are_here():
    assert {spec.kind for spec, _ in SPECS.values()} == {"table", "rotary", "bias", "relative"}
    assert {"shaw", "cope", "transformerxl", "t5", "learned", "pope", "xpos"} <= set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_outputs_are_those_of_the_attention_of_the_library(name):
    torch = pytest.importorskip("torch")
    from posenc.torch import attend

    spec, params = SPECS[name]
    head = FEW
    view = attention.data(spec, head, params=params, causal=True)
    q, k, v = head.q, head.k, head.v
    at = np.arange(len(WORDS))
    if spec.kind == "table":
        rows = posenc.table(spec, at, params=params, dtype="float64")
        maps = head.weights if spec.width == spec.dim else head.beside(rows.shape[1])
        q, k, v = (x + rows @ w for x, w in zip((q, k, v), maps, strict=True))
        entry, learned = None, {}
    else:
        entry = spec
        values = {n: torch.from_numpy(np.array(x)) for n, x in (params or {}).items()}
        learned = {spec.kind: values} if values else {}
    count = (spec.per_head if spec.kind == "rotary" else getattr(spec, "heads", None)) or 1
    sides = [torch.tensor(np.broadcast_to(x, (1, count, *x.shape))) for x in (q, k, v)]
    length = len(WORDS) if getattr(spec, "needs_length", False) else None
    expected = attend(*sides, entry, params=learned, mask="causal", length=length)[0, 0].numpy()
    np.testing.assert_allclose(view.outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SPECS)
def test_the_parts_of_a_score_add_up_to_it(name):
    spec, params = SPECS[name]
    order = (2, 0, 1, 4, 3)
    view = attention.data(spec, FEW, order=order, shift=7, params=params)
    for cell in ((2, 0), (0, 0), (1, 4)):
        if not np.isfinite(view.scores[cell]):
            continue
        parts = attention.parts(spec, FEW, cell, order=order, shift=7, params=params)
        assert sum(x for _, x in parts.terms) == pytest.approx(
            view.scores[cell], rel=1e-6, abs=1e-9
        )
        if parts.slope is not None:
            assert dict(parts.terms)["bias"] == pytest.approx(-parts.slope * abs(cell[0] - cell[1]))


def test_a_rotation_s_pairs_are_those_of_the_layout():
    """Of a key that turns in one pair alone, that pair is the whole sum."""
    for pairing in ("half", "interleaved"):
        spec = posenc.RoPE(16, pairing=pairing)
        for pair, members in enumerate(spec.channels.channels(16)):
            k = np.zeros((5, 16))
            k[:, members] = 1.0
            head = from_arrays(WORDS, FEW.q, k, FEW.v, name="", head=(0, 1))
            parts = attention.parts(spec, head, (1, 3), shift=50)
            assert set(np.flatnonzero(parts.pairs)) == {pair}


def test_without_positions_a_sentence_is_a_bag_of_words():
    for order in itertools.permutations(range(5)):
        view = attention.data(None, FEW, order=order, shift=9)
        assert view.equal.all()
        assert view.change == 0
        expected = softmax(FEW.q @ FEW.k.T / 4) @ FEW.v
        np.testing.assert_allclose(view.outputs, expected, atol=1e-12)
        scores = (FEW.q @ FEW.k.T / 4)[np.ix_(order, order)]
        np.testing.assert_allclose(view.scores, scores, atol=1e-12)


def test_with_positions_it_is_none_and_a_mask_is_an_order_too():
    swapped = (2, 1, 0, 3, 4)
    for spec in (posenc.Sinusoidal(16), posenc.RoPE(16, pairing="half")):
        assert not attention.data(spec, FEW, order=swapped).equal.any()
    masked = attention.data(None, FEW, order=swapped, causal=True).equal
    assert masked.tolist() == [False, False, False, True, True]
    # Of names that change places, the word between stays as far from both.
    assert attention.data(posenc.ALiBi(8), FEW, order=swapped).equal.tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_a_shift_changes(dtype):
    rope = attention.data(posenc.RoPE(16, pairing="half"), FEW, shift=4096, dtype=dtype).change
    assert 0 < rope < {"float64": 1e-12, "float32": 1e-5}[dtype]
    assert attention.data(posenc.ALiBi(8), FEW, shift=4096, dtype=dtype).change == 0
    spec = posenc.Sinusoidal(16)
    there = FEW.inputs + posenc.table(spec, np.arange(90, 95), dtype="float64")
    here = FEW.inputs + posenc.table(spec, 5, dtype="float64")
    scores = [x @ FEW.weights[0] @ (x @ FEW.weights[1]).T / 4 for x in (there, here)]
    change = attention.data(spec, FEW, shift=90, dtype=dtype).change
    assert change == pytest.approx(np.abs(scores[0] - scores[1]).max(), rel=1e-5)


def test_adding_is_appending_with_tied_weights():
    for spec in (posenc.Sinusoidal(16), posenc.Learned(16, length=64)):
        params = posenc.init(spec, seed=0) if spec.shapes else None
        for word, at in ((0, 0), (2, 40)):
            added, appended = attention.joined(spec, FEW, word, at, params=params)
            row = posenc.table(spec, [at], params=params, dtype="float64")[0]
            np.testing.assert_allclose(added, FEW.q[word] + row @ FEW.weights[0], atol=1e-12)
            np.testing.assert_allclose(appended, added, atol=1e-12)


def test_appended_with_weights_of_its_own_a_table_is_another_sum():
    spec = posenc.Concatenated(16, table=posenc.Sinusoidal(16))
    rows = posenc.table(spec, 5, dtype="float64")
    own = FEW.beside(16)
    view = attention.data(spec, FEW)
    expected = (FEW.q + rows @ own[0]) @ (FEW.k + rows @ own[1]).T / 4
    np.testing.assert_allclose(view.scores, expected, atol=1e-12)
    assert np.abs(own[0] - FEW.weights[0]).max() > 0.1
    sizes = [float(w.std()) for w in (own[0], FEW.weights[0])]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.2)


def test_what_does_not_fit_is_named():
    with pytest.raises(ArgumentError, match="each of 0 to 4 once"):
        attention.data(None, FEW, order=(0, 0, 1, 2, 3))
    with pytest.raises(ArgumentError, match="16 wide"):
        attention.data(posenc.Sinusoidal(8), FEW)
    spec = posenc.Learned(16, length=32)
    with pytest.raises(PositionError, match="0 to 31"):
        attention.data(spec, FEW, shift=30, params=posenc.init(spec, seed=0))
    with pytest.raises(ArgumentError, match="previous, content"):
        trained_content(WORDS, "other")
    with pytest.raises(ArgumentError, match="72 different words"):
        trained_content(list(map(str, range(73))), "previous")


# --- the trained heads ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    """The cell of the study that the heads are of, with the weights that are shipped."""
    torch = pytest.importorskip("torch")
    from tools.measure import attention_heads

    from posenc_study.cell import Cell
    from posenc_study.training.run import Run

    about = json.loads((HEADS / "heads.json").read_text())
    cell = Cell.from_json(json.dumps(about["cell"]))
    assert cell == attention_heads.CELL
    assert cell.key == about["key"]
    run = Run(cell)
    with np.load(HEADS / "heads.npz") as stored:
        state = {"embedding.weight": stored["embedding"]}
        for name in set(stored.files) - {"embedding"}:
            layer, short, kind = re.fullmatch(r"(\d)\.(.+)\.(\w+)", name).groups()
            long = attention_heads.PARTS[short]
            state[f"decoder.layers.{layer}.{long}.{kind}"] = stored[name]
    tensors = {name: torch.from_numpy(array.astype("float32")) for name, array in state.items()}
    left = run.model.load_state_dict(tensors, strict=False)
    assert not left.unexpected_keys
    assert set(attention_heads.weights(run)) == set(stored.files)
    behind = ("o_proj", "up", "down", "mlp_norm")  # the last queries and keys
    assert all(
        "final_norm" in name or ("layers.1" in name and any(part in name for part in behind))
        for name in left.missing_keys
    )
    return run, about, attention_heads


def test_the_shipped_weights_have_the_measures_that_are_stated(trained):
    run, about, tool = trained
    measures = tool.measured(run)
    for row, stated in zip(measures, about["measures"], strict=True):
        assert row == pytest.approx(stated, abs=0.01)
    for chosen in about["chosen"]:
        best = max(measures, key=lambda row: row[chosen["name"]])
        assert (best["layer"], best["head"]) == (chosen["layer"], chosen["head"])
        assert best[chosen["name"]] == pytest.approx(chosen["weight"], abs=0.01)
        assert chosen["weight"] > 0.95


def test_the_heads_are_those_of_the_model(trained, monkeypatch):
    import torch

    from posenc_study.model import transformer as model
    from posenc_study.model.inputs import Tokens

    run, about, _ = trained
    calls = []
    attend = model.attend
    monkeypatch.setattr(model, "attend", lambda *a, **more: calls.append(a) or attend(*a, **more))
    with torch.no_grad():
        run.model.double()(Tokens(torch.tensor([[1, 4, 5, 4, 6, 2, 4]])))
    for chosen in about["chosen"]:
        head = trained_content(["the", "dog", "the", "cat", "→", "the"], chosen["name"])
        assert head.causal
        for side, of_model in zip((head.q, head.k, head.v), calls[chosen["layer"]], strict=False):
            expected = of_model[0, chosen["head"], 1:].numpy()
            np.testing.assert_allclose(side, expected, atol=1e-6)


def test_the_heads_look_where_they_say():
    words = ["John", "likes", "Jane", "→", "John", "likes", "Jane"]
    rope = posenc.RoPE(16, pairing="half")
    previous = attention.data(rope, trained_content(words, "previous"), causal=True).weights
    assert np.diagonal(previous, -1)[:2].min() > 0.95
    copied = attention.data(rope, trained_content(words, "content"), causal=True).weights
    assert copied[[4, 5, 6], [1, 2, 3]].min() > 0.95


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.costly
def test_the_recipe_for_a_model_of_transformers(tmp_path):
    """The lines of the docs on a tiny model: its own attention comes out."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    transformers = pytest.importorskip("transformers")
    page = (Path(__file__).parents[2] / "docs" / "explorer.md").read_text(encoding="utf-8")
    recipe = re.search(r"```python\n(import json\n.*?)```", page, re.S)
    assert recipe
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=40, hidden_size=64, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
    ids = torch.tensor([[1, 5, 9, 5, 7, 3]])

    class Tokenizer:
        def __call__(self, text, return_tensors):
            return {"input_ids": ids}

        def convert_ids_to_tokens(self, row):
            return [f"t{int(n)}" for n in row]

    names = {}
    exec(recipe[1], names)
    path = str(tmp_path / "heads.safetensors")
    names["save_heads"](model, Tokenizer(), "", 1, path)
    with torch.no_grad():
        expected = model(ids, output_attentions=True).attentions[1][0].numpy()
    session = load(heads=path)
    heads = session.heads
    assert heads.tokens == ("t1", "t5", "t9", "t5", "t7", "t3")
    for number in range(4):
        head = from_arrays(
            heads.tokens,
            heads.q[number],
            heads.k[number],
            heads.v[number],
            name="",
            head=(number, 4),
        )
        view = attention.data(posenc.RoPE(16, pairing="half"), head, causal=True)
        np.testing.assert_allclose(view.weights, expected[number], atol=1e-6)
    header = unpack(frame({"v": "attention", "qk": "file", "hd": "3"}, session)).header
    assert "head 3 of 4 in heads.safetensors" in header["lead"]
    assert header["panels"][0]["words"] == list(heads.tokens)


def arrays(**shapes):
    return {name: np.ones(shape, "float32") for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (arrays(q=(2, 3, 4)), "`q` and `k`"),
        (arrays(q=(2, 3, 4), k=(2, 5, 4)), r"k: expected .*\(2, 5, 4\)"),
        (arrays(q=(3, 3, 4), k=(2, 3, 4)), "k: expected"),
        (arrays(q=(2, 1, 4), k=(2, 1, 4)), "two words"),
        (arrays(q=(2, 3), k=(2, 3)), "q: expected"),
        (arrays(q=(0, 3, 4), k=(0, 3, 4)), "q: expected"),
        (arrays(q=(2, 3, 4), k=(2, 3, 4), v=(2, 2, 4)), "v: expected"),
        ({**arrays(q=(2, 3, 4)), "k": np.full((2, 3, 4), 1e20)}, "finite numbers up to 1e"),
        ({**arrays(q=(2, 3, 4), k=(2, 3, 4)), "v": np.full((2, 3, 4), 1e300)}, "v: expected"),
        (arrays(q=(257, 2, 1), k=(1, 2, 1)), "at most 256"),
        (arrays(q=(1, 2, 1025), k=(1, 2, 1025)), "at most 1,024 wide"),
        (arrays(q=(2, 2, 1), k=(1, 2, 1), v=(1, 2, 1025)), "v: expected"),
        ({**arrays(q=(2, 3, 4)), "k": np.full((2, 3, 4), np.nan)}, "finite"),
    ],
)
def test_a_file_without_queries_and_keys_is_named(stored, words, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **stored)
    with pytest.raises(DataError, match=words):
        load(heads=str(path))


def test_the_largest_numbers_of_a_file_can_be_drawn(tmp_path):
    large = np.full((1, 2, 1024), 1e15)
    np.savez(tmp_path / "x.npz", q=large, k=-large, v=large)
    session = load(heads=str(tmp_path / "x.npz"))
    for dtype in ("float32", "float64"):
        header = unpack(frame({"v": "attention", "qk": "file", "prec": dtype}, session)).header
        assert "not a number" not in json.dumps(header)


def test_a_file_says_how_much_of_it_is_shown(tmp_path):
    rng = np.random.default_rng(0)
    many = {f"other{n}": np.zeros((1, 2, 2)) for n in range(70)}
    np.savez(tmp_path / "x.npz", **many, q=rng.normal(size=(4, 99, 8)), k=np.ones((2, 99, 8)))
    session = load(heads=str(tmp_path / "x.npz"))
    header = unpack(frame({"v": "attention", "qk": "file", "hd": "6"}, session)).header
    problems = {problem["field"]: problem["message"] for problem in header["problems"]}
    assert problems["text"] == "The first 12 words of 99 are drawn."
    assert problems["hd"] == "Head 6: there are heads 0 to 3. Drawn with 2."
    header = unpack(frame({"v": "rotate", "d": "8"}, session)).header
    use = next(panel for panel in header["panels"] if panel["id"] == "use")
    assert "the first 64 words of 99" in use["caption"]


def test_tokens_of_a_file_are_short_and_visible(tmp_path):
    pytest.importorskip("safetensors")
    from safetensors.numpy import save_file

    sides = {"q": np.ones((1, 3, 4), "float32"), "k": np.ones((1, 3, 4), "float32")}
    tokens = r'["\ud800\u202e", "' + "x" * 10_000 + '", " "]'
    save_file(sides, tmp_path / "x.safetensors", metadata={"tokens": tokens})
    heads = load(heads=str(tmp_path / "x.safetensors")).heads
    assert heads.tokens == ("??", "x" * 40 + "…", "␣")


def test_the_python_of_a_file_runs(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    sides = {"q": rng.normal(size=(4, 5, 8)), "k": rng.normal(size=(2, 5, 8))}
    np.savez(tmp_path / "heads.npz", **sides)
    session = load(heads=str(tmp_path / "heads.npz"))
    monkeypatch.chdir(tmp_path)
    state = {"v": "attention", "qk": "file", "hd": "3", "perm": "1.0.2.3.4"}
    state |= {"enc": "sinusoidal"}  # which the shift changes
    header = unpack(frame(state, session)).header
    names = {}
    exec(header["python"], names)
    assert (
        f"change by up to {float(names['view'].change):.1e}"[:19]
        in header["panels"][1]["cells"][2]["note"]
    )
    np.testing.assert_array_equal(names["k"], sides["k"][1])


# --- the page -------------------------------------------------------------------------------------


def page(**state):
    message = unpack(frame({"v": "attention", "qk": "random", "softmax": "0", **state}))
    assert not message.header["problems"], message.header["problems"]
    return message.header, message.arrays


def test_it_is_the_first_view():
    assert unpack(frame({})).header["view"] == "attention"


def test_the_grids_are_the_library_s_on_one_scale():
    header, arrays = page(perm="2.1.0.3.4", shift="1000", prec="float64")
    words = random_content(WORDS, 64)
    specs = (None, posenc.Sinusoidal(64), posenc.RoPE(64, pairing="half"), posenc.ALiBi(8))
    views = [attention.data(s, words, order=(2, 1, 0, 3, 4), shift=1000) for s in specs]
    limit = max(np.abs(view.scores).max() for view in views)
    from posenc.plot import palette

    chips, grids = header["panels"][:2]
    assert chips["words"] == ["Jane", "likes", "John", "very", "much"]
    assert [link["text"] for link in chips["links"]] == ["John likes Jane very much"]
    for view, cell in zip(views, grids["cells"], strict=True):
        np.testing.assert_array_equal(
            arrays[cell["grid"]["tile"]], palette.indices(view.scores, limit)
        )
        assert cell["words"] == ["Jane", "John", "likes", "much", "very"]
        assert cell["equal"] == view.equal[[2, 0, 1, 4, 3]].tolist()


def test_one_click_exchanges_the_names():
    links = page()[0]["panels"][0]["links"]
    assert [(link["text"], link["state"]) for link in links] == [
        ("Jane likes John very much", {"perm": "2.1.0.3.4"})
    ]
    for text, swapped in (
        ("So John likes Jane", "So Jane likes John"),
        ("the dog chased the cat", "cat dog chased the the"),
        ("Ann Bob", "Bob Ann"),
    ):
        assert page(text=text)[0]["panels"][0]["links"][0]["text"] == swapped


@pytest.mark.parametrize(("text", "order"), [("a a", "1.0"), ("John likes John", "2.1.0")])
def test_equal_words_that_change_places_change_nothing(text, order):
    message = unpack(frame({"v": "attention", "text": text, "perm": order}))
    cells = message.header["panels"][1]["cells"]
    outcomes = {cell["outcome"] for cell in cells}
    assert outcomes == {"Equal words have changed places: the sentence is the same."}


def test_the_vectors_of_few_widths_are_kept():
    """A slider of the width goes through hundreds of them, of 25 MB each."""
    for width in range(2, 42, 2):
        frame({"v": "attention", "qk": "random", "d": str(width)})
    assert content._projections.cache_info().currsize == 4


def test_a_mirror_image_is_no_bag_of_words():
    state = {"qk": "random", "text": "John likes Jane", "perm": "2.1.0"}
    cells = page(**state)[0]["panels"][1]["cells"]
    assert [cell["outcome"].partition(" (")[0] for cell in (cells[0], cells[3])] == [
        "The same outputs, a bag of words",
        "The same outputs",
    ]


def test_a_small_change_is_never_called_none():
    for prec in ("float32", "float64"):
        cells = page(shift="4096", prec=prec)[0]["panels"][1]["cells"]
        assert "× 10⁻" in cells[2]["note"]
        assert cells[0]["note"].endswith("scores keep the same bits.")
        assert re.search(r"change by up to [1-9]", cells[1]["note"])


@pytest.mark.parametrize("source", ["random", "previous", "content"])
def test_the_source_of_queries_and_keys_is_named_and_their_python_runs(source):
    header, _ = page(qk=source, softmax="1", shift="50")
    assert {"random": "seed 0", "previous": "0.96", "content": "0.99"}[source] in header["lead"]
    names = {}
    exec(header["python"], names)
    grid = header["panels"][1]["cells"][2]["grid"]
    assert (grid["low"], grid["high"]) == ("0", "1")
    assert grid["numbers"] == [
        [words.signed(x, 2) if seen else "" for x, seen in zip(row, mask, strict=True)]
        for row, mask in zip(names["view"].weights, np.isfinite(names["view"].scores), strict=True)
    ]
    assert bool(grid["mask"]) == (source != "random")
    assert names["view"].weights.shape == (5, 5)


def test_an_encoding_that_ends_says_where():
    header, _ = page(e1="learned", shift="600", e4="shaw")
    cells = header["panels"][1]["cells"]
    assert "0 to 511" in cells[0]["note"]
    assert cells[0]["words"] == []
    assert cells[3]["note"].endswith("the same bits.")


@pytest.mark.parametrize(
    ("state", "field"),
    [
        ({"perm": "0.1"}, "perm"),
        ({"text": "one"}, "text"),
        ({"text": "a " * 30}, "text"),
        ({"qk": "file"}, "qk"),
        ({"e1": "nothing"}, "e1"),
    ],
    ids=str,
)
def test_what_cannot_be_is_named(state, field):
    header = unpack(frame({"v": "attention", **state}, Session())).header
    assert [problem["field"] for problem in header["problems"]] == [field]
    assert len(header["panels"][1]["cells"]) == 4


# --- decay ----------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    "spec",
    [
        posenc.RoPE(32, pairing="half"),
        posenc.RoPE(32, pairing="half", base=5e5),
        posenc.RoPE(
            32, pairing="interleaved", scaling=posenc.scaling.YaRN(8.0, original_length=64)
        ),
    ],
    ids=["plain", "base", "yarn"],
)
def test_decay_is_that_of_random_vectors(spec):
    curves = decay(spec, farthest=64, points=400)
    np.testing.assert_array_equal(curves.distances, np.arange(1, 65))
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 4000, 32))
    rel = -np.arange(65)
    same = posenc.relative_score(spec, q, q, rel)
    same /= same[:, 0].mean()
    other = posenc.relative_score(spec, q, k, rel)
    other /= posenc.relative_score(spec, q, q, rel)[:, 0].mean()
    near = 5 / np.sqrt(len(q))  # five standard errors
    assert (
        np.abs(same[:, 1:].mean(axis=0) - curves.same).max()
        < near * curves.same_spread.max() + 1e-2
    )
    assert same[:, 1:].std(axis=0) == pytest.approx(curves.same_spread, rel=0.1)
    assert other.std(axis=0) == pytest.approx(curves.other_spread, rel=0.1)
    assert np.abs(other.mean(axis=0)).max() < near * curves.other_spread


@pytest.mark.parametrize("name", ["imaginaryrope", "xpos"])
def test_decay_is_of_rotations_that_turn_both_sides_alike(name):
    spec, _ = SPECS[name]
    with pytest.raises(posenc.SpecError, match="alike"):
        decay(spec)
    header = unpack(frame({"v": "distance", "enc": name})).header
    assert "decay" not in [panel["id"] for panel in header["panels"]]


def test_a_declared_length_is_not_called_trained():
    curves = decay(posenc.RoPE(8, pairing="half"), farthest=64, points=8, declared=32)
    assert (curves.trained, curves.declared) == (None, 32)


def test_no_score_passes_the_bound():
    """Abel's summation, as in the paper: the largest step of q k times the sum of partial sums."""
    spec = posenc.RoPE(32, pairing="interleaved")
    curves = decay(spec, farthest=64, points=400)
    q, k = np.random.default_rng(1).standard_normal((2, 500, 32))
    h = (q[:, ::2] + 1j * q[:, 1::2]) * (k[:, ::2] - 1j * k[:, 1::2])
    steps = np.abs(np.diff(h, axis=1, append=0)).max(axis=1)
    scores = posenc.relative_score(spec, q, k, -np.arange(1, 65))
    assert (np.abs(scores) <= steps[:, None] * curves.bound * 16 * 17 / 2).all()


def test_the_page_shows_decay_with_its_lengths():
    header = unpack(frame({"v": "distance", "enc": "preset:llama3"})).header
    chart = next(p for p in header["panels"] if p["id"] == "decay")
    assert [mark["text"] for mark in chart["marks"]] == ["trained on 8,192"]
    assert chart["x"]["domain"] == [1.0, 131072.0]
    assert len(chart["series"]) == 3
    plain = unpack(frame({"v": "distance"})).header
    assert "decay" not in [p["id"] for p in plain["panels"]]

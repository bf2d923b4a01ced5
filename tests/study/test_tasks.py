"""The tasks of the study: what they ask, that they repeat, and what they say of bad files."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="batches are torch's")

from posenc import ArgumentError, DataError  # noqa: E402
from posenc_study.tasks import TASKS, task  # noqa: E402
from posenc_study.tasks.base import (  # noqa: E402
    IGNORED,
    PAD,
    Batch,
)
from posenc_study.tasks.files import digest  # noqa: E402
from posenc_study.tasks.markov import Markov  # noqa: E402
from posenc_study.tasks.order import mirrored  # noqa: E402
from posenc_study.tasks.seq2seq import Seq2Seq, sentence  # noqa: E402
from posenc_study.tasks.text_lm import CORPUS, DIGEST, TextLM  # noqa: E402

EVERY = sorted(TASKS)


def words(name: str, ids: torch.Tensor) -> list[str]:
    tokens = TASKS[name]().tokens
    return [tokens[i] for i in ids.tolist() if i != PAD]


def answers(name: str, row: torch.Tensor) -> list[str]:
    tokens = TASKS[name]().tokens
    return [tokens[i] for i in row.tolist() if i != IGNORED]


def parts(batch: Batch) -> list[torch.Tensor]:
    found = [batch.target.ids, batch.answers]
    return found if batch.source is None else [*found, batch.source.ids]


@pytest.mark.parametrize("name", EVERY)
def test_batches_follow_from_seed_and_step(name: str) -> None:
    one, other = TASKS[name](), TASKS[name]()
    for a, b in zip(parts(one.batch(1, 2)), parts(other.batch(1, 2)), strict=True):
        assert torch.equal(a, b)
    for seed, step in ((1, 3), (2, 2)):
        a, b = one.batch(1, 2).target.ids, other.batch(seed, step).target.ids
        assert a.shape != b.shape or not torch.equal(a, b)


@pytest.mark.parametrize("name", EVERY)
def test_lengths_and_vocabulary_are_as_announced(name: str) -> None:
    made = TASKS[name]({"examples": 12})
    batches = [made.batch(0, step) for step in range(4)]
    assert all(max(p.shape[1] for p in parts(b)) <= made.span(made.length) for b in batches)
    tests = list(made.tests())
    assert [test.bucket for test in tests] == [f"{factor:g}L" for factor in made.factors]
    longest = max(p.shape[1] for test in tests for b in test.batches for p in parts(b))
    assert longest <= made.longest
    for batch in (*batches, *(b for test in tests for b in test.batches)):
        assert batch.target.ids.shape == batch.answers.shape
        assert batch.target.ids.dtype == batch.answers.dtype == torch.int64
        asked = batch.answers[batch.answers != IGNORED]
        assert len(asked)
        for values in (*parts(batch)[::2], batch.target.ids, asked):
            kept = values[values != IGNORED]
            assert kept.min() >= 0
            assert kept.max() < len(made.tokens)
        assert (batch.answers[batch.target.ids == PAD] == IGNORED).all() or name == "markov"


@pytest.mark.parametrize("name", EVERY)
def test_the_first_bucket_holds_nothing_longer_than_was_trained(name: str) -> None:
    made = TASKS[name]({"examples": 12})
    first = next(made.tests())
    assert max(p.shape[1] for b in first.batches for p in parts(b)) <= made.span(made.length)


@pytest.mark.parametrize("name", EVERY)
def test_a_perfect_answer_is_perfect(name: str) -> None:
    made = TASKS[name]({"examples": 6})
    batch = next(made.tests()).batches[0]
    sure = torch.nn.functional.one_hot(batch.answers.clamp(min=0), len(made.tokens)) * 100.0
    found = {metric: values.mean().item() for metric, values in made.score(sure, batch).items()}
    assert found["accuracy"] == 1
    assert found["nats"] < 1e-6
    wrong = made.score(-sure, batch)
    assert wrong["accuracy"].mean() == 0


# --- what each task asks --------------------------------------------------------------------------


def test_order_asks_for_the_first_name_and_shows_both_sentences() -> None:
    made = task("order")()
    test = next(made.tests())
    batch = test.batches[-1]
    for i in range(0, len(batch.answers), 2):
        one, other = (words("order", batch.target.ids[j]) for j in (i, i + 1))
        names = [word for word in one if word[0].isupper()]
        assert [word for word in other if word[0].isupper()] == names[::-1]
        assert sorted(one) == sorted(other)
        assert answers("order", batch.answers[i]) == names[:1]
        assert answers("order", batch.answers[i + 1]) == names[1:]
        assert one[-1] == "?"
    row = batch.target.ids[0].tolist()
    assert mirrored(mirrored(row)) == row


@pytest.mark.parametrize("name", ["copy", "sort"])
def test_lists_of_a_decoder(name: str) -> None:
    batch = TASKS[name]().batch(0, 0)
    for row, asked in zip(batch.target.ids, batch.answers, strict=True):
        said, wanted = words(name, row), answers(name, asked)
        arrow = said.index("→")
        given = said[1:arrow]
        expected = given if name == "copy" else sorted(given, key=int)
        assert wanted == [*expected, "]"]
        assert said[arrow + 1 :] == expected
        assert name != "copy" or len(set(given)) == len(given)


def test_reverse_is_an_encoder_decoder_task() -> None:
    batch = task("reverse")().batch(0, 0)
    assert batch.source is not None
    assert torch.equal(batch.source.seen, batch.source.ids != PAD)
    for source, said, asked in zip(batch.source.ids, batch.target.ids, batch.answers, strict=True):
        given = words("reverse", source)
        assert words("reverse", said) == ["[", *given[::-1]]
        assert answers("reverse", asked) == [*given[::-1], "]"]


def test_addition_adds() -> None:
    batch = task("addition")({"length": 30}).batch(0, 0)
    for row, asked in zip(batch.target.ids, batch.answers, strict=True):
        said = "".join(words("addition", row))
        a, b = said[1 : said.index("=")].split("+")
        total = "".join(answers("addition", asked))
        assert total == str(int(a) + int(b))[::-1] + "]"


def test_flip_flop_reads_what_was_written() -> None:
    batch = task("flip-flop")().batch(0, 0)
    for row, asked in zip(batch.target.ids, batch.answers, strict=True):
        said = words("flip-flop", row)
        assert said[0] == "w"
        assert said[-1] == "r"
        memory, wanted = "", []
        for does, bit in zip(said[::2], [*said[1::2], ""], strict=True):
            memory = bit if does == "w" else memory
            wanted += [memory] if does == "r" else []
        assert answers("flip-flop", asked) == wanted
    with pytest.raises(ArgumentError, match="share from 0"):
        task("flip-flop")({"ignored": 1.0})


def test_markov_knows_its_entropy() -> None:
    made = Markov({"symbols": 4})
    batch = made.draw(np.random.default_rng(0), 400, 200)
    said = torch.cat([batch.target.ids[:, :1], batch.answers], dim=1).numpy() - 1
    for state in ((0, 1), (2, 2), (3, 0)):
        here = (said[:, :-2] == state[0]) & (said[:, 1:-1] == state[1])
        drawn = said[:, 2:][here]
        shares = np.bincount(drawn, minlength=4) / len(drawn)
        assert np.abs(shares - made.table[state]).max() < 5 * (0.25 / len(drawn)) ** 0.5
    # A model that knows the table has no excess, whatever was drawn.
    ids = batch.target.ids.numpy() - 1
    before = np.concatenate([ids[:, :1], ids[:, :-1]], axis=1)
    known = np.log(made.table[before, ids])
    logits = torch.from_numpy(np.concatenate([np.full((*known.shape[:2], 1), -50.0), known], -1))
    assert made.score(logits, batch)["excess"].abs().max() < 1e-9


def test_a_translation_by_hand() -> None:
    """Object, subject, verb; adjectives behind their noun, the nearest first; adverbs stay."""
    found: dict[str, set[str]] = {}
    for seed in range(300):
        source, target = sentence(np.random.default_rng(seed), 8)
        assert len(source) == len(target) == 8
        if "e" in source:
            place, there = source.index("e"), target.index("ja")
            assert len(target[:there]) == place
            continue
        (verb,) = (i for i, word in enumerate(source) if word.endswith("ir"))
        (whom,) = (i for i in range(verb, 8) if source[i][-1] in "oa")
        expected = [
            *source[verb + 1 : whom + 1][::-1],
            *source[:verb][::-1],
            *source[whom + 1 :],
            source[verb],
        ]
        for one, other in zip(expected, target, strict=True):
            found.setdefault(one, set()).add(other)
        assert target[0].endswith("n")
        assert target[whom - verb].endswith("r")
    for one, others in found.items():
        stems = {other[:-1] if one[-1] in "oa" else other for other in others}
        assert len(stems) == 1, one
    assert len({frozenset(others) for others in found.values()}) == len(found)


def test_a_tenth_of_the_source_is_blotted_out() -> None:
    made = Seq2Seq({"batch": 512})
    source = made.batch(0, 0).source
    assert source is not None
    share = (source.ids == 2).sum() / source.seen.sum()
    assert 0.08 < share < 0.12
    clean = Seq2Seq({"batch": 64, "blots": 0.0}).batch(0, 0).source
    assert clean is not None
    assert not (clean.ids == 2).any()


# --- the text -------------------------------------------------------------------------------------


def test_the_corpus_is_the_frozen_one() -> None:
    assert (
        hashlib.sha256(lzma.decompress(CORPUS.read_bytes())).hexdigest() == digest(CORPUS) == DIGEST
    )
    assert CORPUS.stat().st_size < 96_000
    licence = (CORPUS.parent / "python-reference.LICENSE.txt").read_text()
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in licence
    notes = (CORPUS.parent / "README.md").read_text()
    assert DIGEST in notes
    assert "3.11.7" in notes


def test_windows_are_of_the_text_and_tests_of_what_was_held_back() -> None:
    made = TextLM()
    text = lzma.decompress(CORPUS.read_bytes()).decode()
    cut = len(text) * 9 // 10
    batch = made.batch(0, 0)
    for row, asked in zip(batch.target.ids, batch.answers, strict=True):
        assert torch.equal(row[1:], asked[:-1])
        assert "".join(made.tokens[i] for i in row.tolist()) in text[:cut]
    for test in made.tests():
        for batch in test.batches:
            rows = ["".join(made.tokens[i] for i in row.tolist()) for row in batch.target.ids]
            assert all(row in text[cut:] for row in rows)
            assert len(set(rows)) > 0.95 * len(rows), "the text says few things twice"
    characters = [batch.answers.numel() for test in made.tests() for batch in test.batches]
    assert max(characters) < 1.3 * min(characters), "blocks of the longest, cut to each length"


def test_the_last_places_are_the_last() -> None:
    made = TextLM()
    batch = list(made.tests())[-1].batches[0]
    logits = torch.zeros(*batch.answers.shape, len(made.tokens))
    logits[:, -32:] = torch.nn.functional.one_hot(batch.answers[:, -32:], len(made.tokens)) * 99.0
    found = made.score(logits, batch)
    assert found["nats-last"].mean() < 1e-9
    assert found["nats"].mean() > 3


def test_any_text_will_do(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes("Zwölf Boxkämpfer jagen Eva quer über den Sylter Deich.\r\n".encode() * 300)
    made = TextLM({"data": digest(path)}, path)
    assert "ö" in made.tokens
    assert "\r" not in made.tokens
    rare = tmp_path / "rare.txt"
    rare.write_text("".join(chr(0x4E00 + i % 3000) for i in range(9000)) + "ab" * 4000)
    found = TextLM({"data": digest(rare)}, rare)
    assert len(found.tokens) == 256


HOSTILE = {
    "empty": (b"", "a text, got an empty file"),
    "blank": (b" \n\t\n", "a text, got an empty file"),
    "latin": (b"first line\ncaf\xe9 au lait\n", "0xe9 in line 2"),
    "one": (b"a", "several characters, got 'a'"),
    "same": (b"a" * 9000, "several characters, got 'a'"),
    "short": (b"ab" * 100, "at least .* characters"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_bad_texts_are_explained(name: str, tmp_path: Path) -> None:
    raw, message = HOSTILE[name]
    path = tmp_path / f"{name}.txt"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=message):
        TextLM({"data": digest(path)}, path)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "a file in xz"),
        ("cut", "one whole stream of xz, got a part of one"),
        ("longer", "one whole stream of xz, got bytes behind it"),
        ("bomb", "a text of at most 67108864 bytes, got more"),
    ],
)
def test_texts_in_xz_that_are_not_read(tmp_path: Path, name: str, message: str) -> None:
    whole = lzma.compress(b"a text of characters\n" * 40)
    path = tmp_path / f"{name}.txt.xz"
    contents = {
        "broken": b"words that nobody compressed",
        "cut": whole[:-20],
        "longer": whole + b"more",
        "bomb": lzma.compress(bytes(2**26 + 1), preset=0),
    }
    path.write_bytes(contents[name])
    with pytest.raises(DataError, match=message):
        digest(path)


def test_files_that_are_not_the_ones_meant(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("some text or other, again and again. " * 400)
    with pytest.raises(DataError, match=f"Set `data` to {digest(path)}"):
        TextLM({}, path)
    with pytest.raises(DataError, match="by its digest"):
        TextLM({"data": "0" * 64})
    with pytest.raises(DataError, match="No such file"):
        TextLM({}, tmp_path / "absent.txt")
    with pytest.raises(DataError, match="a regular file, got a folder"):
        TextLM({}, tmp_path)
    with pytest.raises(ArgumentError, match="no file"):
        task("order")({}, path)


# --- pairs of sentences ---------------------------------------------------------------------------


def pairs(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_any_pairs_will_do(tmp_path: Path) -> None:
    lines = [f"the dog sees {i} cats\tder Hund sieht {i} Katzen" for i in range(100)]
    path = pairs(tmp_path, "\n".join(lines))
    made = Seq2Seq({"data": digest(path), "length": 5, "factors": "1", "blots": 0.0}, path)
    batch = made.batch(0, 0)
    assert batch.source is not None
    source = " ".join(made.tokens[i] for i in batch.source.ids[0].tolist())
    target = " ".join(made.tokens[i] for i in batch.answers[0].tolist())
    assert f"{source}\t{target.removesuffix(' ]')}" in lines
    (test,) = made.tests()
    held = {line.split("\t")[0] for line in lines[9::10]}
    tested = test.batches[0].source
    assert tested is not None
    for row in tested.ids:  # numbers of the held lines were never met
        found = " ".join(made.tokens[i] for i in row.tolist())
        assert found == "the dog sees ? cats"
    assert held


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\tc d\nno tab here\n", "a tab between them in line 2, got 'no tab here'"),
        ("a\tb\tc\n", "line 1"),
        ("a b\t\n", "line 1"),
        ("a\tb\n", "every tenth to test"),
        ("\n\n", "empty file"),
        ("\n".join(["long " * 40 + "\t" + "long " * 40] * 30), "up to 12 words"),
    ],
)
def test_bad_pairs_are_explained(text: str, message: str, tmp_path: Path) -> None:
    path = pairs(tmp_path, text)
    with pytest.raises(DataError, match=message):
        Seq2Seq({"data": digest(path)}, path)


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 3}, "Did you mean 'steps'"),
        ({"steps": 0.5}, "of type int"),
        ({"steps": True}, "of type int"),
        ({"length": 0}, "at least 1"),
        ({"factors": "1 two"}, "multiples of the trained length"),
        ({"factors": "0.5"}, "multiples of the trained length"),
        ({"heads": 5}, "divides the width"),
        ({"symbols": 30}, "no symbol repeats"),
    ],
)
def test_bad_settings_are_explained(settings: dict[str, object], message: str) -> None:
    def shape() -> object:
        return task("copy")(settings).shape

    with pytest.raises(ArgumentError, match=message):
        shape()


def test_unknown_tasks_are_explained() -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'reverse'"):
        task("revers")

"""Translation between two invented languages, or between any two columns of a file.

The source language says subject, verb, object, with adjectives before their noun; the target says
object, subject, verb, with adjectives after it, and marks by its ending what a noun is:

    soft dog sees big red cat now    ->    cat-n red big dog-r soft now sees

in words that nobody knows. Which adjective belongs to which noun, and who sees whom, is said by the
order of words alone. A tenth of the source's words are blotted out, so that no model can be right
about all: encodings that all reach the top of a scale say little about being alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from posenc._core.errors import DataError, mismatch
from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import IGNORED, PAD, Batch, Scalar, Task, padded
from posenc_study.tasks.files import checked, text_of

GRAMMAR = "grammar"  # in the settings, in place of the digest of a file
WORDS = 4000  # of a file that are kept
SPECIAL = ("·", "[", "?", "]")
BEGIN, UNKNOWN, END = 1, 2, 3

NOUNS, VERBS, ADJECTIVES, ADVERBS = 24, 12, 12, 6
AND = "e"

Pair = tuple[list[str], list[str]]


class Seq2Seq(Task):
    """An encoder and a decoder, between two invented languages or two columns of a file."""

    name = "seq2seq"
    words = "translation between two invented languages of different word order"
    stacks = "encoder-decoder"
    reads = True
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 12,
        "layers": 2,
        "steps": 1200,
        "rate": 0.003,
        "blots": 0.1,
        "factors": "1 1.5 2",
        "examples": 384,
        "data": GRAMMAR,
    }

    def prepare(self, data: Path | None) -> None:
        """Make the dictionary, or read the file."""
        if data is not None:
            checked(data, str(self.settings["data"]), f"Task {self.name}", GRAMMAR)
            self._read(data)
            return
        if self.settings["data"] != GRAMMAR:
            todo = f"Give the file, or {GRAMMAR!r} for the invented languages."
            received = repr(self.settings["data"])
            raise DataError(
                mismatch(f"Task {self.name}: data", "a file of this digest", received, todo)
            )
        self.pairs: dict[int, list[Pair]] | None = None
        self._tokens = (*SPECIAL, *sorted({*(w for part in _SOURCE for w in part), AND, *_TARGET}))
        self._number = {word: i for i, word in enumerate(self._tokens)}

    def _read(self, path: Path) -> None:
        """Pairs of a file with a tab in each line; every tenth is for tests."""
        trained: list[Pair] = []
        by_length: dict[int, list[Pair]] = {}
        for i, line in enumerate(text_of(path).splitlines()):
            if not line.strip():
                continue
            sides = [side.split() for side in line.split("\t")]
            if len(sides) != 2 or not all(sides):
                expected = f"two texts with a tab between them in line {i + 1}"
                raise DataError(mismatch(str(path), expected, repr(line[:60])))
            pair = (sides[0], sides[1])
            if i % 10 == 9:
                by_length.setdefault(max(map(len, pair)), []).append(pair)
            elif max(map(len, pair)) <= self.length:
                trained.append(pair)
        near = {n for n in by_length for f in self.factors if n in self.lengths(f)}
        if not trained or not near:
            expected = f"sentences of up to {self.length} words, and every tenth to test"
            todo = "Set another `length`, or other `factors`."
            received = f"{len(trained)} and {len(near)} lengths to test"
            raise DataError(mismatch(str(path), expected, received, todo))
        self.trained, self.pairs = trained, by_length
        count = Counter(word for pair in trained for side in pair for word in side)
        self._tokens = (*SPECIAL, *sorted(word for word, _ in count.most_common(WORDS)))
        self._number = {word: i for i, word in enumerate(self._tokens)}

    def lengths(self, factor: float) -> tuple[int, ...]:
        """The lengths of a bucket; of a file, those that it has sentences of."""
        lengths = super().lengths(factor)
        pairs = getattr(self, "pairs", None)
        return lengths if pairs is None else tuple(n for n in lengths if n in pairs) or lengths[-1:]

    @property
    def tokens(self) -> Sequence[str]:
        """The words of both languages."""
        return self._tokens

    def span(self, length: int) -> int:
        """Words and a mark."""
        return length + 1

    def codes(self, words: Sequence[str]) -> list[int]:
        """Words as tokens; what the model has never met is one of them."""
        return [self._number.get(word, UNKNOWN) for word in words]

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Sentences and their translations."""
        chosen = [self._pair(rng, length) for _ in range(count)]
        source = padded([self.codes(pair[0]) for pair in chosen])
        blotted = torch.from_numpy(rng.random(source.shape) < float(self.settings["blots"]))
        source = source.masked_fill(blotted & (source != PAD), UNKNOWN)
        inputs = padded([[BEGIN, *self.codes(pair[1])] for pair in chosen])
        asked = padded([[*self.codes(pair[1]), END] for pair in chosen], IGNORED)
        return Batch(Tokens(inputs), asked, Tokens(source, seen=source != PAD))

    def _pair(self, rng: np.random.Generator, length: int | None) -> Pair:
        if self.pairs is None:
            return sentence(
                rng, int(rng.integers(3, self.length + 1)) if length is None else length
            )
        some = self.trained if length is None else self.pairs[length]
        return some[int(rng.integers(len(some)))]


# --- the invented languages -----------------------------------------------------------------------


def _words(count: int, onsets: str, vowels: str, ends: Sequence[str]) -> tuple[str, ...]:
    """Different words of two syllables."""
    heads = [a + v for a in onsets for v in vowels]
    every = [h + t + e for e in ends for t in onsets[::-1] for h in heads]
    step = 7  # neighbours in the list share most of their letters
    return tuple(every[(i * step) % len(every)] for i in range(count))


_SOURCE = (
    _words(NOUNS, "bdklmprt", "aiou", ["o", "a"]),
    _words(VERBS, "bdklmprt", "aiou", ["ir"]),
    _words(ADJECTIVES, "bdklmprt", "aiou", ["el"]),
    _words(ADVERBS, "bdklmprt", "aiou", ["im"]),
)
_STEMS = (
    _words(NOUNS, "fghnsvwz", "aeyu", ["u"]),
    _words(VERBS, "fghnsvwz", "aeyu", ["ek"]),
    _words(ADJECTIVES, "fghnsvwz", "aeyu", ["is"]),
    _words(ADVERBS, "fghnsvwz", "aeyu", ["ot"]),
)
SUBJECT, OBJECT = "r", "n"
_TARGET = {
    *(noun + ending for noun in _STEMS[0] for ending in (SUBJECT, OBJECT)),
    *(word for part in _STEMS[1:] for word in part),
    "ja",
}


def sentence(rng: np.random.Generator, length: int) -> Pair:
    """A sentence of some words and its translation, which has as many."""
    length = max(3, length)
    clauses = int(rng.integers(1, (length + 1) // 4 + 1))
    spare = length - (4 * clauses - 1)
    # Each spare word goes to the subject, the object or the verb of some clause.
    extra = np.bincount(rng.integers(0, 3 * clauses, spare), minlength=3 * clauses).tolist()
    source: list[str] = []
    target: list[str] = []
    for c in range(clauses):
        if c:
            source.append(AND)
            target.append("ja")
        theirs, ours = _clause(rng, extra[3 * c : 3 * c + 3])
        source += theirs
        target += ours
    return source, target


def _clause(rng: np.random.Generator, extra: Sequence[int]) -> Pair:
    caller, whom, verb = rng.integers(NOUNS), rng.integers(NOUNS), rng.integers(VERBS)
    of_who, of_whom = (rng.integers(0, ADJECTIVES, n).tolist() for n in extra[:2])
    how = rng.integers(0, ADVERBS, extra[2]).tolist()
    nouns, verbs, adjectives, adverbs = _SOURCE
    source = [
        *(adjectives[i] for i in of_who),
        nouns[caller],
        verbs[verb],
        *(adjectives[i] for i in of_whom),
        nouns[whom],
        *(adverbs[i] for i in how),
    ]
    nouns, verbs, adjectives, adverbs = _STEMS
    target = [
        nouns[whom] + OBJECT,
        *(adjectives[i] for i in reversed(of_whom)),
        nouns[caller] + SUBJECT,
        *(adjectives[i] for i in reversed(of_who)),
        *(adverbs[i] for i in how),
        verbs[verb],
    ]
    return source, target

"""A longer context in the report of the study: losses, and whether indicators rank the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from posenc.plot.views.stretch import STYLES
from posenc_study.claims.verdicts import ALPHA, ClaimVerdict, PartResult
from posenc_study.report.claims import MARKS, probability
from posenc_study.report.document import Block, Figure, Paragraph, SectionHeading, TextTable
from posenc_study.report.figures import ScoreCurve, draw
from posenc_study.results.records import Record, Results
from posenc_study.statistics import ConfidenceInterval, interval, shown

FAMILY = "extension"
TASKS = {"extension-64": 64, "extension-256": 256}
BASES = {"rope-100": "100", "rope-1000": "1,000", "rope": "10,000"}
# Encodings that no rule extends, which read the same texts as they stand.
OTHERS = {"sinusoidal": "sinusoidal", "learned": "learned", "alibi": "ALiBi"}
RULES = {
    "none": "unchanged",
    "linear": "linear",
    "ntk": "NTK base",
    "yarn": "YaRN, code",
    "llama3": "Llama 3",
    "base": "larger base",
}
STRETCHES = ("2L", "4L", "8L")
# Metric -> the column of `posenc extend` that it is about.
RANKS = {
    "rank-unseen": "unseen",
    "rank-arc": "of a circle",
    "rank-lost": "lost",
    "rank-short": "short",
    "rank-order": "the order",
    "rank-within": "short, on short texts",
    "regret": "regret of the recommended",
}
ALONG = (0.5, 1, 1.5, 2, 3, 4, 6, 8)  # multiples of L that the pictures show

WHAT = (
    "One model for each seed, base and trained length reads longer texts under every rule that "
    "`posenc extend` offers for plain rotations, without further training. Rules with the same "
    "angles at a length are one: there dynamic NTK is NTK. YaRN and Llama 3 have the constants "
    "that `posenc extend` writes, which were made for thousands of positions: of 16 pairs none "
    "finishes 32 turns in 64 characters, and one does in 256. So `lost` ranks nothing at 64, and "
    "at 256 it only sets linear apart."
)
LOSSES = (
    "The first table of each length has nats per character over the last 32 characters of texts of "
    "n L, and over the first L of the texts of 8 L; less is better, and the best of each column is "
    "bold. The picture has a point for each L / 2, at its end, for some of them. Models with other "
    "encodings, which no rule extends, stand below."
)
RANKED = (
    "The second has Kendall's tau-b, over the six rules, between a column of `posenc extend` and "
    "the nats of the last 32 characters: 1 where less of it is always less loss, and 0 where it "
    "says nothing. `the order` is that by which a rule is recommended. `short, on short texts` is "
    "about the loss of the first L characters, without the unchanged model. Regret is the loss "
    "under the recommended rule, Llama 3 in all of these places, above that of the best other. A "
    "bold number lies beyond what was registered (above 0.3; of the regret below 0) with p < 0.05 "
    "by itself, both by the t test and by sign flips."
)


def extension_part(results: Results, verdicts: Sequence[ClaimVerdict]) -> Iterator[Block]:
    """The verdicts of the family, the losses and the rank correlations."""
    own = [v for v in verdicts if v.claim.family == FAMILY]
    if not own:
        return
    yield SectionHeading(2, "A longer context without training")
    yield Paragraph(WHAT)
    rows = [
        (
            v.claim.text,
            v.claim.source,
            f"{MARKS[v.word]} **{v.word}**",
            f"{sum(map(_holds, v.findings))} of {len(v.findings)}",
            v.claim.unexpected,
            "" if v.word == "not run" else probability(v.p),
        )
        for v in own
    ]
    head = ("claim", "source", "verdict", "places", "why not expected, as registered", "p")
    yield TextTable(head, tuple(rows), left=5)
    yield Paragraph(
        "A claim is about every place: three bases, two trained lengths, three stretches. So one "
        "place that is clearly on the other side of the margin contradicts it. Under `places` "
        "stands in how many it holds by itself."
    )
    findings = {(f.part.task, f.part.metric, str(f.part.left)): f for v in own for f in v.findings}
    done = [task for task in TASKS if task in results.tasks()]
    if done:
        yield Paragraph(LOSSES)
        yield Paragraph(RANKED)
    for task in done:
        trained, models = TASKS[task], _rotated(results, task)
        others = [r for r in results.finished(task) if r.cell.encoding in OTHERS]
        more = f", and {_counted(others)} with other encodings" if others else ""
        yield SectionHeading(3, f"Trained on {trained} characters")
        yield Paragraph(f"{_counted(models)} with RoPE{more}.")
        words = f"{task}: nats per character along texts of {8 * trained} characters"
        yield Figure(f"img/study-{task}.png", words)
        yield _losses(results, task)
        yield _ranks(findings, task)


def _rotated(results: Results, task: str) -> list[Record]:
    """The models whose rotation the rules change."""
    return [r for r in results.finished(task) if r.cell.encoding in BASES]


def _counted(records: Sequence[Record]) -> str:
    return f"{len(records)} models of {len({r.cell.seed for r in records})} seeds"


def _mean(
    results: Results, task: str, encoding: str, metric: str, buckets: Sequence[str]
) -> ConfidenceInterval | None:
    """A number over the seeds; of several buckets, their mean in each seed."""
    columns = [results.values(task, encoding, metric, bucket) for bucket in buckets]
    seeds = sorted(set.intersection(*map(set, columns)))
    if not seeds:
        return None
    return interval([sum(column[s] for column in columns) / len(columns) for s in seeds])


def _losses(results: Results, task: str) -> TextTable:
    rows: list[tuple[str, ...]] = []
    for encoding, base in (BASES | OTHERS).items():
        scores = {
            rule: [
                *(_mean(results, task, encoding, f"nats-last.{rule}", (n,)) for n in STRETCHES),
                _mean(results, task, encoding, f"nats-8L.{rule}", ("0.5L", "1L")),
            ]
            for rule in RULES
        }
        columns = zip(*scores.values(), strict=True)
        best = [min((s.mean for s in column if s), default=0.0) for column in columns]
        for rule, line in scores.items():
            if not any(line):
                continue
            cells = [
                _cell(s, encoding in BASES and s is not None and s.mean == b)
                for s, b in zip(line, best, strict=True)
            ]
            rows.append((base if rule == "none" else "", RULES[rule], *cells))
    head = ("base or encoding", "rule", *(f"last of {n}" for n in STRETCHES), "first L of 8L")
    return TextTable(head, tuple(rows), left=2)


def _cell(score: ConfidenceInterval | None, bold: bool, *, sign: bool = False) -> str:
    if score is None:
        return ""
    text = shown(score, sign=sign)
    return f"**{text}**" if bold else text


def _ranks(findings: Mapping[tuple[str, str, str], PartResult], task: str) -> TextTable:
    rows = []
    for encoding, base in BASES.items():
        for n in STRETCHES:
            parts = [findings.get((task, metric, f"{encoding}@{n}")) for metric in RANKS]
            cells = [_cell(f.difference, _holds(f), sign=True) if f else "" for f in parts]
            rows.append((base if n == STRETCHES[0] else "", n, *cells))
    return TextTable(("base", "length", *RANKS.values()), tuple(rows), left=2)


def _holds(finding: PartResult) -> bool:
    return finding.holds < ALPHA


# --- pictures -------------------------------------------------------------------------------------


def extension_pictures(results: Results, folder: Path) -> list[Path]:
    """The loss along the positions of texts of 8 L, at base 10,000, under each rule."""
    written = []
    for task, trained in TASKS.items():
        lines = [curve for rule in RULES if (curve := _curve(results, task, rule, trained))]
        if lines:
            path = folder / f"study-{task}.png"
            title = f"{task}: read at {8 * trained} without training, base {BASES['rope']}"
            axes = {"x": "position in the text", "y": "nats per character (less is better)"}
            draw(lines, path, title=title, **axes, trained=trained)
            written.append(path)
    return written


def _curve(results: Results, task: str, rule: str, trained: int) -> ScoreCurve | None:
    scores = [_mean(results, task, "rope", f"nats-8L.{rule}", (f"{n:g}L",)) for n in ALONG]
    if None in scores:
        return None
    lengths = tuple(round(n * trained) for n in ALONG)
    # The style that the rule has in the plots; a larger base is not drawn there.
    style = STYLES.index(rule) if rule in STYLES else len(STYLES)
    return ScoreCurve(RULES[rule], lengths, tuple(s for s in scores if s is not None), style)


# --- the page of the planner ----------------------------------------------------------------------

COLUMNS = {
    "extend-unseen": ("rank-unseen", "`unseen`"),
    "extend-arc": ("rank-arc", "`of a circle`"),
    "extend-lost": ("rank-lost", "`lost`"),
    "extend-short": ("rank-short", "`short`, for long texts"),
    "extend-within": ("rank-within", "`short`, for texts within the trained length"),
    "extend-order": ("rank-order", "the order by which a rule is recommended"),
}


def extension_words(results: Results, verdicts: Sequence[ClaimVerdict]) -> str:
    """What the page of `posenc extend` says: a correlation only where its claim holds."""
    own = {v.claim.id: v for v in verdicts if v.claim.family == FAMILY}
    if all(v.word == "not run" for v in own.values()):
        return "Whether these numbers rank the rules has not been measured."
    records = [r for task in TASKS for r in _rotated(results, task)]
    seeds = len({r.cell.seed for r in records})
    about = (
        f"Do these numbers rank the rules? {len(records)} small decoders of "
        f"{records[0].parameters:,} parameters were trained on characters of a text: bases 100, "
        f"1,000 and 10,000, lengths 64 and 256, {seeds} seeds each. They read texts of 2, 4 and 8 "
        "times the length under every rule, without further training. The claim, registered before "
        "the run: in every place (a base, a length and a stretch) the rank correlation (Kendall's "
        "tau-b) of a column with the loss of the last 32 characters is above 0.3; one place on the "
        "other side contradicts it. "
        "The last column gives a number where the claim was reproduced. The p values are adjusted "
        "for the seven claims, the counts of places are not."
    )
    lines = [
        about,
        "",
        "| column | registered claim | p | places by themselves | rank correlation |",
        "|---|---|--:|--:|---|",
    ]
    for name, (_, words) in COLUMNS.items():
        v = own[name]
        places = f"{sum(map(_holds, v.findings))} of {len(v.findings)}"
        lines.append(f"| {words} | {v.word} | {probability(v.p)} | {places} | {_range(v)} |")
    v = own["extend-recommended"]
    count = sum(map(_holds, v.findings))
    advice = (
        f"The claim that the recommended rule (Llama 3 in all of these places) reads long texts "
        f"better than every other: **{v.word}**; it held in {count} of {len(v.findings)} places "
        "by themselves. Models of this size are no advice for large ones: [the study](study.md) "
        "has the losses."
    )
    return "\n".join([*lines, "", advice])


def _range(v: ClaimVerdict) -> str:
    if v.word != "reproduced":
        return "not given: the claim did not hold"
    worst = min((f.difference for f in v.findings if f.difference), key=lambda d: d.mean)
    return f"{shown(worst, sign=True)} in the weakest place"

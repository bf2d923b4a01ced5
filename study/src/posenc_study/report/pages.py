"""The report: claims and verdicts, tables with 95 % intervals, curves, and where the rows are from.

Everything in it is computed from the results; equal results give an equal report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from posenc._core.io.outputs import write_whole
from posenc_study.claims.registered import Claim
from posenc_study.claims.verdicts import judge
from posenc_study.grid import TIERS
from posenc_study.report.claims import (
    anew_part,
    claims_part,
    findings_part,
    registered_part,
    untrained_part,
)
from posenc_study.report.document import (
    Block,
    Code,
    Figure,
    Paragraph,
    SectionHeading,
    TextTable,
    as_html,
    as_markdown,
)
from posenc_study.report.extension import FAMILY, extension_part, extension_pictures
from posenc_study.report.figures import ScoreCurve, draw
from posenc_study.results.records import Results
from posenc_study.statistics import interval, shown

TITLE = "The study: encodings in trained Transformers"
PICTURE = "study.png"  # the one that stands for all: quality against length
SIX = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")

# Metrics of a task that the report shows, the main one first.
METRICS: dict[str, tuple[str, ...]] = {
    "order": ("accuracy", "apart"),
    "order-causal": ("accuracy", "apart"),
    "text-lm": ("nats", "nats-last"),
    "rope-scaling": ("nats", "nats-last", "nats-tuned", "nats-last-tuned"),
    "markov": ("excess", "nats"),
}
USUAL = ("accuracy", "exact")

UNITS = {
    "accuracy": "accuracy: the share of the asked tokens that are right",
    "exact": "exact: the part of the sequences that are right throughout",
    "apart": "apart: the part of the pairs of mirrored sentences that get different answers",
    "nats": "nats per character, over whole windows; less is better",
    "nats-last": "nats per character over the last 32 characters of each window; less is better",
    "nats-tuned": "nats per character after a short training at that length; less is better",
    "nats-last-tuned": (
        "nats per character over the last 32 characters, after a short training at that length; "
        "less is better"
    ),
    "rank-unseen": "rank correlation with the loss of the pairs that meet unseen angles",
    "rank-arc": "rank correlation with the loss of the share of a circle that is met anew",
    "rank-lost": "rank correlation with the loss of the fast pairs that lose their step",
    "rank-short": "rank correlation with the loss of the change within the trained length",
    "rank-order": "rank correlation with the loss of the order of `posenc extend`",
    "rank-within": "rank correlation of change and loss, both within the trained length",
    "regret": "nats per character of the recommended rule above the best other; less is better",
    "excess": "excess: nats per symbol above those of the best possible guess; less is better",
}
AXES = {
    "nats": "nats per character (less is better)",
    "excess": "nats above the best possible (less is better)",
}

NOTES = {
    "seq2seq": (
        "The two languages are invented: a grammar writes both sides, and no sentence of them is "
        "anybody's. What holds here need not hold for a translation between real languages."
    )
}


def write_report(
    results: Results,
    claims: Sequence[Claim],
    folder: Path,
    *,
    formats: Sequence[str] = ("md", "html", "png"),
) -> list[Path]:
    """Write `study.md`, `study.html` and the pictures in `img`."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks, written = document(results, claims), []
    texts = {"md": as_markdown(blocks), "html": as_html(blocks, TITLE)}
    for kind, text in texts.items():
        if kind in formats:
            path = folder / f"study.{kind}"
            write_whole(path, text)
            written.append(path)
    if "png" in formats:
        written += _pictures(results, folder / "img")
    return written


def document(results: Results, claims: Sequence[Claim]) -> list[Block]:
    """The report as blocks."""
    verdicts = judge(results, claims)
    published = [v for v in verdicts if v.claim.family != FAMILY]
    return [
        SectionHeading(1, TITLE),
        Paragraph(_lead(results)),
        *claims_part(results, published),
        *registered_part(),
        *anew_part(results, claims, verdicts),
        *untrained_part(results, claims, verdicts),
        *extension_part(results, verdicts),
        *(block for task in _plain(results) for block in _task(results, task)),
        *findings_part(published),
        *_failures(results),
        *_origin(results),
    ]


def _lead(results: Results) -> str:
    done = [record for record in results.records if not record.failed]
    hours = sum(record.seconds for record in done) / 3600
    seeds = {record.cell.seed for record in done}
    sizes = [record.parameters for record in done]
    if not done:
        return "Nothing has been measured yet."
    count = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
    return (
        f"{len(done)} small Transformers ({min(sizes):,} to {max(sizes):,} parameters) were "
        f"trained from {count}, in {hours:.1f} hours of a worker. They are small enough for two "
        "cores and a coffee, and far too small to choose an encoding by: what is asked here is "
        "which published statements can be seen at this size, and which cannot."
    )


# --- claims ---------------------------------------------------------------------------------------


# --- tasks ----------------------------------------------------------------------------------------

_TASKS = tuple(dict.fromkeys(block.task for block in TIERS["full"]))
_ENCODINGS = tuple(dict.fromkeys(e for block in TIERS["full"] for e in block.encodings))


def ordered(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """The names in the order of the tiers, then those that no tier has."""
    return [n for n in order if n in names] + sorted(set(names) - set(order))


def _plain(results: Results) -> list[str]:
    """The tasks that a section each shows."""
    return [n for n in ordered(results.tasks(), _TASKS) if not n.startswith(FAMILY)]


def main_metric(task: str) -> str:
    """The metric that is looked at first."""
    return METRICS.get(task, USUAL)[0]


def _task(results: Results, task: str) -> Iterator[Block]:
    yield SectionHeading(2, f"Task {task}")
    records = results.finished(task)
    measured = {row.metric for record in records for row in record.rows}
    shown_metrics = [m for m in METRICS.get(task, USUAL) if m in measured]
    yield Paragraph(_settings(results, task))
    if task in NOTES:
        yield Paragraph(NOTES[task])
    if main_metric(task) in measured:
        words = f"{task}: {AXES.get(main_metric(task), main_metric(task))} against length"
        yield Figure(f"img/{picture_name(task)}", words)
    for metric in shown_metrics:
        yield Paragraph(f"In {UNITS.get(metric, metric)}.")
        yield _scores(results, task, metric)


def _settings(results: Results, task: str) -> str:
    """What the cells of the task have in common."""
    cells = [record.cell for record in results.finished(task)]
    common = set(cells[0].settings).intersection(*(cell.settings for cell in cells))
    names = ("length", "layers", "width", "heads", "steps", "batch", "rate")
    settings = [f"{name} {value}" for name, value in sorted(common) if name in names]
    models = f"{len(cells)} model{'' if len(cells) == 1 else 's'}"
    listed = ", ".join(settings)
    return f"{models} of {_seeds(results, task)}; {listed}. L is the longest trained length."


def _seeds(results: Results, task: str) -> str:
    count = len({record.cell.seed for record in results.finished(task)})
    return f"{count} seed{'' if count == 1 else 's'}"


def _scores(results: Results, task: str, metric: str) -> TextTable:
    lines = curves(results, task, metric)
    lengths = {n for curve in lines for n in curve.lengths}
    buckets = {row.length: row.bucket for record in results.finished(task) for row in record.rows}
    columns = sorted(lengths)
    rows = []
    for curve in lines:
        scores = dict(zip(curve.lengths, curve.scores, strict=True))
        cells = [shown(scores[n]) if n in scores else "" for n in columns]
        counts = {score.count for score in curve.scores}
        rows.append((curve.encoding, *cells, "–".join(map(str, sorted(counts)))))
    head = ("encoding", *(f"{buckets[n]} ({n})" for n in columns), "seeds")
    return TextTable(head, tuple(rows))


def curves(
    results: Results, task: str, metric: str, encodings: Sequence[str] | None = None
) -> list[ScoreCurve]:
    """The scores of each encoding along the tested lengths."""
    records = results.finished(task)
    having = list(dict.fromkeys(record.cell.encoding for record in records))
    lines = []
    for encoding in ordered(having, _ENCODINGS):
        if encodings is not None and encoding not in encodings:
            continue
        buckets = sorted(
            {
                (row.length, row.bucket)
                for record in records
                if record.cell.encoding == encoding
                for row in record.rows
                if row.metric == metric
            }
        )
        scores = [
            interval(list(results.values(task, encoding, metric, bucket).values()))
            for _, bucket in buckets
        ]
        if scores:
            lines.append(ScoreCurve(encoding, tuple(n for n, _ in buckets), tuple(scores)))
    return lines


def picture_name(task: str) -> str:
    """The file of the curves of a task."""
    return f"study-{task}.png"


def _pictures(results: Results, folder: Path) -> list[Path]:
    written = []
    for task in _plain(results):
        lines = curves(results, task, main_metric(task))
        if lines:
            written.append(_picture(results, task, lines, folder / picture_name(task)))
    written += extension_pictures(results, folder)
    six = curves(results, "text-lm", "nats", SIX)
    if six:
        written.append(_picture(results, "text-lm", six, folder / PICTURE))
    return written


def _picture(results: Results, task: str, lines: list[ScoreCurve], path: Path) -> Path:
    trained = min(n for curve in lines for n in curve.lengths)
    over = f"mean and 95 % interval of {_seeds(results, task)}"
    draw(
        lines,
        path,
        title=f"{task}: trained to length {trained}, {over}",
        x="length of the test",
        y=AXES.get(main_metric(task), main_metric(task)),
        trained=trained,
    )
    return path


# --- what went wrong, and where it all is from ----------------------------------------------------


def _failures(results: Results) -> Iterator[Block]:
    failed = [record for record in results.records if record.failed]
    if failed:
        yield SectionHeading(2, "Cells that failed")
        rows = tuple((str(record.cell), record.reason) for record in failed)
        yield TextTable(("cell", "reason"), rows, left=2)


def _origin(results: Results) -> Iterator[Block]:
    yield SectionHeading(2, "Where these numbers are from")
    counts = [0] * len(results.provenances)
    for record in results.records:
        counts[record.provenance] += 1
    names = sorted({name for origin in results.provenances for name in origin})
    head = ("", *(f"{count} cells" for count in counts))
    rows = [(name, *(_shortened(name, o) for o in results.provenances)) for name in names]
    yield TextTable(head, tuple(rows), left=len(head))
    sources = {origin.get("sources") for origin in results.provenances}
    if len(sources) > 1:
        yield Paragraph(
            "**The rows come from different sources** of the models, tasks or training: their "
            "differences may be those of the code."
        )
    yield Paragraph("The run, and this report from its rows:")
    # Published results are those of a whole tier, and their rows do not name it.
    runs = dict.fromkeys(o.get("command", "posenc study run standard") for o in results.provenances)
    yield Code("\n".join(("pip install posenc-study", *runs, "posenc study report -o out/study")))


def _shortened(name: str, origin: Mapping[str, str]) -> str:
    value = origin.get(name, "")
    return f"`{value}`" if name in ("commit", "sources") and value else value

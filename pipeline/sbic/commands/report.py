"""`sbic report`: how far judges can be trusted, who errs together, and what is really wrong."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
import numpy as np
from orjson import dumps
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from sbic.commands import tell
from sbic.commands.infer import gold_of, notes_on_labels
from sbic.commands.options import (
    BadInput,
    for_output,
    given_options,
    in_project,
    reading_options,
    run_connected,
)
from sbic.commands.report_gate import Requirement, checked, junit, status_of
from sbic.commands.report_html import html
from sbic.engine.labels import Labels
from sbic.files.labels import Reading, label_rows
from sbic.files.tables import BadFile
from sbic.files.writing import check_writable, write_atomically
from sbic.foreign import printable
from sbic.infer.advice import as_json_object, called, cost, findings, next_steps
from sbic.infer.evidence import UNKNOWN, JuryEvidence, settled_evidence
from sbic.infer.judging import report_on
from sbic.infer.report import CommonErrors, JuryReport
from sbic.progress import progress
from sbic.project.revision import Given
from sbic.status.judges import evidence_in

MOST_PAIRS = 10
MOST_ROWS = 40  # of confusion matrices on the terminal
MOST_TASKS = 10
BETWEEN = 2  # columns of a table


def evidence_of_file(path: str, truth_path: str | None, reading: Reading) -> JuryEvidence:
    """Return the evidence of a file of labels, with the known truths as gold."""
    with progress("Reading"):
        rows = label_rows(reading.source(path), reading)
        columns = zip(rows.tasks, rows.workers, rows.answers, strict=True)
        labels = Labels.of_answers(columns, rows.classes)
    if len(labels.classes) < 2:
        raise BadFile(path, "has one class only: name all classes with --classes")
    skipped = Counter(
        worker for worker, answer in zip(rows.workers, rows.answers, strict=True) if answer is None
    )
    golds = gold_of(labels, truth_path, reading) if truth_path else np.full(labels.tasks, UNKNOWN)
    for note in notes_on_labels(labels, "settled", reading):
        tell(note)
    with progress(f"Weighing {len(labels):,} labels"):
        return settled_evidence(labels, golds, [skipped[name] for name in labels.worker_names])


# The report on a terminal.


class ReportScreen:
    """Renders a report with rich."""

    def __init__(self, report: JuryReport, title: str) -> None:
        self.report = report
        self.title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        report = self.report
        yield Text(printable(self.title), style="bold")
        yield Text("\n" + " ".join(map(printable, findings(report))))
        steps = next_steps(report)
        if steps:
            yield Text("\nnext", style="bold")
            for number, step in enumerate(steps, start=1):
                yield Text(f"{number}. {printable(step)}")
            yield from self._tasks()
        yield from self._judges(options.max_width)
        yield from self._confusions(options.max_width)
        yield from self._pairs(options.max_width)
        yield from self._together(options.max_width)

    def _tasks(self) -> Iterable[Text]:
        some = [printable(task) for task in self.report.next.tasks[:MOST_TASKS]]
        if some:
            more = " ..." if self.report.next.gold > len(some) else ""
            yield Text(f"   the first of them: {', '.join(some)}{more}")

    def _judges(self, width: int) -> Iterable[Text | Table]:
        if not self.report.judges:
            return
        known, shown = self.report.judges_known, len(self.report.judges)
        first = f", the first {shown} by labels" if known > shown else ""
        yield Text(f"\n{known:,} judges{first}", style="bold")
        has_skips = any(judge.skips for judge in self.report.judges)
        has_prices = any(judge.cost is not None for judge in self.report.judges)
        columns = ["judge", "gold", "right", "95 %", "kappa", "always", "by all", "labels"]
        rows = []
        for judge in self.report.judges:
            gold, posterior = judge.gold, judge.posterior
            cells = [
                f"{gold.tasks:,}" if gold else "-",
                number(gold and gold.accuracy),
                between(gold.interval) if gold else "-",
                number(gold and gold.kappa),
                number(gold and gold.base_rate),
                number(posterior and posterior.accuracy),
                f"{judge.labels:,}",
            ]
            more = [f"{judge.skip_share:.1%}"] * has_skips + [cost(judge)] * has_prices
            rows.append([called(judge), *cells, *more])
        more = ["skips"] * has_skips + ["cost"] * has_prices
        table = fitted(width, 1, [*columns, *more], rows)
        yield table
        yield Text(
            "right: on gold; always: giving the most frequent answer; by all: estimated from all "
            "labels",
            style="dim",
        )

    def _confusions(self, width: int) -> Iterable[Text | Table]:
        judges = [judge for judge in self.report.judges if judge.gold and judge.gold.confusion]
        classes = [printable(name) for name in self.report.classes]
        if not judges or len(judges) * len(classes) > MOST_ROWS:
            return
        yield Text("\nanswers on gold, by what is true", style="bold")
        rows = [
            [called(judge) if row == 0 else "", classes[row], *(f"{each:,}" for each in counts)]
            for judge in judges
            for row, counts in enumerate(judge.gold.confusion or () if judge.gold else ())
        ]
        yield fitted(width, 1, ["judge", "true", *classes], rows)

    def _pairs(self, width: int) -> Iterable[Text | Table]:
        pairs, names = self.report.pairs, {each.worker: called(each) for each in self.report.judges}
        if not pairs:
            return
        first = f", the first {MOST_PAIRS} of {len(pairs):,}" if len(pairs) > MOST_PAIRS else ""
        yield Text(f"\npairs, by agreement where judges differ{first}", style="bold")
        columns = ["judge", "and", "tasks", "agree", "contested", "kappa", "same errors", "by all"]
        rows = [
            [
                *(names[worker] for worker in pair.workers),
                f"{pair.tasks:,}",
                f"{pair.agreement:.2f}",
                number(pair.contested_agreement),
                number(pair.kappa),
                errors(pair.gold),
                f"{pair.posterior.share:.2f}" if pair.posterior else "-",
            ]
            for pair in pairs[:MOST_PAIRS]
        ]
        table = fitted(width, 2, columns, rows)
        yield table
        yield Text(
            "contested: agreement where judges differ; same errors: of gold tasks on which one is "
            "wrong, and by all labels",
            style="dim",
        )

    def _together(self, width: int) -> Iterable[Text | Table]:
        jury, calibration = self.report.jury, self.report.calibration
        facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        facts.add_row("alpha", f"{number(jury.alpha)} (Krippendorff, {jury.alpha_tasks:,} tasks)")
        if len(self.report.classes) > 2:
            facts.add_row("ordinal", f"{number(jury.ordinal_alpha)} if the classes have an order")
        if jury.dependence is not None:
            facts.add_row("dependence", f"{jury.dependence:.2f} of a vote is not its own")
        if calibration:
            facts.add_row("ECE", f"{calibration.ece:.3f} on {self.report.gold:,} gold tasks")
        yield Text("\ntogether", style="bold")
        yield facts
        if calibration:
            yield Text(
                "\nhow often predictions of each confidence are right, on gold", style="bold"
            )
            rows = [
                [
                    between((each.low, each.high)),
                    f"{each.tasks:,}",
                    f"{each.confidence:.2f}",
                    f"{each.right:.2f}",
                    between(each.interval),
                ]
                for each in calibration.bins
            ]
            yield fitted(width, 1, ["confidence", "tasks", "mean", "right", "95 %"], rows)


def fitted(width: int, names: int, columns: list[str], rows: list[list[str]]) -> Table:
    """Return a table in which only the first columns, of names, are cut to fit."""
    others = [max(map(len, column)) for column in zip(columns, *rows, strict=True)][names:]
    room = max(8, (width - sum(others) - BETWEEN * (len(columns) - 1)) // names)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        if number < names:
            table.add_column(column, no_wrap=True, overflow="ellipsis", max_width=min(room, 40))
        else:
            table.add_column(
                column, no_wrap=True, justify="right", min_width=others[number - names]
            )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def number(value: float | None) -> str:
    """Return a number as it is shown; a dash if there is none."""
    return "-" if value is None else f"{value:.2f}"


def between(ends: tuple[float, float]) -> str:
    """Return the ends of an interval.

    >>> between((0.8, 0.95))
    '0.80 to 0.95'
    """
    return f"{ends[0]:.2f} to {ends[1]:.2f}"


def errors(found: CommonErrors | None) -> str:
    """Of how many tasks with an error both judges have the same one.

    >>> errors(CommonErrors(20.0, 14.0, 0.01)), errors(CommonErrors(0.0, 0.0, None)), errors(None)
    ('14 of 20', 'none', '-')
    """
    if found is None:
        return "-"
    return f"{found.same:,.0f} of {found.wrong:,.0f}" if found.wrong else "none"


@click.command(short_help="How far judges can be trusted, and how many are really wrong.")
@click.argument("labels_path", metavar="[LABELS.csv]", required=False)
@click.option(
    "--truth",
    "truth_path",
    metavar="TRUTH.csv",
    help="With LABELS.csv: the truth of some tasks, drawn at random; columns task and truth.",
)
@click.option(
    "--gold-only",
    is_flag=True,
    help="Nothing that rests on estimates of the truth: tasks without gold count only for how far "
    "judges agree.",
)
@click.option("--html", "html_path", metavar="FILE", help="Also write the report as one HTML page.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: see schemas/report.schema.json.")
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="RULE",
    help="Fail unless this holds, such as 'gpt-5: accuracy >= 0.85 with 50 gold' or 'ece <= 0.05'. "
    "Can be repeated.",
)
@click.option(
    "--junit", "junit_path", metavar="FILE", help="Write the outcomes of --require as JUnit XML."
)
@reading_options(
    "task", "worker", "label", "truth", example="task=item,worker=model,label=verdict,truth=gold"
)
@given_options("broker", "prefix")
@click.pass_context
def command(
    context: click.Context,
    given: Given,
    labels_path: str | None,
    truth_path: str | None,
    gold_only: bool,
    html_path: str | None,
    as_json: bool,
    required: tuple[str, ...],
    junit_path: str | None,
    reading: Reading,
) -> None:
    """Report how far judges, people or models, can be trusted.

    Without a file: on the running project, from its topics, with its gold tasks. With LABELS.csv,
    as `sbic infer` reads it (CSV or JSON Lines; `-` is standard input): on that file, with the
    truths in TRUTH.csv as gold, weighed by settled.

    The report begins with what it found, in sentences, and what to do next. Then, for each of the
    50 judges with the most labels: accuracy on gold with its 95 % interval (Wilson), Cohen's kappa
    beside the accuracy of always giving the most frequent answer, accuracy by all labels, skips;
    who agrees and errs with whom; Krippendorff's alpha; how often predictions of each confidence
    are right, and the calibration error (ECE); how many predictions are wrong; the share of each
    class, corrected by gold; and which tasks to judge next.

    \b
    As a gate, --require takes
      [JUDGE:] MEASURE >= NUMBER [with N gold]     or <=, < and >; a number may be a percentage
    of a judge:     accuracy, kappa, low (end of the interval), skips
    of the project: ece, wrong (share of predictions), alpha, ordinal, votes
    What rests on gold needs 30 gold tasks, if the rule does not say how many. The exit status is 1
    if a rule fails, with a line for each, and 2 if there is not enough gold to say.

    \b
    Examples:
      sbic report
      sbic report verdicts.jsonl --truth gold.jsonl --html report.html
      sbic report labels.csv --truth truth.csv --gold-only
      sbic report --json | jq '.judges[] | {worker, gold}'
      sbic report --require "gpt-5: accuracy >= 0.85 with 50 gold" --require "ece <= 0.05"
      sbic report verdicts.jsonl --truth gold.jsonl --require "alpha >= 0.4" --junit report.xml
    """
    check_usage(labels_path, truth_path, junit_path, required, reading)
    rules = [Requirement.parse(text) for text in required]
    try:
        targets = [Path(path) for path in (html_path, junit_path) if path]
        for target in targets:
            check_writable(target)
        if labels_path:
            evidence, title = (
                evidence_of_file(labels_path, truth_path, reading),
                Path(labels_path).name,
            )
        else:
            settings = in_project(given)
            evidence, title = run_connected(evidence_in(settings)), settings.prefix
        with progress("Comparing judges"):
            report = report_on(evidence, gold_only=gold_only)
        outcomes = [checked(rule, report) for rule in rules]
        if html_path:
            write_atomically(Path(html_path), html(report, title).encode())
        if junit_path:
            write_atomically(Path(junit_path), junit(outcomes, title))
    except BadFile as error:
        raise BadInput(str(error)) from error
    show(report, title, as_json=as_json)
    for outcome in outcomes:
        if not outcome.holds:
            tell(f"sbic report: {outcome.said}")
    context.exit(status_of(outcomes))


def check_usage(
    labels_path: str | None,
    truth_path: str | None,
    junit_path: str | None,
    required: tuple[str, ...],
    reading: Reading,
) -> None:
    """Refuse options that do not go together."""
    if labels_path is None and truth_path:
        raise click.UsageError(
            "--truth needs LABELS.csv; the truth of a running project is its gold tasks, which "
            "sbic tasks import sets"
        )
    if labels_path is None and reading != Reading():
        raise click.UsageError("options for reading a file need LABELS.csv")
    if "truth" in reading.columns and not truth_path:
        raise click.UsageError("--columns truth=... needs --truth: it is a column of that file")
    if labels_path == truth_path == "-":
        raise click.UsageError("only one of LABELS.csv and --truth can be standard input")
    if junit_path and not required:
        raise click.UsageError("--junit needs --require: it has the outcomes of these")


def show(report: JuryReport, title: str, *, as_json: bool) -> None:
    """Print the report."""
    if as_json:
        click.echo(for_output(dumps(as_json_object(report, title)).decode()))
    else:
        Console(highlight=False).print(ReportScreen(report, heading(report, title)))


def heading(report: JuryReport, title: str) -> str:
    """Return what the report is on."""
    gold = f"{report.gold:,} of them gold" if report.gold else "none of them gold"
    return f"{title}: {report.labels:,} labels on {report.tasks:,} tasks, {gold}"

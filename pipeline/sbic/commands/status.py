"""`sbic status`: how the project is doing, on one screen."""

import asyncio
import signal
from collections.abc import Iterable, Mapping, Sequence

import click
from orjson import dumps
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from sbic.commands.options import for_output, given_options, in_project, run_connected
from sbic.foreign import local_time, printable
from sbic.infer.report import Share
from sbic.project.revision import Given
from sbic.status.reading import reading_status
from sbic.status.report import DISPUTED, RATED, Summary
from sbic.status.tallies import Honesty, Rated

NAME_WIDTH = 40
SAYS_WIDTH = 12
DISPUTED_WIDTH = 54  # of all columns but the name, with the space between them
RATED_WIDTH = 44
SHARES = 8  # of the most frequent classes
LEAST_DEPENDENCE = 0.005


class StatusScreen:
    """Renders a summary with rich."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(
            f"{self.summary.project} at {local_time(self.summary.activity.at)}", style="bold"
        )
        facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        for name, text in self._facts():
            facts.add_row(name, Text(printable(text, keep="\n")))
        yield facts
        yield from self._disputed(options.max_width)
        yield from self._rated(options.max_width)

    def _facts(self) -> Iterable[tuple[str, str]]:
        s, activity = self.summary, self.summary.activity
        tasks = s.tasks
        rate = f"{s.per_second:,.1f} a second in the last minute"
        for warning in activity.warnings:
            yield "warning", warning
        yield "labels", f"{tasks.labels:,} counted, {activity.flow.in_topic:,} in the topic; {rate}"
        closed = listed(tasks.closed)
        total = sum(tasks.closed.values())
        yield (
            "tasks",
            (
                f"{len(tasks):,}: {tasks.open:,} open, {total:,} closed"
                + (f" ({closed})" if closed else "")
                + (f", {tasks.gold:,} gold" if tasks.gold else "")
                + (f"; {tasks.without_labels:,} without labels" if tasks.without_labels else "")
            ),
        )
        share = f" ({tasks.expected_wrong / len(tasks):.1%})" if len(tasks) else ""
        wrong = f"{tasks.expected_wrong:,.1f} predictions{share} expected to be wrong"
        honesty, findings = s.honesty, activity.findings
        yield "wrong", f"{wrong}; {believed(honesty)}"
        if honesty.votes is not None:
            yield "votes", worth(honesty.votes, findings and findings.dependence)
        if s.prevalence is not None:
            yield "classes", shared(s.prevalence)
        settled = {True: "yes", False: "no", None: "-"}[activity.settled.is_settled]
        yield "settled", f"{settled}: {activity.settled.why}"
        if s.budget is not None:
            yield "budget", f"{s.budget_left:,} of {s.budget:,} labels left{self._when_spent()}"
        if s.budget_cost is not None:
            spent = f"{s.workers.spent:,.6g} of {s.budget_cost:,.6g}"
            yield "money", f"{spent} spent at the prices in the roster"
        elif s.workers.spent:
            yield "money", f"{s.workers.spent:,.6g} spent at the prices in the roster"
        reasons = s.letters.by_reason
        letters = listed(reasons)
        replayed = f"; {s.letters.replayed:,} replayed" if s.letters.replayed else ""
        yield (
            "dead letters",
            f"{sum(reasons.values()):,}" + (f" ({letters})" if letters else "") + replayed,
        )
        yield "waiting", listed(activity.lag) or "nothing"
        instances = [
            f"{member.host}: partitions {ranges(member.partitions)}, lag {member.lag:,}"
            for member in activity.members
        ]
        yield "instances", "\n".join(instances) or f"none is running (group {activity.group_state})"
        if activity.sinks.known:
            yield "sinks", "\n".join(self._sinks())
        shown = ", ".join(
            f"{name} {value}" for name, value in s.settings.items() if value is not None
        )
        yield "settings", shown

    def _sinks(self) -> Iterable[str]:
        at, (known, first) = self.summary.activity.at, self.summary.activity.sinks
        for name, lag, committed_at in first:
            said = f"{printable(name)}: lag {lag:,}"
            if committed_at is not None:
                said += f", committed {duration(max(0, at - committed_at) / 1000)} ago"
            yield said
        if known > len(first):
            yield f"and {known - len(first):,} more"

    def _when_spent(self) -> str:
        seconds = self.summary.budget_seconds
        if seconds is None:
            return "; nothing is spending it"
        if not seconds:
            return ""
        return f", spent in {duration(seconds)} at this rate"

    def _disputed(self, width: int) -> Iterable[Text | Table]:
        disputed = self.summary.tasks.most_disputed(DISPUTED)
        names = self.summary.classes.names if disputed else ()
        if not disputed:
            return
        yield Text("\nmost disputed tasks", style="bold")
        table = compact(width - DISPUTED_WIDTH, "task", "says", "confidence", "labels", "status")
        for task in disputed:
            says = "tie" if task.prediction is None else names[task.prediction]
            cells = f"{task.confidence:.3f}", f"{task.labels:,}", Text(printable(task.status))
            table.add_row(Text(printable(task.task)), Text(printable(says)), *cells)
        yield table

    def _rated(self, width: int) -> Iterable[Text | Table]:
        workers = self.summary.workers
        if not len(workers):
            return
        yield Text(f"\nbest and worst of {len(workers):,} workers", style="bold")
        table = compact(width - RATED_WIDTH, "worker", "accuracy", "95 %", "labels")
        best = workers.best(RATED)
        named = {rated.worker for rated in best}
        worst = [rated for rated in workers.worst(RATED) if rated.worker not in named]
        for rated in (*best, *reversed(worst)):
            table.add_row(*_rated_cells(rated))
        yield table
        if workers.drifting:
            yield Text(f"answer otherwise than before: {some_of(workers.drifting)}")
        if workers.contradicted:
            yield Text(f"gold contradicts what labels say of: {some_of(workers.contradicted)}")


def some_of(workers: Sequence[str]) -> str:
    """Return the first of these workers, and how many more there are.

    >>> some_of(["ann", "bob"]), some_of([f"w{number}" for number in range(8)])
    ('ann, bob', 'w0, w1, w2, w3, w4 and 3 more')
    """
    more = f" and {len(workers) - RATED:,} more" if len(workers) > RATED else ""
    return ", ".join(map(printable, workers[:RATED])) + more


def _rated_cells(rated: Rated) -> Sequence[Text | str]:
    low, high = rated.interval
    return (
        Text(printable(rated.worker)),
        f"{rated.accuracy:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{rated.labels:,}",
    )


def compact(room: int, name: str, *columns: str) -> Table:
    """Return a table without lines, with `room` columns for the first one."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=min(room, NAME_WIDTH))
    for column in columns:
        if column == "says":
            table.add_column(column, no_wrap=True, max_width=SAYS_WIDTH)
        else:
            table.add_column(column, no_wrap=True, justify="right")
    return table


def believed(honesty: Honesty) -> str:
    """How far the expected number of wrong predictions can be believed, and what would help.

    >>> believed(Honesty(0, 0, 0.0, None, None))
    'estimated from labels alone: no gold task checks it'
    >>> believed(Honesty(40, 9, 8.2, (0.16, 0.3), 2.1))
    'between 16.0% and 30.0%, calibrated by 40 gold tasks; 120 more would halve that'
    >>> believed(Honesty(30, 12, 3.0, (0.2, 0.5), None))  # doctest: +ELLIPSIS
    'between 20.0% and 50.0%, ... gold contradicts labels, which expected 3.0 of 30 wrong, not 12'
    """
    if not honesty.gold:
        return "estimated from labels alone: no gold task checks it"
    by = "calibrated" if honesty.is_calibrated else "checked"
    tasks = f"{honesty.gold:,} gold task{'s' if honesty.gold > 1 else ''}"
    said = f"{by} by {tasks}: more would say how far off it may be"
    if honesty.interval is not None:
        low, high = honesty.interval
        said = f"between {low:.1%} and {high:.1%}, {by} by {tasks}"
        said += f"; {honesty.gold_to_halve:,} more would halve that"
    if honesty.is_contradicted:
        said += (
            f"; gold contradicts labels, which expected {honesty.expected:,.1f} of "
            f"{honesty.gold:,} wrong, not {honesty.wrong:,}"
        )
    return said


def worth(votes: float, dependence: float | None) -> str:
    """Return what the labels of a task are worth, and how much they can be.

    >>> worth(2.14, 0.25)
    '2.1 independent votes a task, in the median, and never more than 4.0 (dependence 0.25)'
    """
    said = f"{votes:,.1f} independent votes a task, in the median"
    if dependence is None:
        return said
    if dependence < LEAST_DEPENDENCE:
        return f"{said}; labels show no dependence"
    return f"{said}, and never more than {1 / dependence:,.1f} (dependence {dependence:.2f})"


def shared(prevalence: Mapping[str, Share]) -> str:
    """Return the share of each class, the most frequent first, with its interval.

    >>> shared({"cat": Share(0.25, (0.2, 0.3)), "dog": Share(0.75, (0.7, 0.8))})
    'dog 75.0% (70.0% to 80.0%), cat 25.0% (20.0% to 30.0%)'
    >>> shared({"cat": Share(0.25, None), "dog": Share(0.75, None)})
    'dog 75.0%, cat 25.0%, by labels alone'
    """
    some = sorted(prevalence.items(), key=lambda each: -each[1].share)
    parts = [
        f"{name} {share:.1%}" + (f" ({ends[0]:.1%} to {ends[1]:.1%})" if ends else "")
        for name, (share, ends) in some[:SHARES]
    ]
    if len(some) > SHARES:
        parts.append(f"and {len(some) - SHARES} more")
    return ", ".join(parts if some[0][1].interval else [*parts, "by labels alone"])


def listed(counts: Mapping[str, int]) -> str:
    """Return the counts that are not 0, in words.

    >>> listed({"labels": 3, "budget": 0, "request": 1})
    'labels 3, request 1'
    """
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges.

    >>> ranges([0, 1, 2, 5, 7, 8]), ranges([])
    ('0-2, 5, 7-8', 'none')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spans = (f"{run[0]}-{run[-1]}" if run[1:] else str(run[0]) for run in runs)
    return ", ".join(spans) or "none"


def duration(seconds: float) -> str:
    """Return an approximate duration in words.

    >>> duration(50), duration(600), duration(36_000), duration(900_000)
    ('50 seconds', '10 minutes', '10 hours', '10 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


@click.command("status", short_help="How the project is doing, on one screen.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: see schemas/status.schema.json.")
@click.option("--watch", is_flag=True, help="Update the screen until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="For --watch: how often.",
)
@given_options("broker", "prefix")
def command(given: Given, as_json: bool, watch: bool, every: float) -> None:
    """Show the status of a project: labels, tasks, expected errors, workers and instances.

    Everything is read from Kafka; no access to the instances is needed. The command reads all
    posteriors and workers once; with --watch only new records after that.

    \b
    labels        counted in posteriors, in the topic, and per second in the last minute
    wrong         predictions expected to be wrong: the sum of 1 - max p over all tasks; with gold
                  the share of them as a 90 % interval, otherwise estimated from labels alone
    votes         how many independent votes the labels of a task are worth, under settled
    classes       the share of each class, corrected by gold, with its 90 % interval
    settled       whether all instances report that no probability moves any more
    waiting       the lag of the group: records not processed yet, by topic
    sinks         the lag of each database or tool kept up to date, and its last sign of life
    disputed      the least certain tasks with two labels or more
    workers       best by the lower end of their 95 % interval, worst by the upper end

    \b
    Examples:
      sbic status
      sbic status --watch
      sbic status --json | jq '.tasks.open, .expected_wrong'
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    settings = in_project(given)

    def show(summary: Summary) -> None:
        if as_json:
            click.echo(for_output(dumps(summary.as_object()).decode()))
            return
        if watch and console.is_terminal:
            console.clear()
        console.print(StatusScreen(summary))

    async def run() -> None:
        async with reading_status(settings) as reader:
            show(await reader.update())
            while watch:
                await asyncio.sleep(every)
                show(await reader.update())

    try:
        run_connected(run())
    except KeyboardInterrupt:
        if not watch:
            raise

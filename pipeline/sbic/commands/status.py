"""`sbic status`: how the project is doing, on one screen."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from sbic.commands.options import given_options
from sbic.foreign import printable
from sbic.project.revision import Given
from sbic.status.report import DISPUTED, RATED, Summary
from sbic.status.tallies import Rated

NAME_WIDTH = 40
SAYS_WIDTH = 12
DISPUTED_WIDTH = 54  # of all columns but the name, with the space between them
RATED_WIDTH = 44


class StatusScreen:
    """Renders a summary with rich."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"{self.summary.project} at {clock(self.summary.activity.at)}", style="bold")
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
        yield "wrong", f"{tasks.expected_wrong:,.1f} predictions{share} expected to be wrong"
        settled = {True: "yes", False: "no", None: "-"}[activity.settled.is_settled]
        yield "settled", f"{settled}: {activity.settled.why}"
        if s.budget is not None:
            yield "budget", f"{s.budget_left:,} of {s.budget:,} labels left{self._when_spent()}"
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
        shown = ", ".join(
            f"{name} {value}" for name, value in s.settings.items() if value is not None
        )
        yield "settings", shown

    def _when_spent(self) -> str:
        seconds = self.summary.budget_seconds
        if seconds is None:
            return "; nothing is spending it"
        if not seconds:
            return ""
        return f", spent in {duration(seconds)} at this rate"

    def _disputed(self, width: int) -> Iterable[Text | Table]:
        disputed = self.summary.tasks.most_disputed(DISPUTED)
        if not disputed:
            return
        yield Text("\nmost disputed tasks", style="bold")
        table = compact(width - DISPUTED_WIDTH, "task", "says", "confidence", "labels", "status")
        for task in disputed:
            says = "tie" if task.prediction in (0, None) else str(task.prediction)
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


def _rated_cells(rated: Rated) -> Sequence[Text | str]:
    low, high = rated.interval
    return (
        Text(printable(rated.worker)),
        f"{rated.accuracy:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{rated.labels:,}",
    )


def compact(room: int, name: str, *columns: str) -> Table:
    """A table without lines, with `room` columns for the first one."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=min(room, NAME_WIDTH))
    for column in columns:
        if column == "says":
            table.add_column(column, no_wrap=True, max_width=SAYS_WIDTH)
        else:
            table.add_column(column, no_wrap=True, justify="right")
    return table


def listed(counts: Mapping[str, int]) -> str:
    """The counts that are not 0, in words.

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
    """An approximate duration in words.

    >>> duration(50), duration(600), duration(36_000), duration(900_000)
    ('50 seconds', '10 minutes', '10 hours', '10 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def clock(milliseconds: int) -> str:
    """A local time of day."""
    return f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


# `sbic status`: how the project is doing, on one screen.


SETTINGS = (
    *("broker", "prefix", "classes", "algorithm", "alpha", "beta", "prior", "class_prior"),
    *("repeats", "policy", "seed", "lease_seconds", "gold_rate"),
    *("stop_confidence", "stop_labels", "budget", "block_below", "block_after"),
)


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
@given_options(*SETTINGS)
def command(given: Given, as_json: bool, watch: bool, every: float) -> None:
    """Show the status of a project: labels, tasks, expected errors, workers and instances.

    Everything is read from Kafka; no access to the instances is needed. The command reads all
    posteriors and workers once; with --watch only new records after that.

    \b
    labels        counted in posteriors, in the topic, and per second in the last minute
    wrong         predictions expected to be wrong: the sum of 1 - max p over all tasks
    settled       whether all instances report that no probability moves any more
    waiting       the lag of the group: records not processed yet, by topic
    disputed      the least certain tasks with two labels or more
    workers       best by the lower end of their 95 % interval, worst by the upper end

    \b
    Examples:
      sbic status
      sbic status --watch
      sbic status --json | jq '.tasks.open, .expected_wrong'
    """
    import asyncio
    import signal

    from orjson import dumps
    from rich.console import Console

    from sbic.commands.options import for_output, in_project, run_connected
    from sbic.status.reading import reading_status
    from sbic.status.report import Summary

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

"""`sbic demo`: the whole pipeline in a minute, with its screen."""

from shutil import which
from statistics import median
from time import monotonic

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sbic.commands import tell
from sbic.commands.broker import compiling, own_broker
from sbic.commands.crowd import Habits, Plan
from sbic.commands.demo_run import Demo, DemoFailed, DemoResult, Errors, Scoreboards, Stage, Times
from sbic.commands.options import run_connected
from sbic.commands.up import page_options, page_port_of
from sbic.local.java import KAFKA_VERSION
from sbic.local.processes import page_at
from sbic.project.settings import Settings

NAMES = ("majority vote", "Fast SBIC", "settled")  # in the order of `Errors`
COLOURS = ("red", "yellow", "green")
SPARKS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 20, 60  # at least and at most
BESIDE_CURVES = 44  # columns for words and numbers
LATENCIES = 500  # the live screen shows the median of this many
LINE_SECONDS = 5  # between two lines, if there is no terminal for the live screen


class Screen:
    """A live screen on a terminal; elsewhere a line every few seconds."""

    def __init__(self, console: Console, labels: int) -> None:
        self.console = console
        self.labels = labels
        self.live = Live(console=console, auto_refresh=False, transient=True)
        self.curves: list[Errors] = []
        self.title = ""
        self.lined = 0.0
        least, most = CURVE_WIDTH
        self.width = max(least, min(most, console.width - BESIDE_CURVES))

    def __call__(self, stage: Stage, standing: Scoreboards) -> None:
        """Show the current state."""
        if self.console.is_terminal:
            self._remember(standing)
            self.live.update(self._picture(stage, standing), refresh=True)
            return
        if stage.title != self.title:
            self.title = stage.title
            self.console.print(f"{stage.title}:", soft_wrap=True)
        if stage.labels and monotonic() - self.lined > LINE_SECONDS:
            self.lined = monotonic()
            self.console.print(line(standing), soft_wrap=True)

    def _remember(self, standing: Scoreboards) -> None:
        """Add a point to the curves for each column that is due."""
        while standing.counted >= (len(self.curves) + 1) * self.labels / self.width:
            self.curves.append(standing.errors)

    def _picture(self, stage: Stage, standing: Scoreboards) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(width=self.width)
        grid.add_column(justify="right", no_wrap=True)
        counted = standing.counted
        bar = ProgressBar(total=self.labels, completed=counted, width=self.width)
        grid.add_row("now", stage.title, "")
        grid.add_row("labels counted", bar, f"{counted:,} of {self.labels:,}")
        if stage.labels:
            grid.add_row("", f"{rate(stage, standing):,.0f} labels per second", "")
            if stage.is_steady and standing.first.latencies:
                latency = f"{median(standing.first.latencies[-LATENCIES:]) * 1000:.0f} ms"
                grid.add_row("label to posterior", "", latency)
            now = standing.errors
            for name, colour, error, curve in zip(NAMES, COLOURS, now, self._curves(), strict=True):
                grid.add_row(f"error, {name}", Text(curve, colour), f"{error:.3f}")
        return Padding(grid, (1, 0))

    def _curves(self) -> list[str]:
        """Return the curve of each algorithm."""
        return [curve(each) for each in zip(*self.curves, strict=True)] or [""] * len(NAMES)


def rate(stage: Stage, standing: Scoreboards) -> float:
    """Labels counted per second in this stage."""
    return (standing.counted - stage.counted_before) / max(monotonic() - stage.started, 0.001)


def line(standing: Scoreboards) -> str:
    """Return the errors in one line."""
    errors = zip(NAMES, standing.errors, strict=True)
    wrong = ", ".join(f"{name} {error:.3f}" for name, error in errors)
    return f"{standing.counted:>8,} labels: {wrong} wrong"


def curve(values: tuple[float, ...], top: float = 0.5) -> str:
    """Values from 0 to `top` as a line of blocks.

    >>> curve((0.5, 0.25, 0.0))
    '█▅▁'
    """
    return "".join(SPARKS[round(min(value / top, 1) * (len(SPARKS) - 1))] for value in values)


def summary(result: DemoResult) -> RenderableType:
    """Return the tables at the end, and their result in words."""
    return Group(measured(result), "", errors_of(result), "", in_words(result))


def measured(result: DemoResult) -> Table:
    """Return the number of labels and the speed."""
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(justify="right")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    note = "each counted exactly once" if result.is_counted_once else "MISCOUNTED"
    table.add_row("labels", f"{result.labels:,}", note)
    pace = result.asked_labels / result.asked_seconds
    table.add_row("on assigned tasks", f"{result.asked_labels:,}", f"{pace:,.0f} per second")
    _add_times(table, "request to assignment", result.assignment)
    _add_times(table, "label to posterior", result.latency)
    speed = result.rush_labels / result.rush_seconds
    note = f"{result.rush_labels:,} more at once, to each project"
    table.add_row("labels per second", f"{speed:,.0f}", note)
    return table


def errors_of(result: DemoResult) -> Table:
    """Return the errors of the three algorithms, side by side."""
    table = Table(box=None, padding=(0, 2), header_style="")
    table.add_column("share of wrong predictions", justify="right")
    for labels in (result.asked_labels, result.labels):
        table.add_column(f"{labels:,} labels", justify="right", style="bold")
    for name, asked, final in zip(NAMES, result.asked_errors, result.errors, strict=True):
        table.add_row(name, f"{asked:.3f}", f"{final:.3f}")
    return table


def in_words(result: DemoResult) -> str:
    """Return the outcome in one sentence."""
    majority, fast, settled = (f"{error * result.tasks:,.0f}" for error in result.errors)
    return (
        f"Of {result.tasks:,} tasks, majority vote got {majority} wrong, Fast SBIC {fast} and "
        f"settled {settled},\nall from the same {result.labels:,} labels."
    )


def _add_times(table: Table, name: str, times: Times) -> None:
    median_text, p99_text = (f"{seconds * 1000:.0f} ms" for seconds in times)
    table.add_row(name, median_text, "median, after a warm-up")
    table.add_row("", p99_text, "99th percentile")


TASKS = 1000
WORKERS = 300
AT_ONCE = 100
SPAMMERS = 0.2

NEXT = """\
What to try next:
  sbic up --open                  the same pipeline, kept running, and its page
  sbic replay labels.csv --wait   your own labels (columns task, worker, label)
  sbic simulate --policy compare  this crowd, under both policies
  sbic watch --from-start         posteriors as they change
  sbic export posteriors          the current state as CSV
  curl localhost:6066/metrics     the metrics of sbic up, for Prometheus
  sbic --help                     everything else"""


@click.command(short_help="See the whole pipeline at work on a simulated crowd.")
@click.option(
    "--instances",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Instances of each project.",
)
@click.option(
    "--labels",
    type=click.IntRange(2000, 200_000),
    default=60_000,
    show_default=True,
    help="Labels that the crowd gives.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=500,
    show_default=True,
    help="Labels per second in the first part; the workers pause to keep it.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@page_options
def command(
    instances: int,
    labels: int,
    rate: float,
    seed: int,
    gateway_port: int | None,
    is_opened: bool,
) -> None:
    """See the whole pipeline at work: Kafka, instances, and a simulated crowd.

    1,000 tasks, 300 workers: four of five are right with a probability drawn from Beta(4, 3), which
    is 57 % on average, and the others toss a coin. Every label goes to two projects, one with Fast
    SBIC and one with settled, each with its own instance. Majority vote is computed on the same
    labels, and the errors of the three are shown as they fall.

    The workers request tasks and get those that Fast SBIC is least certain of (the uncertainty
    policy), until a third of the labels is given; then the rest is sent at once, on random tasks.
    Latency is measured in the first part with Fast SBIC, without the first fifth as a warm-up. The
    page shows both projects while the command runs. Nothing is kept.

    \b
    Examples:
      sbic demo --open
      sbic demo --instances 2 --labels 100000
    """
    console = Console(highlight=False)
    page_port = page_port_of(gateway_port)
    habits = Habits(think_seconds=AT_ONCE / rate, spammers=SPAMMERS)
    plan = Plan(TASKS, WORKERS, max(1, labels // 3 // TASKS), AT_ONCE, habits, seed)
    console.print(f"Starting Apache Kafka {KAFKA_VERSION} on this machine ...")
    start = monotonic()
    try:
        with compiling() as until_compiled, own_broker() as broker:
            console.print(f"Kafka is ready after {monotonic() - start:.1f} s at {broker.url}")
            accuracy = habits.accuracy
            settings = Settings(broker=broker.url, alpha=accuracy.alpha, beta=accuracy.beta)
            each = "one instance each" if instances == 1 else f"{instances} instances each"
            console.print(
                f"{WORKERS} workers answer {TASKS:,} tasks. Their {labels:,} labels go through "
                f"Kafka\nto two projects, Fast SBIC and settled, with {each}",
                soft_wrap=True,
            )
            console.print(
                f"Watch them in a browser meanwhile: {page_at(page_port)}", soft_wrap=True
            )
            until_compiled()
            screen = Screen(console, labels)
            demo = Demo(
                settings, plan, instances, labels - plan.labels, screen, page_port, is_opened
            )
            with screen.live:
                result = run_connected(demo.run())
    except DemoFailed as error:
        for line in error.log:
            tell(line)
        raise click.ClickException(str(error)) from None
    console.print()
    console.print(summary(result))
    if which("sbic") is None:
        console.print("\nFor the commands below, first: . .venv/bin/activate")
    console.print(f"\n{NEXT}", markup=False, soft_wrap=True)

"""The screen of the demo: bars and curves while it runs, and tables at the end."""

from statistics import median
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.simulation.demo import Errors, Result, Stage, Standing, Times

NAMES = ("majority vote", "Fast SBIC", "settled")  # in the order of `Errors`
COLOURS = ("red", "yellow", "green")
SPARKS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 20, 60  # at least and at most
BESIDE_CURVES = 44  # columns for words and numbers
LATENCIES = 500  # the live screen shows the median of so many
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

    def __call__(self, stage: Stage, standing: Standing) -> None:
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

    def _remember(self, standing: Standing) -> None:
        """Add a point to the curves for each column that is due."""
        while standing.counted >= (len(self.curves) + 1) * self.labels / self.width:
            self.curves.append(standing.errors)

    def _picture(self, stage: Stage, standing: Standing) -> RenderableType:
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
        """The curve of each algorithm."""
        return [curve(each) for each in zip(*self.curves, strict=True)] or [""] * len(NAMES)


def rate(stage: Stage, standing: Standing) -> float:
    """Labels counted per second in this stage."""
    return (standing.counted - stage.counted_before) / max(monotonic() - stage.started, 0.001)


def line(standing: Standing) -> str:
    """The errors in one line."""
    errors = zip(NAMES, standing.errors, strict=True)
    wrong = ", ".join(f"{name} {error:.3f}" for name, error in errors)
    return f"{standing.counted:>8,} labels: {wrong} wrong"


def curve(values: tuple[float, ...], top: float = 0.5) -> str:
    """Values from 0 to `top` as a line of blocks.

    >>> curve((0.5, 0.25, 0.0))
    '█▅▁'
    """
    return "".join(SPARKS[round(min(value / top, 1) * (len(SPARKS) - 1))] for value in values)


def summary(result: Result) -> RenderableType:
    """The tables at the end, and their result in words."""
    return Group(measured(result), "", errors_of(result), "", in_words(result))


def measured(result: Result) -> Table:
    """The number of labels and the speed."""
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


def errors_of(result: Result) -> Table:
    """The errors of the three algorithms, side by side."""
    table = Table(box=None, padding=(0, 2), header_style="")
    table.add_column("share of wrong predictions", justify="right")
    for labels in (result.asked_labels, result.labels):
        table.add_column(f"{labels:,} labels", justify="right", style="bold")
    for name, asked, final in zip(NAMES, result.asked_errors, result.errors, strict=True):
        table.add_row(name, f"{asked:.3f}", f"{final:.3f}")
    return table


def in_words(result: Result) -> str:
    """The outcome in one sentence."""
    majority, fast, settled = (f"{error * result.tasks:,.0f}" for error in result.errors)
    return (
        f"Of {result.tasks:,} tasks, majority vote got {majority} wrong, Fast SBIC {fast} and "
        f"settled {settled},\nall from the same {result.labels:,} labels."
    )


def _add_times(table: Table, name: str, times: Times) -> None:
    median_text, p99_text = (f"{seconds * 1000:.0f} ms" for seconds in times)
    table.add_row(name, median_text, "median, after a warm-up")
    table.add_row("", p99_text, "99th percentile")

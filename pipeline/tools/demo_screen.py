"""What the demonstration shows: bars and curves while it runs, a small table in the end."""

from statistics import median
from time import monotonic

from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.tools.demo import Result, Stage, Times
from pipeline.tools.scoreboard import Scoreboard

SPARKS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 20, 60  # at least and at most
BESIDE_CURVES = 44  # columns for the words and numbers
LATENCIES = 500  # the last ones, of which the live screen shows the median
LINE_SECONDS = 5  # between the lines that replace the live screen where there is no terminal


class Screen:
    """Redrawn in place on a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console, labels: int) -> None:
        self.console = console
        self.labels = labels
        self.live = Live(console=console, auto_refresh=False, transient=True)
        self.curves: list[tuple[float, float]] = []
        self.lined = 0.0
        least, most = CURVE_WIDTH
        self.width = max(least, min(most, console.width - BESIDE_CURVES))

    def __call__(self, stage: Stage, board: Scoreboard) -> None:
        """Show where things are."""
        if self.console.is_terminal:
            self._remember(board)
            self.live.update(self._picture(stage, board), refresh=True)
        elif monotonic() - self.lined > LINE_SECONDS:
            self.lined = monotonic()
            self.console.print(line(stage, board), soft_wrap=True)

    def _remember(self, board: Scoreboard) -> None:
        """A point of the curves for each column of them."""
        while board.counted >= (len(self.curves) + 1) * self.labels / self.width:
            self.curves.append((board.error, board.majority_error))

    def _picture(self, stage: Stage, board: Scoreboard) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(width=self.width)
        grid.add_column(justify="right", no_wrap=True)
        bar = ProgressBar(total=self.labels, completed=board.counted, width=self.width)
        grid.add_row("now", stage.title, "")
        grid.add_row("labels counted", bar, f"{board.counted:,} of {self.labels:,}")
        if stage.labels:
            grid.add_row("", f"{rate(stage, board):,.0f} labels per second", "")
            if stage.is_steady and board.latencies:
                latency = f"{median(board.latencies[-LATENCIES:]) * 1000:.0f} ms"
                grid.add_row("label to posterior", "", latency)
            mine, theirs = zip(*self.curves, strict=True) if self.curves else ((), ())
            grid.add_row("error, pipeline", Text(curve(mine), "green"), f"{board.error:.3f}")
            grid.add_row(
                "error, majority vote", Text(curve(theirs), "red"), f"{board.majority_error:.3f}"
            )
        return Padding(grid, (1, 0))


def rate(stage: Stage, board: Scoreboard) -> float:
    """Labels counted per second in this stage."""
    return (board.counted - stage.counted_before) / max(monotonic() - stage.started, 0.001)


def line(stage: Stage, board: Scoreboard) -> str:
    """The same in a line."""
    if not stage.labels:
        return stage.title
    return (
        f"{stage.title}: {board.counted:,} counted, {rate(stage, board):,.0f} labels per second, "
        f"error {board.error:.3f}, majority vote {board.majority_error:.3f}"
    )


def curve(values: tuple[float, ...], top: float = 0.5) -> str:
    """Values from 0 to `top` as a line of blocks.

    >>> curve((0.5, 0.25, 0.0))
    '█▅▁'
    """
    return "".join(SPARKS[round(min(value / top, 1) * (len(SPARKS) - 1))] for value in values)


def summary(result: Result) -> RenderableType:
    """The table in the end."""
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(justify="right")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    once = result.labels_in_posteriors == result.labels
    note = "every one counted, none twice" if once else "MISCOUNTED"
    table.add_row("labels", f"{result.labels:,}", note)
    pace = result.asked_labels / result.asked_seconds
    table.add_row("on assigned tasks", f"{result.asked_labels:,}", f"{pace:,.0f} per second")
    _add_times(table, "request to assignment", result.assignment)
    _add_times(table, "label to posterior", result.latency)
    table.add_row("error, pipeline", f"{result.asked_error:.3f}", "share of tasks predicted wrong")
    majority = f"{result.asked_majority_error:.3f}"
    table.add_row("error, majority vote", majority, "on the same labels")
    speed = result.rush_labels / result.rush_seconds
    table.add_row("labels per second", f"{speed:,.0f}", f"{result.rush_labels:,} more sent at once")
    table.add_row("error, pipeline", f"{result.error:.3f}", "with all labels")
    table.add_row("error, majority vote", f"{result.majority_error:.3f}", "with all labels")
    return table


def _add_times(table: Table, name: str, times: Times) -> None:
    middle, high = (f"{seconds * 1000:.0f} ms" for seconds in times)
    table.add_row(name, middle, "median, after a warm-up")
    table.add_row("", high, "99th percentile")

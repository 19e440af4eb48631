"""Shows posteriors as they change: a live table in a terminal, or lines of JSON."""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import BinaryIO

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sbic.classes import SIGNS, Classes
from sbic.foreign import printable
from sbic.kafka.reader import parsed, reading
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.posteriors import Posterior, on_one_line, posterior_parser

RATE_SECONDS = 5
BAR_WIDTH = 20
NARROW = 90  # columns, below which log-odds are left out and bars are shorter
NARROW_BAR_WIDTH = 8
CHROME = 7  # lines of the screen that are not rows


async def watch_as_json(settings: Settings, from_start: bool, out: BinaryIO) -> None:
    """Write a line of JSON for every change, until cancelled."""
    topic, parse = Topics(settings).posteriors.name, posterior_parser(settings.crowd_classes)
    async with reading(settings, topic, from_start=from_start) as reader:
        async for records in reader.follow():
            for record, _ in parsed(records, parse):
                out.write(on_one_line(record.value) + b"\n")
            out.flush()


async def watch_as_table(settings: Settings, from_start: bool, console: Console) -> None:
    """Show a table of the tasks that changed last, until cancelled."""
    topic, classes = Topics(settings).posteriors.name, settings.crowd_classes
    parse = posterior_parser(classes)
    async with reading(settings, topic, from_start=from_start) as reader:
        board = Board(f"{topic} at {', '.join(settings.bootstrap_servers)}", classes)
        with Live(board, console=console, screen=True, auto_refresh=False) as live:
            async for records in reader.follow(seconds=0.25):
                board.add([posterior for _, posterior in parsed(records, parse)])
                live.refresh()


class Board:
    """The tasks that changed last, the newest first, and the rate of changes.

    A closed task shows the reason as its status.
    """

    def __init__(
        self, source: str, classes: Classes = SIGNS, clock: Callable[[], float] = monotonic
    ) -> None:
        self.source = source
        self.classes = classes
        self.clock = clock
        self.started = clock()
        self.changes = 0
        self.tasks: set[str] = set()
        self.latest: dict[str, Posterior] = {}  # the newest last
        self.recent: deque[tuple[float, int]] = deque()

    def add(self, changed: Sequence[Posterior]) -> None:
        """Add posteriors that were just read."""
        now = self.clock()
        for posterior in changed:
            self.latest.pop(posterior.task, None)
            self.latest[posterior.task] = posterior
            self.tasks.add(posterior.task)
        while len(self.latest) > 500:  # more than any screen shows
            del self.latest[next(iter(self.latest))]
        self.changes += len(changed)
        self.recent.append((now, len(changed)))
        while self.recent[0][0] < now - RATE_SECONDS:
            self.recent.popleft()

    @property
    def rate(self) -> float:
        """Changes per second in the last seconds."""
        seconds = min(RATE_SECONDS, self.clock() - self.started) or 1
        return sum(count for _, count in self.recent) / seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or options.size.height
        rows = list(reversed(self.latest.values()))[: max(1, height - CHROME)]
        yield self._table(rows, is_narrow=options.max_width < NARROW)
        state = f"{self.changes:,} changes of {len(self.tasks):,} tasks, {self.rate:,.0f} a second"
        yield Text(state if self.changes else "no change yet: posteriors change when labels arrive")
        yield Text("Ctrl-C to stop", style="dim")

    def _table(self, rows: list[Posterior], is_narrow: bool) -> Table:
        table = Table(
            title=self.source,
            title_justify="left",
            title_style="bold",
            expand=True,
            box=box.SIMPLE_HEAD if is_narrow else box.HEAVY_HEAD,
            padding=(0, 1, 0, 0) if is_narrow else (0, 1),
        )
        width = NARROW_BAR_WIDTH if is_narrow else BAR_WIDTH
        is_signs = self.classes.is_signs
        of_plus = "p of +1" if is_narrow else "probability of +1"
        table.add_column("task", ratio=2, no_wrap=True)
        table.add_column(of_plus if is_signs else "confidence", no_wrap=True, min_width=width)
        table.add_column("", justify="right", no_wrap=True)
        if is_signs and not is_narrow:
            table.add_column("log_odds", justify="right")
        table.add_column("labels", justify="right", no_wrap=True)
        if is_signs:
            table.add_column("says" if is_narrow else "prediction", justify="right", no_wrap=True)
        else:
            table.add_column("prediction", ratio=1, no_wrap=True)
        table.add_column("status", no_wrap=True, min_width=len("confident"))
        for posterior in rows:
            table.add_row(*self._cells(posterior, width, has_odds=is_signs and not is_narrow))
        return table

    def _cells(self, posterior: Posterior, width: int, *, has_odds: bool) -> list[Text]:
        prediction, is_signs = posterior.prediction, self.classes.is_signs
        shown = posterior.beliefs[1] if is_signs else max(posterior.beliefs)
        colour = "yellow" if prediction is None else "green"
        says = "" if prediction is None else self.classes.names[prediction]
        if is_signs:
            colour = {0: "red", 1: "green", None: "yellow"}[prediction]
            says = {0: "-1", 1: "+1", None: "0"}[prediction]
        return [
            Text(printable(posterior.task)),
            Text(bar(shown, width), style=colour),
            Text(f"{shown:.3f}"),
            *([Text(f"{posterior.log_odds:+.2f}")] if has_odds else []),
            Text(f"{posterior.labels:,}"),
            Text(printable(says), style=colour),
            Text(status_of(posterior)),
        ]


def status_of(posterior: Posterior) -> str:
    """Open, gold, or the reason why the task is closed.

    >>> status_of(Posterior("t1", [0.5, 0.5], None, 0, {}, reason="labels"))
    'labels'
    """
    return posterior.reason or ("open" if posterior.evidence is None else "gold")


def bar(probability: float, width: int = BAR_WIDTH) -> str:
    """Return a bar as long as the probability, to an eighth of a character.

    >>> bar(0.5, 4), bar(1.0, 4), bar(0.28125, 4)
    ('██  ', '████', '█▏  ')
    """
    eighths = round(probability * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + " ▏▎▍▌▋▊▉"[rest] * (rest > 0)).ljust(width)

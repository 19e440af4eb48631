"""Shows posteriors as they change: a live table in a terminal, or lines of JSON."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, BinaryIO

from aiokafka import ConsumerRecord
from orjson import dumps
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sbic.foreign import printable
from sbic.kafka.reader import parsed, reading
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.posteriors import AnyPosterior, parse_posterior

RATE_SECONDS = 5
BAR_WIDTH = 20
NARROW = 90  # columns, below which log-odds are left out and bars are shorter
NARROW_BAR_WIDTH = 8
CHROME = 7  # lines of the screen that are not rows


async def watch_as_json(settings: Settings, from_start: bool, out: BinaryIO) -> None:
    """Write a line of JSON for every change, until cancelled."""
    topic = Topics(settings).posteriors.name
    async with reading(settings, topic, from_start=from_start) as reader:
        async for records in reader.follow():
            for posterior in posteriors(records):
                out.write(dumps(posterior) + b"\n")
            out.flush()


async def watch_as_table(settings: Settings, from_start: bool, console: Console) -> None:
    """Show a table of the tasks that changed last, until cancelled."""
    topic = Topics(settings).posteriors.name
    async with reading(settings, topic, from_start=from_start) as reader:
        board = Board(f"{topic} at {', '.join(settings.bootstrap_servers)}")
        with Live(board, console=console, screen=True, auto_refresh=False) as live:
            async for records in reader.follow(seconds=0.25):
                board.add(posteriors(records))
                live.refresh()


def posteriors(records: Iterable[ConsumerRecord]) -> list[AnyPosterior]:
    """The posteriors among the records; others are not sbic records, and ignored."""
    return [posterior for _, posterior in parsed(records, parse_posterior)]


class Board:
    """The tasks that changed last, the newest first, and the rate of changes.

    A closed task shows the reason as its status. The columns are those for the kind of the newest
    posterior.
    """

    def __init__(self, source: str, clock: Callable[[], float] = monotonic) -> None:
        self.source = source
        self.clock = clock
        self.started = clock()
        self.changes = 0
        self.tasks: set[str] = set()
        self.latest: dict[str, AnyPosterior] = {}  # the newest last
        self.recent: deque[tuple[float, int]] = deque()

    def add(self, changed: Sequence[AnyPosterior]) -> None:
        """Add posteriors that were just read."""
        now = self.clock()
        for posterior in changed:
            self.latest.pop(posterior["task"], None)
            self.latest[posterior["task"]] = posterior
            self.tasks.add(posterior["task"])
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

    def _table(self, rows: list[AnyPosterior], is_narrow: bool) -> Table:
        """A table of the rows of the same kind as the first."""
        table = Table(
            title=self.source,
            title_justify="left",
            title_style="bold",
            expand=True,
            box=box.SIMPLE_HEAD if is_narrow else box.HEAVY_HEAD,
            padding=(0, 1, 0, 0) if is_narrow else (0, 1),
        )
        width = NARROW_BAR_WIDTH if is_narrow else BAR_WIDTH
        is_named = bool(rows) and "probabilities" in rows[0]
        table.add_column("task", ratio=2, no_wrap=True)
        what = "confidence" if is_named else "p of +1" if is_narrow else "probability of +1"
        table.add_column(what, no_wrap=True, min_width=width)
        table.add_column("", justify="right", no_wrap=True)
        if not (is_named or is_narrow):
            table.add_column("log_odds", justify="right")
        table.add_column("labels", justify="right", no_wrap=True)
        if is_named:
            table.add_column("prediction", ratio=1, no_wrap=True)
        else:
            table.add_column("says" if is_narrow else "prediction", justify="right", no_wrap=True)
        table.add_column("status", no_wrap=True, min_width=len("confident"))
        for posterior in rows:
            if is_named == ("probabilities" in posterior):
                cells = (
                    _named_cells(posterior, width) if is_named else _sign_cells(posterior, width)
                )
                if is_narrow and not is_named:
                    del cells[3]  # the log-odds
                table.add_row(*cells)
        return table


def _sign_cells(posterior: Mapping[str, Any], width: int) -> list[Text]:
    probability = posterior["probability"]
    prediction = posterior["prediction"]
    colour = {1: "green", -1: "red"}.get(prediction, "yellow")
    return [
        Text(printable(posterior["task"])),
        Text(bar(probability, width), style=colour),
        Text(f"{probability:.3f}"),
        Text(f"{posterior['log_odds']:+.2f}"),
        Text(f"{posterior['labels']:,}"),
        Text(f"{prediction:+d}" if prediction else "0", style=colour),
        Text(printable(status_of(posterior))),
    ]


def _named_cells(posterior: Mapping[str, Any], width: int) -> list[Text]:
    confidence = posterior["confidence"]
    prediction = posterior["prediction"]
    colour = "yellow" if prediction is None else "green"
    return [
        Text(printable(posterior["task"])),
        Text(bar(confidence, width), style=colour),
        Text(f"{confidence:.3f}"),
        Text(f"{posterior['labels']:,}"),
        Text(printable(prediction or ""), style=colour),
        Text(printable(status_of(posterior))),
    ]


def status_of(posterior: Mapping[str, Any]) -> str:
    """Open, gold, or the reason why the task is closed.

    >>> status_of({"status": "open"}), status_of({"status": "closed", "reason": "labels"})
    ('open', 'labels')
    """
    if posterior["status"] == "closed":
        return str(posterior.get("reason", "closed"))
    return "gold" if "gold" in posterior else "open"


def bar(probability: float, width: int = BAR_WIDTH) -> str:
    """A bar as long as the probability, to an eighth of a character.

    >>> bar(0.5, 4), bar(1.0, 4), bar(0.28125, 4)
    ('██  ', '████', '█▏  ')
    """
    eighths = round(probability * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + " ▏▎▍▌▋▊▉"[rest] * (rest > 0)).ljust(width)

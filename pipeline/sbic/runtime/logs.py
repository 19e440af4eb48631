"""The log of an instance on standard error: lines for people, or JSON for a log store."""

import logging
import platform
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal

from mode import Service
from orjson import OPT_NON_STR_KEYS, dumps

from sbic import __version__
from sbic.project.settings import SPECS, Settings
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import Origin

log = logging.getLogger("sbic")

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class TextFormatter(logging.Formatter):
    """Formats a line with time, level and logger; a critical one like the error of a command."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Return the line."""
        if record.levelno >= logging.CRITICAL:
            return f"{record.name}: {record.message}"
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """Formats each line as a JSON object, with the traceback of an error in it.

    >>> fields = {"name": "sbic", "levelname": "INFO", "msg": "ready", "created": 0}
    >>> JsonFormatter().format(logging.makeLogRecord(fields))
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","logger":"sbic","message":"ready"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, with the `fields` of the record in it."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.removesuffix("+00:00") + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return dumps(line, default=str, option=OPT_NON_STR_KEYS).decode()


def set_up_logging(level: LogLevel, style: LogFormat) -> None:
    """Log to standard error.

    Libraries always log warnings, which `KafkaErrors` counts, even if only errors are written.
    """
    handler = logging.StreamHandler()
    handler.setLevel(level.upper())
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(force=True, level=logging.WARNING, handlers=[handler])
    log.setLevel(level.upper())


def log_start(settings: Settings) -> None:
    """Log the version and the settings, except secrets."""
    values = {name: getattr(settings, name) for name in SPECS}
    shown = {name: value for name, value in values.items() if _is_plain(value)}
    log.info(
        "sbic %s on Python %s: %s",
        __version__,
        platform.python_version(),
        " ".join(f"{name}={value}" for name, value in shown.items() if value is not None),
        extra={"fields": {"version": __version__, "settings": shown}},
    )


def _is_plain(value: object) -> bool:
    """Whether a setting's value has a plain type; secrets have their own type."""
    return value is None or type(value) in (str, int, float, bool)


# Logs dead letters: the first of each reason at once, the others as a count once a minute.


COUNTS_SECONDS = 60.0


class DeadLetterLog(Service):
    """Logs a few lines a minute, however many dead letters there are."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen: set[Reason] = set()
        self.more: Counter[Reason] = Counter()

    def add(self, origin: Origin, why: BadRecord) -> None:
        """Log or count a dead letter."""
        if why.reason in self.seen:
            self.more[why.reason] += 1
            return
        self.seen.add(why.reason)
        log.warning(
            "dead letter (%s): offset %d of %s, partition %d: %s; more of this kind are counted",
            why.reason,
            origin.offset,
            origin.topic,
            origin.partition,
            why.message.encode("unicode_escape").decode(),  # may quote the record
        )

    def log_counts(self) -> None:
        """Log how many there were of each reason since the last call, if any."""
        if self.more:
            counts = ", ".join(f"{count:,} {reason}" for reason, count in self.more.most_common())
            log.warning("dead letters in the last minute: %s", counts)
            self.more.clear()

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            await self.sleep(COUNTS_SECONDS)
            self.log_counts()


# Logs every few seconds why an instance is not ready yet.


UNREADY_SECONDS = 5.0


class ReadinessLog(Service):
    """Logs the answer of `/readyz` until it is `ready`."""

    def __init__(self, why_not_ready: Callable[[], str | None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.why_not_ready = why_not_ready

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            await self.sleep(UNREADY_SECONDS)
            why_not = self.why_not_ready()
            if why_not is not None and not self.should_stop:
                log.info("not ready: %s", why_not)


# Logs when an instance becomes settled, and when it no longer is, at most once a minute.


SETTLED_SECONDS = 60.0  # at least, between two lines


class SettledLog:
    """Logs changes between settled and not settled, except those undone within a minute.

    >>> log = SettledLog()
    >>> [log.is_due(rests, now) for rests, now in ((True, 0), (False, 1), (True, 2), (False, 61))]
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self.logged: bool | None = None
        self.logged_at = -inf

    def is_due(self, rests: bool, now: float) -> bool:
        """Return whether to log this state, and note that it is logged."""
        if rests is self.logged or now < self.logged_at + SETTLED_SECONDS:
            return False
        self.logged, self.logged_at = rests, now
        return True

    def look(self, rests: bool, due: int, now: float) -> None:
        """Log whether the instance is settled, if that has changed."""
        if self.is_due(rests, now):
            log.info("settled" if rests else f"not settled: {due} tasks are due")

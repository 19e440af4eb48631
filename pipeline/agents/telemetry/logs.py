"""What an instance writes to standard error: lines for people, or JSON for a log store."""

import logging
import platform
from datetime import UTC, datetime
from typing import Literal

from orjson import OPT_NON_STR_KEYS, dumps

from pipeline import __version__
from pipeline.settings import SPECS, Settings

log = logging.getLogger("sbic")

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class TextFormatter(logging.Formatter):
    """A line with time, level and logger; the last words of a process are as those of a command."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """The line."""
        if record.levelno >= logging.CRITICAL:
            return f"{record.name}: {record.message}"
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """An object for each line, with the traceback of an error in it.

    >>> fields = {"name": "sbic", "levelname": "INFO", "msg": "ready", "created": 0}
    >>> JsonFormatter().format(logging.makeLogRecord(fields))
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","logger":"sbic","message":"ready"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The object; `fields` of the record are in it too."""
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
    """Say on standard error what happens.

    Libraries are heard from a warning on: what they say is counted (`KafkaErrors`), even where
    only errors are written.
    """
    handler = logging.StreamHandler()
    handler.setLevel(level.upper())
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(force=True, level=logging.WARNING, handlers=[handler])
    log.setLevel(level.upper())


def log_start(settings: Settings) -> None:
    """Say which version starts, and with which settings; secrets are not among them."""
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
    """Whether a setting's value is of a plain type; a secret is of a type of its own."""
    return value is None or type(value) in (str, int, float, bool)

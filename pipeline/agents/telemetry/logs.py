"""The log of an instance on standard error: lines for people, or JSON for a log store."""

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

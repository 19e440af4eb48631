"""What an instance logs, and how much of it."""

import json
import logging
import sys

import pytest

from sbic.project.settings import SPECS, Settings
from sbic.runtime.logs import DeadLetterLog, JsonFormatter, TextFormatter, log_start
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import Origin

NOT_JSON = BadRecord(Reason.NOT_JSON, "the value is not JSON:\nforged line")


def record_of(level: int, message: str, *, error: bool = False) -> logging.LogRecord:
    info = sys.exc_info() if error else None
    return logging.LogRecord("sbic", level, __file__, 1, message, (), info)


def test_a_line_of_json_has_the_traceback_in_it() -> None:
    try:
        raise ValueError("no\nsuch")
    except ValueError:
        line = JsonFormatter().format(record_of(logging.ERROR, "two\nlines", error=True))
    assert "\n" not in line
    found = json.loads(line)
    assert found["level"] == "error"
    assert found["message"] == "two\nlines"
    assert found["error"].startswith("Traceback")
    assert found["error"].endswith("ValueError: no\nsuch")


def test_the_last_words_are_those_of_a_command() -> None:
    assert TextFormatter().format(record_of(logging.CRITICAL, "stopped")) == "sbic: stopped"
    assert TextFormatter().format(record_of(logging.INFO, "x")).endswith(" INFO sbic: x")


def test_the_first_line_has_the_settings_in_force(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sbic"):
        log_start(Settings(prefix="birds", stop_labels=5))
    (line,) = caplog.records
    assert "prefix=birds" in line.getMessage()
    assert "stop_labels=5" in line.getMessage()
    told = json.loads(JsonFormatter().format(line))
    assert told["settings"]["prefix"] == "birds"
    assert set(told["settings"]) <= set(SPECS)


def test_dead_letters_take_a_line_for_the_first_of_a_reason_and_one_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = DeadLetterLog()
    with caplog.at_level(logging.INFO, "sbic"):
        for offset in range(1000):
            told.add(Origin("birds.labels", 3, offset), NOT_JSON)
        told.add(Origin("birds.labels", 3, 2000), BadRecord(Reason.BAD_LABEL, "no"))
        told.log_counts()
        told.log_counts()
    first, second, minute = [record.getMessage() for record in caplog.records]
    assert first.startswith("dead letter (not-json): offset 0 of birds.labels, partition 3: the")
    assert "\n" not in first
    assert second.startswith("dead letter (bad-label): offset 2000 ")
    assert minute == "dead letters in the last minute: 999 not-json"

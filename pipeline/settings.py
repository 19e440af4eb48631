"""The configuration: one field per `SBIC_*` environment variable, checked before anything runs."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from math import inf
from typing import Any, Literal, Self, cast

HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d{1,5}))?")
PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
KAFKA_PORT = 9092


class BadSetting(ValueError):
    """A setting has a value it cannot have; says which, what it needs and what it has."""

    def __init__(self, name: str, needs: str, value: object) -> None:
        super().__init__(f"{variable(name)} must be {needs}, not {value!r}")
        self.name = name
        self.needs = needs
        self.value = value


def variable(name: str) -> str:
    """The environment variable of a setting.

    >>> variable("web_port")
    'SBIC_WEB_PORT'
    """
    return f"SBIC_{name.upper()}"


def _setting(
    default: Any,
    help_text: str,
    needs: str,
    good: Callable[[Any], bool],
    kind: Callable[[str], Any] | None = None,
) -> Any:
    """A setting; with the default `None` it is off until it has a value of this kind."""
    kind = kind or type(default)
    metadata = {"help": help_text, "needs": needs, "good": good, "kind": kind}
    return field(default=default, metadata=metadata)


def _yes_or_no(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _is_broker(value: str) -> bool:
    return bool(value) and all(_host_and_port(part) for part in value.split(","))


def _host_and_port(address: str) -> str | None:
    found = HOST_AND_PORT.fullmatch(address.strip().removeprefix("kafka://"))
    if found is None or int(found[2] or KAFKA_PORT) > 65535:
        return None
    return f"{found[1]}:{found[2] or KAFKA_PORT}"


def _is_positive(value: float) -> bool:
    return 0 < value < inf


@dataclass(frozen=True)
class Settings:
    """What an instance and the tools need to know; one prefix is one project.

    >>> Settings(broker="kafka://one:9092,two").bootstrap_servers
    ['one:9092', 'two:9092']
    >>> Settings(partitions=0)
    Traceback (most recent call last):
    pipeline.settings.BadSetting: SBIC_PARTITIONS must be a whole number from 1 to 10000, not 0
    """

    broker: str = _setting(
        "kafka://127.0.0.1:9092",
        "The Kafka to use; several addresses separated by commas.",
        "kafka://host:port, several separated by commas",
        _is_broker,
    )
    prefix: str = _setting(
        "sbic",
        "First part of every topic's name: one prefix is one project.",
        "1 to 200 letters, digits, dots, dashes or underscores, a letter or digit first",
        lambda value: PREFIX.fullmatch(value) is not None,
    )
    partitions: int = _setting(
        8,
        "Partitions of every topic: the most instances that can share the work.",
        "a whole number from 1 to 10000",
        lambda value: 1 <= value <= 10_000,
    )
    replication: int = _setting(
        1,
        "Brokers that keep a copy of every record.",
        "a whole number from 1 to 100",
        lambda value: 1 <= value <= 100,
    )
    labels_retention_hours: int = _setting(
        -1,
        "How long labels and their votes are kept; -1: forever.",
        "a whole number of hours, or -1 for forever",
        lambda value: value == -1 or value > 0,
    )
    retention_hours: int = _setting(
        7 * 24,
        "How long dead letters are kept; -1: forever.",
        "a whole number of hours, or -1 for forever",
        lambda value: value == -1 or value > 0,
    )
    alpha: float = _setting(
        2.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): right answers.",
        "a positive number",
        _is_positive,
    )
    beta: float = _setting(
        1.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): wrong answers.",
        "a positive number",
        _is_positive,
    )
    prior: float = _setting(
        0.5,
        "Probability that a task's truth is +1, before any label.",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
    )
    repeats: Literal["first", "last"] = _setting(
        "first",
        "Which answer counts when a worker answers a task again: first or last.",
        "first or last",
        lambda value: value in ("first", "last"),
    )
    policy: Literal["uncertainty", "uniform"] = _setting(
        "uncertainty",
        "Which open task a worker gets: the least certain, or the one with the fewest labels.",
        "uncertainty or uniform",
        lambda value: value in ("uncertainty", "uniform"),
    )
    seed: int = _setting(
        0,
        "Breaks ties between tasks: the same seed, the same way.",
        "a whole number from 0 on",
        lambda value: value >= 0,
    )
    lease_seconds: float = _setting(
        600.0,
        "How long an assigned task is kept for its worker.",
        "a positive number of seconds",
        _is_positive,
    )
    assign_on_label: bool = _setting(
        False,
        "A label is also a request for the next task: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        _yes_or_no,
    )
    gold_rate: float = _setting(
        0.0,
        "Share of a worker's assignments that are gold; more while they are new.",
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
    )
    stop_confidence: float | None = _setting(
        None,
        "Close a task once its truth is as probable as this.  [default: never]",
        "a number between 0.5 and 1",
        lambda value: 0.5 < value < 1,
        float,
    )
    stop_labels: int | None = _setting(
        None,
        "Close a task once it has so many labels.  [default: never]",
        "a whole number from 1 on",
        lambda value: value >= 1,
        int,
    )
    budget: int | None = _setting(
        None,
        "Close every task once there are so many labels in all.  [default: never]",
        "a whole number from 1 on",
        lambda value: value >= 1,
        int,
    )
    block_below: float | None = _setting(
        None,
        "No assignments for workers of a lower accuracy than this.  [default: for all]",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
        float,
    )
    block_after: int = _setting(
        10,
        "Labels that a worker has given before they can be blocked.",
        "a whole number from 0 on",
        lambda value: value >= 0,
    )
    web_host: str = _setting(
        "127.0.0.1",
        "Address of the web port.",
        "a host name or address",
        lambda value: bool(value) and not re.search(r"[\s/]", value),
    )
    web_port: int = _setting(
        6066,
        "Port of health checks and metrics; 0: any free one.",
        "a port from 0 to 65535",
        lambda value: 0 <= value <= 65535,
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is None and spec.default is None:
                continue
            if not spec.metadata["good"](value):
                raise BadSetting(spec.name, spec.metadata["needs"], value)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The settings that the environment gives; the rest as they are by default.

        >>> Settings.from_env({"SBIC_PREFIX": "birds", "SBIC_ALPHA": "3"}).alpha
        3.0
        """
        given = {
            spec.name: read_setting(spec.name, text)
            for spec in fields(cls)
            if (text := environ.get(variable(spec.name)))
        }
        return cls(**given)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The broker addresses as Kafka clients take them."""
        return [cast(str, _host_and_port(part)) for part in self.broker.split(",")]


SPECS: dict[str, Field[Any]] = {spec.name: spec for spec in fields(Settings)}


def read_setting(name: str, text: str) -> Any:
    """The value that a setting's text stands for, checked.

    >>> read_setting("web_port", "8080")
    8080
    >>> read_setting("web_port", "http")
    Traceback (most recent call last):
    pipeline.settings.BadSetting: SBIC_WEB_PORT must be a port from 0 to 65535, not 'http'
    """
    spec = SPECS[name]
    try:
        value = spec.metadata["kind"](text)
        good = spec.metadata["good"](value)
    except (ValueError, KeyError):
        good = False
    if not good:
        raise BadSetting(name, spec.metadata["needs"], text)
    return value

"""The configuration: one field per `SBIC_*` environment variable, checked before anything runs."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum, inf
from typing import Any, Literal, Self, cast

from pipeline.classes import SUM_TOLERANCE, Classes
from pipeline.security.security import Security
from pipeline.spec import BadSetting, Spec, check_values, read_value, setting, specs_of, variable

__all__ = [
    "KAFKA_PORT",
    "PREFIX",
    "SPECS",
    "AlgorithmName",
    "BadSetting",
    "ClassPrior",
    "Settings",
    "class_prior_of",
    "read_setting",
    "variable",
]

HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d{1,5}))?")
PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
KAFKA_PORT = 9092

AlgorithmName = Literal["fast-sbic", "settled"]
ClassPrior = Literal["learned", "uniform"] | tuple[float, ...]


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


def _are_classes(value: str) -> bool:
    return len(Classes.parse(value)) > 1  # or says what is wrong


def class_prior_of(text: str) -> ClassPrior:
    """What a class prior stands for.

    >>> class_prior_of("uniform"), class_prior_of("0.2, 0.3, 0.5")
    ('uniform', (0.2, 0.3, 0.5))
    """
    if text == "learned" or text == "uniform":
        return cast(ClassPrior, text)
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        raise ValueError("these are not numbers with commas between") from None
    if not all(0 < number < 1 for number in numbers):
        raise ValueError("each number must be between 0 and 1")
    if abs(fsum(numbers) - 1) > SUM_TOLERANCE:
        raise ValueError(f"the numbers add up to {fsum(numbers):.9g}")
    return numbers


@dataclass(frozen=True)
class Settings:
    """What an instance and the tools need to know; one prefix is one project.

    >>> Settings(broker="kafka://one:9092,two").bootstrap_servers
    ['one:9092', 'two:9092']
    >>> Settings(partitions=0)
    Traceback (most recent call last):
    pipeline.spec.BadSetting: SBIC_PARTITIONS must be a whole number from 1 to 10000, not 0
    """

    broker: str = setting(
        "kafka://127.0.0.1:9092",
        "The Kafka to use; several addresses separated by commas.",
        "kafka://host:port, several separated by commas",
        _is_broker,
    )
    prefix: str = setting(
        "sbic",
        "First part of every topic's name: one prefix is one project.",
        "1 to 200 letters, digits, dots, dashes or underscores, a letter or digit first",
        lambda value: PREFIX.fullmatch(value) is not None,
    )
    partitions: int = setting(
        8,
        "Partitions of every topic: the most instances that can share the work.",
        "a whole number from 1 to 10000",
        lambda value: 1 <= value <= 10_000,
    )
    replication: int = setting(
        1,
        "Brokers that keep a copy of every record.",
        "a whole number from 1 to 100",
        lambda value: 1 <= value <= 100,
    )
    labels_retention_hours: int = setting(
        -1,
        "How long labels and their votes are kept; -1: forever.",
        "a whole number of hours, or -1 for forever",
        lambda value: value == -1 or value > 0,
    )
    retention_hours: int = setting(
        7 * 24,
        "How long dead letters are kept; -1: forever.",
        "a whole number of hours, or -1 for forever",
        lambda value: value == -1 or value > 0,
    )
    alpha: float = setting(
        2.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): right answers.",
        "a positive number",
        _is_positive,
    )
    beta: float = setting(
        1.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): wrong answers.",
        "a positive number",
        _is_positive,
    )
    prior: float = setting(
        0.5,
        "For fast-sbic: probability that a task's truth is +1, before any label.",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
    )
    classes: str = setting(
        "-1,1",
        "What tasks can be: -1,1 or names with commas between.",
        "-1,1 or 2 to 1000 different names with commas between",
        _are_classes,
    )
    algorithm: Literal["fast-sbic", "settled"] | None = setting(
        None,
        "fast-sbic, for classes -1 and 1 only, or settled.  "
        "[default: fast-sbic for -1 and 1, settled for names]",
        "fast-sbic or settled",
        lambda value: value in ("fast-sbic", "settled"),
        str,
    )
    class_prior: str | None = setting(
        None,
        "For settled: probability of each class before any label. learned, uniform, or a number "
        "for each class with commas between.  [default: learned]",
        "learned, uniform, or a number for each class, adding up to 1, with commas between",
        lambda value: bool(class_prior_of(value)),
        str,
    )
    settle_tolerance: float = setting(
        1e-4,
        "For settled: a probability that would move by less than this is at rest.",
        "a number from 1e-12 to 0.1",
        lambda value: 1e-12 <= value <= 0.1,
    )
    repeats: Literal["first", "last"] = setting(
        "first",
        "Which answer counts when a worker answers a task again: first or last.",
        "first or last",
        lambda value: value in ("first", "last"),
    )
    policy: Literal["uncertainty", "uniform"] = setting(
        "uncertainty",
        "Which open task a worker gets: the least certain, or the one with the fewest labels.",
        "uncertainty or uniform",
        lambda value: value in ("uncertainty", "uniform"),
    )
    seed: int = setting(
        0,
        "Breaks ties between tasks: the same seed, the same way.",
        "a whole number from 0 on",
        lambda value: value >= 0,
    )
    lease_seconds: float = setting(
        600.0,
        "How long an assigned task is kept for its worker.",
        "a positive number of seconds",
        _is_positive,
    )
    assign_on_label: bool = setting(
        False,
        "A label is also a request for the next task: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        _yes_or_no,
    )
    gold_rate: float = setting(
        0.0,
        "Share of a worker's assignments that are gold; more while they are new.",
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
    )
    stop_confidence: float | None = setting(
        None,
        "Close a task once its truth is as probable as this.  [default: never]",
        "a number between 0.5 and 1",
        lambda value: 0.5 < value < 1,
        float,
    )
    stop_labels: int | None = setting(
        None,
        "Close a task once it has so many labels.  [default: never]",
        "a whole number from 1 on",
        lambda value: value >= 1,
        int,
    )
    budget: int | None = setting(
        None,
        "Close every task once there are so many labels in all.  [default: never]",
        "a whole number from 1 on",
        lambda value: value >= 1,
        int,
    )
    block_below: float | None = setting(
        None,
        "No assignments for workers of a lower accuracy than this.  [default: for all]",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
        float,
    )
    block_after: int = setting(
        10,
        "Labels that a worker has given before they can be blocked.",
        "a whole number from 0 on",
        lambda value: value >= 0,
    )
    web_host: str = setting(
        "127.0.0.1",
        "Address of the web port.",
        "a host name or address",
        lambda value: bool(value) and not re.search(r"[\s/]", value),
    )
    web_port: int = setting(
        6066,
        "Port of health checks and metrics; 0: any free one.",
        "a port from 0 to 65535",
        lambda value: 0 <= value <= 65535,
    )
    instance_id: str | None = setting(
        None,
        "Name of this instance in its group (group.instance.id): started again under the same name "
        "within the session, it keeps its partitions.  [default: none, a restart is a rebalance]",
        "1 to 200 letters, digits, dots, dashes or underscores, a letter or digit first",
        lambda value: PREFIX.fullmatch(value) is not None,
        str,
    )
    session_seconds: float = setting(
        10.0,
        "After how long without a sign of it an instance's partitions go to others.",
        "a number of seconds from 6 to 1800",
        lambda value: 6 <= value <= 1800,
    )
    otel: bool = setting(
        False,
        "Export spans of labels with a traceparent header, by OpenTelemetry: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        _yes_or_no,
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info",
        "From which level on an instance logs: debug, info, warning or error.",
        "debug, info, warning or error",
        lambda value: value in ("debug", "info", "warning", "error"),
    )
    log_format: Literal["text", "json"] = setting(
        "text",
        "How an instance logs: text, or json with an object for each line.",
        "text or json",
        lambda value: value in ("text", "json"),
    )
    security: Security = field(default_factory=Security)

    def __post_init__(self) -> None:
        check_values(self, SPECS)
        self._check_together()

    def _check_together(self) -> None:
        """Refuse settings that are good by themselves and not with each other."""
        if self.algorithm == "fast-sbic" and not self.crowd_classes.is_signs:
            why = f"fast-sbic is for -1 and 1, and the classes are {self.crowd_classes.listed()}"
            raise BadSetting("algorithm", "settled", self.algorithm, why)
        if self.chosen_algorithm == "settled" and self.prior != SPECS["prior"].default:
            why = "settled has SBIC_CLASS_PRIOR in its place"
            raise BadSetting("prior", "left out", self.prior, why)
        if self.chosen_algorithm == "fast-sbic" and self.class_prior is not None:
            why = "it is for settled, and fast-sbic has SBIC_PRIOR in its place"
            raise BadSetting("class_prior", "left out", self.class_prior, why)
        prior, classes = self.chosen_class_prior, self.crowd_classes
        if isinstance(prior, tuple) and len(prior) != len(classes):
            needs = f"{len(classes)} numbers, one for each of {classes.listed()}"
            raise BadSetting("class_prior", needs, self.class_prior)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The settings that the environment gives; the rest as they are by default.

        >>> Settings.from_env({"SBIC_PREFIX": "birds", "SBIC_ALPHA": "3"}).alpha
        3.0
        """
        given = {
            name: read_setting(name, text)
            for name in SPECS
            if (text := environ.get(variable(name)))
        }
        return cls(**given, security=Security.from_env(environ))

    @property
    def bootstrap_servers(self) -> list[str]:
        """The broker addresses as Kafka clients take them."""
        return [cast(str, _host_and_port(part)) for part in self.broker.split(",")]

    @cached_property
    def crowd_classes(self) -> Classes:
        """The classes of the project."""
        return Classes.parse(self.classes)

    @property
    def chosen_algorithm(self) -> AlgorithmName:
        """The algorithm that was named, or that of the classes.

        >>> Settings().chosen_algorithm, Settings(classes="cat,dog").chosen_algorithm
        ('fast-sbic', 'settled')
        """
        return self.algorithm or ("fast-sbic" if self.crowd_classes.is_signs else "settled")

    @cached_property
    def chosen_class_prior(self) -> ClassPrior:
        """The probability of each class before any label, for settled.

        >>> Settings(classes="cat,dog", class_prior="0.2,0.8").chosen_class_prior
        (0.2, 0.8)
        """
        return "learned" if self.class_prior is None else class_prior_of(self.class_prior)


SPECS: dict[str, Spec] = specs_of(Settings)
"""The settings that are also flags: all but those of the connection."""


def read_setting(name: str, text: str) -> Any:
    """The value that a setting's text stands for, checked.

    >>> read_setting("web_port", "8080")
    8080
    >>> read_setting("web_port", "http")
    Traceback (most recent call last):
    pipeline.spec.BadSetting: SBIC_WEB_PORT must be a port from 0 to 65535, not 'http'
    """
    return read_value(SPECS[name], text)

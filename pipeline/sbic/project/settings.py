"""The settings: one field per `SBIC_*` variable, described once, checked before anything runs."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from math import fsum, inf
from shlex import quote
from typing import Any, Literal, Self, cast

from sbic.classes import SUM_TOLERANCE, Classes
from sbic.engine import AlgorithmName
from sbic.foreign import shown
from sbic.infer.registry import ALGORITHMS, STREAMED, Entry, default_algorithm
from sbic.project.security import Security

Spec = Field[Any]
"""A field of a dataclass of settings, made by `setting`; `metadata` has the rest."""


class BadSetting(ValueError):
    """A setting has a value it cannot have; says which, what it needs and what it has, and why."""

    def __init__(self, name: str, needs: str, value: object, why: str = "") -> None:
        self.name = name
        self.problem = f"must be {needs}, not {shown(value, 300)}" + (f": {why}" if why else "")
        super().__init__(f"{variable(name)} {self.problem}")


def variable(name: str) -> str:
    """The environment variable of a setting.

    >>> variable("web_port")
    'SBIC_WEB_PORT'
    """
    return f"SBIC_{name.upper()}"


def setting(
    default: Any,
    help_text: str,
    needs: str,
    good: Callable[[Any], bool],
    kind: Callable[[str], Any] | None = None,
    group: str = "",
) -> Any:
    """A field that is a setting; with the default `None` it is off until it has a value.

    `kind` converts the text of the setting, `good` accepts its value or raises `ValueError` with
    the reason. The variable has the `group` in its name: SBIC_GATEWAY_PORT.
    """
    metadata = {
        "help": help_text,
        "needs": needs,
        "good": good,
        "kind": kind or type(default),
        "group": group,
    }
    return field(default=default, metadata=metadata)


def specs_of(settings: type) -> dict[str, Spec]:
    """The settings of a dataclass, by name; fields made otherwise are left out."""
    return {spec.name: spec for spec in fields(settings) if "needs" in spec.metadata}


def full_name(spec: Spec) -> str:
    """The name of a setting with its group: `variable` makes the variable of it."""
    group = spec.metadata["group"]
    return f"{group}_{spec.name}" if group else spec.name


def check_value(spec: Spec, value: Any, given: object) -> None:
    """Raise `BadSetting` unless the value is good; `given` is the value as it was written."""
    why = ""
    try:
        good = spec.metadata["good"](value)
    except ValueError as error:
        good, why = False, str(error)
    if not good:
        raise BadSetting(full_name(spec), spec.metadata["needs"], given, why)


def check_values(settings: object, specs: dict[str, Spec]) -> None:
    """Raise `BadSetting` unless the values of all settings are good, each by itself."""
    for name, spec in specs.items():
        value = getattr(settings, name)
        if value is not None or spec.default is not None:
            check_value(spec, value, given=value)


def read_value(spec: Spec, text: str) -> Any:
    """The value of a setting's text, checked; raises `BadSetting`."""
    try:
        value = spec.metadata["kind"](text)
    except (ValueError, KeyError):
        raise BadSetting(full_name(spec), spec.metadata["needs"], text) from None
    check_value(spec, value, given=text)
    return value


# The values that settings can have: what their texts stand for, and whether they are valid.


HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d{1,5}))?")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
KAFKA_PORT = 9092

GivenClassPrior = Literal["learned", "uniform"] | tuple[float, ...]


def yes_or_no(text: str) -> bool:
    """The value of true or false; KeyError for anything else."""
    return {"true": True, "false": False}[text.strip().lower()]


def is_broker(value: str) -> bool:
    """Whether a value is a list of Kafka addresses."""
    return bool(value) and all(host_and_port(part) for part in value.split(","))


def host_and_port(address: str) -> str | None:
    """An address as Kafka clients take it; None if it is invalid.

    >>> host_and_port("kafka://one"), host_and_port("one:99999")
    ('one:9092', None)
    """
    found = HOST_AND_PORT.fullmatch(address.strip().removeprefix("kafka://"))
    if found is None or int(found[2] or KAFKA_PORT) > 65535:
        return None
    return f"{found[1]}:{found[2] or KAFKA_PORT}"


def is_name(value: str) -> bool:
    """Whether a value can be part of the name of a topic or a group member."""
    return NAME.fullmatch(value) is not None


def is_host(value: str) -> bool:
    """Whether a value can be a host name or address."""
    return bool(value) and not re.search(r"[\s/]", value)


def is_positive(value: float) -> bool:
    """Whether a number is positive and finite."""
    return 0 < value < inf


def are_classes(value: str) -> bool:
    """True for classes; otherwise `Classes.parse` raises ValueError with the problem."""
    return len(Classes.parse(value)) > 1


def class_prior_of(text: str) -> GivenClassPrior:
    """The class prior in a text, or ValueError.

    >>> class_prior_of("uniform"), class_prior_of("0.2, 0.3, 0.5")
    ('uniform', (0.2, 0.3, 0.5))
    """
    if text == "learned" or text == "uniform":
        return cast(GivenClassPrior, text)
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        raise ValueError("these are not numbers separated by commas") from None
    if not all(0 < number < 1 for number in numbers):
        raise ValueError("each number must be between 0 and 1")
    if abs(fsum(numbers) - 1) > SUM_TOLERANCE:
        raise ValueError(f"the numbers add up to {fsum(numbers):.9g}")
    return numbers


# The configuration: one field per `SBIC_*` environment variable, checked before anything runs.


__all__ = ["SPECS", "BadSetting", "Settings", "read_setting", "variable"]


@dataclass(frozen=True)
class Settings:
    """The settings of an instance and the tools; one prefix is one project.

    >>> Settings(broker="kafka://one:9092,two").bootstrap_servers
    ['one:9092', 'two:9092']
    >>> Settings(partitions=0)
    Traceback (most recent call last):
    sbic.project.settings.BadSetting: SBIC_PARTITIONS must be a whole number from 1 to 10000, not 0
    """

    broker: str = setting(
        "kafka://127.0.0.1:9092",
        "Addresses of the Kafka brokers, separated by commas.",
        "kafka://host:port, several separated by commas",
        is_broker,
    )
    prefix: str = setting(
        "sbic",
        "First part of every topic's name: one prefix is one project.",
        "1 to 200 letters, digits, dots, dashes or underscores, a letter or digit first",
        is_name,
    )
    partitions: int = setting(
        8,
        "Partitions of every topic: at most so many instances can share the work.",
        "a whole number from 1 to 10000",
        lambda value: 1 <= value <= 10_000,
    )
    replication: int = setting(
        1,
        "Copies of every record, on different brokers.",
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
        is_positive,
    )
    beta: float = setting(
        1.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): wrong answers.",
        "a positive number",
        is_positive,
    )
    prior: float = setting(
        0.5,
        "For fast-sbic: probability that a task's truth is +1, before any label.",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
    )
    classes: str = setting(
        "-1,1",
        "The possible answers: -1,1 or names separated by commas.",
        "-1,1 or 2 to 1000 different names separated by commas",
        are_classes,
    )
    algorithm: AlgorithmName | None = setting(  # noqa: RUF009  # an alias of a Literal
        None,
        "fast-sbic, for classes -1 and 1 only, or settled.  "
        f"[default: {default_algorithm(True)} for -1 and 1, {default_algorithm(False)} for names]",
        " or ".join(STREAMED),
        lambda value: value in STREAMED,
        str,
    )
    class_prior: str | None = setting(
        None,
        "For settled: probability of each class before any label. learned, uniform, or a number "
        "for each class, separated by commas.  [default: learned]",
        "learned, uniform, or a number for each class, separated by commas, adding up to 1",
        lambda value: bool(class_prior_of(value)),
        str,
    )
    settle_tolerance: float = setting(
        1e-4,
        "For settled: a task is at rest while its probabilities would change by less than this.",
        "a number from 1e-12 to 0.1",
        lambda value: 1e-12 <= value <= 0.1,
    )
    repeats: Literal["first", "last"] = setting(
        "first",
        "Which answer counts if a worker answers a task again: first or last.",
        "first or last",
        lambda value: value in ("first", "last"),
    )
    policy: Literal["uncertainty", "uniform"] = setting(
        "uncertainty",
        "Which open task a worker gets: the least certain (uncertainty) or the one with the fewest "
        "labels (uniform).",
        "uncertainty or uniform",
        lambda value: value in ("uncertainty", "uniform"),
    )
    seed: int = setting(
        0,
        "Breaks ties between tasks; the same seed breaks them the same way.",
        "a whole number, 0 or more",
        lambda value: value >= 0,
    )
    lease_seconds: float = setting(
        600.0,
        "How long an assigned task is reserved for its worker.",
        "a positive number of seconds",
        is_positive,
    )
    assign_on_label: bool = setting(
        False,
        "A label is also a request for the next task: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        yes_or_no,
    )
    gold_rate: float = setting(
        0.0,
        "Share of gold tasks among a worker's assignments; higher for new workers.",
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
    )
    stop_confidence: float | None = setting(
        None,
        "Close a task once its most probable class has this probability.  [default: never]",
        "a number between 0.5 and 1",
        lambda value: 0.5 < value < 1,
        float,
    )
    stop_labels: int | None = setting(
        None,
        "Close a task once it has this many labels.  [default: never]",
        "a whole number, 1 or more",
        lambda value: value >= 1,
        int,
    )
    budget: int | None = setting(
        None,
        "Close every task once there are this many labels in all.  [default: never]",
        "a whole number, 1 or more",
        lambda value: value >= 1,
        int,
    )
    block_below: float | None = setting(
        None,
        "No assignments for workers with a lower accuracy than this.  [default: nobody is blocked]",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
        float,
    )
    block_after: int = setting(
        10,
        "Labels that a worker must have given before they can be blocked.",
        "a whole number, 0 or more",
        lambda value: value >= 0,
    )
    web_host: str = setting(
        "127.0.0.1",
        "Address of the web port.",
        "a host name or address",
        is_host,
    )
    web_port: int = setting(
        6066,
        "Port of health checks and metrics; 0: any free port.",
        "a port from 0 to 65535",
        lambda value: 0 <= value <= 65535,
    )
    instance_id: str | None = setting(
        None,
        "Name of this instance in its group (group.instance.id): restarted with the same name "
        "within the session timeout, it keeps its partitions.  "
        "[default: none, a restart is a rebalance]",
        "1 to 200 letters, digits, dots, dashes or underscores, a letter or digit first",
        is_name,
        str,
    )
    session_seconds: float = setting(
        10.0,
        "Session timeout: an instance without heartbeats for so long loses its partitions.",
        "a number of seconds from 6 to 1800",
        lambda value: 6 <= value <= 1800,
    )
    otel: bool = setting(
        False,
        "Export OpenTelemetry spans of labels that have a traceparent header: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        yes_or_no,
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info",
        "Lowest level that an instance or gateway logs: debug, info, warning or error.",
        "debug, info, warning or error",
        lambda value: value in ("debug", "info", "warning", "error"),
    )
    log_format: Literal["text", "json"] = setting(
        "text",
        "Format of the log of an instance or gateway: text, or json with one object per line.",
        "text or json",
        lambda value: value in ("text", "json"),
    )
    security: Security = field(default_factory=Security)

    def __post_init__(self) -> None:
        check_values(self, SPECS)
        self._check_together()

    def _check_together(self) -> None:
        """Refuse settings that contradict each other."""
        chosen = self.algorithm_entry
        if not chosen.takes(self.crowd_classes.is_signs):
            why = (
                f"{chosen.name} is for -1 and 1, and the classes are {self.crowd_classes.listed()}"
            )
            raise BadSetting("algorithm", default_algorithm(False), self.algorithm, why)
        if chosen.settles and self.prior != SPECS["prior"].default:
            why = f"{chosen.name} takes SBIC_CLASS_PRIOR instead"
            raise BadSetting("prior", "left out", self.prior, why)
        if not chosen.settles and self.class_prior is not None:
            why = f"{chosen.name} takes SBIC_PRIOR instead"
            raise BadSetting("class_prior", "left out", self.class_prior, why)
        prior, classes = self.chosen_class_prior, self.crowd_classes
        if isinstance(prior, tuple) and len(prior) != len(classes):
            needs = f"{len(classes)} numbers, one for each of {classes.listed()}"
            raise BadSetting("class_prior", needs, self.class_prior)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The settings from the environment, and the defaults of the others.

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
        return [cast(str, host_and_port(part)) for part in self.broker.split(",")]

    @cached_property
    def crowd_classes(self) -> Classes:
        """The classes of the project."""
        return Classes.parse(self.classes)

    @property
    def chosen_algorithm(self) -> AlgorithmName:
        """The algorithm that is set, or the default for the classes.

        >>> Settings().chosen_algorithm, Settings(classes="cat,dog").chosen_algorithm
        ('fast-sbic', 'settled')
        """
        return self.algorithm or default_algorithm(self.crowd_classes.is_signs)

    @property
    def algorithm_entry(self) -> Entry:
        """What the registry says about the chosen algorithm."""
        return ALGORITHMS[self.chosen_algorithm]

    @cached_property
    def chosen_class_prior(self) -> GivenClassPrior:
        """The probability of each class before any label, for settled.

        >>> Settings(classes="cat,dog", class_prior="0.2,0.8").chosen_class_prior
        (0.2, 0.8)
        """
        return "learned" if self.class_prior is None else class_prior_of(self.class_prior)


SPECS: dict[str, Spec] = specs_of(Settings)
"""The settings that are also flags: all but those of the connection."""


def read_setting(name: str, text: str) -> Any:
    """The checked value of a setting's text.

    >>> read_setting("web_port", "8080")
    8080
    >>> read_setting("web_port", "http")
    Traceback (most recent call last):
    sbic.project.settings.BadSetting: SBIC_WEB_PORT must be a port from 0 to 65535, not 'http'
    """
    return read_value(SPECS[name], text)


# Commands to suggest to the user, for the same project on the same broker.


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def command_line(settings: Settings, words: str) -> str:
    """An `sbic` command_line with the flags that select this project.

    >>> command_line(Settings(), "run")
    'sbic run'
    >>> command_line(Settings(prefix="birds", broker="kafka://127.0.0.1:19092"), "run")
    'sbic run --prefix birds --broker kafka://127.0.0.1:19092'
    """
    flags = [
        f" --{name} {quote(getattr(settings, name))}"
        for name in ("prefix", "broker")
        if getattr(settings, name) != SPECS[name].default
    ]
    return f"sbic {words}{''.join(flags)}"


def start_broker(settings: Settings) -> str | None:
    """The command_line that starts a broker at this address, if that is on this machine.

    >>> start_broker(Settings()), start_broker(Settings(broker="kafka://localhost:19092"))
    ('sbic broker', 'sbic broker --port 19092')
    >>> start_broker(Settings(broker="kafka://one:9092,two:9092")) is None
    True
    """
    host, _, port = settings.bootstrap_servers[0].rpartition(":")
    if len(settings.bootstrap_servers) > 1 or host not in LOOPBACK:
        return None
    return "sbic broker" if port == "9092" else f"sbic broker --port {port}"

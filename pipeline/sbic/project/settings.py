"""The settings: one field per `SBIC_*` variable, described once, checked before anything runs."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import fsum, inf
from shlex import quote
from typing import Any, Literal, Self, cast

from sbic.classes import SUM_TOLERANCE, Classes
from sbic.engine import AlgorithmName
from sbic.foreign import shown
from sbic.infer.registry import ALGORITHMS, STREAMED, AlgorithmEntry, default_algorithm
from sbic.project.security import Security

# The largest numbers that a project can keep: in JSON, and as Kafka's milliseconds. Lower limits
# would make the revisions of projects that have more unreadable.
LARGEST = (1 << 64) - 1
MOST_HOURS = LARGEST // 2 // 3_600_000

Scope = Literal["process", "project"]
WhenChanged = Literal["at once", "restart", "recount", "never"]


class BadSetting(ValueError):
    """A setting has a value it cannot have; says which, what it needs and what it has, and why."""

    def __init__(self, name: str, needs: str, value: object, why: str = "") -> None:
        self.name = name
        self.problem = f"must be {needs}, not {shown(value, 300)}" + (f": {why}" if why else "")
        super().__init__(f"{variable(name)} {self.problem}")


def variable(name: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("web_port")
    'SBIC_WEB_PORT'
    """
    return f"SBIC_{name.upper()}"


@dataclass(frozen=True)
class Spec:
    """A setting, described once: every list, check, flag and document of settings follows from it.

    `kind` converts the text of the setting, `good` accepts its value or raises `ValueError` with
    the reason, `meaning` is what two ways of writing a value have in common. With the default
    `None` a setting is off until it has a value. The variable has the `group` in its name:
    SBIC_GATEWAY_PORT.

    A setting of the scope `project` is stored with the project. `change` says what a later change
    does: running instances and gateways follow it at once, or restart, or all labels are counted
    again; or `instead` says what to do instead. Those that `is_shown` are in status and page.
    """

    default: Any
    help: str
    needs: str
    good: Callable[[Any], bool]
    kind: Callable[[str], Any]
    group: str = ""
    scope: Scope = "process"
    change: WhenChanged = "restart"
    instead: str = ""
    is_shown: bool = False
    meaning: Callable[[Any], object] = lambda value: value
    name: str = ""

    @property
    def full_name(self) -> str:
        """The name with its group: `variable` makes the variable of it."""
        return f"{self.group}_{self.name}" if self.group else self.name

    @property
    def flag(self) -> str:
        """The flag of commands that take this setting."""
        return "--" + self.name.replace("_", "-")

    def check(self, value: Any, given: object) -> None:
        """Raise `BadSetting` unless the value is good; `given` is the value as it was written."""
        why = ""
        try:
            good = self.good(value)
        except ValueError as error:
            good, why = False, str(error)
        if type(value) is int and value > LARGEST:
            good, why = False, f"the largest number is {LARGEST}"
        if not good:
            raise BadSetting(self.full_name, self.needs, given, why)

    def read(self, text: str) -> Any:
        """Return the value of a text, checked; raise `BadSetting`."""
        try:
            value = self.kind(text)
        except (ValueError, KeyError):
            raise BadSetting(self.full_name, self.needs, text) from None
        self.check(value, given=text)
        return value

    def read_or_none(self, text: str) -> Any:
        """Return the same; of a setting that can be off, `none` is None."""
        if self.default is None and text.strip().lower() in ("", "none"):
            return None
        return self.read(text)

    def means_the_same(self, one: Any, other: Any) -> bool:
        """Whether two values are the same, however they are written."""
        if one is None or other is None:
            return one is other
        return self.meaning(one) == self.meaning(other)


def setting(
    default: Any,
    help_text: str,
    needs: str,
    good: Callable[[Any], bool],
    kind: Callable[[str], Any] | None = None,
    **more: Any,
) -> Any:
    """Return a field that is a setting; `more` are further attributes of its `Spec`."""
    spec = Spec(default, help_text, needs, good, kind or type(default), **more)
    return field(default=default, metadata={"spec": spec})


def specs_of(settings: type) -> dict[str, Spec]:
    """Return the settings of a dataclass, by name; fields made otherwise are left out."""
    return {
        each.name: replace(each.metadata["spec"], name=each.name)
        for each in fields(settings)
        if "spec" in each.metadata
    }


def check_values(settings: object, specs: dict[str, Spec]) -> None:
    """Raise `BadSetting` unless the values of all settings are good, each by itself."""
    for name, spec in specs.items():
        value = getattr(settings, name)
        if value is not None or spec.default is not None:
            spec.check(value, given=value)


# The values that settings can have: what their texts stand for, and whether they are valid.


HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d{1,5}))?")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
KAFKA_PORT = 9092

GivenClassPrior = Literal["learned", "uniform"] | tuple[float, ...]


def yes_or_no(text: str) -> bool:
    """Return the value of true or false; KeyError for anything else."""
    return {"true": True, "false": False}[text.strip().lower()]


def is_broker(value: str) -> bool:
    """Whether a value is a list of Kafka addresses."""
    return bool(value) and all(host_and_port(part) for part in value.split(","))


def host_and_port(address: str) -> str | None:
    """Return an address as Kafka clients take it; None if it is invalid.

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
    """Return True for classes; otherwise `Classes.parse` raises ValueError with the problem."""
    return len(Classes.parse(value)) > 1


def is_scale(value: str) -> bool:
    """Return True for a scale; otherwise `Classes.of_scale` raises ValueError with the problem."""
    return len(Classes.of_scale(value)) > 1


def class_prior_of(text: str) -> GivenClassPrior:
    """Return the class prior in a text, or ValueError.

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


of_project = partial(setting, scope="project")


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
    partitions: int = of_project(
        8,
        "Partitions of every topic: at most that many instances can share the work.",
        "a whole number from 1 to 10000",
        lambda value: 1 <= value <= 10_000,
        change="never",
        instead="change it with sbic project repartition N",
    )
    replication: int = of_project(
        1,
        "Copies of every record, on different brokers.",
        "a whole number from 1 to 100",
        lambda value: 1 <= value <= 100,
        change="never",
        instead="change the number of replicas with Kafka's own kafka-reassign-partitions",
    )
    labels_retention_hours: int = of_project(
        -1,
        "How long labels and their votes are kept; -1: forever.",
        f"a whole number of hours up to {MOST_HOURS}, or -1 for forever",
        lambda value: value == -1 or 0 < value <= MOST_HOURS,
    )
    retention_hours: int = of_project(
        7 * 24,
        "How long dead letters are kept; -1: forever.",
        f"a whole number of hours up to {MOST_HOURS}, or -1 for forever",
        lambda value: value == -1 or 0 < value <= MOST_HOURS,
    )
    classes: str = of_project(
        "-1,1",
        "The possible answers: -1,1 or names separated by commas.",
        "-1,1 or 2 to 1000 different names separated by commas",
        are_classes,
        change="recount",
        is_shown=True,
        meaning=Classes.parse,
    )
    scale: str | None = of_project(
        None,
        "The possible answers are whole numbers that have an order, such as 1..5; takes the place "
        "of the classes.  [default: none]",
        "two whole numbers, as in 1..5",
        is_scale,
        str,
        change="recount",
        is_shown=True,
        meaning=Classes.of_scale,
    )
    ordered: bool = of_project(
        False,
        "The classes have an order, from the lowest to the highest: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        yes_or_no,
        change="recount",
        is_shown=True,
    )
    algorithm: AlgorithmName | None = of_project(  # noqa: RUF009  # an alias of a Literal
        None,
        "fast-sbic, for classes -1 and 1 only, or settled.  "
        f"[default: {default_algorithm(True)} for -1 and 1, {default_algorithm(False)} for names]",
        " or ".join(STREAMED),
        lambda value: value in STREAMED,
        str,
        change="recount",
        is_shown=True,
    )
    alpha: float = of_project(
        2.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): right answers.",
        "a positive number",
        is_positive,
        change="recount",
        is_shown=True,
    )
    beta: float = of_project(
        1.0,
        "Prior of a worker's accuracy, Beta(alpha, beta): wrong answers.",
        "a positive number",
        is_positive,
        change="recount",
        is_shown=True,
    )
    prior: float = of_project(
        0.5,
        "For fast-sbic: probability that a task's truth is +1, before any label.",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
        change="recount",
        is_shown=True,
    )
    class_prior: str | None = of_project(
        None,
        "For settled: probability of each class before any label. learned, uniform, or a number "
        "for each class, separated by commas.  [default: learned]",
        "learned, uniform, or a number for each class, separated by commas, adding up to 1",
        lambda value: bool(class_prior_of(value)),
        str,
        change="recount",
        is_shown=True,
        meaning=class_prior_of,
    )
    settle_tolerance: float = of_project(
        1e-4,
        "For settled: a task is at rest while its probabilities would change by less than this.",
        "a number from 1e-12 to 0.1",
        lambda value: 1e-12 <= value <= 0.1,
    )
    repeats: Literal["first", "last"] = of_project(
        "first",
        "Which answer counts if a worker answers a task again: first or last.",
        "first or last",
        lambda value: value in ("first", "last"),
        change="recount",
        is_shown=True,
    )
    policy: Literal["uncertainty", "uniform", "escalate"] = of_project(
        "uncertainty",
        "Which open task a worker gets: the least certain (uncertainty), the one with the fewest "
        "labels (uniform), or one that cheaper tiers of workers leave open (escalate).",
        "uncertainty, uniform or escalate",
        lambda value: value in ("uncertainty", "uniform", "escalate"),
        is_shown=True,
    )
    seed: int = of_project(
        0,
        "Breaks ties between tasks; the same seed breaks them the same way.",
        "a whole number, 0 or more",
        lambda value: value >= 0,
        is_shown=True,
    )
    lease_seconds: float = of_project(
        600.0,
        "How long an assigned task is reserved for its worker.",
        f"a positive number of seconds up to {3600 * MOST_HOURS}",
        lambda value: 0 < value <= 3600 * MOST_HOURS,
        is_shown=True,
    )
    assign_on_label: bool = of_project(
        False,
        "A label is also a request for the next task: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        yes_or_no,
        change="at once",
    )
    gold_rate: float = of_project(
        0.0,
        "Share of gold tasks among a worker's assignments; higher for new workers.",
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
        change="at once",
        is_shown=True,
    )
    stop_confidence: float | None = of_project(
        None,
        "Close a task once its most probable class has this probability.  [default: never]",
        "a number between 0.5 and 1",
        lambda value: 0.5 < value < 1,
        float,
        change="at once",
        is_shown=True,
    )
    stop_error: float | None = of_project(
        None,
        "Close the largest set of tasks of which at most this share is expected to be wrong."
        "  [default: never]",
        "a number between 0 and 0.5",
        lambda value: 0 < value < 0.5,
        float,
        change="at once",
        is_shown=True,
    )
    stop_labels: int | None = of_project(
        None,
        "Close a task once it has this many labels.  [default: never]",
        "a whole number, 1 or more",
        lambda value: value >= 1,
        int,
        change="at once",
        is_shown=True,
    )
    stop_width: int | None = of_project(
        None,
        "For ratings: close a task once its 80 % interval is at most this many grades wide; 0: one "
        "grade has 80 %.  [default: never]",
        "a whole number, 0 or more",
        lambda value: value >= 0,
        int,
        change="at once",
        is_shown=True,
    )
    budget: int | None = of_project(
        None,
        "Close every task once there are this many labels in all.  [default: never]",
        "a whole number, 1 or more",
        lambda value: value >= 1,
        int,
        change="at once",
        is_shown=True,
    )
    budget_cost: float | None = of_project(
        None,
        "Close every task once all labels together cost this much, at the prices in the roster.  "
        "[default: never]",
        "a positive number",
        is_positive,
        float,
        change="at once",
        is_shown=True,
    )
    tier_labels: int | None = of_project(
        None,
        "With the policy escalate: ask a tier of workers for at most this many labels on a task.  "
        "[default: all its workers]",
        "a whole number, 1 or more",
        lambda value: value >= 1,
        int,
        change="at once",
        is_shown=True,
    )
    block_below: float | None = of_project(
        None,
        "No assignments for workers with a lower accuracy than this.  [default: nobody is blocked]",
        "a number between 0 and 1",
        lambda value: 0 < value < 1,
        float,
        change="at once",
        is_shown=True,
    )
    block_after: int = of_project(
        10,
        "Labels that a worker must have given before they can be blocked.",
        "a whole number, 0 or more",
        lambda value: value >= 0,
        change="at once",
        is_shown=True,
    )
    flat: bool = of_project(
        False,
        "Publish every posterior to the topic PREFIX.flat as well, in the form that sinks of Kafka "
        "Connect take: true or false.",
        "true or false",
        lambda value: type(value) is bool,
        yes_or_no,
        change="recount",
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
    stuck_seconds: float = setting(
        60.0,
        "An instance that makes no progress on a partition for so long, although Kafka has records "
        "there, says why and ends, so that it is restarted.",
        "a number of seconds from 2 to 86400",
        lambda value: 2 <= value <= 86400,
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
        self._check_order()
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
        if self.policy == "escalate" and self.stop_confidence is None and self.stop_error is None:
            why = "without it every task would go through all tiers of workers"
            raise BadSetting(
                "stop_confidence", "set with SBIC_POLICY=escalate, such as to 0.9", None, why
            )
        prior, classes = self.chosen_class_prior, self.crowd_classes
        if isinstance(prior, tuple) and len(prior) != len(classes):
            needs = f"{len(classes)} numbers, one for each of {classes.listed()}"
            raise BadSetting("class_prior", needs, self.class_prior)

    def _check_order(self) -> None:
        if self.scale is not None and self.classes != SPECS["classes"].default:
            names = ",".join(Classes.of_scale(self.scale).names)
            if self.classes != names:
                why = f"SBIC_SCALE={self.scale} already says which answers there are"
                raise BadSetting("classes", "left out", self.classes, why)
        if self.ordered and self.scale is None:
            try:
                Classes.of_settings(self.classes, ordered=True)
            except ValueError as error:
                raise BadSetting("ordered", "false", True, str(error)) from None
        if self.stop_width is None:
            return
        if not self.crowd_classes.is_ordered:
            needs = "left out where classes have no order"
            raise BadSetting("stop_width", needs, self.stop_width, "see SBIC_SCALE, SBIC_ORDERED")
        if self.stop_width > len(self.crowd_classes) - 2:
            needs = f"less than {len(self.crowd_classes) - 1}, the width of the whole scale"
            raise BadSetting("stop_width", needs, self.stop_width)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Return the settings from the environment, and the defaults of the others.

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
        return Classes.of_settings(self.classes, self.scale, self.ordered)

    @property
    def chosen_algorithm(self) -> AlgorithmName:
        """The algorithm that is set, or the default for the classes.

        >>> Settings().chosen_algorithm, Settings(classes="cat,dog").chosen_algorithm
        ('fast-sbic', 'settled')
        """
        return self.algorithm or default_algorithm(self.crowd_classes.is_signs)

    @property
    def algorithm_entry(self) -> AlgorithmEntry:
        """What the registry says about the chosen algorithm."""
        return ALGORITHMS[self.chosen_algorithm]

    @cached_property
    def chosen_class_prior(self) -> GivenClassPrior:
        """The probability of each class before any label, for settled.

        >>> Settings(classes="cat,dog", class_prior="0.2,0.8").chosen_class_prior
        (0.2, 0.8)
        """
        return "learned" if self.class_prior is None else class_prior_of(self.class_prior)


def classes_of(settings: Mapping[str, Any]) -> Classes:
    """Return the classes of a project with these settings, as a revision or the status has them.

    >>> classes_of({"classes": "bad,fair,good", "ordered": True}).is_ordered
    True
    """
    named = settings["classes"], settings.get("scale"), settings.get("ordered", False)
    return Classes.of_settings(*named)


SPECS: dict[str, Spec] = specs_of(Settings)
"""The settings that are also flags: all but those of the connection."""

PROJECT_SETTINGS = tuple(name for name, spec in SPECS.items() if spec.scope == "project")
"""The settings that belong to the project, not to a process."""

SHOWN_SETTINGS = tuple(name for name, spec in SPECS.items() if spec.is_shown)
"""The settings that status and page show."""


def read_setting(name: str, text: str) -> Any:
    """Return the checked value of a setting's text.

    >>> read_setting("web_port", "8080")
    8080
    >>> read_setting("web_port", "http")
    Traceback (most recent call last):
    sbic.project.settings.BadSetting: SBIC_WEB_PORT must be a port from 0 to 65535, not 'http'
    """
    return SPECS[name].read(text)


# Commands to suggest to the user, for the same project on the same broker.


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def command_line(settings: Settings, words: str) -> str:
    """Return an `sbic` command_line with the flags that select this project.

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
    """Return the command_line that starts a broker at this address, if that is on this machine.

    >>> start_broker(Settings()), start_broker(Settings(broker="kafka://localhost:19092"))
    ('sbic broker', 'sbic broker --port 19092')
    >>> start_broker(Settings(broker="kafka://one:9092,two:9092")) is None
    True
    """
    host, _, port = settings.bootstrap_servers[0].rpartition(":")
    if len(settings.bootstrap_servers) > 1 or host not in LOOPBACK:
        return None
    return "sbic broker" if port == "9092" else f"sbic broker --port {port}"

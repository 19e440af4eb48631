"""Every topic, described once: for creation, rights, recounts, checks, documents and the tests.

All topics have the same number of partitions, so that one instance owns partition p of all of them;
only the topics `project` and `seal` have a single one. Every name starts with the project's prefix.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

from sbic.project.settings import Settings
from sbic.wire import dead_letters, labels, tasks, workers

FOREVER = -1
HOUR_MS = 3_600_000
DAY_HOURS = 24
MIB = 1 << 20

ROOM = 64 * 1024  # for keys, headers and Kafka's own overhead
LABELS_MAX_BYTES = labels.MAX_BYTES + ROOM  # a valid label still fits when it is forwarded
TASKS_MAX_BYTES = tasks.MAX_BYTES + ROOM
ROSTER_MAX_BYTES = workers.MAX_BYTES + ROOM
DEAD_LETTERS_MAX_BYTES = dead_letters.MAX_BYTES + ROOM
# retention counts from when a record was written: the vote of an old label is new
BY_TIME_OF_WRITING = {"message.timestamp.type": "LogAppendTime"}
BATCH_MAX_BYTES = 8 * MIB  # enough for thousands of labels with long ids


class Access(NamedTuple):
    """The roles that read a topic, write it, or ask for its offsets; an operator reads all."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    describe: tuple[str, ...]


def _by(read: str, write: str, describe: str = "") -> Access:
    return Access(tuple(read.split()), tuple(write.split()), tuple(describe.split()))


@dataclass(frozen=True)
class Topic:
    """One topic: its name, the key of its records, how they are kept, and who may do what.

    `config` is required; `tuning` is set for a new topic, and operators may change it. A derived
    topic is computed from the others, and a recount recreates it. `schema` names the JSON Schema of
    its records, which a public topic has if it is written in JSON.
    """

    name: str
    key: str
    access: Access
    partitions: int
    replication: int
    config: Mapping[str, str]
    tuning: Mapping[str, str]
    public: bool
    derived: bool
    schema: str | None
    watched: frozenset[str] = frozenset()
    """Configuration of which an instance warns if somebody has changed it; other makes it end."""

    @property
    def kept(self) -> str:
        """How long records are kept, in words.

        >>> Topics(Settings()).posteriors.kept
        'compacted'
        """
        if self.config["cleanup.policy"] == "compact":
            return "compacted"
        milliseconds = int(self.config["retention.ms"])
        return "forever" if milliseconds == FOREVER else f"{milliseconds // HOUR_MS} hours"


class Topics:
    """The topics of one project.

    >>> Topics(Settings(prefix="birds")).labels.name
    'birds.labels'
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __iter__(self) -> Iterator[Topic]:
        yield self.labels
        yield self.tasks
        yield self.roster
        yield self.requests
        yield self.assignments
        yield self.answers
        yield self.votes
        yield self.evidence
        yield self.estimates
        yield self.posteriors
        if self.settings.flat:
            yield self.flat
        yield self.workers
        yield self.dead_letters
        yield self.seal
        yield self.project

    @cached_property
    def labels(self) -> Topic:
        """The users' labels, which cannot be recomputed."""
        config = _kept(self.settings.labels_retention_hours)
        config["max.message.bytes"] = str(LABELS_MAX_BYTES)
        access = _by(read="pipeline reader gateway", write="pipeline producer gateway operator")
        # an instance that ended would let labels expire that are not counted
        watched = frozenset(_kept(0))
        return self._topic(
            "labels", "worker", config, access=access, schema="label", watched=watched
        )

    @cached_property
    def tasks(self) -> Topic:
        """Descriptions of tasks by users: priors, gold, and whether they are open."""
        config = _compacted()
        config["max.message.bytes"] = str(TASKS_MAX_BYTES)
        access = _by(read="pipeline", write="pipeline gateway operator", describe="reader")
        return self._topic(
            "tasks", "task", config, tuning=_small_segments(), access=access, schema="task"
        )

    @cached_property
    def roster(self) -> Topic:
        """What the owner says of workers: who is blocked, and their names."""
        config = _compacted()
        config["max.message.bytes"] = str(ROSTER_MAX_BYTES)
        access = _by(read="pipeline", write="pipeline gateway operator", describe="reader")
        return self._topic(
            "roster", "worker", config, tuning=_small_segments(), access=access, schema="roster"
        )

    @cached_property
    def requests(self) -> Topic:
        """Requests of workers for their next task; kept for a day."""
        access = _by(read="pipeline", write="pipeline gateway operator", describe="reader")
        return self._topic(
            "requests",
            "worker",
            _kept(DAY_HOURS) | BY_TIME_OF_WRITING,
            access=access,
            schema="request",
        )

    @cached_property
    def assignments(self) -> Topic:
        """Assignments of tasks to workers, kept for at least two leases."""
        config = _kept(DAY_HOURS) | BY_TIME_OF_WRITING
        two_leases = ceil(2000 * self.settings.lease_seconds)
        config["retention.ms"] = str(max(DAY_HOURS * HOUR_MS, two_leases))
        access = _by(read="pipeline reader gateway", write="pipeline")
        return self._topic("assignments", "worker", config, access=access, schema="assignment")

    @cached_property
    def answers(self) -> Topic:
        """Changelog of the worker agent's answers table, a record per batch of labels."""
        config = _kept(FOREVER)
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        access = _by(read="pipeline", write="pipeline")
        return self._topic("answers", "none", config, access=access, public=False, derived=True)

    @cached_property
    def votes(self) -> Topic:
        """Votes for tasks of other instances, a record per batch of labels and partition of tasks.

        Kept as long as labels: if a vote expired while the project is stopped, its label would be
        lost.
        """
        config = _kept(self.settings.labels_retention_hours) | BY_TIME_OF_WRITING
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        access = _by(read="pipeline", write="pipeline", describe="reader gateway")
        return self._topic("votes", "none", config, access=access, public=False, derived=True)

    @cached_property
    def evidence(self) -> Topic:
        """Changelog of the task agent's table: counted votes, and facts."""
        config = _kept(FOREVER)
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        access = _by(read="pipeline", write="pipeline operator")
        return self._topic("evidence", "none", config, access=access, public=False, derived=True)

    @cached_property
    def estimates(self) -> Topic:
        """Estimates that instances publish to each other: all of them after every rebalance."""
        config = _kept(DAY_HOURS) | BY_TIME_OF_WRITING
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        access = _by(read="pipeline reader gateway", write="pipeline")
        return self._topic("estimates", "none", config, access=access, public=False, derived=True)

    @cached_property
    def posteriors(self) -> Topic:
        """The posterior of each task."""
        access = _by(read="reader gateway", write="pipeline")
        return self._topic(
            "posteriors",
            "task",
            _compacted(),
            tuning=_small_segments(),
            access=access,
            derived=True,
            schema="posterior",
        )

    @cached_property
    def flat(self) -> Topic:
        """The posterior of each task for Kafka Connect; exists only with `SBIC_FLAT=true`."""
        access = _by(read="reader", write="pipeline")
        return self._topic(
            "flat",
            "task",
            _compacted(),
            tuning=_small_segments(),
            access=access,
            derived=True,
            schema="flat",
        )

    @cached_property
    def workers(self) -> Topic:
        """The estimate of each worker."""
        access = _by(read="reader gateway", write="pipeline")
        return self._topic(
            "workers",
            "worker",
            _compacted(),
            tuning=_small_segments(),
            access=access,
            derived=True,
            schema="worker",
        )

    @cached_property
    def dead_letters(self) -> Topic:
        """Records that could not be used, unchanged, with the reason in headers."""
        config = _kept(self.settings.retention_hours) | BY_TIME_OF_WRITING
        config["max.message.bytes"] = str(DEAD_LETTERS_MAX_BYTES)
        access = _by(read="reader gateway", write="pipeline operator")
        return self._topic("dead-letters", "as it came", config, access=access, derived=True)

    @cached_property
    def seal(self) -> Topic:
        """The keys that seal the records of instances; only these may read it."""
        access = _by(read="pipeline", write="operator")
        return self._topic(
            "seal", "none", _kept(FOREVER), access=access, public=False, partitions=1
        )

    @cached_property
    def project(self) -> Topic:
        """The project itself: a record for each revision of its settings and topics."""
        access = _by(read="pipeline producer reader gateway", write="operator")
        return self._topic(
            "project", "none", _kept(FOREVER), access=access, public=False, partitions=1
        )

    @property
    def moving(self) -> tuple[Topic, ...]:
        """The topics with what users wrote and what was decided: a repartition carries it over."""
        return self.tasks, self.roster, self.labels, self.evidence

    @property
    def carried(self) -> tuple[Topic, ...]:
        """The topics in which a repartition keeps that on the way, in the same order."""
        return tuple(map(_carried, self.moving))

    def _topic(
        self,
        name: str,
        key: str,
        config: dict[str, str],
        *,
        access: Access,
        public: bool = True,
        derived: bool = False,
        schema: str | None = None,
        tuning: Mapping[str, str] | None = None,
        partitions: int | None = None,
        watched: frozenset[str] = frozenset(),
    ) -> Topic:
        replication = self.settings.replication
        # Kafka unpacks what producers send: aiokafka lacks most codecs, a megabyte may hold many
        # gigabytes, and the limit for records applies to what is unpacked then
        config["compression.type"] = "uncompressed"
        # acks=all requires two copies, and one broker may be unavailable
        config["min.insync.replicas"] = str(min(2, max(1, replication - 1)))
        return Topic(
            name=f"{self.settings.prefix}.{name}",
            key=key,
            access=access,
            public=public,
            derived=derived,
            schema=schema,
            partitions=partitions or self.settings.partitions,
            replication=replication,
            config=config,
            tuning=tuning or {},
            watched=watched,
        )


def _carried(topic: Topic) -> Topic:
    """Return a topic for all records of another, where nothing expires or is compacted."""
    config = {**topic.config, **_kept(FOREVER), "message.timestamp.type": "CreateTime"}
    access = _by(read="", write="operator")
    name = f"{topic.name}-carried"
    return replace(topic, name=name, config=config, tuning={}, access=access, public=False)


def _kept(hours: int) -> dict[str, str]:
    milliseconds = FOREVER if hours == FOREVER else hours * HOUR_MS
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(milliseconds),
        "retention.bytes": str(FOREVER),
    }


def _compacted() -> dict[str, str]:
    return {"cleanup.policy": "compact"}


def _small_segments() -> dict[str, str]:
    # the active segment is never compacted, and every start reads it: 1 GiB would be too much
    return {"segment.bytes": str(32 * MIB), "min.cleanable.dirty.ratio": "0.2"}

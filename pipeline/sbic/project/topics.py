"""Every topic, described once: for creation, checks, the AsyncAPI document and the tests.

All topics have the same number of partitions, so that one instance owns partition p of all of them;
only the topics `project` and `seal` have a single one. Every name starts with the project's prefix.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from sbic.project.settings import Settings
from sbic.wire import dead_letters, labels, tasks

FOREVER = -1
HOUR_MS = 3_600_000
DAY_HOURS = 24
MIB = 1 << 20

ROOM = 64 * 1024  # for keys, headers and Kafka's own overhead
LABELS_MAX_BYTES = labels.MAX_BYTES + ROOM  # a valid label still fits when it is forwarded
TASKS_MAX_BYTES = tasks.MAX_BYTES + ROOM
DEAD_LETTERS_MAX_BYTES = dead_letters.MAX_BYTES + ROOM
# retention counts from when a record was written: the vote of an old label is new
BY_TIME_OF_WRITING = {"message.timestamp.type": "LogAppendTime"}
BATCH_MAX_BYTES = 8 * MIB  # enough for thousands of labels with long ids


@dataclass(frozen=True)
class Topic:
    """One topic: its name, the key of its records, and how they are kept.

    `config` is required; `tuning` is set for a new topic, and operators may change it.
    """

    name: str
    key: str
    public: bool
    partitions: int
    replication: int
    config: Mapping[str, str]
    tuning: Mapping[str, str]

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
        yield self.requests
        yield self.assignments
        yield self.answers
        yield self.votes
        yield self.evidence
        yield self.estimates
        yield self.posteriors
        yield self.workers
        yield self.dead_letters
        yield self.seal
        yield self.project

    @cached_property
    def labels(self) -> Topic:
        """The users' labels, which cannot be recomputed."""
        config = _kept(self.settings.labels_retention_hours)
        config["max.message.bytes"] = str(LABELS_MAX_BYTES)
        return self._topic("labels", "worker", config)

    @cached_property
    def tasks(self) -> Topic:
        """Descriptions of tasks by users: priors, gold, and whether they are open."""
        config = _compacted()
        config["max.message.bytes"] = str(TASKS_MAX_BYTES)
        return self._topic("tasks", "task", config, tuning=_small_segments())

    @cached_property
    def requests(self) -> Topic:
        """Requests of workers for their next task; kept for a day."""
        return self._topic("requests", "worker", _kept(DAY_HOURS) | BY_TIME_OF_WRITING)

    @cached_property
    def assignments(self) -> Topic:
        """Assignments of tasks to workers, kept for at least two leases."""
        config = _kept(DAY_HOURS) | BY_TIME_OF_WRITING
        two_leases = ceil(2000 * self.settings.lease_seconds)
        config["retention.ms"] = str(max(DAY_HOURS * HOUR_MS, two_leases))
        return self._topic("assignments", "worker", config)

    @cached_property
    def answers(self) -> Topic:
        """Changelog of the worker agent's answers table, a record per batch of labels."""
        config = _kept(FOREVER)
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        return self._topic("answers", "none", config, public=False)

    @cached_property
    def votes(self) -> Topic:
        """Votes for tasks of other instances, a record per batch of labels and partition of tasks.

        Kept as long as labels: if a vote expired while the project is stopped, its label would be
        lost.
        """
        config = _kept(self.settings.labels_retention_hours) | BY_TIME_OF_WRITING
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        return self._topic("votes", "none", config, public=False)

    @cached_property
    def evidence(self) -> Topic:
        """Changelog of the task agent's table: counted votes, and facts."""
        config = _kept(FOREVER)
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        return self._topic("evidence", "none", config, public=False)

    @cached_property
    def estimates(self) -> Topic:
        """Estimates that instances publish to each other: all of them after every rebalance."""
        config = _kept(DAY_HOURS) | BY_TIME_OF_WRITING
        config["max.message.bytes"] = str(BATCH_MAX_BYTES)
        return self._topic("estimates", "none", config, public=False)

    @cached_property
    def posteriors(self) -> Topic:
        """The posterior of each task."""
        return self._topic("posteriors", "task", _compacted(), tuning=_small_segments())

    @cached_property
    def workers(self) -> Topic:
        """The estimate of each worker."""
        return self._topic("workers", "worker", _compacted(), tuning=_small_segments())

    @cached_property
    def dead_letters(self) -> Topic:
        """Records that could not be used, unchanged, with the reason in headers."""
        config = _kept(self.settings.retention_hours) | BY_TIME_OF_WRITING
        config["max.message.bytes"] = str(DEAD_LETTERS_MAX_BYTES)
        return self._topic("dead-letters", "as it came", config)

    @cached_property
    def seal(self) -> Topic:
        """The keys that seal the records of instances; only these may read it."""
        return self._topic("seal", "none", _kept(FOREVER), public=False, partitions=1)

    @cached_property
    def project(self) -> Topic:
        """The project itself: a record for each revision of its settings and topics."""
        return self._topic("project", "none", _kept(FOREVER), public=False, partitions=1)

    def _topic(
        self,
        name: str,
        key: str,
        config: dict[str, str],
        *,
        public: bool = True,
        tuning: Mapping[str, str] | None = None,
        partitions: int | None = None,
    ) -> Topic:
        replication = self.settings.replication
        # acks=all requires two copies, and one broker may be unavailable
        config["min.insync.replicas"] = str(min(2, max(1, replication - 1)))
        return Topic(
            name=f"{self.settings.prefix}.{name}",
            key=key,
            public=public,
            partitions=partitions or self.settings.partitions,
            replication=replication,
            config=config,
            tuning=tuning or {},
        )


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

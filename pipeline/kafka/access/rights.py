"""What each role has to be allowed on a cluster with ACLs: the docs and the checks read this.

Whoever may read, write, alter or delete a topic may also describe it, whoever may alter its
configuration may also describe that, and whoever may write to a topic may do so idempotently (Kafka
2.8 and later): none of these is a row of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Literal, NamedTuple

from pipeline.settings import Settings
from pipeline.topics import Topics

Resource = Literal["topic", "group"]
EVERY = ""  # of the topics of the project


class Operation(IntEnum):
    """The operations of Kafka's ACLs, by their codes in the protocol."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    @property
    def acl_name(self) -> str:
        """As `kafka-acls` takes it.

        >>> Operation.DESCRIBE_CONFIGS.acl_name
        'DescribeConfigs'
        """
        return self.name.title().replace("_", "")

    @property
    def words(self) -> str:
        """As a sentence has it.

        >>> Operation.DESCRIBE_CONFIGS.words
        'describe the configuration of'
        """
        return {
            Operation.DESCRIBE_CONFIGS: "describe the configuration of",
            Operation.ALTER_CONFIGS: "alter the configuration of",
        }.get(self, self.name.lower())


class Right(NamedTuple):
    """An operation on a topic, which `name` completes, or on the group of the project."""

    operation: Operation
    resource: Resource
    name: str = EVERY

    def target(self, prefix: str) -> str:
        """The name that it is about; of all topics the part that they share.

        >>> Right(Operation.READ, "topic", "labels").target("birds")
        'birds.labels'
        """
        return f"{prefix}.{self.name}" if self.resource == "topic" else prefix

    def acl_options(self, prefix: str) -> str:
        """The options of `kafka-acls` that name it.

        >>> Right(Operation.CREATE, "topic").acl_options("birds")
        '--operation Create --topic birds. --resource-pattern-type prefixed'
        >>> Right(Operation.READ, "group").acl_options("birds")
        '--operation Read --group birds'
        """
        operation = f"--operation {self.operation.acl_name}"
        pattern = " --resource-pattern-type prefixed" if self.is_prefixed else ""
        return f"{operation} --{self.resource} {self.target(prefix)}{pattern}"

    @property
    def is_prefixed(self) -> bool:
        """Whether it is about all topics of the project."""
        return self.resource == "topic" and self.name == EVERY


def _on(operation: Operation, *topics: str) -> tuple[Right, ...]:
    return tuple(Right(operation, "topic", topic) for topic in topics)


READ, WRITE = Operation.READ, Operation.WRITE

FOR_READING = (
    *_on(READ, "labels", "posteriors", "workers", "dead-letters", "votes", "estimates", "project"),
    Right(Operation.DESCRIBE, "group"),
)

ROLES: Mapping[str, tuple[Right, ...]] = {
    "pipeline": (
        *_on(READ, "labels", "tasks", "requests", "assignments"),
        *_on(READ, "answers", "votes", "evidence", "estimates", "project"),
        # what was keyed by another than its worker or task is written once more, where it belongs
        *_on(WRITE, "labels", "tasks", "requests", "assignments"),
        *_on(WRITE, "answers", "votes", "evidence", "estimates"),
        *_on(WRITE, "posteriors", "workers", "dead-letters"),
        Right(Operation.DESCRIBE_CONFIGS, "topic"),
        Right(READ, "group"),
    ),
    "producer": (*_on(READ, "project"), *_on(WRITE, "labels")),
    "reader": (*FOR_READING, *_on(Operation.DESCRIBE, "tasks", "requests")),
    "gateway": (
        *FOR_READING,
        *_on(READ, "assignments"),
        *_on(WRITE, "labels", "tasks", "requests"),
    ),
    "operator": (
        Right(READ, "topic"),
        *_on(WRITE, "project", "labels", "tasks", "requests", "dead-letters"),
        Right(Operation.CREATE, "topic"),
        Right(Operation.DELETE, "topic"),
        Right(Operation.ALTER_CONFIGS, "topic"),
        Right(READ, "group"),
        Right(Operation.DELETE, "group"),
    ),
}
"""Whoever runs instances; sends labels; reads what came of them; lets others do both; and
creates, changes and deletes projects."""


def needs_of(role: str, settings: Settings) -> Iterator[tuple[str, Operation]]:
    """Each topic of the project with an operation on it that the role needs."""
    names = [topic.name for topic in Topics(settings)]
    for right in ROLES[role]:
        if right.resource == "topic":
            for name in names if right.is_prefixed else [right.target(settings.prefix)]:
                yield name, right.operation


def grant_line(right: Right, user: str, prefix: str) -> str:
    """The command that grants a right to a user; where Kafka is, is for the operator to say."""
    return f"kafka-acls.sh --add --allow-principal User:{user} {right.acl_options(prefix)}"


def in_words(rights: Iterable[tuple[Operation, str]]) -> str:
    """Operations on topics or groups, as a sentence has them.

    >>> in_words([(READ, "topic a"), (READ, "topic b"), (WRITE, "topic b")])
    'read topic a, read topic b, write topic b'
    """
    return ", ".join(f"{operation.words} {name}" for operation, name in rights)

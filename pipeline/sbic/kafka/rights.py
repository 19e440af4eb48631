"""The rights that each role needs on a cluster with ACLs, as the docs and the checks read them.

Kafka derives some rights from others, so they are not listed: Read, Write, Alter and Delete
include Describe, AlterConfigs includes DescribeConfigs, and Write includes idempotent writing
(since Kafka 2.8).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Literal, NamedTuple

from sbic.project.settings import Settings
from sbic.project.topics import Topics

Resource = Literal["topic", "group"]
EVERY = ""  # all topics of the project
SINKS = "sink."  # what the groups of sinks begin with, after the prefix and a dot
SINK_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


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
        """The name that `kafka-acls` takes.

        >>> Operation.DESCRIBE_CONFIGS.acl_name
        'DescribeConfigs'
        """
        return self.name.title().replace("_", "")

    @property
    def words(self) -> str:
        """The name as a verb phrase.

        >>> Operation.DESCRIBE_CONFIGS.words
        'describe the configuration of'
        """
        return {
            Operation.DESCRIBE_CONFIGS: "describe the configuration of",
            Operation.ALTER_CONFIGS: "alter the configuration of",
        }.get(self, self.name.lower())


class Right(NamedTuple):
    """An operation on a topic or group `PREFIX.name`, on all topics, or on the project's group.

    A name that ends with a dot is that of all topics or groups that begin with it.
    """

    operation: Operation
    resource: Resource
    name: str = EVERY

    def target(self, prefix: str) -> str:
        """Return the name of the topic or group; of several, their common prefix.

        >>> Right(Operation.READ, "topic", "labels").target("birds")
        'birds.labels'
        """
        if self.resource == "group" and self.name == EVERY:
            return prefix
        return f"{prefix}.{self.name}"

    def acl_options(self, prefix: str) -> str:
        """Return the options of `kafka-acls` for this right.

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
        """Whether the right applies to all topics or groups that begin with its target."""
        return self.name.endswith(".") or (self.resource == "topic" and self.name == EVERY)


READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def _on_topics(role: str) -> Iterator[Right]:
    """Yield the rights on single topics, as `project/topics.py` describes them."""
    settings = Settings(flat=True)
    topics = Topics(settings)
    for operation in (READ, WRITE, DESCRIBE):
        for topic in (*topics, *topics.carried):
            if role in getattr(topic.access, operation.name.lower()):
                yield Right(operation, "topic", topic.name.removeprefix(f"{settings.prefix}."))


ROLES: Mapping[str, tuple[Right, ...]] = {
    "pipeline": (
        *_on_topics("pipeline"),  # records in the wrong partition are forwarded to the right one
        Right(Operation.DESCRIBE_CONFIGS, "topic"),
        Right(READ, "group"),
    ),
    "producer": (*_on_topics("producer"),),
    # a sink commits what it has applied, and status shows that; they go on without these rights
    "reader": (*_on_topics("reader"), Right(DESCRIBE, "group"), Right(READ, "group", SINKS)),
    "gateway": (*_on_topics("gateway"), Right(DESCRIBE, "group"), Right(DESCRIBE, "group", SINKS)),
    "operator": (
        Right(READ, "topic"),
        *_on_topics("operator"),
        Right(Operation.CREATE, "topic"),
        Right(Operation.DELETE, "topic"),
        Right(Operation.ALTER_CONFIGS, "topic"),
        Right(READ, "group"),
        Right(Operation.DELETE, "group"),
    ),
}
"""The rights of those who run instances, send labels, read results, run a gateway, and manage
projects."""


class Need(NamedTuple):
    """A topic, and an operation on it that a client needs."""

    topic: str
    operation: Operation


def needs_of(role: str, settings: Settings) -> Iterator[Need]:
    """Yield the operations on topics of the project that the role needs."""
    topics = Topics(settings)
    names = [topic.name for topic in topics]
    off = set() if settings.flat else {topics.flat.name}
    for right in ROLES[role]:
        if right.resource == "topic":
            for name in names if right.is_prefixed else [right.target(settings.prefix)]:
                if name not in off:
                    yield Need(name, right.operation)


def grant_line(right: Right, user: str, prefix: str) -> str:
    """Return the command that grants a right to a user; the operator adds the address of Kafka."""
    return f"kafka-acls.sh --add --allow-principal User:{user} {right.acl_options(prefix)}"


def in_words(rights: Iterable[tuple[Operation, str]]) -> str:
    """Return a list of operations on topics or groups, in words.

    >>> in_words([(READ, "topic a"), (READ, "topic b"), (WRITE, "topic b")])
    'read topic a, read topic b, write topic b'
    """
    return ", ".join(f"{operation.words} {name}" for operation, name in rights)

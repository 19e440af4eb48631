"""What can be wrong with a cluster, each with a message that tells the user what to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from sbic.kafka.rights import Operation, Right, grant_line, in_words
from sbic.project.settings import Settings, command_line, start_broker


class ClusterError(Exception):
    """The cluster cannot be used; the message says why and what to do."""


class KafkaUnreachable(ClusterError):
    """No broker answers."""

    def __init__(self, settings: Settings) -> None:
        start = start_broker(settings)
        super().__init__(
            f"no Kafka answers at {', '.join(settings.bootstrap_servers)}; set SBIC_BROKER to the "
            f"address of one" + (f", or start one with: {start}" if start else "")
        )


class Denied(ClusterError):
    """Kafka answers, but this client cannot connect: TLS or the credentials are wrong."""


class MissingRights(ClusterError):
    """This user is authenticated but not authorized: ACLs are missing.

    >>> print(MissingRights(Settings(), [Right(Operation.READ, "topic", "posteriors")]))
    this client is not authorized to read topic sbic.posteriors; an operator grants it with: \
kafka-acls.sh --add --allow-principal User:NAME --operation Read --topic sbic.posteriors
    """

    def __init__(self, settings: Settings, rights: Sequence[Right]) -> None:
        user, prefix = settings.security.username, settings.prefix
        named = [(right.operation, f"{right.resource} {right.target(prefix)}") for right in rights]
        line = grant_line(rights[0], user or "NAME", prefix)
        more = " and so on (docs/security.md has a table of roles)" if len(rights) > 1 else ""
        self.who = f"user {user}" if user else "this client"
        super().__init__(
            f"{self.who} is not authorized to {in_words(named)}; an operator grants it with: "
            f"{line}{more}"
        )


class MayNotCreate(MissingRights):
    """Topics are missing, and this client is not authorized to create them."""

    def __init__(self, topic: str, settings: Settings) -> None:
        super().__init__(settings, [Right(Operation.CREATE, "topic")])
        self.args = (
            f"there is no topic {topic}, and {self.who} is not authorized to create it; an "
            f"operator creates the project with: {command_line(settings, 'topics')}",
        )


class MissingTopic(ClusterError):
    """A topic that is needed does not exist."""

    def __init__(self, topic: str, settings: Settings) -> None:
        super().__init__(
            f"Kafka at {', '.join(settings.bootstrap_servers)} has no topic {topic}; "
            f"create it with: {command_line(settings, 'topics')}"
        )


class Refused(ClusterError):
    """The cluster answers, but refuses the request."""


@dataclass(frozen=True)
class Mismatch:
    """One way in which a topic differs from what is needed."""

    topic: str
    has: str
    needs: str

    def __str__(self) -> str:
        return f"{self.topic} has {self.has} and needs {self.needs}"


class WrongTopics(ClusterError):
    """Topics of these names exist, but are not as the project needs them."""

    def __init__(self, mismatches: Sequence[Mismatch]) -> None:
        super().__init__("; ".join(map(str, mismatches)))
        self.mismatches = mismatches

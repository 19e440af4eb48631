"""Grants roles to users, as `kafka-acls` does, on the embedded broker."""

from collections.abc import Mapping

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import CreateAclsRequest

from pipeline.kafka.access.rights import ROLES, Resource, Right
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import Refused
from pipeline.kafka.options import client_options
from pipeline.settings import Settings

RESOURCE_TYPES: Mapping[Resource, int] = {"topic": 2, "group": 3}
LITERAL, PREFIXED = 3, 4
ALLOW = 3
ANY_HOST = "*"


async def grant_roles(settings: Settings, users: Mapping[str, str]) -> None:
    """Grant each role to a user on the topics of this prefix; existing grants stay."""
    async with connected(Granting(settings), settings) as granting:
        for role, user in users.items():
            for right in ROLES[role]:
                await granting.grant(right, user)


class Granting:
    """A client for CreateAcls, which aiokafka 0.14 defines but its admin client does not send."""

    def __init__(self, settings: Settings) -> None:
        self.prefix = settings.prefix
        self.client = AIOKafkaClient(**client_options(settings))

    async def start(self) -> None:
        """Connect."""
        await self.client.bootstrap()

    async def stop(self) -> None:
        """Disconnect."""
        await self.client.close()

    async def grant(self, right: Right, user: str) -> None:
        """Grant a right to a user."""
        request = CreateAclsRequest(
            RESOURCE_TYPES[right.resource],
            right.target(self.prefix),
            PREFIXED if right.is_prefixed else LITERAL,
            f"User:{user}",
            ANY_HOST,
            right.operation,
            ALLOW,
        )
        answer = await self.client.send(self.client.get_random_node(), request)
        ((error_code, message),) = answer.creation_responses
        if error_code:
            raise Refused(f"Kafka does not grant {right.acl_options(self.prefix)}: {message}")

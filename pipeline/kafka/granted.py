"""Asks Kafka what this client may do, before it is in the midst of doing it."""

import asyncio
from collections.abc import Collection, Iterable

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsRequest_v3,
    DescribeGroupsResponse_v3,
)
from aiokafka.protocol.api import Request

from pipeline.kafka.clients import client_options
from pipeline.kafka.connection import connected
from pipeline.kafka.errors import NotAllowed
from pipeline.kafka.rights import ROLES, Operation, Right, needs_of
from pipeline.kafka.topic_ids import NOT_TOLD, Described, TopicIds
from pipeline.settings import Settings

GROUP_TYPE = 0
WAIT_SECONDS = 0.05
# a broker that is new, or was just started, has to make or load its groups first
SOON = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)

Need = tuple[str, Operation]
"""A topic, and what is to be done with it."""


async def described(settings: Settings, needs: Collection[Need]) -> dict[str, Described]:
    """The topics that are there; `NotAllowed` names all of the needs that are not granted."""
    names = list(dict.fromkeys(name for name, _ in needs))
    async with connected(TopicIds(settings), settings) as topics:
        found = await topics.describe(names)
    refuse_missing(settings, found, needs)
    return found


def refuse_missing(settings: Settings, found: dict[str, Described], needs: Iterable[Need]) -> None:
    """Raise `NotAllowed` unless all is granted; a topic that is missing is not looked at."""
    missing = [
        Right(operation, "topic", name.removeprefix(f"{settings.prefix}."))
        for name, operation in needs
        if name in found and not found[name].allows(operation)
    ]
    if missing:
        raise NotAllowed(settings, missing)


async def check_role(settings: Settings, role: str) -> None:
    """Raise `NotAllowed` with all that the role needs and this client does not have.

    Whether it may create topics is seen only when it does: that can be granted on the cluster too.
    """
    needs = [need for need in needs_of(role, settings) if need[1] is not Operation.CREATE]
    await described(settings, needs)
    needed = [right for right in ROLES[role] if right.resource == "group"]
    async with connected(GroupOperations(settings), settings) as group:
        granted = await group.ask()
    missing = [right for right in needed if granted != NOT_TOLD and not granted >> right[0] & 1]
    if missing:
        raise NotAllowed(settings, missing)


class GroupsRequestV3(DescribeGroupsRequest_v3):  # type: ignore[misc]
    """aiokafka 0.14 reads the answer as one of version 2, and drops the operations at its end."""

    RESPONSE_TYPE = DescribeGroupsResponse_v3


class GroupsRequest(Request[GroupsRequestV3]):  # type: ignore[misc]
    """Asks for a group, and what this client may do with it."""

    API_KEY = DescribeGroupsRequest.API_KEY

    def __init__(self, group: str) -> None:
        self.group = group

    def build(self, request_struct_class: type[GroupsRequestV3]) -> GroupsRequestV3:
        """The request as it is sent."""
        return request_struct_class([self.group], True)


class GroupOperations:
    """A client that asks for the group of the project."""

    def __init__(self, settings: Settings) -> None:
        self.group = settings.prefix
        self.client = AIOKafkaClient(**client_options(settings))

    async def start(self) -> None:
        """Connect."""
        await self.client.bootstrap()

    async def stop(self) -> None:
        """Disconnect."""
        await self.client.close()

    async def ask(self) -> int:
        """The bits of what this client may do with the group."""
        while True:
            try:
                node = await self.client.coordinator_lookup(GROUP_TYPE, self.group)
                answer = await self.client.send(node, GroupsRequest(self.group))
                ((error_code, *_, operations),) = answer.groups
                if error_code:
                    raise for_code(error_code)(self.group)
                return int(operations)
            except GroupAuthorizationFailedError:
                return 0
            except SOON:
                await asyncio.sleep(WAIT_SECONDS)

"""Asks Kafka what this client may do, before it is in the midst of doing it."""

from collections.abc import Collection, Iterable
from typing import Any

from aiokafka.errors import GroupAuthorizationFailedError, for_code
from aiokafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsRequest_v3,
    DescribeGroupsResponse_v3,
)
from aiokafka.protocol.api import Request

from pipeline.kafka.access.rights import ROLES, Operation, Right, needs_of
from pipeline.kafka.connection import connected
from pipeline.kafka.coordinator import Coordinator
from pipeline.kafka.errors import NotAllowed
from pipeline.kafka.topic_ids import NOT_TOLD, Described, TopicIds
from pipeline.settings import Settings

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
    granted = await granted_on_group(settings)
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


async def granted_on_group(settings: Settings) -> int:
    """The bits of what this client may do with the group of the project."""
    async with connected(Coordinator(settings), settings) as coordinator:
        try:
            return await coordinator.ask(GroupsRequest(coordinator.group), _operations)
        except GroupAuthorizationFailedError:
            return 0


def _operations(answer: Any) -> int:
    ((error_code, group, *_, operations),) = answer.groups
    if error_code:
        raise for_code(error_code)(group)
    return int(operations)

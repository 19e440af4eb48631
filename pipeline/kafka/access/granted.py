"""Checks what this client is authorized to do, before it starts to do it."""

from collections.abc import Collection, Iterable
from typing import Any

from aiokafka.errors import GroupAuthorizationFailedError, for_code
from aiokafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsRequest_v3,
    DescribeGroupsResponse_v3,
)
from aiokafka.protocol.api import Request

from pipeline.kafka.access.rights import ROLES, Need, Operation, Right, needs_of
from pipeline.kafka.connection import connected
from pipeline.kafka.coordinator import Coordinator
from pipeline.kafka.errors import NotAllowed
from pipeline.kafka.topic_ids import NOT_TOLD, Described, TopicIds
from pipeline.settings import Settings


async def describe_topics(settings: Settings, needs: Collection[Need]) -> dict[str, Described]:
    """The topics that exist; raises `NotAllowed` with all of the needs that are not granted."""
    names = list(dict.fromkeys(need.topic for need in needs))
    async with connected(TopicIds(settings), settings) as topics:
        found = await topics.describe(names)
    refuse_missing(settings, found, needs)
    return found


def refuse_missing(settings: Settings, found: dict[str, Described], needs: Iterable[Need]) -> None:
    """Raise `NotAllowed` unless all needs on existing topics are granted."""
    missing = [
        Right(need.operation, "topic", need.topic.removeprefix(f"{settings.prefix}."))
        for need in needs
        if need.topic in found and not found[need.topic].allows(need.operation)
    ]
    if missing:
        raise NotAllowed(settings, missing)


async def check_role(settings: Settings, role: str) -> None:
    """Raise `NotAllowed` with all rights that the role needs and this client lacks.

    Creating topics is not checked: that right may be granted on the cluster instead.
    """
    needs = [need for need in needs_of(role, settings) if need.operation is not Operation.CREATE]
    await describe_topics(settings, needs)
    needed = [right for right in ROLES[role] if right.resource == "group"]
    granted = await granted_on_group(settings)
    missing = [
        right for right in needed if granted != NOT_TOLD and not granted >> right.operation & 1
    ]
    if missing:
        raise NotAllowed(settings, missing)


class GroupsRequestV3(DescribeGroupsRequest_v3):  # type: ignore[misc]
    """aiokafka 0.14 parses the response as version 2, and drops the operations at its end."""

    RESPONSE_TYPE = DescribeGroupsResponse_v3


class GroupsRequest(Request[GroupsRequestV3]):  # type: ignore[misc]
    """Describes a group, with the operations that this client is authorized for."""

    API_KEY = DescribeGroupsRequest.API_KEY

    def __init__(self, group: str) -> None:
        self.group = group

    def build(self, request_struct_class: type[GroupsRequestV3]) -> GroupsRequestV3:
        """The request in this version of the protocol."""
        return request_struct_class([self.group], True)


async def granted_on_group(settings: Settings) -> int:
    """The bits of the operations on the project's group that this client is authorized for."""
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

"""What aiokafka's admin client lacks: ids of topics, authorized operations, the coordinator."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsRequest_v3,
    DescribeGroupsResponse_v3,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from sbic.kafka.connect import RequestClient, connected
from sbic.kafka.errors import MissingRights, Refused
from sbic.kafka.rights import EVERY, ROLES, Need, Operation, Right, needs_of
from sbic.project.settings import Settings

# The ids of topics, and the operations that a client is authorized for.
#
# A topic that is deleted and recreated gets a new id. aiokafka 0.14 requests metadata up to version
# 5; operations came with version 8 and ids with version 10. Unlike aiokafka's own requests, this
# one never creates a missing topic.


API_KEY = 3
VERSION = 11
NO_ID = bytes(16)
NOT_TOLD = -(1 << 31)  # the operations, from a server that does not report them


class Uuid(AbstractType):  # type: ignore[misc]
    """16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """As they are."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """As they are."""
        return data.read(16)


class MetadataResponseV11(Response):  # type: ignore[misc]
    """The response, as in Kafka's protocol guide."""

    API_KEY = API_KEY
    API_VERSION = VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class MetadataRequestV11(RequestStruct):  # type: ignore[misc]
    """The request, as in Kafka's protocol guide."""

    API_KEY = API_KEY
    API_VERSION = VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponseV11
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicsRequest(Request[MetadataRequestV11]):  # type: ignore[misc]
    """Requests some topics by name."""

    API_KEY = API_KEY

    def __init__(self, names: Iterable[str]) -> None:
        tags: dict[int, bytes] = {}
        self.topics = [(NO_ID, name, tags) for name in names]

    def build(self, request_struct_class: type[MetadataRequestV11]) -> MetadataRequestV11:
        """Return the request in this version of the protocol."""
        return request_struct_class(self.topics, False, True, {})


class Described(NamedTuple):
    """A topic that exists; `operations` are the bits of this client's authorized operations."""

    topic_id: str
    partitions: int
    operations: int

    def allows(self, operation: Operation) -> bool:
        """Whether this client is authorized for the operation."""
        return self.operations == NOT_TOLD or bool(self.operations >> operation & 1)


NOT_ALLOWED = Described("", 0, 0)
"""A topic that this client is not authorized to describe, whether or not it exists."""


class TopicIds(RequestClient):
    """A client that describes topics; `sbic.kafka.connect.connected` starts and stops it."""

    async def find(self, names: Iterable[str]) -> dict[str, str]:
        """Return the id of each topic that exists, in the form that Kafka's own tools show."""
        described = await self.describe(names)
        for name, topic in described.items():
            if topic is NOT_ALLOWED:
                raise TopicAuthorizationFailedError(name)
        return {name: topic.topic_id for name, topic in described.items()}

    async def describe(self, names: Iterable[str]) -> dict[str, Described]:
        """Each topic that exists; `NOT_ALLOWED` for those that must not be described."""
        try:
            node = self.client.get_random_node()
            answer = await self.client.send(node, TopicsRequest(names))
        except NotImplementedError:
            raise Refused("Kafka 2.8 or later is needed: older ones give topics no ids") from None
        found = ((topic[1], _described(topic)) for topic in answer.topics)
        return {name: topic for name, topic in found if topic is not None}


def _described(topic: Sequence[Any]) -> Described | None:
    error_code, name, topic_id, _, partitions, operations, _ = topic
    error: type[KafkaError] = for_code(error_code)
    if error is TopicAuthorizationFailedError:
        return NOT_ALLOWED
    if topic_id != NO_ID:
        return Described(_text(topic_id), len(partitions), operations)
    if error_code and error is not UnknownTopicOrPartitionError:
        raise error(f"the topic {name}")
    return None


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


# Sends requests to the coordinator of a consumer group.


GROUP_TYPE = 0
RETRY_SECONDS = 0.05
NOT_READY = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
"""Errors of a broker that was just started and still has to load its groups: retry."""

T = TypeVar("T")


class Coordinator(RequestClient):
    """A client for group requests that aiokafka 0.14 does not send, or not as needed.

    The group is that of the project unless another is named.
    """

    def __init__(self, settings: Settings, group: str | None = None) -> None:
        super().__init__(settings)
        self.group = group or settings.prefix

    async def ask(self, request: Request[Any], read: Callable[[Any], T]) -> T:
        """Send a request and return `read(response)`, which raises the errors in the response."""
        while True:
            try:
                node = await self.client.coordinator_lookup(GROUP_TYPE, self.group)
                return read(await self.client.send(node, request))
            except NOT_READY:
                await asyncio.sleep(RETRY_SECONDS)


# Checks what this client is authorized to do, before it starts to do it.


async def describe_topics(settings: Settings, needs: Collection[Need]) -> dict[str, Described]:
    """Return the topics that exist; raise `MissingRights` with all needs not granted."""
    names = list(dict.fromkeys(need.topic for need in needs))
    async with connected(TopicIds(settings), settings) as topics:
        found = await topics.describe(names)
    refuse_missing(settings, found, needs)
    return found


def refuse_missing(settings: Settings, found: dict[str, Described], needs: Iterable[Need]) -> None:
    """Raise `MissingRights` unless all needs on existing topics are granted."""
    missing = [
        Right(need.operation, "topic", need.topic.removeprefix(f"{settings.prefix}."))
        for need in needs
        if need.topic in found and not found[need.topic].allows(need.operation)
    ]
    if missing:
        raise MissingRights(settings, missing)


async def check_role(settings: Settings, role: str) -> None:
    """Raise `MissingRights` with all rights that the role needs and this client lacks.

    Creating topics is not checked: that right may be granted on the cluster instead.
    """
    needs = [need for need in needs_of(role, settings) if need.operation is not Operation.CREATE]
    await describe_topics(settings, needs)
    rights = ROLES[role]
    needed = [right for right in rights if (right.resource, right.name) == ("group", EVERY)]
    granted = await granted_on_group(settings)
    missing = [
        right for right in needed if granted != NOT_TOLD and not granted >> right.operation & 1
    ]
    if missing:
        raise MissingRights(settings, missing)


class GroupsRequestV3(DescribeGroupsRequest_v3):  # type: ignore[misc]
    """aiokafka 0.14 parses the response as version 2, and drops the operations at its end."""

    RESPONSE_TYPE = DescribeGroupsResponse_v3


class GroupsRequest(Request[GroupsRequestV3]):  # type: ignore[misc]
    """Describes a group, with the operations that this client is authorized for."""

    API_KEY = DescribeGroupsRequest.API_KEY

    def __init__(self, group: str) -> None:
        self.group = group

    def build(self, request_struct_class: type[GroupsRequestV3]) -> GroupsRequestV3:
        """Return the request in this version of the protocol."""
        return request_struct_class([self.group], True)


async def granted_on_group(settings: Settings) -> int:
    """Return the bits of the operations on the project's group that are granted here."""
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

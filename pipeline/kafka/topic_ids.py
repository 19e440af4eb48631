"""The ids of topics: a topic that is deleted and created again has another.

aiokafka 0.14 asks for metadata up to version 5, and ids came with version 10. Unlike its own
requests, this one never creates a topic that is missing.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.abstract import AbstractType
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

from pipeline.kafka.errors import Refused

API_KEY = 3
VERSION = 11
NO_ID = bytes(16)


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
    """The answer, as Kafka's protocol guide has it."""

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
    """The question."""

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
    """Asks for some topics by name."""

    API_KEY = API_KEY

    def __init__(self, names: Iterable[str]) -> None:
        tags: dict[int, bytes] = {}
        self.topics = [(NO_ID, name, tags) for name in names]

    def build(self, request_struct_class: type[MetadataRequestV11]) -> MetadataRequestV11:
        """The request as it is sent."""
        return request_struct_class(self.topics, False, False, {})


class TopicIds:
    """A client that asks for ids; `pipeline.kafka.connection.connected` starts and stops it."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.client = AIOKafkaClient(bootstrap_servers=list(servers), client_id="sbic-topics")

    async def start(self) -> None:
        """Connect."""
        await self.client.bootstrap()

    async def stop(self) -> None:
        """Disconnect."""
        await self.client.close()

    async def find(self, names: Iterable[str]) -> dict[str, str]:
        """The id of each topic that is there, as Kafka's own tools show it."""
        try:
            node = self.client.get_random_node()
            answer = await self.client.send(node, TopicsRequest(names))
        except NotImplementedError:
            raise Refused("Kafka 2.8 or later is needed: older ones give topics no ids") from None
        return {topic[1]: _text(topic[2]) for topic in answer.topics if not _is_missing(topic)}


def _is_missing(topic: Sequence[Any]) -> bool:
    error: type[KafkaError] = for_code(topic[0])
    if topic[0] and error is not UnknownTopicOrPartitionError and topic[2] == NO_ID:
        raise error(f"the topic {topic[1]}")
    return bool(topic[2] == NO_ID)


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")

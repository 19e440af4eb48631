"""An instance notices that Kafka is gone, whenever that happens."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.agents.broker_watch import Connection


def consumer(*, joined: bool, connected: bool) -> Any:
    connection = SimpleNamespace(connected=lambda: connected)
    client = SimpleNamespace(_conns={"one": connection})
    assignment = {"a partition"} if joined else set()
    return SimpleNamespace(_client=client, assignment=lambda: assignment, _closed=False)


async def not_denied() -> None:
    return None


async def test_it_says_once_why_clients_cannot_connect(caplog: pytest.LogCaptureFixture) -> None:
    async def denied() -> str:
        return "Kafka refuses the password"

    kafka = consumer(joined=True, connected=False)
    connection = Connection("here:9092", lambda: kafka, denied)
    for _ in range(3):
        connection.look()
        await connection.explain()
    assert [record.message for record in caplog.records] == [
        "Kafka at here:9092 does not answer; trying again until it does",
        "Kafka refuses the password; trying again until that is mended",
    ]


def test_it_is_lost_though_it_was_never_seen_connected(caplog: pytest.LogCaptureFixture) -> None:
    kafka = consumer(joined=False, connected=False)
    connection = Connection("here:9092", lambda: kafka, not_denied)
    connection.look()
    assert not connection.lost
    kafka = consumer(joined=True, connected=False)
    connection.look()
    connection.look()
    assert connection.lost
    assert [record.message for record in caplog.records] == [
        "Kafka at here:9092 does not answer; trying again until it does"
    ]
    kafka = consumer(joined=True, connected=True)
    connection.look()
    assert not connection.lost

"""An instance notices that Kafka is gone, whenever that happens."""

import pytest

from sbic.runtime.faust.consumer import Connections
from sbic.runtime.readiness import BrokerWatch


async def not_denied() -> None:
    return None


async def test_it_says_once_why_clients_cannot_connect(caplog: pytest.LogCaptureFixture) -> None:
    async def denied() -> str:
        return "Kafka refuses the password"

    state = Connections(is_connected=False, has_partitions=True)
    watch = BrokerWatch("here:9092", lambda: state, denied)
    for _ in range(3):
        watch.look()
        await watch.explain()
    assert [record.message for record in caplog.records] == [
        "Kafka at here:9092 does not answer; trying again until it does",
        "Kafka refuses the password; trying again until that is fixed",
    ]


def test_it_is_lost_though_it_was_never_seen_connected(caplog: pytest.LogCaptureFixture) -> None:
    state = Connections(is_connected=False, has_partitions=False)
    watch = BrokerWatch("here:9092", lambda: state, not_denied)
    watch.look()
    assert not watch.is_lost
    state = Connections(is_connected=False, has_partitions=True)
    watch.look()
    watch.look()
    assert watch.is_lost
    assert [record.message for record in caplog.records] == [
        "Kafka at here:9092 does not answer; trying again until it does"
    ]
    state = Connections(is_connected=True, has_partitions=True)
    watch.look()
    assert not watch.is_lost

"""What looks at Kafka again and again keeps its connections: it makes no client for each look."""

import pytest

from sbic.kafka import connect
from sbic.kafka.protocol import TopicIds
from sbic.local.broker import EmbeddedBroker
from sbic.project.added import check_partitions_on
from sbic.project.opening import ProjectLog, open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.runtime.readiness import LabelsWatch
from sbic.status.reading import reading_status
from tests.projects import new_project


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of each client that was made."""
    made: list[Settings] = []
    options_of = connect.client_options

    def counted(settings: Settings) -> dict[str, object]:
        made.append(settings)
        return options_of(settings)

    monkeypatch.setattr(connect, "client_options", counted)
    return made


async def test_no_look_makes_a_client(broker: EmbeddedBroker, clients: list[Settings]) -> None:
    settings = (await open_project(Given.of(new_project(broker)))).settings
    labels = LabelsWatch(settings)
    async with (
        labels,
        reading_status(settings) as status,
        connect.connected(ProjectLog(settings), settings) as log,
        connect.connected(TopicIds(settings), settings) as topic_ids,
    ):
        before = len(clients)
        for _ in range(3):
            await labels._look()
            await status.update()
            assert (await log.read()) is not None
            await check_partitions_on(topic_ids, log.consumer)
        assert len(clients) == before > 3
        assert not labels.kept.warnings
        assert not status.flow.wrong

import asyncio

from sbic.gateway.session import session
from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from tests.projects import new_project


async def test_a_session_from_before_the_first_revision_ends_when_there_is_one(
    broker: EmbeddedBroker,
) -> None:
    pets = new_project(broker, classes="cat,dog,bird")
    await ensure_topics(pets)
    given = Given.of(Settings(broker=pets.broker, prefix=pets.prefix))
    async with session(given) as early:
        assert early.settings.crowd_classes.is_signs
        await open_project(Given.of(pets))
        await asyncio.wait_for(early.run(), timeout=60)
    async with session(given) as later:
        assert later.settings.crowd_classes == pets.crowd_classes

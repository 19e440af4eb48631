"""The annotations of Label Studio that a project has, read when they are needed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka.errors import KafkaError

from pipeline.kafka.errors import Refused
from pipeline.label_studio.annotations import Annotations
from pipeline.label_studio.follower import AnnotationsFollower, following_annotations
from pipeline.settings import Settings

PATIENCE_SECONDS = 10  # without any record, before Kafka is taken to be away


class KnownAnnotations:
    """Reads the labels topic from its start at the first use, and on from there at every other.

    A gateway that gets no webhooks, or only such as create annotations, reads nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection = AsyncExitStack()
        self._follower: AnnotationsFollower | None = None

    @asynccontextmanager
    async def up_to_date(self) -> AsyncIterator[Annotations]:
        """All annotations that the topic has now; only one at a time may change them.

        Whoever takes them lets them learn what is sent. If that fails, they are read anew the next
        time, for nobody knows what Kafka has of it. Raises `ClusterError`.
        """
        async with self._turn:
            try:
                if self._follower is None:
                    following = following_annotations(self._settings)
                    self._follower = await self._connection.enter_async_context(following)
                await _catch_up(self._follower)
                yield self._follower.known
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Forget everything, and close the connection."""
        self._follower = None
        connection, self._connection = self._connection, AsyncExitStack()
        await connection.aclose()


async def _catch_up(follower: AnnotationsFollower) -> None:
    """Read what there is; a Kafka that goes away meanwhile is not waited for."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS) as patience:
            async for records in follower.catch_up():
                if records:
                    patience.reschedule(loop.time() + PATIENCE_SECONDS)
    except (TimeoutError, KafkaError) as error:
        raise Refused(f"Kafka does not answer: {str(error) or 'no records come'}") from None

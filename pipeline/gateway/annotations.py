"""The annotations of Label Studio in a project, read on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka.errors import KafkaError

from pipeline.kafka.errors import Refused
from pipeline.label_studio.annotations import Annotations
from pipeline.label_studio.follower import AnnotationsFollower, following_annotations
from pipeline.settings import Settings

PATIENCE_SECONDS = 10  # without any record, before Kafka is considered unreachable


class KnownAnnotations:
    """Reads the labels topic from its start on first use, and only new records after that.

    A gateway that gets no webhooks, or only those of created annotations, reads nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection = AsyncExitStack()
        self._follower: AnnotationsFollower | None = None

    @asynccontextmanager
    async def up_to_date(self) -> AsyncIterator[Annotations]:
        """All annotations in the topic now, under a lock.

        The caller has to call `learn` for every record that it sends. If the block fails, the topic
        is read again the next time, since it is unknown what was published. Raises `ClusterError`.
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
        """Drop the annotations and close the connection."""
        self._follower = None
        connection, self._connection = self._connection, AsyncExitStack()
        await connection.aclose()


async def _catch_up(follower: AnnotationsFollower) -> None:
    """Read up to the end; raise `Refused` if Kafka stops answering."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS) as patience:
            async for records in follower.catch_up():
                if records:
                    patience.reschedule(loop.time() + PATIENCE_SECONDS)
    except (TimeoutError, KafkaError) as error:
        raise Refused(f"Kafka does not answer: {str(error) or 'no records come'}") from None

"""The annotations of Label Studio that a project has, read when they are needed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pipeline.label_studio.annotations import Annotations
from pipeline.settings import Settings
from pipeline.tools.annotations_follower import AnnotationsFollower, following_annotations


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
        time, for nobody knows what Kafka has of it. Raises `ClusterError` and `KafkaError`.
        """
        async with self._turn:
            try:
                if self._follower is None:
                    following = following_annotations(self._settings)
                    self._follower = await self._connection.enter_async_context(following)
                async for _ in self._follower.catch_up():
                    pass
                yield self._follower.known
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Forget everything, and close the connection."""
        self._follower = None
        connection, self._connection = self._connection, AsyncExitStack()
        await connection.aclose()

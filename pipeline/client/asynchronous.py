"""The client for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, overload

from pipeline.client.errors import TimedOut
from pipeline.client.http import HttpTransport
from pipeline.client.kafka import KafkaTransport
from pipeline.client.transport import Assignment, Label, Place, Posterior, Transport
from pipeline.foreign import shown

FIRST_WAIT_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 0.25


def transport_of(address: str, token: str | None, project: str | None, timeout: float) -> Transport:
    """The transport to an address.

    >>> transport_of("127.0.0.1:8080", None, None, 30)
    Traceback (most recent call last):
    ValueError: the address must begin with http://, https:// or kafka://, not '127.0.0.1:8080'
    """
    if address.startswith(("http://", "https://")):
        return HttpTransport(address, token, project, timeout)
    if address.startswith("kafka://"):
        if token is not None:
            raise ValueError("a token is for a gateway; leave it out for Kafka")
        return KafkaTransport(address, project or "sbic", timeout)
    problem = "the address must begin with http://, https:// or kafka://"
    raise ValueError(f"{problem}, not {shown(address)}")


class AsyncClient:
    """Sends labels, requests tasks, and reads posteriors.

    `address` is that of a gateway (`http://127.0.0.1:8080`) or of Kafka (`kafka://one:9092,two`).
    `token` is a token of the gateway, `project` the prefix of a project other than the default one.
    While Kafka or the gateway do not answer, the client retries for `timeout` seconds. It connects
    on first use; use it as a context manager, or close it.

        async with AsyncClient("http://127.0.0.1:8080") as crowd:
            place = await crowd.send({"task": "t1", "worker": "ann", "label": 1})
            print(await crowd.posterior("t1", counting=place))
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        project: str | None = None,
        timeout: float = 30,
    ) -> None:
        self._transport = transport_of(address, token, project, timeout)
        self._timeout = timeout

    @overload
    async def send(self, labels: Label) -> Place: ...

    @overload
    async def send(self, labels: Iterable[Label]) -> list[Place]: ...

    async def send(self, labels: Label | Iterable[Label]) -> Place | list[Place]:
        """Send one label or several; returns the place of each once they are acknowledged.

        Raises `BadLabels` for invalid labels. Many labels are sent in portions: those sent before a
        bad portion, or before an error, stay. It is safe to send all of them again.
        """
        if isinstance(labels, Mapping):
            return (await self._transport.send([labels]))[0]
        return await self._transport.send(list(labels))

    async def next_task(self, worker: str) -> Assignment:
        """Request the task that this worker should answer next."""
        return await self._transport.next_task(worker)

    async def posterior(
        self, task: str, *, counting: Place | Iterable[Place] = ()
    ) -> Posterior | None:
        """The posterior of a task, or None if there is none.

        With `counting`, the places of labels on this task, wait until these are counted.
        """
        places = [counting] if isinstance(counting, Place) else list(counting)
        wait = FIRST_WAIT_SECONDS
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    found = await self._transport.posterior(task)
                    if all(found and place.is_counted(found) for place in places):
                        return found
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        except TimeoutError:
            raise TimedOut(
                f"the labels on {shown(task)} were not counted in {self._timeout:g} seconds: "
                "is an instance running? See: sbic status"
            ) from None

    async def watch(self) -> AsyncIterator[Posterior]:
        """Yield posteriors as they change, from the first iteration on.

        A gateway skips some if many change at once; Kafka skips none.
        """
        async with self.watching() as changes:
            async for posterior in changes:
                yield posterior

    def watching(self) -> AbstractAsyncContextManager[AsyncIterator[Posterior]]:
        """The same as a context manager: yields changes from when it is entered."""
        return self._transport.watching()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

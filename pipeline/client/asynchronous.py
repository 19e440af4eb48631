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

FIRST_WAIT_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 0.25


def transport_of(address: str, token: str | None, project: str | None, timeout: float) -> Transport:
    """The way to that address.

    >>> transport_of("127.0.0.1:8080", None, None, 30)
    Traceback (most recent call last):
    ValueError: the address must begin with http://, https:// or kafka://, not '127.0.0.1:8080'
    """
    if address.startswith(("http://", "https://")):
        return HttpTransport(address, token, project, timeout)
    if address.startswith("kafka://"):
        if token is not None:
            raise ValueError("a token is for a gateway; Kafka takes none")
        return KafkaTransport(address, project or "sbic", timeout)
    problem = "the address must begin with http://, https:// or kafka://"
    raise ValueError(f"{problem}, not {address!r:.60}")


class AsyncClient:
    """Sends labels, asks for tasks, and reads posteriors.

    `address` is that of a gateway (`http://127.0.0.1:8080`) or of Kafka (`kafka://one:9092,two`).
    `token` is the gateway's, `project` the prefix of another project than the default. What takes
    longer than `timeout` seconds is given up: while Kafka or the gateway are away, the client tries
    again until then. It connects when it is first used; use it as a context manager, or close it.

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
        """Send a label, or many; returns the place of each when Kafka has them.

        Raises `BadLabels` for labels that cannot be used. Many labels go in portions; what was
        sent before a bad portion, or before an error, stays, and to send all again is safe.
        """
        if isinstance(labels, Mapping):
            return (await self._transport.send([labels]))[0]
        return await self._transport.send(list(labels))

    async def next_task(self, worker: str) -> Assignment:
        """Ask for the task that this worker should answer next."""
        return await self._transport.next_task(worker)

    async def posterior(
        self, task: str, *, counting: Place | Iterable[Place] = ()
    ) -> Posterior | None:
        """What is known of a task; None if nothing is.

        With `counting`, the place of labels on this task, it waits until they are counted.
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
                f"the labels on {task!r:.60} were not counted in {self._timeout:g} seconds: "
                "is an instance running? See: sbic status"
            ) from None

    async def watch(self) -> AsyncIterator[Posterior]:
        """Posteriors as they change, from the first iteration on, until it is closed.

        A gateway leaves some out where more change than a person can look at; Kafka none.
        """
        async with self.watching() as changes:
            async for posterior in changes:
                yield posterior

    def watching(self) -> AbstractAsyncContextManager[AsyncIterator[Posterior]]:
        """The same as a context: from the moment on when it is entered."""
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

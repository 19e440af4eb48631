"""The client, for asyncio and without it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from sbic.client.http import HttpTransport
from sbic.client.kafka import KafkaTransport
from sbic.client.transport import Assignment, ClientTransport, Label, Place, Posterior, TimedOut
from sbic.foreign import shown

FIRST_WAIT_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 0.25


def transport_of(
    address: str, token: str | None, project: str | None, timeout: float
) -> ClientTransport:
    """Return the transport to an address.

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
        """Return the posterior of a task, or None if there is none.

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
        """Do the same as a context manager: it yields changes from when it is entered."""
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


# The client without asyncio: runs the asynchronous one on a loop in a separate thread.


T = TypeVar("T")
Watch = AbstractAsyncContextManager[AsyncIterator[Posterior]]


class Client:
    """Sends labels, requests tasks, and reads posteriors; `AsyncClient` describes the arguments.

    Any number of threads may use it. Use it as a context manager, or close it.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        project: str | None = None,
        timeout: float = 30,
    ) -> None:
        self._client = AsyncClient(address, token=token, project=project, timeout=timeout)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._watches: list[Watch] = []

    @overload
    def send(self, labels: Label) -> Place: ...

    @overload
    def send(self, labels: Iterable[Label]) -> list[Place]: ...

    def send(self, labels: Label | Iterable[Label]) -> Place | list[Place]:
        """Send one label or several; returns the place of each once they are acknowledged.

        Raises `BadLabels` for invalid labels. Many labels are sent in portions: those sent before a
        bad portion, or before an error, stay. It is safe to send all of them again.
        """
        if isinstance(labels, Mapping):
            return self._run(self._client.send(labels))
        return self._run(self._client.send(list(labels)))

    def next_task(self, worker: str) -> Assignment:
        """Request the task that this worker should answer next."""
        return self._run(self._client.next_task(worker))

    def posterior(self, task: str, *, counting: Place | Iterable[Place] = ()) -> Posterior | None:
        """Return the posterior of a task, or None if there is none.

        With `counting`, the places of labels on this task, wait until these are counted.
        """
        return self._run(self._client.posterior(task, counting=counting))

    def watch(self) -> Iterator[Posterior]:
        """Posteriors as they change, from this call on, without end.

        A gateway skips some if many change at once; Kafka skips none.
        """
        watch = self._client.watching()
        changes = self._run(_entered(watch))
        self._watches.append(watch)
        return self._iterate(watch, changes)

    def _iterate(self, watch: Watch, changes: AsyncIterator[Posterior]) -> Iterator[Posterior]:
        try:
            while True:
                yield self._run(_next(changes))
        finally:
            self._exit(watch)

    def _exit(self, watch: Watch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)
            self._run(_exited(watch))

    def close(self) -> None:
        """Close all connections, and end the thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        for watch in list(self._watches):
            self._exit(watch)
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Close the client, and cancel the running calls of other threads."""
        await self._client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop; cancel it if waiting is interrupted."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()


async def _entered(watch: Watch) -> AsyncIterator[Posterior]:
    return await watch.__aenter__()


async def _exited(watch: Watch) -> None:
    await watch.__aexit__(None, None, None)


async def _next(changes: AsyncIterator[T]) -> T:
    return await anext(changes)

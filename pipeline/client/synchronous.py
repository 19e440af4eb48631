"""The client for programs without asyncio: the same one, on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pipeline.client.asynchronous import AsyncClient
from pipeline.client.transport import Assignment, Label, Place, Posterior

T = TypeVar("T")
Watch = AbstractAsyncContextManager[AsyncIterator[Posterior]]


class Client:
    """Sends labels, asks for tasks, and reads posteriors; see `AsyncClient` for the arguments.

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
        """Send a label, or many; returns the place of each when Kafka has them.

        Raises `BadLabels` for labels that cannot be used. Many labels go in portions; what was
        sent before a bad portion, or before an error, stays, and to send all again is safe.
        """
        if isinstance(labels, Mapping):
            return self._run(self._client.send(labels))
        return self._run(self._client.send(list(labels)))

    def next_task(self, worker: str) -> Assignment:
        """Ask for the task that this worker should answer next."""
        return self._run(self._client.next_task(worker))

    def posterior(self, task: str, *, counting: Place | Iterable[Place] = ()) -> Posterior | None:
        """What is known of a task; None if nothing is.

        With `counting`, the place of labels on this task, it waits until they are counted.
        """
        return self._run(self._client.posterior(task, counting=counting))

    def watch(self) -> Iterator[Posterior]:
        """Posteriors as they change, from this call on, for ever.

        A gateway leaves some out where more change than a person can look at; Kafka none.
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
            self._leave(watch)

    def _leave(self, watch: Watch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)
            self._run(_left(watch))

    def close(self) -> None:
        """Close all connections, and end the thread; nothing happens if that is done."""
        if self._loop.is_closed():
            return
        for watch in list(self._watches):
            self._leave(watch)
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Close the client; calls of other threads that are under way are cancelled."""
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
        """The result of the work, which is cancelled where waiting for it is interrupted."""
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


async def _left(watch: Watch) -> None:
    await watch.__aexit__(None, None, None)


async def _next(changes: AsyncIterator[T]) -> T:
    return await anext(changes)

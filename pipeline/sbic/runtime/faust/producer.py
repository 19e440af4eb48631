"""Publishes whole batches, waits for all acknowledgements, and stops when the group moved on."""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.producer.transaction_manager import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PidAndEpoch
from mode import Service

from sbic.instance.publication import Outbox
from sbic.kafka.connect import new_producer
from sbic.kafka.writer import Delivery, Writer
from sbic.project.settings import Settings

# Stops a producer once this instance may no longer be a member of the group.
#
# Kafka assigns a member's partitions to others when it has received no heartbeat for a session. A
# member that was stalled does not know that yet when it continues: without a fence, the records in
# its producer would be published beside those of its successor. So the producer checks the fence at
# the last moment, before it writes a request to the socket.
#
# The clock also counts the time in which the process is stopped or the machine sleeps. What remains
# are the microseconds between the check and the system call.


MARGIN_SECONDS = 1.0  # for a request to reach its broker
PRODUCE = b"\x00\x00"  # the API key of a produce request
API_KEY = slice(4, 6)  # of a request, after its size


class Overdue(KafkaError):  # type: ignore[misc]
    """The session may be over: aiokafka retries until that is certain."""

    retriable = True


class RemovedFromGroup(KafkaError):  # type: ignore[misc]
    """This instance is no longer a member: the next owners publish the results."""

    retriable = False


def now() -> float:
    """Read a clock that continues while the machine sleeps, if the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Fence:
    """Knows until when the membership in the group is certain.

    >>> fence = Fence(session_seconds=10)
    >>> fence.heartbeat_taken(now())
    >>> fence.begin()
    >>> fence.check(fence.term)
    >>> fence.heartbeat_taken(now() - 12)
    >>> fence.is_overdue
    True
    >>> fence.lose()
    >>> fence.check(term=1)
    Traceback (most recent call last):
    sbic.runtime.faust.producer.RemovedFromGroup: ...
    """

    def __init__(self, session_seconds: float) -> None:
        self.session_seconds = session_seconds
        self.heartbeat_sent = (
            now()
        )  # when the last heartbeat, or SyncGroup, that Kafka took was sent
        self.term = 0  # of membership: changes when it begins and ends, not with a rebalance
        self.is_lost = False

    def heartbeat_taken(self, sent: float) -> None:
        """Note that Kafka took a heartbeat that was sent then; its response may have come late."""
        self.heartbeat_sent = sent

    def begin(self) -> None:
        """Note that this instance is a member, newly or after a rebalance."""
        if self.is_lost or not self.term:
            self.term += 1
        self.is_lost = False

    def lose(self) -> None:
        """Note that this instance is no longer a member."""
        self.term += 1
        self.is_lost = True

    @property
    def silent_seconds(self) -> float:
        """The longest time for which Kafka may have received no heartbeat."""
        return now() - self.heartbeat_sent

    @property
    def is_overdue(self) -> bool:
        """Whether another instance may own the partitions."""
        if self.term == 0:
            return False  # it has never been a member
        return self.is_lost or self.silent_seconds > self.session_seconds - MARGIN_SECONDS

    def check(self, term: int) -> None:
        """Raise unless the membership of that term is still certain."""
        if self.is_lost or term != self.term:
            raise RemovedFromGroup("removed from the group")
        if self.is_overdue:
            raise Overdue(f"Kafka has received no heartbeat for {self.silent_seconds:.1f} s")


class FencedProducer:
    """Makes an aiokafka producer check a fence before each produce request and each retry."""

    def __init__(self, kafka: AIOKafkaProducer, fence: Fence) -> None:
        self.kafka = kafka
        self.fence = fence
        self.term = fence.term
        self._get_conn = kafka.client._get_conn
        kafka.client._get_conn = self._fenced_conn

    def begin(self) -> None:
        """Publish in the current term of membership from now on; raise if there is none.

        Also raises if there is nothing to publish: after a batch that was dropped, no later one may
        be finished.
        """
        self.term = self.fence.term
        if self.fence.is_lost:
            raise RemovedFromGroup("removed from the group")

    def forget(self) -> None:
        """Get a new producer id, once nothing is in flight.

        With the old one, Kafka would expect the sequence numbers that were not sent.
        """
        manager = self.kafka._txn_manager
        manager._pid_and_epoch = PidAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        manager._pid_waiter = self.kafka._loop.create_future()
        manager._sequence_numbers.clear()

    async def _fenced_conn(self, *args: Any, **kwargs: Any) -> Any:
        conn = await self._get_conn(*args, **kwargs)
        writer = conn._writer if conn is not None else None
        if writer is not None and "write" not in vars(writer):
            write = writer.write

            def check_and_write(data: bytes) -> None:
                if data[API_KEY] == PRODUCE:
                    self.fence.check(self.term)
                write(data)

            writer.write = check_and_write
        return conn


# Publishes whole batches and waits until Kafka has acknowledged all of them.
#
# Faust 0.15.3's producer gives up flushing after 100 ms without progress and only logs a failed
# send, so the commit that follows can lose data; and it sends records one by one. An aiokafka
# producer has one request in flight per broker, so agents that share one wait for each other.


REQUEST_TIMEOUT_MS = 120_000  # how long a broker may be unavailable

Offsets = dict[tuple[str, int], int]
"""The offset of the last record published, by topic and partition."""


class BatchProducer(Service):
    """A `Writer` of one agent; a fence stops it once the instance may be replaced."""

    def __init__(
        self, settings: Settings, client_id: str, fence: Fence | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings
        self.client_id = client_id
        self.fence = fence
        self.fenced: FencedProducer | None = None
        self.in_flight = 0  # outboxes that are not yet fully acknowledged
        self.retries = 0  # batches that were sent again

    async def on_start(self) -> None:
        kafka = new_producer(
            self.settings, client_id=self.client_id, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        if self.fence is not None:
            self.fenced = FencedProducer(kafka, self.fence)
        self._count_retries(kafka._message_accumulator)
        self.writer = Writer(kafka, self.settings.partitions)
        await kafka.start()

    def _count_retries(self, accumulator: Any) -> None:
        """Count the batches that aiokafka 0.14 sends again; it only logs them."""
        reenqueue = accumulator.reenqueue

        def count(batch: Any) -> None:
            self.retries += 1
            reenqueue(batch)

        accumulator.reenqueue = count

    async def on_stop(self) -> None:
        """Stop the client; what is in flight is acknowledged first."""
        await self.writer.kafka.stop()
        await self.writer.close()

    async def publish(self, outbox: Outbox) -> Offsets:
        """Publish all records and wait for all acknowledgements.

        Raises Kafka's errors: then the batch must not be committed. `RemovedFromGroup` is raised
        once nothing is in flight, so that the next batch can be published.
        """
        sent: dict[tuple[str, int], Delivery] = {}
        self.in_flight += 1
        try:
            if self.fenced is not None:
                self.fenced.begin()
            for (topic, partition), rows in outbox.items():
                if rows:
                    sent[topic, partition] = self.writer.put(topic, rows, partition)
            return {place: await _last_offset(delivery) for place, delivery in sent.items()}
        except RemovedFromGroup:
            await asyncio.gather(*(each.done for each in sent.values()), return_exceptions=True)
            if self.fenced is not None:
                self.fenced.forget()
            raise
        finally:
            for delivery in sent.values():
                delivery.give_up()
            self.in_flight -= 1


async def _last_offset(delivery: Delivery) -> int:
    await delivery.done
    _, first, numbers = delivery.acknowledged[-1]
    return (-1 if first is None else first) + len(numbers) - 1

"""Whether this instance still has its place in the group: else it may publish nothing in its name.

Kafka gives a member's partitions to others when it has heard nothing of it for a session. A member
that was stalled does not know that yet when it goes on, and what it had handed to its producer
before would go out beside what its successor has published meanwhile. So a producer asks here at
the last moment, before a request is written to the socket.

The clock also counts the time in which the process is stopped or the machine sleeps. What is left
is the moment between the question and the system call: some microseconds.
"""

import time
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.producer.transaction_manager import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PidAndEpoch

MARGIN_SECONDS = 1.0  # for a request to reach its broker
PRODUCE = b"\x00\x00"  # the API key of a produce request
API_KEY = slice(4, 6)  # where it is, after the size


class Overdue(KafkaError):  # type: ignore[misc]
    """Kafka may have given the place to another: aiokafka tries again until that is known."""

    retriable = True


class PutOut(KafkaError):  # type: ignore[misc]
    """The place was lost since: what was to be published is for the next owner to do."""

    retriable = False


def now() -> float:
    """A clock that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Fence:
    """For how long the place in the group is certain.

    >>> fence = Fence(session_seconds=10)
    >>> fence.heard(now())
    >>> fence.begin()
    >>> fence.check(fence.term)
    >>> fence.heard(now() - 12)
    >>> fence.is_overdue
    True
    >>> fence.lose()
    >>> fence.check(term=1)
    Traceback (most recent call last):
    pipeline.batched.fence.PutOut: ...
    """

    def __init__(self, session_seconds: float) -> None:
        self.session_seconds = session_seconds
        self.heard_of = now()  # when the last request that Kafka took for a sign of life was sent
        self.term = 0  # changes with every place that is gained or lost, not with a rebalance
        self.is_lost = False

    def heard(self, sent: float) -> None:
        """Kafka took a sign of life that was sent then; its answer may have come late."""
        self.heard_of = sent

    def begin(self) -> None:
        """A place was gained, or kept in a rebalance."""
        if self.is_lost or not self.term:
            self.term += 1
        self.is_lost = False

    def lose(self) -> None:
        """The place was lost."""
        self.term += 1
        self.is_lost = True

    @property
    def silent_seconds(self) -> float:
        """For how long Kafka has certainly heard nothing."""
        return now() - self.heard_of

    @property
    def is_overdue(self) -> bool:
        """Whether another may have taken the place."""
        if self.term == 0:
            return False  # it has never had one
        return self.is_lost or self.silent_seconds > self.session_seconds - MARGIN_SECONDS

    def check(self, term: int) -> None:
        """Raise unless the place of that term is still held, for certain."""
        if self.is_lost or term != self.term:
            raise PutOut("put out of the group")
        if self.is_overdue:
            raise Overdue(
                f"Kafka has heard nothing of this instance for {self.silent_seconds:.1f} s"
            )


class FencedProducer:
    """Makes an aiokafka producer ask before each produce request, also one that is sent again."""

    def __init__(self, kafka: AIOKafkaProducer, fence: Fence) -> None:
        self.kafka = kafka
        self.fence = fence
        self.term = fence.term
        self._get_conn = kafka.client._get_conn
        kafka.client._get_conn = self._fenced_conn

    def begin(self) -> None:
        """What is published from now on belongs to the place of now; raises if there is none.

        Also where nothing is to be published: no batch may be finished after one that was dropped.
        """
        self.term = self.fence.term
        if self.fence.is_lost:
            raise PutOut("put out of the group")

    def forget(self) -> None:
        """Begin anew with Kafka, once nothing is under way: it waits for what was not sent."""
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

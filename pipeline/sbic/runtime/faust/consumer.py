"""One event per fetch for an agent, each record once and in order; commits finished batches."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from faust import Topic
from faust.auth import Credentials, OAuthCredentials, SASLCredentials, SSLCredentials
from faust.transport.consumer import ensure_TP
from faust.transport.drivers import aiokafka
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.types import TP, ConsumerMessage, EventT, Message

from sbic.runtime.faust.membership import InLoopConsumer

if TYPE_CHECKING:
    from sbic.runtime.faust.app import BatchedApp


class Finisher(Protocol):
    """The consumer that fetched a batch."""

    def finish(self, batch: "Batch") -> None:
        """Let the end of the batch be committed: all its results are published."""


class Batch:
    """Records of one topic by partition, each partition's in order.

    Its offsets are committed only after `finish`.
    """

    __slots__ = ("consumer", "parts")

    def __init__(self, parts: dict[TP, list[ConsumerRecord]], consumer: Finisher) -> None:
        self.parts = parts
        self.consumer = consumer

    def finish(self) -> None:
        """Let the batch be committed: all its results are published and acknowledged."""
        self.consumer.finish(self)


def batch_of(message: Message) -> Batch:
    """Return the batch that a message of Faust carries."""
    return cast(Batch, message.value)


def message_of(batch: Batch, generation_id: int) -> ConsumerMessage:
    """Wrap the batch in one message of Faust, with the topic and partition of its first records."""
    tp, records = next(iter(batch.parts.items()))
    last = records[-1]
    return ConsumerMessage(
        tp.topic,
        tp.partition,
        last.offset,
        last.timestamp / 1000,
        last.timestamp_type,
        None,
        None,
        cast(bytes, batch),  # Faust only passes it on
        None,
        serialized_key_size=0,
        serialized_value_size=0,
        tp=tp,
        generation_id=generation_id,
    )


# Whether a consumer is connected to any broker.
#
# aiokafka 0.14 reconnects by itself and offers no way to ask for the state of its connections.


class Connections(NamedTuple):
    """What a consumer's connections look like now."""

    is_connected: bool  # to at least one broker
    has_partitions: bool


def connections_of(kafka: AIOKafkaConsumer) -> Connections | None:
    """Return the state of a consumer's connections, or None once it is closed."""
    if kafka._closed:
        return None
    connections = kafka._client._conns.values()
    is_connected = any(connection.connected() for connection in connections)
    return Connections(is_connected, bool(kafka.assignment()))


# Turns the options of aiokafka's clients into the credentials that Faust expects.


def credentials_of(options: Mapping[str, Any]) -> Credentials | None:
    """Return the credentials of Faust's consumer; None for a connection in plain text.

    >>> credentials_of({"security_protocol": "PLAINTEXT"}) is None
    True
    """
    context = options.get("ssl_context")  # Faust 0.15.3 cannot create one
    if "sasl_oauth_token_provider" in options:
        provider = options["sasl_oauth_token_provider"]
        return OAuthCredentials(oauth_cb=provider, ssl_context=context)
    if "sasl_mechanism" in options:
        return SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=options["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else SSLCredentials(context)


# All partitions of a topic in a fetch are one event: with an event for each, at a low rate most of
# the time would be spent on events, and groups to publish would be smaller.
#
# Faust 0.15.3 creates two asyncio tasks per event and finds the offset to commit in a list of all
# acked offsets, in which a gap can mark a record as acked too early. It acks an event when the
# agent drops it, even by an exception or a cancellation: records whose results are not published
# would be committed, and lost. Here an agent finishes a batch explicitly. The batches of a
# partition come in order, so the offset to commit is the end of the last finished one.
#
# Around a rebalance, Faust fetches before and while it seeks the committed offsets; it drops
# records that were fetched at the wrong moment, although the position has moved on; and it empties
# the agents' queues once more after the seek. Here, a partition's records are handed out only from
# `next_offset` on, which is set once agents can take them. `left_out` has the partitions whose
# position has moved past records that were not handed out; the next fetch seeks back.


WHILE_LAGGING_SECONDS = 0.01


class PartitionLag(NamedTuple):
    """How many records of a partition are not finished, and since when.

    `since` is the timestamp of the first of them if it is handed out, else that of the last record
    finished before it; None if neither is known.
    """

    topic: str
    partition: int
    records: int
    since: int | None


class PartitionProgress(NamedTuple):
    """The offset up to which a partition is finished, and whether records after it are in hand."""

    place: TopicPartition
    done: int
    is_in_hand: bool


class Gap(NamedTuple):
    """Offsets that are missing between two batches of a partition."""

    expected: int
    found: int


class BatchConsumer(Consumer):
    """Faust's consumer on aiokafka, which hands out batches."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.finished: dict[TP, int] = {}  # the offset after the last finished batch
        # the timestamp of the first unfinished record, or of the last finished one before it
        self.waiting: dict[TP, int] = {}
        self.next_offset: dict[TP, int] = {}  # after the last batch handed out
        self.sought: dict[TP, int] = {}  # the committed offsets, until the flow is resumed
        self.left_out: set[TP] = set()  # with records that were fetched and not handed out
        self.gaps: dict[TP, Gap] = {}
        self.read_to: dict[TP, int] = {}  # in recovery: changelog records below it are handed out
        self.rebalances = 0
        self.joined = False
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return InLoopConsumer(self, loop=self.loop, beacon=self.beacon)

    @property
    def expulsions(self) -> int:
        """How often Kafka has removed this instance from the group."""
        membership = cast(InLoopConsumer, self._thread).membership
        return 0 if membership is None else membership.expulsions

    async def getmany(
        self,
        timeout: float,  # noqa: ASYNC109  # Faust's name
    ) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Fetch, and yield one message for each topic with records.

        While an agent lags, Faust fetches without its partitions. If there is nothing else, it
        waits for the whole timeout, although the agent may have caught up.
        """
        if self._buffered_partitions:
            timeout = min(timeout, WHILE_LAGGING_SECONDS)
        self._go_back()
        if self.app.in_recovery:
            self._note_positions()
        records, active = await self._wait_next_records(timeout)
        if not records or self.should_stop:
            return
        self.left_out.update(map(ensure_TP, records))
        fetched_in = self.rebalances
        for batch in self._batches(records, active):
            if not self.flow_active or self.rebalances != fetched_in:
                return
            for tp, fetched in batch.parts.items():
                self.next_offset[tp] = fetched[-1].offset + 1
                self.waiting.setdefault(tp, fetched[0].timestamp)
            self.left_out.difference_update(batch.parts)
            message = message_of(batch, self.app.consumer_generation_id)
            self._read_offset[message.tp] = None  # otherwise Faust drops records fetched again
            yield message.tp, message

    def _go_back(self) -> None:
        """Seek back to records that were not handed out, where they may be handed out now."""
        if self.left_out:
            for tp in self.left_out & self.next_offset.keys() & self.assignment():
                self._thread.seek(tp, self.next_offset[tp])
                self.left_out.discard(tp)

    def _note_positions(self) -> None:
        """Note the positions in the changelogs: all records below them are handed out.

        A position also passes offsets without a record, such as a transaction's marker.
        """
        kafka = self._thread._ensure_consumer()
        for tp in self.assignment() - self.left_out:
            if tp in self.next_offset and self._is_changelog_tp(tp):
                state = kafka._subscription.subscription.assignment.state_value(tp)
                if state.has_valid_position:
                    self.read_to[tp] = state.position

    def _batches(
        self, records: Mapping[Any, list[ConsumerRecord]], active: set[TP] | None
    ) -> Iterable[Batch]:
        """Return a batch for each topic, and for each partition of a changelog, as Faust needs."""
        batches: dict[str | TP, Batch] = {}
        for partition, fetched in records.items():
            tp = ensure_TP(partition)
            if active is None or tp in active or tp in self._buffered_partitions:
                in_order = self._in_order(tp, fetched)
                if in_order:
                    key = tp if self._is_changelog_tp(tp) else tp.topic
                    batches.setdefault(key, Batch({}, self)).parts[tp] = in_order
        return batches.values()

    def _in_order(self, tp: TP, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records that follow those handed out; none if there is a gap before them.

        A gap that is still there when the records are fetched again is Kafka's own: a transaction's
        marker, or expired records.
        """
        expected = self.next_offset.get(tp)
        if expected is None:
            return []
        first = records[0].offset
        if first <= expected:
            self.gaps.pop(tp, None)
            return records if first == expected else [r for r in records if r.offset >= expected]
        gap = Gap(expected, first)
        if self.gaps.pop(tp, None) == gap:
            return records
        self.gaps[tp] = gap
        return []

    async def perform_seek(self) -> None:
        """Seek to the committed offsets, and begin there once Faust resumes the flow."""
        begun = self.rebalances
        await super().perform_seek()
        if self.joined and self.rebalances == begun:
            self.sought = {
                tp: self._read_offset[tp] or 0
                for tp in self.assignment()
                if not self._is_changelog_tp(tp)
            }

    def resume_flow(self) -> None:
        """Hand out records from now on: they stay in the agents' queues."""
        super().resume_flow()
        self.next_offset.update(self.sought)
        self.sought.clear()

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seek to where a table's recovery begins, and hand out the records from there on."""
        self.next_offset.update(partitions)
        self.read_to.clear()
        await super().seek_wait(partitions)

    def finish(self, batch: Batch) -> None:
        """Let the end of the batch be committed: all its results are published."""
        for tp, records in batch.parts.items():
            end = self.finished[tp] = records[-1].offset + 1
            if self.next_offset.get(tp) == end:
                self.waiting.pop(tp, None)
            else:
                self.waiting[tp] = records[-1].timestamp

    def _filter_tps_with_pending_acks(self, topics: Iterable[Any] | None = None) -> Iterator[TP]:
        return (tp for tp in self.finished if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self.finished.get(tp)

    def on_buffer_full(self, tp: TP) -> None:
        """Fetch no more of a topic whose agent lags."""
        for partition in self._partitions_of(tp.topic):
            super().on_buffer_full(partition)

    def on_buffer_drop(self, tp: TP) -> None:
        """Fetch a topic again whose agent has caught up."""
        for partition in self._partitions_of(tp.topic):
            super().on_buffer_drop(partition)

    def _partitions_of(self, topic: str) -> list[TP]:
        return [tp for tp in self.assignment() if tp.topic == topic]

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust would complain of partitions that are never first in a batch."""

    async def wait_empty(self) -> None:
        """Publish the results of all batches, then commit, before a rebalance or a stop."""
        await super().wait_empty()
        await cast("BatchedApp", self.app).wait_idle()
        await self.maybe_wait_for_commit_to_finish()  # otherwise Faust skips this one
        await self.commit()

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: there is no list of acked offsets that could have gaps."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Let Faust finish and commit the batches in flight, then forget the partitions.

        Before it commits, Faust 0.15.3 drops its acked offsets; `finished` is kept.
        """
        self._forget(joined=False)
        await super().on_partitions_revoked(revoked)
        for tp in revoked:
            self.finished.pop(tp, None)
            self.waiting.pop(tp, None)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Let Faust recover; ignore the offsets of an earlier recovery that is still running."""
        self._forget(joined=True)
        await super().on_partitions_assigned(assigned, generation_id)

    def _forget(self, *, joined: bool) -> None:
        """Hand out nothing until the tables of the new assignment are recovered."""
        self.joined = joined
        self.rebalances += 1
        self.next_offset.clear()
        self.sought.clear()
        self.gaps.clear()
        self.read_to.clear()

    def connections(self) -> Connections | None:
        """Return the state of the connections; None before start and after stop."""
        kafka = self._thread._consumer
        return None if kafka is None else connections_of(kafka)

    def lags(self) -> Iterator[PartitionLag]:
        """Return the lag of each partition that agents read.

        A partition's lag is unknown before its first fetch. Offsets without a record, such as a
        transaction's marker, do not count: once all that was handed out is finished, everything
        below the position is finished too.
        """
        kafka = self._thread._consumer
        if kafka is None:
            return  # not started yet
        for tp in self.assignment():
            fetched = kafka._subscription.subscription.assignment.state_value(tp)
            end = fetched.lso  # records of open transactions, which follow it, cannot be read yet
            if end is None or self._is_changelog_tp(tp):
                continue
            records = max(0, end - self._done(tp))
            yield PartitionLag(tp.topic, tp.partition, records, self.waiting.get(tp))

    def _done(self, tp: TP) -> int:
        """Return the offset up to which all of a partition is finished."""
        kafka = self._thread._ensure_consumer()
        fetched = kafka._subscription.subscription.assignment.state_value(tp)
        if tp in self.waiting or tp in self.left_out or not fetched.has_valid_position:
            return self.finished.get(tp) or self._committed_offset[tp] or 0
        return int(fetched.position)

    def standing(self) -> Iterator[PartitionProgress]:
        """Return how far each partition is that agents read."""
        if self._thread._consumer is not None:
            for tp in self.assignment():
                if not self._is_changelog_tp(tp):
                    is_in_hand = tp in self.waiting
                    yield PartitionProgress(TopicPartition(*tp), self._done(tp), is_in_hand)


# The transport behind the URL scheme `batched://`, which Faust finds by its entry point.


class Transport(aiokafka.Transport):
    """Faust's transport on aiokafka, with a consumer of batches."""

    Consumer = BatchConsumer


class BatchTopic(Topic):
    """A topic whose events carry batches, which need no decoding."""

    def _compile_decode(self) -> None:
        """Keep `decode`: Faust would replace it by a function that calls codecs."""

    async def decode(self, message: Message, *, propagate: bool = False) -> EventT[Any]:
        """Return the event of a batch."""
        return self._create_event(None, message.value, None, message=message)

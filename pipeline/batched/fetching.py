"""How soon aiokafka fetches again, so that partitions that wait do not hold up the others.

aiokafka 0.14 has one fetch under way for each broker, and sends no other for 0.1 s while records
that came with the last are not taken. Faust 0.15.3 takes none as long as their agent is behind, and
none of a changelog: it pauses partitions in its own books alone. So an instance fetches the first
records of its own changelogs, and what comes to the agents waits 0.1 s for each of these.

And Faust lets Kafka hold a fetch for 1.5 s if it has nothing. If all that are busy have records to
be taken, the next fetch is of the quiet ones alone, and what comes to the busy ones waits for its
end.
"""

from copy import copy

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import READ_UNCOMMITTED
from faust.types import TP

WAIT_UNTIL_TAKEN = 0.005  # seconds; at a low rate records are taken within one
MAX_WAIT_MS = 50  # an idle instance fetches that often: this takes 0.03 of a core, 20 ms twice that


def fetch_soon(kafka: AIOKafkaConsumer) -> None:
    """Let a consumer that has been started fetch again soon."""
    kafka._fetcher._prefetch_backoff = WAIT_UNTIL_TAKEN
    kafka._fetcher._fetch_max_wait_ms = MAX_WAIT_MS


async def ends_of_all(kafka: AIOKafkaConsumer, partitions: list[TP]) -> dict[TP, int]:
    """Where partitions end, records of open transactions included.

    aiokafka 0.14 tells a consumer that reads only what is committed where the first open
    transaction begins.
    """
    fetcher = copy(kafka._fetcher)
    fetcher._isolation_level = READ_UNCOMMITTED
    ends: dict[TP, int] = await fetcher.end_offsets(partitions, kafka._request_timeout_ms)
    return ends

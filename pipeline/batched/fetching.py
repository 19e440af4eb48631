"""Makes aiokafka fetch again soon, so that idle partitions do not delay the others.

aiokafka 0.14 has one fetch in flight per broker, and sends no other for 0.1 s while records of the
last one are not taken. Faust 0.15.3 takes none while their agent lags, and none of a changelog,
because it pauses partitions only in its own bookkeeping. So an instance fetches the first records
of its own changelogs, and records for the agents wait 0.1 s for each of these fetches.

And Faust lets Kafka hold an empty fetch for 1.5 s. If all busy partitions have records to be taken,
the next fetch asks for the idle ones only, and new records for the busy ones wait until it ends.
"""

from copy import copy

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import READ_UNCOMMITTED
from faust.types import TP

WAIT_UNTIL_TAKEN = 0.005  # seconds; at a low rate records are taken within one
MAX_WAIT_MS = 50  # between fetches of an idle instance: takes 0.03 of a core, 20 ms twice that


def fetch_soon(kafka: AIOKafkaConsumer) -> None:
    """Let a started consumer fetch again soon."""
    kafka._fetcher._prefetch_backoff = WAIT_UNTIL_TAKEN
    kafka._fetcher._fetch_max_wait_ms = MAX_WAIT_MS


async def ends_of_all(kafka: AIOKafkaConsumer, partitions: list[TP]) -> dict[TP, int]:
    """Return the end offsets of partitions, records of open transactions included.

    aiokafka 0.14 gives a consumer with `read_committed` the start of the first open transaction.
    """
    fetcher = copy(kafka._fetcher)
    fetcher._isolation_level = READ_UNCOMMITTED
    ends: dict[TP, int] = await fetcher.end_offsets(partitions, kafka._request_timeout_ms)
    return ends

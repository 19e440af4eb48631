"""Logs dead letters: the first of each reason at once, the others as a count once a minute."""

import logging
from collections import Counter
from typing import Any

from mode import Service

from pipeline.records.bad import BadRecord, Reason
from pipeline.records.origin import Origin

log = logging.getLogger("sbic")

SECONDS = 60.0


class DeadLetterLog(Service):
    """Logs a few lines a minute, however many dead letters there are."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen: set[Reason] = set()
        self.more: Counter[Reason] = Counter()

    def add(self, origin: Origin, why: BadRecord) -> None:
        """Log or count a dead letter."""
        if why.reason in self.seen:
            self.more[why.reason] += 1
            return
        self.seen.add(why.reason)
        log.warning(
            "dead letter (%s): offset %d of %s, partition %d: %s; more of this kind are counted",
            why.reason,
            origin.offset,
            origin.topic,
            origin.partition,
            why.message.encode("unicode_escape").decode(),  # may quote the record
        )

    def log_counts(self) -> None:
        """Log how many there were of each reason since the last call, if any."""
        if self.more:
            counts = ", ".join(f"{count:,} {reason}" for reason, count in self.more.most_common())
            log.warning("dead letters in the last minute: %s", counts)
            self.more.clear()

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            await self.sleep(SECONDS)
            self.log_counts()

"""Replays labels onto their topic, and waits until every one of them is counted."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import monotonic

from pipeline.progress import Advance, progress
from pipeline.records.bad import BadRecord
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.settings import Settings
from pipeline.tools.reading import Reader, reading
from pipeline.tools.sending import Label, sending
from pipeline.tools.uncounted import Uncounted
from pipeline.topics import Topics

QUIET_SECONDS = 10  # without any label counted, before a person is told


class GaveUp(Exception):
    """Nothing was counted for so long that waiting has no more sense."""


@dataclass(frozen=True)
class Replayed:
    """How many labels, how long it took to send them, and how long until all were counted."""

    labels: int
    sending_seconds: float
    counting_seconds: float | None = None


async def replay(
    settings: Settings,
    labels: Sequence[Label],
    *,
    rate: float | None,
    wait: bool,
    patience: float | None,
    note: Callable[[str], None],
) -> Replayed:
    """Send all labels in order; with `wait`, return when posteriors have all but the skips.

    `note` is told when nothing moves; after `patience` seconds in which no label was counted,
    `GaveUp`.
    """
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(sending(settings))
        posteriors = None
        if wait:  # from here on, since whatever counts these labels is still to come
            topic = Topics(settings).posteriors.name
            reader = reading(settings, topic, from_start=False)
            posteriors = await stack.enter_async_context(reader)
        start = monotonic()
        uncounted = Uncounted()
        with progress("Sending", total=len(labels)) as advance:
            async for sent in sender.send_all(labels, rate):
                advance(len(sent.labels))
                if wait:
                    uncounted.add(sent)
        sending_seconds = monotonic() - start
        if posteriors is None:
            return Replayed(len(labels), sending_seconds)
        with progress("Counting", total=len(uncounted)) as advance:
            unusable = Topics(settings).dead_letters.name
            await _wait(posteriors, uncounted, patience, advance, note, unusable)
        return Replayed(len(labels), sending_seconds, monotonic() - start)


async def _wait(
    posteriors: Reader,
    uncounted: Uncounted,
    patience: float | None,
    advance: Advance,
    note: Callable[[str], None],
    unusable: str,
) -> None:
    last = noted = monotonic()
    while uncounted:
        counted = 0
        for record in await posteriors.next(seconds=0.2):
            try:
                counted += len(uncounted.learn(parse_any_posterior(record.value)))
            except BadRecord:
                continue  # not an sbic record: ignore
        advance(counted)
        now = monotonic()
        if counted:
            last = noted = now
        elif patience is not None and now - last > patience:
            raise GaveUp(
                f"{len(uncounted):,} labels are not counted, and none was in the last "
                f"{patience:g} seconds"
            )
        elif now - noted > QUIET_SECONDS:
            noted = now
            note(
                f"no label counted in the last {now - last:.0f} seconds, {len(uncounted):,} to go: "
                "is an instance running? Start one with: sbic worker "
                f"(labels that it cannot use, say of other classes, are in {unusable})"
            )

"""Replays labels to their topic, and waits until all of them are counted."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import monotonic

from pipeline.hints import command
from pipeline.kafka.reading import Reader, reading
from pipeline.kafka.sending import Label, sending
from pipeline.progress import Advance, progress
from pipeline.records.bad import BadRecord
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.settings import Settings
from pipeline.topics import Topics
from pipeline.transfer.repeats import Repeats
from pipeline.transfer.uncounted import Uncounted

QUIET_SECONDS = 10  # without any label counted, before the user gets a note


class GaveUp(Exception):
    """No label was counted for longer than the timeout."""


@dataclass
class Replayed:
    """The progress of a replay: labels acknowledged, and how many of them are counted.

    `repeats` are labels of workers who had answered the task before; known when all are counted.
    """

    labels: int = 0
    uncounted: int = 0
    sending_seconds: float | None = None
    counting_seconds: float | None = None
    repeats: int | None = None


async def replay(
    settings: Settings,
    labels: Sequence[Label],
    done: Replayed,
    *,
    rate: float | None,
    wait: bool,
    patience: float | None,
    note: Callable[[str], None],
) -> None:
    """Send all labels in order; with `wait`, return when posteriors count all but the skips.

    `done` has the progress, even after an interruption. `note` gets a message when no labels are
    counted; after `patience` seconds without one, raises `GaveUp`.
    """
    topics = Topics(settings)
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(sending(settings))
        posteriors = answers = None
        if wait:  # from the end: the posteriors that count these labels are yet to be published
            reader = reading(settings, topics.posteriors.name, from_start=False)
            posteriors = await stack.enter_async_context(reader)
            reader = reading(settings, topics.answers.name, from_start=False)
            answers = await stack.enter_async_context(reader)
        start = monotonic()
        uncounted, repeats = Uncounted(), Repeats(len(settings.crowd_classes))
        with progress("Sending", total=len(labels)) as advance:
            async for sent in sender.send_all(labels, rate):
                advance(len(sent.labels))
                done.labels += len(sent.labels)
                if wait:
                    uncounted.add(sent)
                    repeats.add(sent)
        done.sending_seconds = monotonic() - start
        if posteriors is None or answers is None:
            return
        done.uncounted = len(uncounted)
        with progress("Counting", total=len(uncounted)) as advance:
            await _wait(settings, posteriors, uncounted, done, patience, advance, note)
        done.counting_seconds = monotonic() - start
        await answers.move_end()  # answers are published before the posteriors that count them
        async for records in answers.to_the_end():
            repeats.learn(records)
        done.repeats = repeats.found


async def _wait(
    settings: Settings,
    posteriors: Reader,
    uncounted: Uncounted,
    done: Replayed,
    patience: float | None,
    advance: Advance,
    note: Callable[[str], None],
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
        done.uncounted = len(uncounted)
        now = monotonic()
        if counted:
            last = noted = now
        elif patience is not None and now - last > patience:
            raise GaveUp(
                f"{len(uncounted):,} labels are not counted, and none was counted in the last "
                f"{patience:g} seconds; see: {command(settings, 'status')}"
            )
        elif now - noted > QUIET_SECONDS:
            noted = now
            note(
                f"no label counted in the last {now - last:.0f} seconds, {len(uncounted):,} to go: "
                f"is an instance running? Start one with: {command(settings, 'run')} "
                "(invalid labels, such as those of other classes, are shown by: "
                f"{command(settings, 'dead-letters show')})"
            )

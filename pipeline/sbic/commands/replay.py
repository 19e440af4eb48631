"""`sbic replay`: sends the labels of a file to the pipeline, and waits until all are counted."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from random import Random
from time import monotonic
from typing import NamedTuple

import click
import numpy as np
from aiokafka import ConsumerRecord

from sbic.classes import SKIP
from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    given_options,
    in_project,
    label_map_option,
    mapped_in_file,
    of_project,
    reading_options,
    run_connected,
)
from sbic.files.labels import Reading, label_rows
from sbic.files.tables import BadFile, listed, shortened
from sbic.kafka.reader import Reader, parsed, reading
from sbic.kafka.writer import NumberedLabel, Sent, sending
from sbic.progress import Advance, progress
from sbic.project.revision import Given
from sbic.project.settings import Settings, command_line
from sbic.project.topics import Topics
from sbic.wire.bad import ID_MAX_BYTES, BadRecord
from sbic.wire.changelogs import parse_answers
from sbic.wire.posteriors import Posterior, posterior_parser
from sbic.wire.votes import REPEAT, parse_votes


class CountedLabel(NamedTuple):
    """A label that is counted in a posterior, and when it was sent."""

    label: NumberedLabel
    at: float


class Uncounted:
    """Labels that were sent and are not counted in any posterior read so far.

    A label at offset o of partition p is counted once `sources` of its task's posterior has o or
    more for p. This holds for a repeated answer too, though it changes nothing else. A skip reaches
    no posterior, and is left out.

    >>> labels = Uncounted()
    >>> two = [NumberedLabel("t1", "ann", 1), NumberedLabel("t1", "bob", 0)]
    >>> labels.add(Sent(at=0.5, partition=3, first=41, labels=two)), len(labels)
    ([], 2)
    >>> labels.learn(Posterior("t1", [0.2, 0.8], 1, 1, {"3": 41}))
    [CountedLabel(label=NumberedLabel(task='t1', worker='ann', answer=1), at=0.5)]
    >>> len(labels)
    1

    A posterior may be read before Kafka's acknowledgement of the label:

    >>> labels.learn(Posterior("t2", [0.2, 0.8], 1, 1, {"3": 43}))
    []
    >>> labels.add(Sent(at=0.6, partition=3, first=43, labels=[NumberedLabel("t2", "ann", 1)]))
    [CountedLabel(label=NumberedLabel(task='t2', worker='ann', answer=1), at=0.6)]
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], deque[tuple[int, CountedLabel]]] = {}
        self._sources: dict[str, dict[str, int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sent: Sent) -> list[CountedLabel]:
        """Add labels, in the order of offsets; returns those that are counted already."""
        source = str(sent.partition)
        counted = []
        for offset, label in enumerate(sent.labels, sent.first):
            task = label.task
            if label.answer == SKIP:
                continue
            if task in self._sources and self._sources[task].get(source, -1) >= offset:
                counted.append(CountedLabel(label, sent.at))
                continue
            self._waiting.setdefault((task, source), deque()).append(
                (offset, CountedLabel(label, sent.at))
            )
            self._count += 1
        return counted

    def learn(self, posterior: Posterior) -> list[CountedLabel]:
        """Process a newer posterior of a task; returns the labels that it is the first to count."""
        task, sources = posterior.task, posterior.sources
        self._sources[task] = sources
        counted = []
        for source, upto in sources.items():
            waiting = self._waiting.get((task, source))
            while waiting and waiting[0][0] <= upto:
                counted.append(waiting.popleft()[1])
        self._count -= len(counted)
        return counted


# Counts the labels sent that are repeated answers, by reading the answers topic.


class Repeats:
    """Counts those of the labels sent whose worker had answered the task before."""

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._sent: dict[int, list[tuple[int, int]]] = {}  # ranges of offsets, by partition
        self.found = 0

    def add(self, sent: Sent) -> None:
        """Add acknowledged labels, in the order of offsets."""
        ranges = self._sent.setdefault(sent.partition, [])
        end = sent.first + len(sent.labels)
        if ranges and ranges[-1][1] == sent.first:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((sent.first, end))

    def learn(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the answers topic."""
        for record in records:
            try:
                parts = [
                    parse_votes(value, self._classes)
                    for _, value in parse_answers(record.value).votes
                ]
            except BadRecord:
                continue  # not an sbic record: ignore
            ranges = self._sent.get(record.partition, [])
            starts = np.array([first for first, _ in ranges], np.int64)
            ends = np.array([end for _, end in ranges], np.int64)
            for votes in parts:
                offsets = votes.offsets[votes.answers == REPEAT]
                index = np.searchsorted(starts, offsets, "right") - 1
                self.found += int(((index >= 0) & (offsets < ends[index])).sum()) if ranges else 0


# Replays labels to their topic, and waits until all of them are counted.


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
    labels: Sequence[NumberedLabel],
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
    parse = posterior_parser(settings.crowd_classes)
    while uncounted:
        counted = 0
        records = await posteriors.next(seconds=0.2)
        for _, posterior in parsed(records, parse):
            counted += len(uncounted.learn(posterior))
        advance(counted)
        done.uncounted = len(uncounted)
        now = monotonic()
        if counted:
            last = noted = now
        elif patience is not None and now - last > patience:
            raise GaveUp(
                f"{len(uncounted):,} labels are not counted, and none was counted in the last "
                f"{patience:g} seconds; see: {command_line(settings, 'status')}"
            )
        elif now - noted > QUIET_SECONDS:
            noted = now
            note(
                f"no label counted in the last {now - last:.0f} seconds, {len(uncounted):,} to go: "
                f"is an instance running? Start one with: {command_line(settings, 'run')} "
                "(invalid labels, such as those of other classes, are shown by: "
                f"{command_line(settings, 'dead-letters show')})"
            )


@click.command(short_help="Send the labels of a file to the pipeline.")
@click.argument("path", metavar="LABELS.csv")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Labels per second."
)
@click.option("--shuffle", is_flag=True, help="Send them in a random order.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="For --shuffle: the same seed gives the same order.  [default: 0]",
)
@click.option("--wait", is_flag=True, help="Wait until all of them are counted.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For --wait: give up after so long without a label counted.  [default: never]",
)
@reading_options(
    "task",
    "worker",
    "label",
    example="task=HITId,worker=WorkerId,label=Answer",
    classes=False,
)
@label_map_option("label")
@given_options("broker", "prefix", "classes", "scale", "ordered")
def command(
    given: Given,
    reading: Reading,
    path: str,
    rate: float | None,
    shuffle: bool,
    seed: int | None,
    wait: bool,
    timeout: float | None,
    label_map: tuple[str, ...],
) -> None:
    """Send the labels of a file to the pipeline; `-` is standard input.

    LABELS.csv has the columns task, worker and label, in any order and any case, separated by
    commas, semicolons or tabs; or it is JSON Lines. gzip and UTF-16 are detected. A label is one of
    the classes of the project: 1 or -1 (0 is a skip; --positive yes --negative no maps two other
    labels), or one of its names; --label-map maps any other. An empty label is a skip. Nothing is
    sent if anything in the file is wrong. It is safe to send a file again: a label that was sent
    before counts once.

    With --wait the command returns when every label is counted in its task's posterior, including
    repeats, which change nothing, but not skips. If it gives up, the exit status is 1.

    Each worker's labels are counted in the order of the file. Those of different workers may be
    counted in another order, since they are in different partitions. With fast-sbic the weight of
    an answer depends on the answers before it, so results differ a little from run to run; with
    settled they converge to the same. `sbic infer` keeps the order of the file.

    \b
    Examples:
      sbic replay labels.csv --wait
      sbic replay labels.csv --rate 500 --shuffle --seed 7
      sbic replay answers.csv.gz --positive yes --negative no --skip unsure
      sbic replay pets.csv --prefix pets --wait
      sbic replay haustiere.csv --prefix pets --label-map Katze=cat --label-map Hund=dog
      printf 'task,worker,label\\nt1,ann,1\\n' | sbic replay - --wait
    """
    if seed is not None and not shuffle:
        raise click.UsageError("--seed needs --shuffle: it chooses the random order")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait: it limits the waiting")
    settings = in_project(given)
    reading = replace(reading, label_map=mapped_in_file(label_map, settings.crowd_classes))
    try:
        labels = labels_of(path, reading, settings)
    except BadFile as error:
        raise BadInput(str(error)) from None
    if shuffle:
        Random(seed or 0).shuffle(labels)
    done = Replayed()
    try:
        run_connected(
            replay(settings, labels, done, rate=rate, wait=wait, patience=timeout, note=note)
        )
    except GaveUp as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        note(left_undone(done, len(labels)))
        raise click.Abort from None
    note(summary(done))
    if skips := sum(each.answer == SKIP for each in labels):
        note(f"skips: {skips:,}")
    if repeats := repeats_in(labels) if done.repeats is None else done.repeats:
        where = "within the file" if done.repeats is None else "that were given before"
        note(f"repeats: {repeats:,} (answers {where}; each counts once)")


def labels_of(path: str, reading: Reading, settings: Settings) -> list[NumberedLabel]:
    """All labels of the file, in order, checked."""
    classes = settings.crowd_classes
    reading = of_project(reading, classes)
    with progress("Reading"):
        source = reading.source(path)
        rows = label_rows(source, reading)
    if classes.is_signs and rows.classes != classes.names:
        raise BadFile(source.name, other_classes(rows.classes, settings.prefix))
    for name in {*rows.tasks, *rows.workers}:
        if (size := len(name.encode())) > ID_MAX_BYTES:
            problem = f"the id '{shortened(name)}' has {size} bytes, more than {ID_MAX_BYTES}"
            raise BadFile(source.name, problem)
    answers = (SKIP if answer is None else answer for answer in rows.answers)
    return list(map(NumberedLabel, rows.tasks, rows.workers, answers))


def other_classes(found: tuple[str, ...], prefix: str) -> str:
    """Return the error for a file with classes other than -1 and 1, and the two ways out.

    >>> other_classes(("cat", "dog"), "pets")
    'has the labels cat, dog, but the classes of the project are -1 and 1: map two of them with \
--positive and --negative (and others with --skip), or, while it has no labels, give the project \
these classes: sbic project set --prefix pets classes=cat,dog'
    """
    names = [*map(shortened, found[:5]), *(["..."] if found[5:] else [])]
    way_out = f"these classes: sbic project set --prefix {prefix} classes={','.join(names)}"
    if any("," in name for name in found):
        way_out = "classes without a comma in their names, and map the labels with --label-map"
    return (
        f"has the labels {listed(found, 5)}, but the classes of the project are -1 and 1: map two "
        "of them with --positive and --negative (and others with --skip), or, while it has no "
        f"labels, give the project {way_out}"
    )


def repeats_in(labels: list[NumberedLabel]) -> int:
    """How many labels repeat an earlier answer of the same worker to the same task.

    >>> from sbic.kafka.writer import NumberedLabel
    >>> given = ("t1", "ann", 1), ("t1", "bob", 1), ("t1", "ann", 1), ("t1", "bob", SKIP)
    >>> repeats_in([NumberedLabel(*each) for each in given])
    1
    """
    answers = [(each.task, each.worker) for each in labels if each.answer != SKIP]
    return len(answers) - len(set(answers))


def left_undone(done: "Replayed", labels: int) -> str:
    """Return what Ctrl-C left undone, and how to continue.

    >>> from sbic.commands.replay import Replayed
    >>> left_undone(Replayed(labels=3000), 8000)
    'Kafka has acknowledged 3,000 of 8,000 labels. To continue, run the same command again: labels \
that are sent twice count once'
    >>> left_undone(Replayed(labels=8000, uncounted=10, sending_seconds=1.0), 8000)
    'all 8,000 labels were sent; 10 are not counted yet: instances go on counting'
    """
    if done.sending_seconds is None:
        return (
            f"Kafka has acknowledged {done.labels:,} of {labels:,} labels. To continue, run the "
            "same command again: labels that are sent twice count once"
        )
    return (
        f"all {labels:,} labels were sent; {done.uncounted:,} are not counted yet: "
        "instances go on counting"
    )


def summary(done: "Replayed") -> str:
    """How many labels were sent, how fast, and how long counting took."""
    seconds = done.sending_seconds or 1e-9
    text = (
        f"labels sent: {done.labels:,} in {seconds:.2f} s "
        f"({done.labels / seconds:,.0f} labels per second)"
    )
    if done.counting_seconds is None:
        return text
    return (
        f"{text}; all counted after {done.counting_seconds:.2f} s "
        f"({done.labels / done.counting_seconds:,.0f} labels per second)"
    )


def note(text: str) -> None:
    """Print a line for the user to standard error."""
    tell(text)

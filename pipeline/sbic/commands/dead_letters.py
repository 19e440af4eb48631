"""`sbic dead-letters`: shows records that could not be used, and replays them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
from orjson import JSONDecodeError, JSONEncodeError, dumps, loads

from sbic.classes import Classes
from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    for_output,
    given_options,
    in_project,
    mapping_of,
    run_connected,
)
from sbic.foreign import local_time, printable, shown
from sbic.kafka.writer import Delivery, Writer, writing
from sbic.project.opening import existing_project, read_seal
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import Choice, Letter, letters_in, overview
from sbic.wire.assignments import parse_request
from sbic.wire.bad import BadRecord
from sbic.wire.dead_letters import Origin, replayed_mark
from sbic.wire.labels import label_parser
from sbic.wire.partitions import Row
from sbic.wire.seal import Seal
from sbic.wire.tasks import task_parser
from sbic.wire.workers import parse_roster

# Replays dead letters to the topics that they came from, each once.
#
# Once the replayed records are acknowledged, marks are written to the dead-letter topic. A crash in
# between leaves letters that were sent and not marked: the next replay sends them again. This is
# harmless: a repeated label counts once, a repeated task description changes nothing, and a
# repeated request is answered once, since its header has the same origin.


AT_ONCE = 500

LabelMap = Mapping[str, int | str]


@dataclass
class Resent:
    """How many letters were sent, and why others were not."""

    sent: int = 0
    before: int = 0  # replayed earlier
    left: Counter[str] = field(default_factory=Counter)  # by the reason why they cannot be sent
    unknown: list[Origin] = field(default_factory=list)  # requested, but not in the topic


class Check:
    """Decides which value to send for a letter, or why none can be sent."""

    def __init__(self, topics: Topics, classes: Classes, label_map: LabelMap) -> None:
        self.labels = topics.labels.name
        self.label_map = label_map
        parse_label, parse_task = label_parser(classes), task_parser(classes)
        self.parsers: dict[str, Callable[[bytes | None, bytes | None], Any]] = {
            topics.labels.name: lambda _, value: parse_label(value),
            topics.tasks.name: parse_task,
            topics.roster.name: parse_roster,
            topics.requests.name: lambda _, value: parse_request(value),
        }

    def value_of(self, letter: Letter) -> bytes | None:
        """Return the value to send; raise `ValueError` with the reason why there is none."""
        topic = letter.headers.origin.topic
        if topic not in self.parsers:
            raise ValueError("not from labels, tasks, roster or requests")
        if letter.headers.is_truncated:
            raise ValueError("truncated: the topic has only a part of the record")
        value = self._mapped(letter.value) if topic == self.labels else letter.value
        try:
            self.parsers[topic](letter.key, value)
        except BadRecord as bad:
            raise ValueError(f"would be refused again: {bad.reason}") from None
        return value

    def _mapped(self, value: bytes | None) -> bytes | None:
        """Return the value with its label replaced according to the map."""
        if not self.label_map or value is None:
            return value
        try:
            record = loads(value)
            label = record["label"]
            text = label if type(label) is str else dumps(label).decode()
            if text not in self.label_map:
                return value
            return dumps({**record, "label": self.label_map[text]})
        except (JSONDecodeError, JSONEncodeError, KeyError, TypeError):
            return value  # no label, or deeper than can be written


async def replay_dead_letters(settings: Settings, choice: Choice, label_map: LabelMap) -> Resent:
    """Send the selected letters, oldest first in each partition, and mark them."""
    done = Resent()
    found = await overview(settings, choice, values=False)
    chosen = {letter.headers.origin for letter in found.newest}
    done.before = len(chosen & found.replayed)
    done.unknown = [origin for origin in choice.origins if origin not in chosen]
    chosen -= found.replayed
    if not chosen:
        return done
    check = Check(Topics(settings), settings.crowd_classes, label_map)
    seal = await read_seal(settings, await existing_project(settings))
    topic = Topics(settings).dead_letters
    async with writing(settings, topic) as writer:
        sender = Sender(writer, seal, topic.name)
        async for letters in letters_in(settings):
            for letter in letters:
                origin = letter.headers.origin
                if letter.headers.is_replayed or origin not in chosen:
                    continue
                chosen.remove(origin)
                try:
                    await sender.send(letter, check.value_of(letter))
                except ValueError as why:
                    done.left[str(why)] += 1
            done.sent = await sender.flush()
    return done


class Sender:
    """Sends letters, and marks those that are acknowledged."""

    def __init__(self, writer: Writer, seal: Seal, topic: str) -> None:
        self.writer = writer
        self.seal = seal
        self.topic = topic
        self.sent = 0
        self._waiting: list[tuple[Letter, Delivery]] = []

    async def send(self, letter: Letter, value: bytes | None) -> None:
        """Send a letter to its original partition; instances forward it if necessary."""
        origin = letter.headers.origin
        if origin.partition not in await self.writer.kafka.partitions_for(origin.topic):
            raise ValueError("from a partition that does not exist")
        header = self.seal.origin_header(origin.topic, origin.partition, value, origin)
        row = Row(letter.key, value, headers=[header])
        self._waiting.append((letter, self.writer.put(origin.topic, [row], origin.partition)))
        if len(self._waiting) >= AT_ONCE:
            await self.flush()

    async def flush(self) -> int:
        """Wait for the acknowledgements, mark the letters; returns how many were sent so far."""
        await asyncio.gather(*(delivery.done for _, delivery in self._waiting))
        marks = [self._mark(letter) for letter, _ in self._waiting]
        await asyncio.gather(*(delivery.done for delivery in marks))
        self.sent += len(self._waiting)
        self._waiting.clear()
        return self.sent

    def _mark(self, letter: Letter) -> Delivery:
        origin = letter.headers.origin
        mark = Row(str(origin).encode(), None, headers=list(replayed_mark(origin)))
        return self.writer.put(self.topic, [mark], letter.partition)


VALUE_SHOWN = 300  # characters

reason_option = click.option(
    "--reason", "reasons", metavar="REASON", multiple=True, help="Only this one; can be repeated."
)


@click.group("dead-letters", short_help="Show dead letters, and replay them.")
def command() -> None:
    """Show records that could not be used, and send them again after a fix."""


@command.command("show", short_help="The newest, with reason and origin.")
@reason_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many.",
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
@given_options("broker", "prefix")
def show(given: Given, reasons: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Show dead letters, newest first: time, reason, origin and value.

    A letter that a crash wrote twice is shown once. The origin, after the reason, is the topic,
    partition and offset of the record.

    \b
    Examples:
      sbic dead-letters show
      sbic dead-letters show --reason bad-label --limit 100
      sbic dead-letters show --json | jq -r .value
    """
    choice = Choice(reasons, limit=limit)
    found = run_connected(overview(in_project(given), choice, values=True))
    for letter in found.newest:
        is_replayed = letter.headers.origin in found.replayed
        if as_json:
            click.echo(for_output(dumps(as_object(letter, is_replayed)).decode()))
        else:
            click.echo("\n".join(lines(letter, is_replayed)))
    shown = len(found.newest)
    most_first = sorted(found.reasons.items(), key=lambda item: (-item[1], item[0]))
    by_reason = ", ".join(f"{reason} {count:,}" for reason, count in most_first)
    total = f"dead letters: {found.reasons.total():,}" + (f" ({by_reason})" if by_reason else "")
    more = f"; shown: the newest {shown:,} of {found.chosen:,}" if shown < found.chosen else ""
    tell(total + more)


def as_object(letter: Letter, is_replayed: bool) -> dict[str, Any]:
    """Return a letter as a JSON object."""
    headers = letter.headers
    return {
        "at": letter.at,
        "reason": headers.reason,
        "message": headers.message,
        "topic": headers.origin.topic,
        "partition": headers.origin.partition,
        "offset": headers.origin.offset,
        "truncated": headers.is_truncated,
        "replayed": is_replayed,
        "key": None if letter.key is None else letter.key.decode(errors="backslashreplace"),
        "value": None if letter.value is None else letter.value.decode(errors="backslashreplace"),
    }


def lines(letter: Letter, is_replayed: bool) -> list[str]:
    """Return a letter as lines of text."""
    headers = letter.headers
    state = "  replayed" * is_replayed + "  truncated" * headers.is_truncated
    text = "(no value)"
    if letter.value is not None:
        text = letter.value[:VALUE_SHOWN].decode(errors="backslashreplace")
        text += "..." if letter.value[VALUE_SHOWN:] else ""
    written = [
        f"{local_time(letter.at)}  {headers.reason}  {headers.origin}{state}",
        f"  {headers.message}",
        f"  {text}",
    ]
    return [printable(line) for line in written]


@command.command("replay", short_help="Send dead letters again, each once.")
@click.argument("origins", metavar="[ORIGIN]...", nargs=-1)
@reason_option
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The newest N at most.")
@click.option(
    "--label-map",
    "label_map",
    metavar="FROM=TO",
    multiple=True,
    help="Send labels FROM as TO, such as yes=1; 0 is a skip. Can be repeated.",
)
@given_options("broker", "prefix")
def replay(
    given: Given,
    origins: tuple[str, ...],
    reasons: tuple[str, ...],
    everything: bool,
    limit: int | None,
    label_map: tuple[str, ...],
) -> None:
    """Send dead letters again to the topics they came from: labels, tasks and requests.

    ORIGIN is as in `show`, such as sbic.labels/3/42. Each letter is sent once: replayed letters are
    marked, and later runs skip them. If this command is killed, the next run may send up to some
    hundreds of letters again that were sent but not yet marked; labels and tasks that are sent
    twice count once.

    Letters that would be refused again and truncated ones are not sent; the command reports how
    many, and why. Nothing is sent to topics other than labels, tasks and requests, which are
    internal.

    \b
    Examples:
      sbic dead-letters replay --reason bad-label --label-map yes=1 --label-map no=-1
      sbic dead-letters replay sbic.labels/3/42
      sbic dead-letters replay --all --prefix pets
    """
    if not (origins or reasons or everything):
        raise click.UsageError("choose letters: by their origins as in `show`, --reason, or --all")
    settings = in_project(given)
    labels = dict(mapping_of(pair, settings.crowd_classes) for pair in label_map)
    choice = Choice(reasons, [origin_of(text) for text in origins], limit)
    outcome = run_connected(replay_dead_letters(settings, choice, labels))
    for line in summary(outcome):
        tell(line)
    if outcome.unknown:
        names = ", ".join(map(str, outcome.unknown[:10]))
        raise click.ClickException(f"no such dead letter: {names}")


def origin_of(text: str) -> Origin:
    """Parse the origin in an argument."""
    try:
        return Origin.parse(text)
    except ValueError:
        problem = f"{shown(text)} is not TOPIC/PARTITION/OFFSET, such as sbic.labels/3/42"
        raise BadInput(problem) from None


def summary(outcome: "Resent") -> list[str]:
    """Return the outcome of a replay, in lines.

    >>> from collections import Counter
    >>> from sbic.commands.dead_letters import Resent
    >>> summary(Resent(sent=2, before=1, left=Counter({"would be refused again: bad-label": 3})))
    ['dead letters replayed: 2', 'replayed before: 1', 'not sent: 3 (would be refused again: \
bad-label)']
    """
    text = [f"dead letters replayed: {outcome.sent:,}"]
    if outcome.before:
        text.append(f"replayed before: {outcome.before:,}")
    return text + [f"not sent: {count:,} ({why})" for why, count in outcome.left.most_common()]

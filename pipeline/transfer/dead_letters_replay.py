"""Sends dead letters again to where they came from, each once.

After Kafka has what was sent again, a mark says so in the dead-letter topic. A crash between the
two leaves letters that were sent and not marked: the next replay sends them again. A label that
comes twice counts once, a description of a task that comes twice changes nothing, and a request is
answered once, since its header tells that it is the same.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from orjson import JSONDecodeError, dumps, loads

from pipeline.classes import Classes
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.records.bad import BadRecord
from pipeline.records.dead_letter_headers import mark_of
from pipeline.records.labels import label_parser
from pipeline.records.origin import Origin
from pipeline.records.requests import parse_request
from pipeline.records.tasks import task_parser
from pipeline.settings import Settings
from pipeline.topics import Topics
from pipeline.transfer.dead_letters import Choice, Letter, letters_in, overview

AT_ONCE = 500

Value = bytes | None
LabelMap = Mapping[str, int | str]


@dataclass
class Outcome:
    """How many were sent again, and why others were not."""

    sent: int = 0
    before: int = 0  # replayed already
    left: Counter[str] = field(default_factory=Counter)  # by why they cannot be sent
    unknown: list[Origin] = field(default_factory=list)  # asked for, and not there


class Check:
    """Says what to send again of a letter, or why nothing can be sent."""

    def __init__(self, topics: Topics, classes: Classes, label_map: LabelMap) -> None:
        self.labels = topics.labels.name
        self.label_map = label_map
        parse_label, parse_task = label_parser(classes), task_parser(classes)
        self.parsers: dict[str, Callable[[Value, Value], Any]] = {
            topics.labels.name: lambda _, value: parse_label(value),
            topics.tasks.name: parse_task,
            topics.requests.name: lambda _, value: parse_request(value),
        }

    def value_of(self, letter: Letter) -> Value:
        """The value to send; `ValueError` says why there is none."""
        topic = letter.said.origin.topic
        if topic not in self.parsers:
            raise ValueError("not of labels, tasks or requests")
        if letter.said.is_truncated:
            raise ValueError("truncated: the topic has only a part of them")
        value = self._mapped(letter.value) if topic == self.labels else letter.value
        try:
            self.parsers[topic](letter.key, value)
        except BadRecord as bad:
            raise ValueError(f"would be refused again: {bad.reason}") from None
        return value

    def _mapped(self, value: Value) -> Value:
        """The label as the map has it; all else stays."""
        if not self.label_map or value is None:
            return value
        try:
            record = loads(value)
        except JSONDecodeError:
            return value
        if type(record) is not dict or "label" not in record:
            return value
        label = record["label"]
        text = label if type(label) is str else dumps(label).decode()
        if text not in self.label_map:
            return value
        return dumps({**record, "label": self.label_map[text]})


async def replay_dead_letters(settings: Settings, choice: Choice, label_map: LabelMap) -> Outcome:
    """Send the chosen letters again, oldest first in each partition, and mark them."""
    done = Outcome()
    found = await overview(settings, choice, values=False)
    chosen = {letter.said.origin for letter in found.newest}
    done.before = len(chosen & found.replayed)
    done.unknown = [origin for origin in choice.origins if origin not in chosen]
    chosen -= found.replayed
    if not chosen:
        return done
    check = Check(Topics(settings), settings.crowd_classes, label_map)
    producer = AIOKafkaProducer(
        **client_options(settings),
        enable_idempotence=True,
        max_request_size=16 << 20,
    )
    sender = Sender(producer, Topics(settings).dead_letters.name)
    async with connected(producer, settings):
        async for letters in letters_in(settings):
            for letter in letters:
                origin = letter.said.origin
                if letter.said.is_replayed or origin not in chosen:
                    continue
                chosen.remove(origin)
                try:
                    await sender.send(letter, check.value_of(letter))
                except ValueError as why:
                    done.left[str(why)] += 1
            done.sent = await sender.flush()
    return done


class Sender:
    """Sends letters, and marks those that Kafka has."""

    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.sent = 0
        self._waiting: list[tuple[Letter, asyncio.Future[Any]]] = []

    async def send(self, letter: Letter, value: Value) -> None:
        """Send a letter to where it came from, whence it is forwarded if it has to be."""
        origin = letter.said.origin
        if origin.partition not in await self.producer.partitions_for(origin.topic):
            raise ValueError("of a partition that does not exist")
        future = await self.producer.send(
            origin.topic,
            value,
            key=letter.key,
            partition=origin.partition,
            headers=[origin.header()],
        )
        self._waiting.append((letter, future))
        if len(self._waiting) >= AT_ONCE:
            await self.flush()

    async def flush(self) -> int:
        """Wait until Kafka has them, mark them, and tell how many there are so far."""
        letters = [letter for letter, _ in self._waiting]
        await asyncio.gather(*(future for _, future in self._waiting))
        self._waiting.clear()
        marks = [await self._mark(letter) for letter in letters]
        await asyncio.gather(*marks)
        self.sent += len(letters)
        return self.sent

    async def _mark(self, letter: Letter) -> "asyncio.Future[Any]":
        origin = letter.said.origin
        future: asyncio.Future[Any] = await self.producer.send(
            self.topic,
            None,
            key=str(origin).encode(),
            partition=letter.partition,
            headers=mark_of(origin),
        )
        return future

"""Replays dead letters to the topics that they came from, each once.

Once the replayed records are acknowledged, marks are written to the dead-letter topic. A crash in
between leaves letters that were sent and not marked: the next replay sends them again. This is
harmless: a repeated label counts once, a repeated task description changes nothing, and a repeated
request is answered once, since its header has the same origin.
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
        self.parsers: dict[str, Callable[[Value, Value], Any]] = {
            topics.labels.name: lambda _, value: parse_label(value),
            topics.tasks.name: parse_task,
            topics.requests.name: lambda _, value: parse_request(value),
        }

    def value_of(self, letter: Letter) -> Value:
        """The value to send; raises `ValueError` with the reason why there is none."""
        topic = letter.headers.origin.topic
        if topic not in self.parsers:
            raise ValueError("not from labels, tasks or requests")
        if letter.headers.is_truncated:
            raise ValueError("truncated: the topic has only a part of the record")
        value = self._mapped(letter.value) if topic == self.labels else letter.value
        try:
            self.parsers[topic](letter.key, value)
        except BadRecord as bad:
            raise ValueError(f"would be refused again: {bad.reason}") from None
        return value

    def _mapped(self, value: Value) -> Value:
        """The value with its label replaced according to the map."""
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
    """Send the selected letters, oldest first in each partition, and mark them."""
    done = Outcome()
    found = await overview(settings, choice, values=False)
    chosen = {letter.headers.origin for letter in found.newest}
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

    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.sent = 0
        self._waiting: list[tuple[Letter, asyncio.Future[Any]]] = []

    async def send(self, letter: Letter, value: Value) -> None:
        """Send a letter to its original partition; instances forward it if necessary."""
        origin = letter.headers.origin
        if origin.partition not in await self.producer.partitions_for(origin.topic):
            raise ValueError("from a partition that does not exist")
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
        """Wait for the acknowledgements, mark the letters; returns how many were sent so far."""
        letters = [letter for letter, _ in self._waiting]
        await asyncio.gather(*(future for _, future in self._waiting))
        self._waiting.clear()
        marks = [await self._mark(letter) for letter in letters]
        await asyncio.gather(*marks)
        self.sent += len(letters)
        return self.sent

    async def _mark(self, letter: Letter) -> "asyncio.Future[Any]":
        origin = letter.headers.origin
        future: asyncio.Future[Any] = await self.producer.send(
            self.topic,
            None,
            key=str(origin).encode(),
            partition=letter.partition,
            headers=mark_of(origin),
        )
        return future

"""The worker stage as a stock Faust agent with a table, as its documentation would have it."""

import os
import sys
from math import log
from tempfile import mkdtemp
from time import perf_counter

import faust

from sbic.project.settings import Settings
from sbic.project.topics import Topics

settings = Settings.from_env()
topics = Topics(settings)


class FaustLabel(faust.Record):
    """A label as Faust decodes it."""

    task: str
    worker: str
    label: int


app = faust.App(
    f"{settings.prefix}-stock",
    broker=[f"kafka://{server}" for server in settings.bootstrap_servers],
    store="memory://",
    topic_partitions=settings.partitions,
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    web_enabled=False,
    datadir=mkdtemp(),  # it makes folders for tables even where they are in memory
)
labels = app.topic(topics.labels.name, key_type=str, value_type=FaustLabel)
votes = app.topic(topics.workers.name, key_type=str)
counts = app.Table("counts", default=int, partitions=settings.partitions)


@app.agent(labels)
async def worker(stream: faust.StreamT[FaustLabel]) -> None:
    """Count the worker's labels in a table, send a vote on; print the seconds it took."""
    wanted = int(sys.argv[1])
    started = 0.0
    async for label in stream:
        started = started or perf_counter()
        counts[label.worker] += 1
        weight = label.label * log((counts[label.worker] + 2) / 2)
        await votes.send(key=label.task, value={"task": label.task, "weight": weight})
        wanted -= 1
        if not wanted:
            print(perf_counter() - started, flush=True)
            os._exit(0)


if __name__ == "__main__":
    stock = faust.Worker(app, loglevel="ERROR", quiet=True, redirect_stdouts=False)
    stock.spinner = None  # it would write into the result
    stock.execute_from_commandline()

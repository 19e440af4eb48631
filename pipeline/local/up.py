"""Runs instances and a gateway beside a broker until a signal."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from pipeline.local.embedded import EmbeddedBroker
from pipeline.local.errors import CannotStart
from pipeline.local.instances import running
from pipeline.local.supervisor import Command, Report

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def until_stopped(
    broker: EmbeddedBroker,
    commands: Sequence[Command],
    log: Report,
    report: Report,
    beside: AbstractAsyncContextManager[None] | None = None,
) -> None:
    """Keep the commands running until a signal; raises `CannotStart` if the broker stops before.

    `beside` is a context that is open meanwhile.
    """
    stop = asyncio.Event()
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(commands, log, report), beside or nullcontext():
        while not stop.is_set():
            status = broker.wait(0)
            if status is not None:
                raise CannotStart(f"Kafka stopped with status {status}", broker.end_of_log())
            try:
                async with asyncio.timeout(0.5):
                    await stop.wait()
            except TimeoutError:
                continue
        report("up", "stopping the instances, then Kafka")

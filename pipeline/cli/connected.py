"""Runs the part of a command that talks to Kafka; what is wrong with Kafka becomes one line."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import click

from pipeline.kafka.errors import ClusterError

T = TypeVar("T")


def run_connected(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; no Kafka, a missing topic and the like end with exit status 1."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the error below says it all
    try:
        return asyncio.run(work)
    except ClusterError as error:
        raise click.ClickException(str(error)) from None

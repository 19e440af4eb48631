"""Runs the part of a command that uses Kafka; errors of Kafka become one line."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import click

from pipeline.kafka.errors import ClusterError, WrongTopics
from pipeline.project.errors import Refusal
from pipeline.project.given import Given
from pipeline.settings import BadSetting, Settings

T = TypeVar("T")


def run_connected(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine; errors of Kafka and of the project end the command with status 1."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the error below is enough
    try:
        return asyncio.run(work)
    except WrongTopics as wrong:
        for mismatch in wrong.mismatches:
            click.echo(mismatch, err=True)
        raise click.ClickException(
            "nothing was changed; use the settings that the topics were created with, choose "
            "another --prefix, or alter the topics"
        ) from None
    except Refusal as refusal:
        for line in refusal.lines:
            click.echo(line, err=True)
        raise click.ClickException(refusal.way_out) from None
    except BadSetting as bad:
        raise click.UsageError(str(bad)) from None
    except ClusterError as error:
        raise click.ClickException(str(error)) from None


def in_project(given: Given) -> Settings:
    """The settings of a tool: those of the project; other values are refused."""
    from pipeline.project.opening import settings_in_project

    return run_connected(settings_in_project(given))

"""Runs the part of a command that talks to Kafka; what is wrong with Kafka becomes one line."""

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
    """The result of the work; no Kafka, a missing topic and the like end with exit status 1."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the error below says it all
    try:
        return asyncio.run(work)
    except WrongTopics as wrong:
        for mismatch in wrong.mismatches:
            click.echo(mismatch, err=True)
        raise click.ClickException(
            "nothing was changed; set what the topics were made with, choose another --prefix, "
            "or alter the topics"
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
    """The settings of a tool: those of the project; others that are given are refused."""
    from pipeline.project.opening import settings_in_project

    return run_connected(settings_in_project(given))

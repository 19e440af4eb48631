"""Runs a gateway: listens, follows its projects, and shuts down gracefully."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from errno import EADDRINUSE

from aiohttp import web

from pipeline.gateway.app import gateway_app
from pipeline.gateway.config import GatewayConfig
from pipeline.gateway.connection_limits import GuardedSite
from pipeline.gateway.errors import CannotStart
from pipeline.gateway.metrics import Metrics
from pipeline.gateway.projects import Project, Projects
from pipeline.project.given import Given

DRAIN_SECONDS = 8  # supervisors commonly kill after 10
IDLE_SECONDS = 30  # between two requests of a connection, and before the first

log = logging.getLogger("sbic")


async def run(config: GatewayConfig, projects: Sequence[Given]) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests in flight."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, stop.set)
    async with serving(config, projects) as url:
        log.info("listening on %s", url)
        await stop.wait()
        log.info("stopping")


@asynccontextmanager
async def serving(config: GatewayConfig, given: Sequence[Given]) -> AsyncIterator[str]:
    """A running gateway; yields its address."""
    stopping = asyncio.Event()
    metrics = Metrics()
    projects = Projects([Project(each) for each in given])
    app = gateway_app(config, projects, metrics, stopping)
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=IDLE_SECONDS,
        shutdown_timeout=DRAIN_SECONDS,
        auto_decompress=False,  # a small compressed body can become a large one
    )
    await runner.setup()
    following = [asyncio.create_task(project.follow()) for project in projects.by_prefix.values()]
    try:
        site = GuardedSite(runner, config.host, config.port, config.connections)
        await listen(site, config)
        metrics.connections(site.count)
        yield site.name
    finally:
        stopping.set()
        await runner.cleanup()
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def listen(site: web.BaseSite, config: GatewayConfig) -> None:
    """Start to listen; raises `CannotStart`."""
    try:
        await site.start()
    except OSError as error:
        where = f"{config.host}, port {config.port}"
        if error.errno == EADDRINUSE:
            raise CannotStart(f"port {config.port} is taken; choose another with --port") from None
        raise CannotStart(f"cannot listen on {where}: {error.strerror or error}") from None

"""The projects that a gateway serves, each followed in the background."""

import asyncio
import logging
from collections.abc import Sequence

from aiohttp import web
from aiokafka.errors import KafkaError

from pipeline.gateway.errors import Problem, unavailable
from pipeline.gateway.session import Session, session
from pipeline.kafka.errors import ClusterError
from pipeline.project.given import Given

RETRY_SECONDS = 1.0

log = logging.getLogger("sbic")


class Project:
    """One project: its session, or the reason why there is none."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.prefix = given.place.prefix
        self.current: Session | None = None
        """The session, if there is one."""
        self._why_none = "connecting to Kafka"

    async def follow(self) -> None:
        """Keep a session with the project until cancelled."""
        while True:
            try:
                async with session(self.given) as self.current:
                    await self.current.run()
                log.info("the project %s has changed: reading it again", self.prefix)
                self._why_none = "the project has changed"
            except (ClusterError, KafkaError) as error:
                if str(error) != self._why_none:
                    log.warning("%s: %s", self.prefix, error)
                self._why_none = str(error)
            except Exception:
                log.exception("%s: following the project failed", self.prefix)
                self._why_none = "following the project failed; see the gateway's log"
            self.current = None
            await asyncio.sleep(RETRY_SECONDS)

    @property
    def session(self) -> Session:
        """The session; raises 503 if there is none."""
        if self.current is None:
            raise unavailable(self._why_none)
        return self.current

    @property
    def readable(self) -> Session:
        """The session, once its topics have been read; raises 503 before."""
        now = self.session
        if why_not := now.why_not_readable:
            raise unavailable(why_not)
        return now

    @property
    def why_not_ready(self) -> str | None:
        """Why this project cannot be served in full; None if it can."""
        if self.current is None:
            return self._why_none
        now = self.current
        return now.why_not_readable or now.trouble or now.outbox.why_not


class Projects:
    """All projects by their prefixes; the first is the default."""

    def __init__(self, projects: Sequence[Project]) -> None:
        self.by_prefix = {project.prefix: project for project in projects}
        self.default = projects[0].prefix

    def of(self, request: web.Request) -> Project:
        """The project of a request; raises 404."""
        prefix = request.query.get("project", self.default)
        try:
            return self.by_prefix[prefix]
        except KeyError:
            served = ", ".join(self.by_prefix)
            raise Problem(404, f"no such project; this gateway serves: {served}") from None

    @property
    def why_not_ready(self) -> str | None:
        """Why not all projects can be served; None if they can."""
        for project in self.by_prefix.values():
            if why_not := project.why_not_ready:
                return f"{project.prefix}: {why_not}"
        return None

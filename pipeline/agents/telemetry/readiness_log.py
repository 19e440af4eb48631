"""Logs every few seconds why an instance is not ready yet."""

import logging
from collections.abc import Callable
from typing import Any

from mode import Service

log = logging.getLogger("sbic")

SECONDS = 5.0


class ReadinessLog(Service):
    """Logs the answer of `/readyz` until it is `ready`."""

    def __init__(self, why_not_ready: Callable[[], str | None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.why_not_ready = why_not_ready

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            await self.sleep(SECONDS)
            why_not = self.why_not_ready()
            if why_not is not None and not self.should_stop:
                log.info("not ready: %s", why_not)

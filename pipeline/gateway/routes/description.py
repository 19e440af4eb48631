"""`/openapi.json`: the description of all routes."""

from collections.abc import Sequence

from aiohttp import web
from orjson import dumps

from pipeline.gateway.describing import operation
from pipeline.gateway.openapi import openapi
from pipeline.gateway.routing import Route, json


class DescriptionRoutes:
    """Describes the routes that it is given, and itself."""

    def __init__(self, others: Sequence[Route]) -> None:
        self._document = dumps(openapi([*others, *self.routes()]))

    def routes(self) -> Sequence[Route]:
        """All of them."""
        about = operation("This document.", {"type": "object"})
        return [Route("GET", "/openapi.json", self.serve, about)]

    async def serve(self, _request: web.Request) -> web.Response:
        """The document."""
        return json(self._document)

"""A page of the records of a view, in one of its orders."""

from collections.abc import Iterable
from typing import Protocol

from aiohttp import web
from orjson import dumps

from pipeline.gateway.parameters import cursor_of, limit_of, order_of
from pipeline.gateway.routing import json
from pipeline.gateway.view.ranking import LiveRanking


class Listed(Protocol):
    """A view of tasks or workers."""

    orders: dict[str, LiveRanking]

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """The records of these numbers, as published."""


async def page_of(name: str, view: Listed, request: web.Request, default: str) -> web.Response:
    """The requested page, as an array of this name."""
    order = order_of(request, view.orders, default)
    page = await view.orders[order].page(cursor_of(request), limit_of(request))
    following = dumps(page.next and str(page.next))
    listed = b",".join(view.values(page.numbers))
    return json(b'{"%b":[%b],"next":%b}' % (name.encode(), listed, following))

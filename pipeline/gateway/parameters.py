"""What a query string may say."""

from collections.abc import Collection

from aiohttp import web

from pipeline.gateway.errors import Problem
from pipeline.gateway.view.ranking import Cursor

LIMIT = 20
MOST = 100


def order_of(request: web.Request, orders: Collection[str], default: str) -> str:
    """The name of the order that is asked for."""
    order = request.query.get("order", default)
    if order not in orders:
        raise Problem(400, f"order must be one of {', '.join(orders)}")
    return order


def limit_of(request: web.Request) -> int:
    """How many are asked for."""
    text = request.query.get("limit", str(LIMIT))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST):
        raise Problem(400, f"limit must be a whole number from 1 to {MOST}")
    return int(text)


def cursor_of(request: web.Request) -> Cursor | None:
    """Where the page begins that is asked for."""
    text = request.query.get("after")
    if text is None:
        return None
    try:
        return Cursor.parse(text)
    except ValueError:
        raise Problem(400, "after must be what the page before had as next") from None

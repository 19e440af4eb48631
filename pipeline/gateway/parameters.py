"""Parses the parameters of a query string."""

from collections.abc import Collection

from aiohttp import web

from pipeline.gateway.errors import Problem
from pipeline.gateway.view.ranking import Cursor

LIMIT = 20
MOST = 100


def order_of(request: web.Request, orders: Collection[str], default: str) -> str:
    """The requested order."""
    order = request.query.get("order", default)
    if order not in orders:
        raise Problem(400, f"order must be one of {', '.join(orders)}")
    return order


def limit_of(request: web.Request) -> int:
    """The requested number of records."""
    text = request.query.get("limit", str(LIMIT))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST):
        raise Problem(400, f"limit must be a whole number from 1 to {MOST}")
    return int(text)


def cursor_of(request: web.Request) -> Cursor | None:
    """The cursor of the requested page."""
    text = request.query.get("after")
    if text is None:
        return None
    try:
        return Cursor.parse(text)
    except ValueError:
        raise Problem(400, "after must be the next of the previous page") from None

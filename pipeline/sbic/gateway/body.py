"""Parses requests: the parameters of a query, the body with its types and limits."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

from aiohttp import web
from orjson import JSONDecodeError, JSONEncodeError, dumps, loads

from sbic.gateway.config import HttpProblem
from sbic.gateway.view import Cursor
from sbic.wire.bad import BadRecord
from sbic.wire.labels import MAX_BYTES

LIMIT = 20
MOST = 100


def order_of(request: web.Request, orders: Collection[str], default: str) -> str:
    """Return the requested order."""
    order = request.query.get("order", default)
    if order not in orders:
        raise HttpProblem(400, f"order must be one of {', '.join(orders)}")
    return order


def limit_of(request: web.Request) -> int:
    """Return the requested number of records."""
    text = request.query.get("limit", str(LIMIT))
    is_short = len(text) <= len(str(MOST))
    if not (is_short and text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise HttpProblem(400, f"limit must be a whole number from 1 to {MOST}")
    return int(text)


def cursor_of(request: web.Request) -> Cursor | None:
    """Return the cursor of the requested page."""
    text = request.query.get("after")
    if text is None:
        return None
    try:
        return Cursor.parse(text)
    except ValueError:
        raise HttpProblem(400, "after must be the next of the previous page") from None


# The body of a request: its types and limits, and the records in it.


JSON, LINES = "application/json", "application/x-ndjson"
BODY_SECONDS = 30
CONTINUE = "100-continue"  # what a client expects that waits before it sends a body
MOST_RECORDS = 40_000  # more valid records than fit into 1 MB
MOST_PROBLEMS = 100  # in an answer
TOO_DEEP = b"["  # stands for a value too deep to encode: it is rejected as invalid JSON

Parsed = TypeVar("Parsed")


async def no_invitation(_request: web.Request) -> None:
    """Leave `Expect: 100-continue` to `read_body`.

    aiohttp answers it before it asks anybody whether the client may send a body of that size.
    """


async def read_body(request: web.Request, *kinds: str) -> bytes:
    """Return the body, which must have one of these content types.

    Browsers let pages of other sites post forms and plain text anywhere, but JSON only after a CORS
    preflight.
    """
    if request.content_type not in kinds:
        raise HttpProblem(415, f"Content-Type must be {' or '.join(kinds)}")
    if "Content-Encoding" in request.headers:
        raise HttpProblem(415, "the body must not be compressed")
    if request.headers.get("Expect", "").lower() == CONTINUE:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # of the answer, which follows
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise HttpProblem(408, "the body took too long", {"Connection": "close"}) from None


class Posted(NamedTuple):
    """A record to send: its value, and what is to be checked, which may be parsed already."""

    value: bytes
    content: bytes | dict[str, Any]


def values_in(body: bytes, kind: str) -> list[Posted]:
    """Return the records in a body: one object, an array of objects, or lines.

    >>> values_in(b'[{"a": 1}, 2]', JSON)
    [Posted(value=b'{"a":1}', content={'a': 1}), Posted(value=b'2', content=b'2')]
    >>> [each.value for each in values_in(b'{"a": 1}\\r\\n\\n{"b": 2}', LINES)]
    [b'{"a": 1}', b'{"b": 2}']
    """
    if kind == LINES:
        values = [Posted(line, line) for each in body.split(b"\n") if (line := each.strip())]
    elif body.lstrip()[:1] == b"[":
        try:
            values = [element(item) for item in loads(body)]
        except JSONDecodeError as error:
            raise HttpProblem(400, f"the body is not JSON: {error}") from None
    else:
        values = [Posted(body, body)]
    if len(values) > MOST_RECORDS:
        raise HttpProblem(413, f"the body has more than {MOST_RECORDS:,} records: send it in parts")
    return values


def element(item: object) -> Posted:
    """Get an element of an array; an object is not parsed again unless its value is too large."""
    try:
        value = dumps(item)
    except JSONEncodeError:
        return Posted(TOO_DEEP, TOO_DEEP)
    if isinstance(item, dict) and len(value) <= MAX_BYTES:
        return Posted(value, item)
    return Posted(value, value)


def parsed(values: Sequence[Any], parse: Callable[[Any], Parsed]) -> list[Parsed]:
    """Parse all values; raises 422 with the index and reason of each bad one."""
    found, problems = [], []
    for index, value in enumerate(values):
        try:
            found.append(parse(value))
        except BadRecord as bad:
            problems.append({"index": index, "reason": bad.message})
    if not problems:
        return found
    raise HttpProblem(
        422,
        f"nothing was sent: {len(problems):,} of {len(values):,} cannot be used; the first, at "
        f"index {problems[0]['index']}: {problems[0]['reason']}",
        problems=problems[:MOST_PROBLEMS],
    )

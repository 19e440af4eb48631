"""`/`: the page, and the files that it is made of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from pipeline.gateway.describing import STRING, operation
from pipeline.gateway.errors import Problem
from pipeline.gateway.routing import Handler, Route

FOLDER = Path(__file__).parent.parent / "page"
FILES = {"/": "index.html", "/page.js": "page.js", "/page.css": "page.css"}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class PageRoutes:
    """The page needs no token: it asks for one, and shows nothing without."""

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", path, served(file), of_the_page(file), is_open=True)
            for path, file in FILES.items()
        ]


def of_the_page(name: str) -> dict[str, Any]:
    """The operation that answers with a file of the page."""
    return operation(f"The page: {name}.", STRING, errors=(404,), kind=TYPES[Path(name).suffix])


def served(name: str) -> Handler:
    """What answers with a file of the page."""

    async def serve(_request: web.Request) -> web.Response:
        try:
            body = (FOLDER / name).read_bytes()
        except FileNotFoundError:
            raise Problem(404, f"{name} is not installed") from None
        kind = TYPES[Path(name).suffix]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve

"""`/`: the page, and its files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from pipeline.gateway.describing import STRING, operation
from pipeline.gateway.routing import Handler, Route

FOLDER = Path(__file__).parent.parent / "page"
INDEX = "index.html"
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class PageRoutes:
    """The page itself needs no token: it asks for one before it shows any data."""

    def routes(self) -> Sequence[Route]:
        """A route for each file, so that no path of a request is looked up on disk."""
        return [
            Route("GET", address(file), served(file), file_operation(file), is_open=True)
            for file in sorted(FOLDER.iterdir())
        ]


def address(file: Path) -> str:
    """The path of a file of the page.

    >>> address(Path("page/index.html")), address(Path("page/page.css"))
    ('/', '/page.css')
    """
    return "/" if file.name == INDEX else f"/{file.name}"


def file_operation(file: Path) -> dict[str, Any]:
    """The OpenAPI operation of a file of the page."""
    return operation(f"The page: {file.name}.", STRING, kind=TYPES[file.suffix])


def served(file: Path) -> Handler:
    """The handler that serves a file of the page."""
    body, kind = file.read_bytes(), TYPES[file.suffix]

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve

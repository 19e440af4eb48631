"""`/`: the page, and the files that it is made of."""

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
    """The page needs no token: it asks for one, and shows nothing without."""

    def routes(self) -> Sequence[Route]:
        """A route for each file: no path from outside is looked up."""
        return [
            Route("GET", address(file), served(file), of_the_page(file), is_open=True)
            for file in sorted(FOLDER.iterdir())
        ]


def address(file: Path) -> str:
    """The path of a file of the page.

    >>> address(Path("page/index.html")), address(Path("page/page.css"))
    ('/', '/page.css')
    """
    return "/" if file.name == INDEX else f"/{file.name}"


def of_the_page(file: Path) -> dict[str, Any]:
    """The operation that answers with a file of the page."""
    return operation(f"The page: {file.name}.", STRING, kind=TYPES[file.suffix])


def served(file: Path) -> Handler:
    """What answers with a file of the page."""
    body, kind = file.read_bytes(), TYPES[file.suffix]

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve

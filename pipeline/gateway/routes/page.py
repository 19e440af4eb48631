"""`/`: the page, and the files that it is made of."""

from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

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
            Route(
                "GET",
                "/" if path.name == INDEX else f"/{path.name}",
                served(path),
                {"summary": f"The page: {path.name}."},
                is_open=True,
            )
            for path in sorted(FOLDER.iterdir())
        ]


def served(path: Path) -> Handler:
    """What answers with a file of the page."""
    body, kind = path.read_bytes(), TYPES[path.suffix]

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve

"""`/`: the page, and the files that it is made of."""

from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from pipeline.gateway.errors import Problem
from pipeline.gateway.routing import Handler, Route

FOLDER = Path(__file__).parent.parent / "page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class PageRoutes:
    """The page needs no token: it asks for one, and shows nothing without."""

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return [
            Route("GET", path, served(name), {"summary": f"The page: {name}."}, is_open=True)
            for path, name in (
                ("/", "index.html"),
                ("/page.js", "page.js"),
                ("/page.css", "page.css"),
            )
        ]


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

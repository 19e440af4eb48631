"""`/openapi.json`: `schemas/openapi.json`, with the schemas of the Kafka records in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from orjson import dumps, loads

from sbic import __version__
from sbic.gateway.access import Route, json

HERE = Path(__file__).parent
FOLDERS = (HERE / "schema_files", HERE.parents[2] / "schemas")
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), FOLDERS[0])
"""In a package the schemas are beside this file, in a checkout in `schemas/`."""


def openapi() -> dict[str, Any]:
    """Return the document as it is served.

    >>> openapi()["components"]["schemas"]["Label"]["properties"]["task"]["$ref"]
    '#/components/schemas/Label/$defs/id'
    """
    document: dict[str, Any] = loads((FOLDER / "openapi.json").read_bytes())
    document["info"]["version"] = __version__
    found = [loads(path.read_bytes()) for path in sorted(FOLDER.glob("*.schema.json"))]
    records = {schema["title"]: embedded(schema, schema["title"]) for schema in found}
    document["components"]["schemas"] = records | document["components"]["schemas"]
    return document


def embedded(schema: Any, title: str) -> Any:
    """Get a schema as part of another document: without its id, references relative to the root."""
    if isinstance(schema, list):
        return [embedded(each, title) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: f"#/components/schemas/{title}{value[1:]}"
        if name == "$ref"
        else embedded(value, title)
        for name, value in schema.items()
        if name not in ("$schema", "$id")
    }


class DescriptionRoutes:
    """The document."""

    def __init__(self) -> None:
        self._document = dumps(openapi())

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/openapi.json", self.serve)]

    async def serve(self, _request: web.Request) -> web.Response:
        return json(self._document)

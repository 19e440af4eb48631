"""`/openapi.json`: all routes as OpenAPI 3.1, with the schemas of the Kafka records."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from orjson import dumps, loads

from sbic import __version__
from sbic.gateway.access import Route, json

Schema = Mapping[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
ERRORS = {
    400: "The query or the body cannot be read.",
    401: "The token is missing or not valid.",
    403: "The Host or the Origin is not allowed.",
    404: "There is no such task, worker or project.",
    408: "The body took too long.",
    413: "The body has more than 1 MB, or too many records.",
    415: "The Content-Type is not JSON.",
    422: "Records cannot be used; nothing was sent.",
    429: "Too many requests a second.",
    503: "Temporarily unavailable: try again after the seconds in Retry-After.",
}
GUARDED = (401, 403, 429)


def ref(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema, **more: Any) -> Schema:
    """An array of these items."""
    return {"type": "array", "items": items, **more}


def record(**fields: Schema) -> Schema:
    """An object with all of these fields."""
    return {"type": "object", "required": list(fields), "properties": fields}


def nullable(schema: Schema) -> Schema:
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def query(name: str, description: str, schema: Schema) -> Schema:
    """An optional parameter in the query."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


def in_path(name: str, description: str) -> Schema:
    """A parameter in the path."""
    schema = {"type": "string", "minLength": 1}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


PROJECT = query("project", "The prefix of a project; without it, the default one.", STRING)
PAGE = (
    query("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
    query("after", "`next` of the previous page.", STRING),
)


def operation(
    summary: str,
    answer: Schema | None,
    *parameters: Schema,
    errors: Sequence[int] = (),
    body: Mapping[str, Schema] | None = None,
    kind: str = "application/json",
) -> dict[str, Any]:
    """An operation: its answer, parameters, body, and the errors specific to it."""
    content = {kind: {"schema": answer or STRING}}
    described: dict[str, Any] = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            "200": {"description": summary, "content": content},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in errors},
        },
    }
    if body is not None:
        contents = {each: {"schema": schema} for each, schema in body.items()}
        described["requestBody"] = {"required": True, "content": contents}
    return described


# Loads the JSON Schemas: from `schemas/` in a checkout, beside this file in a package.


HERE = Path(__file__).parent
FOLDERS = (HERE / "schema_files", HERE.parents[2] / "schemas")


def load_schemas() -> dict[str, Any]:
    """All schemas by title, as `components/schemas` of an OpenAPI document.

    >>> label = load_schemas()["Label"]
    >>> label["properties"]["task"]["$ref"]
    '#/components/schemas/Label/$defs/id'
    """
    folder = next(folder for folder in FOLDERS if folder.is_dir())
    found = [loads(path.read_bytes()) for path in sorted(folder.glob("*.schema.json"))]
    return {schema["title"]: embedded(schema, schema["title"]) for schema in found}


def embedded(schema: Any, title: str) -> Any:
    """A schema as part of another document: without its id, references relative to the root."""
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


# `/openapi.json`: all routes as OpenAPI 3.1, with the schemas of the Kafka records.


ERROR = {
    "title": "Error",
    "description": "What to do, in one line. If records are bad, `problems` has the first 100 "
    "of them. If Kafka has acknowledged only some, `labels` or `tasks` has the place of each, "
    "or null.",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": STRING,
        "problems": array(record(index=INTEGER, reason=STRING)),
        "labels": array({"anyOf": [ref("Place"), {"type": "null"}]}),
        "tasks": array({"anyOf": [ref("Place"), {"type": "null"}]}),
    },
}
PLACE = {
    "title": "Place",
    "description": "The partition and offset of a record; a posterior counts it once its `sources` "
    "include them. The offset is null if it is not known, after a repeated delivery.",
    **record(partition=INTEGER, offset={"type": ["integer", "null"]}),
}
DESCRIPTION = (
    "Labels in, posteriors out. Ids in a path are percent-encoded. Ignore unknown fields: later "
    "versions may add some."
)


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = described(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sbic gateway", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {**load_schemas(), "Error": ERROR, "Place": PLACE},
            "responses": {str(status): error(status) for status in ERRORS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def described(route: Route) -> dict[str, Any]:
    """The operation of a route, with the errors common to all."""
    operation = {"operationId": operation_id(route), **route.operation}
    if route.is_open:
        return operation | {"security": []}
    common = {str(status): {"$ref": f"#/components/responses/{status}"} for status in GUARDED}
    return operation | {"responses": {**operation["responses"], **common}}


def operation_id(route: Route) -> str:
    """The operation id, a name for generated client code.

    >>> async def handler(_request): ...
    >>> operation_id(Route("GET", "/tasks/{task}", handler, {}))
    'getTasksTask'
    """
    words = "".join(c if c.isalnum() else " " for c in route.path).split()
    return route.method.lower() + "".join(map(str.capitalize, words))


def error(status: int) -> dict[str, Any]:
    """The response object of an error status."""
    found: dict[str, Any] = {
        "description": ERRORS[status],
        "content": {"application/json": {"schema": ref("Error")}},
    }
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"description": "Seconds.", "schema": INTEGER}}
    return found


# `/openapi.json`: the description of all routes.


class DescriptionRoutes:
    """Describes the routes that it is given, and itself."""

    def __init__(self, others: Sequence[Route]) -> None:
        self._document = dumps(openapi([*others, *self.routes()]))

    def routes(self) -> Sequence[Route]:
        """All of them."""
        about = operation("This document.", {"type": "object"})
        return [Route("GET", "/openapi.json", self.serve, about)]

    async def serve(self, _request: web.Request) -> web.Response:
        """The document."""
        return json(self._document)

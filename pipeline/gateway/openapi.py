"""`/openapi.json`: all routes as OpenAPI 3.1, with the schemas of the Kafka records."""

from collections.abc import Iterable
from typing import Any

from pipeline import __version__
from pipeline.gateway.describing import ERRORS, GUARDED, INTEGER, STRING, array, record, ref
from pipeline.gateway.routing import Route
from pipeline.gateway.schemas import load_schemas

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

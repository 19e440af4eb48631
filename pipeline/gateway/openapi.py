"""`/openapi.json`: all routes as OpenAPI 3.1, with the schemas of what goes over Kafka."""

from collections.abc import Iterable
from typing import Any

from pipeline import __version__
from pipeline.gateway.describing import ERRORS, GUARDED, INTEGER, STRING, array, record, ref
from pipeline.gateway.routing import Route
from pipeline.gateway.schemas import load_schemas

ERROR = {
    "title": "Error",
    "description": "What to do, in one line. Where records are bad, `problems` has the first 100 "
    "of them. Where Kafka has acknowledged only some, `labels` or `tasks` has the place of each, "
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
    "description": "Where Kafka has a record: `sources` of a posterior says when it was counted. "
    "After a delivery that was repeated the offset is not known, and null.",
    **record(partition=INTEGER, offset={"type": ["integer", "null"]}),
}
DESCRIPTION = (
    "Labels in, posteriors out. Ids in a path are percent-encoded. Ignore fields that you do not "
    "know: more may come."
)


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The document that describes these routes."""
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
    """The operation of a route, with the errors that all have."""
    operation = {"operationId": operation_id(route), **route.operation}
    if route.is_open:
        return operation | {"security": []}
    common = {str(status): {"$ref": f"#/components/responses/{status}"} for status in GUARDED}
    return operation | {"responses": {**operation["responses"], **common}}


def operation_id(route: Route) -> str:
    """A name for a client's function.

    >>> async def handler(_request): ...
    >>> operation_id(Route("GET", "/tasks/{task}", handler, {}))
    'getTasksTask'
    """
    words = "".join(c if c.isalnum() else " " for c in route.path).split()
    return route.method.lower() + "".join(map(str.capitalize, words))


def error(status: int) -> dict[str, Any]:
    """An error as a response of the document."""
    found: dict[str, Any] = {
        "description": ERRORS[status],
        "content": {"application/json": {"schema": ref("Error")}},
    }
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"description": "Seconds.", "schema": INTEGER}}
    return found

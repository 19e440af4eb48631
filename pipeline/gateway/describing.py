"""Building blocks of `/openapi.json`: schemas, parameters, operations and errors."""

from collections.abc import Mapping, Sequence
from typing import Any

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

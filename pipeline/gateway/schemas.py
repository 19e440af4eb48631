"""Loads the JSON Schemas: from `schemas/` in a checkout, beside this file in a package."""

from pathlib import Path
from typing import Any

from orjson import loads

HERE = Path(__file__).parent
FOLDERS = (HERE / "schema_files", HERE.parent.parent / "schemas")


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

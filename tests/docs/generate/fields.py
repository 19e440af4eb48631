"""The fields of a JSON Schema as the rows of a table."""

from collections.abc import Iterator
from typing import Any

from orjson import dumps

from tests.docs.generate.markdown import code

Schema = dict[str, Any]


def fields(schema: Schema, whole: Schema) -> Iterator[list[str]]:
    """A row for each field: name, type, whether it is required, and what it means."""
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        if field is False:
            continue  # only in another variant
        meaning = field.get("description") or _resolved(field, whole).get("description", "")
        is_required = "yes" if name in required else "no"
        yield [code(name), type_of(field, whole), is_required, meaning]


def variants(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The kinds of records that a schema tells apart, each with what it is called."""
    for variant in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
        found = _resolved(variant, schema)
        title = found.get("title")
        yield (f"*{title}*:" if title else found["description"]), found


def type_of(field: Schema, whole: Schema) -> str:
    """The type in words.

    >>> type_of({"type": "integer", "minimum": 0}, {})
    'integer, at least 0'
    >>> type_of({"anyOf": [{"enum": [1, None]}, {"type": "string", "maxLength": 9}]}, {})
    '`1`, `null`; or string of at most 9 characters'
    >>> type_of({"type": ["number", "null"], "exclusiveMinimum": 0}, {})
    'number, more than 0; or `null`'
    """
    found = {**_resolved(field, whole), **field}
    if "anyOf" in found:
        return "; or ".join(type_of(each, whole) for each in found["anyOf"])
    values = found.get("enum", [found["const"]] if "const" in found else [])
    if values:
        return ", ".join(code(dumps(value).decode()) for value in values)
    kinds = found.get("type", "any")
    kind, *others = [kinds] if isinstance(kinds, str) else kinds
    return "; or ".join([kind + _limits(found, whole), *map(code, others)])


def _limits(found: Schema, whole: Schema) -> str:
    if found.get("type") == "array":
        number = found.get("minItems", f"up to {found['maxItems']}")
        return f" of {number}: {type_of(found['items'], whole)}"
    if isinstance(values := found.get("additionalProperties"), dict) and "type" in values:
        return f" of {type_of(values, whole)}"
    if "maxLength" in found:
        least = f"{found['minLength']} to" if "minLength" in found else "at most"
        return f" of {least} {found['maxLength']} characters"
    least = _bound(found, "minimum", "at least", "exclusiveMinimum", "more than")
    most = _bound(found, "maximum", "at most", "exclusiveMaximum", "less than")
    return "".join(f", {bound}" for bound in (least, most) if bound)


def _bound(found: Schema, name: str, words: str, exclusive: str, exclusive_words: str) -> str:
    if name in found:
        return f"{words} {found[name]}"
    return f"{exclusive_words} {found[exclusive]}" if exclusive in found else ""


def _resolved(field: Schema, whole: Schema) -> Schema:
    """The schema that a reference within the document stands for."""
    if "$ref" not in field:
        return field
    found: Any = whole
    for part in field["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    resolved: Schema = found
    return resolved

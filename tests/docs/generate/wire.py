"""docs/reference/wire.md, from the topics, their schemas and the rights of each role."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from orjson import dumps, loads

from sbic.kafka.rights import READ, ROLES, WRITE, Operation
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from tests.docs.generate.markdown import code, fenced, page, table

SCHEMAS = Path(__file__).parent.parent.parent.parent / "schemas"
PREFIX = Settings().prefix
KIB = 1024
INTRODUCTION = f"""\
Any Kafka client in any language can take part. Values are JSON, keys are ids in UTF-8, and the
partitioner is murmur2, as in Kafka's Java client (`partitioner=murmur2_random` in librdkafka).

- Every name begins with the prefix of the project, `SBIC_PREFIX`; here it is `{PREFIX}`.
- An id is a string of 1 to 256 bytes. Unknown fields are ignored; clients should ignore them too.
- `true`, `1.0` and `"1"` are not labels; numbers that stand for classes are integers.
- A label, task, entry of the roster or request whose key is not its worker or task, or that another
  partitioner put into another partition, still counts: it is forwarded to the right partition, with
  its origin in the header `sbic.origin`.
- If a worker answers a task again, the first answer counts, or the last with `SBIC_REPEATS=last`,
  as if the other had never been given. A label of `null` takes the answer back in the same way.
- A `traceparent` header (W3C) on a label is carried to the posterior that counts it.
- Roles are those of [security.md](../security.md#roles-and-their-rights).

The [schemas](../../schemas/README.md) are JSON Schema 2020-12, and
[asyncapi.yaml](../../schemas/asyncapi.yaml) describes all topics as AsyncAPI 3.0. Partitions,
replication and retention below are the defaults; each is a [setting](settings.md).
"""
INTERNAL = """\
## Internal topics

Instances write these for themselves and for each other. Do not read them or write to them: their
format is versioned and may change. `answers` and `evidence` are changelogs: an instance that
takes over a partition recovers its state from them.
"""


def wire_page() -> str:
    """The page."""
    topics = list(Topics(Settings(flat=True)))
    public = [topic for topic in topics if topic.public]
    internal = [topic for topic in topics if not topic.public]
    rows = ([_link(topic), code(topic.key), _writers(topic), _kept(topic)] for topic in public)
    return page(
        "Topics and records",
        INTRODUCTION,
        table(["topic", "key", "written by", "kept"], rows),
        *(_section(topic) for topic in public),
        INTERNAL,
        table(
            ["topic", "written by", "kept", ""],
            (
                [code(topic.name), _writers(topic), _kept(topic), _description(topic)]
                for topic in internal
            ),
        ),
    )


def _section(topic: Topic) -> str:
    rows = [
        ["key", topic.key],
        ["written by", _writers(topic)],
        ["read by", ", ".join(_roles(topic, READ))],
        ["partitions", str(topic.partitions)],
        ["kept", _kept(topic)],
    ]
    if most := topic.config.get("max.message.bytes"):
        rows.append(["largest record", f"{int(most) // KIB:,} KiB"])
    parts = [f"## {topic.name}\n", f"{_description(topic)}\n", table(["", ""], rows)]
    if topic.schema is not None:
        parts += _record(topic.schema)
    else:
        parts += _headers()
    return "\n".join(parts)


def _record(kind: str) -> Iterable[str]:
    schema: Schema = loads((SCHEMAS / f"{kind}.schema.json").read_bytes())
    header = ["field", "type", "required", "meaning"]
    yield f"{schema['description']} ([{kind}.schema.json](../../schemas/{kind}.schema.json))\n"
    yield table(header, fields(schema, schema))
    for title, variant in variants(schema):
        yield f"{title}\n"
        yield table(header, fields(variant, schema))
    yield fenced("\n".join(dumps(example).decode() for example in schema["examples"]), "json")


def _headers() -> Iterable[str]:
    """What is in a dead letter besides the key and value that it had."""
    document: Any = yaml.safe_load((SCHEMAS / "asyncapi.yaml").read_text())
    message = document["components"]["messages"]["deadLetter"]
    yield " ".join(message["summary"].split()) + "\n"
    yield table(["header", "type", "required", "meaning"], fields(message["headers"], document))


def _name(topic: Topic) -> str:
    return topic.name.removeprefix(f"{PREFIX}.")


def _description(topic: Topic) -> str:
    """The docstring of the topic in `sbic.project.topics`."""
    text = getattr(Topics, _name(topic).replace("-", "_")).__doc__
    return " ".join(text.split())


def _link(topic: Topic) -> str:
    return f"[`{topic.name}`](#{topic.name.replace('.', '')})"


def _kept(topic: Topic) -> str:
    return topic.kept if topic.kept in ("forever", "compacted") else f"for {topic.kept}"


def _writers(topic: Topic) -> str:
    return ", ".join(_roles(topic, WRITE))


def _roles(topic: Topic, operation: Operation) -> list[str]:
    return [
        role
        for role, rights in ROLES.items()
        if any(
            right.operation is operation
            and right.resource == "topic"
            and (right.is_prefixed or right.name == _name(topic))
            for right in rights
        )
    ]


# The fields of a JSON Schema as the rows of a table.


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

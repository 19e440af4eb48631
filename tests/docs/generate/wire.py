"""docs/reference/wire.md, from the topics, their schemas and the rights of each role."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from orjson import dumps, loads

from sbic.kafka.rights import READ, ROLES, WRITE, Operation
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from tests.docs.generate.fields import Schema, fields, variants
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
    topics = list(Topics(Settings()))
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

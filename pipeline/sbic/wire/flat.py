"""Posteriors as flat records, each with its schema: sinks of Kafka Connect take them as they are.

The form is that of Connect's `JsonConverter` with `schemas.enable=true`. A nested field, such as
the probability of each class, would be no column of a table, so there is none.
"""

from collections.abc import Callable
from typing import Any

from orjson import dumps, loads

from sbic.classes import Classes

NAME = "sbic.posterior"
VERSION = 1
LATEST = 253_402_300_799_999  # the end of the year 9999: databases have none later
TIME = {"name": "org.apache.kafka.connect.data.Timestamp", "version": 1}

FlatEncoder = Callable[[bytes], bytes]


def _field(field: str, kind: str, *, optional: bool = False, **more: object) -> dict[str, object]:
    return {"field": field, "type": kind, "optional": optional, **more}


FIELDS = [
    _field("task", "string"),
    _field("prediction", "string", optional=True),
    _field("confidence", "double"),
    _field("labels", "int64"),
    _field("effective_votes", "double", optional=True),
    _field("status", "string"),
    _field("reason", "string", optional=True),
    _field("gold", "boolean"),
    _field("closed", "boolean"),
    _field("updated_at", "int64", optional=True, **TIME),
]
RATING = [
    _field("mean", "double"),
    _field("median", "string"),
    _field("interval_low", "string"),
    _field("interval_high", "string"),
]


def flat_encoder(classes: Classes) -> FlatEncoder:
    """Return a function that makes the flat record of the value of a posterior.

    >>> encode = flat_encoder(Classes.parse("cat,dog"))
    >>> loads(encode(b'{"task":"t1","prediction":"cat","confidence":0.75,"labels":2,'
    ...              b'"status":"open","updated_at":7}'))["payload"]["prediction"]
    'cat'
    """
    rating = RATING if classes.is_ordered else []
    schema = {
        "type": "struct",
        "fields": FIELDS + rating,
        "optional": False,
        "name": NAME,
        "version": VERSION,
    }
    head = b'{"schema":%b,"payload":' % dumps(schema)

    def encode(value: bytes) -> bytes:
        posterior = loads(value)
        payload = _payload(posterior)
        if rating:
            payload |= _rating(posterior)
        return b"%b%b}" % (head, dumps(payload))

    return encode


def _payload(posterior: dict[str, Any]) -> dict[str, object]:
    confidence = posterior.get("confidence")
    if confidence is None:  # of -1 and 1
        confidence = max(posterior["probability"], 1 - posterior["probability"])
    updated_at = posterior["updated_at"]
    return {
        "task": posterior["task"],
        "prediction": _text(posterior["prediction"] or None),  # 0 and null are ties
        "confidence": confidence,
        "labels": posterior["labels"],
        "effective_votes": posterior.get("effective_votes"),
        "status": posterior["status"],
        "reason": posterior.get("reason"),
        "gold": "gold" in posterior,
        "closed": posterior["status"] == "closed",
        "updated_at": updated_at if 0 <= updated_at <= LATEST else None,
    }


def _rating(posterior: dict[str, Any]) -> dict[str, object]:
    low, high = posterior["interval"]
    return {
        "mean": posterior["mean"],
        "median": _text(posterior["median"]),
        "interval_low": _text(low),
        "interval_high": _text(high),
    }


def _text(label: int | str | None) -> str | None:
    """Return a class as text in every project: the type of a column cannot depend on classes."""
    return None if label is None else str(label)

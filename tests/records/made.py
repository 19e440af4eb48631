"""Posteriors of single tasks, as tests expect them or publish them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from orjson import dumps

from sbic.classes import Classes
from sbic.client import Posterior
from sbic.engine.labels import sigmoid
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.posteriors import Posterior as ReadPosterior
from sbic.wire.posteriors import posterior_parser
from sbic.wire.rendering import rendering_of


@dataclass
class SentLabel:
    """A record of the labels topic."""

    value: bytes
    partition: int = 0
    offset: int = 0
    headers: tuple[object, ...] = ()


def posterior_of(
    task: str, log_odds: float, labels: int, sources: dict[str, int], updated_at: int
) -> Posterior:
    """The record of a task whose log-odds are `log_odds` after `labels` labels."""
    return {
        "task": task,
        "log_odds": log_odds,
        "probability": float(sigmoid(np.array(log_odds))),
        "prediction": 1 if log_odds > 0 else -1 if log_odds < 0 else 0,
        "labels": labels,
        "status": "open",
        "sources": sources,
        "updated_at": updated_at,
    }


def encode_posterior(posterior: Mapping[str, object]) -> bytes:
    """The value of a posterior's record, of either kind; its numbers come back to the last bit."""
    return dumps(posterior)


def named_posterior_of(
    classes: Classes,
    task: str,
    probabilities: Sequence[float],
    labels: int,
    sources: dict[str, int],
    updated_at: int,
    gold: int | None = None,
) -> Posterior:
    """The record of a task with these probabilities, in the order of the classes.

    Of gold, the number of whose class is given, they are what it would have otherwise.
    """
    evidence = by_name(classes, probabilities)
    known = evidence
    prediction: str | None
    if gold is None:
        confidence = max(probabilities)
        prediction = None
        if labels and probabilities.count(confidence) == 1:
            prediction = classes.names[probabilities.index(confidence)]
    else:
        confidence, prediction = 1.0, classes.names[gold]
        known = {**dict.fromkeys(classes.names, 0.0), prediction: 1.0}
    record: Posterior = {
        "task": task,
        "prediction": prediction,
        "confidence": confidence,
        "probabilities": known,
        "labels": labels,
        "status": "open",
        "sources": sources,
        "updated_at": updated_at,
    }
    if gold is not None:
        record["gold"] = True
        record["evidence"] = evidence
    return record


def comes_back(classes: Classes, record: Posterior) -> bool:
    """Whether what is read of a record is what it says, to the last bit."""
    found, form = parsed(classes, record), rendering_of(classes)
    belief: dict[str, object] = {"confidence": max(found.beliefs)}
    belief["probabilities"] = form.shares(found.beliefs)
    if classes.is_signs:
        belief = {"log_odds": found.log_odds, "probability": found.beliefs[1]}
    fields = {
        "task": found.task,
        "prediction": form.prediction(found.prediction),
        **belief,
        "labels": found.labels,
        "status": "open" if found.reason is None else "closed",
        "sources": found.sources,
        "updated_at": found.updated_at,
    }
    more = {"reason": found.reason, "effective_votes": found.effective_votes or None}
    fields |= {name: value for name, value in more.items() if value is not None}
    gold = ("gold" in record) == (found.evidence is not None)
    return gold and {name: record.get(name) for name in fields} == fields


def parsed(classes: Classes, posterior: Posterior) -> ReadPosterior:
    """A record as readers have it."""
    return posterior_parser(classes)(encode_posterior(posterior))


def by_name(classes: Classes, numbers: Sequence[float]) -> dict[str, float]:
    """Numbers in the order of the classes as they are on the wire."""
    return dict(zip(classes.names, numbers, strict=True))


# Why a record is refused.


def reason_of(parse: Callable[..., object], *record: bytes | None) -> Reason:
    """The reason; the sentence that goes with it is short, whatever was sent."""
    with pytest.raises(BadRecord) as bad:
        parse(*record)
    assert len(bad.value.message) < 500
    return bad.value.reason

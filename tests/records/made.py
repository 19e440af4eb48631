"""Posteriors of single tasks, as tests expect them or publish them."""

from collections.abc import Mapping, Sequence

import numpy as np
from orjson import dumps

from sbic.classes import Classes
from sbic.engine.labels import sigmoid
from sbic.wire.posteriors import NamedPosterior, Posterior


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
) -> NamedPosterior:
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
    record: NamedPosterior = {
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


def by_name(classes: Classes, numbers: Sequence[float]) -> dict[str, float]:
    """Numbers in the order of the classes as they are on the wire."""
    return dict(zip(classes.names, numbers, strict=True))

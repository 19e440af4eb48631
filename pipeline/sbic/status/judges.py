"""What a report on the judges of a running project is made of, from its topics."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sbic.classes import Classes
from sbic.engine.labels import Ids, Ints
from sbic.engine.state import StandingLabels
from sbic.infer.evidence import UNKNOWN, JudgeFacts, JuryEvidence
from sbic.kafka.connect import connected, new_consumer
from sbic.kafka.reader import readable
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import Standing, last_values, standing_labels
from sbic.status.reading import reading_flow
from sbic.wire.estimates import Findings
from sbic.wire.posteriors import posterior_parser
from sbic.wire.workers import MOST_PRICE, read_worker


class Contents(NamedTuple):
    """What the topics have: standing labels in columns, posteriors and workers as published.

    `skips` has a number for each worker.
    """

    classes: Classes
    task_names: Collection[str]
    worker_names: Collection[str]
    tasks: Ints
    workers: Ints
    answers: Ints
    skips: Collection[int]
    posteriors: Collection[bytes]
    worker_records: Collection[bytes]
    findings: Findings | None

    @classmethod
    def of(
        cls,
        standing: Standing,
        columns: Sequence[StandingLabels],
        posteriors: Collection[bytes],
        worker_records: Collection[bytes],
        findings: Findings | None,
    ) -> "Contents":
        """Return the standing labels in these columns, and the rest."""
        nothing = np.zeros(0, np.int64)
        labels = [np.concatenate(parts) for parts in zip(*columns, strict=True)] or [nothing] * 3
        return cls(
            standing.classes,
            tuple(standing.tasks.names),
            tuple(standing.workers.names),
            labels[0],
            labels[1],
            labels[2],
            tuple(standing.skips),
            posteriors,
            worker_records,
            findings,
        )


async def evidence_in(settings: Settings) -> JuryEvidence:
    """Return the evidence in the topics of a project now."""
    topics = Topics(settings)
    async with (
        connected(new_consumer(settings), settings) as asking,
        reading_flow(settings, asking) as flow,
    ):
        found = (await flow.activity(await flow.group())).findings
    standing = await standing_labels(settings)
    posteriors = await last_values(settings, topics.posteriors)
    workers = await last_values(settings, topics.workers)
    columns = list(standing.columns())
    return evidence_from(
        Contents.of(standing, columns, posteriors.values(), workers.values(), found)
    )


def evidence_from(found: Contents) -> JuryEvidence:
    """Return the evidence in these contents.

    Labels on tasks that have no posterior yet are left out: nothing is believed of them.
    """
    tasks, classes = Ids[str](), len(found.classes)
    tasks.numbers(list(found.task_names))
    beliefs = np.full((len(tasks) + len(found.posteriors), classes), 1 / classes)
    golds, votes = np.full(len(beliefs), UNKNOWN), np.zeros(len(beliefs))
    is_published = np.zeros(len(beliefs), np.bool_)
    parse = posterior_parser(found.classes)
    for value in found.posteriors:
        if posterior := readable(parse, value):
            i = tasks.number(posterior.task)
            is_gold = posterior.evidence is not None and posterior.prediction is not None
            beliefs[i] = posterior.evidence if is_gold else posterior.beliefs
            golds[i] = posterior.prediction if is_gold else UNKNOWN
            votes[i], is_published[i] = posterior.effective_votes, True
    is_counted = is_published[found.tasks]
    size, reported = len(tasks), found.findings
    return JuryEvidence(
        found.classes.names,
        tasks.names,
        found.tasks[is_counted],
        found.workers[is_counted],
        found.answers[is_counted],
        _facts(found),
        beliefs[:size],
        golds[:size],
        votes[:size] if votes.any() else None,
        reported.dependence if reported and votes.any() else None,
        (reported.wrong, reported.expected) if reported else None,
        reported.shares if reported and reported.shares.every.shape[1] == classes else None,
    )


def _facts(found: Contents) -> list[JudgeFacts]:
    records = {}
    for value in found.worker_records:
        if record := readable(read_worker, value):
            records[record["worker"]] = record
    each = zip(found.worker_names, found.skips, strict=True)
    names = found.classes.names
    return [_facts_of(worker, skips, records.get(worker), names) for worker, skips in each]


def _facts_of(
    worker: str, skips: int, record: Mapping[str, Any] | None, names: tuple[str, ...]
) -> JudgeFacts:
    if record is None:
        return JudgeFacts(worker, skips=skips)
    low, high = record["interval"]
    drifting, name, price = record.get("drifting"), record.get("name"), record.get("price")
    return JudgeFacts(
        worker,
        record["accuracy"],
        (low, high),
        _confusion_of(record.get("confusion"), names),
        skips,
        drifting if type(drifting) is int else None,
        record.get("contradicted") is True,
        name if type(name) is str else None,
        price if isinstance(price, int | float) and 0 <= price <= MOST_PRICE else None,
    )


def _confusion_of(value: Any, names: tuple[str, ...]) -> list[list[float]] | None:
    """Return the confusion matrix in a worker's record; None if it has none that can be read."""
    try:
        rows = [[value[true][said] for said in names] for true in names]
    except (TypeError, KeyError, IndexError):
        return None
    is_good = all(type(share) is float for row in rows for share in row)
    return rows if is_good else None

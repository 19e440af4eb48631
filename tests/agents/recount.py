"""Counts the votes offline; the posteriors have to agree with the result."""

from collections import Counter
from collections.abc import Iterable

import pytest

from sbic.classes import RETRACT
from sbic.wire.columns import Columns
from sbic.wire.votes import REPEAT, parse_votes
from tests.agents.kafka import ProjectOnBroker, Triple


async def recount(here: ProjectOnBroker) -> dict[str, tuple[int, float]]:
    """Labels and log-odds of each task, from all votes, counted or not, each once."""
    cast: dict[tuple[int, int], tuple[str, str, int, float]] = {}  # by partition and offset
    for topic in (here.topics.evidence, here.topics.votes):
        for record in await here.read(topic.name):
            if Columns(record.value).kind == "votes":
                votes = parse_votes(record.value, classes=2)
                places = ((votes.source, offset) for offset in votes.offsets.tolist())
                rows = zip(
                    *(votes.tasks, votes.workers, votes.answers.tolist(), votes.votes.tolist()),
                    strict=True,
                )
                for place, row in zip(places, rows, strict=True):
                    cast.setdefault(place, row)
    standing: dict[str, dict[str, float]] = {}
    for _, (task, worker, answer, vote) in sorted(cast.items()):
        labels = standing.setdefault(task, {})
        if answer == RETRACT:
            del labels[worker]
        elif answer != REPEAT:
            labels[worker] = vote
    return {task: (len(labels), sum(labels.values())) for task, labels in standing.items()}


async def agree_with_a_recount(here: ProjectOnBroker, triples: Iterable[Triple]) -> None:
    """Check that each label counts once, and that posteriors are the sums of the votes."""
    posteriors = await here.posteriors()
    labels = Counter(task for task, _, _ in triples)
    assert {task: posterior["labels"] for task, posterior in posteriors.items()} == labels
    for task, (count, log_odds) in (await recount(here)).items():
        assert posteriors[task]["labels"] == count
        assert posteriors[task]["log_odds"] == pytest.approx(log_odds, abs=1e-9)

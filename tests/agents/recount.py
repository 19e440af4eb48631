"""Counts the votes offline; the posteriors have to agree with the result."""

from collections import Counter
from collections.abc import Iterable

import pytest

from pipeline.classes import RETRACT
from pipeline.records.many_votes import parse_votes
from pipeline.records.votes import REPEAT
from tests.agents.kafka import Project, Triple


async def recount(here: Project) -> dict[str, tuple[int, float]]:
    """Labels and log-odds of each task, from the votes topic, each vote once."""
    standing: dict[str, dict[str, float]] = {}
    seen: dict[tuple[str, int], int] = {}
    for record in await here.read(here.topics.votes.name):
        votes = parse_votes(record.value, classes=2)
        numbers = (column.tolist() for column in (votes.answers, votes.offsets, votes.votes))
        for task, worker, answer, offset, vote in zip(
            votes.tasks, votes.workers, *numbers, strict=True
        ):
            if offset > seen.get((task, votes.source), -1):
                seen[task, votes.source] = offset
                labels = standing.setdefault(task, {})
                if answer == RETRACT:
                    del labels[worker]
                elif answer != REPEAT:
                    labels[worker] = vote
    return {task: (len(labels), sum(labels.values())) for task, labels in standing.items()}


async def agree_with_a_recount(here: Project, triples: Iterable[Triple]) -> None:
    """Check that each label counts once, and that posteriors are the sums of the votes."""
    posteriors = await here.posteriors()
    labels = Counter(task for task, _, _ in triples)
    assert {task: posterior["labels"] for task, posterior in posteriors.items()} == labels
    for task, (count, log_odds) in (await recount(here)).items():
        assert posteriors[task]["labels"] == count
        assert posteriors[task]["log_odds"] == pytest.approx(log_odds, abs=1e-9)

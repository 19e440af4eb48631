"""Counts the votes again, offline: what the posteriors have to agree with."""

from collections import Counter
from collections.abc import Iterable

import pytest

from pipeline.records.votes import parse_votes
from tests.agents.kafka import Project, Triple


async def recount(here: Project) -> dict[str, tuple[int, float]]:
    """Count all votes again, offline: labels and log-odds of each task, each vote once."""
    seen: set[tuple[str, int, int]] = set()
    totals: dict[str, tuple[int, float]] = {}
    for record in await here.read(here.topics.votes.name):
        source, votes = parse_votes(record.value)
        for task, _worker, _label, vote, labels, offset, _timestamp in votes:
            if (task, source, offset) not in seen:
                seen.add((task, source, offset))
                count, log_odds = totals.get(task, (0, 0.0))
                totals[task] = count + labels, log_odds + vote
    return totals


async def agree_with_a_recount(here: Project, triples: Iterable[Triple]) -> None:
    """Each label is in the posteriors once, and they are the sums of the votes."""
    posteriors = await here.posteriors()
    labels = Counter(task for task, _, _ in triples)
    assert {task: posterior["labels"] for task, posterior in posteriors.items()} == labels
    for task, (count, log_odds) in (await recount(here)).items():
        assert posteriors[task]["labels"] == count
        assert posteriors[task]["log_odds"] == pytest.approx(log_odds, abs=1e-9)

"""A summary of posteriors counts each task once, however often it changed."""

from random import Random

import pytest

from sbic.classes import SIGNS, Classes
from sbic.client import Posterior
from sbic.status.tallies import TaskTally
from tests.records.made import named_posterior_of, parsed, posterior_of


def test_only_the_last_posterior_of_each_task_counts() -> None:
    rng = Random(1)
    last: dict[str, Posterior] = {}
    tally = TaskTally()
    for _ in range(2000):
        task = f"t{rng.randrange(100)}"
        posterior = posterior_of(task, rng.gauss(0, 2), rng.randrange(9), {}, 0)
        if rng.random() < 0.3:
            posterior |= {"status": "closed", "reason": rng.choice(("labels", "confident"))}
        last[task] = posterior
        tally.add(parsed(SIGNS, posterior))
    tally.remove("t0")
    del last["t0"]
    records = list(last.values())
    assert len(tally) == len(records)
    assert tally.labels == sum(record["labels"] for record in records)
    assert tally.open == sum(record["status"] == "open" for record in records)
    assert sum(tally.closed.values()) == len(records) - tally.open
    assert tally.without_labels == sum(record["labels"] == 0 for record in records)
    doubts = [min(record["probability"], 1 - record["probability"]) for record in records]
    assert tally.expected_wrong == pytest.approx(sum(doubts))
    asked = [(1 - d, -r["labels"]) for d, r in zip(doubts, records, strict=True) if r["labels"] > 1]
    found = [(task.confidence, -task.labels) for task in tally.most_disputed(10)]
    assert found == sorted(asked)[:10]


def test_named_classes_and_gold() -> None:
    pets = Classes.parse("cat,dog,bird")
    tally = TaskTally()
    tally.add(parsed(pets, named_posterior_of(pets, "t1", [0.5, 0.25, 0.25], 3, {}, 0)))
    tally.add(parsed(pets, named_posterior_of(pets, "t2", [0.5, 0.25, 0.25], 3, {}, 0, gold=1)))
    assert tally.expected_wrong == 0.5
    assert tally.gold == 1
    (disputed,) = tally.most_disputed(10)
    assert (disputed.task, disputed.prediction, disputed.confidence) == ("t1", 0, 0.5)


def test_gold_says_how_far_the_expected_wrong_can_be_believed() -> None:
    pets, tally = Classes.parse("cat,dog"), TaskTally()
    assert tally.honesty.interval is None

    def add(number: int, sure: float, is_right: bool, is_gold: bool) -> None:
        shares = [sure, 1 - sure]
        gold = (0 if is_right else 1) if is_gold else None
        record = named_posterior_of(pets, f"t{number}", shares, 5, {}, 0, gold=gold)
        tally.add(parsed(pets, record))

    for number in range(400):
        add(number, 0.8, number % 5 > 0, number < 100)
    honest = tally.honesty
    assert (honest.gold, honest.gold_to_halve) == (100, 300)
    assert honest.interval is not None
    assert honest.interval[0] < 0.2 < honest.interval[1]
    assert honest.interval[1] - honest.interval[0] < 0.25
    assert not honest.is_contradicted
    for number in range(100):
        add(number, 0.98, number % 5 > 0, is_gold=True)
    assert tally.honesty.is_contradicted
    assert tally.honesty.expected == pytest.approx(2)

"""Task descriptions and stop rules apply exactly, also after a restart."""

from math import log
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.classes import Classes
from sbic.engine.labels import sigmoid
from sbic.instance.crowd import OPEN as IS_OPEN
from sbic.instance.tasks import StopRules
from sbic.wire.changelogs import encode_facts
from sbic.wire.tasks import Description
from tests.stages.lone_tasks import Event, LoneTasks
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import PRIOR, SimulatedProject
from tests.stages.test_stages import ANSWERS, Triple, agree, reference

PRIORS = st.floats(0.001, 0.999)
VOTES = st.floats(-5, 5).filter(bool)
FIELDS = {
    "prior": st.none() | PRIORS,
    "gold": st.sampled_from([1, -1, None]),
    "status": st.sampled_from(["open", "closed", None]),
}
DESCRIPTIONS = st.fixed_dictionaries({"task": st.just("t1")}, optional=FIELDS)
# A vote, or what a user says of the task.
EVENTS = st.lists(VOTES | DESCRIPTIONS, max_size=25)
RULES = st.tuples(st.none() | st.floats(0.6, 0.999), st.none() | st.integers(1, 8)).map(
    lambda rules: StopRules(*rules)
)


def logit(q: float) -> float:
    return log(q / (1 - q))


@given(st.lists(VOTES, max_size=6), st.lists(VOTES, max_size=6), PRIORS, PRIORS)
def test_a_prior_shifts_the_log_odds_by_the_difference_before_and_after_labels(
    before: list[float], after: list[float], first: float, second: float
) -> None:
    stage = LoneTasks()
    stage.feed([{"task": "t1", "prior": first}, *before, {"task": "t1", "prior": second}, *after])
    posterior = stage.posterior()
    assert posterior["log_odds"] == pytest.approx(logit(second) + sum(before + after), abs=1e-12)
    assert posterior["prior"] == second
    assert posterior["labels"] == len(before + after)
    stage.feed([{"task": "t1", "prior": None}], start=99)
    posterior = stage.posterior()
    assert posterior["log_odds"] == pytest.approx(PRIOR.log_odds + sum(before + after), abs=1e-12)
    assert "prior" not in posterior


@given(PRIORS)
def test_a_prior_before_labels_is_the_posterior_to_the_last_bit(prior: float) -> None:
    stage = LoneTasks()
    stage.feed([{"task": "t1", "prior": 0.9}, {"task": "t1", "prior": prior}])
    assert stage.posterior()["log_odds"] == logit(prior)
    assert stage.posterior()["labels"] == 0


@given(st.lists(VOTES, max_size=6), st.lists(VOTES, max_size=6), st.sampled_from([1, -1]))
def test_gold_is_certain_whatever_the_votes_and_withdrawn_leaves_them_all(
    before: list[float], during: list[float], gold: int
) -> None:
    stage = LoneTasks(StopRules(confidence=0.99, labels=20))
    events = [{"task": "t1", "gold": gold}, *before, *during]
    stage.feed(events)  # type: ignore[arg-type]
    posterior = stage.posterior()
    assert posterior["gold"] is True
    assert posterior["probability"] == (1.0 if gold == 1 else 0.0)
    assert posterior["prediction"] == gold
    assert posterior["status"] == "open"  # rules do not concern it
    plain = LoneTasks()
    plain.feed([*before, *during])
    withdrawn = LoneTasks(evidence=stage.evidence, generation=2)
    assert withdrawn.posterior() == posterior
    withdrawn.feed([{"task": "t1", "gold": None}], start=99)
    after = withdrawn.posterior()
    assert "gold" not in after
    assert after["log_odds"] == posterior["evidence"] == plain.posterior()["log_odds"]


@given(EVENTS, RULES)
def test_a_restart_anywhere_is_as_if_it_had_not_been(events: list[Event], rules: StopRules) -> None:
    continuing, restarted = LoneTasks(rules), LoneTasks(rules)
    for offset, event in enumerate(events):
        continuing.feed([event], offset)
        restarted.feed([event], offset)
        restarted = restarted.successor(rules, generation=offset + 2)
        assert restarted.posterior() == continuing.posterior()


@given(EVENTS, RULES, st.integers(0, 25))
def test_what_comes_again_after_a_crash_changes_nothing(
    events: list[Event], rules: StopRules, again_from: int
) -> None:
    stage = LoneTasks(rules)
    stage.feed(events)
    before, evidence = stage.posteriors(), list(stage.evidence)
    again = events[again_from:]
    stage.feed(again, start=len(events) - len(again))
    assert stage.posteriors() == before
    assert stage.evidence == evidence


@given(st.lists(VOTES, min_size=1, max_size=20), RULES)
def test_a_task_closes_with_the_first_label_at_which_a_rule_is_met(
    votes: list[float], rules: StopRules
) -> None:
    stage = LoneTasks(rules)
    met = None
    for offset, vote in enumerate(votes):
        stage.feed([vote], offset)
        posterior = stage.posterior()
        p = posterior["probability"]
        confident = rules.confidence is not None and max(p, 1 - p) >= rules.confidence
        enough = rules.labels is not None and posterior["labels"] >= rules.labels
        met = met or ("confident" if confident else "labels" if enough else None)
        assert posterior["status"] == ("closed" if met else "open")
        assert posterior.get("reason") == met
        assert posterior["labels"] == offset + 1  # a closed task's labels are counted


CLOSED, OPEN = {"status": "closed"}, {"status": "open"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ([], ("closed", "labels")),
        ([OPEN], ("open", None)),
        ([OPEN, OPEN], ("open", None)),
        ([OPEN, CLOSED], ("closed", "request")),
        ([OPEN, CLOSED, OPEN], ("open", None)),
        ([CLOSED], ("closed", "request")),
        ([OPEN, {"status": None}], ("closed", "labels")),  # the rules apply again
    ],
)
def test_a_reopened_task_stays_open_until_a_request_closes_it(
    status: list[dict[str, str]], expected: tuple[str, str | None]
) -> None:
    stage = LoneTasks(StopRules(labels=2))
    changes: list[Description] = [{"task": "t1", **change} for change in status]  # type: ignore[typeddict-item]
    stage.feed([0.5, 0.5, *changes, 0.5])
    posterior = stage.posterior()
    assert (posterior["status"], posterior.get("reason")) == expected
    assert posterior["labels"] == 3


def test_without_rules_everything_stays_open() -> None:
    stage = LoneTasks()
    stage.feed([5.0] * 100)
    assert stage.posterior()["status"] == "open"
    assert stage.apply_rules_to_all() == []


def test_when_the_budget_is_spent_open_tasks_close_and_gold_and_reopened_ones_do_not() -> None:
    stage = LoneTasks(StopRules(budget=2))
    for offset, task in enumerate(["gold", "reopened", "plain"]):
        stage.count(task, 0.5, offset)
    stage.describe({"task": "gold", "gold": 1}, 0)
    stage.describe({"task": "reopened", "status": "closed"}, 1)
    stage.describe({"task": "reopened", "status": "open"}, 2)
    assert stage.stage.check_budget()
    assert stage.apply_rules_to_all() == ["plain"]
    assert stage.apply_rules_to_all() == []
    assert stage.posterior("plain")["reason"] == "budget"
    stage.count("new", 0.5, 9)
    assert stage.posterior("new")["reason"] == "budget"


def test_rules_that_are_new_close_what_was_there_before() -> None:
    before = LoneTasks()
    before.feed([0.5, 0.5])
    after = LoneTasks(StopRules(labels=2), before.evidence, generation=2)
    assert after.apply_rules_to_all() == ["t1"]


def the_worker(instance: OneInstance, name: str) -> tuple[int, float, int, int]:
    worker = instance.worker(name)
    return worker["labels"], worker["correct"], worker["gold"], worker["gold_right"]


@given(st.lists(ANSWERS, min_size=1, max_size=30), st.integers(0, 29), st.booleans())
def test_answers_on_gold_are_counted_right_or_wrong_in_full(
    triples: list[Triple], gold_from: int, count_before: bool
) -> None:
    instance = OneInstance(Log(3))
    given: dict[tuple[str, str], int] = {}
    for number, triple in enumerate(triples):
        if number == min(gold_from, len(triples) - 1):
            instance.describe({"task": "t1", "gold": -1})
        instance.label(*triple)
        given.setdefault(triple[:2], triple[2] or 0)
        if count_before:
            instance.count()
    instance.count()
    posteriors = instance.results()
    assert posteriors["t1"]["log_odds"] == -1000
    assert posteriors["t1"]["gold"] is True
    for name in {worker for _, worker in given}:
        own = {task: label for (task, worker), label in given.items() if worker == name}
        labels, correct, gold, right = the_worker(instance, name)
        assert labels == len(own)
        assert (gold, right) == ("t1" in own, own.get("t1") == -1)
        log_odds = {task: posteriors[task]["log_odds"] for task in own}
        expected = sum(sigmoid(np.array([label * log_odds[task] for task, label in own.items()])))
        assert correct == pytest.approx(expected, abs=1e-9)


@given(st.lists(ANSWERS, min_size=1, max_size=30), st.integers(0, 29))
def test_gold_that_is_withdrawn_leaves_no_trace_without_votes_meanwhile(
    triples: list[Triple], gold_at: int
) -> None:
    instance = OneInstance(Log(3))
    for number, triple in enumerate(triples):
        if number == min(gold_at, len(triples) - 1):
            instance.describe({"task": "t1", "gold": 1})
            instance.describe({"task": "t1", "gold": None})
        instance.label(*triple)
    instance.count()
    agree(instance, reference(triples), triples)
    assert the_worker(instance, triples[0][1])[2:] == (0, 0)


@given(st.lists(ANSWERS, max_size=30), st.booleans())
def test_the_crowd_knows_the_labels_of_each_task_and_of_all(
    triples: list[Triple], count_each: bool
) -> None:
    instance = OneInstance(Log(3))
    crowd = instance.crowd
    for number, triple in enumerate(triples, 1):
        instance.label(*triple)
        if count_each:
            instance.count()
        assert instance.number_of_task(triple[0]) in crowd.changed
        answered = {pair[:2] for pair in triples[:number]}
        assert crowd.labels == len(answered)
        for task in {task for task, _ in answered}:
            [labels] = crowd.engine.label_counts(crowd.number_tasks([task]))
            assert labels == sum(task == name for name, _ in answered)


def test_a_closed_task_is_not_open_to_the_policy_and_a_reopened_one_is() -> None:
    instance = OneInstance(Log(1))
    seen = []
    statuses: tuple[Literal["closed", "open"], ...] = ("closed", "open")
    for status in statuses:
        instance.describe({"task": "t1", "status": status})
        seen.append(instance.crowd.task.reason[instance.number_of_task("t1")] == IS_OPEN)
    assert seen == [False, True]


def test_skips_are_remembered_reach_no_task_and_survive_a_restart() -> None:
    log = Log(1)
    instance = OneInstance(log)
    for triple in [("t1", "ann", 0), ("t2", "ann", 1), ("t2", "bob", 0), ("t1", "ann", 0)]:
        taken = instance.label(*triple)
        [[worker]] = taken.workers
        assert instance.crowd.workers.names[worker] == triple[1]
    instance.count()
    assert set(instance.results()) == {"t2"}
    log["workers"][0].clear()
    successor = OneInstance(log)
    assert {record.key for record in log["workers"][0]} == {b"ann", b"bob"}  # published again
    for running in (instance, successor):
        crowd = running.crowd
        skipped = {
            (crowd.workers.names[worker], crowd.tasks.names[task])
            for worker, tasks in crowd.skipped.items()
            for task in tasks
        }
        assert skipped == {("ann", "t1"), ("bob", "t2")}
        assert running.worker("ann")["labels"] == 1
        assert running.worker("ann")["last_seen"] == 3
    successor.count()
    assert set(successor.results()) == {"t2"}


def test_many_facts_are_several_records() -> None:
    tasks = LoneTasks(StopRules(budget=1))
    tasks.stage.facts_at_once = 2
    for offset in range(5):
        tasks.count(f"t{offset}", 0.5, offset)
    assert tasks.stage.check_budget()
    tasks.apply_rules_to_all()
    written = [facts for _, facts in tasks.stage.facts()]
    assert [len(facts.rows) for facts in written] == [2, 2, 1]
    assert {fact.reason for facts in written for fact in facts.rows} == {"budget"}


def test_restarts_publish_recent_tasks_again_and_write_little_for_it() -> None:
    first = LoneTasks()
    for offset in range(5):
        first.count(f"t{offset}", 0.5, offset)
    owner, names = first, {f"t{number}" for number in range(5)}
    for generation in range(2, 5):  # each crashes before it publishes anything
        owner = LoneTasks(evidence=owner.evidence, generation=generation)
        owner.stage.facts_at_once = 2
        assert {owner.crowd.tasks.names[i] for i in owner.crowd.moved()} == names
        written = [facts for _, facts in owner.stage.facts()]
        assert [(facts.rows, len(facts.recent)) for facts in written] == [([], 2), ([], 2), ([], 1)]
        owner.evidence += map(encode_facts, written)


@pytest.mark.parametrize("classes", ["-1,1", "cat,dog,bird"])
def test_a_task_closed_as_confident_opens_again_when_its_workers_turn_out_worse(
    classes: str,
) -> None:
    project = SimulatedProject(
        classes=Classes.parse(classes), algorithm="settled", rules=StopRules(confidence=0.9)
    )
    instance = OneInstance(Log(1), project=project)
    right, wrong, *_ = Classes.parse(classes).labels
    crowd = [f"w{number}" for number in range(5)]
    for number in range(30):  # ann and bob agree with all others
        for worker in ("ann", "bob", *crowd):
            instance.label(f"t{number}", worker, right if number % 2 else wrong)
    for worker in ("ann", "bob"):
        instance.label("disputed", worker, right)
    while instance.refresh():
        pass
    instance.publish_all()
    closed = instance.results()["disputed"]
    assert (closed["status"], closed["reason"]) == ("closed", "confident")
    for number in range(100, 165):  # and now only by chance; too few tasks to be exhausted
        for worker in crowd:
            instance.label(f"t{number}", worker, right if number % 4 < 2 else wrong)
        for worker in ("ann", "bob"):
            instance.label(f"t{number}", worker, right if number % 2 else wrong)
    while instance.refresh():
        pass
    instance.publish_all()
    assert instance.results()["disputed"]["status"] == "open"
    assert "reopened" not in instance.results()["disputed"]  # the rules apply to it

"""What users say of tasks, and the rules that close them: exactly as said, and after a restart."""

from collections.abc import Sequence
from itertools import pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records.posteriors import encode_posterior, parse_posterior
from pipeline.records.tasks import Description
from pipeline.stages.stop_rules import StopRules
from pipeline.stages.task_stage import NO_RULES, TaskStage
from tests.stages.simulated_kafka import PRIOR, Log, OneInstance, Triple
from tests.stages.test_stages import ANSWERS, agree, reference

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
RULES = st.builds(
    StopRules, st.none() | st.floats(0.6, 0.999), st.none() | st.integers(1, 8), st.none()
)


def logit(q: float) -> float:
    return log(q / (1 - q))


def new_stage(rules: StopRules = NO_RULES) -> TaskStage:
    stage = TaskStage(PRIOR.log_odds, rules)
    stage.open(0)
    return stage


def feed(stage: TaskStage, events: Sequence[float | Description], start: int = 0) -> None:
    """Let the stage have votes of one source, and descriptions, at successive offsets."""
    for offset, event in enumerate(events, start):
        if isinstance(event, float):
            stage.count(0, 0, [("t1", f"w{offset}", 1, event, 1, offset, offset)])
        else:
            stage.describe(0, event, offset, offset)


@given(st.lists(VOTES, max_size=6), st.lists(VOTES, max_size=6), PRIORS, PRIORS)
def test_a_prior_shifts_the_log_odds_by_the_difference_before_and_after_labels(
    before: list[float], after: list[float], first: float, second: float
) -> None:
    stage = new_stage()
    feed(stage, [{"task": "t1", "prior": first}, *before, {"task": "t1", "prior": second}, *after])
    posterior = stage.posterior(0, "t1")
    assert posterior["log_odds"] == pytest.approx(logit(second) + sum(before + after), abs=1e-12)
    assert posterior["prior"] == second
    assert posterior["labels"] == len(before + after)
    feed(stage, [{"task": "t1", "prior": None}], start=99)
    posterior = stage.posterior(0, "t1")
    assert posterior["log_odds"] == pytest.approx(PRIOR.log_odds + sum(before + after), abs=1e-12)
    assert "prior" not in posterior


@given(PRIORS)
def test_a_prior_before_labels_is_the_posterior_to_the_last_bit(prior: float) -> None:
    stage = new_stage()
    feed(stage, [{"task": "t1", "prior": 0.9}, {"task": "t1", "prior": prior}])
    assert stage.posterior(0, "t1")["log_odds"] == logit(prior)
    assert stage.posterior(0, "t1")["labels"] == 0


@given(st.lists(VOTES, max_size=6), st.lists(VOTES, max_size=6), st.sampled_from([1, -1]))
def test_gold_is_certain_whatever_the_votes_and_withdrawn_leaves_them_all(
    before: list[float], during: list[float], gold: int
) -> None:
    stage = new_stage(StopRules(confidence=0.99, labels=20))
    events = [{"task": "t1", "gold": gold}, *before, *during]
    feed(stage, events)  # type: ignore[arg-type]
    posterior = stage.posterior(0, "t1")
    assert posterior["gold"] is True
    assert posterior["probability"] == (1.0 if gold == 1 else 0.0)
    assert posterior["prediction"] == gold
    assert posterior["status"] == "open"  # rules do not concern it
    plain = new_stage()
    feed(plain, [*before, *during])
    withdrawn = new_stage()
    withdrawn.restore(0, parse_posterior(encode_posterior(posterior)))
    feed(withdrawn, [{"task": "t1", "gold": None}], start=99)
    after = withdrawn.posterior(0, "t1")
    assert "gold" not in after
    if before or during:
        assert after["log_odds"] == plain.posterior(0, "t1")["log_odds"]


@given(EVENTS, RULES)
def test_a_restart_anywhere_is_as_if_it_had_not_been(
    events: list[float | Description], rules: StopRules
) -> None:
    continuing, restarted = new_stage(rules), new_stage(rules)
    for offset, event in enumerate(events):
        feed(continuing, [event], offset)
        feed(restarted, [event], offset)
        posterior = restarted.posterior(0, "t1")
        restarted = new_stage(rules)
        restarted.restore(0, parse_posterior(encode_posterior(posterior)))
        assert restarted.posterior(0, "t1") == continuing.posterior(0, "t1")


@given(EVENTS, RULES, st.integers(0, 25))
def test_what_comes_again_after_a_crash_changes_nothing(
    events: list[float | Description], rules: StopRules, again_from: int
) -> None:
    stage = new_stage(rules)
    feed(stage, events)
    before = [stage.posterior(0, task) for task in stage.partitions[0]]
    again = events[again_from:]
    feed(stage, again, start=len(events) - len(again))
    assert [stage.posterior(0, task) for task in stage.partitions[0]] == before


@given(st.lists(VOTES, min_size=1, max_size=20), RULES)
def test_a_task_closes_with_the_first_label_at_which_a_rule_is_met(
    votes: list[float], rules: StopRules
) -> None:
    stage = new_stage(rules)
    met = None
    for offset, vote in enumerate(votes):
        feed(stage, [vote], offset)
        posterior = stage.posterior(0, "t1")
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
    stage = new_stage(StopRules(labels=2))
    changes: list[Description] = [{"task": "t1", **change} for change in status]  # type: ignore[typeddict-item]
    feed(stage, [0.5, 0.5, *changes, 0.5])
    posterior = stage.posterior(0, "t1")
    assert (posterior["status"], posterior.get("reason")) == expected
    assert posterior["labels"] == 3


def test_without_rules_everything_stays_open() -> None:
    stage = new_stage()
    feed(stage, [5.0] * 100)
    assert stage.posterior(0, "t1")["status"] == "open"
    assert stage.settle(0) == []


def test_when_the_budget_is_spent_open_tasks_close_and_gold_and_reopened_ones_do_not() -> None:
    stage = new_stage(StopRules(budget=2))
    for offset, task in enumerate(["gold", "reopened", "plain"]):
        stage.count(0, 0, [(task, "w", 1, 0.5, 1, offset, 0)])
    stage.describe(0, {"task": "gold", "gold": 1}, 0, 0)
    stage.describe(0, {"task": "reopened", "status": "closed"}, 1, 0)
    stage.describe(0, {"task": "reopened", "status": "open"}, 2, 0)
    stage.spent = True
    assert stage.settle(0) == ["plain"]
    assert stage.settle(0) == []
    assert stage.posterior(0, "plain")["reason"] == "budget"
    stage.count(0, 0, [("new", "w", 1, 0.5, 1, 9, 0)])
    assert stage.posterior(0, "new")["reason"] == "budget"


def test_rules_that_are_new_close_what_was_there_before() -> None:
    before = new_stage()
    feed(before, [0.5, 0.5])
    after = new_stage(StopRules(labels=2))
    after.restore(0, before.posterior(0, "t1"))
    assert after.settle(0) == ["t1"]


class Described(OneInstance):
    """An instance whose tasks are described, and whose view learns of it."""

    def describe(self, description: Description, offset: int) -> None:
        partition = self.view[description["task"]].partition
        self.tasks.describe(partition, description, offset, 0)
        self.publish(partition, description["task"])


def the_worker(instance: OneInstance, name: str) -> tuple[int, float, int, int]:
    for state in instance.workers.partitions.values():
        if name in state.workers:
            worker = state.workers[name]
            return worker.labels, worker.correct, worker.gold, worker.gold_right
    raise KeyError(name)


@given(st.lists(ANSWERS, min_size=1, max_size=30), st.integers(0, 29), st.booleans())
def test_answers_on_gold_are_counted_right_or_wrong_in_full(
    triples: list[Triple], gold_from: int, count_before: bool
) -> None:
    kafka = Log(3)
    instance = Described(kafka)
    given: dict[tuple[str, str], int] = {}
    for number, triple in enumerate(triples):
        if number == min(gold_from, len(triples) - 1):
            instance.describe({"task": "t1", "gold": -1}, 0)
        partition = kafka.produce(*triple)
        instance.take(partition, kafka.labels[partition][-1:])
        given.setdefault(triple[:2], triple[2] or 0)
        if count_before:
            instance.count()
    instance.count()
    assert instance.view["t1"].log_odds == -1000
    assert instance.view["t1"].gold == -1
    for name in {worker for _, worker in given}:
        own = {task: label for (task, worker), label in given.items() if worker == name}
        labels, correct, gold, right = the_worker(instance, name)
        assert labels == len(own)
        assert (gold, right) == ("t1" in own, own.get("t1") == -1)
        log_odds = {task: instance.view[task].log_odds for task in own}
        agreement = instance.view.model.agreement
        expected = sum(agreement(label, log_odds[task]) for task, label in own.items())
        assert correct == pytest.approx(expected, abs=1e-9)


@given(st.lists(ANSWERS, min_size=1, max_size=30), st.integers(0, 29))
def test_gold_that_is_withdrawn_leaves_no_trace_where_nobody_voted_meanwhile(
    triples: list[Triple], gold_at: int
) -> None:
    kafka = Log(3)
    instance = Described(kafka)
    for number, triple in enumerate(triples):
        if number == min(gold_at, len(triples) - 1):
            instance.describe({"task": "t1", "gold": 1}, 0)
            instance.describe({"task": "t1", "gold": None}, 1)
        partition = kafka.produce(*triple)
        instance.take(partition, kafka.labels[partition][-1:])
    instance.count()
    agree(instance, reference(triples), triples)
    assert the_worker(instance, triples[0][1])[2:] == (0, 0)


@given(st.lists(ANSWERS, max_size=30), st.booleans())
def test_the_view_knows_the_labels_of_each_task_and_of_all(
    triples: list[Triple], count_each: bool
) -> None:
    kafka = Log(3)
    instance = OneInstance(kafka)
    instance.view.changed = {}
    for number, triple in enumerate(triples, 1):
        instance.take(partition := kafka.produce(*triple), kafka.labels[partition][-1:])
        if count_each:
            instance.count()
        assert triple[0] in instance.view.changed
        answered = {pair[:2] for pair in triples[:number]}
        assert instance.view.labels == len(answered)
        for task, belief in instance.view.beliefs.items():
            assert belief.labels == sum(task == name for name, _ in answered)
    instance.view.changed.clear()
    instance.count()
    published = {posterior["task"] for posterior in instance.results().values()}
    assert count_each or set(instance.view.changed) == published


def test_a_closed_task_is_not_open_in_the_view_and_a_reopened_one_is() -> None:
    instance = Described(Log(1))
    seen = []
    for offset, status in enumerate(["closed", "open"]):
        instance.describe({"task": "t1", "status": status}, offset)  # type: ignore[typeddict-item]
        seen.append(instance.view["t1"].open)
    assert seen == [False, True]


def test_skips_are_remembered_reach_no_task_and_survive_a_restart() -> None:
    kafka = Log(1)
    instance = OneInstance(kafka)
    for triple in [("t1", "ann", 0), ("t2", "ann", 1), ("t2", "bob", 0), ("t1", "ann", 0)]:
        taken = instance.take(kafka.produce(*triple), kafka.labels[0][-1:])
        assert [worker.name for worker in taken.workers] == [triple[1]]
    instance.count()
    assert set(instance.results()) == {"t2"}
    assert "t1" not in instance.view.beliefs
    successor = OneInstance(kafka)
    successor.recover()
    late = successor.workers.partitions[0].restored_of_late()
    assert sorted(worker.name for worker in late) == ["ann", "bob"]
    for running in (instance, successor):
        workers = running.workers.partitions[0].workers
        assert workers["ann"].skipped == {"t1"}
        assert workers["ann"].labels == 1
        assert workers["ann"].last_seen == 3
        assert workers["bob"].skipped == {"t2"}
    successor.count()
    assert set(successor.results()) == {"t2"}


def test_of_two_posteriors_the_one_that_heeds_more_of_the_tasks_topic_is_the_newer() -> None:
    stage = new_stage()
    feed(stage, [0.5, {"task": "t1", "prior": 0.2}, {"task": "t1", "prior": 0.3}])
    newest = stage.posterior(0, "t1")
    older = {**newest, "sources": {"0": 0, "tasks": 1}}
    for first, second in pairwise([older, newest, older]):
        other = new_stage()
        assert other.restore(0, first)  # type: ignore[arg-type]
        assert other.restore(0, second) is (first is older)  # type: ignore[arg-type]

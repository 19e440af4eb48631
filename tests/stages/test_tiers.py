"""Tiers: cheap workers first, then dear ones, and a budget in money."""

import pytest

from sbic.instance.requests import Rules
from sbic.instance.survey import Survey, Surveyor
from sbic.instance.tasks import StopRules
from sbic.wire.workers import RosterEntry, units_of
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedCluster, SimulatedMember
from tests.stages.simulated.project import SimulatedProject

ESCALATE = Rules(policy="escalate")
RULES = StopRules(confidence=0.9, escalates=True)
JUDGES = "big", "mid", "small"
CHEAP, DEAR = RosterEntry(tier=1, price=0.01), RosterEntry(tier=3, price=2.0)


def project(rules: StopRules = RULES) -> SimulatedProject:
    return SimulatedProject("settled", rules=rules)


def jury(rules: StopRules = RULES, tasks: int = 1) -> AssigningInstance:
    """Three judges of tier 1 and a person of tier 3; nobody is of tier 2."""
    assigning = AssigningInstance(ESCALATE, project=project(rules))
    for judge in JUDGES:
        assigning.instance.enlist_worker(judge, CHEAP)
    assigning.instance.enlist_worker("ann", DEAR)
    assigning.describe({"task": f"t{number}"} for number in range(tasks))
    survey(assigning)
    return assigning


def survey(assigning: AssigningInstance, rules: Rules = ESCALATE) -> None:
    """As the app does in the background."""
    instance = assigning.instance
    surveyor = Surveyor(instance.tasks, rules.block_below, rules.block_after)
    for tasks in surveyor.steps(Survey.empty(2)):
        instance.instance.review(tasks)
    instance.flush()


def got(assigning: AssigningInstance, worker: str) -> str:
    [given] = assigning.ask(worker)
    return str(given["task"] or given["reason"])


def reason(assigning: AssigningInstance, task: str) -> str | None:
    found: str | None = assigning.log.posteriors()[task].get("reason")
    return found


def test_a_task_goes_to_the_next_tier_when_nobody_is_left_and_closes_after_the_last() -> None:
    assigning = jury()
    assert got(assigning, "ann") == "other-tier"
    for judge, label in zip(JUDGES, (1, -1, 1), strict=True):
        assert got(assigning, judge) == "t0"
        assert got(assigning, "ann") == "other-tier"
        assigning.hand_in(judge, "t0", label)
    assert got(assigning, "ann") == "t0"
    assigning.hand_in("ann", "t0", -1)
    assert reason(assigning, "t0") == "escalated"
    assert got(assigning, "ann") == "no-open-task"


def test_who_has_answered_what_came_so_far_is_told_that_more_may_come() -> None:
    assigning = jury(tasks=2)
    for judge in JUDGES:
        assigning.hand_in(judge, "t0", 1 if judge == "mid" else -1)
    assert got(assigning, "ann") == "t0"  # and ann does not answer yet
    assert got(assigning, "ann") == "other-tier"  # not all-answered: t1 is with the judges
    for judge in JUDGES:
        assigning.hand_in(judge, "t1", 1 if judge == "mid" else -1)
    assert got(assigning, "ann") == "t1"
    assert got(assigning, "ann") == "all-answered"


def test_what_cheap_judges_are_sure_of_costs_no_more() -> None:
    assigning = jury(RULES._replace(confidence=0.6))
    for judge in JUDGES[:2]:
        assert got(assigning, judge) == "t0"
        assigning.hand_in(judge, "t0", 1)
    assert reason(assigning, "t0") == "confident"
    assert got(assigning, "ann") == "no-open-task"


def test_a_tier_gives_no_more_labels_than_it_may_also_when_all_ask_at_once() -> None:
    assigning = jury(RULES._replace(tier_labels=2))
    asked = [got(assigning, judge) for judge in JUDGES]
    assert asked == ["t0", "t0", "other-tier"] or asked == ["t0", "t0", "no-open-task"]
    assigning.hand_in("big", "t0", 1)
    assert got(assigning, "ann") != "t0"
    assigning.hand_in("mid", "t0", -1)
    assert got(assigning, "small") == "other-tier"
    assert got(assigning, "ann") == "t0"


def test_a_skip_leaves_nobody_as_a_label_does_and_a_retraction_brings_the_tier_back() -> None:
    assigning = jury()
    assigning.hand_in("big", "t0", 0)
    assigning.hand_in("mid", "t0", 1)
    assigning.hand_in("small", "t0", -1)
    survey(assigning)
    assert got(assigning, "ann") == "t0"
    assigning.hand_in("small", "t0", None)
    survey(assigning)
    assert got(assigning, "small") == "t0"


@pytest.mark.parametrize("entry", [CHEAP._replace(blocked=True), None, CHEAP._replace(tier=3)])
def test_who_may_not_answer_is_not_waited_for(entry: RosterEntry | None) -> None:
    assigning = jury()
    assigning.hand_in("big", "t0", 1)
    assigning.hand_in("mid", "t0", -1)
    assert got(assigning, "ann") == "other-tier"
    assigning.instance.enlist_worker("small", entry)
    survey(assigning)
    assert got(assigning, "ann") == "t0"


def test_whom_the_rule_blocks_is_not_waited_for() -> None:
    rules = Rules(policy="escalate", block_below=0.5, block_after=5)
    assigning = jury(tasks=1)
    assigning.describe({"task": f"gold{number}", "gold": 1} for number in range(8))
    for number in range(8):
        assigning.hand_in("small", f"gold{number}", -1)
    assigning.hand_in("big", "t0", 1)
    assigning.hand_in("mid", "t0", -1)
    survey(assigning)
    assert got(assigning, "ann") == "other-tier"
    for _ in range(2):  # the first finds who is blocked
        survey(assigning, rules)
    assert got(assigning, "ann") == "t0"


def test_an_open_crowd_always_has_somebody_left_until_its_labels_are_used_up() -> None:
    assigning = AssigningInstance(ESCALATE, project=project(RULES._replace(tier_labels=4)))
    assigning.instance.enlist_worker("ann", DEAR)
    assigning.describe([{"task": "t0"}])
    for number in range(4):
        assert got(assigning, "ann") == "other-tier"
        assert got(assigning, f"w{number}") == "t0"
        assigning.hand_in(f"w{number}", "t0", 1 if number % 2 else -1)
    assert got(assigning, "ann") == "t0"


def test_another_tier_opens_what_was_escalated() -> None:
    assigning = jury()
    for worker, label in zip((*JUDGES, "ann"), (1, -1, 1, -1), strict=True):
        assigning.hand_in(worker, "t0", label)
    assert reason(assigning, "t0") == "escalated"
    assigning.instance.enlist_worker("bob", RosterEntry(tier=9))
    survey(assigning)
    assert reason(assigning, "t0") is None
    assert got(assigning, "bob") == "t0"


def test_a_reopened_task_goes_to_the_last_tier_once_all_are_used_up() -> None:
    assigning = jury()
    for worker, label in zip((*JUDGES, "ann"), (1, -1, 1, -1), strict=True):
        assigning.hand_in(worker, "t0", label)
    assigning.describe([{"task": "t0", "status": "open"}])
    assigning.instance.enlist_worker("bob", DEAR._replace(blocked=True))
    survey(assigning)
    assert got(assigning, "big") == "other-tier"
    assert got(assigning, "ann") == "all-answered"


def test_money_is_spent_by_the_label_and_the_budget_closes_every_task() -> None:
    assigning = jury(RULES._replace(cost=units_of(2.02)), tasks=2)
    crowd = assigning.instance.crowd
    assigning.hand_in("big", "t0", 1)
    assigning.hand_in("mid", "t0", 0)  # a skip costs nothing
    assert crowd.spent == units_of(0.01)
    assigning.hand_in("ann", "t0", -1)
    assert crowd.spent == units_of(2.01)
    assert reason(assigning, "t1") is None
    assigning.hand_in("small", "t1", -1)
    assert {reason(assigning, task) for task in ("t0", "t1")} == {"budget"}
    assigning.instance.enlist_worker("ann", DEAR._replace(price=1.0))  # also for what was given
    assert crowd.spent == units_of(1.02)
    assigning.hand_in("big", "t0", None)
    assert crowd.spent == units_of(1.01)


def test_the_refusal_says_that_the_money_is_spent() -> None:
    rules = Rules(policy="escalate", cost=units_of(0.01))
    assigning = AssigningInstance(rules, project=project(RULES._replace(cost=units_of(0.01))))
    assigning.instance.enlist_worker("big", CHEAP)
    assigning.describe([{"task": "t0"}, {"task": "t1"}])
    assigning.hand_in("big", "t0", 1)
    assert got(assigning, "big") == "budget-spent"


def test_a_successor_knows_tiers_and_money() -> None:
    assigning = jury()
    for judge, label in zip(JUDGES, (1, -1, 0), strict=True):
        assigning.hand_in(judge, "t0", label)
    assigning = assigning.successor(ESCALATE)
    assert assigning.instance.crowd.spent == units_of(0.02)
    assert got(assigning, "big") == "other-tier"
    assert got(assigning, "ann") == "t0"


def test_each_instance_knows_roster_skips_and_money_of_all_also_after_a_crash() -> None:
    log = Log(4)
    cluster = SimulatedCluster(log, project())
    members = [SimulatedMember(log, project()) for _ in range(2)]
    cluster.rebalance(members, [0, 1, 0, 1])
    for judge in JUDGES:
        log.enlist(judge, CHEAP)
    log.enlist("ann", DEAR)
    tasks = [f"t{number}" for number in range(8)]
    for task in tasks:
        log.describe({"task": task})
        for judge, label in zip(JUDGES, (1, -1, 0), strict=True):
            log.produce(task, judge, label)
    log.produce("t0", "ann", 1)

    def check() -> None:
        for _ in range(2):
            for member in cluster.members:
                member.survey()
            cluster.settle()
        for member in cluster.members:
            crowd = member.crowd
            assert crowd.spent == units_of(2.16)
            assert crowd.standings.members[[1, 3]].tolist() == [3, 1]
            numbers = crowd.number_tasks(tasks)
            assert crowd.task.tier[numbers].tolist() == [0, *[3] * 7]

    cluster.settle()
    check()
    cluster.rebalance([members[1]], [0] * 4)  # the other has crashed
    check()
    cluster.rebalance([members[1], SimulatedMember(log, project())], [0, 1, 1, 0])
    check()

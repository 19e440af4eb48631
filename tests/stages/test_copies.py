"""Copies share a vote in the stream, wherever their tasks are, as in the offline computation."""

import random
from typing import Any

import pytest
from orjson import loads

from sbic.instance.survey import Survey, Surveyor
from sbic.wire.columns import Columns
from sbic.wire.workers import RosterEntry
from tests.stages.published import ExpectedResults, Offline, check_rest
from tests.stages.schedules import FOUR, GOOD_CROWD, PARTITIONS, WORKERS, Schedule
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedCluster, SimulatedMember
from tests.stages.simulated.project import SimulatedProject

TASKS = 60
COPIES = {"bob": "ann", "eve": "ann", "kim": "fay"}
DIFFERS = {"bob": 0.0, "eve": 0.02, "kim": 0.0}
STEPS = ["take", "take", "count", "heed", "hear", "refresh", "publish"]
FAULTS = ["crash", "stall", "wake", "join", "leave", "move"]


def labels(rng: random.Random) -> list[tuple[Any, ...]]:
    """Labels in random order, some of them of copies; a few are taken back."""
    given: dict[tuple[str, str], Any] = {}
    for number in range(TASKS):
        task, truth = f"t{number}", rng.choice(FOUR.labels)
        for worker in sorted(WORKERS, key=COPIES.__contains__):
            of = COPIES.get(worker)
            if rng.random() < 0.9 and (of is None or (task, of) in given):
                is_own = of is None or rng.random() < DIFFERS[worker]
                says = truth if rng.random() < 0.7 else rng.choice(FOUR.labels)
                given[task, worker] = says if is_own else given[task, of]  # type: ignore[index]
    found = [("label", task, worker, label) for (task, worker), label in given.items()]
    rng.shuffle(found)
    return found + [("label", *event[1:3], None) for event in rng.sample(found, 8)]


def fault(rng: random.Random) -> tuple[Any, ...]:
    verb, number = rng.choice(FAULTS), rng.randrange(999)
    owners = [rng.randrange(6) for _ in range(PARTITIONS)]
    if verb == "crash":
        return verb, number, rng.randrange(999), owners
    if verb in ("stall", "wake"):
        return verb, number, rng.random() < 0.5, owners
    return (verb, number, owners) if verb == "leave" else (verb, owners)


def events(rng: random.Random) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for label in labels(rng):
        found.append(label)
        if rng.random() < 0.6:
            found.append((rng.choice(STEPS), rng.randrange(999), rng.randrange(999), 9))
        if rng.random() < 0.05:
            found.append(fault(rng))
    return found


@pytest.mark.parametrize("instances", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_copies_share_a_vote_whatever_happens_on_the_way(seed: int, instances: int) -> None:
    rng = random.Random(10 * seed + instances)
    project = SimulatedProject("settled", FOUR, prior=GOOD_CROWD, common=12)
    schedule = Schedule(project, instances)
    schedule.run(events(rng))
    schedule.end()
    expected = ExpectedResults(schedule.log, project)
    check_rest(schedule.log, expected, FOUR, project.common)
    offline = Offline(expected, FOUR, project.common)
    found = offline.engine.tally.copies
    copies = {(WORKERS[j], WORKERS[k]) for j, k in zip(found.first, found.second, strict=True)}
    assert {("ann", "bob"), ("bob", "ann"), ("fay", "kim")} <= copies
    for member in (member for member in schedule.cluster.members if member.partitions):
        names, found = member.crowd.workers.names, member.crowd.engine.tally.copies
        pairs = {(names[j], names[k]) for j, k in zip(found.first, found.second, strict=True)}
        assert pairs == copies
    check_records(schedule, expected)


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_a_group_shares_votes_as_far_as_it_agrees_whatever_happens_on_the_way(
    instances: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DIFFERS, "eve", 0.3)  # they agree on .85 to .95: too little for a copy
    rng = random.Random(instances)
    project = SimulatedProject("settled", FOUR, prior=GOOD_CROWD, common=12)
    schedule, happens = Schedule(project, instances), events(rng)
    for worker, group in (("eve", "f"), ("ann", "f"), ("gus", "g"), ("ida", "g"), ("gus", None)):
        place = rng.randrange(len(happens)) if group else len(happens)
        happens.insert(place, ("say", worker, RosterEntry(group=group)))
    schedule.run(happens)
    schedule.end()
    check_rest(schedule.log, ExpectedResults(schedule.log, project), FOUR, project.common)

    def shared() -> list[float]:
        return [
            float(found.shared[place])
            for member in schedule.cluster.members
            if member.partitions
            for found in [member.crowd.engine.tally.copies]
            for names in [member.crowd.workers.names]
            for place in range(len(found.first))
            if (names[found.first[place]], names[found.second[place]]) == ("ann", "eve")
        ]

    owners = sum(bool(member.partitions) for member in schedule.cluster.members)
    assert len(shared()) == owners
    assert 0 < min(shared()) == max(shared()) < 1
    schedule.say("eve", None)
    schedule.end()
    check_rest(schedule.log, ExpectedResults(schedule.log, project), FOUR, project.common)
    assert shared() == []


def check_records(schedule: Schedule, expected: ExpectedResults) -> None:
    """Check what the last records of workers say of the others they agree with."""
    answers = {(task, worker): label.answer for (task, worker), label in expected.standing.items()}
    tasks = {task for task, _ in answers}
    contested = [i for i in tasks if len({x for (t, _), x in answers.items() if t == i}) > 1]
    records = [record for part in schedule.log["workers"] for record in part]
    last = {record.key: loads(record.value or b"") for record in records}
    for worker, closest in (("ann", {"bob", "eve"}), ("bob", {"ann", "eve"}), ("kim", {"fay"})):
        told = last[worker.encode()]["agrees_with"]
        assert {one["worker"] for one in told[: len(closest)]} == closest
        for one in told:
            pairs = [
                (answers[i, worker], answers[i, one["worker"]])
                for i in contested
                if (i, worker) in answers and (i, one["worker"]) in answers
            ]
            same = sum(x == y for x, y in pairs)
            assert one["tasks"] == len(pairs)
            assert one["agreement"] == same / len(pairs)
            assert one["shared"] == pytest.approx(max(20 * same / len(pairs) - 19, 0), abs=1e-9)
            assert 0 <= one["errors_alike"] <= 1


def test_a_successor_may_hear_of_shared_votes_before_its_labels_are_restored() -> None:
    project = SimulatedProject("settled", FOUR, prior=GOOD_CROWD, common=12)
    schedule = Schedule(project, 2)
    cluster, log = schedule.cluster, schedule.log
    cluster.rebalance(cluster.members, [0, 1, 0, 1])
    for _, task, worker, label in labels(random.Random(2)):
        log.produce(task, worker, label)
    cluster.settle()
    stays, leaves = cluster.members
    for member in (stays, leaves):
        member.flush()
        member.commit()
    leaves.is_member = False
    follows = SimulatedMember(log, project)
    cluster.members = [stays, follows]
    stays.assign({0, 2})
    follows.assign({1, 3})
    for member in cluster.members:  # the first publishes everything before the second is restored
        follows.hear_all()
        member.restore_all()
        member.workers_ready()
        member.tasks_ready(9)
        member.count_unread()
        member.flush()
    assert not follows.exchange.early_shares
    cluster.settle()
    check_rest(log, ExpectedResults(log, project), FOUR, project.common)


def test_instances_tell_of_pairs_only_when_they_change() -> None:
    project = SimulatedProject("settled", FOUR, prior=GOOD_CROWD, common=12)
    schedule = Schedule(project, 2)
    schedule.run(events(random.Random(1)))
    schedule.end()

    def told() -> int:
        records = [record for part in schedule.log["estimates"] for record in part]
        return sum(Columns(record.value).kind == "pairs" for record in records)

    before = told()
    assert before > 1
    schedule.cluster.settle()
    assert told() == before


# A worker who answers otherwise than before is marked, and a successor keeps the mark.


JUDGES = ["ann", "bob", "eve", "fay", "gus", "ida"]
TURNED = 250  # the task from which ann guesses


def answer(cluster: SimulatedCluster, tasks: range) -> None:
    for number in tasks:
        rng = random.Random(number)
        truth = rng.choice(FOUR.labels)
        for worker in JUDGES:
            guesses = worker == "ann" and number >= TURNED
            knows = rng.random() < 0.85 and not guesses
            label = truth if knows else rng.choice(FOUR.labels)
            cluster.log.produce(f"t{number}", worker, label)
        if number % 10 == 9:
            cluster.settle()
    cluster.settle()


def records(log: Log) -> dict[str, dict[str, object]]:
    """The last record of each worker."""
    found = [loads(record.value or b"") for part in log["workers"] for record in part]
    return {record["worker"]: record for record in found}


def drifting(members: list[SimulatedMember]) -> int:
    found = 0
    for member in members:
        survey = Survey.empty(len(FOUR))
        for _ in Surveyor(member.tasks).steps(survey):
            pass
        found += survey.drifting_workers
    return found


def test_a_worker_who_drifts_is_marked_and_successors_know_it() -> None:
    log = Log(PARTITIONS)
    project = SimulatedProject("settled", FOUR, prior=GOOD_CROWD, tolerance=1e-4)
    cluster = SimulatedCluster(log, project)
    members = [SimulatedMember(log, project) for _ in range(2)]
    cluster.rebalance(members, [0, 1, 0, 1])
    answer(cluster, range(TURNED))
    assert not any("drifting" in record for record in records(log).values())
    assert drifting(members) == 0
    answer(cluster, range(TURNED, TURNED + 80))
    told = {
        name: record["drifting"] for name, record in records(log).items() if "drifting" in record
    }
    assert set(told) == {"ann"}
    offsets = log["labels"][cluster.members[0].crowd.home_of("ann")]
    times = {record.timestamp for record in offsets}
    assert told["ann"] in times  # a label's time
    assert drifting(members) == 1

    other = SimulatedMember(log, project)  # it has none of the state, and reads the changelogs
    cluster.rebalance([other], [0] * PARTITIONS)
    [ann] = other.crowd.number_workers(["ann"]).tolist()
    assert other.crowd.engine.drifting([ann]).tolist() == [told["ann"]]
    assert drifting([other]) == 1
    answer(cluster, range(TURNED + 80, TURNED + 100))
    assert records(log)["ann"]["drifting"] == told["ann"]

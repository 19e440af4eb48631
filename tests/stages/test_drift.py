"""A worker who answers otherwise than before is marked, and a successor keeps the mark."""

import random

from orjson import loads

from sbic.instance.survey import Survey, Surveyor
from tests.stages.schedules import FOUR, GOOD_CROWD, PARTITIONS
from tests.stages.simulated.cluster import SimulatedCluster
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.project import SimulatedProject

WORKERS = ["ann", "bob", "eve", "fay", "gus", "ida"]
TURNED = 250  # the task from which ann guesses


def answer(cluster: SimulatedCluster, tasks: range) -> None:
    for number in tasks:
        rng = random.Random(number)
        truth = rng.choice(FOUR.labels)
        for worker in WORKERS:
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

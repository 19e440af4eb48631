"""A rebalance during a recovery revokes partitions; the others are not read again."""

import pytest

from sbic.wire.partitions import partition_of
from tests.stages.simulated.log import Log
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.project import SimulatedProject

PARTITIONS = 2


def name_of(word: str, partition: int) -> str:
    """A name that belongs to a partition."""
    names = (f"{word}{number}" for number in range(99))
    return next(name for name in names if partition_of(name.encode(), PARTITIONS) == partition)


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
@pytest.mark.parametrize("kept", [0, 1])
def test_labels_of_own_workers_on_tasks_revoked_during_a_recovery_are_known(
    algorithm: str, kept: int
) -> None:
    log, project = Log(PARTITIONS), SimulatedProject(algorithm)  # type: ignore[arg-type]
    task, worker = name_of("t", 1 - kept), name_of("w", kept)
    before = SimulatedMember(log, project)
    before.assign({0, 1})
    before.restore_all()
    before.workers_ready()
    before.tasks_ready(1)
    log.produce(task, worker, 1)
    before.take_labels(kept)
    before.flush()

    instance = SimulatedMember(log, project)
    instance.assign({0, 1})
    instance.restore_all()
    instance.assign({kept})  # before it was ready
    instance.restore_all()
    instance.workers_ready()
    instance.tasks_ready(3)
    crowd = instance.crowd
    (i,), (j,) = crowd.number_tasks([task]), crowd.number_workers([worker])
    assert crowd.engine.has_answered(j, i)
    assert crowd.engine.given(j) == 1

"""An instance compiles and loads nothing once it is warmed up, so that its first label is fast."""

import subprocess
import sys

import pytest

from sbic.engine.compiled import IS_COMPILED

# A label, and then the life of a project: many names, gold, two instances, rebalances, recoveries.
LIFE = """
import sys
from numba.core.dispatcher import Dispatcher
from sbic.instance.warm_up import warm_up_instance
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.cluster import SimulatedCluster
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SimulatedProject
from sbic.instance.requests import Rules

def loaded():
    modules = [module for name, module in sys.modules.items() if name.startswith("sbic.")]
    found = [value for module in modules for value in vars(module).values()]
    return {(one, sig) for one in found if isinstance(one, Dispatcher) for sig in one.signatures}

warm_up_instance()
before = loaded()
project = SimulatedProject(algorithm=sys.argv[1])
instance = OneInstance(Log(partitions=2), project)
for task, worker, label in ("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1):
    instance.label(task, worker, label)
instance.label("t1", "ann", None)
instance.count()
instance.describe({"task": "t2", "gold": 1, "prior": 0.4})
instance.publish_all()
assert instance.results()["t1"]["labels"] == 1

log = Log(partitions=4)
cluster = SimulatedCluster(log, project)
first, second, third = (SimulatedMember(log, project) for _ in range(3))
for members, owners in ([first], [0]), ([first, second], [0, 1]), ([second, third], [1, 0]):
    cluster.rebalance(members, owners * (4 // len(owners)))
    for number in range(60):
        log.produce(f"t{number % 40}", f"w{number} of {len(owners)}", 1 - 2 * (number % 2))
    log.produce("t1", "w1 of 1", None)
    cluster.settle()
assert sum(found["labels"] for found in log.posteriors().values()) > 100

for policy in "uniform", "uncertainty":
    assigning = AssigningInstance(Rules(policy=policy, gold_rate=0.5))
    assigning.describe({"task": f"t{number}"} for number in range(40))
    assigning.describe({"task": f"gold {number}", "gold": 1} for number in range(3))
    for number in range(30):
        [given] = assigning.ask(f"w{number % 5}")
        assigning.instance.label(given["task"], f"w{number % 5}", 1)
    assigning.successor(Rules(policy=policy, gold_rate=0.5)).ask("w1", 20)
print(sorted({f"{one.py_func.__module__}.{one.py_func.__name__}" for one, _ in loaded() - before}))
"""


@pytest.mark.skipif(not IS_COMPILED, reason="numba is not installed")
@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
def test_labels_recoveries_and_requests_compile_and_load_nothing(algorithm: str) -> None:
    done = subprocess.run([sys.executable, "-c", LIFE, algorithm], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")

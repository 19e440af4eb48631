"""An instance compiles and loads nothing once it is warmed up, so that its first label is fast."""

import subprocess
import sys

import pytest

from pipeline.inference.compiled import IS_COMPILED

FIRST_LABELS = """
import sys
from numba.core.dispatcher import Dispatcher
from pipeline.warm_up import warm_up_instance
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import Project

def loaded():
    modules = [module for name, module in sys.modules.items() if name.startswith("pipeline.")]
    found = [value for module in modules for value in vars(module).values()]
    return {(one, sig) for one in found if isinstance(one, Dispatcher) for sig in one.signatures}

warm_up_instance()
before = loaded()
instance = OneInstance(Log(partitions=2), Project(algorithm=sys.argv[1]))
for task, worker, label in ("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1):
    instance.label(task, worker, label)
instance.label("t1", "ann", None)
instance.count()
instance.describe({"task": "t2", "gold": 1, "prior": 0.4})
instance.publish_all()
assert instance.results()["t1"]["labels"] == 1
print(sorted(one.py_func.__name__ for one, _ in loaded() - before))
"""


@pytest.mark.skipif(not IS_COMPILED, reason="numba is not installed")
@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
def test_the_first_labels_compile_and_load_nothing(algorithm: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LABELS, algorithm], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

"""Compiled functions give the same results as plain Python, without numba."""

import json
import subprocess
import sys

import numpy as np
import pytest

from sbic.engine.labels import Prior
from sbic.infer.fast_sbic import fast_sbic
from sbic.infer.settled import settled
from sbic.research.sorted_online import SortedSBIC
from sbic.research.sorted_sbic import sorted_sbic
from tests.inference.crowds import as_triples, random_crowd

SCRIPT = """
import json, sys
sys.modules["numba"] = None  # as if it were not installed
import numpy as np
from sbic.engine.labels import Prior
from sbic.engine.compiled import IS_COMPILED
from sbic.infer.fast_sbic import fast_sbic
from sbic.engine.labels import Labels
from sbic.infer.settled import settled
from sbic.research.sorted_sbic import sorted_sbic
from sbic.research.sorted_online import SortedSBIC
assert not IS_COMPILED
labels = Labels.of((str(i), str(j), x) for i, j, x in json.load(sys.stdin))
online = SortedSBIC(labels.tasks, labels.workers, labels.tasks)
for triple in zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist()):
    online.observe(*triple)
json.dump([
    *(algorithm(labels, Prior(), np.random.default_rng()).score.tolist()
      for algorithm in (fast_sbic, settled, sorted_sbic)),
    online.score.tolist(),
], sys.stdout)
"""


def test_without_numba_the_results_are_the_same() -> None:
    shuffled = random_crowd(tasks=12, workers=6, labels_per_worker=8, seed=3)
    labels = shuffled.in_order(np.lexsort((shuffled.worker, shuffled.task)))
    rng = np.random.default_rng()
    online = SortedSBIC(labels.tasks, labels.workers, labels.tasks)
    for triple in as_triples(labels):
        online.observe(*triple)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        input=json.dumps(as_triples(labels)),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    algorithms = fast_sbic, settled, sorted_sbic
    expected = [algorithm(labels, Prior(), rng).score for algorithm in algorithms]
    for theirs, ours in zip(json.loads(run.stdout), [*expected, online.score], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-9)

"""Compiled once, loaded from a cache afterwards, and never from a stale one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sbic
from sbic.engine.labels import Prior
from sbic.infer.fast_sbic import fast_sbic
from sbic.infer.settled import settled
from sbic.research.sorted_online import SortedSBIC
from sbic.research.sorted_sbic import sorted_sbic
from tests.inference.crowds import as_triples, random_crowd

SCRIPT = """
from sbic.engine import compiled
compiled.NOTICE_AFTER_SECONDS = compiled._notice._seconds_left = 0.2
from sbic.engine import taking
from sbic.engine.engine import Engine
engine = Engine("settled")
engine.take([0, 0, 0], [0, 1, 2], [1, 1, 0])
print(round(float(engine.beliefs([0])[0, 1]), 6), sum(taking.take.stats.cache_hits.values()))
"""
# The process becomes the script; 24 is PR_CAPBSET_DROP, and 1 CAP_DAC_OVERRIDE.
HEED_PERMISSIONS = """
import ctypes, os, sys
if sys.platform == "linux": ctypes.CDLL(None).prctl(24, 1)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, as it would be installed, with nothing compiled yet."""
    source = Path(sbic.__file__).parent
    skipped = shutil.ignore_patterns("__pycache__", "runtime", "commands", "gateway")
    shutil.copytree(source, tmp_path / "sbic", ignore=skipped)
    return tmp_path


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A read-only folder; `run` makes even root respect its permissions."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o755)


def run(package: Path, home: Path) -> tuple[str, str]:
    """What the script prints and says."""
    env = {**os.environ, "PYTHONPATH": str(package), "HOME": str(home)}
    env.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", HEED_PERMISSIONS, SCRIPT],
        env=env,
        cwd=package,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.long
def test_the_first_use_compiles_and_says_so_and_a_change_of_any_file_counts(
    package: Path, tmp_path: Path
) -> None:
    printed, said = run(package, tmp_path)
    assert printed.split()[0] == "0.640633"
    assert said.startswith("compiling, once")
    printed, said = run(package, tmp_path)
    assert printed == "0.640633 1"  # from the cache
    assert said == ""

    nowhere = tmp_path / "home"
    nowhere.touch()
    with read_only(package):
        printed, said = run(package, nowhere)
    assert printed == "0.640633 1", "what was compiled before is used where nothing can be written"
    assert said == ""

    constants = package / "sbic/engine/formulas.py"
    constants.write_text(constants.read_text().replace("EVEN_TASKS = 100.0 ", "EVEN_TASKS = 1.0 "))
    printed, said = run(package, tmp_path)
    assert (
        printed.split()[0] != "0.640633"
    )  # the loops that use it are in files that did not change


@pytest.mark.long
def test_where_no_folder_can_be_written_it_compiles_in_memory(
    package: Path, tmp_path: Path
) -> None:
    for folder in [folder for folder in package.rglob("*") if folder.is_dir()]:
        (folder / "__pycache__").touch()  # no folder can take its place, not even root's
    nowhere = tmp_path / "home"
    nowhere.touch()
    printed, _ = run(package, home=nowhere)
    assert printed == "0.640633 0"
    assert not list(tmp_path.rglob("*.nbi"))


# Compiled functions give the same results as plain Python, without numba.


WITHOUT_NUMBA = """
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
        [sys.executable, "-W", "error", "-c", WITHOUT_NUMBA],
        input=json.dumps(as_triples(labels)),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    algorithms = fast_sbic, settled, sorted_sbic
    expected = [algorithm(labels, Prior(), rng).score for algorithm in algorithms]
    for theirs, ours in zip(json.loads(run.stdout), [*expected, online.score], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-9)

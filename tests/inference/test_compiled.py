"""Compiled once, loaded from a cache afterwards, and never from a stale one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sbic

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

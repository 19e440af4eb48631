"""Runs the cases of an experiment on several cores; a stopped run can be continued.

An experiment is a function of one *case* (a flat mapping of names to texts and numbers, with
everything that the result depends on besides the seed) and of a random generator. It returns a
*result* (a flat mapping of names to numbers):

    def measure(case: Case, rng: np.random.Generator) -> Result:
        return {"error": ...}

    cases = [{"algorithm": name, "run": run} for name in names for run in range(100)]
    results = run(measure, cases, seed=0, jobs=2, journal=out / "name.jsonl", title="Name")

The generator depends only on the seed and the case. So a result depends neither on `jobs` nor on
the other cases, and the first 100 of 200 runs are the same as those of 100 runs.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from hashlib import sha256
from itertools import islice
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Self, TextIO

import numpy as np

from sbic.files.tables import BadFile
from sbic.progress import progress

Case = Mapping[str, str | int | float]
Result = Mapping[str, float]


class Journal:
    """A file with one JSON object a line: the seed, the case and its result.

    A line that was truncated when a run was killed is skipped, and its case is run again.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._seed = seed
        self._results = dict(self._read())
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise BadFile(str(self._path), f"cannot be written: {error.strerror}") from error
        if self._file.tell() and not self._path.read_bytes().endswith(b"\n"):
            self._file.write("\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def __contains__(self, case: Case) -> bool:
        return key(self._seed, case) in self._results

    def __getitem__(self, case: Case) -> Result:
        return self._results[key(self._seed, case)]

    def add(self, case: Case, result: Result) -> None:
        """Write a result immediately."""
        assert self._file, "a journal is written inside `with`"
        line = {"seed": self._seed, "case": dict(case), "result": dict(result)}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._results[key(self._seed, case)] = result

    def _read(self) -> list[tuple[str, Result]]:
        if not self._path.exists():
            return []
        pairs = []
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                pairs.append((key(entry["seed"], entry["case"]), entry["result"]))
            except (ValueError, TypeError, KeyError):
                continue
        return pairs


def key(seed: int, case: Case) -> str:
    """Return the key of a seed and a case, independent of the order of fields.

    >>> key(1, {"run": 2, "algorithm": "em"}) == key(1, {"algorithm": "em", "run": 2})
    True
    """
    return json.dumps([seed, case], sort_keys=True)


Work = Callable[[Case, np.random.Generator], Result]


def run(
    work: Work, cases: Sequence[Case], *, seed: int, jobs: int, journal: Path, title: str
) -> list[Result]:
    """Run cases that are not in the journal; return all results, in the order of the cases.

    `work` must be importable by name (a function of a module, or a `functools.partial` of one):
    with more than one job it runs in separate processes.
    """
    with Journal(journal, seed) as done:
        todo = [case for case in cases if case not in done]
        with progress(title, total=len(cases), completed=len(cases) - len(todo)) as advance:
            for case, result in finished(work, todo, seed, min(jobs, len(todo))):
                done.add(case, result)
                advance()
        return [done[case] for case in cases]


def generator(seed: int, case: Case) -> np.random.Generator:
    """Return the random generator of a case: always the same for the same seed and case."""
    digest = sha256(key(seed, case).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def finished(
    work: Work, cases: Sequence[Case], seed: int, jobs: int
) -> Iterator[tuple[Case, Result]]:
    """Yield each case with its result, as they finish."""
    if jobs <= 1:
        for case in cases:
            yield case, work(case, generator(seed, case))
        return
    # spawned, not forked: the progress bar runs in a thread, and threads do not survive a fork
    with ProcessPoolExecutor(jobs, get_context("spawn"), end_with_parent) as pool:
        waiting = iter(cases)
        running: dict[Future[Result], Case] = {}
        while True:
            # a few more than processes, so that none is idle and stopping does not take long
            for case in islice(waiting, 4 * jobs - len(running)):
                running[pool.submit(call, work, case, seed)] = case
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()


def call(work: Work, case: Case, seed: int) -> Result:
    """One case, in a process of the pool."""
    return work(case, generator(seed, case))


def end_with_parent() -> None:
    """Make a process of the pool exit as soon as its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=await_parent, daemon=True).start()


def await_parent() -> None:
    """Exit when the parent process is gone."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)

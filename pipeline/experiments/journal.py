"""A file of the results of a run so far, so that a stopped run can be continued."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self, TextIO

from pipeline.files.errors import BadFile

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
    """The key of a seed and a case, independent of the order of fields.

    >>> key(1, {"run": 2, "algorithm": "em"}) == key(1, {"algorithm": "em", "run": 2})
    True
    """
    return json.dumps([seed, case], sort_keys=True)

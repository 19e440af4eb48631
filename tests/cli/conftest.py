"""`sbic` as it is called, in a folder that has labels.csv and truth.csv."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from sbic.commands.main import main

LABELS = "task,worker,label\nt1,ann,1\nt1,bob,1\nt2,ann,-1\nt2,bob,-1\nt2,cy,1\nt3,cy,1\n"
TRUTH = "task,truth\nt1,1\nt2,-1\nt3,-1\n"


class Ended(NamedTuple):
    status: object
    out: str
    err: str


Sbic = Callable[..., Ended]


@pytest.fixture
def sbic(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Sbic:
    """Run the real `main` in a folder that has labels.csv and truth.csv."""
    monkeypatch.chdir(tmp_path)
    Path("labels.csv").write_text(LABELS)
    Path("truth.csv").write_text(TRUTH)

    def call(*arguments: str, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["sbic", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(ended.value.code, *capfd.readouterr())

    return call

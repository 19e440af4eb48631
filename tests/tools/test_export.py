"""`sbic export`: the last record of every key, as CSV, whole or not at all."""

import asyncio
from pathlib import Path

from pipeline.records.posteriors import encode_posterior, posterior_of
from pipeline.records.workers import encode_worker
from pipeline.settings import Settings
from pipeline.topics import Topics
from tests.tools.projects import sbic, write

HEADER = "task,log_odds,probability,prediction,labels,status,reason,updated_at\n"


def posterior(task: str, log_odds: float, labels: int) -> tuple[bytes, bytes]:
    record = posterior_of(task, log_odds, labels, {"0": labels}, 1700000000000)
    return task.encode(), encode_posterior(record)


def worker(accuracy: float, labels: int, correct: float) -> bytes:
    return encode_worker(
        {
            "worker": "ann",
            "accuracy": accuracy,
            "interval": [0.3, 0.99],
            "labels": labels,
            "correct": correct,
            "gold": 0,
            "gold_right": 0,
            "last_seen": 1700000000000,
        }
    )


async def test_the_last_posterior_of_each_task_sorted_by_task(project: Settings) -> None:
    records = [
        posterior("b", 0.5, 1),
        posterior("a,1", -0.1, 1),
        posterior("gone", 3.0, 2),
        posterior("b", 0.0, 2),
        (b"gone", None),
        (b"stranger", b"not ours"),
    ]
    await write(project, Topics(project).posteriors.name, records)
    ended = sbic(project, "export", "posteriors")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == HEADER + (
        '"a,1",-0.1,0.47502081252106,-1,1,open,,1700000000000\nb,0.0,0.5,0,2,open,,1700000000000\n'
    )


def test_workers_into_a_file(project: Settings, tmp_path: Path) -> None:
    values = [
        worker(accuracy=2 / 3, labels=0, correct=0.0),
        worker(accuracy=0.75, labels=1, correct=1.0),
        b'{"worker": "bob"}',
    ]
    topic = Topics(project).workers.name
    asyncio.run(write(project, topic, zip([b"ann", b"ann", b"bob"], values, strict=True)))
    target = tmp_path / "workers.csv"
    target.write_text("what was there before")
    ended = sbic(project, "export", "workers", "-o", str(target))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert target.read_text() == (
        "worker,accuracy,labels,correct,gold,gold_right,last_seen\n"
        "ann,0.75,1,1.0,0,0,1700000000000\n"
    )
    assert list(tmp_path.iterdir()) == [target]


def test_an_empty_topic_is_a_header(project: Settings) -> None:
    assert sbic(project, "export", "posteriors").stdout == HEADER


def test_a_file_that_cannot_be_written_is_named(project: Settings, tmp_path: Path) -> None:
    ended = sbic(project, "export", "workers", "-o", str(tmp_path / "no" / "workers.csv"))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "does not exist" in line

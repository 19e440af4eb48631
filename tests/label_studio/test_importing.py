"""`sbic import label-studio`: the topic comes to what the export says, each annotation once."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import standing_labels
from tests.label_studio.payloads import annotation, skipped
from tests.projects import Row, made, new_project, records_of, sbic


def task(name: int, *annotations: dict[str, Any]) -> dict[str, Any]:
    given = [each | {"task": name} for each in annotations]
    return {"id": name, "annotations": given, "data": {"image": "1.jpg"}, "project": 2}


def exported(folder: Path, *tasks: dict[str, Any]) -> str:
    path = folder / "export.json"
    path.write_text(json.dumps(tasks))
    return str(path)


async def stands(settings: Settings) -> list[Row]:
    return sorted(await standing_labels(settings))


async def sent(settings: Settings) -> int:
    return len(await records_of(settings, Topics(settings).labels.name))


def imported(settings: Settings, *arguments: str) -> str:
    ended = sbic(settings, "import", "label-studio", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.fixture(params=["first", "last"])
def pets(request: pytest.FixtureRequest, broker: EmbeddedBroker) -> Settings:
    return made(new_project(broker, classes="cat,dog", repeats=request.param))


async def test_an_export_is_sent_once_and_then_what_has_changed_since(
    pets: Settings, tmp_path: Path
) -> None:
    first = exported(
        tmp_path,
        task(1, annotation(11, "cat", worker=5), annotation(12, "dog", worker=6)),
        task(2, skipped(13, worker=5), annotation(14, "cat", worker=6)),
    )
    told = imported(pets, first)
    assert told == "annotations: 4 (4 new, 0 changed, 0 unchanged); deleted: 0; labels sent: 4\n"
    assert await stands(pets) == [("1", "5", "cat"), ("1", "6", "dog"), ("2", "6", "cat")]
    assert "(0 new, 0 changed, 4 unchanged); deleted: 0; labels sent: 0" in imported(pets, first)
    assert await sent(pets) == 4

    later = exported(
        tmp_path,
        task(1, annotation(11, "dog", worker=5, second=99), skipped(12, worker=6, second=99)),
        task(2, annotation(13, "cat", worker=5, second=99)),
        task(3, annotation(15, "dog", worker=5)),
    )
    assert imported(pets, later, "--prune", "--dry-run") == (
        "annotations: 4 (1 new, 3 changed, 0 unchanged); deleted: 1; nothing was sent\n"
    )
    assert await sent(pets) == 4
    assert "(1 new, 3 changed, 0 unchanged); deleted: 0" in imported(pets, later)
    assert ("2", "6", "cat") in await stands(pets)
    assert "4 unchanged); deleted: 1; labels sent: 1" in imported(pets, later, "--prune")
    assert await stands(pets) == [("1", "5", "dog"), ("2", "5", "cat"), ("3", "5", "dog")]
    assert "4 unchanged); deleted: 0; labels sent: 0" in imported(pets, later, "--prune")
    # the first export is older than all this
    assert "unchanged); deleted: 0; labels sent: 0" in imported(pets, first)


async def test_a_minimal_export_gzip_and_a_map_are_taken_too(
    project: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "min.json.gz"
    rows = [
        {"id": 1, "image": "1.jpg", "right": "Yes", "annotator": 5, "annotation_id": 11},
        {"id": 2, "right": {"choices": ["No"]}, "annotator": 5, "annotation_id": 12},
        {"id": 3, "annotator": 5, "annotation_id": 13},
    ]
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    options = ["--control", "right", "--label-map", "Yes=1", "--label-map", "No=-1"]
    assert "labels sent: 3" in imported(project, str(path), *options)
    assert await stands(project) == [("1", "5", 1), ("2", "5", -1)]
    ended = sbic(project, "import", "label-studio", str(path))
    assert (ended.returncode, "the control must be named" in ended.stderr) == (2, True)


UNUSABLE: list[tuple[Any, str]] = [
    (task(1, annotation(11, "Yes")), "annotation 11: the choice 'Yes' is not one of"),
    ({"id": 2}, "it has no annotations: export as"),
    (5, " is not a task but 5"),
    ({"id": 1, "annotations": [5]}, "an annotation is not an object but 5"),
]


@pytest.mark.parametrize(
    ("element", "problem"), UNUSABLE, ids=["no class", "no annotations", "no task", "no objects"]
)
async def test_a_file_with_nothing_that_can_be_used_is_refused(
    project: Settings, tmp_path: Path, element: Any, problem: str
) -> None:
    ended = sbic(project, "import", "label-studio", exported(tmp_path, element))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert problem in line
    assert line.endswith(": none of 1 can be used, and nothing was sent")
    assert await sent(project) == 0


async def test_all_annotations_but_those_that_cannot_be_used_are_sent_and_those_are_listed(
    project: Settings, tmp_path: Path
) -> None:
    both = annotation(22, "1", worker=2)
    both["result"][0]["value"]["choices"].append("-1")
    good = task(2, annotation(21, "1"), both, annotation(23, "-1", worker=3))
    path = exported(tmp_path, *(element for element, _ in UNUSABLE), good)
    *reasons, told = imported(project, path).splitlines()
    problems = [problem for _, problem in UNUSABLE]
    for number, (reason, problem) in enumerate(zip(reasons[:4], problems, strict=True), 1):
        assert reason.startswith(f"not used: {path}: element {number}")
        assert problem in reason
    assert reasons[4].startswith(f"not used: {path}: element 5, annotation 22: 2 choices at once")
    assert told == (
        "annotations: 2 (2 new, 0 changed, 0 unchanged); deleted: 0; not used: 5; labels sent: 2"
    )
    assert await stands(project) == [("2", "1", 1), ("2", "3", -1)]


async def test_the_last_answer_of_an_annotation_that_cannot_be_used_now_is_not_pruned(
    project: Settings, tmp_path: Path
) -> None:
    two = annotation(11, "1"), annotation(12, "1", worker=2)
    imported(project, exported(tmp_path, task(1, *two)))
    later = task(1, annotation(11, "maybe", second=99)), task(2, annotation(13, "1"))
    assert "deleted: 1; not used: 1; labels sent: 2" in imported(
        project, exported(tmp_path, *later), "--prune"
    )
    assert await stands(project) == [("1", "1", 1), ("2", "1", 1)]
    nameless = exported(tmp_path, {"id": 1, "annotations": [5]}, *later)
    ended = sbic(project, "import", "label-studio", nameless, "--prune")
    assert ended.returncode == 2
    assert "with --prune every annotation needs its id" in ended.stderr
    assert await sent(project) == 4

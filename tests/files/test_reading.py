"""Files as people make them, and the line of what is wrong in them."""

from pathlib import Path

import pytest

from sbic.engine.labels import Labels
from sbic.files.labels import read_labels
from sbic.files.tables import BadFile

HEADER = "task,worker,label\n"


def labels_from(tmp_path: Path, content: str | bytes) -> Labels:
    path = tmp_path / "labels.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_labels(str(path))


@pytest.mark.parametrize(
    "content",
    [
        "task,worker,label\nt 1,ann,1\nt2,bob,-1\n",
        "\ufefftask,worker,label\nt 1,ann,1\nt2,bob,-1\n",
        "task,worker,label\r\nt 1,ann,1\r\nt2,bob,-1\r\n",
        "task,worker,label\rt 1,ann,1\rt2,bob,-1",
        'label,"task",note,worker\n1,"t 1","a,b",ann\n-1,t2,,bob\n',
        "\n\ntask, worker , label\n\nt 1,ann, 1\n  \nt2,bob,-1 ",
        "note,note,task,worker,label\nx,y,t 1,ann,1\nx,y,t2,bob,-1\n",
    ],
    ids=["plain", "BOM", "CRLF", "CR", "any order, quotes", "blanks", "other columns twice"],
)
def test_the_same_labels_in_every_usual_form(tmp_path: Path, content: str) -> None:
    labels = labels_from(tmp_path, content)
    assert labels.task_names == ("t 1", "t2")
    assert labels.worker_names == ("ann", "bob")
    assert labels.label.tolist() == [1, -1]


def test_ids_may_be_any_text(tmp_path: Path) -> None:
    labels = labels_from(tmp_path, HEADER + '"a ""quoted"", task",渡辺,1\n"two\nlines",ann,-1\n')
    assert labels.task_names == ('a "quoted", task', "two\nlines")
    assert labels.worker_names == ("渡辺", "ann")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ": is empty; it needs a header with task, worker, label"),
        ("\n \n", ": is empty"),
        (HEADER, ": has no labels"),
        ("task,label\nt1,1\n", ", line 1: the column 'worker' is missing"),
        ("\n\ntask|worker|label\n", ", line 3: the column 'task' is missing"),
        ("task,worker,label,task\n", ", line 1: the column 'task' appears twice"),
        (HEADER + "\n\nt1,ann,1\n,bob,1\n", ", line 5: the task is empty"),
        (HEADER + "t1, ,1\n", ", line 2: the worker is empty"),
        (HEADER + "t1,1\n", ", line 2: has 2 fields, but the header has 3"),
        (HEADER + "t1\n", ", line 2: has 1 field, but the header has 3"),
        (HEADER + "t,1,ann,1\n", ", line 2: has 4 fields, but the header has 3"),
        (HEADER + '"two\nlines",ann,1\nt2,ann\n', ", line 4: has 2 fields"),
        (HEADER + 't1,ann,1\nt2,"ann,1\nt3,ann,1\n', ", line 3: is not CSV: unexpected end"),
        (HEADER + "t1,ann,1\n" + "x" * 200_000 + ",ann,1\n", ", line 3: is not CSV: field larger"),
        (b"task,worker,label\nt1,ann,1\nt\0,ann,1\n", ", line 3: is not text"),
        (b"task,worker,label\nt1,ann,1\nt2,caf\xe9,1\n", ", line 3: is not text in UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\x00\xff\xfe", ", line 1: is not text"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    with pytest.raises(BadFile) as caught:
        labels_from(tmp_path, content)
    message = str(caught.value)
    assert f"labels.csv{problem}" in message
    assert "\n" not in message
    assert len(message.removeprefix(str(tmp_path))) < 150


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"none\.csv: cannot be read: No such file"):
        read_labels(str(tmp_path / "none.csv"))
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        read_labels(str(tmp_path))


def test_repeats_and_skips_are_counted(tmp_path: Path) -> None:
    labels = labels_from(tmp_path, HEADER + "t1,ann,1\nt1,ann,-1\nt1,ann,1\nt2,ann,0\n")
    assert labels.label.tolist() == [1]
    assert (labels.repeats, labels.skips, labels.task_names) == (2, 1, ("t1", "t2"))

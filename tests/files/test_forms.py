"""The same labels in every form in which people have them."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from sbic.engine.labels import Labels
from sbic.files.labels import DEFAULT, Reading, read_labels
from sbic.files.tables import BadFile, read_source

PLAIN = "task,worker,label\nt 1,ann,1\nt2,bob,-1\n"


def labels_from(
    folder: Path, content: str | bytes, reading: Reading = DEFAULT, name: str = "labels.csv"
) -> Labels:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_labels(str(path), reading)


def problem_of(
    folder: Path, content: str | bytes, reading: Reading = DEFAULT, name: str = "labels.csv"
) -> str:
    with pytest.raises(BadFile) as caught:
        labels_from(folder, content, reading, name)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{folder}/{name}")


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "Task,WORKER,Label\nt 1,ann,1\nt2,bob,-1\n",
        "task;worker;label\nt 1;ann;1\nt2;bob;-1\n",
        "task\tworker\tlabel\nt 1\tann\t1\nt2\tbob\t-1\n",
        '"a, b, c, d";task;worker;label\n"x;y";t 1;ann;1\n;t2;bob;-1\n',
        '"two\nlines, or three";task;worker;label\n;t 1;ann;1\n;t2;bob;-1\n',
        " task , worker,label \n t 1 ,ann  ,1 \nt2, bob,-1\t\n",
        "task,worker,label\nt 1,ann,+1\nt2,bob,-1.0\n",
        "task;worker;label\r\nt 1;ann;1\r\n;;\r\nt2;bob;-1\r\n;;\r\n",
        gzip.compress(PLAIN.encode()),
        gzip.compress(PLAIN.encode()[:20]) + gzip.compress(PLAIN.encode()[20:]),
        b"\xff\xfe" + PLAIN.encode("utf-16-le"),
        b"\xfe\xff" + PLAIN.encode("utf-16-be"),
        gzip.compress(PLAIN.encode("utf-16")),
        '{"task": "t 1", "worker": "ann", "label": 1}\n{"label": -1, "task":"t2", "worker":"bob"}',
        '\n{"Task":" t 1","worker":"ann","label":"1"}\r\n \r\n'
        '{"task":"t2","WORKER":"bob","label":-1.0,"more":{"x":[1]}}\r\n',
    ],
    ids=[
        "plain",
        "any case",
        "semicolons",
        "tabs",
        "commas in quotes",
        "a header of two lines",
        "blanks around",
        "+1 and -1.0",
        "the blank lines of a spreadsheet",
        "gzip",
        "gzip in two parts",
        "UTF-16, little end first",
        "UTF-16, big end first",
        "UTF-16 in gzip",
        "JSON Lines",
        "JSON Lines, other cases, CRLF, more fields",
    ],
)
def test_the_same_labels_are_read_from_every_form(tmp_path: Path, content: str | bytes) -> None:
    labels = labels_from(tmp_path, content)
    assert labels.task_names == ("t 1", "t2")
    assert labels.worker_names == ("ann", "bob")
    assert labels.label.tolist() == [1, -1]
    assert labels.skips == 0


def test_the_same_name_with_and_without_blanks_is_one_name(tmp_path: Path) -> None:
    labels = labels_from(tmp_path, "task,worker,label\nt1,ann,1\n t1 , ann,1\n\u00a0t1,bob,1\n")
    assert (labels.task_names, labels.worker_names) == (("t1",), ("ann", "bob"))
    assert labels.repeats == 1


class TestColumns:
    MTURK = "HITId,WorkerId,Task,Answer.label,task\nt1,ann,x,1,y\n"
    COLUMNS = {"task": "HITId", "worker": "workerid", "label": "Answer.label"}  # noqa: RUF012

    def test_a_column_can_have_any_name(self, tmp_path: Path) -> None:
        labels = labels_from(tmp_path, self.MTURK, Reading(columns=self.COLUMNS))
        assert (labels.task_names, labels.worker_names) == (("t1",), ("ann",))

    def test_a_field_of_json_can_have_any_name(self, tmp_path: Path) -> None:
        line = '{"HITId": "t1", "WorkerID": "ann", "Answer.label": 1}'
        labels = labels_from(tmp_path, line, Reading(columns=self.COLUMNS))
        assert (labels.task_names, labels.worker_names) == (("t1",), ("ann",))

    def test_of_two_that_differ_in_case_the_one_that_is_named_is_taken(
        self, tmp_path: Path
    ) -> None:
        columns = {**self.COLUMNS, "task": "Task"}
        assert labels_from(tmp_path, self.MTURK, Reading(columns=columns)).task_names == ("x",)
        columns = {**self.COLUMNS, "task": "task"}
        assert labels_from(tmp_path, self.MTURK, Reading(columns=columns)).task_names == ("y",)
        columns = {**self.COLUMNS, "task": "TASK"}
        assert problem_of(tmp_path, self.MTURK, Reading(columns=columns)) == (
            ", line 1: the column 'TASK' appears twice, as Task and task;"
            " --columns task=NAME takes one"
        )

    def test_a_named_column_that_is_missing_is_told(self, tmp_path: Path) -> None:
        problem = problem_of(tmp_path, PLAIN, Reading(columns={"task": "HITId"}))
        assert problem.startswith(", line 1: the column 'HITId' is missing")

    def test_all_that_is_missing_is_in_the_hint(self, tmp_path: Path) -> None:
        assert problem_of(tmp_path, "HITId,Worker,Answer\n") == (
            ", line 1: the column 'task' is missing; the header has: HITId, Worker, Answer"
            " (to name columns: --columns task=NAME,label=NAME)"
        )

    def test_all_columns_of_the_file_are_listed(self, tmp_path: Path) -> None:
        names = [f"a rather long name of column {number}" for number in range(60)]
        problem = problem_of(tmp_path, ",".join([*names, '"the answer, in the end"']) + "\n")
        assert f'the header has: {", ".join(names)}, "the answer, in the end" (to name' in problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"task":"t1","worker":"a","label":1}\n{"task":"t1","worker":"a"}', "line 2: the field"),
        ('{"task":"t1","worker":"a","label":1}\n[1]', "line 2: is not a JSON object"),
        ('{"task":"t1","worker":"a","label":1}\n{"task":\n', "line 2: is not JSON"),
        ('[{"task":"t1","worker":"a","label":1}]', "line 1: is not a JSON object"),
        ('[\n  {"task":"t1","worker":"a","label":1}\n]', "line 1: is not JSON"),
        ('{"task":"t1","worker":"a","label":' + "[" * 100_000, "line 1: is not JSON"),
        ('{"task":["t1"],"worker":"a","label":1}', "line 1: has a list or an object"),
        ('{"task":"t1","Task":"t2","worker":"a","label":1}', "line 1: the field 'task' appears"),
        ('{"task":null,"worker":"a","label":1}', "line 1: the task is empty"),
        ('{"task":"t1","worker":" ","label":1}', "line 1: the worker is empty"),
        ('{"task":"\\ud800","worker":"a","label":1}', "line 1: has a string that is not text"),
        ('{"task":"a\\u0000","worker":"a","label":1}', "line 1: has a string that is not text"),
    ],
)
def test_what_is_wrong_in_json_is_told_with_its_line(
    tmp_path: Path, content: str, problem: str
) -> None:
    assert problem_of(tmp_path, content).startswith(f", {problem}")


def test_numbers_of_json_are_taken_as_they_are_written(tmp_path: Path) -> None:
    lines = '{"task":12345678901234567890123,"worker":7,"label":1}\n'
    labels = labels_from(tmp_path, lines)
    assert (labels.task_names, labels.worker_names) == (("12345678901234567890123",), ("7",))


def test_a_file_that_is_named_jsonl_is_that(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, PLAIN, name="labels.jsonl")
    assert problem.startswith(", line 1: is not JSON")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(PLAIN.encode() * 100)[:-20], ": is incomplete: its gzip ends too early"),
        (gzip.compress(PLAIN.encode())[:-8] + b"12345678", ": is damaged: its gzip"),
        (gzip.compress(PLAIN.encode()) + b"more", ": is damaged: its gzip"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0" + b"\xff" * 50, ": is damaged: its gzip"),
        (PLAIN.encode(), ": is not gzip, in spite of its name"),
        (b"PK\x03\x04...", ": is a ZIP archive or a workbook"),
    ],
    ids=["cut", "checksum", "trailing", "damaged", "plain", "zip"],
)
def test_what_cannot_be_unpacked_is_told(tmp_path: Path, content: bytes, problem: str) -> None:
    assert problem_of(tmp_path, content, name="labels.csv.gz").startswith(problem)


def test_a_file_that_is_too_large_unpacked_is_refused_before_it_takes_memory(
    tmp_path: Path,
) -> None:
    """As a gzip bomb is: a thousand times as large as its file."""
    bomb = gzip.compress(bytes(100_000_000))
    tracemalloc.start()
    problem = problem_of(tmp_path, bomb, Reading(max_size=50_000_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem == (
        ": has more than 50,000,000 bytes unpacked; if it really is so large, raise --max-size"
    )
    assert most < 10_000_000
    plain = PLAIN + "\n" * 1000
    size = len(plain)
    for content in (plain, gzip.compress(plain.encode())):
        assert len(labels_from(tmp_path, content, Reading(max_size=size))) == 2
        assert "has more than" in problem_of(tmp_path, content, Reading(max_size=size - 1))
    with pytest.raises(BadFile, match="has more than 5 bytes unpacked"):
        read_source("/dev/zero", max_size=5)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (PLAIN.encode("utf-16-le"), ", line 1: is not text: it has a NUL byte"),
        (PLAIN.encode("utf-16")[:-1], ", line 3: is not text in UTF-16"),
        (PLAIN.encode("utf-32"), ", line 1: is not text: it has a NUL byte"),
        (PLAIN.replace("bob", "zoé").encode("latin-1"), ", line 3: is not text in UTF-8"),
    ],
)
def test_an_encoding_that_is_not_read_is_told(tmp_path: Path, content: bytes, problem: str) -> None:
    assert problem_of(tmp_path, content).startswith(problem)


def test_a_file_of_german_excel_is_read_with_its_encoding(tmp_path: Path) -> None:
    content = "task;worker;label\nÄpfel;Jörg;1\nt2;Zoë – „A“;-1\n".encode("cp1252")
    assert problem_of(tmp_path, content) == (
        ", line 2: is not text in UTF-8; save it as UTF-8, or, if Excel wrote it, add"
        " --encoding cp1252"
    )
    labels = labels_from(tmp_path, content, Reading(encoding="cp1252"))
    assert labels.task_names == ("Äpfel", "t2")
    assert labels.worker_names == ("Jörg", "Zoë – „A“")
    marked = PLAIN.replace("bob", "zoé").encode("utf-8-sig")
    assert labels_from(tmp_path, marked, Reading(encoding="cp1252")).worker_names == ("ann", "zoé")
    undefined = PLAIN.encode() + b"t3,\x81,1\n"
    assert problem_of(tmp_path, undefined, Reading(encoding="cp1252")) == (
        ", line 4: is not text in cp1252; save it as UTF-8"
    )


def test_a_row_with_another_delimiter_is_told(tmp_path: Path) -> None:
    assert problem_of(tmp_path, "task;worker;label\nt1,ann,1\n") == (
        ", line 2: has 1 field, but the header has 3 (separated by ';')"
    )


# Files as people make them, and the line of what is wrong in them.


HEADER = "task,worker,label\n"


def read_from(tmp_path: Path, content: str | bytes) -> Labels:
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
    labels = read_from(tmp_path, content)
    assert labels.task_names == ("t 1", "t2")
    assert labels.worker_names == ("ann", "bob")
    assert labels.label.tolist() == [1, -1]


def test_ids_may_be_any_text(tmp_path: Path) -> None:
    labels = read_from(tmp_path, HEADER + '"a ""quoted"", task",渡辺,1\n"two\nlines",ann,-1\n')
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
        read_from(tmp_path, content)
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
    labels = read_from(tmp_path, HEADER + "t1,ann,1\nt1,ann,-1\nt1,ann,1\nt2,ann,0\n")
    assert labels.label.tolist() == [1]
    assert (labels.repeats, labels.skips, labels.task_names) == (2, 1, ("t1", "t2"))

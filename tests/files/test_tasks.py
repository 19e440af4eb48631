"""Files of tasks in every form in which people have them."""

import pytest

from pipeline.files.errors import BadFile
from pipeline.files.reading import DEFAULT, Reading
from pipeline.files.source import Source
from pipeline.files.tasks import TaskRow, task_table


def rows(text: str, reading: Reading = DEFAULT) -> list[TaskRow]:
    return [row for _, row in task_table(Source("tasks.csv", text), reading).rows]


@pytest.mark.parametrize(
    "text",
    [
        "task,prior,gold\nt1,0.3,1\nt2,,\n",
        "GOLD;Task;prior\n+1; t1 ;0.3\n;t2;\n;;\n",
        "gold\ttask\tprior\n1.0\tt1\t 0.3\n\tt2\t\n",
        '{"task": "t1", "prior": 0.3, "gold": 1}\n{"task": "t2"}\n',
        '{"task": "t1", "prior": 3e-1, "gold": "1.0"}\n{"gold": null, "task": "t2"}\n',
    ],
)
def test_the_same_tasks_are_read_from_every_form(text: str) -> None:
    assert rows(text) == [("t1", 0.3, 1), ("t2", None, None)]


def test_a_single_column_is_enough_and_needs_no_delimiter() -> None:
    assert rows('task\nt1\n\n"t,2"\nt;3\n') == [
        ("t1", None, None),
        ("t,2", None, None),
        ("t;3", None, None),
    ]


def test_columns_that_are_not_read_are_named() -> None:
    table = task_table(Source("tasks.csv", "task,truth,Gold,note\nt1,1,,x\n"))
    assert [*table.rows] == [(2, ("t1", None, None))]
    assert [*table.unread] == ["truth", "note"]
    renamed = task_table(Source("x", "task,truth\nt1,1\n"), Reading(columns={"gold": "truth"}))
    assert [*renamed.rows] == [(2, ("t1", None, 1))]
    assert not renamed.unread


def test_a_column_that_was_named_must_be_there() -> None:
    with pytest.raises(BadFile, match="line 1: the column 'score' is missing"):
        rows("task,gold\nt1,1\n", Reading(columns={"prior": "score"}))


def test_a_line_of_json_may_leave_out_a_field_that_was_named() -> None:
    lines = '{"task": "t1", "truth": 1}\n{"task": "t2"}\n'
    assert rows(lines, Reading(columns={"gold": "truth"})) == [("t1", None, 1), ("t2", None, None)]


def test_a_task_is_the_same_with_blanks_around_it() -> None:
    with pytest.raises(BadFile, match="line 3: the task 't1' is on line 2 already"):
        rows("task\nt1\n t1 \n")

"""Reads files of labels: `task`, `worker`, `label`."""

from typing import NamedTuple

from pipeline.files.columns import Field
from pipeline.files.errors import BadFile, shortened
from pipeline.files.meaning import MAX_CLASSES, meaning_of
from pipeline.files.reading import DEFAULT, Reading, as_label
from pipeline.files.source import Source, read_source
from pipeline.files.table import read_table
from pipeline.inference.labels import Labels

FIELDS = ("task", "worker", "label")


class LabelRows(NamedTuple):
    """Every row of a file in order: task, worker, and the number of the class (None: a skip)."""

    tasks: list[str]
    workers: list[str]
    answers: list[int | None]
    classes: tuple[str, ...]


def read_labels(path: str, reading: Reading = DEFAULT) -> Labels:
    """The labels of a file; `-` is standard input."""
    rows = label_rows(read_source(path), reading)
    return Labels.of_answers(zip(rows.tasks, rows.workers, rows.answers, strict=True), rows.classes)


def label_rows(source: Source, reading: Reading = DEFAULT) -> LabelRows:
    """All rows, and the classes of their labels, known once all rows are read.

    >>> label_rows(Source("x.csv", "task,worker,label\\nt1,ann,dog\\nt1,bob,cat\\n"))
    LabelRows(tasks=['t1', 't1'], workers=['ann', 'bob'], answers=[1, 0], classes=('cat', 'dog'))
    """
    fields = [Field(name, reading.columns.get(name)) for name in FIELDS]
    names: dict[str, str] = {}  # each name as in the file, to one stripped copy
    spellings: dict[str, str] = {}  # each label as in the file, to its normal form
    lines: dict[str, int] = {}  # the first line of each label
    tasks, workers, labels = [], [], []
    for line, (task_text, worker_text, label_text) in read_table(source, fields).rows:
        task, worker = names.get(task_text), names.get(worker_text)
        label = spellings.get(label_text)
        if task is None or worker is None:
            task, worker = task_text.strip(), worker_text.strip()
            if not (task and worker):
                if not (task or worker or label_text.strip()):
                    continue  # a blank line of a spreadsheet still has delimiters
                problem = f"the {'worker' if task else 'task'} is empty"
                raise BadFile(source.name, problem, line)
            task = names[task_text] = names.setdefault(task, task)
            worker = names[worker_text] = names.setdefault(worker, worker)
        if label is None:
            label = spellings[label_text] = as_label(label_text)
            lines.setdefault(label, line)
            if len(lines) > MAX_CLASSES and reading.answers is None:
                raise BadFile(source.name, too_many(label), line)
        tasks.append(task)
        workers.append(worker)
        labels.append(label)
    if not labels:
        raise BadFile(source.name, "has no labels: nothing follows the header")
    classes, answers = meaning_of(lines, reading, source.name)
    return LabelRows(tasks, workers, list(map(answers.__getitem__, labels)), classes)


def too_many(label: str) -> str:
    """The error for too many classes."""
    return (
        f"has more than {MAX_CLASSES:,} different labels, as '{shortened(label)}': is it another"
        " column? (--columns label=NAME)"
    )

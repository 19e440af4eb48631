"""Files of labels: `task`, `worker`, `label`."""

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
    """All rows, and what their labels mean, which is known when all have been seen.

    >>> label_rows(Source("x.csv", "task,worker,label\\nt1,ann,dog\\nt1,bob,cat\\n"))
    LabelRows(tasks=['t1', 't1'], workers=['ann', 'bob'], answers=[1, 0], classes=('cat', 'dog'))
    """
    fields = [Field(name, reading.columns.get(name)) for name in FIELDS]
    names: dict[str, str] = {}  # each name as it is in the file, and stripped: one copy of each
    spellings: dict[str, str] = {}  # each label as it is in the file, and as it is compared
    lines: dict[str, int] = {}  # where each label was first seen
    tasks, workers, labels = [], [], []
    for line, (task, worker, label) in read_table(source, fields).rows:
        if task not in names or worker not in names:
            if not (task + worker + label).strip():
                continue  # a blank line of a spreadsheet has its delimiters
            for field, text in (("task", task), ("worker", worker)):
                if not (stripped := text.strip()):
                    raise BadFile(source.name, f"the {field} is empty", line)
                names[text] = names.setdefault(stripped, stripped)
        if label not in spellings:
            spelled = spellings[label] = as_label(label)
            lines.setdefault(spelled, line)
            if len(lines) > MAX_CLASSES and reading.answers is None:
                raise BadFile(source.name, too_many(label), line)
        tasks.append(names[task])
        workers.append(names[worker])
        labels.append(spellings[label])
    if not labels:
        raise BadFile(source.name, "has no labels: nothing follows the header")
    classes, answers = meaning_of(lines, reading, source.name)
    return LabelRows(tasks, workers, list(map(answers.__getitem__, labels)), classes)


def too_many(label: str) -> str:
    """Why there cannot be so many classes."""
    return (
        f"has more than {MAX_CLASSES:,} different labels, as '{shortened(label)}': is it another"
        " column? (--columns label=NAME)"
    )

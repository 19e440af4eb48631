"""A CSV table with a header: the wanted columns of every row, with its line number."""

import csv
import io
from collections.abc import Iterator
from operator import itemgetter

from pipeline.files.errors import BadFile
from pipeline.files.source import Source


def read_table(source: Source, columns: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line and the fields of these columns (two or more) of every row; blank lines are passed.

    The columns may come in any order and among others; spaces after a comma are passed over.

    >>> list(read_table(Source("x.csv", "label, task,note\\n1, t1,\\n"), ("task", "label")))
    [(2, ('t1', '1'))]
    """
    rows = numbered_rows(source)
    header_line, header = next(rows, (1, None))
    if header is None:
        raise BadFile(source.name, f"is empty; it needs a header with {', '.join(columns)}")
    try:
        selected = itemgetter(*positions(header, columns))
    except ValueError as error:
        raise BadFile(source.name, str(error), header_line) from error
    width = len(header)
    for line, row in rows:
        if len(row) != width:
            problem = f"has {counted(len(row))}, but the header has {width}"
            raise BadFile(source.name, problem, line)
        yield line, selected(row)


def numbered_rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the line on which it begins."""
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True, skipinitialspace=True)
    line = 1
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadFile(source.name, f"is not CSV: {error}", line) from error


def positions(header: list[str], columns: tuple[str, ...]) -> list[int]:
    """Where each column is; every one must be there once.

    >>> positions(["worker", "task"], ("task", "worker"))
    [1, 0]
    """
    names = [field.strip() for field in header]
    for column in columns:
        if names.count(column) != 1:
            fault = "appears twice" if column in names else "is missing"
            found = " ".join(", ".join(names).split())[:80]
            raise ValueError(f"the column '{column}' {fault}; the header has: {found}")
    return [names.index(column) for column in columns]


def counted(fields: int) -> str:
    """How many fields, in words."""
    return "1 field" if fields == 1 else f"{fields} fields"

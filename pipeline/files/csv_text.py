"""Encodes rows as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence


def csv_bytes(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> bytes:
    """A header and rows in UTF-8; numbers at full precision, None as an empty field.

    >>> csv_bytes(("task", "log_odds"), [("t1", 0.1), ("t,2", None)])
    b'task,log_odds\\nt1,0.1\\n"t,2",\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()

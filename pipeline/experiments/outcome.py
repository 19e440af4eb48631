"""The outcome of an experiment: numbers for a CSV, a plot, and a text."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.files.atomic import write_atomically
from pipeline.files.csv_text import csv_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXTRA = "pip install 'sbic[research]'"


class MissingExtra(Exception):
    """A library of the `research` extra is not installed."""


@dataclass(frozen=True)
class Outcome:
    """The files `name.csv` and `name.png`, and the table with its notes in plain text."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    text: str
    draw: Callable[["Figure"], None]


def save_csv(outcome: Outcome, out: Path) -> Path:
    """Write the numbers as CSV."""
    path = out / f"{outcome.name}.csv"
    write_atomically(path, csv_bytes(outcome.columns, outcome.rows))
    return path


def save_png(outcome: Outcome, out: Path) -> Path:
    """Draw and write the plot; needs matplotlib."""
    path = out / f"{outcome.name}.png"
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra(f"no {path}: matplotlib is not installed; {EXTRA}") from error
    figure = Figure(figsize=(10, 6), layout="constrained")
    outcome.draw(figure)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    write_atomically(path, image.getvalue())
    return path


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns: the first to the left, the others to the right.

    >>> print(text_table(("set", "MAJ"), [("birds", "0.241")]))
    set      MAJ
    birds  0.241
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for first, *rest in (header, *rows):
        cells = [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)

"""A progress bar on standard error, for whatever may take longer than a person likes to wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Advance(Protocol):
    """Called when a step, or several, are done."""

    def __call__(self, steps: int = 1) -> None:
        """Move the bar on."""


@contextmanager
def progress(title: str, total: int | None = None, completed: int = 0) -> Iterator[Advance]:
    """Show a bar while the block runs, and give it a function to call at every step done.

    Without a total the bar only shows that something is going on. It vanishes at the end, and
    never appears where standard error is not a terminal.
    """
    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
    if total is not None:
        columns += [MofNCompleteColumn(), TimeRemainingColumn()]
    columns.append(TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=total, completed=completed)
        yield lambda steps=1: bar.advance(task, steps)

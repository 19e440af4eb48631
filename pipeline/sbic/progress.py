"""A progress bar on standard error."""

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
    """Called when one or more steps are done."""

    def __call__(self, steps: int = 1) -> None:
        """Advance the bar."""


@contextmanager
def progress(title: str, total: int | None = None, completed: int = 0) -> Iterator[Advance]:
    """Show a bar while the block runs; yields a function to call at every step.

    Without a total the bar only shows that work is in progress. It disappears at the end, and is
    never shown if standard error is not a terminal.
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

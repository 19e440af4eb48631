"""The place of a task in the order."""

from collections.abc import Hashable
from typing import Any, TypeVar

Task = TypeVar("Task", bound=Hashable)
Entry = tuple[float, int, Task]
"""The key, the place among equals, and the task."""
Place = tuple[Any, ...]
"""An entry, or a tuple that compares with entries."""

"""Names to integers, one at a time; `stages.name_table` numbers many at once for the stream."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class Ids(Generic[Name]):
    """Numbers in the order in which names first appear.

    >>> tasks = Ids[str]()
    >>> tasks.number("t1"), tasks.number("t2"), tasks.number("t1")
    (0, 1, 0)
    >>> tasks.names[1], len(tasks), tasks.known("t3")
    ('t2', 2, None)
    """

    def __init__(self) -> None:
        self.names: list[Name] = []
        self._numbers: dict[Name, int] = {}
        self.known = self._numbers.get

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: Name) -> int:
        """The number of a name; a new name gets the next number."""
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

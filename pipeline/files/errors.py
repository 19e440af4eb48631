"""Errors of reading and writing files."""


class BadFile(Exception):
    """What is wrong with a file, in one line, with its name and the line number if known.

    >>> print(BadFile("labels.csv", "the task is empty", 3))
    labels.csv, line 3: the task is empty
    """

    def __init__(self, name: str, problem: str, line: int | None = None) -> None:
        super().__init__(name, problem, line)

    def __str__(self) -> str:
        name, problem, line = self.args
        return f"{name}: {problem}" if line is None else f"{name}, line {line}: {problem}"


def shortened(field: str) -> str:
    """A field shortened for a one-line message.

    >>> shortened("x" * 50)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    line = " ".join(field.split())
    return line if len(line) <= 40 else f"{line[:40]}..."


class MissingExtra(Exception):
    """An optional dependency is not installed; the message says which."""

"""What reading or writing a file raises when the fault is in the file."""


class BadFile(Exception):
    """Says in one line what is wrong and where: the file, and the line where there is one.

    >>> print(BadFile("labels.csv", "the task is empty", 3))
    labels.csv, line 3: the task is empty
    """

    def __init__(self, name: str, problem: str, line: int | None = None) -> None:
        super().__init__(name, problem, line)

    def __str__(self) -> str:
        name, problem, line = self.args
        return f"{name}: {problem}" if line is None else f"{name}, line {line}: {problem}"


def shortened(field: str) -> str:
    """A field as it fits into a message of one line.

    >>> shortened("x" * 50)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    line = " ".join(field.split())
    return line if len(line) <= 40 else f"{line[:40]}..."


class MissingExtra(Exception):
    """What was asked for needs packages that are not installed; the text says which."""

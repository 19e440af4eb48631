"""Why the broker cannot start, in one line for the person who wanted it."""


class CannotStart(Exception):
    """The broker did not start; `log` is the end of what Kafka wrote, if it wrote anything."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class BadChoice(CannotStart):
    """The port or the data folder that the caller chose cannot be used."""

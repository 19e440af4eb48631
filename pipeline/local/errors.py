"""Why the broker cannot start, in one line for the user."""


class CannotStart(Exception):
    """The broker did not start; `log` has the last lines of Kafka's log, if there are any."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class BadChoice(CannotStart):
    """The port or the data folder given by the caller cannot be used."""

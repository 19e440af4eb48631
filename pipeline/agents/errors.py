"""Why an instance cannot start, in one line for the person who started it."""

from pipeline.batched.stop import CannotGoOn


class CannotStart(CannotGoOn):
    """The process ends with status 1 and without a traceback: something else has to be fixed."""

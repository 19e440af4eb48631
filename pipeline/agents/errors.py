"""Why an instance cannot start, in one line for the person who started it."""

from pipeline.batched.stop import CannotGoOn


class CannotStart(CannotGoOn):
    """Nothing is wrong with the instance itself: it ends with status 1 and without a traceback."""

"""Why an instance cannot start, in one line for the person who started it."""


class CannotStart(Exception):
    """Nothing is wrong with the instance itself: it ends with status 1 and without a traceback."""

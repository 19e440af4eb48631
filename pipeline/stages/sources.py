"""Which labels a posterior counts, and so which of two posteriors of a task is the older one."""


def is_older(sources: dict[str, int], known: dict[str, int]) -> bool:
    """Whether a posterior that counts these labels came before the one that is known.

    The votes of a task are counted in one order, the order of their topic, so of two posteriors
    the later counts all that the earlier does. The earlier may yet be written last: by an
    instance that was stalled, and goes on for a moment after another has taken its place.

    >>> is_older({"0": 7}, known={"0": 7, "3": 42})
    True
    >>> is_older({"0": 8, "3": 42}, known={"0": 7, "3": 42})
    False
    """
    return any(sources.get(source, -1) < offset for source, offset in known.items())

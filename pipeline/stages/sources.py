"""Which labels a posterior counts, and so which of two posteriors of a task is the older one."""

from pipeline.records.posteriors import Posterior


def is_older(posterior: Posterior, known: dict[str, int], is_open: bool) -> bool:
    """Whether a posterior came before the one that is known, by its sources and whether it is open.

    The votes of a task are counted in one order, the order of their topic, so of two posteriors
    the later counts all that the earlier does. The earlier may yet be written last: by an
    instance that was stalled, and goes on for a moment after another has taken its place.

    Of two that count the same, an open one came before a closed one: a spent budget or a new rule
    closes a task without any vote, while what reopens it is a record of the tasks topic, which is
    among the sources.

    >>> from pipeline.records.posteriors import posterior_of
    >>> posterior = posterior_of("t1", log_odds=0.5, labels=1, sources={"0": 7}, updated_at=0)
    >>> is_older(posterior, known={"0": 7, "3": 42}, is_open=True)
    True
    >>> is_older(posterior, known={"0": 6}, is_open=False)
    False
    >>> is_older(posterior, known={"0": 7}, is_open=True)
    False
    >>> is_older(posterior, known={"0": 7}, is_open=False)
    True
    """
    sources = posterior["sources"]
    if any(sources.get(source, -1) < offset for source, offset in known.items()):
        return True
    return not is_open and posterior.get("status") != "closed" and sources == known

"""Votes, from the worker agent to the task agent: what one label adds to its task."""

from typing import TypedDict, cast

from orjson import JSONDecodeError, dumps, loads

from pipeline.records.bad import ID_SURELY_SHORT, read_id, read_number, read_object


class Vote(TypedDict):
    """One vote.

    `weight` is what to add to the task's log-odds, `labels` what to add to its number of labels:
    1 for a new label, 0 for a changed answer, -1 for one taken back. `partition` and `offset`
    are those of the label in the labels topic, `timestamp` the label's in milliseconds.
    """

    task: str
    worker: str
    weight: float
    labels: int
    partition: int
    offset: int
    timestamp: int


def encode_vote(vote: Vote) -> bytes:
    """The value of a vote's record; the weight comes back to the last bit."""
    return dumps(vote)


def parse_vote(value: bytes | None) -> Vote:
    """The vote in a record's value, or `BadRecord`.

    >>> vote = Vote(task="t1", worker="w1", weight=0.7, labels=1, partition=3, offset=42,
    ...             timestamp=1700000000000)
    >>> parse_vote(encode_vote(vote)) == vote
    True
    """
    try:
        vote = loads(value)  # type: ignore[arg-type]  # None is not JSON either
        task = vote["task"]
        if (
            type(task) is str
            and 0 < len(task) <= ID_SURELY_SHORT
            and type(vote["worker"]) is str
            and type(vote["weight"]) is float
            and type(vote["labels"]) is int
            and type(vote["partition"]) is int
            and type(vote["offset"]) is int
            and type(vote["timestamp"]) is int
        ):
            return cast(Vote, vote)
    except (JSONDecodeError, TypeError, KeyError):
        pass
    return _parse_carefully(value)


def _parse_carefully(value: bytes | None) -> Vote:
    vote = read_object(value)
    return Vote(
        task=read_id(vote, "task"),
        worker=read_id(vote, "worker"),
        weight=read_number(vote, "weight", float),
        labels=read_number(vote, "labels", int),
        partition=read_number(vote, "partition", int),
        offset=read_number(vote, "offset", int),
        timestamp=read_number(vote, "timestamp", int),
    )

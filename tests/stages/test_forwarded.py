"""A label that is forwarded twice counts once; a forged origin affects no other label."""

from sbic.instance.requests import Rules
from sbic.instance.taken import Outcome
from sbic.wire.dead_letters import Header, Origin
from sbic.wire.labels import encode_label
from tests.stages.desk import Desk
from tests.stages.simulated.log import Log, Record
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import Project

LAST = Project(repeats="last")
FROM = Origin("labels", 0, 42)


def forward(log: Log, label: int, *headers: Header) -> Record:
    """A label of ann on t1 that comes with these headers."""
    offset = len(log["labels"][0])
    record = Record(offset, offset, encode_label("t1", "ann", label), b"ann", headers)
    log["labels"][0].append(record)
    return record


def test_a_label_forwarded_again_does_not_replace_a_later_one_even_after_a_crash() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM.header())])
    instance.take(0, [forward(log, -1)])
    again = OneInstance(log, LAST)
    taken = again.take(0, [forward(log, 1, FROM.header())])
    assert taken.outcomes[Outcome.REPEATED] == 1
    again.count()
    posterior = again.results()["t1"]
    assert (posterior["labels"], posterior["prediction"]) == (1, -1)


def test_a_forged_origin_keeps_no_other_label_from_counting() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM.header())])
    taken = instance.take(0, [forward(log, -1, FROM.header())])  # the same place, another label
    assert taken.outcomes[Outcome.COUNTED] == 1
    assert instance.results()["t1"]["prediction"] == -1


def test_a_request_forwarded_again_is_answered_once_even_after_a_crash() -> None:
    desk = Desk(Rules(), partitions=1)
    desk.describe([{"task": f"t{number}"} for number in range(5)])
    desk.instance.ends.requests[:] = 99
    headers = (Origin("requests", 0, 42).header(),)
    [given] = desk.ask("ann", headers=headers)
    assert given["id"] == "0-42-0"
    assert desk.ask("ann", headers=headers) == []
    later = desk.successor(Rules())
    later.instance.ends.requests[:] = 99
    assert later.ask("ann", headers=headers) == []
    assert len(later.ask("bob", headers=headers)) == 1  # a forged origin: it is ann's


def test_an_origin_that_cannot_be_is_not_believed() -> None:
    desk = Desk(Rules(), partitions=1)
    desk.describe([{"task": "t1"}])
    [given] = desk.ask("ann", headers=(Origin("requests", 0, 42).header(),))
    assert given["id"] == "0-0-0"

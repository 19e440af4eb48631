"""What a report on a running project is made of, whatever its topics contain."""

import numpy as np
import pytest
from orjson import dumps

from sbic.classes import Classes
from sbic.engine.outside import Moments
from sbic.infer.judging import report_on
from sbic.status.contents import Standing
from sbic.status.judges import Contents, evidence_from
from sbic.wire.estimates import Findings
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.workers import Worker, encode_worker
from tests.records.made import SentLabel

PETS = Classes.parse("cat,dog")


def posterior(task: str, cat: float, **more: object) -> bytes:
    known = {"task": task, "labels": 2, "status": "open", "sources": {}, "updated_at": 0}
    shares = {"cat": cat, "dog": 1 - cat}
    said = max(shares, key=lambda name: shares[name])
    belief = {"prediction": said, "confidence": max(shares.values()), "probabilities": shares}
    return dumps({**known, **belief, **more})


def worker(who: str, **more: object) -> bytes:
    known: Worker = {
        "worker": who,
        "accuracy": 0.75,
        "interval": [0.5, 0.9],
        "labels": 2,
        "correct": 1.5,
        "gold": 0,
        "gold_right": 0,
        "last_seen": 0,
    }
    return encode_worker({**known, **more})  # type: ignore[typeddict-item]


def contents(
    *records: bytes, workers: tuple[bytes, ...] = (), found: Findings | None = None
) -> Contents:
    """Three tasks that ann and bob have answered; ann has skipped another one."""
    standing = Standing(PETS, partitions=1)
    labels = [
        (f"t{n}", name, said) for n in range(3) for name, said in (("ann", "cat"), ("bob", "dog"))
    ]
    standing.take(SentLabel(encode_label(*label)) for label in labels)
    standing.take([SentLabel(encode_label("t7", "ann", 0))])
    return Contents.of(standing, list(standing.columns()), records, workers, found)


def test_gold_is_compared_with_what_would_be_believed_without_it() -> None:
    evidence = {"cat": 0.25, "dog": 0.75}
    gold = posterior("t0", 1.0, gold=True, evidence=evidence, effective_votes=1.5)
    found = evidence_from(contents(gold, posterior("t1", 0.5), posterior("t2", 0.75)))
    assert found.golds.tolist() == [0, -1, -1]
    assert found.beliefs.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]
    assert report_on(found).jury.right == 0


def test_labels_on_tasks_without_a_posterior_are_left_out() -> None:
    found = evidence_from(contents(posterior("t1", 0.75), posterior("of nobody", 0.5)))
    assert found.tasks.tolist() == [1, 1]
    assert found.task_names[3] == "of nobody"
    assert len(found.beliefs) == 4
    report = report_on(found)
    assert (report.labels, report.tasks) == (2, 1)
    assert report.next.tasks == ["t1"]


def test_nothing_at_all_is_a_report_too() -> None:
    standing = Standing(PETS, partitions=1)
    report = report_on(evidence_from(Contents.of(standing, [], (), (), None)))
    assert (report.labels, report.judges, report.pairs, report.shares) == (0, [], [], {})


def test_workers_come_with_what_is_known_of_them_and_skips() -> None:
    rows = {"cat": {"cat": 0.75, "dog": 0.25}, "dog": {"cat": 0.5, "dog": 0.5}}
    ann = worker("ann", drifting=17, contradicted=True, name="Ann", confusion=rows)
    one, other = evidence_from(contents(posterior("t0", 0.5), workers=(ann,))).facts
    assert (one.accuracy, one.interval, one.drifting, one.name) == (0.75, (0.5, 0.9), 17, "Ann")
    assert one.confusion == [[0.75, 0.25], [0.5, 0.5]]
    assert one.contradicted
    assert one.skips == 1
    assert (other.accuracy, other.skips) == (None, 0)


def test_labels_cost_the_price_that_the_roster_says_of_their_worker() -> None:
    posteriors = [posterior(f"t{n}", 0.5) for n in range(3)]
    known = contents(*posteriors, workers=(worker("ann", price=0.25), worker("bob")))
    report = report_on(evidence_from(known))
    assert {judge.worker: judge.cost for judge in report.judges} == {"ann": 0.75, "bob": None}


@pytest.mark.parametrize(
    "forged",
    [
        {"confusion": {"cat": {"cat": "x", "dog": 0.5}}},
        {"confusion": [[[]]]},
        {"confusion": {"cat": 7, "dog": None}},
        {"drifting": "yesterday", "contradicted": "x", "name": ["Ann"]},
        {"price": "dear"},
        {"price": [1]},
        {"price": -1},
        {"interval": [0.5]},
        {"accuracy": None},
    ],
)
def test_a_forged_record_of_a_worker_costs_at_most_itself(forged: dict[str, object]) -> None:
    known = contents(posterior("t0", 0.5), workers=(worker("ann", **forged), worker("bob"), b"["))
    one, other = evidence_from(known).facts
    assert (one.confusion, one.drifting, one.name, one.contradicted) == (None, None, None, False)
    assert one.price is None
    assert other.accuracy == 0.75
    report_on(evidence_from(known))


def test_what_instances_find_of_labels_alone_goes_first() -> None:
    gold = posterior("t0", 1.0, gold=True, evidence={"cat": 0.9, "dog": 0.1}, effective_votes=1.0)
    shares = Moments(3, np.array([[1.2, 1.8], [0.5, 1.1]]), 1, np.ones((4, 2)))
    seen = Findings(0.25, 1, 1, 0.5, shares, np.zeros((0, 0)))
    found = evidence_from(contents(gold, found=seen))
    assert (found.dependence, found.free, found.shares) == (0.25, (1, 0.5), shares)
    report = report_on(found)
    assert report.wrong is not None
    assert (report.wrong.on_gold, report.wrong.expected_on_gold) == (1, 0.5)


def test_skips_count_where_labels_would() -> None:
    standing = Standing(PETS, partitions=2)
    here = partition_of(b"ann", 2)
    for partition in (here, 1 - here):
        standing.take([SentLabel(encode_label("t1", "ann", 0), partition)])
    assert list(standing.skips) == [1]
    assert len(standing) == 0

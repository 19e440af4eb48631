"""Records of a project whose classes have an order: grades are numbers, and tasks have a rating."""

from typing import Any

import numpy as np
import pytest
from orjson import dumps, loads

from sbic.classes import Classes
from sbic.instance.crowd import REASONS
from sbic.instance.tasks import StopRules
from sbic.status.contents import posteriors_table, workers_table
from sbic.wire.bad import Reason
from sbic.wire.labels import label_parser
from sbic.wire.posteriors import PosteriorColumns, encode_posteriors, posterior_parser
from sbic.wire.tasks import task_parser
from tests.records.made import reason_of

STARS = Classes.of_scale("1..5")
WORDS = Classes(("bad", "fair", "good"), is_ordered=True)
SHARES = [0.05, 0.05, 0.1, 0.5, 0.3]


def posterior(classes: Classes = STARS, gold: int = -1) -> dict[str, Any]:
    """The posterior of a task with three labels."""
    shares = np.array([SHARES if len(classes) == 5 else [0.1, 0.2, 0.7]])
    beliefs = shares if gold < 0 else np.eye(len(classes))[[gold]]
    numbers = np.array([3]), np.array([7]), np.array([[0, 43]]), np.array([-1])
    more: Any = ([None], np.array([False]), np.array([gold]), [None], np.array([2.5]))
    columns = PosteriorColumns(["t1"], beliefs, np.log(shares), *numbers, *more)
    found: dict[str, Any] = loads(encode_posteriors(classes, columns)[0])
    return found


def test_a_rating_has_a_mean_a_median_and_an_interval() -> None:
    found = posterior()
    assert found["prediction"] == found["median"] == 4
    assert found["mean"] == pytest.approx(3.95)
    assert found["interval"] == [4, 5]
    assert list(found["probabilities"]) == ["1", "2", "3", "4", "5"]
    assert posterior_parser(STARS)(dumps(found)).prediction == 3
    named = posterior(WORDS)
    assert (named["median"], named["interval"]) == ("good", ["fair", "good"])
    assert named["mean"] == pytest.approx(2.6)
    assert posterior_parser(WORDS)(dumps(named)).prediction == 2
    plain = posterior(Classes(("bad", "fair", "good")))
    assert "mean" not in plain


def test_gold_is_certain_of_its_grade() -> None:
    found = posterior(gold=1)
    assert (found["prediction"], found["mean"], found["interval"]) == (2, 2.0, [2, 2])
    assert posterior_parser(STARS)(dumps(found)).evidence == pytest.approx(SHARES)


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": 0.5},
        {"mean": 5.5},
        {"mean": "4"},
        {"median": "4"},
        {"median": 6},
        {"interval": [4]},
        {"interval": [4, 9]},
        {"interval": None},
        {"prediction": "4"},
    ],
    ids=str,
)
def test_an_impossible_rating_is_refused(changes: dict[str, Any]) -> None:
    value = dumps(posterior() | changes)
    assert reason_of(posterior_parser(STARS), value) is Reason.BAD_FIELD


def test_a_label_off_the_scale_is_refused_with_the_grades_that_there_are() -> None:
    parse = label_parser(STARS)
    for label in (6, -1, 1.0, True, "4", "good"):
        value = dumps({"task": "t1", "worker": "ann", "label": label})
        assert reason_of(parse, value) is Reason.BAD_LABEL
    with pytest.raises(Exception, match="'label' must be one of 1, 2, 3, 4, 5, 0 or null, not 6"):
        parse(b'{"task":"t1","worker":"ann","label":6}')
    assert parse(b'{"task":"t1","worker":"ann","label":5}')[2] == 4


def test_gold_is_a_grade_and_a_prior_goes_by_grade() -> None:
    parse = task_parser(STARS)
    prior = dict(zip(STARS.names, SHARES, strict=True))
    found = parse(b"t1", dumps({"task": "t1", "gold": 5, "prior": prior}))
    assert found["gold"] == 4
    assert found["prior"] == pytest.approx(SHARES)
    for gold in (6, "5", 0):
        value = dumps({"task": "t1", "gold": gold})
        assert reason_of(lambda value: parse(b"t1", value), value) is Reason.BAD_GOLD


def test_exports_have_a_column_for_each_end_of_the_interval() -> None:
    table = posteriors_table(STARS, [posterior()])
    assert table.columns[:8] == (
        *("task", "prediction", "confidence", "mean", "median"),
        *("interval_low", "interval_high", "p:1"),
    )
    assert table.rows[0][4:7] == [4, 4, 5]
    worker = {"worker": "ann", "interval": [0.1, 0.9], "theta": 0.5, "bias": 0.25, "spread": 0.5}
    found = workers_table(STARS, [worker])
    assert found.columns[-2:] == ("bias", "spread")
    assert found.rows[0][-2:] == [0.25, 0.5]


def test_the_width_of_the_interval_closes_and_does_not_flutter() -> None:
    rules = StopRules(width=1)
    sure, near, labels = np.full(4, 0.5), np.array([0.85, 0.8, 0.7, 0.6]), np.full(4, 3)
    reasons = rules.reasons(sure, labels, near=near)
    assert [REASONS[k] for k in reasons] == ["confident", "confident", None, None]
    assert rules.is_doubtful(sure, near=near).tolist() == [False, False, False, True]
    both = StopRules(confidence=0.9, width=1)
    assert not both.is_doubtful(np.array([0.95]), near=np.array([0.5])).any()

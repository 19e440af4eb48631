"""A posterior that this package did not write is refused, whatever is wrong with it."""

from math import isclose

import pytest

from sbic.classes import SIGNS
from sbic.wire.bad import Reason
from sbic.wire.posteriors import posterior_parser
from tests.records.made import comes_back, posterior_of
from tests.records.reasons import reason_of


@pytest.mark.parametrize(
    ("log_odds", "probability", "prediction"),
    [
        (0.0, 0.5, 0),
        (-0.0, 0.5, 0),
        (0.6931471805599453, 2 / 3, 1),
        (-0.6931471805599453, 1 / 3, -1),
        (800.0, 1.0, 1),
        (-800.0, 0.0, -1),
        (1e-300, 0.5, 1),
    ],
)
def test_probability_and_prediction_follow_from_the_log_odds(
    log_odds: float, probability: float, prediction: int
) -> None:
    posterior = posterior_of("t1", log_odds, 1, {}, 0)
    assert isclose(posterior["probability"], probability, rel_tol=1e-15)
    assert posterior["prediction"] == prediction


def test_a_task_with_a_long_name_comes_back() -> None:
    assert comes_back(SIGNS, posterior_of("x" * 256, 1.5, 2, {"0": 1, "12": 7}, 3))


parse_posterior = posterior_parser(SIGNS)
GOOD = (
    b'{"task":"t1","log_odds":1.5,"probability":0.8,"prediction":1,'
    b'"labels":1,"status":"open","sources":{"0":1},"updated_at":0}'
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"{", Reason.NOT_JSON),
        (b"null", Reason.NOT_OBJECT),
        (GOOD.replace(b"log_odds", b"logit"), Reason.MISSING_FIELD),
        (GOOD.replace(b"t1", b""), Reason.BAD_ID),
        (GOOD.replace(b"1.5", b"null"), Reason.BAD_FIELD),
        (GOOD.replace(b'"labels":1', b'"labels":1.0'), Reason.BAD_FIELD),
        (GOOD.replace(b'{"0":1}', b"[1]"), Reason.BAD_FIELD),
        (GOOD.replace(b"probability", b"chance"), Reason.MISSING_FIELD),
        (GOOD.replace(b"0.8", b"1.5"), Reason.BAD_FIELD),
        (GOOD.replace(b'"prediction":1', b'"prediction":[]'), Reason.BAD_FIELD),
        (GOOD.replace(b'"prediction":1', b'"prediction":2'), Reason.BAD_FIELD),
        (GOOD.replace(b'"updated_at":0', b'"updated_at":%d' % (1 << 63)), Reason.BAD_FIELD),
    ],
)
def test_a_bad_posterior_has_its_reason(value: bytes | None, reason: Reason) -> None:
    assert reason_of(parse_posterior, value) is reason


def test_that_record_is_good_otherwise() -> None:
    assert parse_posterior(GOOD).sources == {"0": 1}

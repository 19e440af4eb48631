"""Data frames in, results of the same kind out; parameters as scikit-learn has them."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sbic import DawidSkene, FastSBIC, MajorityVote, Settled
from sbic.engine.labels import ClassEstimate, Prior
from sbic.infer.aggregator import Aggregator
from sbic.infer.settled import settled
from tests.inference.crowds import crowd_of_classes, random_crowd

ALL: list[Callable[[], Aggregator]] = [Settled, FastSBIC, MajorityVote, DawidSkene]
ANY_CLASSES: list[Callable[[], Aggregator]] = [Settled, MajorityVote, DawidSkene]
NAMES = ("cat", "dog", "bird")
LIBRARIES = ("pandas", "polars", "pyarrow")
ROWS = [
    *(("t1", "ann", "no"), ("t1", "bob", "no"), ("t1", "cy", "yes")),
    *(("t2", "ann", "yes"), ("t2", "bob", "yes"), ("t2", "cy", "yes")),
    *(("t3", "ann", "no"), ("t3", "bob", "no"), ("t3", "cy", "no")),
]


def crowd() -> pd.DataFrame:
    """Of three classes, with the columns in another order and one too many."""
    labels, _ = crowd_of_classes(3, tasks=60, workers=8, labels_per_task=5, seed=1)
    columns = {
        "label": [NAMES[answer] for answer in labels.answer],
        "worker": [f"w{j}" for j in labels.worker],
        "seconds": 1.5,
        "task": labels.task.astype(np.int32),
    }
    return pd.DataFrame(columns)


def as_in(library: str, frame: pd.DataFrame) -> Any:
    if library == "pandas":
        return frame
    module = pytest.importorskip(library, reason=f"{library}: run make integrations")
    columns = {name: frame[name].to_numpy() for name in frame.select_dtypes("number")}
    columns |= {name: frame[name].tolist() for name in frame.columns.difference([*columns])}
    return module.DataFrame(columns) if library == "polars" else module.table(columns)


def columns_of(result: Any) -> dict[str, list[Any]]:
    """The columns of a result, whatever it is; for pandas with its index."""
    if isinstance(result, pd.Series | pd.DataFrame):
        result = result.reset_index()
        return {str(name): result[name].tolist() for name in result.columns}
    found: dict[str, list[Any]]
    found = result.to_pydict() if hasattr(result, "to_pydict") else result.to_dict(as_series=False)
    return found


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("make", ANY_CLASSES)
def test_the_same_kind_comes_back_with_the_same_numbers(
    make: Callable[[], Aggregator], library: str
) -> None:
    frame = crowd()
    data = as_in(library, frame)
    rows = list(zip(frame.task.tolist(), frame.worker, frame.label, strict=True))
    plain, model = make().fit(rows), make().fit(data)
    for result in (model.predict(), model.predict_proba(), model.workers_):
        assert type(result).__module__.partition(".")[0] == library
    predicted = columns_of(model.predict())
    assert predicted == {
        "task": list(plain.predict()),
        "agg_label": list(plain.predict().values()),
    }
    shares = columns_of(model.predict_proba())
    assert list(shares) == ["task", "bird", "cat", "dog"]
    assert shares["dog"] == [row["dog"] for row in plain.predict_proba().values()]
    workers = columns_of(model.workers_)
    assert workers["worker"] == list(plain.workers_)
    assert workers["accuracy"] == [row["accuracy"] for row in plain.workers_.values()]
    some = columns_of(model.predict(as_in(library, frame[["task"]].tail(3))))
    assert some["agg_label"] == [plain.predict()[task] for task in some["task"]]


def test_pandas_gets_a_series_by_task_as_from_crowd_kit() -> None:
    frame = crowd()
    labels = Settled().fit_predict(frame)
    assert isinstance(labels, pd.Series)
    assert (labels.name, labels.index.name) == ("agg_label", "task")
    assert (labels.index.dtype, labels.dtype) == (frame.task.dtype, frame.label.dtype)
    shares = Settled().fit_predict_proba(frame)
    assert (shares.index.name, shares.columns.name) == ("task", "label")
    assert (shares.idxmax(axis=1) == labels).all()
    skills = Settled().fit(frame).skills_
    assert (skills.name, skills.index.name) == ("skill", "worker")


@pytest.mark.parametrize("make", ALL)
def test_rows_and_columns_need_no_library(
    make: Callable[[], Aggregator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    expected = {"t1": "no", "t2": "yes", "t3": "no"}
    columns = dict(zip(("task", "worker", "label"), zip(*ROWS, strict=True), strict=True))
    arrays = {name: np.array(column) for name, column in columns.items()}
    for data in (ROWS, iter(ROWS), columns, arrays):
        assert make().fit_predict(data) == expected
    shares = make().fit_predict_proba(ROWS)
    assert all(sum(row.values()) == pytest.approx(1) for row in shares.values())
    with pytest.raises(ImportError, match=r"pip install 'sbic\[frames\]'"):
        make().fit(crowd())


def test_settled_is_what_it_is_on_files() -> None:
    labels, _ = crowd_of_classes(3, tasks=60, workers=8, labels_per_task=5, seed=1)
    expected = settled(labels, Prior(), np.random.default_rng())
    assert isinstance(expected, ClassEstimate)
    shares = Settled(classes=NAMES).fit_predict_proba(crowd())
    np.testing.assert_allclose(shares.loc[range(60)], expected.score, atol=1e-7)


@pytest.mark.parametrize("make", ANY_CLASSES)
def test_more_labels_bring_it_to_where_all_at_once_bring_it(make: Callable[[], Aggregator]) -> None:
    frame = crowd()
    whole, parts = make().fit(frame), make()
    for start in range(0, len(frame), 70):
        parts.partial_fit(frame[start : start + 70])
        parts.predict()  # asking between leaves no trace
    pd.testing.assert_frame_equal(whole.predict_proba(), parts.predict_proba(), atol=1e-6)
    again = whole.fit(frame[:70]).predict_proba()
    pd.testing.assert_frame_equal(again, make().fit_predict_proba(frame[:70]), atol=1e-6)


def test_fast_sbic_takes_the_rows_in_their_order() -> None:
    labels = random_crowd(40, 6, 20, seed=3)
    rows = list(
        zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    )
    one: FastSBIC[int, int] = FastSBIC(Prior(3, 1))
    for row in rows:
        one.observe(*row)
    many: FastSBIC[int, int] = FastSBIC(Prior(3, 1)).fit(rows[:300]).partial_fit(rows[300:])
    assert many.predict_proba() == {task: one.probabilities(task) for task, _, _ in rows}
    with pytest.raises(ValueError, match="two classes, not 3; use settled"):
        FastSBIC().fit(crowd())


@pytest.mark.parametrize("make", ALL)
def test_gold_is_certain_and_tells_of_workers(make: Callable[[], Aggregator]) -> None:
    plain, told = make().fit(ROWS), make().fit(ROWS, gold={"t1": "yes", "new": "no"})
    assert told.predict() == {"t1": "yes", "t2": told.predict()["t2"], "t3": told.predict()["t3"]}
    assert told.predict_proba()["t1"]["yes"] == pytest.approx(1)
    trust = {
        model: {who: row["correct"] for who, row in model.workers_.items()}
        for model in (plain, told)
    }
    assert trust[told]["cy"] - trust[told]["ann"] > trust[plain]["cy"] - trust[plain]["ann"]
    series = pd.Series(["yes", "no", None], index=["t1", "new", "t2"])
    frame = pd.DataFrame({"truth": ["yes", "no"], "task": ["t1", "new"]})
    for gold in (series, frame, [("t1", "yes"), ("new", "no")]):
        assert make().fit(ROWS, gold).predict_proba() == told.predict_proba()
    assert (plain.report_["gold"], told.report_["gold"]) == (0, 1)


@pytest.mark.parametrize("make", ALL)
def test_what_cannot_be_gold_is_refused_and_changes_nothing(
    make: Callable[[], Aggregator],
) -> None:
    model = make().fit(ROWS)
    before = model.predict_proba()
    with pytest.raises(ValueError, match="no gold task has a label; gold is the truth by task"):
        model.fit_predict(ROWS, {"ann": 0.9, "bob": 0.4})  # the skills that crowd-kit takes here
    assert model.predict_proba() == before


@pytest.mark.parametrize("make", ALL)
def test_a_missing_label_is_a_skip_and_the_first_answer_counts(
    make: Callable[[], Aggregator],
) -> None:
    expected = make().fit(ROWS).predict_proba()
    more = [*ROWS, ("t4", "dee", None), ("t1", "ann", "yes")]
    assert make().fit(more).predict_proba() == expected
    frame = pd.DataFrame(more, columns=["task", "worker", "label"])
    assert make().fit(frame).predict_proba().to_dict("index") == expected
    assert make().fit(more).report_["labels"] == len(ROWS)


@pytest.mark.parametrize("make", ALL)
def test_of_a_single_class_all_tasks_are(make: Callable[[], Aggregator]) -> None:
    assert make().fit_predict_proba([("t1", "ann", "cat")]) == {"t1": {"cat": 1.0}}


@pytest.mark.parametrize("make", ALL)
def test_without_labels_there_is_nothing_to_predict(make: Callable[[], Aggregator]) -> None:
    model = make().fit([])
    assert (model.predict(), model.workers_, model.report_["expected_error"]) == ({}, {}, None)
    assert model.predict_proba([("new",)]) == {"new": {-1: 0.5, 1: 0.5}}


def test_the_report_says_what_is_known() -> None:
    labels, truth = crowd_of_classes(3, tasks=300, workers=9, labels_per_task=5, seed=4)
    rows = list(
        zip(labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True)
    )
    report = Settled().fit(rows).report_
    assert (report["tasks"], report["workers"], report["labels"]) == (300, 9, 1500)
    assert report["prevalence"] is None
    assert 1 < report["effective_votes"] <= 5
    gold = {task: int(truth[task]) for task in range(50)}
    report = Settled().fit(rows, gold).report_
    assert sum(share for share, _ in report["prevalence"].values()) == pytest.approx(1, abs=0.02)
    model: Settled[int, int, int] = Settled().fit(rows, gold)
    found = np.array([model.predict()[task] != truth[task] for task in range(50, 300)])
    assert report["expected_error"] == pytest.approx(found.mean(), abs=0.06)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("t1", "ann")], r"row 0 is not \(task, worker, label\) but \['t1', 'ann'\]"),
        ({"task": ["t1"], "worker": ["ann"]}, "there is no column label among"),
        ({"task": ["t1"], "worker": [], "label": [1]}, "differ in length"),
        ([("t1", None, 1)], "row 0 has no worker"),
        (pd.DataFrame({"task": [1], "label": [1]}), "there is no column worker among"),
    ],
)
def test_what_is_no_labels_is_refused_in_a_line(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settled().fit(data)


def test_what_is_no_data_or_no_class_is_refused_in_a_line() -> None:
    with pytest.raises(TypeError, match="give a data frame of pandas, polars or pyarrow"):
        Settled().fit(3)
    model: Settled[str, str, str] = Settled(classes=NAMES).fit([("t1", "ann", "cat")])
    with pytest.raises(ValueError, match="a label is cat, dog or bird, not 'cow'"):
        model.partial_fit([("t2", "ann", "cow")])
    with pytest.raises(ValueError, match="a label is cat, dog or bird, not 'cow'"):
        model.fit([("t2", "ann", "dog")], gold={"t2": "cow"})
    assert model.predict() == {"t1": "cat"}  # what is refused changes nothing


def test_parameters_are_those_of_scikit_learn() -> None:
    names = ["cat", "dog"]
    model: Settled[str, str, str] = Settled(classes=names, prior=Prior(3, 1), class_prior="uniform")
    assert model.get_params() == {
        "classes": names,
        "prior": Prior(3, 1),
        "class_prior": "uniform",
        "scale": None,
        "ordered": False,
    }
    assert model.set_params(classes=None).fit([("t1", "ann", "x")]).classes_ == ("x",)
    with pytest.raises(ValueError, match="no parameter depth; there are n_iter, tol, classes"):
        DawidSkene().set_params(depth=3)


@pytest.mark.parametrize("make", ALL)
def test_scikit_learn_clones_it(make: Callable[[], Aggregator]) -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn: run make integrations")
    model = make().set_params(classes=["no", "yes"]).fit(ROWS)
    clone = base.clone(model)
    assert type(clone) is type(model)
    assert clone.get_params() == model.get_params()
    assert clone.predict() == {}
    assert clone.fit(ROWS).predict_proba() == model.predict_proba()

"""A panel of graders in inspect_ai: `make integrations` installs it and runs these tests."""

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai: run make integrations")

import inspect_ai
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, model_graded_qa

from sbic import Settled
from sbic.integrations.inspect_ai import crowd_of, jury
from tests.docs.documents import document

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of inspect_ai and what it imports
    pytest.mark.timeout(600),
]

NOTHING = "I cannot say."


def scores(*values: Any) -> list[Score]:
    return [Score.unscored() if value is None else Score(value=value) for value in values]


def model(name: str, texts: Sequence[str]) -> Any:
    """A model that says this, in the order of the samples."""
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # or it wants to count
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    for output in outputs:
        output.usage = usage
    return get_model(f"mockllm/{name}", custom_outputs=outputs, memoize=False)


def grader(name: str, grades: Sequence[str]) -> Any:
    """A model that gives these grades, in the order of the samples."""
    return model(name, [each if each == NOTHING else f"GRADE: {each}" for each in grades])


def graded(folder: Path, columns: Sequence[Sequence[str]], reducer: Any) -> EvalLog:
    """The log of an evaluation whose samples get these grades, a column for each grader."""
    samples = [Sample(input=f"question {n}", target="x", id=n) for n in range(len(columns[0]))]
    graders: Any = [grader(f"g{k}", column) for k, column in enumerate(columns)]
    task = inspect_ai.Task(
        MemoryDataset(samples), scorer=model_graded_qa(model=graders, reducer=reducer)
    )
    (log,) = inspect_ai.eval(
        task,
        model=model("answers", ["an answer"] * len(samples)),
        log_dir=str(folder),
        display="none",
        max_samples=1,  # in order
    )
    assert log.status == "success", log.error
    return read_eval_log(log.location)


def values(log: EvalLog) -> list[Any]:
    assert log.samples
    return [sample.scores["model_graded_qa"].value for sample in log.samples if sample.scores]


def a_panel(samples: int) -> tuple[list[str], list[list[str]]]:
    """The truth, and the grades of four who are mostly right and five who guess."""
    rng = Random(5)
    truth = [rng.choice("CI") for _ in range(samples)]
    other = {"C": "I", "I": "C"}
    good = [[t if rng.random() < 0.95 else other[t] for t in truth] for _ in range(4)]
    guesses = [[rng.choice("CI") for _ in truth] for _ in range(5)]
    return truth, [*guesses, *good]


def test_members_are_weighed_where_a_majority_of_guesses_would_win(tmp_path: Path) -> None:
    truth, columns = a_panel(80)
    log = graded(tmp_path, columns, jury())
    wrong = sum(a != b for a, b in zip(values(log)[30:], truth[30:], strict=True))
    majority = sum(
        max("CI", key=votes.count) != right
        for votes, right in list(zip(zip(*columns, strict=True), truth, strict=True))[30:]
    )
    assert wrong < majority / 2
    crowd = crowd_of(log)
    expected = [
        (str(n), str(k + 1), grade)
        for n in range(80)
        for k, column in enumerate(columns)
        for grade in [column[n]]
    ]
    assert crowd.predict() == Settled().fit(expected).predict()
    assert list(crowd.workers_) == [str(k + 1) for k in range(9)]
    assert min(crowd.workers_[str(k)]["accuracy"] for k in range(6, 10)) > 0.8


def test_a_member_that_fails_is_a_skip_and_no_grade_at_all_is_no_score(tmp_path: Path) -> None:
    columns = [["C", NOTHING, NOTHING], ["C", "I", NOTHING], [NOTHING, "I", NOTHING]]
    log = graded(tmp_path, columns, "sbic/jury")  # by its name, as on a command line
    assert log.samples
    assert values(log)[:2] == ["C", "I"]
    last = log.samples[2].scores["model_graded_qa"]
    assert last.value != last.value
    panel = log.samples[1].scores["model_graded_qa"].metadata["panel"]
    assert (panel["votes"], panel["failures"], panel["size"]) == ([None, "I", "I"], [0], 3)
    assert panel["probabilities"]["I"] == panel["confidence"] > 0.5
    assert log.results
    assert log.results.scores[0].scored_samples == 2


def test_no_order_of_the_members_decides() -> None:
    for order in ("C", "I"), ("I", "C"):
        tie = jury()(scores(*order))
        assert tie.value != tie.value
        assert tie.metadata
        assert tie.metadata["panel"]["confidence"] == pytest.approx(0.5)
    given = [("C", "C", "I"), ("I", "I", "I"), ("C", "I", "C"), ("I", "C", "C")]
    one, other = jury(), jury()
    for votes in given:
        assert one(scores(*votes)).value == other(scores(*reversed(votes))).value


def test_a_member_that_inspect_leaves_out_is_not_taken_for_another() -> None:
    panel = jury(members=["a", "b", "c"])
    for _ in range(30):
        panel(scores("C", "C", "I"))
    before = panel._crowd.workers_["c"]["labels"]
    panel(scores("C", "I"))  # of whom, nobody knows
    assert panel._crowd.workers_["c"]["labels"] == before
    with pytest.raises(ValueError, match="4 graders, but only 3 members are named"):
        panel(scores("C", "C", "C", "C"))


def test_grades_that_nobody_has_named_are_added() -> None:
    panel = jury()
    for _ in range(3):
        assert panel(scores("C", "C", "I")).value == "C"
    partial = panel(scores("P", "P", "P"))
    assert partial.value == "P"
    assert partial.metadata
    assert partial.metadata["panel"]["probabilities"].keys() == {"C", "I", "P"}
    with pytest.raises(ValueError, match="one grade in each score"):
        panel(scores({"a": 1}, {"a": 2}))


def test_what_has_no_panel_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="no grades of a panel"):
        crowd_of(graded(tmp_path, [["C"], ["I"]], "mean"))
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    monkeypatch.delitem(sys.modules, "sbic.integrations.inspect_ai")
    with pytest.raises(ImportError, match=r"pip install 'sbic\[inspect\]'"):
        __import__("sbic.integrations.inspect_ai")


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (
        block.text
        for block in document("docs/judges.md").blocks("python")
        if "inspect_ai" in block.text
    )
    log = graded(tmp_path, [["C", "I"], ["C", "C"], ["C", "I"]], jury())
    names: dict[str, Any] = {}
    exec(first, names)
    exec(second.replace("logs/2026-01-01.eval", log.location), names)
    assert list(names["crowd"].workers_) == names["panel"]

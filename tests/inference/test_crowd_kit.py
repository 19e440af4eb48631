"""Side by side with crowd-kit: `make integrations` installs it and runs these tests."""

from doctest import DocTestParser, Example
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sbic
from tests.inference.crowds import crowd_of_classes, real_crowds

crowdkit = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit: run make integrations")

pytestmark = pytest.mark.filterwarnings("ignore")  # crowd-kit uses what pandas will remove

README = """
from crowdkit.aggregation import DawidSkene
import pandas as pd
df = pd.read_csv('results.csv')  # should contain columns: task, worker, label
aggregated_labels = DawidSkene(n_iter=100).fit_predict(df)
"""
CROWDS = ("simulated", "birds", "dog", "ducks", "face", "rte", "temp")


def labels_and_truth(name: str) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    if name == "simulated":
        labels, truth = crowd_of_classes(4, tasks=300, workers=30, labels_per_task=5, seed=2)
        columns = {"task": labels.task, "worker": labels.worker, "label": labels.answer}
        return pd.DataFrame(columns), pd.Series(truth)
    folder = real_crowds()
    truth = pd.read_csv(folder / f"{name}.truth.csv").set_index("task")["truth"]
    return pd.read_csv(folder / f"{name}.labels.csv"), truth


def test_the_example_of_its_readme_runs_with_another_import(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    labels_and_truth("simulated")[0].to_csv("results.csv", index=False)
    theirs: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    exec(README, theirs)
    exec(README.replace("from crowdkit.aggregation", "from sbic"), ours)
    pd.testing.assert_series_equal(theirs["aggregated_labels"], ours["aggregated_labels"])


def examples() -> list[str]:
    """The programs in the docstrings of its classes, but for two with parameters of its own."""
    texts = [crowdkit.DawidSkene.__doc__, crowdkit.MajorityVote.__doc__]
    programs = [
        "".join(example.source for example in block)
        for text in texts
        for block in split_at_imports(DocTestParser().get_examples(text))
    ]
    others = "initial_error", "skills"
    return [program for program in programs if not any(name in program for name in others)]


def split_at_imports(found: list[Example]) -> list[list[Example]]:
    blocks: list[list[Example]] = []
    for example in found:
        if example.source.startswith("from crowdkit.aggregation") or not blocks:
            blocks.append([])
        blocks[-1].append(example)
    return blocks


@pytest.mark.parametrize("name", CROWDS)
def test_the_examples_of_its_docstrings_run_with_another_import(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, truth = labels_and_truth(name)
    monkeypatch.setattr("crowdkit.datasets.load_dataset", lambda _: (data, truth))  # it downloads
    programs = examples()
    assert len(programs) == 3
    for program in programs:
        theirs: dict[str, Any] = {}
        ours: dict[str, Any] = {}
        exec(program, theirs)
        exec(program.replace("from crowdkit.aggregation", "from sbic"), ours)
        same = theirs["result"].eq(ours["result"].reindex(theirs["result"].index))
        if "MajorityVote" in program:
            shares = crowdkit.MajorityVote().fit(data).probas_
            same |= shares.eq(shares.max(axis=1), axis=0).sum(axis=1) > 1  # a tie
        assert same.all()


@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.parametrize("name", CROWDS)
def test_dawid_skene_is_that_of_crowd_kit(name: str, with_gold: bool) -> None:
    data, truth = labels_and_truth(name)
    gold = truth[:40] if with_gold else None
    theirs, ours = crowdkit.DawidSkene(100), sbic.DawidSkene(100)
    theirs.fit(data, gold)
    ours.fit(data, gold)
    np.testing.assert_array_equal(ours.probas_.columns, sorted(theirs.probas_.columns))
    expected = theirs.probas_[ours.probas_.columns]
    pd.testing.assert_frame_equal(ours.probas_, expected, rtol=0, atol=1e-8)
    pd.testing.assert_series_equal(ours.labels_, expected.idxmax(axis=1), check_names=False)


@pytest.mark.parametrize("name", CROWDS)
def test_majority_is_that_of_crowd_kit_but_for_ties(name: str) -> None:
    data, _ = labels_and_truth(name)
    theirs, ours = crowdkit.MajorityVote().fit(data), sbic.MajorityVote().fit(data)
    shares = theirs.probas_.reindex_like(ours.probas_)
    pd.testing.assert_frame_equal(ours.probas_, shares)
    is_tie = shares.eq(shares.max(axis=1), axis=0).sum(axis=1) > 1
    expected = theirs.labels_.reindex(shares.index)
    pd.testing.assert_series_equal(ours.labels_[~is_tie], expected[~is_tie])
    decided = data[data.task.map(~is_tie)]
    skills = crowdkit.MajorityVote().fit(decided).skills_
    ours.fit(decided)
    pd.testing.assert_series_equal(ours.skills_, skills.reindex(ours.skills_.index))

"""`sbic report` on files: what it says and shows, its gate, and how it refuses."""

import json
import os
import re
from html import unescape
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import Sbic
from tests.docs.documents import document
from tests.inference.crowds import read, real_crowds
from tests.test_schemas import schema

HOSTILE = '<script>alert("1")</script>\u202e\x1b[2J'
PAGE = document("docs/judges.md")


@pytest.fixture
def jury(sbic: Sbic) -> Sbic:
    """Three judges, of whom two copy each other, on 300 tasks, 60 of them gold."""
    rng = Random(4)
    labels, golds = ["task,worker,label"], ["task,truth"]
    for number in range(300):
        truth = rng.choice(["no", "yes"])
        good = truth if rng.random() < 0.9 else rng.choice(["no", "yes"])
        weak = truth if rng.random() < 0.2 else rng.choice(["no", "yes"])
        labels += [f"t{number},good,{good}", f"t{number},weak,{weak}", f"t{number},copy,{weak}"]
        if number < 60:
            golds.append(f"t{number},{truth}")
    labels += [f"t{number},lazy," for number in range(30)] + ["t0,lazy,yes"]
    Path("labels.csv").write_text("\n".join(labels) + "\n")
    Path("gold.csv").write_text("\n".join(golds) + "\n")
    return sbic


def as_json(sbic: Sbic, *arguments: str) -> dict[str, Any]:
    ended = sbic("report", "labels.csv", "--json", *arguments)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    Draft202012Validator(schema("report")).validate(found)
    return found


def test_it_says_whom_to_trust_who_copies_what_is_wrong_and_what_to_do(jury: Sbic) -> None:
    ended = jury("report", "labels.csv", "--truth", "gold.csv")
    assert (ended.status, ended.err) == (0, "classes: no, yes (algorithm: settled)\nskips: 30\n")
    text = " ".join(ended.out.split())
    assert re.search(r"Trust good most: right on \d+ of 60 gold tasks \(\d+%, 95 % interval", text)
    assert re.search(r"(weak and copy|copy and weak) copy each other: the same answer on 100", text)
    assert re.search(r"(weak|copy) \(\d+%\) and (weak|copy) \(\d+%\) are not shown to be", text)
    assert re.search(r"About \d+ of 240 predictions are wrong \(\d.*; by 60 gold tasks", text)
    assert "Leave out one of " in text
    assert "have people judge 180 more tasks drawn at random" in text
    assert re.search(r"lazy .* 96\.8%", text)  # of skips


def test_the_numbers_are_those_of_the_file(jury: Sbic) -> None:
    found = as_json(jury, "--truth", "gold.csv")
    labels = {(row["task"], row["worker"]): row["label"] for row in read(Path("labels.csv"))}
    truth = {row["task"]: row["truth"] for row in read(Path("gold.csv"))}
    judges = {judge["worker"]: judge for judge in found["judges"]}
    assert found["judges"][0]["worker"] == "good"
    for name in ("good", "weak"):
        right = sum(labels[task, name] == known for task, known in truth.items())
        gold = judges[name]["gold"]
        assert (gold["tasks"], gold["right"]) == (60, right)
        assert gold["confusion"][0][1] == sum(
            known == "no" and labels[task, name] == "yes" for task, known in truth.items()
        )
    (copies,) = [pair for pair in found["pairs"] if pair["shared"] > 0]
    assert set(copies["workers"]) == {"weak", "copy"}
    assert copies["shared"] == copies["kappa"] == copies["gold"]["share"] == 1
    assert judges["lazy"]["skips"] == 30
    low, high = found["wrong"]["interval"]
    assert low < found["wrong"]["share"] < high
    assert found["next"]["gold"] == 180
    assert len(set(found["next"]["tasks"])) == 180
    assert not set(found["next"]["tasks"]) & truth.keys()
    assert found["next"]["tasks"][:3] == as_json(jury, "--truth", "gold.csv")["next"]["tasks"][:3]


def test_without_gold_it_says_that_nothing_checks_it(jury: Sbic) -> None:
    found = as_json(jury)
    assert "Whom to trust rests on agreement alone, since no truth is known" in found["findings"][0]
    assert found["next_steps"][0].startswith("Have people judge 50 tasks drawn at random")
    assert found["calibration"] is found["wrong"]["interval"] is found["judges"][0]["gold"] is None


def test_gold_only_leaves_out_what_rests_on_estimates(jury: Sbic) -> None:
    found = as_json(jury, "--truth", "gold.csv", "--gold-only")
    whole = as_json(jury, "--truth", "gold.csv")
    assert found["wrong"] is None
    assert all(judge["posterior"] is None for judge in found["judges"])
    assert all(pair["posterior"] is None for pair in found["pairs"])
    golds = [judge["gold"] for judge in found["judges"]]
    assert golds == [judge["gold"] for judge in whole["judges"]]
    shares = [row["truth"] for row in read(Path("gold.csv"))].count("yes") / 60
    assert found["shares"]["yes"]["share"] == shares
    assert "About" not in " ".join(found["findings"])


def test_json_lines_and_a_single_judge(sbic: Sbic) -> None:
    rows = [{"task": f"t{n}", "worker": "m", "label": n % 2} for n in range(20)]
    Path("v.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = sbic("report", "v.jsonl", "--classes", "0,1", "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    Draft202012Validator(schema("report")).validate(found)
    assert found["pairs"] == []
    assert found["jury"]["alpha"] is None


GOOD = ("good: accuracy >= 0.8 with 60 gold", "ece <= 50 %", "alpha > -1", "lazy: skips < 97%")


def test_rules_that_hold_pass(jury: Sbic) -> None:
    given = [part for rule in GOOD for part in ("--require", rule)]
    ended = jury("report", "labels.csv", "--truth", "gold.csv", *given, "--junit", "out.xml")
    assert ended.status == 0, ended.err
    suite = ElementTree.parse("out.xml").getroot()
    assert suite.attrib == {"name": "sbic report", "tests": "4", "failures": "0", "errors": "0"}
    assert [case.attrib["name"] for case in suite] == list(GOOD)


def test_a_rule_that_fails_is_1_and_too_little_gold_2_with_a_line_each(jury: Sbic) -> None:
    fails, unknown = "weak: accuracy >= 0.85 with 50 gold", "good: kappa >= 0.1 with 61 gold"
    given = ["report", "labels.csv", "--truth", "gold.csv", "--junit", "out.xml"]
    ended = jury(*given, "--require", fails, "--require", unknown, "--require", GOOD[0])
    assert ended.status == 1
    lines = [line for line in ended.err.splitlines() if line.startswith("sbic report: ")]
    assert re.fullmatch(rf"sbic report: fails: {fails}: it is 0\.\d+", lines[0])
    assert lines[1:] == [
        f"sbic report: cannot say: {unknown}: there are 60 gold tasks, not 61; to make do with "
        "fewer: with 60 gold"
    ]
    suite = ElementTree.parse("out.xml").getroot()
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("1", "1")
    assert [[part.tag for part in case] for case in suite] == [["failure"], ["error"], []]
    assert jury(*given, "--require", unknown).status == 2
    few = jury("report", "labels.csv", "--truth", "truth.csv", "--require", "ece <= 1")
    assert few.status == 2  # truth.csv has the truth of three tasks, of classes that are not here


def test_the_gold_that_a_rule_needs_is_that_of_its_judge(jury: Sbic) -> None:
    ended = jury(
        *("report", "labels.csv", "--truth", "gold.csv"),
        *("--require", "lazy: accuracy >= 0.5", "--require", "ece <= 1"),
    )
    assert ended.status == 2
    assert "there are 1 gold tasks, not 30; to make do with fewer: with 1 gold" in ended.err


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("good accuracy", "is not [JUDGE:] MEASURE >= NUMBER [with N gold]"),
        ("good: accuracy = 0.5", "with one of >= <= > <"),
        ("good: speed > 1", "of a judge there are accuracy, kappa, low, skips"),
        ("good: ece < 1", "leave out the judge"),
        ("accuracy >= 1", "of the project there are ece, wrong, alpha, ordinal, votes; name the"),
        ("nobody: accuracy >= 1", "no judge is called so; there are 'good'"),
    ],
)
def test_a_rule_that_cannot_be_read_says_what_is_allowed(jury: Sbic, rule: str, said: str) -> None:
    ended = jury("report", "labels.csv", "--truth", "gold.csv", "--require", rule)
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) <= 3  # notes on the file, and the line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--truth", "gold.csv"], "--truth needs LABELS.csv; the truth of a running project is"),
        (["--classes", "a,b"], "options for reading a file need LABELS.csv"),
        (["labels.csv", "--junit", "x.xml"], "--junit needs --require"),
        (["-", "--truth", "-"], "only one of LABELS.csv and --truth can be standard input"),
        (["labels.csv", "--columns", "truth=x"], "needs --truth: it is a column of that file"),
        (["missing.csv"], "missing.csv: cannot be read"),
        (["labels.csv", "--html", "no/such/folder.html"], "no/such"),
    ],
)
def test_what_does_not_go_together_is_refused(jury: Sbic, arguments: list[str], said: str) -> None:
    ended = jury("report", *arguments)
    assert ended.status == 2
    assert said in ended.err


def test_one_class_is_not_a_jury(sbic: Sbic) -> None:
    Path("labels.csv").write_text("task,worker,label\nt1,ann,cat\nt2,bob,cat\n")
    ended = sbic("report", "labels.csv")
    assert ended.status == 2
    assert "has one class only: name all classes with --classes" in ended.err


def test_hostile_names_are_text_everywhere(sbic: Sbic) -> None:
    rows = ["task,worker,label"]
    quoted = '"{}"'.format(HOSTILE.replace('"', '""'))
    for number in range(60):
        for name in (quoted, "other"):
            label = quoted if number % 3 else '"</style>"'
            rows.append(f'"t{number}<b>",{name},{label}')
    Path("labels.csv").write_text("\n".join(rows) + "\n")
    golds = [f"t{number}<b>,{quoted if number % 3 else '</style>'}" for number in range(40)]
    Path("gold.csv").write_text("\n".join(["task,truth", *golds]) + "\n")
    given = "report", "labels.csv", "--truth", "gold.csv", "--html", "r.html", "--junit", "r.xml"
    ended = sbic(*given, "--require", f"{HOSTILE}: accuracy > 1")
    assert ended.status == 1, ended.err
    page = Path("r.html").read_text()
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert "<b>" not in page
    for text in (page, ended.out, ended.err):
        assert "\x1b" not in text
        assert "\u202e" not in text
    ElementTree.parse("r.xml")
    assert "default-src 'none'" in page


def test_the_page_is_one_file_with_its_pictures(jury: Sbic) -> None:
    assert jury("report", "labels.csv", "--truth", "gold.csv", "--html", "r.html").status == 0
    page = Path("r.html").read_text()
    assert page.count("<svg") >= 4 + 1 + 1 + 2  # judges, pairs, confidence, classes
    assert not re.search(r"""(src|href)=|url\(|@import""", page)
    found = as_json(jury, "--truth", "gold.csv")
    for sentence in found["findings"]:
        assert sentence in unescape(page)
    assert sorted(os.listdir()) == ["gold.csv", "labels.csv", "r.html", "truth.csv"]


def test_the_jury_of_the_documents_comes_to_what_the_page_says(
    sbic: Sbic, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = real_crowds().parent / "juries"
    if not folder.is_dir():
        pytest.skip("the juries are not beside the crowds")
    models = "neural-chat-7b-v3-1", "openchat_3.5", "TinyLlama-1.1B-Chat-v1.0"
    rows = [row for row in read(folder / "mosi.labels.csv") if row["worker"] in models]
    lines = [f"{row['task']},{row['worker']},{row['label']}\n" for row in rows]
    Path("mosi.csv").write_text("task,worker,label\n" + "".join(lines))
    truth = [f"{row['task']},{row['truth']}\n" for row in read(folder / "mosi.truth.csv")]
    chosen = np.random.default_rng(1).permutation(len(truth))[:50].tolist()
    Path("gold.csv").write_text("task,truth\n" + "".join(truth[number] for number in chosen))
    monkeypatch.setenv("COLUMNS", "96")
    printed = sbic("report", "mosi.csv", "--truth", "gold.csv").out
    (block,) = [each.text for each in PAGE.blocks("text") if each.text.startswith("mosi.csv")]
    assert re.sub(r" +\n", "\n", printed).startswith(block)

"""`sbic infer` on labels that are not 1 and -1."""

import gzip
from pathlib import Path

import pytest

from sbic.infer.registry import ALGORITHMS, default_algorithm
from tests.cli.conftest import LABELS, Sbic

PETS = "task,worker,label\nt1,ann,dog\nt1,bob,dog\nt1,cy,cat\nt2,ann,cat\nt2,bob,dog\nt3,cy,\n"
ANSWERS = LABELS.replace(",-1\n", ",no\n").replace(",1\n", ",yes\n")


def test_classes_get_a_prediction_a_confidence_and_a_share_for_each(sbic: Sbic) -> None:
    Path("pets.csv").write_text(PETS)
    ended = sbic("infer", "pets.csv", "--algorithm", "majority", "--classes", "dog,cat,bird")
    assert ended.status == 0
    assert ended.out.splitlines() == [
        "task,prediction,confidence,p:dog,p:cat,p:bird",
        f"t1,dog,{2 / 3},{2 / 3},{1 / 3},0.0",
        "t2,,0.5,0.5,0.5,0.0",
        "t3,,,,,",
    ]
    assert ended.err.splitlines() == ["classes: dog, cat, bird (algorithm: majority)", "skips: 1"]


def test_the_default_depends_on_the_classes(sbic: Sbic) -> None:
    Path("pets.csv").write_text(PETS)
    chosen = default_algorithm(are_signs=False)
    assert ALGORITHMS[chosen].any_classes
    ended = sbic("infer", "pets.csv")
    assert ended.status == 0
    assert ended.err.startswith(f"classes: cat, dog (algorithm: {chosen})\n")
    assert ended.out == sbic("infer", "pets.csv", "--algorithm", chosen).out
    signs = sbic("infer", "labels.csv")
    assert signs == sbic("infer", "labels.csv", "--algorithm", "fast-sbic")


@pytest.mark.parametrize("name", [e.name for e in ALGORITHMS.values() if not e.any_classes])
def test_what_needs_1_and_minus_1_says_so_and_how_to_have_them(sbic: Sbic, name: str) -> None:
    Path("pets.csv").write_text(PETS)
    ended = sbic("infer", "pets.csv", "--algorithm", name)
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"sbic: {name} needs labels that are -1 and 1, and these are cat, dog:")
    assert "--positive" in line
    assert "--negative" in line
    assert "--algorithm majority" in line


def test_positive_and_negative_give_what_1_and_minus_1_give(sbic: Sbic) -> None:
    Path("answers.csv").write_text(ANSWERS)
    Path("answers.truth.csv").write_text("HIT,Gold\nt1,yes\nt2,no\nt3,no\n")
    truth = ("--truth", "answers.truth.csv", "--columns", "truth=Gold,task=HIT")
    Path("answers.csv").write_text(ANSWERS.replace("task", "HIT"))
    ended = sbic("infer", "answers.csv", "--positive", "yes", "--negative", "no", *truth)
    assert ended == sbic("infer", "labels.csv", "--truth", "truth.csv")


def test_zeros_and_ones_are_refused_until_it_is_said_what_they_are(sbic: Sbic) -> None:
    content = b"task,worker,label\nt1,ann,0\nt1,bob,0\nt2,ann,1\n"
    refused = sbic("infer", "-", stdin=content)
    assert (refused.status, refused.out) == (2, "")
    (line,) = refused.err.splitlines()
    assert "--classes 0,1" in line
    assert "--skip 0" in line
    classes = sbic("infer", "-", "--classes", "0,1", "--algorithm", "majority", stdin=content)
    assert classes.out.splitlines()[1:] == ["t1,0,1.0,1.0,0.0", "t2,1,1.0,0.0,1.0"]
    skips = sbic("infer", "-", "--skip", "0", stdin=content)
    assert (skips.status, skips.err) == (0, "skips: 2\n")
    signs = sbic("infer", "-", "--positive", "1", "--negative", "0", stdin=content)
    assert [row[-2:] for row in signs.out.splitlines()[1:]] == ["-1", ",1"]


def test_the_error_of_classes_is_told(sbic: Sbic) -> None:
    Path("pets.csv").write_text(PETS.replace("t3,cy,", "t3,cy,cat"))
    Path("truth.csv").write_text("task,truth\nt1,dog\nt2,cat\nt3,bird\nt4,cat\n")
    pets = ("infer", "pets.csv", "--algorithm", "majority", "--truth", "truth.csv")
    assert sbic(*pets, "--shuffles", "2").err.splitlines() == [
        "classes: cat, dog (algorithm: majority)",
        "truths of tasks without labels, not in the error: 1",
        "truths that no label has, all in the error: 1",
        "error: 0.5000 (tasks: 3)",
        "error over random orders: mean 0.5000, standard error 0.0000 (orders: 2)",
    ]
    Path("truth.csv").write_text("task,truth\nt1,dog\nt2,\n")
    assert sbic(*pets).err.splitlines()[1:] == [
        "tasks without a truth, not in the error: 2",
        "error: 0.0000 (tasks: 1)",
    ]
    Path("truth.csv").write_text("task,truth\nt1,\n")
    assert "has the truth of none of the tasks" in sbic(*pets).err
    Path("truth.csv").write_text("task,truth\nt1,dog\nt3,bird\n")
    refused = sbic(*pets, "--classes", "cat,dog")
    assert refused.status == 2
    assert "truth.csv, line 3: a truth is one of cat, dog" in refused.err


def test_the_truth_may_be_a_column_of_the_labels(sbic: Sbic) -> None:
    Path("both.csv").write_text("task;worker;label;gold\nt1;ann;1;1\nt1;bob;1;1\nt2;ann;1;-1\n")
    ended = sbic("infer", "both.csv", "--truth", "both.csv", "--columns", "truth=gold")
    assert ended.err == "error: 0.5000 (tasks: 2)\n"


def test_names_with_commas_are_quoted_in_options_as_in_files(sbic: Sbic) -> None:
    Path("odd.csv").write_text('task,worker,"label, final"\nt1,ann,"yes, sure"\nt2,ann,no\n')
    columns = ("--columns", '"label=label, final"')
    ended = sbic("infer", "odd.csv", *columns, "--classes", 'no,"yes, sure"')
    assert ended.status == 0, ended.err
    assert ended.out.startswith('task,prediction,confidence,p:no,"p:yes, sure"\n')


def test_gzip_and_json_lines_come_from_standard_input_too(sbic: Sbic) -> None:
    lines = "".join(
        '{{"task": "{}", "worker": "{}", "label": {}}}\n'.format(*row.split(","))
        for row in LABELS.splitlines()[1:]
    )
    expected = sbic("infer", "labels.csv")
    assert sbic("infer", "-", stdin=gzip.compress(lines.encode())) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "label"], "'label' is not FIELD=COLUMN"),
        (["--columns", "lable=Answer"], "with a field of task, worker, label, truth"),
        (["--columns", "label="], "'label=' is not FIELD=COLUMN"),
        (["--columns", "label=a,label=b"], "the field 'label' is given twice"),
        (["--columns", '"label=a'], "is not a list of names"),
        (["--columns", "truth=gold"], "--columns truth=... needs --truth"),
        (["--columns", "label=Answer"], "labels.csv, line 1: the column 'Answer' is missing"),
        (["--classes", ""], "there must be two classes or more"),
        (["--classes", "a,,b"], "'a,,b' has an empty name"),
        (["--classes", "a"], "there must be two classes or more"),
        (["--classes", "a,b,a"], "'a' is given twice"),
        (["--classes", "1,2"], "labels.csv, line 4: the label '-1' is not one of 1, 2"),
        (["--positive", "1"], "--positive and --negative need each other"),
        (["--positive", "1", "--negative", "1.0"], "'1' is given twice"),
        (["--classes", "a,b", "--skip", "b"], "'b' is a class and a skip"),
        (["--classes", "a,b", "--positive", "a", "--negative", "b"], "--classes does not go with"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    sbic: Sbic, options: list[str], message: str
) -> None:
    ended = sbic("infer", "labels.csv", *options)
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert message in line


def test_a_gzip_bomb_is_refused_in_one_line_with_status_2(sbic: Sbic) -> None:
    Path("bomb.csv.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    for options in (["--max-size", "9.5MB"], ["--max-size", "9500 kb"]):
        ended = sbic("infer", "bomb.csv.gz", *options)
        assert (ended.status, ended.out) == (2, "")
        assert ended.err == (
            "sbic: bomb.csv.gz: has more than 9,500,000 bytes unpacked; if it really is so large, "
            "raise --max-size\n"
        )
    assert "is not text: it has a NUL byte" in sbic("infer", "bomb.csv.gz").err
    assert sbic("infer", "labels.csv", "--max-size", "much").err.endswith(
        "'much' is not a size, such as 500MB or 8GB\n"
    )


def test_classes_that_differ_only_in_case_get_a_warning_and_a_way_out(sbic: Sbic) -> None:
    Path("odd.csv").write_text('task,worker,label\nt1,ann,Ja\nt1,bob,ja\nt2,ann,"nein, nie"\n')
    plain = sbic("infer", "odd.csv", "--algorithm", "majority")
    assert plain.err.splitlines() == [
        "warning: Ja and ja differ only in case, and are two classes; --ignore-case makes them one",
        'classes: Ja, ja, "nein, nie" (algorithm: majority)',
    ]
    one = sbic("infer", "odd.csv", "--algorithm", "majority", "--ignore-case")
    assert one.err == 'classes: Ja, "nein, nie" (algorithm: majority)\n'
    assert "t1,Ja,1.0,1.0,0.0" in one.out
    meant = sbic("infer", "odd.csv", "--classes", "Ja", "--classes", "ja", "--classes", "nein, nie")
    assert meant.status == 0
    assert "warning" not in meant.err


def test_classes_may_be_given_one_by_one_and_then_have_commas_in_their_names(sbic: Sbic) -> None:
    Path("odd.csv").write_text('task,worker,label\nt1,ann,"yes, sure"\nt2,ann,no\nt3,ann,?\n')
    listed = ("infer", "odd.csv", "--skip", "?", "--classes", 'no,"yes, sure"')
    one_by_one = ("infer", "odd.csv", "--skip", "?", "--classes", "no", "--classes", "yes, sure")
    assert sbic(*one_by_one) == sbic(*listed)
    assert sbic(*listed).status == 0
    refused = sbic("infer", "odd.csv", "--classes", "no", "--classes", "yes, sure")
    assert "the label '?' is not one of no, \"yes, sure\" (" in refused.err


def test_an_encoding_is_named_or_refused(sbic: Sbic) -> None:
    Path("excel.csv").write_bytes("task;worker;label\nt1;Jörg;1\n".encode("cp1252"))
    refused = sbic("infer", "excel.csv")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "add --encoding cp1252" in refused.err
    assert sbic("infer", "excel.csv", "--encoding", "cp1252").status == 0
    for name in ("klingon", "rot13", "hex"):
        wrong = sbic("infer", "excel.csv", "--encoding", name)
        assert wrong.err.endswith(f"'{name}' is not an encoding, such as cp1252\n")


RATINGS = "task,worker,label\nt1,ann,4\nt1,bob,5\nt1,cy,4.0\nt2,ann,1\nt2,bob,2\nt2,cy,0\n"


def test_grades_have_a_mean_a_median_and_an_interval(sbic: Sbic) -> None:
    Path("ratings.csv").write_text(RATINGS)
    Path("graded.csv").write_text("task,truth\nt1,4\nt2,1\n")
    ended = sbic("infer", "ratings.csv", "--scale", "1..5", "--truth", "graded.csv")
    assert ended.status == 0
    header, first, second = ended.out.splitlines()
    columns = ["mean", "median", "interval_low", "interval_high", "p:1"]
    assert header.split(",")[3:8] == columns
    assert first.split(",")[4:7] == ["4", "4", "5"]
    assert float(second.split(",")[3]) < 2
    notes = ended.err.splitlines()
    assert notes[:2] == ["classes: 1, 2, 3, 4, 5 (algorithm: settled)", "skips: 1"]
    assert "error: 0.0000 (tasks: 2)" in notes
    assert "distance of the median from the truth: 0.0000 grades, in the mean" in notes
    votes = sbic("infer", "ratings.csv", "--scale", "1..5", "--algorithm", "majority")
    assert votes.out.splitlines()[1].split(",")[4:7] == ["4", "4", "5"]


def test_names_with_an_order_have_them_too(sbic: Sbic) -> None:
    Path("words.csv").write_text("task,worker,label\nt1,ann,good\nt1,bob,fair\nt1,cy,good\n")
    classes = ("--classes", "bad,fair,good", "--ordered")
    ended = sbic("infer", "words.csv", *classes, "--workers", "workers.csv")
    assert ended.out.splitlines()[1].split(",")[4:7] == ["good", "fair", "good"]
    assert Path("workers.csv").read_text().splitlines()[0].endswith(",bias,spread")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--scale", "1..3"), "line 2: the label '4' is not one of 1, 2, 3 (to treat it as a skip"),
        (("--scale", "0..5"), "--scale: a scale is two whole numbers from 1 on"),
        (("--scale", "1..5", "--classes", "1,2"), "--scale says what the labels are"),
        (("--ordered",), "--ordered needs --classes, from the lowest to the highest"),
        (("--ordered", "--classes", "a,b"), "--ordered: there must be at least 3 ordered classes"),
    ],
)
def test_what_is_off_the_scale_or_without_an_order_is_refused(
    sbic: Sbic, arguments: tuple[str, ...], says: str
) -> None:
    Path("ratings.csv").write_text(RATINGS)
    ended = sbic("infer", "ratings.csv", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert says in ended.err

"""The classes of a project: which names are valid, and which labels belong to them."""

import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.classes import MOST_CLASSES, RETRACT, SIGNS, SKIP, Classes
from sbic.engine import SIGN_NAMES

PETS = Classes(("cat", "dog", "bird"))

letters = st.characters(codec="utf-8", exclude_characters=",")
names = (
    st.text(letters, min_size=1, max_size=16)
    .map(str.strip)
    .filter(lambda name: name not in ("", "-1"))
)
some_classes = st.lists(names, min_size=2, max_size=20, unique=True).map(
    lambda found: Classes(tuple(found))
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1,1", ("-1", "1")),
        ("1,-1", ("-1", "1")),
        (" 1 , -1 ", ("-1", "1")),
        ("cat,dog,bird", ("cat", "dog", "bird")),
        (" cat, dog ,\tbird\n", ("cat", "dog", "bird")),
        ("no,yes", ("no", "yes")),
        ("2,3", ("2", "3")),
        ("hot dog,Hot dog", ("hot dog", "Hot dog")),
        ("x" * 64 + ",é", ("x" * 64, "é")),
        ("🐦" * 16 + ",é", ("🐦" * 16, "é")),
    ],
)
def test_classes_are_names_with_commas_between(text: str, expected: tuple[str, ...]) -> None:
    assert Classes.parse(text).names == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at least two classes, not 1"),
        ("cat", "at least two classes, not 1"),
        ("cat,", "a class has no name"),
        ("cat,,dog", "a class has no name"),
        ("cat, ,dog", "a class has no name"),
        ("cat,dog,cat", "the class 'cat' is given twice"),
        ("cat,dog, cat ", "the class 'cat' is given twice"),
        ("1,1", "the class '1' is given twice"),
        ("cat," + "x" * 65, "has 65 bytes in UTF-8, more than 64"),
        ("cat," + "🐦" * 17, "has 68 bytes in UTF-8, more than 64"),
        ("cat,\udcff", "is not text in UTF-8"),
        (",".join(map(str, range(2, MOST_CLASSES + 3))), "1001 classes, more than 1000"),
    ],
)
def test_what_cannot_be_classes_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as bad:
        Classes.parse(text)
    assert len(str(bad.value)) < 200


def test_a_thousand_classes_are_not_too_many() -> None:
    assert len(Classes.parse(",".join(map(str, range(2, MOST_CLASSES + 2))))) == MOST_CLASSES


@pytest.mark.parametrize("found", [(" cat", "dog"), ("cat,dog", "bird")])
def test_classes_are_such_as_a_setting_can_have(found: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="class"):
        Classes(found)


@given(some_classes)
def test_what_is_written_with_commas_is_read_as_the_same_classes(classes: Classes) -> None:
    assert Classes.parse(",".join(classes.names)) == classes
    assert hash(Classes.parse(" , ".join(classes.names))) == hash(classes)


@given(some_classes | st.just(SIGNS))
def test_a_number_stands_for_a_class_and_a_class_for_its_number(classes: Classes) -> None:
    for number in range(len(classes)):
        assert classes.number_of(classes.label_of(number)) == number


@pytest.mark.parametrize(
    "label", [True, False, 1.0, -1.0, "1", "-1", 0, 2, None, [], {}, "cat", "", SKIP]
)
def test_nothing_but_the_numbers_is_one_of_the_signs(label: object) -> None:
    assert SIGNS.number_of(label) is None


@pytest.mark.parametrize("label", ["Cat", " cat", "", 0, 1, True, None, [], ["cat"], {}, b"cat"])
def test_nothing_but_the_names_is_one_of_the_names(label: object) -> None:
    assert PETS.number_of(label) is None


def test_the_numbers_are_those_of_the_engine() -> None:
    assert SIGNS.names == SIGN_NAMES
    assert SKIP < RETRACT < 0


def test_classes_cannot_be_changed_and_can_be_sent_to_another_process() -> None:
    with pytest.raises(FrozenInstanceError):
        PETS.names = ()  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(PETS)) == PETS


@given(some_classes)
def test_a_list_of_classes_fits_into_a_message(classes: Classes) -> None:
    assert len(classes.listed()) < 400
    assert repr(classes.names[0]) in classes.listed()

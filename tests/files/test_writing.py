"""A file is written whole or not at all."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from sbic.engine.labels import Estimate, Labels
from sbic.files import json_array
from sbic.files.json_array import elements
from sbic.files.tables import BadFile
from sbic.files.writing import estimate_csv, write_atomically, write_parts_atomically


def test_the_content_replaces_the_old_one_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")

    def until_the_disk_is_full() -> Iterator[bytes]:
        yield b"n"
        raise OSError(28, "No space left on device")

    with pytest.raises(BadFile, match=r"out\.csv: cannot be written: No space left"):
        write_parts_atomically(path, until_the_disk_is_full())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_atomically(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()


def test_a_missing_folder_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"the folder .*nowhere does not exist"):
        write_atomically(tmp_path / "nowhere" / "out.csv", b"")
    with pytest.raises(BadFile, match="is a folder, not a file"):
        write_atomically(tmp_path, b"")


def test_log_odds_are_written_to_the_last_digit_and_left_empty_where_there_are_none() -> None:
    labels = Labels.of([("t,1", "ann", 1), ("t2", "ann", -1), ("t3", "ann", 0)])
    score = np.array([0.1 + 0.2, -745.0, -0.0])
    assert estimate_csv(labels, Estimate(score)).decode().splitlines() == [
        "task,log_odds,probability,prediction",
        '"t,1",0.30000000000000004,0.574442516811659,1',
        "t2,-745.0,5e-324,-1",
        "t3,0.0,0.5,0",
    ]
    assert estimate_csv(labels, Estimate(score, is_log_odds=False)).decode().splitlines() == [
        "task,log_odds,probability,prediction",
        '"t,1",,,1',
        "t2,,,-1",
        "t3,,,0",
    ]


# A JSON array of any size is read element by element; errors name their line.


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    some.lists(values.filter(lambda value: type(value) is not int), max_size=5), some.integers(1, 7)
)
def test_the_elements_are_those_of_the_array_wherever_chunks_end(
    tmp_path_factory: pytest.TempPathFactory, array: list[Any], size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "array.json"
    path.write_text(json.dumps(array, ensure_ascii=False, indent=1), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_array, "CHUNK_BYTES", size)
        assert list(elements(str(path))) == array


def test_gzip_and_a_byte_order_mark_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "array.json.gz"
    path.write_bytes(gzip.compress('[{"é": 1}, {}]'.encode("utf-8-sig")))
    read: list[int] = []
    assert list(elements(str(path), read.append)) == [{"é": 1}, {}]
    assert sum(read) == path.stat().st_size


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", ", line 1: is not a JSON array"),
        (b'{"a": 1}', ", line 1: is not a JSON array"),
        (b"[{},\n{}", ", line 2: is incomplete: it ends within its JSON"),
        (b'[{},\n{"a": ', ", line 2: is incomplete: it ends within its JSON"),
        (b"[{},\n{a: 1}]", ", line 2: is not JSON: Expecting property name"),
        (b"[{}\n{}]", ", line 2: is not JSON: , or ] is missing"),
        (b"[{}]\n[{}]", ", line 2: has more than one JSON value"),
        (b"[{}, ]", ", line 1: is not JSON: Expecting value"),
        (b"[" * 100_000, ", line 1: is nested too deeply"),
        (b"[\xff]", ": is not text in UTF-8"),
        (gzip.compress(b"[{}]")[:-9], ": is incomplete: its gzip ends too early"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0" + b"\xff" * 50, ": is damaged: its gzip"),
    ],
    ids=range(12),
)
def test_what_is_wrong_is_told(tmp_path: Path, text: bytes, problem: str) -> None:
    path = tmp_path / "array.json"
    path.write_bytes(text)
    with pytest.raises(BadFile) as raised:
        list(elements(str(path)))
    assert str(raised.value).startswith(f"{path}{problem}")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read: No such file"):
        list(elements(str(tmp_path / "none.json")))


def test_an_array_that_is_too_large_unpacked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 10_000_000 + b"]"))
    assert list(elements(str(path), max_size=10_000_002)) == []
    with pytest.raises(BadFile, match=r"has more than 10,000,001 bytes unpacked; .* --max-size$"):
        list(elements(str(path), max_size=10_000_001))

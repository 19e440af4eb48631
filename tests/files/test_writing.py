"""A file is written whole or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sbic.engine.labels import Estimate, Labels
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

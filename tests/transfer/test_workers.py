"""`sbic workers`: what is said of workers becomes records of the roster, all or none."""

from pathlib import Path

import pytest
from orjson import loads

from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.projects import PARTITIONS, records_of, sbic


async def last_of_each(project: Settings) -> dict[str, dict[str, object]]:
    found = {}
    for record in await records_of(project, Topics(project).roster.name):
        value = loads(record.value)
        assert record.key == value["worker"].encode()
        assert record.partition == partition_of(record.key, PARTITIONS)
        found[value.pop("worker")] = value
    return found


async def test_what_is_not_given_stays_as_it_is(project: Settings) -> None:
    for arguments, said in (
        (["ann", "bob", "--blocked"], {"ann": {"blocked": True}, "bob": {"blocked": True}}),
        (["ann", "--name", "Ann"], {"ann": {"blocked": True, "name": "Ann"}}),
        (["ann", "--unblocked"], {"ann": {"blocked": False, "name": "Ann"}}),
        (["ann", "--by-rule"], {"ann": {"name": "Ann"}}),
        (["ann", "--blocked", "--name", ""], {"ann": {"blocked": True}}),
        (
            ["ann", "--group", "night", "--tier", "2", "--price", "0.5"],
            {"ann": {"blocked": True, "group": "night", "tier": 2, "price": 0.5}},
        ),
        (["ann", "--group", "", "--tier", "", "--price", ""], {"ann": {"blocked": True}}),
    ):
        ended = sbic(project, "workers", "set", *arguments)
        assert ended.returncode == 0, ended.stderr
        found = await last_of_each(project)
        assert {worker: found[worker] for worker in said} == said
    assert ended.stderr.splitlines()[-1] == "ann: blocked"
    assert (await last_of_each(project))["bob"] == {"blocked": True}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["ann"], "nothing to change"),
        (["ann", "bob", "--name", "Ann"], "--name is for one worker"),
        (["ann", "x" * 257, "--blocked"], "has 257 bytes"),
        (["ann", "--name", "x" * 257], "'name' must be"),
        (["ann", "--group", "x" * 257], "'group' must be"),
        (["ann", "--tier", "10"], "'tier' must be a whole number from 1 (asked first) to 9"),
        (["ann", "--tier", "first"], "not 'first'"),
        (["ann", "--price", "-1"], "'price' must be 0, a number from 0.000001"),
        (["ann", "--price", "nan"], "not nan"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_sent(
    project: Settings, arguments: list[str], problem: str
) -> None:
    ended = sbic(project, "workers", "set", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert problem in ended.stderr
    assert await last_of_each(project) == {}


ROSTER = "worker,group,tier,price,blocked,name\nann,night,2,0.5,,Ann\nbob,,,,true,\ncy,night,,0,,\n"


async def test_a_file_says_what_is_in_it_and_leaves_the_rest(
    project: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(ROSTER)
    ended = sbic(project, "workers", "import", str(path))
    assert ended.returncode == 0, ended.stderr
    said = "workers said: 3 (2 in 1 groups, 2 with a price, tiers 1, 2)"
    assert ended.stderr.splitlines()[-1] == said
    ann = {"group": "night", "tier": 2, "price": 0.5, "name": "Ann"}
    expected = {"ann": ann, "bob": {"blocked": True}, "cy": {"group": "night", "price": 0.0}}
    assert await last_of_each(project) == expected
    path.write_text('{"judge": "ann", "price": 3, "note": ""}\n{"judge": "dee"}\n')
    ended = sbic(project, "workers", "import", str(path), "--columns", "worker=judge")
    assert (ended.returncode, "not read: note" in ended.stderr) == (0, True)
    expected |= {"ann": {**ann, "price": 3.0}, "dee": {}}
    assert await last_of_each(project) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("worker,price\nann,-1\n", "line 2: 'price' must be 0, a number from 0.000001"),
        ("worker,price\nann,1\nbob,NaN\n", "line 3: 'price' must be"),
        ("worker,tier\nann,0\n", "line 2: 'tier' must be a whole number from 1"),
        ("worker,tier\nann,two\n", "not 'two'"),
        ("worker,blocked\nann,yes\n", "'blocked' must be true, false or null"),
        ("worker,tier\nann,1\nann,2\n", "line 3: the worker 'ann' is already on line 2"),
        ("worker,tier\n,1\n", "line 2: 'worker' is empty"),
        ("tier\n1\n", "worker"),
        ("worker\n", "has no workers"),
    ],
)
async def test_a_bad_file_is_refused_and_nothing_is_sent(
    project: Settings, tmp_path: Path, content: str, problem: str
) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(content)
    ended = sbic(project, "workers", "import", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert problem in ended.stderr
    assert await last_of_each(project) == {}

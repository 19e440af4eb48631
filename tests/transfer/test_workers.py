"""`sbic workers`: what is said of workers becomes records of the roster, all or none."""

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
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_sent(
    project: Settings, arguments: list[str], problem: str
) -> None:
    ended = sbic(project, "workers", "set", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert problem in ended.stderr
    assert await last_of_each(project) == {}

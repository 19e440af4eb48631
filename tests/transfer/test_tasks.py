"""`sbic tasks`: a file or a few names become records of the tasks topic, all or none."""

from pathlib import Path
from time import monotonic

import pytest
from orjson import loads

from sbic.classes import SIGNS, Classes
from sbic.commands.tasks import descriptions_of
from sbic.files.labels import Reading
from sbic.files.tables import BadFile
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.instances import instance
from tests.projects import PARTITIONS, records_of, sbic, write
from tests.records.made import encode_posterior, posterior_of


async def sent(project: Settings) -> dict[str, list[dict[str, object]]]:
    """What was sent of each task; every record keyed by its task, in its partition."""
    found: dict[str, list[dict[str, object]]] = {}
    for record in await records_of(project, Topics(project).tasks.name):
        value = loads(record.value)
        assert record.key == value["task"].encode()
        assert record.partition == partition_of(record.key, PARTITIONS)
        found.setdefault(value["task"], []).append(value)
    return found


async def test_a_file_is_registered(project: Settings, tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text('gold,task,note,prior\n,t1,x,0.3\n-1,"t,2",y,\n,tâche,z,\n 1 ,t4,, 0.5 \n')
    ended = sbic(project, "tasks", "import", str(path))
    assert (ended.returncode, ended.stdout) == (0, "")
    warning, registered = ended.stderr.splitlines()
    assert warning.startswith("warning: columns that are not read: note")
    assert registered == "tasks registered: 4 (2 with a prior, 2 gold)"
    assert await sent(project) == {
        "t1": [{"task": "t1", "prior": 0.3}],
        "t,2": [{"task": "t,2", "gold": -1}],
        "tâche": [{"task": "tâche"}],
        "t4": [{"task": "t4", "prior": 0.5, "gold": 1}],
    }


async def test_other_columns_and_golds_are_registered(project: Settings) -> None:
    lines = '{"HITId": 7, "Prior": 0.3, "gold": "yes"}\n{"HITId": "t2", "gold": "no", "truth": 1}\n'
    options = ["--columns", "task=HITId", "--positive", "yes", "--negative", "no"]
    ended = sbic(project, "tasks", "import", "-", *options, stdin=lines)
    warning, registered = ended.stderr.splitlines()
    assert warning.startswith("warning: columns that are not read: truth (only task, prior and")
    assert registered == "tasks registered: 2 (1 with a prior, 2 gold)"
    assert await sent(project) == {
        "7": [{"task": "7", "prior": 0.3, "gold": 1}],
        "t2": [{"task": "t2", "gold": -1}],
    }


async def test_gold_and_priors_of_named_classes_are_registered(pets: Settings) -> None:
    text = "task,gold,p:cat,p:dog,p:bird\nt1,dog,,,\nt2,,0.5,0.25,0.25\nt3,,,,\n"
    ended = sbic(pets, "tasks", "import", "-", "--classes", pets.classes, stdin=text)
    assert ended.stderr == "tasks registered: 3 (1 with a prior, 1 gold)\n"
    assert await sent(pets) == {
        "t1": [{"task": "t1", "gold": "dog"}],
        "t2": [{"task": "t2", "prior": {"cat": 0.5, "dog": 0.25, "bird": 0.25}}],
        "t3": [{"task": "t3"}],
    }


async def test_what_was_said_of_tasks_with_named_classes_is_heeded(pets: Settings) -> None:
    lines = (
        '{"task": "t1", "gold": "bird"}\n'
        '{"task": "t2", "prior": {"cat": 0.5, "dog": 0.25, "bird": 0.25}}\n'
    )
    settings = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_CLASSES": pets.classes}
    with instance(pets.broker, pets.prefix, **settings) as running:
        running.wait_ready()
        ended = sbic(pets, "tasks", "import", "-", "--classes", pets.classes, stdin=lines)
        assert ended.returncode == 0, ended.stderr
        assert sbic(pets, "tasks", "close", "t2").returncode == 0
        deadline = monotonic() + 30
        while "t2,,0.5,0.5,0.25,0.25,0,closed" not in (
            text := sbic(pets, "export", "posteriors").stdout
        ):
            assert monotonic() < deadline, text
    assert "t1,bird,1.0,0.0,0.0,1.0,0,open" in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task,gold\nt1,fish\n", "line 2: gold is cat, dog, bird, or empty if it is not known"),
        ("task,p:cat,p:dog\nt1,0.5,0.5\n", "line 2: 'prior' has no probability of 'bird'"),
        ("task,p:cat,p:dog,p:bird\nt1,0.5,0.4,0.3\n", "'prior' must add up to 1, not to 1.2"),
        ('{"task": "t1", "prior": {"fish": 0.5}}', "line 1: 'prior' has 'fish', and the classes"),
    ],
)
def test_a_bad_file_of_named_classes_is_named_with_its_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    assert problem in what_is_wrong_with(text, tmp_path, Classes.parse("cat,dog,bird"))


def what_is_wrong_with(text: str, folder: Path, classes: Classes = SIGNS) -> str:
    path = folder / "tasks.csv"
    path.write_text(text)
    with pytest.raises(BadFile) as bad:
        descriptions_of(str(path), Reading(), classes)
    return str(bad.value)


async def test_close_open_and_reopen(project: Settings) -> None:
    for arguments in (["close", "t1", "t2", "--create"], ["open", "t1"], ["reopen", "t2"]):
        ended = sbic(project, "tasks", *arguments)
        assert ended.returncode == 0, ended.stderr
    closed, opened = {"status": "closed"}, {"status": "open"}
    assert await sent(project) == {
        "t1": [{"task": "t1", **closed}, {"task": "t1", **opened}],
        "t2": [{"task": "t2", **closed}, {"task": "t2", **opened}],
    }


async def test_a_mistyped_task_is_named_and_nothing_is_sent(project: Settings) -> None:
    posteriors = [(b"t1", encode_posterior(posterior_of("t1", 0.5, 1, {"0": 0}, 0)))]
    await write(project, Topics(project).posteriors.name, posteriors)
    for verb in ("close", "open", "reopen"):
        ended = sbic(project, "tasks", verb, "t1", "TYPO", "t1x")
        assert (ended.returncode, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert "no such task: TYPO, t1x (" in line
        assert "--create" in line
    assert await sent(project) == {}
    assert sbic(project, "tasks", "close", "t1").returncode == 0
    assert await sent(project) == {"t1": [{"task": "t1", "status": "closed"}]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty; it needs a header with task, prior, gold"),
        ("task\n", "has no tasks"),
        ("name,prior\nt1,0.5\n", "line 1: the column 'task' is missing"),
        ("task,prior\nt1,0.5\nt2,1\n", "line 3: a prior is between 0 and 1, not '1'"),
        ("task,prior\nt1,nan\n", "line 2: a prior is between 0 and 1, not 'nan'"),
        ("task,gold\nt1,0\n", "line 2: gold is 1, -1, or empty if it is not known, not '0'"),
        (
            "task;gold\nt1;yes\n",
            "(to map others: --positive and --negative; for names: sbic project",
        ),
        ("task,gold\n,1\n", "line 2: the task is empty"),
        ("task\nt1\nt2\nt1\n", "line 4: the task 't1' is already on line 2"),
        ("task,gold\nt1\n", "line 2: has 1 field, but the header has 2"),
        (f"task\nt1\n{'x' * 257}\n", "line 3: 'task' has 257 bytes in UTF-8, more than 256"),
    ],
)
def test_a_bad_file_is_named_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    assert problem in what_is_wrong_with(text, tmp_path)


async def test_a_bad_file_ends_the_command_and_sends_nothing(project: Settings) -> None:
    ended = sbic(project, "tasks", "import", "-", stdin="task,gold\nt1,1\nt2,yes\n")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "standard input, line 3" in line
    assert await sent(project) == {}


async def test_a_name_that_cannot_be_a_task_sends_nothing(project: Settings) -> None:
    ended = sbic(project, "tasks", "close", "t1", "x" * 257)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert await sent(project) == {}


def test_without_names_or_without_kafka_it_says_so(project: Settings) -> None:
    assert sbic(project, "tasks", "close").returncode == 2
    nowhere = Settings(broker="kafka://127.0.0.1:1")
    ended = sbic(nowhere, "tasks", "open", "t1")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "127.0.0.1:1" in line


# `sbic workers`: what is said of workers becomes records of the roster, all or none.


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

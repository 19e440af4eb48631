"""An instance takes the settings of its project, and says which others it was given."""

import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import append, open_project, read_project, settings_in_project
from sbic.project.revision import FIRST, Given, encode_revision
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from tests.instances import RunningInstance, instance
from tests.projects import new_project, sbic, write


def warnings(running: RunningInstance) -> list[str]:
    """The warnings of an instance about settings that it was given."""
    return [line for line in running.log().splitlines() if "the project's value is used" in line]


async def test_the_project_stands_whatever_an_instance_is_given_which_says_so_and_runs(
    broker: EmbeddedBroker,
) -> None:
    place = new_project(broker)
    one = {"SBIC_PARTITIONS": "3", "SBIC_ALPHA": "3", "SBIC_PRIOR": "0.4"}
    with ExitStack() as stack:
        first = stack.enter_context(instance(broker.url, place.prefix, **one))
        first.wait_ready()
        same = stack.enter_context(instance(broker.url, place.prefix, SBIC_ALPHA="3.0"))
        same.wait_ready()
        assert warnings(same) == []
        with instance(broker.url, place.prefix, SBIC_ALPHA="2", SBIC_PRIOR="0.6") as other:
            other.wait_ready()
            alpha, prior = warnings(other)
        assert first.process.poll() is None
    assert f"alpha is 3.0 in the project {place.prefix}, not 2.0" in alpha
    assert f"sbic project set --prefix {place.prefix} alpha=2.0" in alpha
    assert f"prior is 0.4 in the project {place.prefix}, not 0.6" in prior
    taken = await settings_in_project(Given.of(Settings(broker=broker.url, prefix=place.prefix)))
    assert (taken.partitions, taken.alpha, taken.prior) == (3, 3.0, 0.4)


async def test_of_instances_that_create_a_project_at_once_all_have_the_same_settings(
    broker: EmbeddedBroker,
) -> None:
    place = new_project(broker)
    alphas = (2.5, 3.0, 3.5)
    opened = await asyncio.gather(
        *(open_project(Given.of(place).with_values(alpha=alpha)) for alpha in alphas)
    )
    revision = await read_project(place)
    assert revision is not None
    assert revision.number == 1
    assert {each.settings.alpha for each in opened} == {revision.settings["alpha"]}
    assert sorted(len(each.differences) for each in opened) == [0, 1, 1]


def test_classes_of_the_environment_are_for_a_new_project_only(broker: EmbeddedBroker) -> None:
    place = new_project(broker)
    with instance(broker.url, place.prefix, SBIC_CLASSES="cat,dog", SBIC_PARTITIONS="1") as one:
        one.wait_ready()
        sent = sbic(place, "replay", "-", stdin="task,worker,label\nt1,ann,cat\n")
        assert sent.returncode == 0, sent.stderr
        changed = sbic(place, "project", "set", "classes=cat,dog,bird", "--recount")
        assert changed.returncode == 0, changed.stderr
        assert "1 labels, all counted" in changed.stderr
        assert one.process.poll() is None
        assert f"classes is cat,dog,bird in the project {place.prefix}" in warnings(one)[0]
    refused = sbic(place, "topics", "--classes", "cat,dog")
    assert refused.returncode == 1
    assert "leave out what differs" in refused.stderr


async def test_what_others_write_to_the_project_topic_changes_nothing(
    broker: EmbeddedBroker,
) -> None:
    place = new_project(broker)
    topic = Topics(place).project.name
    revision = (await open_project(Given.of(place))).revision
    forged = [b"", b"{}", encode_revision(FIRST.next().next()), encode_revision(FIRST)]
    await write(place, topic, [(None, value) for value in forged])
    assert await read_project(place) == revision
    await append(place, revision.next())
    assert await read_project(place) == revision.next()


def test_a_file_of_other_classes_is_refused_until_the_empty_project_has_these(
    broker: EmbeddedBroker,
) -> None:
    place = new_project(broker)
    assert sbic(place, "topics", "--partitions", "3").returncode == 0
    text = "task,worker,label\nt1,ann,cat\nt1,bob,dog\n"
    refused = sbic(place, "replay", "-", stdin=text)
    assert refused.returncode == 2
    assert f"sbic project set --prefix {place.prefix} classes=cat,dog" in refused.stderr
    changed = sbic(place, "project", "set", "classes=cat,dog")
    assert changed.returncode == 0, changed.stderr
    sent = sbic(place, "replay", "-", stdin=text)
    assert sent.returncode == 0, sent.stderr
    task = sbic(place, "tasks", "import", "-", stdin="task,gold\nt1,fish\n")
    assert task.returncode == 2
    again = sbic(place, "project", "set", "classes=dog,cat", "--recount")
    assert again.returncode == 1
    assert "names can only be added at the end" in again.stderr
    needed = sbic(place, "project", "set", "alpha=3")
    assert needed.returncode == 1
    assert "add --recount to count them all again" in needed.stderr
    other = sbic(place, "replay", "-", "--classes", "cat,dog,fish", stdin=text)
    assert other.returncode == 1
    assert f"classes is cat,dog in the project {place.prefix}" in other.stderr


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("SBIC_ALPHAA", "did you mean SBIC_ALPHA?"), ("SBIC_DATA", None), ("SBIC_SEED", None)],
)
def test_a_misspelt_variable_is_told_of_by_every_command(variable: str, hint: str | None) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "sbic", "bounds", "--help"],
        env={name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
        | {variable: "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0
    said = [f"sbic: {variable} is not read by anything: {hint}"] if hint else []
    assert ended.stderr.splitlines() == said

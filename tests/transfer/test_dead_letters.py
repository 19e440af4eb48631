"""`sbic dead-letters`: newest first, each once; what is replayed counts, and is not sent again."""

from time import time

from aiokafka import AIOKafkaProducer
from orjson import loads

from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import Origin, dead_letter
from sbic.wire.labels import encode_label
from tests.projects import records_of, sbic


async def write_letters(
    settings: Settings, *letters: tuple[str, int, int, bytes | None, Reason]
) -> None:
    """Dead letters of records that came from there, in order, each a millisecond later."""
    now = int(time() * 1000)
    topic = Topics(settings).dead_letters.name
    servers = settings.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, max_request_size=4 << 20) as producer:
        for at, (origin, partition, offset, value, reason) in enumerate(letters, now):
            bad = BadRecord(reason, f"it is {reason}")
            place = Origin(f"{settings.prefix}.{origin}", partition, offset)
            letter = dead_letter(place, b"ann", value, bad)
            await producer.send_and_wait(
                topic, letter.value, letter.key, partition, at, letter.headers
            )


def yes(number: int) -> bytes:
    return encode_label(f"t{number}", "ann", "yes")


async def sent(settings: Settings) -> list[tuple[int, object]]:
    records = await records_of(settings, Topics(settings).labels.name)
    return [(record.partition, loads(record.value)) for record in records]


async def test_newest_first_each_once_and_filtered_by_reason(project: Settings) -> None:
    await write_letters(
        project,
        ("labels", 1, 7, yes(1), Reason.BAD_LABEL),
        ("tasks", 0, 3, b"\x1b[2Jnot json", Reason.NOT_JSON),
        ("labels", 1, 7, yes(1), Reason.BAD_LABEL),
        ("labels", 2, 9, None, Reason.NULL_VALUE),
    )
    ended = sbic(project, "dead-letters", "show")
    assert ended.returncode == 0
    heads = [line for line in ended.stdout.splitlines() if line[0] != " "]
    assert [line.split()[2:] for line in heads] == [
        ["null-value", f"{project.prefix}.labels/2/9"],
        ["not-json", f"{project.prefix}.tasks/0/3"],
        ["bad-label", f"{project.prefix}.labels/1/7"],
    ]
    assert "\x1b" not in ended.stdout
    assert ended.stderr == "dead letters: 3 (bad-label 1, not-json 1, null-value 1)\n"
    ended = sbic(project, "dead-letters", "show", "--reason", "bad-label", "--json")
    (line,) = ended.stdout.splitlines()
    letter = loads(line)
    assert (letter["offset"], letter["value"], letter["replayed"]) == (7, yes(1).decode(), False)
    few = sbic(project, "dead-letters", "show", "--limit", "1")
    assert "null-value" in few.stdout
    assert "bad-label" not in few.stdout
    assert "the newest 1 of 3" in few.stderr


async def test_what_is_replayed_is_mapped_sent_once_and_marked(project: Settings) -> None:
    deep = b"[" * 500 + b"]" * 500
    await write_letters(
        project,
        ("labels", 1, 7, yes(1), Reason.BAD_LABEL),
        ("labels", 1, 7, yes(1), Reason.BAD_LABEL),
        ("labels", 1, 10, yes(1).replace(b'"yes"', deep), Reason.BAD_LABEL),
        ("labels", 1, 11, yes(1).replace(b"{", b'{"x":%b,' % deep), Reason.BAD_LABEL),
        ("labels", 2, 8, yes(2), Reason.BAD_LABEL),
        ("labels", 2, 9, encode_label("t3", "ann", "maybe"), Reason.BAD_LABEL),
        ("labels", 0, 4, bytes(2 << 20), Reason.TOO_LARGE),
        ("votes", 0, 5, b"{}", Reason.BAD_FIELD),
    )
    one = f"{project.prefix}.labels/2/8"
    ended = sbic(project, "dead-letters", "replay", one, "--label-map", "yes=-1")
    assert (ended.returncode, ended.stderr) == (0, "dead letters replayed: 1\n")
    assert await sent(project) == [(2, {"task": "t2", "worker": "ann", "label": -1})]
    (record,) = await records_of(project, Topics(project).labels.name)
    ((name, origin),) = record.headers
    assert (name, origin.rpartition(b"/")[0]) == ("sbic.origin", one.encode())

    ended = sbic(project, "dead-letters", "replay", "--all", "--label-map", "yes=1")
    assert ended.returncode == 0
    assert set(ended.stderr.splitlines()) == {
        "dead letters replayed: 1",
        "replayed before: 1",
        "not sent: 3 (would be refused again: bad-label)",
        "not sent: 1 (truncated: the topic has only a part of the record)",
        "not sent: 1 (not from labels, tasks, roster or requests)",
    }
    assert sorted(await sent(project), key=str) == [
        (1, {"task": "t1", "worker": "ann", "label": 1}),
        (2, {"task": "t2", "worker": "ann", "label": -1}),
    ]
    again = sbic(project, "dead-letters", "replay", "--reason", "bad-label", "--label-map", "yes=1")
    assert "dead letters replayed: 0\nreplayed before: 2\n" in again.stderr
    assert len(await sent(project)) == 2
    shown = sbic(project, "dead-letters", "show", "--reason", "bad-label").stdout
    assert shown.count("  replayed") == 2


def test_what_cannot_be_is_refused(project: Settings) -> None:
    for arguments, status, problem in (
        ((), 2, "choose letters"),
        (("nonsense",), 2, "is not TOPIC/PARTITION/OFFSET"),
        (("sbic.labels/0/1",), 1, "no such dead letter: sbic.labels/0/1"),
        (("--all", "--label-map", "yes=maybe"), 2, "is not one of -1, 1, or 0 to skip"),
    ):
        ended = sbic(project, "dead-letters", "replay", *arguments)
        assert ended.returncode == status
        assert problem in ended.stderr.splitlines()[-1]

"""`sbic dead-letters`: shows records that could not be used, and replays them."""

from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import given_options
from pipeline.foreign import shown
from pipeline.project.given import Given

if TYPE_CHECKING:
    from pipeline.records.origin import Origin
    from pipeline.transfer.dead_letters import Letter
    from pipeline.transfer.dead_letters_replay import Outcome

VALUE_SHOWN = 300  # characters

reason_option = click.option(
    "--reason", "reasons", metavar="REASON", multiple=True, help="Only this one; can be repeated."
)


@click.group("dead-letters", short_help="Show dead letters, and replay them.")
def command() -> None:
    """Show records that could not be used, and send them again after a fix."""


@command.command("show", short_help="The newest, with reason and origin.")
@reason_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many.",
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
@given_options("broker", "prefix")
def show(given: Given, reasons: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Show dead letters, newest first: time, reason, origin and value.

    A letter that a crash wrote twice is shown once. The origin, after the reason, is the topic,
    partition and offset of the record.

    \b
    Examples:
      sbic dead-letters show
      sbic dead-letters show --reason bad-label --limit 100
      sbic dead-letters show --json | jq -r .value
    """
    from orjson import dumps

    from pipeline.cli.connected import in_project, run_connected
    from pipeline.transfer.dead_letters import Choice, overview

    choice = Choice(reasons, limit=limit)
    found = run_connected(overview(in_project(given), choice, values=True))
    for letter in found.newest:
        is_replayed = letter.headers.origin in found.replayed
        if as_json:
            click.echo(dumps(as_object(letter, is_replayed)).decode())
        else:
            click.echo("\n".join(lines(letter, is_replayed)))
    shown = len(found.newest)
    most_first = sorted(found.reasons.items(), key=lambda item: (-item[1], item[0]))
    by_reason = ", ".join(f"{reason} {count:,}" for reason, count in most_first)
    total = f"dead letters: {found.reasons.total():,}" + (f" ({by_reason})" if by_reason else "")
    more = f"; shown: the newest {shown:,} of {found.chosen:,}" if shown < found.chosen else ""
    click.echo(total + more, err=True)


def as_object(letter: "Letter", is_replayed: bool) -> dict[str, Any]:
    """A letter as a JSON object."""
    headers = letter.headers
    return {
        "at": letter.at,
        "reason": headers.reason,
        "message": headers.message,
        "topic": headers.origin.topic,
        "partition": headers.origin.partition,
        "offset": headers.origin.offset,
        "truncated": headers.is_truncated,
        "replayed": is_replayed,
        "key": None if letter.key is None else letter.key.decode(errors="backslashreplace"),
        "value": None if letter.value is None else letter.value.decode(errors="backslashreplace"),
    }


def lines(letter: "Letter", is_replayed: bool) -> list[str]:
    """A letter as lines of text."""
    from datetime import datetime

    headers = letter.headers
    at = datetime.fromtimestamp(letter.at / 1000).astimezone()
    state = "  replayed" * is_replayed + "  truncated" * headers.is_truncated
    text = "(no value)"
    if letter.value is not None:
        text = printable(letter.value[:VALUE_SHOWN]) + ("..." if letter.value[VALUE_SHOWN:] else "")
    return [
        f"{at:%Y-%m-%d %H:%M:%S}  {headers.reason}  {headers.origin}{state}",
        f"  {printable(headers.message.encode())}",
        f"  {text}",
    ]


def printable(content: bytes) -> str:
    r"""The content as text without control characters.

    >>> print(printable(b"a\tb\x1b[2J\xff"))
    a\tb\x1b[2J\xff
    """
    text = content.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@command.command("replay", short_help="Send dead letters again, each once.")
@click.argument("origins", metavar="[ORIGIN]...", nargs=-1)
@reason_option
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The newest N at most.")
@click.option(
    "--label-map",
    "label_map",
    metavar="FROM=TO",
    multiple=True,
    help="Send labels FROM as TO, such as yes=1; 0 is a skip. Can be repeated.",
)
@given_options("broker", "prefix")
def replay(
    given: Given,
    origins: tuple[str, ...],
    reasons: tuple[str, ...],
    everything: bool,
    limit: int | None,
    label_map: tuple[str, ...],
) -> None:
    """Send dead letters again to the topics they came from: labels, tasks and requests.

    ORIGIN is as in `show`, such as sbic.labels/3/42. Each letter is sent once: replayed letters are
    marked, and later runs skip them. If this command is killed, the next run may send up to some
    hundreds of letters again that were sent but not yet marked; labels and tasks that are sent
    twice count once.

    Letters that would be refused again and truncated ones are not sent; the command reports how
    many, and why. Nothing is sent to topics other than labels, tasks and requests, which are
    internal.

    \b
    Examples:
      sbic dead-letters replay --reason bad-label --label-map yes=1 --label-map no=-1
      sbic dead-letters replay sbic.labels/3/42
      sbic dead-letters replay --all --prefix pets
    """
    from pipeline.cli.connected import in_project, run_connected
    from pipeline.cli.label_map import mapping_of
    from pipeline.transfer.dead_letters import Choice
    from pipeline.transfer.dead_letters_replay import replay_dead_letters

    if not (origins or reasons or everything):
        raise click.UsageError("choose letters: by their origins as in `show`, --reason, or --all")
    settings = in_project(given)
    labels = dict(mapping_of(pair, settings.crowd_classes) for pair in label_map)
    choice = Choice(reasons, [origin_of(text) for text in origins], limit)
    outcome = run_connected(replay_dead_letters(settings, choice, labels))
    for line in summary(outcome):
        click.echo(line, err=True)
    if outcome.unknown:
        names = ", ".join(map(str, outcome.unknown[:10]))
        raise click.ClickException(f"no such dead letter: {names}")


def origin_of(text: str) -> "Origin":
    """Parse the origin in an argument."""
    from pipeline.records.origin import Origin

    try:
        return Origin.parse(text)
    except ValueError:
        problem = f"{shown(text)} is not TOPIC/PARTITION/OFFSET, such as sbic.labels/3/42"
        raise BadInput(problem) from None


def summary(outcome: "Outcome") -> list[str]:
    """The outcome of a replay, in lines.

    >>> from collections import Counter
    >>> from pipeline.transfer.dead_letters_replay import Outcome
    >>> summary(Outcome(sent=2, before=1, left=Counter({"would be refused again: bad-label": 3})))
    ['dead letters replayed: 2', 'replayed before: 1', 'not sent: 3 (would be refused again: \
bad-label)']
    """
    text = [f"dead letters replayed: {outcome.sent:,}"]
    if outcome.before:
        text.append(f"replayed before: {outcome.before:,}")
    return text + [f"not sent: {count:,} ({why})" for why, count in outcome.left.most_common()]

"""docs/reference/commands.md, from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import NamedTuple

import click

from sbic.commands.main import sbic
from tests.docs.generate.markdown import code, fenced, page, shown_value, table

INTRODUCTION = """\
`sbic COMMAND --help` prints the same. Exit status 0 means success, 1 that something outside the
command is wrong (Kafka, topics, rights), 2 bad usage or bad input, 70 an unexpected error of an
instance, 130 Ctrl-C. Errors are one line on standard error that says what to do.
"""
PLAIN_NAMES = {"INTEGER RANGE": "N", "INT": "N", "FLOAT RANGE": "X", "FLOAT": "X", "STR": "TEXT"}


class DocumentedCommand(NamedTuple):
    """A command, and how it is called: `sbic tasks import`."""

    path: str
    command: click.Command
    context: click.Context


def commands_page() -> str:
    """The page."""
    found = list(commands())
    overview = table(
        ["command", ""],
        ([f"[`{each.path}`](#{_anchor(each.path)})", _short(each)] for each in found),
    )
    return page("Commands", INTRODUCTION, overview, *map(_section, found))


def commands() -> Iterator[DocumentedCommand]:
    """Every command that is not a group of others, in the order of the help."""
    context = click.Context(sbic, info_name="sbic")
    yield from _commands_of(sbic, context)


def _commands_of(group: click.Group, context: click.Context) -> Iterator[DocumentedCommand]:
    known: list[click.Command] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden or command in known:  # an alias
            continue
        known.append(command)
        own = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands_of(command, own)
        else:
            yield DocumentedCommand(own.command_path, command, own)


def paragraphs(command: click.Command) -> tuple[list[str], str]:
    r"""The paragraphs of a command's help, and its examples.

    >>> paragraphs(click.Command("x", help="Do.\n\nMore\nof it.\n\n\b\nExamples:\n  sbic x\n"))
    (['Do.', 'More of it.'], 'sbic x')
    """
    found, examples = [], ""
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = part.removeprefix("\b\n").splitlines()
        if lines and lines[0] in ("Example:", "Examples:"):
            examples = inspect.cleandoc("\n".join(["", *lines[1:]]))
        elif part.startswith("\b\n"):
            found.append(fenced("\n".join(lines), "text").rstrip())
        else:
            found.append(" ".join(lines))
    return found, examples


def _section(each: DocumentedCommand) -> str:
    text, examples = paragraphs(each.command)
    usage = " ".join(each.command.collect_usage_pieces(each.context))
    parts = [f"## {each.path}\n", fenced(f"{each.path} {usage}", "text")]
    parts += [f"{paragraph}\n" for paragraph in text]
    if examples:
        parts.append(fenced(examples, "sh"))
    options = [param for param in each.command.params if isinstance(param, click.Option)]
    if options:
        parts.append(table(["option", "default", ""], (_row(each, option) for option in options)))
    return "\n".join(parts)


def _row(each: DocumentedCommand, option: click.Option) -> list[str]:
    text, _, default = (option.help or "").partition("  [default: ")
    shown = default.rstrip("]") or (_default(option) if option.show_default else "")
    if option.envvar and str(option.envvar) not in text:
        text = f"{text} {code(str(option.envvar))}"
    return [code(_with_value(each, option)), shown, text]


def _with_value(each: DocumentedCommand, option: click.Option) -> str:
    """The option as it is written, with a word for its value."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    record = option.get_help_record(each.context)
    assert record is not None
    value = record[0].removeprefix(names).strip()
    return f"{names} {PLAIN_NAMES.get(value, value)}"


def _default(option: click.Option) -> str:
    value = option.default
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag or value is None or value == "":
        return ""
    values = value if isinstance(value, tuple) else (value,)
    return code(" ".join(map(shown_value, values)))


def _short(each: DocumentedCommand) -> str:
    return each.command.get_short_help_str(200)


def _anchor(path: str) -> str:
    return path.replace(" ", "-")

"""Takes `sbic` commands out of shell scripts, and reads them as click would."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from sbic.commands.main import sbic

ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")
FILES = (".csv", ".csv.gz", ".json", ".jsonl", ".parquet")


class Call(NamedTuple):
    """A call of `sbic`: the variables before it, and its arguments."""

    env: dict[str, str]
    arguments: list[str]

    def __str__(self) -> str:
        return shlex.join(["sbic", *self.arguments])


def calls(script: str) -> Iterator[Call]:
    r"""The calls in a script, also in pipelines and lists of commands.

    >>> list(calls("A=1 sbic run  # here\nprintf x | sbic replay - --wait && ls"))
    [Call(env={'A': '1'}, arguments=['run']), Call(env={}, arguments=['replay', '-', '--wait'])]
    """
    for words in _commands(script.replace("\\\n", " ")):
        env: dict[str, str] = {}
        while words and ASSIGNMENT.fullmatch(words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        if words and words[0] in ("sbic", ".venv/bin/sbic"):
            yield Call(env, words[1:])


def _commands(script: str) -> Iterator[list[str]]:
    """The simple commands, as words without redirections."""
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words: list[str] = []
        skip = False
        for word in lexer:
            if word in ("|", "&&", "||", ";", "&", "|&"):
                yield words
                words = []
            elif word in (">", "<", ">>"):
                skip = True
            elif skip:
                skip = False
            else:
                words.append(word)
        yield words


def parse(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a call to the end, with values of the right types; raises `click.UsageError`.

    Files that it names exist in the folder, and so do folders that it takes data from.
    """
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        for argument in call.arguments:
            if argument.endswith(FILES):
                Path(argument).touch()
            elif re.fullmatch(r"[a-zA-Z]+", argument):
                Path(argument).mkdir(exist_ok=True)
        for name, value in call.env.items():
            patch.setenv(name, value)
        _make_context(call.arguments)


def _make_context(arguments: list[str]) -> None:
    command: click.Command = sbic
    parent: click.Context | None = None
    name: str | None = "sbic"
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=parent)
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command, parent = found, context
    try:
        command.make_context(name, arguments, parent)
    except click.exceptions.Exit:
        assert {"--help", "-h", "--version"} & set(arguments)


def options_of(words: list[str]) -> tuple[click.Command | None, set[str]]:
    """The command that the words begin with, and the options they name that it does not have."""
    command: click.Command = sbic
    context = click.Context(sbic, info_name="sbic")
    rest = list(words)
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z][a-z0-9-]*", rest[0]):
        found = command.get_command(context, rest.pop(0))
        if found is None:
            return None, set()
        command = found
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    named = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    return command, named - known - {"--help", "-h", "--version"}

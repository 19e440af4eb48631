import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from sbic.commands.main import COMMANDS, sbic


def test_worker_is_run_under_its_old_name_and_the_help_lists_run_alone() -> None:
    shown = CliRunner().invoke(sbic, ["--help"]).output
    lines = shown.partition("Commands:\n")[2].splitlines()
    listed = [line.split()[0] for line in lines if line[2] != " "]  # the others go on
    assert listed == list(COMMANDS)
    assert "worker" not in listed
    old, new = (CliRunner().invoke(sbic, [name, "--help"]).output for name in ("worker", "run"))
    assert old.replace("sbic worker", "sbic run") == new


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_lists_each_command_with_the_first_sentence_of_its_own(name: str) -> None:
    command = sbic.get_command(click.Context(sbic), name)
    assert command
    assert COMMANDS[name] == command.get_short_help_str(limit=1000)


def test_help_loads_no_command_and_neither_kafka_nor_numpy() -> None:
    program = (
        "import sys\n"
        "from sbic.commands.main import sbic\n"
        "sbic.main(['--help'], prog_name='sbic', standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stderr.split()
    assert {name for name in loaded if name.startswith("sbic.")} == {
        "sbic.commands",
        "sbic.commands.main",
        "sbic.foreign",
    }
    assert not {"aiokafka", "faust", "numba", "numpy", "orjson"} & set(loaded)


def test_classes_given_one_by_one_have_no_comma_in_them() -> None:
    names = ["--classes", "yes, sure", "--classes", "no"]
    ended = CliRunner().invoke(sbic, ["topics", *names])
    assert ended.exit_code == 2
    assert "given 2 times, each is one name, and 'yes, sure' has a comma" in ended.output

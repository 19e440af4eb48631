from click.testing import CliRunner

from sbic.commands.main import COMMANDS, sbic


def test_worker_is_run_under_its_old_name_and_the_help_lists_run_alone() -> None:
    shown = CliRunner().invoke(sbic, ["--help"]).output
    listed = [line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line]
    assert listed == list(COMMANDS)
    assert "worker" not in listed
    old, new = (CliRunner().invoke(sbic, [name, "--help"]).output for name in ("worker", "run"))
    assert old.replace("sbic worker", "sbic run") == new

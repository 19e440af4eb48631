"""Every setting of a gateway is a variable and a flag, and a bad one is refused by its name."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from sbic.commands.main import misspelt
from sbic.commands.options import spec_options
from sbic.gateway.config import (
    GATEWAY_SPECS,
    TOKEN,
    TOKEN_FILE,
    VARIABLES,
    GatewayCannotStart,
    tokens_in,
)
from sbic.project.settings import variable

GOOD = {
    "host": "::1",
    "port": "0",
    "projects": "birds, pets",
    "cors": "https://label.example.org",
    "rate": "2.5",
    "connections": "7",
    "address_share": "0.5",
}
READ = {
    "host": "::1",
    "port": 0,
    "projects": ("birds", "pets"),
    "cors": ("https://label.example.org",),
    "rate": 2.5,
    "connections": 7,
    "address_share": 0.5,
}
BAD = {"host": "a b", "port": "65536", "rate": "0.5", "connections": "0", "address_share": "0"}


def read(*arguments: str, **env: str) -> tuple[Result, dict[str, Any]]:
    found: dict[str, Any] = {}

    @click.command()
    @spec_options(GATEWAY_SPECS)
    def command(**values: Any) -> None:
        found.update(values)

    return CliRunner().invoke(command, arguments, env=env), found


def test_a_flag_and_a_variable_mean_the_same() -> None:
    assert set(GOOD) == set(GATEWAY_SPECS)
    flags = [part for name, text in GOOD.items() for part in (f"--{name.replace('_', '-')}", text)]
    assert read(*flags)[1] == READ
    assert read(**{variable(f"gateway_{name}"): text for name, text in GOOD.items()})[1] == READ


def test_without_any_all_are_as_by_default() -> None:
    assert read()[1] == {name: spec.default for name, spec in GATEWAY_SPECS.items()}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_refused_with_what_it_must_be(name: str) -> None:
    for result, _ in (
        read(f"--{name.replace('_', '-')}", BAD[name]),
        read(**{f"SBIC_GATEWAY_{name.upper()}": BAD[name]}),
    ):
        assert result.exit_code == 2
        assert f"SBIC_GATEWAY_{name.upper()}" in result.output
        assert f"not '{BAD[name]}'" in result.output


def test_no_variable_of_the_gateway_passes_for_misspelt() -> None:
    assert misspelt(VARIABLES) == []
    assert {TOKEN, TOKEN_FILE} < set(VARIABLES)


def test_tokens_come_from_the_variable_or_the_file_that_it_names(tmp_path: Path) -> None:
    assert tokens_in({TOKEN: "one, two"}) == ("one", "two")
    file = tmp_path / "tokens"
    file.write_text("three\n")
    assert tokens_in({TOKEN_FILE: str(file), TOKEN: "one"}) == ("three",)
    with pytest.raises(GatewayCannotStart, match=f"{tmp_path}/missing, {TOKEN_FILE}"):
        tokens_in({TOKEN_FILE: f"{tmp_path}/missing"})

"""Commands are loaded when they are given: --help and --version load none."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import click
import pytest

from gateway.cli import COMMANDS, main
from tests.program import PATIENCE

_HEAVY: Final = ("aiohttp", "pydantic", "tomlkit", "jsonschema_rs", "jwt", "yaml", "uvloop")
_RUN: Final = f"""
import json, sys
from gateway.cli import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps([name for name in {list(_HEAVY)} if name in sys.modules]), file=sys.stderr)
"""


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_is_said_of_all_commands_loads_none_of_them(option: str) -> None:
    ran = subprocess.run([sys.executable, "-c", _RUN, option], capture_output=True, timeout=PATIENCE, check=True)
    assert json.loads(ran.stderr) == []
    assert ran.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_about_a_command_agrees_with_its_own_help(name: str) -> None:
    with click.Context(main) as context:
        command = main.get_command(context, name)
    assert command is not None
    assert (command.name, command.help is not None) == (name, True)
    assert str(command.help).split()[:3] == COMMANDS[name][1].split()[:3]


def test_each_line_of_the_help_is_one_line() -> None:
    with click.Context(main, info_name="gateway", terminal_width=80) as context:
        lines = main.get_help(context).partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == list(COMMANDS)


def test_an_unknown_command_is_named() -> None:
    with click.Context(main) as context:
        assert main.get_command(context, "srve") is None

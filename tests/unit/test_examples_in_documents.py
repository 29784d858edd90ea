"""The examples of the documents: configurations load, and command lines name commands and options that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml

from gateway.cli import main
from gateway.config.source import load_settings
from gateway.settings import Settings
from tests.each import each

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "issuers").glob("*.md")),
]
SECTIONS: Final = set(Settings.model_fields)
COMMAND: Final = re.compile(r"^(?:\$ )?(?:\S+=\S+ )*(?:\.venv/bin/)?jsonrpc-mcp-gateway (\S.*)$", re.MULTILINE)


def blocks(language: str) -> Iterator[Any]:
    for page in PAGES:
        found = re.finditer(
            rf"^( *)```{language}\n(.*?)^\1```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for number, block in enumerate(found, 1):
            yield pytest.param(re.sub(f"^{block[1]}", "", block[2], flags=re.MULTILINE), id=f"{page.name}-{number}")


def configurations() -> Iterator[Any]:
    """Yield the examples whose sections are those of our configuration."""
    for block in blocks("yaml"):
        value = yaml.safe_load(block.values[0])
        if isinstance(value, dict) and value and value.keys() <= SECTIONS:
            yield block


@each("text", [*configurations()])
def test_a_configuration_loads(text: str, tmp_path: Path) -> None:
    """What an example leaves out, since it is about something else, is filled in: the service, and who may call."""
    value = yaml.safe_load(re.sub(r"\$\{file:[^}]+\}", "from-a-file-of-the-operator", text))
    if "services" not in value:
        value.setdefault("backend", {}).setdefault("url", "http://127.0.0.1:8000/jsonrpc")
    if "issuers" not in value.setdefault("auth", {}):
        value["auth"].setdefault("mode", "off")
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(value), encoding="utf-8")
    load_settings(file, environ=dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "0123456789abcdef"))


def command_lines() -> Iterator[Any]:
    for language in ("sh", "console", ""):
        for block in blocks(language):
            for line in COMMAND.findall(block.values[0].replace("\\\n", " ")):
                yield pytest.param(line, id=f"{block.id} {line[:60]}")


@each("line", [*command_lines()])
def test_a_command_line_names_a_command_and_options_that_exist(line: str) -> None:
    words = shlex.split(re.split(r" [|>&;]|\s+#| {3,}", line)[0])
    context = click.Context(main)
    command = main.get_command(context, words[0])
    assert command is not None, line
    while isinstance(command, click.Group) and len(words) > 1:
        words = words[1:]
        command = command.get_command(context, words[0])
        assert command is not None, line
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words[1:] if word.startswith("--")} <= {*known, "--help"}, line

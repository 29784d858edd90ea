"""The command line: its commands, each in a module that is loaded when the command is given.

Exit codes: 0 success; 1 the tool reported a failure, ``check`` found no tool, or ``tools --diff`` a difference; 2 the
command line or the configuration is wrong, or a port is taken; 3 the backend gave no listing.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Final

import click

from gateway import __version__

COMMAND: Final = "jsonrpc-mcp-gateway"
"""The name of the program, and of the distribution in pyproject.toml."""
COMMANDS: Final = {
    "call": ("commands", "Call one tool and print its result."),
    "check": ("commands", "Contact issuers and backend; print what they accept and list."),
    "completion": ("commands", "Print the completion script of a shell: bash, zsh or fish."),
    "connect": ("connect_command", "Print the entry that makes an MCP client use the gateway."),
    "demo": ("commands", "Start a small service on loopback, and the gateway before it."),
    "methods": ("commands", "Print a methods file of what the service lists, to complete."),
    "schema": ("commands", "Print the schema of the configuration, or pages about it."),
    "serve": ("serve_command", "Serve MCP on /mcp and REST on /mcp/tools until SIGTERM."),
    "stdio": ("stdio_command", "Serve MCP on standard input and output, for one client."),
    "tools": ("commands", "List the tools, show what changed, pin them, or try one."),
}
"""The module of each command, and the line about it. To load all modules for these lines takes most of a second."""


class _Commands(click.Group):
    """Load a command when it is given."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # what is imported stays; to look through it again and again takes a fifth of the time
        command: click.Command = getattr(import_module(f"{__name__}.{COMMANDS[cmd_name][0]}"), cmd_name)
        gc.freeze()
        gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=_Commands,
    commands={name: click.Command(name) for name in COMMANDS},  # their names, for who mistypes one
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__)
def main() -> None:
    """Make an existing JSON-RPC 2.0 service speak the Model Context Protocol."""

"""The command line: its commands, each in a module that is loaded when the command is given.

Exit codes: 0 success; 1 the tool reported a failure, ``check`` found no tool, or ``tools --diff`` or ``config diff`` a
difference; 2 the command line or the configuration is wrong, or a port is taken; 3 the backend gave no listing.
"""

import gc
import re
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
    "config": ("config_command", "Show what is set and where, or what another file changes."),
    "connect": ("connect_command", "Print the entry that makes an MCP client use the gateway."),
    "demo": ("commands", "Start a small service on loopback, and the gateway before it."),
    "healthcheck": ("health_command", "Exit with 0 where the gateway of this machine lives, else with 1."),
    "keys": ("keys_command", "Make, list and revoke API keys, for callers without an issuer."),
    "methods": ("commands", "Print a methods file of what the service lists, to complete."),
    "schema": ("commands", "Print the schema of the configuration, or pages about it."),
    "serve": ("serve_command", "Serve MCP on /mcp and REST on /mcp/tools until SIGTERM."),
    "status": ("status_command", "Show a running gateway: services, calls, failures, limits."),
    "stdio": ("stdio_command", "Serve MCP on standard input and output, for one client."),
    "tools": ("commands", "List the tools, show what changed, pin them, or try one."),
}
"""The module of each command, and the line about it: to load all modules for these lines takes most of a second."""

HINTS: Final = {
    r"command '.*://": f"A command stands before the URL: {COMMAND} serve URL.",
    r"command '-": "Options of a command stand behind it: serve --config FILE.",
    r"option '--(host|port|workers)'": r"It is a knob: --set server.\1=VALUE.",
    r"^call Got .*\(": "Before each argument of the tool stands --arg: --arg a=2.",
    r"^demo Got .*\((\d+)\)": r"The port is --port \1.",
    r"argument.*\(\w+\.": "Before each knob stands --set: --set server.port=9000.",
    r"argument.*\(\w+://": "Several services stand in a file (docs/services.md): --config FILE.",
    r"File .* does not exist": "`tools --json` prints one to compare with.",
}
"""Remedies for messages of click, behind the name of the command."""


class _Commands(click.Group):
    """Load a command when it is given. Add what to do to what click says is wrong."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            said = f"{error.ctx.info_name if error.ctx else ''} {error.message}"
            hints = [match.expand(hint) for fault, hint in HINTS.items() if (match := re.search(fault, said))]
            raise click.UsageError(" ".join([error.format_message(), *hints]), error.ctx) from None

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
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
)
@click.version_option(__version__)
def main() -> None:
    """Make an existing JSON-RPC 2.0 service speak the Model Context Protocol."""

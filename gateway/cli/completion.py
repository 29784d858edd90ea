"""The command ``completion``: print the script that makes a shell complete commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from gateway.cli import COMMAND

_VARIABLE: Final = f"_{COMMAND.upper().replace('-', '_')}_COMPLETE"
_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell: bash, zsh or fish.

    \b
    bash: eval "$(jsonrpc-mcp-gateway completion bash)"       in ~/.bashrc
    zsh:  eval "$(jsonrpc-mcp-gateway completion zsh)"        in ~/.zshrc
    fish: jsonrpc-mcp-gateway completion fish | source        in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101, click has these three
    click.echo(kind(context.find_root().command, {}, COMMAND, _VARIABLE).source())

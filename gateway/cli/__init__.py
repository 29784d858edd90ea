"""The command line: commands, what they print, the demo."""

from gateway.cli.commands import COMMAND, main

__all__ = ["COMMAND", "main"]

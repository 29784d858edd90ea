"""The command line: its commands, what they print, and the demo."""

from gateway.cli.commands import COMMAND, main

__all__ = ["COMMAND", "main"]

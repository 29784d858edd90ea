"""The command line: its commands, what they print, and the demo."""

from gateway.cli.commands import main
from gateway.cli.options import COMMAND

__all__ = ["COMMAND", "main"]

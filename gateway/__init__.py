"""A reverse-proxy gateway that makes an existing JSON-RPC 2.0 service speak the Model Context Protocol."""

from typing import Final

__version__ = "0.1.0"
QUESTIONS: Final = ""
"""Address of the page that says what services are asked. A release that is given the project's address fills it in."""
USER_AGENT: Final = f"jsonrpc-mcp-gateway/{__version__}{QUESTIONS and f' (+{QUESTIONS})'}"

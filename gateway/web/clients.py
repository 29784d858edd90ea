"""Describe the files of MCP clients: the entry that makes each use the gateway, for `connect` and for the page."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from gateway import jsonrpc

Entry: TypeAlias = Mapping[str, Any]


class NotAdded(Exception):
    """Raised where an entry cannot be added to a file; the message says why."""


KEY_VARIABLE: Final = "GATEWAY_KEY"
"""The variable of the environment that entries name where nobody chose another."""


def _key_header(reference: str) -> Callable[[str], Entry]:
    """Return what makes the header with the key. ``reference`` is how a client's file names a variable."""
    return lambda variable: {"headers": {"Authorization": f"Bearer {reference.format(variable)}"}}


@dataclass(frozen=True)
class Client:
    """Describe a client's usual file, and its member with the entries. ``place`` is where people find the file: in
    their home, or in a project's folder; ``elsewhere`` returns it where that depends on the machine. ``stdio`` and
    ``http`` are members beside the command or the URL, None where the file accepts no such entry; ``login`` returns
    those for a client id, ``key`` those that send an API key: files are shared and kept, so they name the variable
    that has it."""

    title: str
    place: str = ""
    section: str = "mcpServers"
    stdio: Entry | None = None
    http: Entry | None = None
    then: str = ""
    instead_of_http: str = ""
    is_toml: bool = False
    login: Callable[[str], Entry] | None = None
    key: Callable[[str], Entry] = field(default=_key_header("${{{}}}"))
    elsewhere: Callable[[], Path | None] = field(default=lambda: None)

    @property
    def file(self) -> Path | None:
        """Return the file on this machine, None for a client without a usual one."""
        return self.elsewhere() or (Path.cwd() / Path(self.place).expanduser() if self.place else None)

    def entry(
        self, command: tuple[str, ...], url: str | None, client_id: str | None = None, key_variable: str | None = None
    ) -> Entry:
        """Return the entry that starts ``command``, or connects to ``url``, with an API key of a variable of the
        environment where one is named. Raises :class:`NotAdded`."""
        if url is not None and self.http is None:
            raise NotAdded(f"{self.instead_of_http}, or leave --http out")
        if client_id is not None and (url is None or self.login is None):
            raise NotAdded("--client-id needs --http, and a --client whose file has a place for it")
        if url is None:
            return {**(self.stdio or {}), "command": command[0], "args": list(command[1:])}
        login = self.login(client_id) if self.login and client_id else {}
        shown = self.key(key_variable) if key_variable else {}
        return {**(self.http or {}), "url": url, **login, **shown}

    def render(self, entries: Mapping[str, Entry]) -> str:
        tree = {self.section: {name: dict(entry) for name, entry in entries.items()}}
        if self.is_toml:
            import tomlkit  # noqa: PLC0415, a server that shows no page does without it

            return tomlkit.dumps(tree)
        return jsonrpc.pretty(tree) + "\n"


def _claude_desktop() -> Path:
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "Claude" / "claude_desktop_config.json"


def _codex() -> Path | None:
    return Path(home) / "config.toml" if (home := os.environ.get("CODEX_HOME")) else None


_STDIO: Final = {"type": "stdio"}
_HTTP: Final = {"type": "http"}
_GEMINI_CALLBACK: Final = "http://localhost:7777/oauth/callback"  # another one in some releases, if none is given
CLIENTS: Final[Mapping[str, Client]] = {
    "claude-desktop": Client(
        "Claude Desktop", elsewhere=_claude_desktop, then="Quit Claude Desktop and start it again.",
        instead_of_http="Claude Desktop's file takes commands only. Add a URL in its settings, under Connectors (a "
        "client id under Advanced settings)",
    ),
    "claude-code": Client(
        "Claude Code", ".mcp.json", stdio=_STDIO, http=_HTTP,
        then="Start claude in this folder; it asks once whether to use the server.",
        login=lambda name: {"oauth": {"clientId": name, "callbackPort": 8088}},
    ),
    "vscode": Client(
        "VS Code", ".vscode/mcp.json", "servers", _STDIO, _HTTP,
        "Open this folder in VS Code; MCP: List Servers starts it.",
        login=lambda name: {"oauth": {"clientId": name}}, key=_key_header("${{env:{}}}"),
    ),
    "cursor": Client("Cursor", "~/.cursor/mcp.json", http={}, then="Restart Cursor.",
                     key=_key_header("${{env:{}}}"),
                     login=lambda name: {"auth": {"CLIENT_ID": name}}),
    "codex": Client("Codex", "~/.codex/config.toml", "mcp_servers", elsewhere=_codex, http={},
                    then="Start codex; /mcp shows it.", is_toml=True,
                    login=lambda name: {"oauth": {"client_id": name}},
                    key=lambda variable: {"bearer_token_env_var": variable}),
    "gemini": Client(
        "Gemini CLI", "~/.gemini/settings.json", http=_HTTP, then="Start gemini; /mcp shows it.",
        login=lambda name: {"oauth": {"enabled": True, "clientId": name, "redirectUri": _GEMINI_CALLBACK}},
    ),
    "json": Client("Any other client", stdio=_STDIO, http=_HTTP, then="Restart the client."),
}  # fmt: skip
"""Every client by its name on the command line."""

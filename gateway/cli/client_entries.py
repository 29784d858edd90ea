"""Add the entries that make MCP clients use the gateway. All else in a client's file stays, to the character."""

import os
import stat
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from gateway import jsonrpc
from gateway.catalog.pins import replace_file
from gateway.cli.jsonc import NotJson, read_jsonc, with_member, without_member

Entry: TypeAlias = Mapping[str, Any]
_HOW: Final = ("command", "args", "url", "httpUrl", "serverUrl")
"""Members that say how a client reaches a server. An entry has those of one way."""


class NotAdded(Exception):
    """Raised where an entry cannot be added to a file; the message says why."""


@dataclass(frozen=True)
class Client:
    """Describe a client's usual ``file``, and its member with the entries. ``stdio`` and ``http`` are members beside
    the command or the URL, None where the file accepts no such entry; ``login`` returns those for a client id."""

    title: str
    file: Callable[[], Path] | None
    section: str = "mcpServers"
    stdio: Entry | None = None
    http: Entry | None = None
    then: str = ""
    instead_of_http: str = ""
    is_toml: bool = False
    login: Callable[[str], Entry] | None = None

    def entry(self, command: tuple[str, ...], url: str | None, client_id: str | None = None) -> Entry:
        """Return the entry that starts ``command``, or connects to ``url``. Raises :class:`NotAdded`."""
        if url is not None and self.http is None:
            raise NotAdded(self.instead_of_http)
        if client_id is not None and (url is None or self.login is None):
            raise NotAdded("--client-id needs --http, and a --client whose file has a place for it")
        if url is None:
            return {**(self.stdio or {}), "command": command[0], "args": list(command[1:])}
        return {**(self.http or {}), "url": url, **(self.login(client_id) if self.login and client_id else {})}

    def render(self, entries: Mapping[str, Entry]) -> str:
        tree = {self.section: {name: dict(entry) for name, entry in entries.items()}}
        return tomlkit.dumps(tree) if self.is_toml else jsonrpc.pretty(tree) + "\n"


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _project(*parts: str) -> Callable[[], Path]:
    return lambda: Path.cwd().joinpath(*parts)


def _claude_desktop() -> Path:
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "Claude" / "claude_desktop_config.json"


_STDIO: Final = {"type": "stdio"}
_HTTP: Final = {"type": "http"}
_GEMINI_CALLBACK: Final = "http://localhost:7777/oauth/callback"  # another one in some releases, if none is given
CLIENTS: Final[Mapping[str, Client]] = {
    "claude-desktop": Client(
        "Claude Desktop", _claude_desktop, then="Quit Claude Desktop and start it again.",
        instead_of_http="Claude Desktop's file takes commands only. Add a URL in its settings, under Connectors (a "
        "client id under Advanced settings), or leave --http out",
    ),
    "claude-code": Client(
        "Claude Code", _project(".mcp.json"), stdio=_STDIO, http=_HTTP,
        then="Start claude in this folder; it asks once whether to use the server.",
        login=lambda name: {"oauth": {"clientId": name, "callbackPort": 8088}},
    ),
    "vscode": Client(
        "VS Code", _project(".vscode", "mcp.json"), "servers", _STDIO, _HTTP,
        "Open this folder in VS Code; MCP: List Servers starts it.",
        login=lambda name: {"oauth": {"clientId": name}},
    ),
    "cursor": Client("Cursor", _home(".cursor", "mcp.json"), http={}, then="Restart Cursor.",
                     login=lambda name: {"auth": {"CLIENT_ID": name}}),
    "codex": Client("Codex", lambda: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml",
                    "mcp_servers", http={}, then="Start codex; /mcp shows it.", is_toml=True,
                    login=lambda name: {"oauth": {"client_id": name}}),
    "gemini": Client(
        "Gemini CLI", _home(".gemini", "settings.json"), http=_HTTP, then="Start gemini; /mcp shows it.",
        login=lambda name: {"oauth": {"enabled": True, "clientId": name, "redirectUri": _GEMINI_CALLBACK}},
    ),
    "json": Client("Any other client", None, stdio=_STDIO, http=_HTTP, then="Restart the client."),
}  # fmt: skip
"""Every client by its name on the command line."""


def change_entry(client: Client, file: Path, name: str, entry: Entry | None, owns: Callable[[Entry], bool]) -> bool:
    """Write an entry to a file, or remove it for None; return False where there is nothing to change. An entry of that
    name is changed if it ``owns`` it; its further members stay. Raises :class:`NotAdded` and :class:`OSError`."""
    _check_place(file)
    raw = _content(file)
    try:
        text = raw.decode()
        if not client.is_toml and not text.strip("\ufeff \t\r\n"):
            text = "{}\n"
        old = _old_entry(client, (tomllib.loads if client.is_toml else read_jsonc)(text), name)
        gone = (*_HOW, "oauth", "auth") if "command" in (entry or {}) else _HOW
        kept = {key: value for key, value in (old or {}).items() if key not in gone}
        wanted = None if entry is None else {**kept, **entry}
        if wanted == old:
            return False
        if old is not None and not owns(old):
            raise NotAdded(f"it has an entry {name} that is not this program's: choose another name with --entry")
        changed = (_with_toml if client.is_toml else _with_json)(text, (client.section, name), wanted, old)
    except (RecursionError, NotJson, TOMLKitError, ValueError) as error:
        reason = {UnicodeDecodeError: "it is not UTF-8", RecursionError: "it nests too deeply"}.get(type(error), error)
        raise NotAdded(f"{file} cannot be parsed: {reason}") from None
    file.resolve().parent.mkdir(parents=True, exist_ok=True)
    if _content(file) != raw:
        raise NotAdded(f"{file} was changed by another program meanwhile: run this again")
    replace_file(file, changed)
    return True


def _check_place(file: Path) -> None:
    """Raise :class:`NotAdded` for a link out of the project, the home or its folder: a stranger may have made it."""
    named, real = Path(os.path.normpath(file.absolute())), Path(os.path.realpath(file))
    folder = next((base for base in (Path.cwd(), Path.home()) if named.is_relative_to(base)), named.parent)
    if not real.is_relative_to(folder.resolve()):
        raise NotAdded(f"{file} is a link out of {folder}, to {real}: if that is intended, name it with --file")


def _content(file: Path) -> bytes:
    """Return a client's file, b"" where there is none. Raises :class:`NotAdded` for what is not to be replaced."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return b""
    if not stat.S_ISREG(status.st_mode):
        raise NotAdded(f"{file} is not a file")
    if not status.st_mode & 0o222:
        raise NotAdded(f"{file} is read-only: if that is not intended, chmod u+w it")
    return file.read_bytes()


def _old_entry(client: Client, tree: Any, name: str) -> Entry | None:
    section = tree.get(client.section, {}) if isinstance(tree, dict) else None
    if not isinstance(section, dict):
        raise NotJson(f"{client.section} is not a mapping" if isinstance(tree, dict) else "it must hold an object, {…}")
    old = section.get(name)
    if old is not None and not isinstance(old, dict):
        raise NotJson(f"{client.section}.{name} is not a mapping")
    return old


def _with_json(text: str, path: tuple[str, str], entry: Entry | None, old: Entry | None) -> str:
    if entry is None:
        return without_member(text, path)
    old = old or {}
    for key in sorted(old.keys() - entry.keys()):
        text = without_member(text, (*path, key))
    for key, value in entry.items():
        if old.get(key) != value:
            text = with_member(text, (*path, key), value)
    return text


def _with_toml(text: str, path: tuple[str, str], entry: Entry | None, old: Entry | None) -> str:
    document, wanted, (group, name) = tomlkit.parse(text), tomllib.loads(text), path
    wanted.setdefault(group, {})[name] = entry
    section: Any = document.setdefault(group, tomlkit.table(is_super_table=True))
    if entry is None:
        del section[name], wanted[group][name]
        if not wanted[group]:
            del document[group], wanted[group]
    else:
        if old is None:
            section[name] = tomlkit.inline_table() if isinstance(section, InlineTable) else tomlkit.table()
        for key in sorted((old or {}).keys() - entry.keys()):
            del section[name][key]
        section[name].update({key: value for key, value in entry.items() if (old or {}).get(key) != value})
    changed = tomlkit.dumps(document)
    if tomllib.loads(changed) != wanted:
        raise NotJson("it has a form that cannot be edited safely")
    return changed

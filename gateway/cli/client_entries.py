"""Add the entries that make MCP clients use the gateway. All else in a client's file stays, to the character."""

import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from gateway.catalog.pins import replace_file
from gateway.cli.jsonc import NotJson, read_jsonc, with_member, without_member
from gateway.web.clients import Client, Entry, NotAdded

_HOW: Final = ("command", "args", "url", "httpUrl", "serverUrl")
"""Members that say how a client reaches a server. An entry has those of one way."""


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
        had = old or {}
        kept = {key: value for key, value in had.items() if key not in gone}
        wanted = None if entry is None else {**kept, **entry}
        if wanted == old:
            return False
        if old is not None and not owns(old):
            raise NotAdded(f"it has an entry {name} that is not this program's: choose another name with --entry")
        changed = (_with_toml if client.is_toml else _with_json)(text, (client.section, name), wanted, had)
    except (RecursionError, TOMLKitError, ValueError) as error:
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


def _with_json(text: str, path: tuple[str, str], entry: Entry | None, old: Entry) -> str:
    if entry is None:
        return without_member(text, path)
    for key in sorted(old.keys() - entry.keys()):
        text = without_member(text, (*path, key))
    for key, value in entry.items():
        if old.get(key) != value:
            text = with_member(text, (*path, key), value)
    return text


def _with_toml(text: str, path: tuple[str, str], entry: Entry | None, old: Entry) -> str:
    document, wanted, (group, name) = tomlkit.parse(text), tomllib.loads(text), path
    wanted.setdefault(group, {})[name] = entry
    section: Any = document.setdefault(group, tomlkit.table(is_super_table=True))
    if entry is None:
        del section[name], wanted[group][name]
        if not wanted[group]:
            del document[group], wanted[group]
    else:
        if name not in section:
            section[name] = tomlkit.inline_table() if isinstance(section, InlineTable) else tomlkit.table()
        for key in sorted(old.keys() - entry.keys()):
            del section[name][key]
        section[name].update({key: value for key, value in entry.items() if old.get(key) != value})
    changed = tomlkit.dumps(document)
    if tomllib.loads(changed) != wanted:
        raise NotJson("it has a form that cannot be edited safely")
    return changed

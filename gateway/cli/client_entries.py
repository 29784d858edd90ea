"""Add the entries that make MCP clients use the gateway. All else in a client's file stays, to the character.

The file is TOML, or JSON with comments and trailing commas.
"""

import json
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from gateway.catalog.pins import replace_file
from gateway.web.clients import Client, Entry, NotAdded

_HOW: Final = ("command", "args", "url", "httpUrl", "serverUrl")
"""Members that say how a client reaches a server. An entry has those of one way."""
_STRING: Final = r'"(?:[^"\\\n]|\\[^\n])*+"'
_COMMENT: Final = re.compile(rf"(?P<kept>{_STRING})|\A\ufeff|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"(?P<kept>{_STRING}|[\[{{]\s*,)|,(?=\s*[\]}}])")
_NAME: Final = re.compile(rf"[\s,]*({_STRING})\s*:\s*")
_COMMA: Final = re.compile(r"\s*,")
_LAST_LINE: Final = re.compile(r"\r?\n[ \t]*\Z|[ \t]+\Z")
_UNIT: Final = "  "


class NotEditable(ValueError):
    """Raised where a text cannot be changed as it is wanted; the message says why."""


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
        raise NotEditable(
            f"{client.section} is not a mapping" if isinstance(tree, dict) else "it must hold an object, {…}"
        )
    old = section.get(name)
    if old is not None and not isinstance(old, dict):
        raise NotEditable(f"{client.section}.{name} is not a mapping")
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
        raise NotEditable("it has a form that cannot be edited safely")
    return changed


class _Member(NamedTuple):
    """Hold where a member is: its name begins at ``start``, its value is ``text[value:end]``."""

    start: int
    value: int
    end: int


def read_jsonc(text: str) -> Any:
    """Return the value of the text. Raises :class:`ValueError`, which says why, and :class:`RecursionError`."""
    return _parsed(_blanked(text)[1])


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with this value at ``path``; objects on the way there are made. Raises as ``read_jsonc`` does."""
    bare, plain = _blanked(text)
    wanted = _parsed(plain)
    _set_value(wanted, path, value)
    found = _Member(0, plain.index("{"), len(plain.rstrip()))
    for depth, name in enumerate(path):
        members = _members(plain, found.value)
        if name not in members:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            changed = _insert(text, bare, found, [*members.values()], f"{json.dumps(name)}: ", value)
            break
        found = members[name]
    else:
        changed = text[: found.value] + _render(value, _margin(text, found.value), text) + text[found.end :]
    return _checked(changed, wanted)


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at ``path``, which is there. Raises as ``read_jsonc`` does."""
    bare, plain = _blanked(text)
    parent = wanted = _parsed(plain)
    members = _members(plain, plain.index("{"))
    for name in path[:-1]:
        members, parent = _members(plain, members[name].value), parent[name]
    del parent[path[-1]]
    member = members.pop(path[-1])
    comma = _COMMA.match(bare, member.end)
    head, tail = text[: member.start], text[comma.end() if comma else member.end :]
    if head.rstrip(" \t").endswith("\n") and tail.lstrip(" \t\r").startswith("\n"):  # the line has nothing else
        head, tail = head.rstrip(" \t"), tail.partition("\n")[2]
    if comma is None and members and (before := _COMMA.match(bare, [*members.values()][-1].end)):
        head = head[: before.end() - 1] + head[before.end() :]
    return _checked(head + tail, wanted)


def _blanked(text: str) -> tuple[str, str]:
    """Return the text with blanks in place of comments, and in place of commas after the last value, too: plain JSON,
    where everything has the place that it has in the text."""
    bare = _COMMENT.sub(_blanks, text)
    return bare, _LAST_COMMA.sub(_blanks, bare)


def _blanks(match: re.Match[str]) -> str:
    return match["kept"] or re.sub(r"[^\n]", " ", match[0])


def _parsed(plain: str) -> Any:
    return json.loads(plain, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, count in Counter(name for name, _ in pairs).most_common(1):
        if count > 1:
            raise NotEditable(f"{name} stands there twice")
    return dict(pairs)


def _members(plain: str, place: int) -> dict[str, _Member]:
    """Return where the members of the object at a place are."""
    members, place = {}, place + 1
    while name := _NAME.match(plain, place):
        _, place = json.JSONDecoder().raw_decode(plain, name.end())
        members[json.loads(name[1])] = _Member(name.start(1), name.end(), place)
    return members


def _set_value(tree: Any, path: Sequence[str], value: Any) -> None:
    """Set the value at ``path``. Raises :class:`NotEditable` where something on the way there is no object."""
    for depth, name in enumerate(path, 1):
        if not isinstance(tree, dict):
            raise NotEditable(f"{'.'.join(path[: depth - 1]) or 'its value'} is not an object")
        if depth == len(path):
            tree[name] = value
        else:
            tree = tree.setdefault(name, {})


def _insert(text: str, bare: str, found: _Member, members: Sequence[_Member], name: str, value: Any) -> str:
    """Return the text with one more member at the end of an object."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    outer = _margin(text, found.value)
    inner = outer + _UNIT
    if members and "\n" in text[found.value : members[0].start]:
        inner = _margin(text, members[0].start)
    last = members[-1].end if members else found.value + 1
    comma = "," if members and "," not in bare[last : found.end] else ""
    rest = _LAST_LINE.sub("", text[last : found.end - 1])
    member = name + _render(value, inner, text)
    return f"{text[:last]}{comma}{rest}{line_end}{inner}{member}{line_end}{outer}{text[found.end - 1 :]}"


def _render(value: Any, margin: str, text: str) -> str:
    lines = json.dumps(value, indent=len(_UNIT), ensure_ascii=False).split("\n")
    return ("\r\n" if "\r\n" in text else "\n").join((lines[0], *(margin + line for line in lines[1:])))


def _margin(text: str, place: int) -> str:
    """Return the white space that the line of this place begins with."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _checked(changed: str, wanted: Any) -> str:
    if read_jsonc(changed) != wanted:
        raise NotEditable("it has a form that cannot be edited safely")
    return changed

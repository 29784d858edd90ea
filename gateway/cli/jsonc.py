"""Set members in a JSON text with comments and trailing commas, and change no other character of it."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_STRING: Final = r'"(?:[^"\\\n]|\\[^\n])*+"'
_COMMENT: Final = re.compile(rf"(?P<kept>{_STRING})|\A\ufeff|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"(?P<kept>{_STRING}|[\[{{]\s*,)|,(?=\s*[\]}}])")
_NAME: Final = re.compile(rf"[\s,]*({_STRING})\s*:\s*")
_COMMA: Final = re.compile(r"\s*,")
_LAST_LINE: Final = re.compile(r"\r?\n[ \t]*\Z|[ \t]+\Z")
_UNIT: Final = "  "


class NotJson(ValueError):
    """Raised where a text cannot be changed as it is wanted; the message says why."""


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
            raise NotJson(f"{name} stands there twice")
    return dict(pairs)


def _members(plain: str, place: int) -> dict[str, _Member]:
    """Return where the members of the object at a place are."""
    members, place = {}, place + 1
    while name := _NAME.match(plain, place):
        _, place = json.JSONDecoder().raw_decode(plain, name.end())
        members[json.loads(name[1])] = _Member(name.start(1), name.end(), place)
    return members


def _set_value(tree: Any, path: Sequence[str], value: Any) -> None:
    """Set the value at ``path``. Raises :class:`NotJson` where something on the way there is no object."""
    for depth, name in enumerate(path, 1):
        if not isinstance(tree, dict):
            raise NotJson(f"{'.'.join(path[: depth - 1]) or 'its value'} is not an object")
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
        raise NotJson("it has a form that cannot be edited safely")
    return changed

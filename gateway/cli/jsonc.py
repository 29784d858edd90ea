"""Set members in a JSON text with comments and trailing commas, and change no other character of it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_SKIPPED: Final = re.compile(r"[ \t\r\n]+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA: Final = re.compile(rf"(?:{_SKIPPED.pattern})*+,", re.DOTALL)
_SCALAR: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|[^\s{}\[\],:"/]+')
_LAST_LINE: Final = re.compile(r"\r?\n[ \t]*\Z|[ \t]+\Z")
_MAX_DEPTH: Final = 100
_UNIT: Final = "  "


class NotJson(Exception):
    """Raised for a text that cannot be read, or has no place for a member; the message says where and why."""


@dataclass
class _Value:
    """Hold the value at ``text[start:end]``. After the last of its ``members`` there may be a comma."""

    value: Any
    start: int
    end: int = 0
    members: dict[str, _Value] = field(default_factory=dict)
    has_last_comma: bool = False


def read_jsonc(text: str) -> Any:
    """Return the value of the text. Raises :class:`NotJson`."""
    return _Parser(text).parse().value


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with this value at ``path``; objects on the way there are made. Raises :class:`NotJson`."""
    root = _Parser(text).parse()
    wanted = _with_value(root.value, path, value)
    node, depth = root, 0
    while depth < len(path) and path[depth] in node.members:
        node, depth = node.members[path[depth]], depth + 1
    if depth == len(path):
        changed = text[: node.start] + _render(value, _margin(text, node.start), text) + text[node.end :]
    else:
        for name in reversed(path[depth + 1 :]):
            value = {name: value}
        changed = _insert(text, node, path[depth], value)
    if read_jsonc(changed) != wanted:
        raise NotJson("it has a form that cannot be edited safely")
    return changed


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at ``path``, which is there. Raises :class:`NotJson`."""
    root = node = _Parser(text).parse()
    parent = wanted = copy.deepcopy(root.value)
    for name in path[:-1]:
        node, parent = node.members[name], parent[name]
    del parent[path[-1]]
    member = node.members.pop(path[-1])
    after = match.end() if (match := _COMMA.match(text, member.end)) else member.end
    head, tail = text[: text.rfind('"', 0, text.rfind('"', 0, member.start))], text[after:]
    if head.rstrip(" \t").endswith("\n") and tail.lstrip(" \t\r").startswith("\n"):  # the line has nothing else
        head, tail = head.rstrip(" \t"), tail.partition("\n")[2]
    if match is None and node.members and (comma := _COMMA.match(text, list(node.members.values())[-1].end)):
        head = head[: comma.end() - 1] + head[comma.end() :]
    if read_jsonc(head + tail) != wanted:
        raise NotJson("it has a form that cannot be edited safely")
    return head + tail


def _with_value(tree: Any, path: Sequence[str], value: Any) -> Any:
    """Return a copy of the tree with the value at ``path``. Raises :class:`NotJson`."""
    tree = node = copy.deepcopy(tree)
    for depth, name in enumerate(path, 1):
        if not isinstance(node, dict):
            raise NotJson(f"{'.'.join(path[: depth - 1]) or 'its value'} is not an object")
        if depth == len(path):
            node[name] = value
        else:
            node = node.setdefault(name, {})
    return tree


def _insert(text: str, node: _Value, name: str, value: Any) -> str:
    """Return the text with one more member at the end of an object."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    outer = _margin(text, node.start)
    first = next(iter(node.members.values()), None)
    inner = outer + _UNIT
    if first is not None and "\n" in text[node.start : first.start]:
        inner = _margin(text, first.start)
    last = node.start + 1 if first is None else list(node.members.values())[-1].end
    comma = "" if first is None or node.has_last_comma else ","
    rest = _LAST_LINE.sub("", text[last : node.end - 1])
    member = f"{json.dumps(name)}: {_render(value, inner, text)}"
    return f"{text[:last]}{comma}{rest}{line_end}{inner}{member}{line_end}{outer}{text[node.end - 1 :]}"


def _render(value: Any, margin: str, text: str) -> str:
    lines = json.dumps(value, indent=len(_UNIT), ensure_ascii=False).split("\n")
    return ("\r\n" if "\r\n" in text else "\n").join((lines[0], *(margin + line for line in lines[1:])))


def _margin(text: str, place: int) -> str:
    """Return the white space that the line of this place begins with."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 1 if text.startswith("\ufeff") else 0

    def parse(self) -> _Value:
        value = self._value(0)
        self._skip()
        if self._place != len(self._text):
            raise self._fault("something follows the value")
        return value

    def _value(self, depth: int) -> _Value:
        if depth > _MAX_DEPTH:
            raise self._fault("it nests too deeply")
        self._skip()
        found = _Value(None, self._place)
        if self._take("{"):
            self._read_members(found, depth)
        elif self._take("["):
            found.value = [self._value(depth + 1).value for _ in self._entries(found, "]")]
        else:
            found.value = self._scalar()
        found.end = self._place
        return found

    def _entries(self, found: _Value, end: str) -> Iterator[None]:
        """Stop before each entry of an object or array, up to its end."""
        more = True
        while not self._take(end):
            if not more:
                raise self._fault("a comma is missing")
            yield
            more = found.has_last_comma = self._take(",")

    def _read_members(self, found: _Value, depth: int) -> None:
        found.value = {}
        for _ in self._entries(found, "}"):
            name = self._scalar()
            if not isinstance(name, str):
                raise self._fault("a name in quotes is missing")
            if name in found.members:
                raise self._fault(f"{name} stands there twice")
            if not self._take(":"):
                raise self._fault("a colon is missing")
            found.members[name] = self._value(depth + 1)
            found.value[name] = found.members[name].value

    def _scalar(self) -> Any:
        match = _SCALAR.match(self._text, self._place)
        if match is None:
            raise self._fault("a value is missing")
        try:
            value = json.loads(match[0])
        except ValueError:
            raise self._fault(f"{match[0][:40]} is not JSON") from None
        self._place = match.end()
        return value

    def _skip(self) -> None:
        while match := _SKIPPED.match(self._text, self._place):
            self._place = match.end()

    def _take(self, mark: str) -> bool:
        self._skip()
        taken = self._text.startswith(mark, self._place)
        self._place += taken
        return taken

    def _fault(self, what: str) -> NotJson:
        return NotJson(f"line {self._text.count(chr(10), 0, self._place) + 1}: {what}")

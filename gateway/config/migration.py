"""Rewrite a configuration file for the knobs that left. No other character of it changes, and no comment is lost."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from gateway.config.layers import shield, successor, unshield
from gateway.config.strict_yaml import read_yaml
from gateway.settings.paths import Key


class _Quoting(yaml.SafeDumper):
    """Quote references: as plain text, other programs would read their braces as YAML."""


def _text(dumper: _Quoting, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "'" if text != unshield(text) else None)


_Quoting.add_representer(str, _text)


class _Entry(NamedTuple):
    """Hold a key of a mapping and its value, or an element of a list. ``path`` ends with its own key."""

    path: tuple[Key, ...]
    parent: yaml.CollectionNode
    key: yaml.Node
    value: yaml.Node


def migrate(text: str, origin: str) -> tuple[str, list[str]]:
    """Return the text with each knob that left moved or removed, and a line for each of them. Raises
    :class:`~gateway.config.strict_yaml.NotYaml`."""
    text, done = shield(text), []
    read_yaml(text, origin)
    # Each step moves one knob, after which all others may stand elsewhere. A header goes after its value.
    while left := sorted(filter(successor, _entries(text)), key=lambda path: path[-1] == "header"):
        old = left[0]
        moves = _moves(old, {path: read_yaml(yaml.serialize(one.value), "") for path, one in _entries(text).items()})
        for path, value in moves.items():
            text = _put(text, path, value)
        text = _remove(text, old)
        to = " and ".join(".".join(map(str, path)) for path in moves)
        done.append(f"{'.'.join(map(str, old))}: {f'moved to {to}' if to else 'removed'}")
    return unshield(text), done


def _entries(text: str) -> dict[tuple[Key, ...], _Entry]:
    def below(node: yaml.Node | None, path: tuple[Key, ...]) -> Iterator[_Entry]:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                yield _Entry((*path, key.value), node, key, value)
                yield from below(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                yield _Entry((*path, index), node, value, value)
                yield from below(value, (*path, index))

    return {entry.path: entry for entry in below(yaml.compose(text, Loader=yaml.SafeLoader), ())}


def _moves(path: tuple[Key, ...], values: dict[tuple[Key, ...], Any]) -> dict[tuple[Key, ...], Any]:
    """Return what is set in place of a knob: nothing, where the gateway does without it."""
    service = path[:2] if path[0] == "services" else ()
    value, (*parent, name) = values[path], path
    match path[len(service) :]:
        case ("auth", "issuers", _, "introspection", "endpoint"):
            return {(*parent[:-1], "metadata", "introspection_endpoint"): value}
        case ("auth", "issuers", _, "jwks_uri"):
            return {(*parent, "metadata", "jwks_uri"): value}
        case ("backend", "credentials", "value") | ("backend", "listing", "credentials", "value"):
            return {(*parent, "send", "headers", values.get((*parent, "header"), "Authorization")): value}
        case ("backend", "credentials", "header") if (*parent, "send") not in values:  # the value is in no file
            return {(*parent, "send", "headers", value): shield("${VALUE}")}
        case ("backend", "params", "always"):
            return {(*service, "backend", "version"): "2.0-with-params"} if value else {}
        case ("backend", "params", "prefix"):
            credentials = (*service, "backend", "credentials")
            return {(*credentials, "mode"): "static", (*credentials, "send", "params"): value}
        case ("catalog", "tools", _, _):
            words = value if name == "requires" else ["blocks" if name == "content" else name]
            return {(*parent, "mcp"): [*values.get((*parent, "mcp"), ()), *words]} if value else {}
        case ("mcp", "server", _):
            return {(*parent, "about", name): value}
        case ("store", "username"):
            url = urlsplit(values.get(("store", "url"), "redis://localhost"))
            return {("store", "url"): url._replace(netloc=f"{value}@{url.netloc.rpartition('@')[2]}").geturl()}
    return {}


def _put(text: str, path: tuple[Key, ...], value: Any) -> str:
    """Set a knob, in the innermost of its sections that is there."""
    entries = _entries(text)
    depth = next((depth for depth in range(len(path), 0, -1) if path[:depth] in entries), 0)
    if depth == 0:
        return f"{text.rstrip()}\n{path[0]}: {_flow(path[1:], value)}\n"
    node = entries[path[:depth]].value
    end = _end(text, node)
    if depth == len(path) or not isinstance(node, yaml.MappingNode):  # a value, or a section without any
        return f"{text[: node.start_mark.index].rstrip()} {_flow(path[depth:], value)}{text[end:]}"
    line = f"{path[depth]}: {_flow(path[depth + 1 :], value)}"
    if not node.flow_style:
        end = _line_end(text, end)
        return f"{text[:end]}\n{' ' * node.start_mark.column}{line}{text[end:]}"
    inside = text[: end - 1].rstrip()
    return f"{inside}{'' if inside[-1] == '{' else ' ' if inside[-1] == ',' else ', '}{line}{text[end - 1 :]}"


def _flow(path: Sequence[Key], value: Any) -> str:
    for key in reversed(path):
        value = {key: value}
    text = yaml.dump(value, None, _Quoting, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _remove(text: str, path: tuple[Key, ...]) -> str:
    """Remove a knob, with each section that has no other. Comments stay, as lines of their own."""
    entries = _entries(text)
    while len(path) > 1 and isinstance(path[-2], str) and len(entries[path].parent.value) == 1:
        path = path[:-1]
    _, parent, key, value = entries[path]
    start, stop = key.start_mark.index, _end(text, value)
    line = text.rfind("\n", 0, start) + 1
    if parent.flow_style:
        rest = text[stop:].lstrip()
        before, after = (start, rest[1:].lstrip()) if rest.startswith(",") else (len(text[:start].rstrip(" \n,")), rest)
    elif not text[line:start].strip():
        stop = _line_end(text, stop)
        before, after = line, text[stop + 1 :]
    else:  # the first of a list's element, whose dash stays
        stop = parent.value[1][0].start_mark.index
        before, after = start, text[stop:]
    comments = "".join(f"{' ' * key.start_mark.column}{comment}\n" for comment in _comments(text, start, stop))
    return text[:line] + comments + text[line:before] + after


def _comments(text: str, start: int, stop: int) -> Iterator[str]:
    """Yield the comments between two places: they are where no token is."""
    tokens = [token for token in yaml.scan(text, Loader=yaml.SafeLoader) if token.end_mark.index > start]
    ends = [start, *(token.end_mark.index for token in tokens)]
    for end, token in zip(ends, tokens, strict=False):
        gap = text[end : min(token.start_mark.index, stop)]
        yield from (f"#{line.partition('#')[2]}" for line in gap.split("\n") if "#" in line)


def _end(text: str, node: yaml.Node) -> int:
    """Return where a value ends; the mark of a block is at the next key, after the comments between them."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return len(text[: node.end_mark.index].rstrip())


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end

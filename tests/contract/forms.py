"""Write listings in each dialect, for the tests of hostile entries and of arbitrary answers.

A new dialect gets a row in :data:`FORMS`. Without one, ``test_hostile_entries.py`` fails and says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """Hold how a dialect writes a listing. ``answers`` makes the service's answers, by question, of entries. ``entry``
    makes the valid entry of a method from its name, with all members that the dialect reads. ``frame`` makes a document
    that is nearly a listing from any map of names to entries. ``keyed``: the name of an entry is its key in a map, and
    ``answers`` takes (name, entry) pairs."""

    answers: Callable[[list[Any]], Json]
    entry: Callable[[Any], Any]
    frame: Callable[[Json], Any]
    keyed: bool = False

    def named(self, name: Any) -> Any:
        """Return a valid entry, as ``answers`` takes it."""
        return (name, self.entry(name)) if self.keyed else self.entry(name)


def _named(entries: Json, member: str = "name") -> list[Any]:
    """Return the entries as a list, with their names inside."""
    return [{**entry, member: name} if isinstance(entry, dict) else entry for name, entry in entries.items()]


def _with(entries: Json, **members: Any) -> Json:
    return {name: {**members, **(entry if isinstance(entry, dict) else {})} for name, entry in entries.items()}


def _drupal(name: Any) -> Json:
    parameter = {"a": {"attributes": {"required": True}, "schema": {"type": "string"}}}
    return {"type": "JsonRpcMethod", "id": name, "attributes": {"usage": "Good.", "params": parameter}}


def _openrpc(name: Any) -> Json:
    return {
        "name": name,
        "params": [{"name": "a", "schema": {}}],
        "result": {"name": "r", "schema": {}},
        "tags": [],
        "servers": [],
        "x-scopes": [],
        "paramStructure": "by-name",
        "summary": "Good.",
        "deprecated": False,
    }


def _openrpc_document(entries: Iterable[Any]) -> Json:
    return {"openrpc": "1.2.6", "methods": entries}


def _kodi(_: Any) -> Json:
    params = [{"name": "a", "required": True, "type": "string"}]
    return {"params": params, "returns": "string", "description": "Good.", "permission": "ReadData"}


def _truenas(_: Any) -> Json:
    accepts = [{"_name_": "a", "_required_": True, "type": "string"}]
    return {"description": "Good.", "accepts": accepts, "returns": [{}], "roles": [], "job": False}


def _commands(lines: Iterable[str]) -> str:
    return "\n  ".join(["The available commands are:", *lines])


def _ubus_objects(entries: list[Any]) -> Json:
    """Return objects with one method for each entry: ``good.one`` is the method ``one`` of ``good``."""
    objects: Json = {}
    for name, types in entries:
        object_name, _, method = name.partition(".")
        objects.setdefault(object_name, {})[method] = types
    return objects


def _custom(entries: list[Any]) -> Json:
    form = {"methods": "$.all[*]", "name": "$.cmd", "parameters": "$.takes[*]", "parameter": {"name": "$.key"}}
    return {"CUSTOM": form | {"title": "$.label", "result": "$.gives"}, "GET /api/jsonrpc": {"all": entries}}


FORMS: Final[dict[str, Form]] = {
    "drupal": Form(
        lambda entries: {"GET /api/jsonrpc/methods": {"data": entries, "links": {}}},
        _drupal,
        lambda entries: {"data": _named(_with(entries, type="JsonRpcMethod"), "id")},
    ),
    "jsonrpc_mcp": Form(
        lambda entries: {"GET /api/mcp/tools/list": {"tools": entries}},
        lambda name: {"name": name, "inputSchema": {"type": "object", "properties": {"a": {}}}, "annotations": {}},
        lambda entries: {"tools": [{"inputSchema": {}, **entry} for entry in _named(_with(entries))]},
    ),
    "openrpc": Form(
        lambda entries: {"rpc.discover": _openrpc_document(entries)},
        _openrpc,
        lambda entries: {"openrpc": "1.3.2", "methods": _named(entries), "components": entries},
    ),
    "introspection": Form(
        lambda entries: {"system.listMethods": entries},
        lambda name: name,
        lambda entries: [*entries, "system.methodSignature", "system.methodHelp"],
    ),
    "smd": Form(
        lambda entries: {"GET /api/jsonrpc": {"SMDVersion": ".1", "methods": entries}},
        lambda name: {"name": name, "parameters": [{"name": "a"}], "returns": "", "target": ""},
        lambda entries: {"SMDVersion": "2.0", "services": entries, **entries},
    ),
    "describe": Form(
        lambda entries: {"system.describe": {"procs": entries}},
        lambda name: {"name": name, "params": ["a"], "return": "num", "summary": "Good."},
        lambda entries: {"methods": {"first": {"type": "method"}, **entries}},
    ),
    "plain": Form(
        lambda entries: {"GET /api/jsonrpc/methods": {"methods": entries}},
        lambda name: {"name": name, "params": {"a": "int"}, "returns": {}, "title": "Good"},
        lambda entries: {"methods": [*entries, *_named(entries)]},
    ),
    "kodi": Form(
        lambda entries: {"GET /api/jsonrpc": {"methods": dict(entries), "types": {}}},
        _kodi,
        lambda entries: {"methods": entries, "types": entries},
        keyed=True,
    ),
    "mopidy": Form(
        lambda entries: {"core.describe": dict(entries)},
        lambda _: {"description": "Good.", "params": [{"name": "a", "default": None}]},
        lambda entries: _with(entries, params=list(entries.values())[:3]),
        keyed=True,
    ),
    "help": Form(
        lambda entries: {"help": "\n".join(["== All ==", *(f"{name} {entry}" for name, entry in entries)])},
        lambda _: '"a" ( b )',
        lambda entries: "\n".join(["== All ==", *entries]),
        keyed=True,
    ),
    "ovsdb": Form(
        lambda entries: {"list-commands": _commands(f"{name} {entry}" for name, entry in entries)},
        lambda _: "a [b]",
        _commands,
        keyed=True,
    ),
    "truenas": Form(
        lambda entries: {"core.get_methods": dict(entries)},
        _truenas,
        lambda entries: _with(entries, accepts=list(entries.values())[-1:], returns=list(entries.values())[-1:]),
        keyed=True,
    ),
    "ubus": Form(
        lambda entries: {"GET /api/jsonrpc/list": _ubus_objects(entries)},
        lambda _: {"a": "string", "b": "number"},
        lambda entries: {"thing": {name: dict.fromkeys(entries, "number") for name in entries}},
        keyed=True,
    ),
    # A saved listing. In the short form, the operator's own file, one fault refuses the whole file.
    "static": Form(
        lambda entries: {"FILE methods.yaml": _openrpc_document(entries)},
        _openrpc,
        lambda entries: {"methods": entries},
    ),
    "custom": Form(
        _custom,
        lambda name: {"cmd": name, "takes": [{"key": "a"}], "gives": "int", "label": "Good"},
        lambda entries: {"functions": entries},
    ),
}


def label(value: Any) -> str:
    """Return a short test id for a JSON value."""
    text = json.dumps(value)
    return text if len(text) < 30 else f"{text[:20]}…"

"""Read what OVSDB servers tell of themselves (RFC 7047): their databases, and what stands in each.

The methods are those of the RFC; ``list_dbs`` and ``get_schema`` tell with which databases, tables and columns. Methods
that last as long as a connection (``monitor``, ``lock``) are left out: callers share it. The control sockets of Open
vSwitch and OVN (``unixctl``) speak the same JSON-RPC 1.0, and ``list-commands`` answers a text for people.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_match, listing_of, refuse_half
from gateway.listing.entries import UnusableMethod, object_of
from gateway.model import Listing, Method, Parameter, Structure

_TITLE: Final = "The available commands are:"
_COMMAND: Final = re.compile(r"  (\S*+)[ \t]*+(.*)")
_MOST_DATABASES: Final = 8
_OPERATIONS: Final = ("operation", *(f"operation{number}" for number in range(2, 9)))
_WHICH: Final = ("insert", "select", "update", "mutate", "delete", "wait", "commit", "abort", "comment", "assert")
_NAMES: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}
_MEMBERS: Final[dict[str, Any]] = {
    "op": {"enum": [*_WHICH]},
    "where": {"type": "array", "description": 'Conditions, e.g. [["name", "==", "a"]]; [] for all rows.'},
    "columns": _NAMES,
    "row": {"type": "object"},
    "mutations": {"type": "array", "description": 'E.g. [["count", "+=", 1]].'},
}
"""Members of an operation that are described. It may have others (RFC 7047 §5.2)."""


class Ovsdb:
    name = "ovsdb"
    info = DialectInfo(
        spoken_by="OVSDB servers (Open vSwitch, OVN), and the control sockets of their programs",
        requests=f"`list_dbs`, then `get_schema` of each database, up to {_MOST_DATABASES}; or `list-commands`",
        recognized_by="a list of names; or a text that begins with its title",
        carries=("description", "parameters", "types", "required", "result"),
        params="by position",
        not_carried="`monitor`, `lock` and what belongs to them, since they last as long as a connection; more than "
        "eight operations in one `transact`; the command `exit`. Arguments of commands are one array, `params`.",
        schemes=("tcp", "tls", "unix"),
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [call_question(source, name) for name in ("list_dbs", "list-commands")]
        found = await first_match(questions, recognizes, "neither names of databases nor a text of commands")
        if isinstance(found, str):
            lines = filter(None, map(_COMMAND.fullmatch, found.splitlines()[1:]))
            return listing_of(self.name, ((line[1], line[2].strip()) for line in lines), _command)
        names = found[:_MOST_DATABASES]
        schemas = {}
        for name in names:
            answer = await source.call_method("get_schema", [name])
            refuse_half(f"get_schema {name}", answer)
            schemas[name] = object_of(answer.value)
        return listing_of(self.name, ((one.name, one) for one in _methods(schemas)), lambda _, method: method)


def recognizes(document: Any) -> bool:
    is_list = isinstance(document, list) and bool(document) and all(isinstance(name, str) for name in document)
    return is_list or (isinstance(document, str) and document.startswith(_TITLE))


def _command(name: str, usage: str) -> Method:
    if name == "exit":
        raise UnusableMethod("the command stops the program", "run it by hand")
    usage = f"Usage: {name} {usage}".strip()
    # Some take arguments and name none.
    return Method(name, description=usage, parameters=None, structure=Structure.BY_POSITION)


def _methods(schemas: Mapping[str, dict[str, Any]]) -> Iterator[Method]:
    """Yield the methods of a server with these databases."""
    tables = {name: object_of(schema.get("tables")) for name, schema in schemas.items()}
    told = [f"Tables of {name}: {'; '.join(map(_table, one.items()))}." for name, one in tables.items() if one]
    database = Parameter("database", {"type": "string", "enum": [*schemas]}, required=True)
    known = {"enum": sorted({table for one in tables.values() for table in one})} if all(tables.values()) else {}
    operation = {"type": "object", "properties": {**_MEMBERS, "table": {"type": "string", **known}}, "required": ["op"]}
    operations = (Parameter(one, {"$ref": "#/operation"}, one == "operation") for one in _OPERATIONS)
    reads, by_position = {"readOnlyHint": True}, Structure.BY_POSITION
    text = "Return the names of the databases."
    yield Method("list_dbs", description=text, result=_NAMES, annotations=reads, structure=by_position)
    text, result = "Return the schema of a database: its tables, columns and their types.", {"type": "object"}
    yield Method(
        "get_schema", description=text, result=result, annotations=reads, structure=by_position,
        parameters=(database,),
    )  # fmt: skip
    text = "\n".join(["Run operations on a database in order, all or none (RFC 7047 §5.2).", *told])
    yield Method(
        "transact", description=text, result={"type": "array"}, structure=by_position,
        parameters=(database, *operations), root={"operation": operation},
    )  # fmt: skip


def _table(entry: tuple[str, Any]) -> str:
    name, table = entry
    return f"{name} ({', '.join(object_of(object_of(table).get('columns')))})"

"""Read what OVSDB servers tell of themselves (RFC 7047): their databases, and what stands in each.

The methods are those of the RFC; ``list_dbs`` and ``get_schema`` tell with which databases, tables and columns. Methods
that last as long as a connection (``monitor``, ``lock``) are left out: callers share it. The control sockets of Open
vSwitch and OVN (``unixctl``) speak the same JSON-RPC 1.0, and ``list-commands`` answers a text for people.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_match, listing_of
from gateway.listing.entries import UnusableMethod, object_of
from gateway.model import Listing, Method, Parameter, Structure

_LIST: Final = "list_dbs"
_SCHEMA: Final = "get_schema"
_COMMANDS: Final = "list-commands"
_TITLE: Final = "The available commands are:"
_COMMAND: Final = re.compile(r"  (\S*+)[ \t]*+(.*)")
_MOST_DATABASES: Final = 8
_MOST_NAMES: Final = 500
"""Tables and columns that descriptions and schemas name."""
_OPERATIONS: Final = ("operation", *(f"operation{number}" for number in range(2, 9)))
_NAMES: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}
_MEMBERS: Final[dict[str, Any]] = {
    "where": {"type": "array", "description": 'Conditions, e.g. [["name", "==", "a"]]; [] for all rows.'},
    "columns": _NAMES,
    "row": {"type": "object"},
    "mutations": {"type": "array", "description": 'E.g. [["count", "+=", 1]].'},
    "uuid-name": {"type": "string"},
}
"""Members of an operation that are described. It may have others (RFC 7047 §5.2)."""
_WHICH: Final = ("insert", "select", "update", "mutate", "delete", "wait", "commit", "abort", "comment", "assert")


class Ovsdb:
    name = "ovsdb"
    info = DialectInfo(
        spoken_by="OVSDB servers (Open vSwitch, OVN), and the control sockets of their programs",
        requests=f"`{_LIST}`, then `{_SCHEMA}` of each database, up to {_MOST_DATABASES}; or `{_COMMANDS}`",
        recognized_by="a list of names; or a text that begins with its title",
        carries=("description", "parameters", "types", "required", "result"),
        params="by position",
        not_carried="`monitor`, `lock` and what belongs to them, since they last as long as a connection; more than "
        "eight operations in one `transact`; the command `exit`. Arguments of commands are one array, `params`.",
        schemes=("tcp", "tls", "unix"),
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [call_question(source, name) for name in (_LIST, _COMMANDS)]
        found = await first_match(questions, recognizes, "neither names of databases nor a text of commands")
        if isinstance(found, str):
            return listing_of(self.name, _commands(found), _command)
        names = [name for name in found if isinstance(name, str)][:_MOST_DATABASES]
        schemas = {name: (await source.call_method(_SCHEMA, [name])).value for name in names}
        return listing_of(self.name, _methods(schemas), lambda _, method: method)


def recognizes(document: Any) -> bool:
    is_list = isinstance(document, list) and bool(document) and all(isinstance(name, str) for name in document)
    return is_list or (isinstance(document, str) and document.startswith(_TITLE))


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines()[1:]:
        if found := _COMMAND.fullmatch(line):
            yield found[1], found[2].strip()


def _command(name: str, usage: str) -> Method:
    if name == "exit":
        raise UnusableMethod("the command stops the program", "run it by hand")
    words = f"{name} {usage}".strip()
    return Method(
        name, Ovsdb.name, description=f"Usage: {words}", parameters=None, structure=Structure.BY_POSITION
    )  # some take arguments and name none


def _methods(schemas: Mapping[str, Any]) -> Iterator[tuple[str, Method]]:
    """Yield the methods of a server with these databases, by name."""
    database = Parameter("database", {"type": "string", "enum": [*schemas]}, required=True)
    tables = {name: object_of(object_of(schema).get("tables")) for name, schema in schemas.items()}
    known = sorted({table for one in tables.values() for table in one})
    told = "\n".join(f"Tables of {name}: {'; '.join(map(_table, one.items()))}." for name, one in tables.items() if one)
    table = {"type": "string"} | ({"enum": known} if 0 < len(known) <= _MOST_NAMES else {})
    operation = {"type": "object", "properties": {"op": {"enum": [*_WHICH]}, "table": table, **_MEMBERS},
                 "required": ["op"]}  # fmt: skip
    of_operation = {"$ref": "#/operation"}
    texts = {
        _LIST: "Return the names of the databases.",
        _SCHEMA: "Return the schema of a database: its tables, columns and their types.",
        "transact": f"Run operations on a database in order, all or none (RFC 7047 §5.2).\n{told}",
    }
    parameters: dict[str, tuple[Parameter, ...]] = {
        _SCHEMA: (database,),
        "transact": (database, *(Parameter(one, of_operation, one == _OPERATIONS[0]) for one in _OPERATIONS)),
    }
    results: dict[str, Any] = {_LIST: _NAMES, _SCHEMA: {"type": "object"}, "transact": {"type": "array"}}
    for name, text in texts.items():
        yield name, Method(
            name, Ovsdb.name, description=text.strip(), parameters=parameters.get(name, ()),
            structure=Structure.BY_POSITION, result=results[name], root={"operation": operation},
            annotations={"readOnlyHint": True} if name != "transact" else {},
        )  # fmt: skip


def _table(entry: tuple[str, Any]) -> str:
    name, table = entry
    columns = [*object_of(object_of(table).get("columns"))][:_MOST_NAMES]
    return f"{name} ({', '.join(columns)})"

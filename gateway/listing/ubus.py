"""Read the listing of OpenWrt's ubus behind uhttpd: objects, their methods, and the types of arguments by name.

Listing needs no session. A method is called by its own name at ``{endpoint}/call/{object}``, with ``Authorization:
Bearer <session>`` (uhttpd from 2020 on); the result is then only the data. The older method ``call``, whose first
params are session, object and method, would be one method for all tools.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_match, get_question, listing_of
from gateway.listing.entries import UnusableMethod, entry_of, object_of, schema_of_word
from gateway.model import Listing, Method, Parameter, Schema, Structure

_SESSION: Final = "ubus_rpc_session"
"""Argument that uhttpd sets from the header and refuses from callers."""
_TYPES: Final = ("boolean", "number", "string", "array", "object", "unknown")
_OBJECT: Final = re.compile(r"[A-Za-z0-9_~@-][A-Za-z0-9._~@-]*+(?:/[A-Za-z0-9_~@-][A-Za-z0-9._~@-]*+)*+")


class Ubus:
    name = "ubus"
    info = DialectInfo(
        spoken_by="OpenWrt's ubus, through uhttpd-mod-ubus",
        requests='`GET {endpoint}/list`, then `list` with the params `["*"]`',
        recognized_by="a map of objects, of methods, of names with a type",
        carries=("parameters", "types"),
        params="by name, at `{endpoint}/call/{object}`",
        not_carried="Which arguments are required. `backend.credentials.login` gets the session.",
        probed=False,
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        url = f"{source.url.rstrip('/')}/list"
        questions = (get_question(source, url), call_question(source, "list", ["*"]))
        return parse_listing(await first_match(questions, recognizes, "no map of objects and methods"), source.url)


def recognizes(document: Any) -> bool:
    # One valid method is enough; an object may have no methods.
    objects = map(object_of, object_of(document).values())
    return any(_has_types(types) for methods in objects for types in methods.values())


def _has_types(types: Any) -> bool:
    return isinstance(types, dict) and all(isinstance(word, str) and word in _TYPES for word in types.values())


def parse_listing(document: dict[str, Any], url: str) -> Listing:
    """Return the listing in a document. ``url`` is the JSON-RPC endpoint; calls go to paths below it."""
    path = urlsplit(url).path.rstrip("/")

    def parse_entry(name: str, entry: tuple[str, str, Any]) -> Method:
        object_name, method, types = entry
        if not _OBJECT.fullmatch(object_name):
            raise UnusableMethod("the object's name cannot be part of a URL", "leave it out with catalog.exclude")
        declared = (Parameter(name, _schema(word)) for name, word in entry_of(types).items() if name != _SESSION)
        return Method(
            name,
            parameters=tuple(declared),
            structure=Structure.BY_NAME,
            endpoint=f"{path}/call/{object_name}",
            wire_name=method,
        )

    return listing_of(Ubus.name, _methods(document), parse_entry)


def _methods(document: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str, Any]]]:
    for object_name, methods in document.items():
        if not isinstance(methods, dict):
            yield object_name, (object_name, "", methods)
            continue
        for method, types in methods.items():
            yield f"{object_name}.{method}" if object_name and method else "", (object_name, method, types)


def _schema(word: Any) -> Schema:
    # ubus calls a 32-bit integer "number"; it has no word for other numbers.
    return {"type": "integer"} if word == "number" else schema_of_word(word)

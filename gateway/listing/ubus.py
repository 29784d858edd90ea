"""OpenWrt's ubus behind uhttpd: objects, their methods, and the types of their arguments by name.

Listing needs no session. A method is called by its own name at ``{endpoint}/call/{object}``, with ``Authorization:
Bearer <session>`` (uhttpd from 2020 on); the result is then the data alone. The older ``call_question``, with session,
object and method as its first params, would have one method for all tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.listing.dialect import (
    About,
    ListingSource,
    UnusableMethod,
    call_question,
    entry_of,
    first_answer,
    get_question,
    listing_of,
    name_parameters,
    object_of,
)
from gateway.listing.typewords import schema_of_word
from gateway.model import Listing, Method, Parameter, Schema, Structure

_SESSION: Final = "ubus_rpc_session"
"""An argument that uhttpd fills in from the header, and refuses from callers."""
_TYPES: Final = ("boolean", "number", "string", "array", "object", "unknown")
_OBJECT: Final = re.compile(r"[A-Za-z0-9_~@-][A-Za-z0-9._~@-]*+(?:/[A-Za-z0-9_~@-][A-Za-z0-9._~@-]*+)*+")


class Ubus:
    name = "ubus"
    about = About(
        of="OpenWrt's ubus, through uhttpd-mod-ubus",
        asked='`GET {endpoint}/list`, then `list` with the params `["*"]`',
        recognized="a map of objects, of methods, of names with a type",
        carries=("parameters", "types"),
        passed="by name, at `{endpoint}/call/{object}`",
        lost="What is required. The session goes into `backend.credentials`, as `Bearer …`.",
        probed=False,
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        place = source.listing_url or f"{source.url.rstrip('/')}/list"
        questions = (get_question(source, place), call_question(source, "list", ["*"]))
        return parse_listing(await first_answer(questions, recognizes, "no map of objects and methods"), source.url)


def recognizes(document: Any) -> bool:
    """Tell whether a method has types where ubus has them; one sound method is enough, an object may have none."""
    objects = map(object_of, document.values()) if isinstance(document, dict) else ()
    return any(_has_types(types) for methods in objects for types in methods.values())


def _has_types(types: Any) -> bool:
    return isinstance(types, dict) and all(isinstance(word, str) and word in _TYPES for word in types.values())


def parse_listing(document: dict[str, Any], url: str) -> Listing:
    """``url`` is the endpoint; calls go below its path."""
    path = urlsplit(url).path.rstrip("/")

    def parse_entry(name: str, entry: tuple[str, str, Any]) -> Method:
        thing, method, types = entry
        if not _OBJECT.fullmatch(thing):
            raise UnusableMethod("the object's name cannot stand in a URL", "leave it out with catalog.exclude")
        declared = (Parameter(name, _schema(word)) for name, word in entry_of(types).items() if name != _SESSION)
        parameters, structure = name_parameters(declared, Structure.BY_NAME)
        return Method(
            name,
            Ubus.name,
            parameters=parameters,
            structure=structure,
            endpoint=f"{path}/call/{thing}",
            wire_name=method,
        )

    return listing_of(Ubus.name, _methods(document), parse_entry)


def _methods(document: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str, Any]]]:
    for thing, methods in document.items():
        if not isinstance(methods, dict):
            yield thing, (thing, "", methods)
            continue
        for method, types in methods.items():
            yield f"{thing}.{method}" if thing and method else "", (thing, method, types)


def _schema(word: Any) -> Schema:
    # The only number that ubus has a word for has 32 bits.
    return {"type": "integer"} if word == "number" else schema_of_word(word)

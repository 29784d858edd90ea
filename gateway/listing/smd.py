"""Read Service Mapping Descriptions 1.0 and 2.0, which Dojo defined; Laminas (Zend) and others answer them to a GET.

``services`` is an object; 1.0 has ``methods``, a list. Only services called by JSON-RPC over POST can be forwarded.
A service without an ``envelope`` or ``transport`` has those of the document. Its own ``target`` is its endpoint,
resolved against the address of the listing; a service on another host is quarantined.
"""

import re
from dataclasses import replace
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from gateway.listing import entries
from gateway.listing.dialect import DialectInfo, ListingSource, first_match, get_question, listing_of, path_of
from gateway.listing.entries import UnusableMethod, list_of, object_of, schema_of_word, text_of
from gateway.model import Listing, Method, Parameter, Schema, ServiceInfo, Structure

DRAFT: Final = "http://json-schema.org/draft-03/schema#"
_MOST_COMMON: Final = 20
"""Parameters that a document may give to all its methods: each method has its own copy of them."""
_REMOVE: Final = "declare them in the methods that have them"
_LEAVE_OUT: Final = "leave it out with catalog.exclude, or front it with a service of its own"
_NOT_SCHEMA: Final = ("name", "optional", "required", "description", "type")
_ALLOWED_WITH_WORD: Final = {"default", "enum"}
_PATH: Final = re.compile(r"/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")


class Smd:
    name = "smd"
    info = DialectInfo(
        spoken_by="Service Mapping Descriptions 1.0 and 2.0: Laminas and Zend `Json\\Server`, Dojo, qooxdoo",
        requests="`GET` of the endpoint itself",
        recognized_by="`SMDVersion`; or `services{}` with `envelope`",
        carries=("description", "parameters", "types", "required", "result"),
        params="by name",
        not_carried="Services on another host, with another envelope than JSON-RPC or another transport than POST. "
        "`additionalParameters`. PHP's `array` may be a list or a map, so the schema allows both.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [get_question(source, source.url)]
        document = await first_match(questions, recognizes, "no service mapping description")
        return parse_listing(document, source.listing.url or source.url)


def recognizes(document: Any) -> bool:
    if not isinstance(document, dict) or not (_services(document) or "SMDVersion" in document):
        return False
    return isinstance(document.get("SMDVersion"), str) or isinstance(document.get("envelope"), str)


def parse_listing(document: dict[str, Any], document_url: str = "") -> Listing:
    """Return the listing in a document. Relative targets of services are resolved against ``document_url``."""

    def parse_entry(name: str, service: Any) -> Method:
        return _method(name, entries.entry_of(service), document, document_url)

    listing = listing_of(Smd.name, _services(document), parse_entry)
    return replace(listing, service=ServiceInfo(description=text_of(document.get("description"))))


def _services(document: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return (name, service) pairs. Laminas has each twice, under ``services`` and ``methods``."""
    services = document.get("services") or document.get("methods")
    if isinstance(services, dict):
        return list(services.items())
    return [(object_of(service).get("name"), service) for service in list_of(services)]


def _method(name: str, service: dict[str, Any], document: dict[str, Any], document_url: str) -> Method:
    envelope = service.get("envelope") or document.get("envelope") or document.get("serviceType") or "JSON-RPC"
    transport = service.get("transport") or document.get("transport") or "POST"
    if not text_of(envelope).upper().startswith("JSON-RPC"):
        raise UnusableMethod("the service is not called by JSON-RPC", _LEAVE_OUT)
    if text_of(transport).upper() not in ("POST", "RAW_POST"):
        raise UnusableMethod("the service is not called by POST", _LEAVE_OUT)
    common = list_of(document.get("parameters"))
    if len(common) > _MOST_COMMON:
        raise UnusableMethod(f"the document has more than {_MOST_COMMON} parameters of all methods", _REMOVE)
    declared = [*list_of(service.get("parameters")), *common]
    return Method(
        name,
        description=text_of(service.get("description")),
        parameters=tuple(map(_parameter, declared)),
        structure=Structure.EITHER,
        result=_schema(service.get("returns")),
        root=document,
        endpoint=_endpoint(service.get("target"), document.get("target"), document_url),
    )


def _parameter(item: Any) -> Parameter:
    entry = object_of(item)
    required = entry["required"] is True if "required" in entry else entry.get("optional") is not True
    return Parameter(text_of(entry.get("name")), _schema(entry), required, text_of(entry.get("description")))


def _schema(value: Any) -> Schema:
    """Return the schema of a type word, a list of type words, or an entry: a schema of draft 02 or 03 with a name."""
    entry = object_of(value)
    kind: Any = entry.get("type") if isinstance(value, dict) else value
    rest = {keyword: content for keyword, content in entry.items() if keyword not in _NOT_SCHEMA}
    if _is_words(kind):
        # With other keywords it is JSON Schema, where "array" is a list and nothing else.
        read = _word if rest.keys() <= _ALLOWED_WITH_WORD else schema_of_word
        schema = entries.any_of([read(word) for word in (kind if isinstance(kind, list) else [kind])])
    else:
        schema, rest = True, rest if kind is None else {**rest, "type": kind}
    if not rest:
        return schema
    combined = {**schema, **rest} if isinstance(schema, dict) else rest
    return combined if rest.keys() <= _ALLOWED_WITH_WORD else {"$schema": DRAFT, **combined}


def _is_words(kind: Any) -> bool:
    return isinstance(kind, str) or (isinstance(kind, list) and bool(kind) and all(isinstance(k, str) for k in kind))


def _word(word: str) -> Schema:
    # PHP has one type for lists and maps.
    return {"type": ["array", "object"]} if word.casefold() == "array" else schema_of_word(word)


def _endpoint(target: Any, common: Any, document_url: str) -> str | None:
    """Return the path of a service's own endpoint; None for the usual one. ``common``, the document's target, may
    name a second allowed host, the backend's own name. Raise :class:`UnusableMethod` for a service on another host."""
    if not isinstance(target, str) or not document_url:
        return None
    document, usual, own = (_resolve_url(document_url, address) for address in ("", text_of(common), target))
    if own is None or document is None or _host(own) not in (_host(document), _host(usual or document)):
        raise UnusableMethod("the service's target is on another host, to which the gateway sends nothing", _LEAVE_OUT)
    usual_paths = (document.path, usual.path if usual else document.path)
    path = path_of(own.geturl())
    return path if own.path not in usual_paths and _PATH.fullmatch(path) else None


def _resolve_url(document_url: str, address: str) -> SplitResult | None:
    try:
        return urlsplit(urljoin(document_url, address))
    except ValueError:
        return None


def _host(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, parts.netloc

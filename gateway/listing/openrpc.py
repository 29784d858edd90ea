"""OpenRPC 1.x: ``rpc.discover``, or ``GET openrpc.json`` where a service has only that.

Recognized by ``openrpc``, a string, and ``methods``, a list; the version is not looked at further, since documents in
the wild say 1.0.0-rc1 to 1.4.1 and differ little. ``paramStructure`` absent means unknown here, although the
specification says "either": of four real services three refuse one of the two shapes. ``servers`` may name any host
and are ignored, but for a method's own relative path, which is the true endpoint with fastapi-jsonrpc.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

from gateway import jsonrpc
from gateway.json_pointer import resolve
from gateway.listing.dialect import (
    About,
    ListingSource,
    call_question,
    first_answer,
    get_question,
    is_heading,
    list_of,
    name_fault,
    object_of,
    schema_of,
    text_of,
    texts_of,
)
from gateway.listing.documents import joined, others_of
from gateway.model import Listing, Method, Parameter, QuarantinedMethod, ServiceInfo, Structure
from gateway.text import excerpt

FILE: Final = "openrpc.json"
_TITLE_LENGTH: Final = 64
_MOST_ERRORS: Final = 10
_MOST_EXAMPLES: Final = 2
_LONGEST_LINE: Final = 400
"""Bytes of one error, and of an example's arguments."""
_LONGEST_RESULT: Final = 200


class OpenRpc:
    name = "openrpc"
    about = About(
        of="OpenRPC 1.x",
        asked="`rpc.discover`; then `GET` of `openrpc.json` under the endpoint, beside it, at the root and in "
        "`/.well-known/`, and of the endpoint itself",
        recognized="`openrpc`, a string, and `methods[]`",
        carries=("title", "description", "parameters", "types", "required", "result", "scopes"),
        passed="as `paramStructure` says; else by name, or by position where a name of the document can be no key",
        lost="Examples after the second, errors after the tenth, links, and `servers` but for a method's own relative "
        "one, which is its endpoint with fastapi-jsonrpc.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [
            call_question(source, "rpc.discover"),
            *(get_question(source, url) for url in _document_urls(source)),
        ]
        document = await first_answer(questions, recognizes, "no OpenRPC document")
        others = await others_of(source)
        # Documents have up to megabytes; a thread gives way to the loop every 5 ms.
        return await asyncio.to_thread(lambda: parse_listing(joined(document, others)))


def _document_urls(source: ListingSource) -> tuple[str, ...]:
    if source.listing_url:
        return (source.listing_url,)
    candidates = (
        f"{source.url.rstrip('/')}/{FILE}",
        f"{source.base}/{FILE}",
        f"{source.origin}/{FILE}",
        f"{source.origin}/.well-known/{FILE}",
        source.url,
    )
    return tuple(dict.fromkeys(candidates))


def recognizes(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and isinstance(document.get("openrpc"), str)
        and isinstance(document.get("methods"), list)
    )


def parse_listing(document: dict[str, Any]) -> Listing:
    info = object_of(document.get("info"))
    # The version that made "result" optional, and its absence a notification.
    notifies = _version(document["openrpc"]) >= (1, 3)
    methods: list[Method] = []
    quarantined: list[QuarantinedMethod] = []
    headings = False
    for index, entry in enumerate(document["methods"]):
        entry = _resolve_references(entry, document)
        names = [entry.get("name", "-"), *(item.get("name") for item in _descriptors(entry, document))]
        headings = headings or any(map(is_heading, names))
        fault = name_fault(entry.get("name"), index)
        if fault is None:
            methods.append(_method(entry, document, notifies))
        else:
            quarantined.append(fault)
    return Listing(
        OpenRpc.name,
        tuple(methods),
        tuple(quarantined),
        ServiceInfo(
            text_of(info.get("title")),
            text_of(info.get("version")),
            text_of(info.get("description")),
            text_of(object_of(info.get("contact")).get("url")),
        ),
        by_position=headings,
    )


def _method(entry: dict[str, Any], document: dict[str, Any], notifies: bool) -> Method:
    summary = text_of(entry.get("summary"))
    descriptors = _descriptors(entry, document)
    structure = _structure(entry.get("paramStructure"), descriptors)
    result = _resolve_references(entry["result"], document) if "result" in entry else None
    tags = [
        _resolve_references(tag, document).get("name") for tag in list_of(entry.get("tags")) if isinstance(tag, dict)
    ]
    return Method(
        entry["name"],
        OpenRpc.name,
        title=summary if len(summary) <= _TITLE_LENGTH and text_of(entry.get("description")) else "",
        description="\n\n".join(_paragraphs(entry, document)),
        parameters=_parameters(descriptors, structure),
        structure=structure,
        result=schema_of(result["schema"]) if result and "schema" in result else None,
        notification=result is None and notifies,
        root=document,
        endpoint=_endpoint(entry.get("servers")),
        scopes=texts_of(entry.get("x-scopes")),
        meta={"tags": [tag for tag in tags if isinstance(tag, str)]} if tags else {},
        deprecated=entry.get("deprecated") is True,
    )


def _paragraphs(entry: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    """What a model reads of a method: its summary where that is no title, its description, its errors and examples."""
    summary, description = text_of(entry.get("summary")), text_of(entry.get("description"))
    if summary and summary not in description and (len(summary) > _TITLE_LENGTH or not description):
        yield summary
    if description:
        yield description
    errors = [_error(_resolve_references(error, document)) for error in list_of(entry.get("errors"))[:_MOST_ERRORS]]
    if any(errors):
        yield "\n".join(["Errors:", *filter(None, errors)])
    examples = [
        _example(_resolve_references(one, document), document)
        for one in list_of(entry.get("examples"))[:_MOST_EXAMPLES]
    ]
    if any(examples):
        yield "\n".join(["Examples:", *filter(None, examples)])


def _error(error: dict[str, Any]) -> str:
    code, message, data = error.get("code"), text_of(error.get("message")), error.get("data")
    # fastapi-jsonrpc has a JSON Schema of the data there, which is of no use to a caller.
    more = f": {data}" if isinstance(data, str) and data else ""
    shown = f"{code} " if type(code) is int else ""
    return excerpt(" ".join(f"{shown}{message}{more}".split()), _LONGEST_LINE)


def _example(example: dict[str, Any], document: dict[str, Any]) -> str:
    """An example pairing as ``arguments → result``; "" for one that has no params, or a name that is no text."""
    given = [_resolve_references(item, document) for item in list_of(example.get("params"))]
    texts = all(isinstance(item.get("name", ""), str) for item in given)
    if not isinstance(example.get("params"), list) or not texts or not all("value" in item for item in given):
        return ""
    arguments = {text_of(item.get("name")): item["value"] for item in given}
    # A heading is published under another name; its place tells as much.
    shown: Any = [item["value"] for item in given] if any(map(is_heading, arguments)) else arguments
    result = _resolve_references(example.get("result"), document)
    try:
        sides = [excerpt(jsonrpc.encode(shown).decode(), _LONGEST_LINE)]
        sides += [excerpt(jsonrpc.encode(result["value"]).decode(), _LONGEST_RESULT)] if "value" in result else []
    except ValueError:
        return ""
    return " → ".join(sides)


def _descriptors(entry: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    return [_resolve_references(item, document) for item in list_of(entry.get("params")) if isinstance(item, dict)]


def _parameters(descriptors: list[dict[str, Any]], structure: Structure) -> tuple[Parameter, ...]:
    parameters: dict[str, Parameter] = {}
    for position, descriptor in enumerate(descriptors):
        name = text_of(descriptor.get("name")) or f"arg{position}"
        if name in parameters:
            if structure is not Structure.BY_POSITION:
                continue
            name = f"{name}_{position}"
        description = text_of(descriptor.get("description")) or text_of(descriptor.get("summary"))
        parameters[name] = Parameter(
            name, schema_of(descriptor.get("schema")), descriptor.get("required") is True, description
        )
    return tuple(parameters.values())


def _resolve_references(item: Any, document: dict[str, Any]) -> dict[str, Any]:
    """An object of the document, through at most a few references within the document."""
    for _ in range(4):
        if not isinstance(item, dict) or not isinstance(item.get("$ref"), str):
            break
        item = resolve(document, item["$ref"])
    return object_of(item)


def _structure(value: Any, descriptors: list[dict[str, Any]]) -> Structure:
    if not all(text_of(descriptor.get("name")) for descriptor in descriptors):
        return Structure.BY_POSITION  # what has no name can only be told by its place
    try:
        return Structure(value)
    except ValueError:
        return Structure.UNKNOWN


def _endpoint(servers: Any) -> str | None:
    for server in list_of(servers):
        url = object_of(server).get("url")
        if isinstance(url, str) and re.fullmatch(r"/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%/-]*", url):
            return url
    return None


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 0)

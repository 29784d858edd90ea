"""Read OpenRPC 1.x documents: ``rpc.discover``, or ``GET openrpc.json`` where a service has only that.

Any version is accepted, since real documents say 1.0.0-rc1 to 1.4.1 and differ little. An absent ``paramStructure``
means unknown here, although the specification says "either" (Method Object): three of four real services refuse one.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urljoin

from gateway import jsonrpc
from gateway.concurrency.turns import run_in_thread
from gateway.jsonrpc import resolve
from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_match, get_question, listing_of
from gateway.listing.documents import inline_documents, read_documents
from gateway.listing.entries import is_heading, list_of, object_of, schema_of, text_of, texts_of
from gateway.model import Listing, Method, Parameter, ServiceInfo, Structure
from gateway.text import excerpt, url_beside

FILE: Final = "openrpc.json"
_STRUCTURES: Final = tuple(Structure)
_TITLE_LENGTH: Final = 64
_MOST_ERRORS: Final = 10
_MOST_EXAMPLES: Final = 2
_LONGEST_LINE: Final = 400
"""Bytes of one error, and of the arguments of an example."""
_LONGEST_RESULT: Final = 200
_MOST_READ: Final = 5 * _LONGEST_LINE
"""Characters of a text or an example that are read: a million methods may refer to one of megabytes."""


class OpenRpc:
    name = "openrpc"
    info = DialectInfo(
        spoken_by="OpenRPC 1.x",
        requests="`rpc.discover`; then `GET` of `openrpc.json` under the endpoint, beside it, at the root and in "
        "`/.well-known/`, and of the endpoint itself",
        recognized_by="`openrpc`, a string, and `methods[]`",
        carries=("title", "description", "parameters", "types", "required", "result", "scopes"),
        params="as `paramStructure` says; else by name, or by position where a name in the document cannot be a key",
        not_carried="Examples after the second, errors after the tenth, links, and `servers`, except a method's own "
        "relative one, which is its endpoint with fastapi-jsonrpc.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [call_question(source, "rpc.discover")]
        questions += [get_question(source, url) for url in _document_urls(source)]
        document = await first_match(questions, recognizes, "no OpenRPC document")
        others = await read_documents(source)
        # In a thread: documents have up to megabytes, and the interpreter gives way to the event loop.
        return await run_in_thread(lambda: parse_listing(inline_documents(document, others)))


def _document_urls(source: ListingSource) -> tuple[str, ...]:
    if source.listing.url:
        return (source.listing.url,)
    at_root = (urljoin(source.url, f"{folder}/{FILE}") for folder in ("", "/.well-known"))
    urls = (f"{source.url.rstrip('/')}/{FILE}", url_beside(source.url, f"/{FILE}"), *at_root, source.url)
    return tuple(dict.fromkeys(urls))


def recognizes(document: Any) -> bool:
    document = object_of(document)
    return isinstance(document.get("openrpc"), str) and isinstance(document.get("methods"), list)


def parse_listing(document: dict[str, Any]) -> Listing:
    info = object_of(document.get("info"))
    # From 1.3 on, "result" is optional, and a method without it is a notification.
    has_notifications = _version(document["openrpc"]) >= (1, 3)
    entries = [_resolve_references(entry, document) for entry in document["methods"]]
    # A million short references to one large entry would each make its method again. An empty one counts by place.
    entries = list({id(entry) if entry else -place: entry for place, entry in enumerate(entries)}.values())
    named = ((entry.get("name"), entry) for entry in entries)
    listing = listing_of(OpenRpc.name, named, lambda _, entry: _method(entry, document, has_notifications))
    service = ServiceInfo(
        text_of(info.get("title")),
        text_of(info.get("version")),
        text_of(info.get("description")),
        text_of(object_of(info.get("contact")).get("url")),
    )
    return replace(listing, service=service)


def _method(entry: dict[str, Any], document: dict[str, Any], has_notifications: bool) -> Method:
    summary = text_of(entry.get("summary"))
    declared = (_resolve_references(item, document) for item in list_of(entry.get("params")) if isinstance(item, dict))
    structure, parameters = entry.get("paramStructure"), tuple(map(_parameter, declared))
    if structure == Structure.BY_NAME and all(parameter.name for parameter in parameters):
        first = {parameter.name: parameter for parameter in reversed(parameters)}  # another of its name says nothing
        parameters = tuple(parameter for parameter in parameters if first[parameter.name] is parameter)
    result = _resolve_references(entry["result"], document) if "result" in entry else None
    tags = (_resolve_references(tag, document).get("name") for tag in list_of(entry.get("tags")))
    names = [tag for tag in tags if isinstance(tag, str)]
    return Method(
        entry["name"],
        title=summary if len(summary) <= _TITLE_LENGTH and text_of(entry.get("description")) else "",
        description="\n\n".join(_paragraphs(entry, document)),
        parameters=parameters,
        structure=Structure(structure) if structure in _STRUCTURES else Structure.UNKNOWN,
        result=schema_of(result["schema"]) if result and "schema" in result else None,
        notification=result is None and has_notifications,
        root=document,
        endpoint=_endpoint(entry.get("servers")),
        scopes=texts_of(entry.get("x-scopes")),
        meta={"tags": names} if names else {},
        deprecated=entry.get("deprecated") is True,
    )


def _paragraphs(entry: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    """Yield the paragraphs of a tool's description: summary (unless it is the title), description, errors, examples."""
    summary, description = text_of(entry.get("summary")), text_of(entry.get("description"))
    if summary and summary not in description and (len(summary) > _TITLE_LENGTH or not description):
        yield summary
    if description:
        yield description
    errors = [_error(_resolve_references(error, document)) for error in list_of(entry.get("errors"))[:_MOST_ERRORS]]
    if any(errors):
        yield "\n".join(["Errors:", *filter(None, errors)])
    listed = list_of(entry.get("examples"))[:_MOST_EXAMPLES]
    examples = [_example(_resolve_references(one, document), document) for one in listed]
    if any(examples):
        yield "\n".join(["Examples:", *filter(None, examples)])


def _error(error: dict[str, Any]) -> str:
    code, message, data = error.get("code"), text_of(error.get("message"))[:_MOST_READ], error.get("data")
    # fastapi-jsonrpc puts a JSON Schema into ``data``, which does not help a caller.
    more = f": {data[:_MOST_READ]}" if isinstance(data, str) and data else ""
    shown = f"{code} " if type(code) is int else ""
    return excerpt(" ".join(f"{shown}{message}{more}".split()), _LONGEST_LINE)


def _json(value: Any, room: int = _MOST_READ) -> str:
    """Return the JSON of a value, or only its first ``room`` characters and more. Raise :class:`ValueError`."""
    if isinstance(value, str):
        return jsonrpc.encode(value[:room]).decode()
    if not isinstance(value, list | dict):
        return jsonrpc.encode(value).decode()
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    text = opening
    for key in value if isinstance(value, dict) else range(len(value)):
        if len(text) > room:
            break
        text += "" if text == opening else ","
        text += f"{_json(str(key), room)}:" if isinstance(value, dict) else ""
        text += _json(value[key], max(room - len(text), 0))
    return text + closing


def _example(example: dict[str, Any], document: dict[str, Any]) -> str:
    """Return an example as ``arguments → result``; "" for one without params, or with a name that is not a text."""
    params = [_resolve_references(item, document) for item in list_of(example.get("params"))[:_LONGEST_LINE]]
    texts = all(isinstance(item.get("name", ""), str) for item in params)
    if not isinstance(example.get("params"), list) or not texts or not all("value" in item for item in params):
        return ""
    arguments = {text_of(item.get("name")): item["value"] for item in params}
    # The tool gives a heading another name, so the example shows the values in order.
    shown: Any = [item["value"] for item in params] if any(map(is_heading, arguments)) else arguments
    result = _resolve_references(example.get("result"), document)
    try:
        sides = [excerpt(_json(shown), _LONGEST_LINE)]
        sides += [excerpt(_json(result["value"]), _LONGEST_RESULT)] if "value" in result else []
    except ValueError:
        return ""
    return " → ".join(sides)


def _parameter(descriptor: dict[str, Any]) -> Parameter:
    description = text_of(descriptor.get("description")) or text_of(descriptor.get("summary"))
    schema, required = schema_of(descriptor.get("schema")), descriptor.get("required") is True
    return Parameter(text_of(descriptor.get("name")), schema, required, description)


def _resolve_references(item: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Return the object that an item of the document is, or refers to through at most four references within it."""
    for _ in range(4):
        if not isinstance(item, dict) or not isinstance(item.get("$ref"), str):
            break
        item = resolve(document, item["$ref"])
    return object_of(item)


def _endpoint(servers: Any) -> str | None:
    # Neither "//host" nor a full URL: a listing must not send calls, and their credentials, to another host.
    for server in list_of(servers):
        url = object_of(server).get("url")
        if isinstance(url, str) and re.fullmatch(r"/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%/-]*", url):
            return url
    return None


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 0)

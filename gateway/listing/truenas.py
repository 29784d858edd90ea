"""Read TrueNAS's ``core.get_methods``: a map from each method's name to its description and lists of schemas.

Parameters are passed by position. The schema of a parameter has its name as ``_name_`` and whether it is required as
``_required_``; these keywords appear at every level. TrueNAS speaks over a WebSocket.
"""

from functools import partial
from typing import Any, Final

from gateway.listing import entries
from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_listing, listing_of
from gateway.listing.entries import UnusableMethod, list_of, object_of, schema_of, text_of
from gateway.model import Listing, Method, Parameter, Schema, Structure
from gateway.model.schema_keywords import with_schemas

GET_METHODS: Final = "core.get_methods"
_OWN_KEYWORDS: Final = ("_name_", "_required_", "_attrs_order_")
_REMEDY: Final = "leave it out with catalog.exclude"
_JOB: Final = "Starts a job and answers with its id; core.get_jobs reports its progress."


class TrueNas:
    name = "truenas"
    info = DialectInfo(
        spoken_by="TrueNAS, over its WebSocket",
        requests="`core.get_methods`; or `backend.listing.file` with `dialect: static`",
        recognized_by="a map of entries with `accepts[]` and `returns[]`",
        carries=("description", "parameters", "types", "required", "result"),
        params="by position",
        not_carried="Methods that transfer files (`downloadable`, `uploadable`), and in a file those that need a "
        "WebSocket. Roles become annotations: only `…_READ` is `readOnlyHint`.",
        probed=False,
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        missing = "no map of methods with accepts[]"
        parse = partial(parse_listing, is_websocket=source.url.startswith(("ws:", "wss:")))
        return await first_listing([call_question(source, GET_METHODS)], recognizes, missing, parse)


def recognizes(document: Any) -> bool:
    listed = map(object_of, object_of(document).values())
    return any(isinstance(entry.get("accepts"), list) and "returns" in entry for entry in listed)


def parse_listing(document: dict[str, Any], *, is_websocket: bool = False) -> Listing:
    return listing_of(TrueNas.name, document.items(), partial(_method, is_websocket=is_websocket))


def _method(name: str, entry: Any, *, is_websocket: bool) -> Method:
    entry = entries.entry_of(entry)
    for mark in ("downloadable", "uploadable"):
        if entry.get(mark) is True:
            raise UnusableMethod(f"the method is {mark}: it transfers a file besides its JSON", _REMEDY)
    if entry.get("require_websocket") is True and not is_websocket:
        raise UnusableMethod("the method needs a WebSocket", _REMEDY)
    paragraphs = [text_of(entry.get("description")).strip(), _JOB if entry.get("job") is True else ""]
    returns = list_of(entry.get("returns"))
    result = schema_of(_remove_own_keywords(returns[0])) if len(returns) == 1 and entry.get("job") is not True else True
    return Method(
        name,
        description="\n\n".join(filter(None, paragraphs)),
        parameters=tuple(map(_parameter, list_of(entry.get("accepts")))),
        structure=Structure.BY_POSITION,
        result=result,
        annotations=_annotations(entry.get("roles")),
    )


def _parameter(item: Any) -> Parameter:
    marks = object_of(item)
    schema: Schema = schema_of(_remove_own_keywords(item))
    description = text_of(object_of(schema).get("description"))
    return Parameter(text_of(marks.get("_name_")), schema, marks.get("_required_") is True, description)


def _remove_own_keywords(schema: Any) -> Any:
    """Return the schema without TrueNAS's keywords. A property may still have the name of such a keyword."""
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: with_schemas(keyword, content, _remove_own_keywords)
        for keyword, content in schema.items()
        if keyword not in _OWN_KEYWORDS
    }


def _annotations(roles: Any) -> dict[str, Any]:
    names = sorted(entries.texts_of(roles))
    reads = names and all(name.endswith("_READ") for name in names)
    return ({"roles": names} if names else {}) | ({"readOnlyHint": True} if reads else {})

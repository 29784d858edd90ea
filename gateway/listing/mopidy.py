"""Read Mopidy's ``core.describe``: a map from each method's name to its description and parameters.

The fields of the description have the types. ``varargs`` and ``kwargs`` mark Python's ``*args`` and ``**kwargs``.
"""

from dataclasses import replace
from typing import Any, Final

from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_listing, listing_of
from gateway.listing.docstrings import fill_from_docstring
from gateway.listing.entries import entry_of, object_of, text_of
from gateway.model import Listing, Method, Parameter, Structure

DESCRIBE: Final = "core.describe"


class Mopidy:
    name = "mopidy"
    info = DialectInfo(
        spoken_by="Mopidy, and others that answer a map of methods",
        requests="`core.describe`",
        recognized_by="a map with entries that have `params[]`",
        carries=("description", "parameters", "types", "required", "result"),
        params="by name",
        not_carried="`varargs` and `kwargs`. The only types are those in the fields of the description.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        questions = [call_question(source, DESCRIBE)]
        return await first_listing(questions, recognizes, "no map of methods", parse_listing)


def recognizes(document: Any) -> bool:
    # One valid entry is enough. A broken one is quarantined alone.
    return any(isinstance(object_of(entry).get("params"), list) for entry in object_of(document).values())


def parse_listing(document: dict[str, Any]) -> Listing:
    return listing_of(Mopidy.name, document.items(), _method)


def _method(name: str, entry: Any) -> Method:
    entry = entry_of(entry)
    method = Method(name, description=text_of(entry.get("description")).strip())
    if isinstance(entry.get("params"), list):
        declared = map(object_of, entry["params"])
        parameters = tuple(_parameter(item) for item in declared if not _is_variadic(item))
        method = replace(method, parameters=parameters, structure=Structure.EITHER)
    return fill_from_docstring(method)


def _is_variadic(item: dict[str, Any]) -> bool:
    return item.get("varargs") is True or item.get("kwargs") is True


def _parameter(item: dict[str, Any]) -> Parameter:
    optional = "default" in item
    return Parameter(text_of(item.get("name")), {"default": item["default"]} if optional else True, not optional)

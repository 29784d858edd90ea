"""Mopidy's ``core.describe``: a map from a method's name to its description and its parameters. Types are
told by the fields of the description.

A parameter with a ``default`` is optional. ``varargs`` and ``kwargs`` mark what Python collects; neither can be
given by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway.listing.dialect import (
    About,
    ListingSource,
    call_question,
    entry_of,
    first_answer,
    listing_of,
    name_parameters,
    object_of,
    text_of,
)
from gateway.listing.docstrings import fill_from_docstring
from gateway.model import Listing, Method, Parameter, Structure

DESCRIBE: Final = "core.describe"


class Mopidy:
    name = "mopidy"
    about = About(
        of="Mopidy, and others that answer a map of methods",
        asked="`core.describe`",
        recognized="a map with entries that have `params[]`",
        carries=("description", "parameters", "types", "required", "result"),
        passed="by name",
        lost="`varargs` and `kwargs`. Types are those of the description's fields; there are no others.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        return parse_listing(await first_answer([call_question(source, DESCRIBE)], recognizes, "no map of methods"))


def recognizes(document: Any) -> bool:
    return (
        isinstance(document, dict)
        # One sound entry is enough: a broken one beside it is quarantined by itself.
        and any(isinstance(object_of(entry).get("params"), list) for entry in document.values())
    )


def parse_listing(document: dict[str, Any]) -> Listing:
    return listing_of(Mopidy.name, document.items(), _method)


def _method(name: str, entry: Any) -> Method:
    entry = entry_of(entry)
    method = Method(name, Mopidy.name, description=text_of(entry.get("description")).strip())
    if not isinstance(entry.get("params"), list):
        return fill_from_docstring(method)
    declared = [object_of(item) for item in entry["params"]]
    parameters, structure = name_parameters(
        (_parameter(item) for item in declared if not _collects(item)), Structure.EITHER
    )
    return fill_from_docstring(replace(method, parameters=parameters, structure=structure))


def _collects(item: dict[str, Any]) -> bool:
    return item.get("varargs") is True or item.get("kwargs") is True


def _parameter(item: dict[str, Any]) -> Parameter:
    optional = "default" in item
    return Parameter(text_of(item.get("name")), {"default": item["default"]} if optional else True, not optional)

"""A listing in a form of the service's own, read as ``backend.listing.custom`` says: JSONPath (RFC 9535) to the entries
of the methods, and within each to what a method and its parameters have.

What a path does not find stays open, and what it finds of the wrong kind counts as not found; only a method without a
usable name is quarantined.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from gateway.listing.dialect import (
    About,
    ListingSource,
    NoListing,
    Step,
    UnusableMethod,
    call_question,
    first_answer,
    get_question,
    is_heading,
    listing_of,
    name_parameters,
    object_of,
    text_of,
)
from gateway.listing.typewords import schema_of_word
from gateway.model import Listing, Method, Parameter, Schema, SourceAnswer, Structure
from gateway.settings import CustomListing, CustomParameter
from gateway.settings.jsonpath import Path

MOST_METHODS: Final = 20_000
MOST_PARAMETERS: Final = 500
_YES: Final = ("true", "yes", "1")


class Custom:
    name = "custom"
    about = About(
        of="a listing in a form of the service's own",
        asked="`backend.listing.custom.method`; without one, `GET` of `backend.listing.url` or of the endpoint",
        recognized="JSONPath in `backend.listing.custom.methods` finds a named entry",
        carries=("title", "description", "parameters", "types", "required", "result"),
        passed="as `backend.params.structure` says; else by name, or by position where a listed name can be no key",
        lost="What no path names, and scopes. See [listings.md](listings.md#a-listing-of-another-form).",
        probed=False,
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        form = source.custom
        if form.method is None:
            question = get_question(source, source.listing_url or source.url)
        else:
            params = None if form.params is None else form.params.get_secret_value()
            question = call_question(source, form.method, params)
        document = await first_answer([question], lambda found: isinstance(found, dict | list), "no object and no list")
        try:
            # In a thread: paths are slower than code, and a listing may have thousands of entries.
            listing = await asyncio.to_thread(parse_listing, document, form)
        except ValueError as error:
            raise NoListing([Step(question.text, SourceAnswer(f"JSON, but {error}"))]) from None
        if not listing.methods:
            raise NoListing([Step(question.text, SourceAnswer(f"JSON, but {_nothing(listing, form)}"))])
        return listing


def _nothing(listing: Listing, form: CustomListing) -> str:
    """Why there is no method, in the words of the knobs."""
    if not listing.quarantined:
        return f"backend.listing.custom.methods, {form.methods}, finds nothing"
    what = form.name or "absent"
    return f"no name in the {len(listing.quarantined)} entries of {form.methods}: backend.listing.custom.name is {what}"


def parse_listing(document: Any, form: CustomListing) -> Listing:
    """Raises :class:`ValueError` for what is too deep for the paths."""
    root = object_of(document)

    def parse_entry(name: str, entry: Any) -> Method:
        try:
            return _method(name, entry, form, root)
        except ValueError as error:
            raise UnusableMethod(str(error), "name something less deep under backend.listing.custom") from None

    entries = form.methods.find(document, MOST_METHODS + 1) if form.methods else []
    named = [(_name(form.name, key, entry), entry) for key, entry in entries[:MOST_METHODS]]
    listing = listing_of(Custom.name, named, parse_entry)
    names = (name for method in listing.methods for name in (method.name, *(p.name for p in method.parameters or ())))
    listing = replace(listing, by_position=any(map(is_heading, names)))
    if len(entries) > MOST_METHODS:
        return replace(
            listing, notes=(f"{form.methods} finds more than {MOST_METHODS} methods; the others are left out",)
        )
    return listing


def _method(name: str, entry: Any, form: CustomListing, root: dict[str, Any]) -> Method:
    whole = _at(form.input_schema, entry)
    result = schema_of_word(_at(form.result, entry))
    parameters, structure = _parameters(form, entry)
    return Method(
        name,
        Custom.name,
        title=text_of(_at(form.title, entry)),
        description=text_of(_at(form.description, entry)),
        parameters=parameters,
        input_schema=whole if isinstance(whole, dict) else None,
        structure=structure,
        result=None if result is True else result,
        root=root,
    )


def _parameters(form: CustomListing, entry: Any) -> tuple[tuple[Parameter, ...] | None, Structure]:
    if form.parameters is None:
        return None, Structure.UNKNOWN
    found = form.parameters.find(entry, MOST_PARAMETERS + 1)
    if len(found) > MOST_PARAMETERS:
        raise UnusableMethod(f"more than {MOST_PARAMETERS} parameters", "narrow backend.listing.custom.parameters")
    return name_parameters((_parameter(form.parameter, key, item) for key, item in found), Structure.UNKNOWN)


def _parameter(form: CustomParameter, key: str | None, entry: Any) -> Parameter:
    name = text_of(_name(form.name, key, entry))
    required = form.required is not None and _is_yes(_at(form.required, entry))
    if form.optional is not None:
        required = not _is_yes(_at(form.optional, entry))
    return Parameter(name, _schema(form, entry), required, text_of(_at(form.description, entry)))


def _schema(form: CustomParameter, entry: Any) -> Schema:
    declared = _at(form.schema_, entry)
    return declared if isinstance(declared, dict | bool) else schema_of_word(_at(form.type, entry))


def _name(path: Path | None, key: str | None, entry: Any) -> Any:
    if path is None:
        return entry if key is None else key
    try:
        return path.first(entry)
    except ValueError:
        return None


def _at(path: Path | None, entry: Any) -> Any:
    return None if path is None else path.first(entry)


def _is_yes(value: Any) -> bool:
    return value == 1 or (isinstance(value, str) and value.casefold() in _YES)

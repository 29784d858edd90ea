"""Read a listing in the service's own form, with the JSONPath expressions (RFC 9535) of ``backend.listing.custom``.

One path finds the entries of the methods. Within an entry, other paths find the members of the method and its
parameters. A missing value, or one of the wrong type, is left open. Only an entry without a usable name is quarantined.
"""

from dataclasses import replace
from typing import Any, Final

from gateway.concurrency.turns import run_in_thread
from gateway.listing import dialect
from gateway.listing.dialect import DialectInfo, ListingSource, NoListing, Step
from gateway.listing.entries import UnusableMethod, object_of, schema_of_word, text_of
from gateway.model import Listing, Method, Parameter, SourceAnswer
from gateway.settings.custom import CustomListing, CustomParameter, Path

MAX_METHODS: Final = 20_000
MAX_PARAMETERS: Final = 500
_TRUE_WORDS: Final = ("true", "yes", "1")


class Custom:
    name = "custom"
    info = DialectInfo(
        spoken_by="services with a listing in their own form",
        requests="`backend.listing.custom.method`; without one, `GET` of `backend.listing.url` or of the endpoint",
        recognized_by="JSONPath in `backend.listing.custom.methods` finds a named entry",
        carries=("title", "description", "parameters", "types", "required", "result"),
        params="as `backend.params.structure` says; else by name, or by position where a listed name can be no key",
        not_carried="What no path names, and scopes. See [listings.md](listings.md#a-listing-of-another-form).",
        probed=False,
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        form = source.listing.custom
        if form.method is None:
            question = dialect.get_question(source, source.url)
        else:
            params = None if form.params is None else form.params.get_secret_value()
            question = dialect.call_question(source, form.method, params)
        document = await dialect.first_match([question], lambda it: isinstance(it, dict | list), "no object or list")
        try:
            # In a thread: JSONPath is slow, and a listing may have thousands of entries.
            return await run_in_thread(parse_listing, document, form)
        except ValueError as error:
            raise NoListing([Step(question.text, SourceAnswer(f"JSON, but {error}"))]) from None


def _why_empty(listing: Listing, form: CustomListing) -> str:
    """Return why the listing has no method, in terms of the knobs."""
    if not listing.quarantined:
        return f"backend.listing.custom.methods, {form.methods}, finds nothing"
    path = form.name or "absent"
    return f"no name in the {len(listing.quarantined)} entries of {form.methods}: backend.listing.custom.name is {path}"


def parse_listing(document: Any, form: CustomListing) -> Listing:
    """Return the listing in a document. Raise :class:`ValueError` for one without methods, and where it is nested too
    deeply for a path."""
    root = object_of(document)

    def parse_entry(name: str, entry: Any) -> Method:
        try:
            return _method(name, entry, form, root)
        except ValueError as error:
            raise UnusableMethod(str(error), "use less deep paths under backend.listing.custom") from None

    entries = form.methods.find(document, MAX_METHODS + 1) if form.methods else []
    named = [(_name(form.name, key, entry), entry) for key, entry in entries[:MAX_METHODS]]
    listing = dialect.listing_of(Custom.name, named, parse_entry)
    if not listing.methods:
        raise ValueError(_why_empty(listing, form))
    if len(entries) <= MAX_METHODS:
        return listing
    return replace(listing, notes=(f"{form.methods} finds more than {MAX_METHODS} methods; the others are left out",))


def _method(name: str, entry: Any, form: CustomListing, root: dict[str, Any]) -> Method:
    input_schema = _value_at(form.input_schema, entry)
    return Method(
        name,
        title=text_of(_value_at(form.title, entry)),
        description=text_of(_value_at(form.description, entry)),
        parameters=_parameters(form, entry),
        input_schema=input_schema if isinstance(input_schema, dict) else None,
        result=schema_of_word(_value_at(form.result, entry)),
        root=root,
    )


def _parameters(form: CustomListing, entry: Any) -> tuple[Parameter, ...] | None:
    if form.parameters is None:
        return None
    found = form.parameters.find(entry, MAX_PARAMETERS + 1)
    if len(found) > MAX_PARAMETERS:
        raise UnusableMethod(f"more than {MAX_PARAMETERS} parameters", "narrow backend.listing.custom.parameters")
    return tuple(_parameter(form.parameter, key, item) for key, item in found)


def _parameter(form: CustomParameter, key: str | None, entry: Any) -> Parameter:
    name = text_of(_name(form.name, key, entry))
    required = form.required is not None and _is_true(_value_at(form.required, entry))
    if form.optional is not None:
        required = not _is_true(_value_at(form.optional, entry))
    schema = _value_at(form.schema_, entry)
    if not isinstance(schema, dict | bool):
        schema = schema_of_word(_value_at(form.type, entry))
    return Parameter(name, schema, required, text_of(_value_at(form.description, entry)))


def _name(path: Path | None, key: str | None, entry: Any) -> Any:
    """Return the name at the path; without a path, the key of the entry in its object, else the entry itself."""
    if path is None:
        return entry if key is None else key
    try:
        return path.first(entry)
    except ValueError:
        return None


def _value_at(path: Path | None, entry: Any) -> Any:
    return None if path is None else path.first(entry)


def _is_true(value: Any) -> bool:
    # True, 1 and 1.0 are equal in Python.
    return value == 1 or (isinstance(value, str) and value.casefold() in _TRUE_WORDS)

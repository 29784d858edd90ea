"""Answer anything to each dialect: it finds no listing, or one that can be built, in bounded time."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import jsonrpc
from gateway.backend.interview import Interview
from gateway.catalog.build import Builder
from gateway.listing.dialect import NoListing
from gateway.listing.reader import DIALECTS, probe_dialects
from gateway.model import Listing, SourceAnswer
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, CustomListing, ListingSettings, Params
from tests.contract.forms import FORMS
from tests.extent import size
from tests.pace import quickly

VALIDATORS: Final = ValidatorCache()
MANY: Final = 2000
DEEP: Final = 400
PLAIN: Final = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
WORDS: Final = st.sampled_from(
    ["method", "JSON-RPC-2.0", "POST", "GET", "URL", "Number", "str", "nil", "any", "array", "unknown", "object",
     "by-name", "2.0", ".1", "1.3.2", "ReadData", "A_READ", "#/types/a", "a", "/there", "//evil.example", "../up",
     "http://other.example/x", "http://[", "JsonRpcMethod"]
)  # fmt: skip
MEMBERS: Final = st.sampled_from(
    ["name", "type", "params", "parameters", "args", "description", "summary", "help", "title", "returns", "return",
     "result", "required", "optional", "default", "schema", "properties", "items", "extends", "enums", "$ref", "enum",
     "envelope", "transport", "target", "services", "methods", "types", "procs", "sdversion", "SMDVersion", "accepts",
     "_name_", "_required_", "roles", "job", "downloadable", "require_websocket", "varargs", "permission", "idempotent",
     "nullable", "tags", "deprecated", "minimum", "attributes", "usage", "inputSchema", "annotations", "servers", "a"]
)  # fmt: skip
JSON: Final = st.recursive(
    PLAIN | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS | WORDS, inner, max_size=6),
    max_leaves=40,
)
ENTRIES: Final = st.dictionaries(st.text(max_size=6) | WORDS, JSON | st.dictionaries(MEMBERS, JSON), max_size=4)

FORM: Final = {
    "methods": "$.functions.*", "title": "$..title", "description": "$.description", "parameters": "$.params[*]",
    "parameter": {"name": "$.name", "schema": "$.schema", "required": "$..required"}, "result": "$.result",
}  # fmt: skip


class OneAnswer:
    """Give the same answer to every question."""

    url = "http://backend.example/jsonrpc"
    listing = ListingSettings().model_copy(
        update={"file": "methods.json", "custom": CustomListing.model_validate(FORM)}
    )

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.interview = Interview()

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        return self._seen(method)

    async def get_document(self, url: str) -> SourceAnswer:
        return self._seen(url)

    async def read_file(self, file: str) -> bytes:
        return jsonrpc.encode(self._answer)

    def _seen(self, question: str) -> SourceAnswer:
        self.asked.append(question)
        return SourceAnswer("JSON", self._answer, has_value=True)


async def listed(dialect: str, answer: Any) -> Listing | None:
    source = OneAnswer(answer)
    try:
        listing = await DIALECTS[dialect].fetch_listing(source)
    except NoListing:
        return None
    assert all(question.startswith("http://backend.example/") or "://" not in question for question in source.asked)
    assert len(source.asked) <= 8 + 2 * (len(listing.methods) + len(listing.quarantined))
    return listing


async def check_built(listing: Listing) -> None:
    """Assert that every method of a listing becomes a tool or is quarantined."""
    catalog = await Builder(Params(), VALIDATORS).build_catalog(listing, CatalogSettings(exclude=()))
    placed = {tool.method for tool in catalog.tools} | {entry.name for entry in catalog.quarantined}
    assert {method.name for method in listing.methods} <= placed
    for tool in catalog.tools:
        assert tool.input_schema["type"] == "object"
        jsonrpc.encode([tool.input_schema, tool.output_schema, tool.annotations, tool.meta])


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(
    max_examples=size(60, by_day=6), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
async def test_any_answer_is_a_listing_that_can_be_built_or_none(dialect: str, data: st.DataObject) -> None:
    answer = data.draw(JSON | ENTRIES.map(FORMS[dialect].frame))
    listing = await listed(dialect, answer)
    if listing is not None:
        await check_built(listing)


@settings(
    max_examples=size(60, by_day=6), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(answer=st.one_of(JSON, *(ENTRIES.map(form.frame) for form in FORMS.values())))
async def test_probing_takes_any_answer_for_a_listing_or_for_none(answer: Any) -> None:
    source = OneAnswer(answer)
    try:
        listing = await probe_dialects(source)
    except NoListing:
        return
    assert DIALECTS[listing.dialect].info.probed


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_deep_entry_takes_no_other_down(dialect: str) -> None:
    deep: Any = {"type": "string"}
    for _ in range(DEEP):
        deep = {"name": "x", "type": "Object", "properties": {"x": deep}}
    entries = {"good": {"params": []}, "deep": {"params": [deep], "returns": deep, "result": deep}}
    listing = await listed(dialect, FORMS[dialect].frame(entries))
    if listing is not None:
        await check_built(listing)
        # In TrueNAS's frame each entry repeats the last one, so the deep one is in both.
        left_out = {entry.name for entry in listing.quarantined}
        assert left_out <= ({"good", "deep"} if dialect == "truenas" else {"deep"})


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_thousands_of_entries_are_read_quickly(dialect: str) -> None:
    entry = {"params": [{"name": "a", "type": "string", "required": True}], "description": "One of many."}
    # The frame of ubus has as many members as the square of the entries.
    size = 40 if dialect == "ubus" else MANY
    answer = FORMS[dialect].frame({f"method.{number}": dict(entry) for number in range(size)})
    with quickly(4.0):
        listing = await listed(dialect, answer)
    assert dialect == "static" or (listing is not None and len(listing.methods) >= size)

"""Test the tools that come of listings in every dialect.

``listings/<dialect>/*.json`` are handwritten answers of a backend, by question. ``*.tools.json`` beside each are the
expected tools. ``FILE …`` is a listing file, ``CUSTOM`` the value of ``backend.listing.custom``, and ``URL`` where the
service is, if not over HTTP. To write the expected tools again and review them as a diff::

    UPDATE_LISTINGS=1 python -m pytest tests/contract/test_dialects.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from gateway.backend.interview import Interview
from gateway.catalog.build import Builder
from gateway.listing.dialect import NoListing
from gateway.listing.reader import DIALECTS, probe_dialects
from gateway.model import NOT_ASKED, Catalog, Listing, SourceAnswer, Tool
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, CustomListing, ListingSettings, Params
from tests.each import each

LISTINGS: Final = Path(__file__).parent / "listings"
CASES: Final = sorted(path for path in LISTINGS.glob("*/*.json") if not path.name.endswith(".tools.json"))
UPDATE: Final = bool(os.environ.get("UPDATE_LISTINGS"))
GOOD: Final = ("good.one", "good.two")
LONG: Final = "n" * 10_000


class Answers:
    """Give the answers of a case, by question, and no others. ``asked`` has the questions in order."""

    url = "http://backend.example/api/jsonrpc"

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.url = answers.get("URL", self.url)
        custom = CustomListing.model_validate(answers.get("CUSTOM", {}))
        self.listing = ListingSettings().model_copy(update={"file": "methods.yaml", "custom": custom})
        self.asked: list[str] = []
        self.interview = Interview()

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        return self._answer(" ".join([method, *(params or ())]))

    async def get_document(self, url: str) -> SourceAnswer:
        if not self.url.startswith("http"):
            return NOT_ASKED
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}" == "http://backend.example", "the listing led to another host"
        return self._answer(f"GET {parts.path}" + (f"?{parts.query}" if parts.query else ""))

    async def read_file(self, file: str) -> bytes:
        return json.dumps(self._answers[f"FILE {file}"]).encode()

    def _answer(self, question: str) -> SourceAnswer:
        self.asked.append(question)
        if question in self._answers:
            return SourceAnswer("JSON", self._answers[question], has_value=True)
        return SourceAnswer("HTTP 404, text/html")


async def fetched(dialect: str, answers: dict[str, Any]) -> Listing:
    return await DIALECTS[dialect].fetch_listing(Answers(answers))


async def built(listing: Listing) -> Catalog:
    return await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings())


def shown(tool: Tool) -> dict[str, Any]:
    binding = tool.binding
    return {
        "name": tool.name,
        "method": tool.method,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "_meta": tool.meta,
        "scopes": sorted(tool.scopes),
        "auth": tool.auth_level,
        "call": {
            "structure": str(binding.structure),
            "order": list(binding.order),
            "spread": binding.spread_argument,
            "defaults": binding.gap_values,
            "declares_parameters": binding.declares_parameters,
            "closed": tool.closed,
            "notification": binding.notification,
            "endpoint": binding.endpoint,
        }
        | ({} if binding.method == tool.method else {"sent_as": binding.method}),
    }


def summary(listing: Listing, catalog: Catalog) -> dict[str, Any]:
    service = catalog.service
    more = {"description": service.description, "website": service.website}
    return {
        "title": service.title,
        "version": service.version,
        **{name: text for name, text in more.items() if text},
        "tools": [shown(tool) for tool in catalog.tools],
        "quarantined": [[entry.name, entry.pointer, entry.reason] for entry in catalog.quarantined],
        "notes": list(catalog.notes),
    }


def answers_of(case: Path) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(case.read_text())
    return answers


def expected_of(case: Path, made: Any) -> Any:
    """Return the expected tools of a case. With ``UPDATE_LISTINGS``, write what was made first."""
    file = case.with_suffix(".tools.json")
    if UPDATE:
        file.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    return json.loads(file.read_text())


def name_of(case: Path) -> str:
    return f"{case.parent.name}/{case.stem}"


@each("case", CASES, ids=name_of)
async def test_a_listing_becomes_the_expected_tools(case: Path) -> None:
    listing = await fetched(case.parent.name, answers_of(case))
    made = json.loads(json.dumps(summary(listing, await built(listing))))
    assert made == expected_of(case, made)


PROBED: Final = [case for case in CASES if DIALECTS[case.parent.name].info.probed]


@each("case", PROBED, ids=name_of)
async def test_probing_finds_the_same_listing_and_sends_no_params_until_it_has(case: Path) -> None:
    source = Answers(answers_of(case))
    assert await probe_dialects(source) == await fetched(case.parent.name, answers_of(case))
    questions = [question for question in source.asked if not question.startswith("GET ")]
    afterwards = ("system.method", "JSONRPC.Introspect get", "help ", "get_schema ")
    assert all(" " not in question or question.startswith(afterwards) for question in questions)


@each("case", [case for case in CASES if case not in PROBED], ids=name_of)
async def test_what_needs_params_or_a_file_is_not_probed(case: Path) -> None:
    source = Answers(answers_of(case))
    with pytest.raises(NoListing):
        await probe_dialects(source)
    assert not [question for question in source.asked if " " in question and not question.startswith("GET ")]


def test_every_dialect_has_listings() -> None:
    assert {case.parent.name for case in CASES} == DIALECTS.keys()
    orphans = set(LISTINGS.glob("*/*.tools.json")) - {case.with_suffix(".tools.json") for case in CASES}
    assert not orphans

"""What every dialect makes of a listing.

``listings/<dialect>/*.json`` are hand-made answers of a backend by question; beside each, in ``*.tools.json``, are the
tools that are expected. ``FILE …`` is a listing file, ``CUSTOM`` what ``backend.listing.custom`` says. To write the
expected ones anew and review them as a diff::

    UPDATE_LISTINGS=1 python -m pytest tests/contract/test_dialects.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from gateway.catalog.build import Builder
from gateway.catalog.validation import Validators
from gateway.listing.dialect import NoListing
from gateway.listing.probe import DIALECTS, probe
from gateway.model import Catalog, Listing, Seen, Tool
from gateway.settings import CatalogSettings, CustomListing, Params

LISTINGS: Final = Path(__file__).parent / "listings"
CASES: Final = sorted(path for path in LISTINGS.glob("*/*.json") if not path.name.endswith(".tools.json"))
UPDATE: Final = bool(os.environ.get("UPDATE_LISTINGS"))
GOOD: Final = ("good.one", "good.two")
LONG: Final = "n" * 10_000


class Answers:
    """A backend that has these answers and no others. ``asked`` keeps the questions in order."""

    url = "http://backend.example/api/jsonrpc"
    base = "http://backend.example/api"
    origin = "http://backend.example"
    place = None
    file = "methods.yaml"

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.custom = CustomListing.model_validate(answers.get("CUSTOM", {}))
        self.asked: list[str] = []

    async def call(self, method: str, params: Any = None) -> Seen:
        return self._answer(" ".join([method, *(params or ())]))

    async def get(self, url: str) -> Seen:
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}" == self.origin, "the listing led elsewhere"
        return self._answer(f"GET {parts.path}" + (f"?{parts.query}" if parts.query else ""))

    async def read(self, file: str) -> bytes:
        return json.dumps(self._answers[f"FILE {file}"]).encode()

    def _answer(self, question: str) -> Seen:
        self.asked.append(question)
        if question in self._answers:
            return Seen("JSON", self._answers[question], found=True)
        return Seen("HTTP 404, text/html")


async def fetched(dialect: str, answers: dict[str, Any]) -> Listing:
    return await DIALECTS[dialect].fetch(Answers(answers))


async def built(listing: Listing) -> Catalog:
    return await Builder(Params(), Validators(), clock=lambda: 0.0).build(listing, CatalogSettings())


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
            "spread": binding.spread,
            "defaults": binding.defaults,
            "declares_parameters": binding.declares_parameters,
            "notification": binding.notification,
            "endpoint": binding.endpoint,
        }
        | ({} if binding.method == tool.method else {"sent_as": binding.method}),
    }


def summary(listing: Listing, catalog: Catalog) -> dict[str, Any]:
    return {
        "title": listing.title,
        "version": listing.version,
        "tools": [shown(tool) for tool in catalog.tools],
        "quarantined": [[entry.name, entry.pointer, entry.reason] for entry in catalog.quarantined],
        "notes": list(catalog.notes),
    }


def answers_of(case: Path) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(case.read_text())
    return answers


def expected_of(case: Path, made: Any) -> Any:
    """What is expected of a case; where it is to be written anew, what was made."""
    file = case.with_suffix(".tools.json")
    if UPDATE:
        file.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    return json.loads(file.read_text())


def name_of(case: Path) -> str:
    return f"{case.parent.name}/{case.stem}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
async def test_a_listing_becomes_the_expected_tools(case: Path) -> None:
    listing = await fetched(case.parent.name, answers_of(case))
    made = json.loads(json.dumps(summary(listing, await built(listing))))
    assert made == expected_of(case, made)


PROBED: Final = [case for case in CASES if DIALECTS[case.parent.name].about.probed]


@pytest.mark.parametrize("case", PROBED, ids=name_of)
async def test_probing_finds_the_same_listing_and_sends_no_params_until_it_has(case: Path) -> None:
    source = Answers(answers_of(case))
    assert await probe(source) == await fetched(case.parent.name, answers_of(case))
    questions = [question for question in source.asked if not question.startswith("GET ")]
    afterwards = ("system.method", "JSONRPC.Introspect get")
    assert all(" " not in question or question.startswith(afterwards) for question in questions)


@pytest.mark.parametrize("case", [case for case in CASES if case not in PROBED], ids=name_of)
async def test_what_needs_params_or_a_file_is_not_probed(case: Path) -> None:
    source = Answers(answers_of(case))
    with pytest.raises(NoListing):
        await probe(source)
    assert not [question for question in source.asked if " " in question and not question.startswith("GET ")]


def test_every_dialect_has_listings() -> None:
    assert {case.parent.name for case in CASES} == DIALECTS.keys()
    orphans = set(LISTINGS.glob("*/*.tools.json")) - {case.with_suffix(".tools.json") for case in CASES}
    assert not orphans


# --- hostile entries ------------------------------------------------------------------------------------------

Wrap = Callable[[list[Any]], dict[str, Any]]


def _drupal(name: Any, **members: Any) -> dict[str, Any]:
    parameter = {"a": {"attributes": {"required": True}, "schema": {"type": "string"}}}
    return {"type": "JsonRpcMethod", "id": name, "attributes": {"usage": "Good.", "params": parameter}} | members


def _mcp(name: Any, **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": {"a": {}}}, "annotations": {}} | members


def _openrpc(name: Any, **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "params": [{"name": "a", "schema": {}}],
        "result": {"name": "r", "schema": {}},
        "tags": [],
        "servers": [],
        "x-scopes": [],
        "paramStructure": "by-name",
        "summary": "Good.",
        "deprecated": False,
    } | members


ENVELOPES: Final[dict[str, Wrap]] = {
    "drupal": lambda entries: {"GET /api/jsonrpc/methods": {"data": entries, "links": {}}},
    "jsonrpc_mcp": lambda entries: {"GET /api/mcp/tools/list": {"tools": entries}},
    "openrpc": lambda entries: {"rpc.discover": {"openrpc": "1.2.6", "methods": entries}},
    "introspection": lambda entries: {"system.listMethods": entries},
    "smd": lambda entries: {"GET /api/jsonrpc": {"SMDVersion": ".1", "methods": entries}},
    "describe": lambda entries: {"system.describe": {"procs": entries}},
    "plain": lambda entries: {"GET /api/jsonrpc/methods": {"methods": entries}},
}
ENTRIES: Final[dict[str, Callable[..., Any]]] = {
    "drupal": _drupal,
    "jsonrpc_mcp": _mcp,
    "openrpc": _openrpc,
    "introspection": lambda name: name,
    "smd": lambda name, **members: {"name": name, "parameters": [{"name": "a"}], "returns": "", "target": ""} | members,
    "describe": lambda name, **members: {"name": name, "params": ["a"], "return": "num", "summary": "Good."} | members,
    "plain": lambda name, **members: {"name": name, "params": {"a": "int"}, "returns": {}, "title": "Good"} | members,
}
HOSTILE: Final = [
    None,
    True,
    0,
    1.5,
    2**70,
    "",
    "text",
    [],
    [None],
    [[]],
    [1, "x", {}],
    {},
    {"": None},
    LONG,
    {"a": LONG},
]


def label(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 30 else f"{text[:20]}…"


def surrounded(dialect: str, *hostile: Any) -> dict[str, Any]:
    first, second = (ENTRIES[dialect](name) for name in GOOD)
    return ENVELOPES[dialect]([first, *hostile, second])


def survivors(catalog: Catalog) -> set[str]:
    return {tool.method for tool in catalog.tools} & set(GOOD)


@pytest.mark.parametrize("dialect", ENVELOPES)
@pytest.mark.parametrize("entry", HOSTILE, ids=label)
async def test_beside_a_hostile_entry_the_good_ones_survive(dialect: str, entry: Any) -> None:
    catalog = await built(await fetched(dialect, surrounded(dialect, entry)))
    assert survivors(catalog) == set(GOOD)
    assert all(len(tool.name) <= 128 for tool in catalog.tools)


@pytest.mark.parametrize("dialect", ENVELOPES)
@pytest.mark.parametrize("name", [None, 5, "", [], {}, LONG, "a\r\nb", "\u202e", "../..", "good.one"], ids=label)
async def test_a_hostile_name_is_quarantined_or_made_valid(dialect: str, name: Any) -> None:
    catalog = await built(await fetched(dialect, surrounded(dialect, ENTRIES[dialect](name))))
    assert survivors(catalog) == set(GOOD)
    assert len(catalog.tools) == len(set(catalog.names))
    if name in (None, 5, "", [], {}, LONG):
        (entry,) = catalog.quarantined
        assert "no usable method name" in entry.reason
        assert len(entry.name) < 50


MEMBERS: Final = [
    (dialect, member) for dialect, make in ENTRIES.items() if dialect != "introspection" for member in make("x")
]


@pytest.mark.parametrize(("dialect", "member"), MEMBERS)
async def test_a_member_may_be_anything_and_the_others_survive(dialect: str, member: str) -> None:
    entries = [{**ENTRIES[dialect](f"bad.{number}"), member: value} for number, value in enumerate(HOSTILE)]
    listing = await fetched(dialect, surrounded(dialect, *entries))
    catalog = await built(listing)
    assert survivors(catalog) == set(GOOD)
    noted = len(catalog.notes) - len(listing.notes)
    assert len(catalog.tools) + len(catalog.quarantined) + noted == len(HOSTILE) + len(GOOD)


@pytest.mark.parametrize("answer", HOSTILE, ids=label)
@pytest.mark.parametrize("question", ["system.methodSignature", "system.methodHelp"])
async def test_an_introspection_may_answer_anything_about_a_method(question: str, answer: Any) -> None:
    answers = {"system.listMethods": [*GOOD, question], f"{question} {GOOD[0]}": answer}
    assert survivors(await built(await fetched("introspection", answers))) == set(GOOD)


NO_LISTING: Final = [document for document in HOSTILE if document != [1, "x", {}]]  # that one names a method


@pytest.mark.parametrize("dialect", ENVELOPES)
@pytest.mark.parametrize("document", NO_LISTING, ids=label)
async def test_a_document_that_is_no_listing_is_refused_with_what_was_asked(dialect: str, document: Any) -> None:
    (question,) = ENVELOPES[dialect]([])
    with pytest.raises(NoListing, match=question.removeprefix("GET /api/")) as caught:
        await fetched(dialect, {question: document})
    assert "JSON, but" in str(caught.value)
    assert not caught.value.denied
    assert not caught.value.unreachable


@pytest.mark.parametrize("document", [entry for entry in HOSTILE if entry != {}], ids=label)
async def test_a_file_with_a_fault_is_refused_as_a_whole_and_says_where(document: Any) -> None:
    wrong = (
        {"FILE methods.yaml": document},
        {"FILE methods.yaml": {"methods": {"good": {}, "bad": {"params": {"a": [document]}}}}},
    )
    for answers in wrong:
        with pytest.raises(NoListing) as caught:
            await fetched("static", answers)
        assert "methods.yaml" in str(caught.value)


class RawFile(Answers):
    """A file with these bytes."""

    def __init__(self, content: bytes) -> None:
        super().__init__({})
        self._content = content

    async def read(self, file: str) -> bytes:
        return self._content


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\xff", b"a: [", b"{" * 3000, b"[" * 5000, b"methods: {1: {}}", b"methods: {a: {params: {on: {}}}}",
     b"a: &a [*a]", b"!!python/object/apply:os.system [id]", b"methods: {a: {endpoint: //evil.example/x}}", b"\x00"],
)  # fmt: skip
async def test_a_file_that_cannot_be_read_is_no_listing(content: bytes) -> None:
    with pytest.raises(NoListing, match=r"methods\.yaml"):
        await DIALECTS["static"].fetch(RawFile(content))


async def test_a_file_that_is_not_there_is_no_listing() -> None:
    class Absent(Answers):
        async def read(self, file: str) -> bytes:
            raise FileNotFoundError(2, "No such file or directory")

    with pytest.raises(NoListing, match=r"methods\.yaml: No such file"):
        await DIALECTS["static"].fetch(Absent({}))

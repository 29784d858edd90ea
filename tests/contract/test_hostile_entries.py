"""Put hostile values into the listings of every dialect: the valid entries beside them stay."""

from __future__ import annotations

import copy
import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

import gateway.listing
from gateway.listing.dialect import DialectInfo, NoListing
from gateway.listing.reader import DIALECTS
from gateway.model import Catalog
from tests.contract.forms import FORMS, label
from tests.contract.test_dialects import CASES, Answers, answers_of, built, fetched, name_of
from tests.each import each
from tests.extent import part

GOOD: Final = ("good.one", "good.two")
LONG: Final = "n" * 10_000
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
NAMES: Final = [None, 5, "", [], {}, LONG, "a\r\nb", "\u202e", "../..", "good.one"]
WITHOUT_MEMBERS: Final = ("introspection", "help", "ovsdb", "ubus")
"""Dialects whose entries are names, lines, or maps from names to types."""


def surrounded(dialect: str, *hostile: Any) -> dict[str, Any]:
    first, second = (FORMS[dialect].named(name) for name in GOOD)
    return FORMS[dialect].answers([first, *hostile, second])


def beside(dialect: str, *entries: Any) -> list[Any]:
    """Return the entries as ``answers`` of the dialect takes them, with a name for each where names are keys."""
    return [(f"bad.{number}", entry) for number, entry in enumerate(entries)] if FORMS[dialect].keyed else [*entries]


def survivors(catalog: Catalog) -> set[str]:
    return {tool.method for tool in catalog.tools} & set(GOOD)


def test_every_dialect_is_known_to_the_probe() -> None:
    written = set()
    for module in pkgutil.iter_modules(gateway.listing.__path__, "gateway.listing."):
        for made in vars(importlib.import_module(module.name)).values():
            if isinstance(made, type) and isinstance(getattr(made, "info", None), DialectInfo):
                written.add(made.name)
    missing = written - DIALECTS.keys()
    assert not missing, f"add {sorted(missing)} to gateway/listing/reader.py"


def test_every_dialect_has_a_form_for_what_follows() -> None:
    missing = DIALECTS.keys() - FORMS.keys()
    assert not missing, f"add a row for {sorted(missing)} to FORMS in tests/contract/forms.py"


@pytest.mark.parametrize("dialect", DIALECTS)
@each("entry", HOSTILE, ids=label)
async def test_beside_a_hostile_entry_the_good_ones_survive(dialect: str, entry: Any) -> None:
    catalog = await built(await fetched(dialect, surrounded(dialect, *beside(dialect, entry))))
    assert survivors(catalog) == set(GOOD)
    assert all(len(tool.name) <= 128 for tool in catalog.tools)


@each(
    ("dialect", "name"),
    [(dialect, name) for dialect in DIALECTS for name in NAMES if isinstance(name, str) or not FORMS[dialect].keyed],
    ids=label,
)
async def test_a_hostile_name_is_quarantined_or_made_valid(dialect: str, name: Any) -> None:
    catalog = await built(await fetched(dialect, surrounded(dialect, FORMS[dialect].named(name))))
    assert survivors(catalog) == set(GOOD)
    assert len(catalog.tools) == len(set(catalog.names))
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in catalog.names)
    if name in (None, 5, "", [], {}, LONG):
        (entry,) = catalog.quarantined
        assert "no usable method name" in entry.reason
        assert len(entry.name) < 50


MEMBERS: Final = [
    (dialect, member) for dialect in DIALECTS if dialect not in WITHOUT_MEMBERS for member in FORMS[dialect].entry("x")
]


@each(("dialect", "member"), MEMBERS)
async def test_a_member_may_be_anything_and_the_others_survive(dialect: str, member: str) -> None:
    entries = [{**FORMS[dialect].entry(f"bad.{number}"), member: value} for number, value in enumerate(HOSTILE)]
    listing = await fetched(dialect, surrounded(dialect, *beside(dialect, *entries)))
    catalog = await built(listing)
    assert survivors(catalog) == set(GOOD)
    noted = len(catalog.notes) - len(listing.notes)
    assert len(catalog.tools) + len(catalog.quarantined) + noted == len(HOSTILE) + len(GOOD)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member and element within a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


@pytest.mark.parametrize("case", CASES, ids=name_of)
async def test_whatever_stands_in_one_place_of_a_listing_no_dialect_raises(case: Any) -> None:
    answers = answers_of(case)
    asked = {question: answers[question] for question in answers if question != "CUSTOM"}
    for place, value in part([*itertools.product(places(asked), (None, 2**70, "", [[]], {"": None}))]):
        changed = copy.deepcopy(answers)
        parent: Any = changed
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = value
        with suppress(NoListing):
            await built(await fetched(case.parent.name, changed))


@each("answer", HOSTILE, ids=label)
@pytest.mark.parametrize("question", ["system.methodSignature", "system.methodHelp"])
async def test_an_introspection_may_answer_anything_about_a_method(question: str, answer: Any) -> None:
    answers = {"system.listMethods": [*GOOD, question], f"{question} {GOOD[0]}": answer}
    assert survivors(await built(await fetched("introspection", answers))) == set(GOOD)


NO_LISTING: Final = [document for document in HOSTILE if document != [1, "x", {}]]  # "x" is a method's name


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "static"])
@each("document", NO_LISTING, ids=label)
async def test_a_document_that_is_no_listing_is_refused_with_what_was_asked(dialect: str, document: Any) -> None:
    answers = FORMS[dialect].answers([])
    (question,) = answers.keys() - {"CUSTOM"}
    with pytest.raises(NoListing, match=question.removeprefix("GET /api/")) as caught:
        await fetched(dialect, answers | {question: document})
    assert "JSON, but" in str(caught.value)
    assert not caught.value.denied
    assert not caught.value.unreachable


@each("document", [entry for entry in HOSTILE if entry != {}], ids=label)
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
    """Give a file with these bytes."""

    def __init__(self, content: bytes) -> None:
        super().__init__({})
        self._content = content

    async def read_file(self, file: str) -> bytes:
        return self._content


@each(
    "content",
    [b"", b"\xff\xfe\xff", b"a: [", b"{" * 3000, b"[" * 5000, b"methods: {1: {}}", b"methods: {a: {params: {on: {}}}}",
     b"a: !!int x", b"a: !!bool x", b"a: !!timestamp x", b"a: " + b"9" * 5000, b"a: &a [*a]",
     b"!!python/object/apply:os.system [id]", b"methods: {a: {endpoint: //evil.example/x}}", b"\x00"],
)  # fmt: skip
async def test_a_file_that_cannot_be_read_is_no_listing(content: bytes) -> None:
    with pytest.raises(NoListing, match=r"methods\.yaml"):
        await DIALECTS["static"].fetch_listing(RawFile(content))


async def test_a_file_that_is_not_there_is_no_listing() -> None:
    class Absent(Answers):
        async def read_file(self, file: str) -> bytes:
            raise FileNotFoundError(2, "No such file or directory")

    with pytest.raises(NoListing, match=r"methods\.yaml: No such file"):
        await DIALECTS["static"].fetch_listing(Absent({}))

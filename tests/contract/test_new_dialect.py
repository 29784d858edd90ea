"""Run the code of docs/new-dialect.md: it works and does what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from gateway.listing.dialect import Dialect, NoListing
from gateway.listing.reader import DIALECTS
from gateway.model import Catalog
from tests.contract.forms import Form, label
from tests.contract.test_dialects import Answers, built
from tests.contract.test_hostile_entries import HOSTILE
from tests.each import each

PAGE: Final = (Path(__file__).parents[2] / "docs" / "new-dialect.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def block(language: str) -> str:
    return blocks(language)[0]


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the name, the arguments and the required arguments of each tool in the page's table."""
    for tool, arguments, required in re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE):
        yield tool, *([name.strip() for name in names.split(",") if name.strip()] for names in (arguments, required))


@pytest.fixture(scope="module")
def dialect() -> Dialect:
    module = ModuleType("bitcoin")
    exec(compile(block("python"), "docs/new-dialect.md", "exec"), module.__dict__)
    made: Dialect = module.Bitcoin()
    return made


async def catalog_of(dialect: Dialect, answers: dict[str, Any]) -> Catalog:
    return await built(await dialect.fetch_listing(Answers(answers)))


async def test_the_example_makes_the_tools_that_the_page_says(dialect: Dialect) -> None:
    catalog = await catalog_of(dialect, json.loads(block("json")))
    made = [
        (tool.name, list(tool.input_schema["properties"]), list(tool.input_schema.get("required", ())))
        for tool in catalog.tools
    ]
    assert made == list(rows())
    assert [entry.name for entry in catalog.quarantined] == ["stop"]
    assert catalog.dialect == dialect.name == "bitcoin"


async def test_the_answer_that_the_page_shows_is_read(dialect: Dialect) -> None:
    catalog = await catalog_of(dialect, {"help": block("text")})
    shown = {tool.name: tool.input_schema["properties"] for tool in catalog.tools}
    assert shown["gettxout"] == {"txid": {"type": "string"}, "n": {}, "include_mempool": {}}
    assert list(shown) == ["createrawtransaction", "getblock", "getblockcount", "gettxout"]


@each("document", [*HOSTILE, "== \n", "== A ==\n\n"], ids=label)
async def test_the_example_takes_nothing_else_for_a_listing(dialect: Dialect, document: Any) -> None:
    try:
        assert not (await dialect.fetch_listing(Answers({"help": document}))).methods
    except NoListing:
        assert document != "== A ==\n\n"


@each("entry", HOSTILE, ids=label)
async def test_the_row_of_the_page_puts_hostile_entries_among_sound_ones(dialect: Dialect, entry: Any) -> None:
    form: Form = eval("{" + blocks("python")[1] + "}", {"Form": Form})["bitcoin"]
    catalog = await catalog_of(dialect, form.answers([form.entry("good1"), entry, form.entry("good2")]))
    assert {"good1", "good2"} <= set(catalog.names)


def test_the_example_is_no_dialect_yet_and_the_page_says_how_it_would_become_one(dialect: Dialect) -> None:
    assert dialect.name not in DIALECTS
    places = ("gateway/listing/reader.py", "gateway/settings/backend.py", "tests/contract/forms.py")
    for place in (*places, "tests/contract/test_dialects.py", "tests/contract/test_hostile_entries.py"):
        assert place in PAGE
        assert (Path(__file__).parents[2] / place).is_file()

"""What `make reach` counts, when it fails, and the form of its table in docs/reach.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.catalog.build import Builder
from gateway.mcp.modern import PROJECTOR
from gateway.model import Listing, Method, Parameter, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from lab.reach.__main__ import PAGE, written
from lab.reach.measure import CLASSES, Measured, count_types
from lab.reach.socket_rows import ALL
from lab.reach.table import BEGIN, END, missed, summary, table, with_table

GOOD: Final = Measured("good (PyPI)", "1", "URL alone", tools=2, typed=3, arguments=4, right=106, made=106)
ROW: Final = re.compile(r"^\| (.+) \| (\S+) \| (.+) \| (\d+) \| (\d+) of (\d+) \| (\d+) of (\d+) \|$", re.MULTILINE)


async def tools_of(*methods: Method) -> dict[str, Any]:
    """The input schemas of the tools that come of these methods, as MCP lists them."""
    builder = Builder(Params(), ValidatorCache())
    catalog = await builder.build_catalog(Listing("static", methods), CatalogSettings())
    return {tool.name: PROJECTOR.project(tool) for tool in catalog.tools}


async def test_arguments_with_a_type_are_counted_and_unknown_params_are_one_without() -> None:
    parameters = (Parameter("a", {"type": "integer"}), Parameter("b", True), Parameter("c", {"enum": [1]}))
    known = Method("known", parameters=parameters)
    by_position = Method("list", parameters=None, structure=Structure.BY_POSITION)
    either = Method("either", parameters=None, structure=Structure.UNKNOWN)
    none = Method("none", parameters=())
    assert count_types(await tools_of(known)) == (2, 3)
    assert count_types(await tools_of(by_position, either)) == (0, 2)
    assert count_types(await tools_of(none)) == (0, 0)


def test_all_targets_are_met_by_good_services() -> None:
    assert list(missed([GOOD] * 16)) == []
    assert not replace(GOOD, typed=1).is_typed
    assert not replace(GOOD, tools=0).is_typed


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD] * 15, "15 services, and not at least 16"),
        ([GOOD] * 14 + [replace(GOOD, kind="file")] * 2, "14 of 16 need no file"),
        ([GOOD] * 7 + [replace(GOOD, typed=0)] * 9, "7 of 16 are typed from the URL alone"),
        ([GOOD] * 7 + [replace(GOOD, kind="one hint")] * 9, "7 of 16 are typed from the URL alone"),
        ([GOOD] * 19 + [replace(GOOD, right=105)], "good (PyPI): 105 of 106 calls right"),
        ([GOOD] * 19 + [replace(GOOD, right=0, made=0)], "good (PyPI): 0 of 0 calls right"),
        ([GOOD] * 19 + [Measured("gone (npm)", "?", "no")], "gone (npm) cannot be used"),
    ],
)
def test_each_missed_target_is_said(rows: list[Measured], said: str) -> None:
    (sentence,) = missed(rows)
    assert said in sentence


def test_appliances_and_mistakes_have_to_be_right_and_do_not_count_in_the_shares() -> None:
    appliance, mistake = replace(GOOD, kind="appliance", service="box"), replace(GOOD, kind="mistake", typed=0)
    assert list(missed([GOOD] * 16 + [appliance, mistake] * 9)) == []
    assert list(missed([GOOD] * 16 + [replace(appliance, right=5)])) == ["box: 5 of 106 calls right"]
    assert list(missed([GOOD] * 15 + [appliance] * 9)) == ["15 services, and not at least 16"]


def test_a_new_table_takes_the_place_of_the_old_one_and_of_nothing_else() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = with_table(page, table([GOOD]))
    assert once.startswith(f"before\n{BEGIN}\n\n| service |")
    assert once.endswith(f"\n\n{END}\nafter\n")
    assert "old" not in once
    assert with_table(once, table([GOOD])) == once
    with pytest.raises(ValueError, match="make reach"):
        with_table("a page without a place", "table")


def test_the_page_stays_as_it_is_where_a_target_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "reach.md"
    page.write_text(f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n")
    assert written([GOOD] * 19 + [Measured("gone (npm)", "?", "no")], page) == 1
    assert page.read_text() == f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n"
    assert "missed: gone (npm) cannot be used" in capsys.readouterr().out
    assert written([GOOD] * 20, page) == 0
    assert page.read_text() == f"before\n{BEGIN}\n\n{table([GOOD] * 20)}\n\n{END}\nafter\n"
    assert capsys.readouterr().out == ""


def test_the_page_shows_every_service_that_is_measured_and_meets_the_targets() -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [
        Measured(name, version, kind, int(tools), int(typed), int(arguments), int(right), int(made))
        for name, version, kind, tools, typed, arguments, right, made in ROW.findall(shown)
    ]
    assert [row.service for row in rows] == [row.service for row in ALL]
    assert {row.kind for row in rows} <= set(CLASSES)
    assert list(missed(rows)) == []
    assert shown.strip() == table(rows)
    assert summary(rows) in shown

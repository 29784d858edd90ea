"""What would let agents succeed more often, and YAML that mends it when it is pasted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from gateway.catalog.advice import MAX_TEXT, advise, tokens_of
from gateway.catalog.build import Builder
from gateway.config.source import load_settings
from gateway.model import Catalog, Listing, Method, NameStyle, Parameter, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params, ServiceSettings
from tests.each import each

Row = dict[str, Any]


def method(name: str, description: str = "", **members: Any) -> Method:
    return Method(name, description=description or f"Does {name}.", **{"structure": Structure.EITHER} | members)


ARGS: Final = tuple(Parameter(f"arg{place}") for place in range(3))
LONG: Final = "Says a lot, and ${more}. " * 60
ROWS: Final = {
    "parameters without names": [
        method("add", parameters=ARGS),
        method("run", parameters=None, structure=Structure.UNKNOWN),
    ],
    "no description": [method("core.getItem", " "), method("core.setItem", "core.setItem")],
    "can do harm": [method("sendpayment"), method("drop", annotations={"destructiveHint": True})],
    "hard to tell": [
        method(name, text) for name, text in (("a", "Same text."), ("b", "Same  text."), ("c", "SAME text."))
    ],
    "over 1,024 bytes": [method("tell", LONG), method("ask", "\u00e4" * 513)],
}
TRUSTED: Final = {"trust_annotations": True}


async def built(methods: list[Method], settings: CatalogSettings) -> Catalog:
    return await Builder(Params(), ValidatorCache()).build_catalog(Listing("static", tuple(methods)), settings)


async def advice(methods: list[Method], service: str = "", **knobs: Any) -> list[Row]:
    settings = CatalogSettings.model_validate(TRUSTED | knobs)
    return advise(await built(methods, settings), settings, service)


def loaded(folder: Path, yaml: str, service: str = "") -> ServiceSettings:
    """Return the settings of a file with the YAML, and of another one for what it does not say."""
    file = folder / "pasted.yaml"
    file.write_text(yaml + "\n")
    prefix = f"services.{service}." if service else ""
    base = [f"{prefix}backend.url=http://127.0.0.1:1", f"{prefix}catalog.trust_annotations=true", "auth.mode=off"]
    (settings,) = load_settings(file, base, environ={}).by_mount.values()
    return settings


@each("service", ["", "shop"])
@each("why", [*ROWS])
async def test_the_pasted_yaml_mends_what_the_advice_names(why: str, service: str, tmp_path: Path) -> None:
    methods = [*ROWS[why], method("good")]
    (row,) = [one for one in await advice(methods, service) if why in one["why"]]
    assert len(row["tools"]) == len(ROWS[why])
    assert row["yaml"].startswith("services:\n  shop:\n    catalog:\n" if service else "catalog:\n")
    settings = loaded(tmp_path, row["yaml"], service).catalog
    catalog = await built(methods, settings)
    assert len(catalog.tools) == len(methods)
    assert [one for one in advise(catalog, settings, service) if why in one["why"]] == []


async def test_a_list_too_large_for_a_context_is_searched(tmp_path: Path) -> None:
    methods = [method(f"tool_{word}_{number}") for number in range(400) for word in ("x" * 40, "y" * 40, "z" * 40)]
    rows = await advice(methods, search=False)
    assert "tokens" in rows[0]["why"]
    assert rows[0]["tools"] == []
    assert loaded(tmp_path, rows[0]["yaml"]).catalog.search is True
    assert [row for row in await advice(methods, search=True) if "tokens" in row["why"]] == []
    assert [row for row in await advice(methods) if "tokens" in row["why"]] == []  # above 20,000, as by default
    assert "tokens" in (await advice(methods, search={"above": 100_000}))[0]["why"]


async def test_tokens_are_counted_by_characters_as_search_above_counts_them() -> None:
    latin, cyrillic = [method("a", "x" * 1000)], [method("a", "\u0436" * 1000)]
    sizes = {tokens_of(await built(one, CatalogSettings()), NameStyle.LLM) for one in (latin, cyrillic)}
    assert len(sizes) == 1
    assert 250 < sizes.pop() < 300


async def test_the_worst_is_said_first() -> None:
    methods = [*ROWS["over 1,024 bytes"], *ROWS["can do harm"], *ROWS["parameters without names"]]
    whys = [row["why"] for row in await advice(methods)]
    places = [
        next(place for place, why in enumerate(whys) if part in why) for part in ("without names", "harm", "1,024")
    ]
    assert places == sorted(places)
    assert await advice([method("good")]) == []


async def test_much_of_one_kind_shows_yaml_for_the_first_tools() -> None:
    (row,) = await advice([method(f"x{'y' * number}", " ") for number in range(30)])
    assert len(row["tools"]) == 30
    assert len(row["yaml"].splitlines()) == 22


@each("name", ["a*b", "it's [odd]: {x}", '"', "\\d", "${HOME}", "# no", "\u00e9t\u00e9", "null", "1", "a\u2028b"])
async def test_names_that_yaml_and_patterns_know_otherwise_stay_what_they_are(name: str, tmp_path: Path) -> None:
    methods = [method(name, " ")]
    (row,) = await advice(methods)
    settings = loaded(tmp_path, row["yaml"]).catalog
    assert list(settings.tools) == [name]
    assert advise(await built(methods, settings), settings, "") == []


async def test_a_description_keeps_its_text_and_names_are_counted_in_order(tmp_path: Path) -> None:
    (row,) = await advice(ROWS["over 1,024 bytes"][:1])
    said = loaded(tmp_path, row["yaml"]).catalog.tools["tell"].description
    assert said is not None
    assert LONG.startswith(said[:1000])
    assert len(said.encode()) <= MAX_TEXT
    (row,) = await advice(ROWS["parameters without names"][:1])
    assert list(loaded(tmp_path, row["yaml"]).catalog.tools["add"].arguments) == [f"parameter_{n}" for n in (1, 2, 3)]


@each(
    "name",
    ["a'b\"c", "- x: #", "${file:/etc/passwd}", "\u2028\x85\ufeff", "\ufffe\uffffx", "\U0001f600[*]", "null", "1"],
)
async def test_the_yaml_loads_whatever_a_listing_says(name: str, tmp_path: Path) -> None:
    methods = [method(f"{name}{place}", f"Same {name} ${{HOME}}") for place in range(2)]
    for row in await advice(methods, "shop"):
        catalog = await built(methods, loaded(tmp_path, row["yaml"], "shop").catalog)
        assert all(tool.description.startswith("Same ") for tool in catalog.tools)
        assert len({tool.description for tool in catalog.tools}) == 2

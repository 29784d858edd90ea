"""What is left out comes with YAML that offers it, and nothing that was hidden for another reason."""

from __future__ import annotations

from typing import Any, Final

import yaml

from gateway.catalog.build import Builder
from gateway.catalog.curation import left_out
from gateway.model import Catalog, Listing, Method, Parameter
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each

BROKEN: Final = Method("books.purge", parameters=(Parameter("filter", {"$ref": "#/nowhere"}),))
SECRETS: Final = ("dumpprivkey", "wallet.getSeedPhrase")
LISTED: Final = ("books.get", "books.export", "stop", "rpc.discover", "a.login", *SECRETS)
KNOBS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"exclude": ["*.export"]},
    {"exclude": []},
    {"include": ["books.get", BROKEN.name]},
    {"include": ["books.*"], "exclude": ["*.export"]},
)


async def built(settings: CatalogSettings, names: tuple[str, ...] = LISTED) -> Catalog:
    methods = (BROKEN, *(Method(name, parameters=()) for name in names))
    return await Builder(Params(), ValidatorCache()).build_catalog(Listing("openrpc", methods), settings)


def with_yaml(knobs: dict[str, Any], text: str) -> CatalogSettings:
    return CatalogSettings.model_validate(knobs | yaml.safe_load(text)["catalog"])


@each("knobs", KNOBS)
async def test_the_yaml_of_each_row_offers_its_method_and_no_other(knobs: dict[str, Any]) -> None:
    settings = CatalogSettings.model_validate(knobs)
    before = await built(settings)
    rows = left_out(before, settings, "")
    assert {row["name"] for row in rows} == {*LISTED, BROKEN.name} - {tool.method for tool in before.tools}
    for row in rows:
        after = await built(with_yaml(knobs, row["yaml"]))
        assert {tool.method for tool in after.tools} == {tool.method for tool in before.tools} | {row["name"]}, row


async def test_a_long_list_of_secrets_has_no_yaml_that_would_offer_the_others() -> None:
    settings = CatalogSettings()
    many = tuple(f"dumpprivkey{number}" for number in range(30))
    rows = left_out(await built(settings, many), settings, "")
    assert [row["yaml"] for row in rows if row["name"].startswith("dump")] == [""] * 30


async def test_the_yaml_of_a_service_stands_below_its_name() -> None:
    settings = CatalogSettings()
    (row, *_) = left_out(await built(settings), settings, "crm")
    assert yaml.safe_load(row["yaml"])["services"]["crm"]["catalog"]["tools"][BROKEN.name]

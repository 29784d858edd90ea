"""The shape of params where a listing does not say: when the other one is tried, and what is remembered."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.backend.params import ParamStructures, ParamsValue
from gateway.backend.resending import Attempts, ResendBudget
from gateway.catalog.build import Builder
from gateway.catalog.curation import lint_catalog
from gateway.errors import BackendError, InvalidArguments, ParamsRefused, ServiceError
from gateway.listing import openrpc
from gateway.model import Binding, Catalog, Listing, Method, Parameter, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings
from gateway.settings import Params as Knobs
from tests.each import each
from tests.tables import each_row

GUESS = Binding("m", Structure.BY_NAME, ("a", "b"), structure_is_known=False)
SAFE = replace(GUESS, repeatable=True)
ARGUMENTS = {"a": 1, "b": 2}
OWN = ServiceError(-32602, "Invalid params")


class Service:
    """A method that takes params of one type, ``dict`` or ``list``, and remembers what it got."""

    def __init__(self, takes: type, failure: Exception | None = None) -> None:
        self.takes = takes
        self.failure = failure
        self.got: list[ParamsValue] = []

    async def send(self, params: ParamsValue) -> Any:
        self.got.append(params)
        if not isinstance(params, self.takes):
            refusal = ParamsRefused("Invalid params")
            refusal.service_error = OWN
            raise refusal
        if self.failure is not None:
            raise self.failure
        return "done"


async def call(
    shapes: ParamStructures, binding: Binding, arguments: dict[str, Any], send: Callable[[ParamsValue], Any]
) -> Any:
    attempts = Attempts("ada", "m", 30.0, ResendBudget(), binding.repeatable)
    return await shapes.call_method(binding, arguments, send, attempts.may_repeat)


@pytest.fixture
def shapes() -> ParamStructures:
    return ParamStructures()


async def test_a_tool_that_may_run_twice_is_tried_in_the_other_shape_and_then_only_in_that_one(
    shapes: ParamStructures,
) -> None:
    service = Service(list)
    assert await call(shapes, SAFE, ARGUMENTS, service.send) == "done"
    assert service.got == [{"a": 1, "b": 2}, [1, 2]]
    assert await call(shapes, SAFE, {"a": 3}, service.send) == "done"
    assert service.got[2:] == [[3]]


async def test_positions_that_are_refused_are_tried_by_name(shapes: ParamStructures) -> None:
    service = Service(dict)
    await call(shapes, replace(SAFE, structure=Structure.BY_POSITION), ARGUMENTS, service.send)
    assert service.got == [[1, 2], {"a": 1, "b": 2}]


async def test_a_tool_that_nobody_vouches_for_is_called_once_and_the_error_names_the_knob(
    shapes: ParamStructures,
) -> None:
    service = Service(list)
    with pytest.raises(ParamsRefused) as caught:
        await call(shapes, GUESS, ARGUMENTS, service.send)
    assert re.match(r"Invalid params\. .*backend\.params\.structure.*by-position", caught.value.message)
    assert service.got == [{"a": 1, "b": 2}]
    assert caught.value.service_error is OWN


async def test_what_the_listing_says_is_never_second_guessed(shapes: ParamStructures) -> None:
    service = Service(list)
    with pytest.raises(ParamsRefused, match=r"^Invalid params$"):
        await call(shapes, replace(SAFE, structure_is_known=True), ARGUMENTS, service.send)
    assert len(service.got) == 1


async def test_the_shape_that_worked_is_kept_and_a_later_refusal_is_about_the_arguments(
    shapes: ParamStructures,
) -> None:
    await call(shapes, SAFE, ARGUMENTS, Service(dict).send)
    refusing = Service(list)
    with pytest.raises(ParamsRefused, match=r"^Invalid params$"):
        await call(shapes, SAFE, ARGUMENTS, refusing.send)
    assert len(refusing.got) == 1


async def test_no_params_at_all_teach_nothing(shapes: ParamStructures) -> None:
    await call(shapes, SAFE, {}, Service(dict).send)
    service = Service(list)
    await call(shapes, SAFE, ARGUMENTS, service.send)
    assert len(service.got) == 2


async def test_both_shapes_refused_means_the_arguments_are_at_fault(shapes: ParamStructures) -> None:
    service = Service(str)
    for calls in (2, 4):
        with pytest.raises(ParamsRefused, match=r"^Invalid params$"):
            await call(shapes, SAFE, ARGUMENTS, service.send)
        assert len(service.got) == calls


async def test_another_error_of_the_second_try_is_the_answer(shapes: ParamStructures) -> None:
    with pytest.raises(BackendError, match="out of stock"):
        await call(shapes, SAFE, ARGUMENTS, Service(list, BackendError("out of stock")).send)


async def test_an_error_that_is_not_about_params_is_not_tried_again(shapes: ParamStructures) -> None:
    service = Service(dict, BackendError("out of stock"))
    with pytest.raises(BackendError, match="out of stock"):
        await call(shapes, SAFE, ARGUMENTS, service.send)
    assert len(service.got) == 1


async def test_arguments_that_have_no_other_shape_are_tried_in_one(shapes: ParamStructures) -> None:
    service = Service(list)
    with pytest.raises(ParamsRefused, match=r"^Invalid params$"):
        await call(shapes, SAFE, {"a": 1, "more": 2}, service.send)
    with pytest.raises(InvalidArguments, match="has no place"):
        await call(shapes, replace(SAFE, structure=Structure.BY_POSITION), {"more": 2}, service.send)
    assert len(service.got) == 1


async def test_no_more_is_remembered_than_the_bound_allows() -> None:
    shapes = ParamStructures(most=1)
    await call(shapes, SAFE, ARGUMENTS, Service(list).send)
    await call(shapes, replace(SAFE, method="other"), ARGUMENTS, Service(list).send)
    service = Service(list)
    await call(shapes, SAFE, ARGUMENTS, service.send)
    assert len(service.got) == 2


# --- what the catalog says of a method ------------------------------------------------------------------------


async def bound(
    knobs: dict[str, Any] | None = None, params: dict[str, Any] | None = None, *, leading: bool = False, **members: Any
) -> Binding:
    method = Method("m", **{"parameters": (Parameter("a"),), **members})
    builder = Builder(Knobs.model_validate(params or {}), ValidatorCache(), leading_params=leading)
    catalog = await builder.build_catalog(Listing("openrpc", (method,)), CatalogSettings.model_validate(knobs or {}))
    return catalog.tools[0].binding


@each_row
async def test_only_the_operator_vouches_for_a_tool(knobs: dict[str, Any], repeatable: bool) -> None:
    binding = await bound(knobs, annotations={"readOnlyHint": True, "idempotentHint": True})
    assert binding.repeatable is repeatable


@each(
    ("knobs", "params", "members", "certain"),
    [
        ({}, {}, {}, False),
        ({}, {}, {"structure": Structure.EITHER}, True),
        ({}, {}, {"structure": Structure.BY_POSITION}, True),
        ({}, {"structure": "by-name"}, {}, True),
        ({"tools": {"m": {"structure": "by-name"}}}, {}, {}, True),
        ({}, {}, {"parameters": ()}, True),
        ({}, {}, {"parameters": None}, True),
    ],
)
async def test_a_shape_is_a_guess_where_nobody_says_it(
    knobs: dict[str, Any], params: dict[str, Any], members: dict[str, Any], certain: bool
) -> None:
    assert (await bound(knobs, params, **members)).structure_is_known is certain


@each("structure", [Structure.EITHER, Structure.UNKNOWN])
async def test_behind_leading_params_arguments_come_by_position_where_the_method_takes_that(
    structure: Structure,
) -> None:
    assert (await bound(leading=True, structure=structure)).structure is Structure.BY_POSITION
    assert (await bound(leading=True, structure=Structure.BY_NAME)).structure is Structure.BY_NAME


async def test_parameters_that_nobody_knows_are_one_array_or_where_the_operator_says_so_any_object() -> None:
    assert await bound(parameters=None) == Binding("m", Structure.BY_POSITION, spread_argument="params")
    by_name = await bound({}, {"structure": "by-name"}, parameters=None, structure=Structure.BY_POSITION)
    assert (by_name.structure, by_name.spread_argument) == (Structure.BY_NAME, None)


async def test_tools_that_are_called_differently_are_different_tools() -> None:
    async def digest(knobs: dict[str, Any]) -> str:
        method = Method("m", parameters=(Parameter("a"),))
        return (await Builder(Knobs(), ValidatorCache()).build_catalog(
            Listing("openrpc", (method,)), CatalogSettings.model_validate(knobs)
        )).tools[0].digest  # fmt: skip

    vouched = {"tools": {"m": {"structure": "by-name"}}}
    assert await digest({}) != await digest(vouched)


HEADINGS = {
    "a name with a space": ("m", "Block hash"),
    "a name in brackets": ("m", "[verbose]"),
    "no name": ("m", ""),
    "a method's name": ("get <n>", "a"),
}


@each(("method", "parameter"), HEADINGS)
async def test_a_name_that_can_be_no_key_decides_for_all_methods_that_do_not_say(method: str, parameter: str) -> None:
    entries = [
        {"name": method, "params": [{"name": parameter, "schema": {}}]},
        {"name": "silent", "params": [{"name": "from-date", "schema": {}}]},
        {"name": "said", "paramStructure": "by-name", "params": [{"name": "a", "schema": {}}]},
    ]
    catalog = await catalog_of(openrpc.parse_listing({"openrpc": "1.2.6", "methods": entries}))
    structures = {tool.method: (tool.binding.structure, tool.binding.structure_is_known) for tool in catalog.tools}
    assert structures["silent"] == (Structure.BY_POSITION, False)
    assert structures["said"] == (Structure.BY_NAME, True)
    assert "silent: called by-position, which is a guess" in " ".join(lint_catalog(catalog, CatalogSettings()))


async def test_without_such_a_name_methods_that_do_not_say_are_called_by_name() -> None:
    entries = [{"name": "silent", "params": [{"name": "from-date", "schema": {}}, {"name": "$top", "schema": {}}]}]
    (tool,) = (await catalog_of(openrpc.parse_listing({"openrpc": "1.2.6", "methods": entries}))).tools
    assert (tool.binding.structure, tool.binding.structure_is_known) == (Structure.BY_NAME, False)


async def catalog_of(listing: Listing) -> Catalog:
    return await Builder(Knobs(), ValidatorCache()).build_catalog(listing, CatalogSettings())

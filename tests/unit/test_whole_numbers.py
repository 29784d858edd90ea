"""Whole numbers with a point become integers where a schema takes integers alone, and nowhere else."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from gateway import jsonrpc
from gateway.concurrency.turns import run_at_once
from gateway.schema.validation import ValidatorCache
from tests.pace import quickly
from tests.tables import each_row

VALIDATORS: Final = ValidatorCache()
NODE: Final = {"type": "object", "properties": {"size": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}


async def written(schema: Any, text: str) -> str:
    """Return the JSON that one valid argument ``x`` is sent as."""
    validator = VALIDATORS.compile({"type": "object", "properties": {"x": schema}, "$defs": {"node": NODE}})
    arguments = {"x": jsonrpc.decode(text.encode())}
    assert validator.is_valid(arguments)
    if validator.integers is not None:
        await validator.integers.write_whole(arguments)
    return jsonrpc.encode(arguments["x"]).decode()


@each_row
async def test_a_whole_number_becomes_an_integer(schema: Any, text: str, expected: str) -> None:
    assert await written(schema, text) == expected


@each_row
async def test_what_may_be_a_number_or_is_too_large_stays(schema: Any, text: str) -> None:
    assert await written(schema, text) == text


async def test_every_number_of_a_long_list_and_at_the_end_of_a_deep_value_is_written() -> None:
    many = {"type": "array", "items": {"type": "integer"}}
    assert await written(many, json.dumps([7.0] * 30_000)) == json.dumps([7] * 30_000, separators=(",", ":"))
    deep = '{"next":' * 60 + '{"size":1.0}' + "}" * 60
    assert await written({"$ref": "#/$defs/node"}, deep) == deep.replace("1.0", "1")


def test_the_bound_is_for_places_and_not_for_calls() -> None:
    validator = VALIDATORS.compile({"properties": {"x": {"type": "integer"}}})
    assert validator.integers is not None
    for _ in range(20_000):
        run_at_once(validator.integers.steps({"x": 1.0}))
    run_at_once(validator.integers.steps(last := {"x": 1.0}))
    assert jsonrpc.encode(last) == b'{"x":1}'


def test_places_beyond_a_bound_are_left_as_they_are() -> None:
    names = [f"p{number}" for number in range(40)]
    parts = {
        own: {
            "properties": {
                "n": {"type": "integer"},
                **{name: {"$ref": f"#/$defs/{own}"} for name in names if name != own},
            }
        }
        for own in names
    }  # so each path through the names has schemas of its own
    validator = VALIDATORS.compile({"allOf": [{"$ref": f"#/$defs/{name}"} for name in names], "$defs": parts})
    arguments = {one: {other: {"n": 1.0} for other in names if other != one} for one in names}
    assert validator.is_valid(arguments)
    assert validator.integers is not None
    with quickly(0.4):
        run_at_once(validator.integers.steps(arguments))
    ends = Counter(str(end["n"]) for one in arguments.values() for end in one.values())
    assert set(ends) == {"1", "1.0"}

"""Repair arguments that a check refuses, where nothing is lost by it.

Agent frameworks send null for each optional argument that the model left out (CrewAI, strict modes of LLM APIs). Few
schemas take null, so the call would fail for what nobody meant to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.model import Tool
from gateway.model.schema_keywords import DEFINITIONS
from gateway.schema.validation import ValidatorCache

_FOR_ONE_ARGUMENT: Final = ("$schema", "properties", *DEFINITIONS)


def repair_arguments(tool: Tool, arguments: Mapping[str, Any], validators: ValidatorCache) -> Mapping[str, Any]:
    """Return arguments that the tool's check accepts, without the nulls of optional arguments that refuse null. Return
    them as they came where the check accepts them, or refuses them all the same."""
    schema = tool.checked_schema
    validator = validators.compile_tool(tool.digest, schema)
    if validator.is_valid(arguments):
        return arguments
    properties, required = schema.get("properties", {}), schema.get("required", ())
    alone = validators.compile({keyword: schema[keyword] for keyword in _FOR_ONE_ARGUMENT if keyword in schema})
    repaired = {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or name not in properties or alone.is_valid({name: None})
    }
    return repaired if validator.is_valid(repaired) else arguments

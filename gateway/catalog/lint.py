"""What an operator should know about a catalog although it works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.catalog.names import suits_llm_apis
from gateway.model import Catalog, Tool

_SHOWN: Final = 3


def lint(catalog: Catalog) -> Iterator[str]:
    """Remarks, one sentence each, with what could be done."""
    refused = [tool.name for tool in catalog.tools if not suits_llm_apis(tool.name)]
    if refused:
        yield (
            f"{_some(refused)}: names that most LLM APIs refuse ([A-Za-z0-9_-]{{1,64}}); "
            "clients that pass names on unchanged need a name from catalog.tools"
        )
    untyped = [tool.name for tool in catalog.tools if tool.binding.spread is not None]
    if untyped:
        yield (
            f"{_some(untyped)}: parameters unknown, taken as one array; name them under catalog.tools.*.arguments "
            "or in a listing file"
        )
    silent = [tool.name for tool in catalog.tools if says_nothing(tool)]
    if silent:
        yield f"{_some(silent)}: no description; a model has only the name to go by (catalog.tools.*.description)"
    dropped = [tool.name for tool in catalog.tools if "outputSchemaDropped" in tool.meta]
    if dropped:
        yield f"{_some(dropped)}: the listing's output schema is unusable and left out"
    yield from catalog.notes


def says_nothing(tool: Tool) -> bool:
    """Whether the description is but the name over again."""
    return tool.description in ("", tool.name, tool.method)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"

"""Report what an operator should know about a catalog that works."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.catalog.curation import Curation, list_some, moves_value
from gateway.catalog.names import NAME_RULES
from gateway.model import Catalog, NameStyle, Tool
from gateway.settings import CatalogSettings


def lint_catalog(catalog: Catalog, settings: CatalogSettings) -> Iterator[str]:
    """Yield remarks, one sentence each, with what the operator can do."""
    refused = [tool.name for tool in catalog.tools if not NAME_RULES[NameStyle.LLM].accepts(tool.name)]
    if refused and settings.names == "mcp":
        yield (
            f"{list_some(refused)}: names that most LLM APIs refuse ([A-Za-z0-9_-]{{1,64}}); "
            "set catalog.names: llm to publish others, or add ?names=llm to the endpoint's URL for one client"
        )
    untyped = [tool.name for tool in catalog.tools if tool.binding.spread_argument is not None]
    if untyped:
        yield (
            f"{list_some(untyped)}: parameters unknown, taken as one argument, params; name them under "
            "catalog.tools.*.arguments or in a listing file"
        )
    guessed = [tool for tool in catalog.tools if not tool.binding.structure_is_known]
    if guessed:
        yield (
            f"{list_some([tool.name for tool in guessed])}: called {guessed[0].binding.structure}, which is a guess; "
            "try a method that changes nothing (`tools --try`), then set backend.params.structure"
        )
    silent = [tool.name for tool in catalog.tools if lacks_description(tool)]
    if silent:
        yield f"{list_some(silent)}: no description, so a model sees only the name; set catalog.tools.*.description"
    dropped = [tool.name for tool in catalog.tools if "outputSchemaDropped" in tool.meta]
    if dropped:
        yield f"{list_some(dropped)}: the listing's output schema is unusable and not published"
    odd = [tool.name for tool in catalog.tools if tool.shown_input is not None]
    if odd:
        yield f"{list_some(odd)}: defaults that their own schema refuses are not published; the service may use them"
    hiding = [tool.name for tool in catalog.tools if tool.input_check is not None or tool.output_check is not None]
    if hiding:
        yield (
            f"{list_some(hiding)}: the schema has values or names with characters that people cannot see; they are not "
            "published, but still accepted"
        )
    risky = [
        tool.name for tool in catalog.tools if moves_value(tool.method) and tool.annotations.get("destructiveHint")
    ]
    if risky:
        yield (
            f"{list_some(risky)}: by their names they move money or sign, and are marked destructive; add those "
            "that you do not want to catalog.exclude, or set confirm: destructive to have a person agree to each call"
        )
    offered = [tool.method for tool in catalog.tools] + [method.name for method in catalog.quarantined]
    yield from Curation(settings).remarks([*offered, *catalog.hidden])
    yield from catalog.notes


def lacks_description(tool: Tool) -> bool:
    """Tell whether the description is missing or only repeats the name."""
    return tool.description in ("", tool.name, tool.method)

"""Say what would let agents succeed more often with a listing, the worst first, with the YAML that mends it."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.curation import WORD, lacks_description, moves_value, placed
from gateway.model import Catalog, NameStyle, Tool
from gateway.settings.catalog import CatalogSettings, SearchAbove
from gateway.text import excerpt, printable

MAX_TOKENS: Final = 20_000
"""Tokens of a list, of four characters each, beyond which a model does worse with every task that it has."""
MAX_TEXT: Final = 1024
"""Bytes of a description that every LLM API takes."""
_PASTED: Final = 20


def advise(catalog: Catalog, settings: CatalogSettings, service: str) -> list[dict[str, Any]]:
    """Return rows of what is wrong (``why``) with which ``tools``, and ``yaml`` that mends it for the first of them.
    ``service`` is the name of its settings, "" at the top level."""
    style, found = NameStyle(settings.names), list[tuple[int, str, list[Tool], list[str]]]()
    said = Counter(_words(tool.description) for tool in catalog.tools)
    tokens, search = tokens_of(catalog, style), settings.search
    if tokens > MAX_TOKENS and (not search or (isinstance(search, SearchAbove) and tokens <= search.above)):
        why = (
            f"the list takes {tokens:,} tokens of a model's context; let it search, or leave out what it does not need"
        )
        found.append((5 * len(catalog.tools), why, [], ["  search: true"]))
    for harm, applies, why, mend in _ROWS:
        if tools := [tool for tool in catalog.tools if applies(tool, said)]:
            lines = [f"    {_key(tool.method)}: {_json(mend(tool))}" for tool in tools[:_PASTED]]
            found.append((harm * len(tools), why, tools, ["  tools:", *lines]))
    return [
        {"why": why, "tools": [tool.name_for(style) for tool in tools],
         "yaml": placed(service, "\n".join(("catalog:", *lines)))}
        for _, why, tools, lines in sorted(found, key=lambda row: -row[0])
    ]  # fmt: skip


def tokens_of(catalog: Catalog, style: NameStyle) -> int:
    """Return about how many tokens the list of a catalog takes: a quarter of its characters."""
    shown = [[tool.name_for(style), tool.description, tool.schemas_for(style)[0]] for tool in catalog.tools]
    return len(jsonrpc.encode(shown).decode()) // 4


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def _unnamed(tool: Tool) -> list[str]:
    """Return the arguments that the listing only counts, and the one that stands for all."""
    names = tool.input_schema.get("properties", {})
    return [name for name in names if re.fullmatch(r"arg\d+", name) or tool.binding.spread_argument]


_ROWS: Final[tuple[tuple[int, Callable[[Tool, Counter[str]], Any], str, Callable[[Tool], Mapping[str, Any]]], ...]] = (
    (
        4, lambda tool, _: _unnamed(tool),
        "parameters without names, so a model guesses; put the names from the service's documents, in their order, in "
        "place of parameter_1",
        lambda tool: {"arguments": {f"parameter_{place}": {"description": "What it is."}
                                       for place in range(1, 1 + len(_unnamed(tool)))}},
    ),
    (
        3, lambda tool, _: lacks_description(tool),
        "no description, so a model sees only the name; say what the tool does, and when to use it",
        lambda tool: {"description": f"{' '.join(WORD.findall(tool.method)) or tool.name}.".capitalize()},
    ),
    (
        3, lambda tool, _: not tool.confirm and (tool.annotations.get("destructiveHint") or moves_value(tool.method)),
        "can do harm, and no person is asked before", lambda _: {"confirm": True},
    ),
    (
        2, lambda tool, said: said[_words(tool.description)] > 1 and not lacks_description(tool),
        "hard to tell from another tool; say in the description what only this one does, or leave one out",
        lambda tool: {"description": f"{excerpt(tool.description, 800)} (The method {tool.method}.)"},
    ),
    (
        1, lambda tool, _: len(tool.description.encode()) > MAX_TEXT,
        "a description over 1,024 bytes, which some LLM APIs cut or refuse",
        lambda tool: {"description": excerpt(tool.description, MAX_TEXT)},
    ),
)  # fmt: skip
"""How much harm is done by each tool to which something applies, why, and the override that mends it."""


def _key(name: str) -> str:
    """Return a name as YAML: JSON with escapes, of which YAML knows more."""
    return jsonrpc.encode(name).decode().encode("ascii", "backslashreplace").decode()


def _json(value: Any) -> str:
    """Return a value as JSON, which is YAML, that means the same in the file of settings."""
    return printable(jsonrpc.encode(value).decode()).replace("${", "$${")

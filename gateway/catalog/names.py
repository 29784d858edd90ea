"""Tool names, made once per catalog and kept in a table: nothing is derived back from a name by string surgery.

Every tool has two: MCP's (2026-07-28, tools "Tool Names") and one that the function-calling APIs of the large model
providers take as it is. Within one catalog no text names two tools, whichever of the two it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.model import NameStyle

_SUFFIX_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class NameRule:
    """Which names a client takes: ``characters`` as in a regular expression's class, ``longest`` in characters.
    ``nameless`` is what stands for a text of which nothing is left."""

    characters: str
    longest: int
    nameless: str = "method"

    def accepts(self, name: str) -> bool:
        return re.fullmatch(f"[{self.characters}]{{1,{self.longest}}}", name) is not None

    def make_name(self, text: str, salt: str) -> str:
        """The nearest name to ``text`` that suits."""
        name = re.sub(f"[^{self.characters}]+", "_", text).strip("_")
        return name if 0 < len(name) <= self.longest else self.add_suffix(name or self.nameless, salt)

    def add_suffix(self, name: str, salt: str) -> str:
        suffix = "_" + hashlib.sha256(salt.encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX_DIGITS]
        return name[: self.longest - len(suffix)] + suffix


NAME_RULES: Final[Mapping[NameStyle, NameRule]] = {
    NameStyle.MCP: NameRule(r"A-Za-z0-9_.\-", 128),
    NameStyle.LLM: NameRule(r"A-Za-z0-9_\-", 64),
}


def assign_names(methods: Iterable[str], chosen: Mapping[str, str]) -> dict[str, dict[NameStyle, str]]:
    """Both names of each method, equal for equal sets of methods whatever their order.

    ``chosen`` are the operator's names by method. Next come the methods whose names are valid as they are, then the
    others in the order of their raw names; who finds a name taken gets a suffix made from its own raw name. A name
    that suits LLM APIs is both of its tool's names, and goes before those that are made to suit.
    """
    mcp, llm = NAME_RULES[NameStyle.MCP], NAME_RULES[NameStyle.LLM]
    wanted = {method: chosen.get(method, method) for method in methods}
    ordered = sorted(wanted, key=lambda method: (method not in chosen, not mcp.accepts(method), method))
    first = unique(ordered, wanted, mcp)
    ordered = sorted(wanted, key=lambda method: (not llm.accepts(first[method]), method not in chosen, method))
    second = unique(ordered, first, llm)
    return {method: {NameStyle.MCP: first[method], NameStyle.LLM: second[method]} for method in wanted}


def unique(ordered: Iterable[str], wanted: Mapping[str, str], rule: NameRule) -> dict[str, str]:
    """Return a name of its own for each raw name: the one that it wants, as near as ``rule`` allows. Who comes first
    gets a name that several want; the others get a suffix, made of their raw names."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for raw in ordered:
        text, salt = wanted[raw], raw
        name = text if rule.accepts(text) else rule.make_name(text, raw)
        while name in taken:
            name, salt = rule.add_suffix(name, salt), f"{salt}+"
        names[raw] = name
        taken.add(name)
    return names

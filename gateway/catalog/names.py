"""Make the names of tools, once per catalog. They are kept in a table, and no method is derived from a name.

Every tool has two names: MCP's (2026-07-28, tools "Tool Names") and one that the function-calling APIs of the large
model providers accept. Within one catalog no text names two tools, in whichever style.
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
    """Hold which names a client accepts: ``characters`` as in a regular expression's class, ``longest`` in characters.
    ``nameless`` replaces a text without any such character."""

    characters: str
    longest: int
    nameless: str = "method"

    def accepts(self, name: str) -> bool:
        return re.fullmatch(f"[{self.characters}]{{1,{self.longest}}}", name) is not None

    def make_name(self, text: str, salt: str) -> str:
        """Return the accepted name that is nearest to ``text``; ``salt`` makes its suffix, where it needs one."""
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
    """Return both names of each method. They depend on the set of methods, not on its order.

    ``chosen`` are the operator's names by method, and come first. Next are the methods whose names are valid, then the
    others, sorted by name. A method whose name is taken gets a suffix, made from the method's name. A tool's MCP name
    is also its name for LLM APIs where they accept it; such names precede those that have to be changed.
    """
    mcp, llm = NAME_RULES[NameStyle.MCP], NAME_RULES[NameStyle.LLM]
    wanted = {method: chosen.get(method, method) for method in methods}
    ordered = sorted(wanted, key=lambda method: (method not in chosen, not mcp.accepts(method), method))
    first = unique(ordered, wanted, mcp)
    ordered = sorted(wanted, key=lambda method: (not llm.accepts(first[method]), method not in chosen, method))
    second = unique(ordered, first, llm)
    return {method: {NameStyle.MCP: first[method], NameStyle.LLM: second[method]} for method in wanted}


def unique(ordered: Iterable[str], wanted: Mapping[str, str], rule: NameRule) -> dict[str, str]:
    """Return a different name for each raw name: the wanted one, as near as ``rule`` allows. The first of several that
    want the same name gets it; the others get a suffix, made from their raw names."""
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

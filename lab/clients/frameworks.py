"""The table of agent frameworks: which one, and what it makes of what MCP lets it do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.environments import DRIVERS, node, own_python
from tests.clients.rows import Row
from tests.front import LEGACY, MODERN

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
_DRIVERS: Final = Path(__file__).parent / "drivers"

ABILITIES: Final = ("list", "call", "error", "null", "nested", "page", "kodi", "ethereum", "wanted", "search")

_USUAL: Final = {"error": "flag", "null": "sent", "nested": "shown", "page": "all"}

LEGEND: Final = """
error    flag: the agent gets the text, marked as an error; raises: an exception with the text; text: the text alone
null     for an optional argument. sent: the gateway leaves it out; dropped: the framework does; refused: the framework
         has an error for the model
nested   arguments arrive as they were. shown: the model is told the members of objects; opaque: that it is an object
page     of a listing in pages: all are read, or the first alone
kodi     tools of Kodi with catalog.search: false, all listed and made into what a model is told; so ethereum
wanted   a tool of Kodi is called with default settings, found by search where it is not listed; search: always found so
""".strip()


@dataclass(frozen=True)
class Framework(Row):
    """A framework. ``words`` is what it does where that is not the usual; :data:`LEGEND` has the others."""

    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def capabilities(self) -> tuple[str, ...]:
        return ABILITIES

    def word(self, ability: str) -> str:
        """What stands in the cell, empty where that is counted."""
        return self.words.get(ability, _USUAL.get(ability, "" if ability in ("kodi", "ethereum") else "ok"))


def _python(name: str, version: str, revision: str, driver: str, environment: str, **words: str) -> Framework:
    interpreter = partial(own_python, REQUIREMENTS / f"{environment}.txt")
    return Framework(f"{name} {version}", "", revision, _DRIVERS / f"{driver}.py", interpreter, words=words)


FRAMEWORKS: Final = (
    _python("agent-framework", "1.23", MODERN, "microsoft_agent", "agent-framework", error="raises", null="refused"),
    Framework("ai 7.0", "", MODERN, DRIVERS / "vercel_agent.mjs", node),
    _python("crewai", "1.15", LEGACY, "crewai_agent", "crewai", null="dropped", page="first"),
    _python("google-adk", "2.13", LEGACY, "adk_agent", "google-adk", page="first"),
    _python("google-genai", "3.6", LEGACY, "genai_agent", "google-genai", page="first"),
    _python("langchain-mcp-adapters", "0.3", LEGACY, "langchain_agent", "langchain"),
    _python(
        "llama-index-tools-mcp", "0.6", LEGACY, "llama_index_agent", "llama-index",
        error="text", nested="opaque", page="first",
    ),
    _python("openai-agents", "0.24", MODERN, "openai_agent", "openai-agents", error="text"),
    _python("pydantic-ai", "2.68", MODERN, "pydantic_agent", "pydantic-ai", error="raises"),
    _python("strands-agents", "1.62", MODERN, "strands_agent", "strands"),
)  # fmt: skip

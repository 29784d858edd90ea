"""The pages in docs/issuers, as tests use them: their tokens are the shapes, their YAML is the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.config.source import load_settings
from gateway.settings import Settings

ISSUERS: Final = Path(__file__).parents[2] / "docs" / "issuers"
WRITTEN_AT: Final = 1_790_000_000
"""What the tokens on the pages have for now."""
_BLOCK: Final = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TIMES: Final = ("exp", "iat", "nbf", "auth_time")


@dataclass(frozen=True)
class Shape:
    """A token apart; ``header`` is empty for an answer about a token that cannot be read."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    def at(self, now: int) -> Shape:
        """The same, issued ``now``."""
        later = now - WRITTEN_AT
        return Shape(self.header, {name: _moved(name, value, later) for name, value in self.claims.items()})


def _moved(name: str, value: Any, later: int) -> Any:
    if name not in _TIMES:
        return value
    return str(int(value) + later) if isinstance(value, str) else value + later


class Page:
    """One preset's page."""

    def __init__(self, preset: str) -> None:
        self.preset = preset
        self.text = (ISSUERS / f"{preset}.md").read_text(encoding="utf-8")
        self._blocks = {(kind, name): text for kind, name, text in _BLOCK.findall(self.text)}

    def shape(self, name: str) -> Shape | None:
        """The token in the block ``json name``."""
        text = self._blocks.get(("json", name))
        if text is None:
            return None
        found = json.loads(text)
        return Shape(found.get("header", {}), found["claims"])

    @property
    def access(self) -> Shape:
        found = self.shape("access")
        assert found is not None
        return found

    @property
    def id_token(self) -> Shape:
        found = self.shape("id")
        assert found is not None
        return found

    @property
    def settings(self) -> Settings:
        """What the page tells to write."""
        tree = yaml.safe_load(self._blocks["yaml", ""])
        return load_settings(None, [f"{section}={json.dumps(value)}" for section, value in tree.items()], environ={})

    def loosened(self) -> set[str]:
        """The rows in the table under "What the preset loosens"."""
        _, _, rest = self.text.partition("## What the preset loosens\n")
        section = rest.partition("\n## ")[0]
        return set(re.findall(r"^\| (J\d\d) \|", section, re.MULTILINE))


@cache
def page(preset: str) -> Page:
    return Page(preset)

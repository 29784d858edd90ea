"""Define the knobs of the Model Context Protocol."""

from __future__ import annotations

from gateway.settings.knobs import Section, knob
from gateway.settings.mcp_server import McpServer
from gateway.units import Duration


class Mcp(Section):
    """The Model Context Protocol."""

    heartbeat: Duration = knob(
        15.0,
        "Interval of keep-alive comments on streams, and of progress notices for calls that request them.",
        ge=0.05,
        le=300,
    )
    server: McpServer = knob(
        McpServer,
        "Name, texts and icons by which clients know the server. Absent values come from the service's listing.",
    )

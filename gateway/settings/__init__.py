"""Every knob of the gateway, once: default, bounds, unit, help text, and whether it can change while running.

These models are the only source. The JSON Schema for editors, the commented ``config/gateway.yaml``, the reference
page and the environment names (``GATEWAY__SECTION__KNOB``) derive from them, see :mod:`gateway.config_reference`.
A knob has to earn its place.
"""

from __future__ import annotations

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from gateway.settings.auth import Auth, ClientSecret, Issuer, Scopes, secure_url
from gateway.settings.backend import Backend, Credentials, ListingSettings, Params, Tls
from gateway.settings.catalog import EXCLUDED, Annotations, Argument, CatalogSettings, ToolOverride, has_one_star
from gateway.settings.custom import CustomListing, CustomParameter
from gateway.settings.knobs import Section, http_url, is_loopback, knob
from gateway.settings.mcp_server import Icon, McpServer
from gateway.units import Duration, Rate, Size

__all__ = [
    "EXCLUDED",
    "Annotations",
    "Argument",
    "Auth",
    "Backend",
    "CatalogSettings",
    "ClientSecret",
    "Credentials",
    "CustomListing",
    "CustomParameter",
    "Icon",
    "Issuer",
    "ListingSettings",
    "McpServer",
    "Params",
    "Scopes",
    "Settings",
    "Tls",
    "ToolOverride",
    "has_one_star",
    "is_loopback",
]


class Server(Section):
    """Where the gateway listens."""

    host: str = knob("127.0.0.1", "Address to bind to. Anything but loopback needs authentication.", min_length=1)
    port: int = knob(8080, "Public port: MCP and REST.", ge=0, le=65535)
    admin_host: str = knob(
        "127.0.0.1",
        "Address to bind the admin port to. Probes from elsewhere, as Kubernetes has them, need another.",
        min_length=1,
    )
    admin_port: int = knob(9090, "Port for /livez, /readyz and /refresh; keep it away from the public.", ge=0, le=65535)
    public_url: str | None = knob(
        None,
        "The URL under which clients reach the gateway, for example https://gw.example.com, without the /mcp that "
        "follows; its host is accepted in Host and Origin.",
    )
    trusted_proxies: tuple[str, ...] = knob(
        (),
        "Networks (CIDR) of reverse proxies whose X-Forwarded-For is believed. "
        "The caller is the rightmost address that is not one of them.",
    )
    secret_file: str | None = knob(
        None,
        "File whose first line signs cursors, sessions and states; further lines are still accepted, for rotation. "
        "Absent: a random secret, so that they end with the process; replicas need one in common.",
    )
    max_body: Size = knob(1024**2, "Largest request body.", ge=1024, le=64 * 1024**2)
    body_timeout: Duration = knob(15.0, "Time a client has to send its request body.", gt=0, le=300)
    shutdown_timeout: Duration = knob(60.0, "Time that requests under way have to finish after SIGTERM.", ge=0, le=600)

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        url = http_url(url).rstrip("/")
        if urlsplit(url).path.endswith("/mcp"):
            raise ValueError("must not end in /mcp, which is added to it: say https://gw.example.com alone")
        return url

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            ipaddress.ip_network(proxy)
        return proxies

    @model_validator(mode="after")
    def _check_ports(self) -> Server:
        if self.port == self.admin_port != 0:
            raise ValueError(f"port and admin_port are both {self.port}: the admin port is one of its own")
        return self


class Limits(Section):
    """Who may do how much."""

    discovery: Rate = knob(
        "60/minute",
        "Listings per caller, by address without a token: as many at once, then one by one at that rate; ten times as "
        "many cursors may be followed.",
        live=True,
    )
    streams: int = knob(32, "Open streams per caller, by address without a token.", live=True, ge=1, le=100_000)


class Mcp(Section):
    """The Model Context Protocol."""

    heartbeat: Duration = knob(
        15.0,
        "Interval of keep-alive comments on streams, and of progress for calls that asked for it.",
        ge=0.05,
        le=300,
    )

    origins: tuple[str, ...] = knob(
        (),
        "Origins that browsers may call from, besides loopback and public_url, e.g. https://app.example.com.",
    )
    hosts: tuple[str, ...] = knob(
        (), 'Host names accepted besides loopback and public_url; ["*"] where a proxy in front checks them.'
    )
    server: McpServer = knob(
        McpServer, "How the gateway introduces itself; what is absent, the service's listing says, if it does."
    )


class Log(Section):
    """Logs: one line per request, start-up and refresh, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = knob("info", "Least severity.", live=True)
    format: Literal["auto", "json", "text"] = knob("auto", "auto: text on a terminal, JSON elsewhere.")


class Telemetry(Section):
    """What the gateway tells about itself."""

    log: Log = knob(Log, "Logs.")


class Settings(Section):
    """The whole configuration."""

    server: Server = knob(Server, "Where the gateway listens.")
    backend: Backend = Field(description="The JSON-RPC service that the gateway fronts.")
    catalog: CatalogSettings = knob(CatalogSettings, "Which methods become tools.")
    auth: Auth = knob(Auth, "Who may call.")
    limits: Limits = knob(Limits, "Who may do how much.")
    mcp: Mcp = knob(Mcp, "The Model Context Protocol.")
    telemetry: Telemetry = knob(Telemetry, "What the gateway tells about itself.")

    @property
    def origin(self) -> str:
        """The URL under which clients reach the gateway, without a trailing slash."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return self.server.public_url or f"http://{host}:{self.server.port}"

    @property
    def resource(self) -> str:
        """The identifier of the protected resource (RFC 9728): what tokens must be for."""
        return f"{self.origin}/mcp"

    @property
    def mount_id(self) -> str:
        """What signed texts and keys of the store are of: the resource. With ``auth.mode: off`` and without a
        public_url there is none, and replicas may listen on different ports: then the service behind."""
        return self.resource if self.auth.mode != "off" or self.server.public_url else self.backend.url

    @model_validator(mode="after")
    def _check_exposure(self) -> Settings:
        if self.auth.mode == "off" and not (is_loopback(self.server.host) or self.auth.allow_unauthenticated):
            raise ValueError(
                f"server.host {self.server.host} is reachable by others and auth.mode is off: bind to 127.0.0.1, "
                "or set auth.allow_unauthenticated: true where something in front authenticates"
            )
        return self

    @model_validator(mode="after")
    def _check_resource(self) -> Settings:
        if self.auth.mode == "off":
            return self
        if not self.auth.issuers:
            raise ValueError(
                "auth.issuers: must name at least one authorization server, [{issuer: https://login.example.com}]; "
                "or say auth.mode: off, to serve without authentication"
            )
        url = self.server.public_url
        if url is None:
            if self.server.port == 0 or not is_loopback(self.server.host):
                raise ValueError("server.public_url: is required, since tokens must be for it: public_url + /mcp")
            return self
        try:
            secure_url(url)
        except ValueError as error:
            raise ValueError(f"server.public_url: {error}") from None
        if urlsplit(url).query:
            raise ValueError("server.public_url: must not have a ?query")
        return self

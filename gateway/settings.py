"""Every knob of the gateway, once: default, bounds, unit, help text, and whether it can change while running.

These models are the only source. The JSON Schema for editors, the commented ``config/gateway.yaml``, the reference
page and the environment names (``GATEWAY__SECTION__KNOB``) derive from them, see :mod:`gateway.config_reference`.
A knob has to earn its place.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Secret, SecretStr, field_validator, model_validator

from gateway.units import Duration, Rate, Size

DIALECTS: Final = ("auto", "jsonrpc_mcp", "drupal", "openrpc", "introspection", "static")


def knob(default: Any, help: str, *, live: bool = False, **bounds: Any) -> Any:
    """A field; ``live`` says that a reload applies it without a restart."""
    extra: dict[str, JsonValue] = {"reload": "live" if live else "restart"}
    if callable(default):
        return Field(default_factory=default, description=help, json_schema_extra=extra, **bounds)
    return Field(default, description=help, json_schema_extra=extra, **bounds)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)


def _http_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # Without its text, which quotes what may be part of a password.
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user name or password")
    if parts.fragment:
        raise ValueError("must not have a #fragment")
    return url


def is_loopback(host: str) -> bool:
    """Whether a host to bind to is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Server(Section):
    """Where the gateway listens."""

    host: str = knob("127.0.0.1", "Address to bind to. Anything but loopback needs authentication.")
    port: int = knob(8080, "Public port: MCP and REST.", ge=0, le=65535)
    admin_port: int = knob(9090, "Port for /livez and /readyz; keep it away from the public.", ge=0, le=65535)
    public_url: str | None = knob(
        None,
        "The URL under which clients reach the gateway, for example https://gw.example.com; "
        "its host is accepted in Host and Origin.",
    )
    trusted_proxies: tuple[str, ...] = knob(
        (),
        "Networks (CIDR) of reverse proxies whose X-Forwarded-For is believed. "
        "The caller is the rightmost address that is not one of them.",
    )
    secret_file: str | None = knob(
        None,
        "File whose first line signs cursors; further lines are still accepted, for rotation. "
        "Absent: a random secret, so that cursors end with the process.",
    )
    max_body: Size = knob(1024**2, "Largest request body.", ge=1024, le=64 * 1024**2)
    body_timeout: Duration = knob(15.0, "Time a client has to send its request body.", gt=0, le=300)
    shutdown_timeout: Duration = knob(60.0, "Time that requests under way have to finish after SIGTERM.", ge=0, le=600)

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str | None) -> str | None:
        return None if url is None else _http_url(url).rstrip("/")

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            ipaddress.ip_network(proxy)
        return proxies


class Tls(Section):
    """TLS towards the backend."""

    ca_file: str | None = knob(None, "CA bundle (PEM) to trust in place of the system's.")
    cert_file: str | None = knob(None, "Client certificate (PEM).")
    key_file: str | None = knob(None, "Key of the client certificate (PEM).")

    @model_validator(mode="after")
    def _pair(self) -> Tls:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file come together")
        return self


class Params(Section):
    """How the backend takes its ``params``."""

    structure: Literal["auto", "by-name", "by-position"] = knob(
        "auto",
        "Shape of params. auto: as the listing says of each method, by name where it does not say.",
    )
    prefix: tuple[Secret[JsonValue], ...] = knob(
        (), 'Values put before the positional params of every call, e.g. ["token:${ARIA2_SECRET}"] for aria2.'
    )
    always: bool = knob(False, "Send params even to a method that has no parameters; some services insist.")


class Credentials(Section):
    """What the gateway shows the backend. Until callers are authenticated, nothing or one fixed header."""

    mode: Literal["auto", "none", "static"] = knob(
        "auto",
        "auto and none: nothing. static: the header below, for every caller alike. "
        "Under backend.listing, auto is what backend.credentials says.",
    )
    header: str = knob("Authorization", "Name of the static header.")
    value: SecretStr | None = knob(None, "Value of the static header, e.g. ${file:/run/secrets/backend}.")

    @field_validator("header")
    @classmethod
    def _check_header(cls, header: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", header):
            raise ValueError("must be an HTTP header name")
        if header.lower() in ("host", "content-length", "content-type", "transfer-encoding", "connection"):
            raise ValueError("is set by the gateway itself")
        return header

    @field_validator("value")
    @classmethod
    def _check_value(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", value.get_secret_value()):
            raise ValueError("must be printable ASCII without surrounding spaces, as HTTP header values are")
        return value

    @model_validator(mode="after")
    def _check_mode(self) -> Credentials:
        if (self.mode == "static") != (self.value is not None):
            raise ValueError("mode: static and value come together")
        return self


class ListingSettings(Section):
    """Where and how the backend's methods are listed."""

    dialect: Literal["auto", "jsonrpc_mcp", "drupal", "openrpc", "introspection", "static"] = knob(
        "auto", "Form of the listing; auto finds it by asking for each, cheapest first."
    )
    url: str | None = knob(None, "Where the listing is, if not where its dialect has it.")
    file: str | None = knob(None, "File with the listing for dialect: static (OpenRPC, or our short YAML).")
    language: str | None = knob(
        None, "Accept-Language for the shared listing, for services that translate descriptions."
    )
    timeout: Duration = knob(10.0, "Time for one listing, probing included.", gt=0, le=300)
    max_size: Size = knob(16 * 1024**2, "Largest listing document.", ge=1024, le=256 * 1024**2)
    credentials: Credentials = knob(Credentials, "What the listing is asked with.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else _http_url(url)

    @model_validator(mode="after")
    def _check_file(self) -> ListingSettings:
        if (self.dialect == "static") != (self.file is not None):
            raise ValueError("dialect: static and file come together")
        return self


class Backend(Section):
    """The JSON-RPC service that the gateway fronts."""

    url: str = Field(
        description="The service's JSON-RPC endpoint, for example http://127.0.0.1/jsonrpc. Required.",
        json_schema_extra={"reload": "restart"},
    )
    timeout: Duration = knob(30.0, "Deadline of a call, from the first byte sent to the last received.", gt=0, le=3600)
    max_response: Size = knob(8 * 1024**2, "Largest answer, after decompression.", ge=1024, le=256 * 1024**2)
    connections: int = knob(100, "Most connections to the backend at a time.", ge=1, le=10_000)
    proxy: str | None = knob(None, "HTTP proxy on the way; the environment's proxies are ignored.")
    tls: Tls = knob(Tls, "TLS towards the backend.")
    params: Params = knob(Params, "How the backend takes its params.")
    credentials: Credentials = knob(Credentials, "What the gateway shows the backend.")
    listing: ListingSettings = knob(ListingSettings, "Where and how the methods are listed.")

    @field_validator("url", "proxy")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else _http_url(url)


class Annotations(Section):
    """MCP's hints to clients about a tool (tools "Tool annotations")."""

    title: str | None = knob(None, "Title.", live=True)
    readOnlyHint: bool | None = knob(None, "Changes nothing.", live=True)  # noqa: N815, MCP's name
    destructiveHint: bool | None = knob(None, "May destroy.", live=True)  # noqa: N815
    idempotentHint: bool | None = knob(None, "Again is as once.", live=True)  # noqa: N815
    openWorldHint: bool | None = knob(None, "Reaches beyond the service.", live=True)  # noqa: N815


class Argument(Section):
    """What the operator knows better than the listing about one argument."""

    schema_: dict[str, JsonValue] | None = Field(
        None, alias="schema", description="JSON Schema.", json_schema_extra={"reload": "live"}
    )
    description: str | None = knob(None, "Description.", live=True)
    required: bool | None = knob(None, "Whether it must be given.", live=True)


class ToolOverride(Section):
    """What the operator knows better than the listing about the methods that a pattern matches."""

    name: str | None = knob(
        None,
        "Name of the tool, in place of one made from the method's.",
        live=True,
        pattern=r"^[A-Za-z0-9_.-]{1,128}$",
    )
    title: str | None = knob(None, "Title.", live=True)
    description: str | None = knob(None, "Description.", live=True)
    annotations: Annotations = knob(Annotations, "Hints to clients.", live=True)
    timeout: Duration | None = knob(None, "Deadline of a call, in place of backend.timeout.", live=True, gt=0, le=3600)
    structure: Literal["by-name", "by-position"] | None = knob(
        None, "Shape of params, in place of the listing's.", live=True
    )
    arguments: dict[str, Argument] = knob(
        dict,
        "By name. Where the listing does not tell the parameters, these are all of them, in order.",
        live=True,
    )
    output_schema: dict[str, JsonValue] | bool | None = knob(
        None, "JSON Schema of the result, in place of the listing's; false: none.", live=True
    )


class CatalogSettings(Section):
    """Which methods become tools, and how long a listing is good."""

    ttl: Duration = knob(300.0, "Age at which a listing is refreshed, in the background.", live=True, ge=1, le=86400)
    max_stale: Duration = knob(
        86400.0,
        "Age up to which the last good listing serves while refreshing fails.",
        live=True,
        ge=0,
        le=30 * 86400,
    )
    page_size: int = knob(500, "Most tools on one page of MCP's tools/list.", live=True, ge=1, le=5000)
    rest_page_size: int = knob(50, "Most tools on one page of GET /mcp/tools/list.", live=True, ge=1, le=5000)
    include: tuple[str, ...] = knob(("*",), "Patterns of backend methods to offer.", live=True)
    exclude: tuple[str, ...] = knob(
        ("rpc.*", "system.*", "JSONRPC.*", "*.shutdown", "*.forceShutdown", "shutdown"),
        "Patterns of backend methods to hide; stronger than include.",
        live=True,
    )
    trust_annotations: bool = knob(
        False,
        "Publish the backend's own readOnlyHint and its like as hints, rather than in _meta.",
        live=True,
    )
    tools: dict[str, ToolOverride] = knob(
        dict,
        "Overrides by method name or pattern (node.*); of several that match, later ones win.",
        live=True,
    )


class Auth(Section):
    """Who may call. Only off exists as yet: anybody who can reach the port."""

    mode: Literal["off"] = knob("off", "off: no authentication; a client's Authorization header is dropped.")
    allow_unauthenticated: bool = knob(
        False, "Bind beyond loopback without authentication. Only where something in front authenticates."
    )


class Limits(Section):
    """Who may do how much."""

    discovery: Rate = knob("60/minute", "Listings per caller address; following a cursor is free.", live=True)


class Mcp(Section):
    """Protection of the public port against DNS rebinding (MCP, transports "Security Warning")."""

    origins: tuple[str, ...] = knob(
        (),
        "Origins that browsers may call from, besides loopback and public_url, e.g. https://app.example.com.",
    )
    hosts: tuple[str, ...] = knob(
        (), 'Host names accepted besides loopback and public_url; ["*"] where a proxy in front checks them.'
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
    mcp: Mcp = knob(Mcp, "Protection against DNS rebinding.")
    telemetry: Telemetry = knob(Telemetry, "What the gateway tells about itself.")

    @model_validator(mode="after")
    def _check_exposure(self) -> Settings:
        if not (is_loopback(self.server.host) or self.auth.allow_unauthenticated):
            raise ValueError(
                f"server.host {self.server.host} is reachable by others and auth.mode is off: bind to 127.0.0.1, "
                "or set auth.allow_unauthenticated: true where something in front authenticates"
            )
        return self

"""Knobs of the process: where it listens, and what it logs."""

from __future__ import annotations

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from gateway.settings.knobs import Section, http_url, knob
from gateway.units import Duration, Size


class ServerSettings(Section):
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
        "The URL under which clients reach the gateway, for example https://gw.example.com, without the /mcp or "
        "/crm/mcp that follows; its host is accepted in Host and Origin.",
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
    allowed_hosts: tuple[str, ...] = knob(
        (), 'Host names accepted besides loopback and public_url; ["*"] where a proxy in front checks them.'
    )
    allowed_origins: tuple[str, ...] = knob(
        (),
        "Origins that browsers may call from, besides loopback and public_url, e.g. https://app.example.com.",
    )
    max_body: Size = knob(1024**2, "Largest request body.", ge=1024, le=64 * 1024**2)
    shutdown_timeout: Duration = knob(60.0, "Time that requests under way have to finish after SIGTERM.", ge=0, le=600)

    @property
    def origin(self) -> str:
        """The URL under which clients reach the gateway, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"

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
    def _check_ports(self) -> ServerSettings:
        if self.port == self.admin_port != 0:
            raise ValueError(f"port and admin_port are both {self.port}: the admin port is one of its own")
        return self


class Log(Section):
    """Logs: one line per request, start-up and refresh, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = knob("info", "Least severity.")
    format: Literal["auto", "json", "text"] = knob("auto", "auto: text on a terminal, JSON elsewhere.")


class Telemetry(Section):
    """What the gateway tells about itself."""

    log: Log = knob(Log, "Logs.")

"""Define the knobs of the process: where it listens, and what it logs."""

import ipaddress
import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, field_validator

from gateway.settings.knobs import Section, all_checked, checked, http_url, is_loopback, knob
from gateway.units import Duration, Rate, Size

_OFF_AND_ON: Final = BeforeValidator(lambda value: ("off", "on")[value] if isinstance(value, bool) else value)
"""Take the words off and on, which YAML reads as booleans."""
_HOST: Final = re.compile(r"\*|[\w.-]+|\[[\da-fA-F:.]+]")
_ORIGIN: Final = re.compile(r"null|[\w+.-]+://[^/]+/?")
_NETWORK_FAULT: Final = "must be a network (CIDR) such as 10.0.0.0/8, or an address such as 10.0.0.1"
_REBINDING: Final = "* would let any web page that a browser shows read this one (DNS rebinding)"

_Networks = Annotated[tuple[str, ...], all_checked(ipaddress.ip_network, _NETWORK_FAULT)]
_Hosts = Annotated[tuple[str, ...], all_checked(_HOST.fullmatch, "must be a host name without https:// and port")]


class ListenerTls(Section):
    """TLS of the public port."""

    cert_file: str | None = knob(
        None, "Certificate (PEM) of the gateway, before those of its authorities. Read again on change, as is the key."
    )
    key_file: str | None = knob(None, "Key of the certificate (PEM), not encrypted.")

    def conflict(self) -> str:
        alone = (self.cert_file is None) != (self.key_file is None)
        return "cert_file and key_file must be set together" if alone else ""


class AdminPageSettings(Section):
    """Who sees the page of the admin port, and may use its buttons, besides browsers on this machine."""

    networks: _Networks = knob((), "Networks (CIDR) whose browsers may, besides loopback.")
    hosts: Annotated[_Hosts, checked(lambda hosts: "*" not in hosts, _REBINDING)] = knob(
        (),
        "Host names under which they may ask for it, besides loopback. Also those under which all else than /livez and "
        "/readyz is asked for, besides addresses, names without a dot, and in .svc, .local, .internal, .home.arpa.",
    )


class ServerSettings(Section):
    """Addresses and ports of the gateway, and bounds of the whole process."""

    host: str = knob(
        "127.0.0.1", "Address to bind to. Other addresses than loopback need authentication.", min_length=1
    )
    port: int = knob(8080, "Public port: MCP and REST.", ge=0, le=65535)
    admin_host: str = knob(
        "127.0.0.1",
        "Address to bind the admin port to. Probes from other machines, as in Kubernetes, need another one.",
        min_length=1,
    )
    admin_port: int = knob(
        9090,
        "Port of /, the page for who runs the gateway, and of /livez, /readyz, /metrics, /status, /refresh, /reload. "
        "It must not be public.",
        ge=0,
        le=65535,
    )
    public_url: str | None = knob(
        None,
        "URL under which clients reach the gateway, for example https://gw.example.com, without the /mcp or /crm/mcp "
        "that follows. Its host is accepted in the headers Host and Origin.",
    )
    trusted_proxies: _Networks = knob(
        (),
        "Networks (CIDR) of reverse proxies whose X-Forwarded-For is trusted. "
        "The caller is the rightmost address in it that is not in these networks.",
    )
    tls: ListenerTls = knob(
        ListenerTls, "TLS 1.2 and later on the public port, where no proxy in front has it. The admin port stays plain."
    )
    secret_file: str | None = knob(
        None,
        "File whose first line is the secret that signs cursors, sessions and states. Further lines are accepted too, "
        "for rotation. Absent: a random secret, so that they end with the process. Replicas need the same secret.",
    )
    page: Annotated[Literal["public", "token", "off"], _OFF_AND_ON] | None = knob(
        None,
        "The page at / for people who call: public: for all, with the tools that tools/list shows them; token: without "
        "any name until a token is accepted; or off. Absent: public where host is loopback and there is neither "
        "public_url nor trusted_proxies, else off.",
    )
    admin_page: AdminPageSettings = knob(
        AdminPageSettings, "The page at / of the admin port, for people who run the gateway."
    )
    allowed_hosts: _Hosts = knob(
        (), 'Host names to accept besides loopback and public_url; ["*"] where a proxy in front checks them.'
    )
    allowed_origins: Annotated[
        tuple[str, ...], all_checked(_ORIGIN.fullmatch, "must be an origin such as https://app.example.com")
    ] = knob((), "Origins that browsers may call from, besides loopback and public_url, e.g. https://app.example.com.")
    workers: int = knob(
        1,
        "Processes that serve the public port. Several need Linux and a store.url that they share. They divide "
        "max_connections, max_buffered and each backend.connections among them.",
        ge=1,
        le=256,
    )
    max_body: Size = knob(1024**2, "Largest request body.", ge=1024, le=64 * 1024**2)
    write_timeout: Duration = knob(
        30.0,
        "How long a client may take to read a response, or what a stream has sent, before its connection is closed. A "
        "stream may stay open while all that it sent has been read.",
        gt=0,
        le=3600,
    )
    max_connections: int = knob(
        10_000,
        "Maximum number of open connections of the public port; further ones get 503. One address has a quarter "
        "of them at most, and from half on a sixteenth, unless it is one of trusted_proxies. Lowered, with a warning, "
        "to what the limit of open files allows.",
        ge=1,
        le=1_000_000,
    )
    max_buffered: Size = knob(
        192 * 1024**2,
        "Maximum memory for responses that are being read or that clients have not read yet, for bodies that clients "
        "still send, and for the values of bodies and results until their calls end, estimated from their shape: a "
        "megabyte of small objects counts as twenty. Large bodies get 503 from five eighths of it on, callers who hold "
        "some of it from seven eighths on, and one who holds a quarter always. At least backend.max_response.",
        ge=1024**2,
    )
    drain_delay: Duration = knob(
        0.0,
        "Time after SIGTERM in which the gateway still serves, for proxies that learn from /readyz that it ends: that "
        "is 503 then, and answers have Connection: close. Kubernetes has preStop for this.",
        ge=0,
        le=600,
    )
    shutdown_timeout: Duration = knob(
        60.0, "Time for running requests to finish after SIGTERM and drain_delay. Then they are cut off.", ge=0, le=600
    )

    @property
    def origin(self) -> str:
        """Return the URL under which clients reach the gateway, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http{'s' if self.tls.cert_file else ''}://{host}:{self.port}"

    def share(self, most: int) -> int:
        """Return how many one worker may have, where all workers together may have ``most``. At least 1."""
        return max(most // self.workers, 1)

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        url = http_url(url).rstrip("/")
        if urlsplit(url).path.endswith("/mcp"):
            raise ValueError("must not end in /mcp, which the gateway appends: write https://gw.example.com alone")
        return url

    @property
    def is_local(self) -> bool:
        """Return whether only people on this machine are expected: then the page says more."""
        return is_loopback(self.host) and self.public_url is None and not self.trusted_proxies

    @property
    def shown_page(self) -> Literal["public", "token", "off"]:
        """Return what :attr:`page` says, or its default."""
        return self.page or ("public" if self.is_local else "off")

    def conflict(self) -> str:
        same = self.port == self.admin_port != 0
        return f"port and admin_port are both {self.port}: they must differ" if same else ""


class Log(Section):
    """Log of requests, the start and refreshes, to standard error: a line each, as text on a terminal, else as JSON."""

    level: Literal["debug", "info", "warning", "error"] = knob("info", "Least severity that is logged.")
    requests: Annotated[Literal["off", "failures", "all"], _OFF_AND_ON] = knob(
        "all", "Requests that have a line, at level info: none, those that failed, or all."
    )


class AuditSettings(Section):
    """Audit: a JSON line for each call of a tool, also for a refused one, to a file or to standard output."""

    to: str | None = knob(None, "stdout, or a file that is appended to. Absent: no audit.", min_length=1)
    arguments: Literal["none", "digest", "named", "all"] = knob(
        "none",
        "What a line has of the arguments: their SHA-256, those that catalog.tools.*.audit names, or all. Values whose "
        "names say that they are secret never appear.",
    )
    required: bool = knob(
        False, "Write a line before each call, and refuse the call (503) where it cannot be written. Needs to."
    )

    def conflict(self) -> str:
        nowhere = self.required and self.to is None
        return "required is set, but to names no file: set telemetry.audit.to" if nowhere else ""


class Telemetry(Section):
    """Reports of the gateway about itself."""

    log: Log = knob(Log, "Log, to standard error: text on a terminal, JSON elsewhere.")
    audit: AuditSettings = knob(AuditSettings, "Who called which tool, and what came of it.")
    traces: Annotated[Literal["off", "on", "content"], _OFF_AND_ON] = knob(
        "off",
        "Traces with OpenTelemetry: none, spans, or spans with the beginning of arguments and results, secrets masked. "
        "The OTEL_* variables say all else. Needs the extra otel.",
    )


class Limits(Section):
    """Limits per caller."""

    discovery: Rate = knob(
        "60/minute",
        "Listings per caller, or per address without a token: that many at once, then one by one at that rate. As "
        "many sessions may be ended, and ten times as many further pages (cursors) are allowed.",
    )
    invocation: Rate = knob(
        "600/minute",
        "Calls per caller, or per address without a token: a tenth of them at once, but at least ten, then one by one "
        "at that rate.",
    )
    concurrent: int = knob(
        16, "Calls under way per caller, including those that wait. A batch counts as one.", ge=1, le=100_000
    )
    streams: int = knob(
        32, "Open streams per caller, or per address without a token. A call with progress is one.", ge=1, le=100_000
    )

"""Knobs of the way to the backend."""

from __future__ import annotations

import re
from typing import Literal, TypeVar

from pydantic import Field, JsonValue, Secret, SecretStr, ValidationInfo, field_validator, model_validator

from gateway.settings.auth import ClientSecret, secure_url
from gateway.settings.custom import CustomListing
from gateway.settings.knobs import Section, http_url, knob
from gateway.units import Duration, Size

AnyCredentials = TypeVar("AnyCredentials", bound=Section)


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

    structure: Literal["auto", "by-name", "by-position", "by-name-in-list"] = knob(
        "auto",
        "Shape of params. auto: as the listing says of each method. Where it does not say, by name, or by position "
        "where a name in it can be no key; a tool marked read-only or idempotent under catalog.tools is then tried in "
        "the other shape too. by-name-in-list: one object as the only element of a list.",
    )
    prefix: tuple[Secret[JsonValue], ...] = knob(
        (), 'Values put before the positional params of every call, e.g. ["token:${ARIA2_SECRET}"] for aria2.'
    )
    send_defaults: bool = knob(
        False,
        "Send the defaults that the listing declares for arguments that are left out, by position up to the first "
        "without one. For services that declare defaults and do not apply them.",
    )
    always: bool = knob(False, "Send params even to a method that has no parameters; some services insist.")


def header_value(value: SecretStr | None) -> SecretStr | None:
    """Return what can be the value of an HTTP header. Raises :class:`ValueError`."""
    if value is not None and not re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", value.get_secret_value()):
        raise ValueError("must be printable ASCII without surrounding spaces, as HTTP header values are")
    return value


def checked_mode(section: AnyCredentials, info: ValidationInfo) -> AnyCredentials:
    """Return a section that fits its mode; raises :class:`ValueError`. ``context`` gives a section's faults, where
    :func:`gateway.config.load_settings` reads a file: the modes are above the settings."""
    if info.context is not None and (faults := [*info.context(section)]):
        raise ValueError("; ".join(faults))
    return section


class Credentials(ClientSecret):
    """What the gateway shows the backend."""

    # The modes are above the settings, in gateway/credentials; they are named in what derives from this.
    mode: str = knob("auto", "What is shown.")
    backend_audience: str | None = knob(
        None,
        "same_resource: the audience that the backend itself requires of a token. "
        "It must be the gateway's resource (public_url + /mcp), or what the issuer's preset has in its place.",
    )
    reject_extra_audiences: bool = knob(
        True, "same_resource: refuse tokens that are good elsewhere too, since the backend could use them there."
    )
    trusted_network: bool = knob(
        False, "same_resource: send tokens over http:// beyond loopback, where the network itself encrypts (a mesh)."
    )
    token_endpoint: str | None = knob(
        None,
        "token_exchange, client_credentials: where; absent: as the first issuer's metadata say. "
        "token_exchange with several issuers needs it, since it is shown the tokens of each.",
    )
    audience: str | None = knob(None, "token_exchange, client_credentials: audience to ask for.")
    resource: str | None = knob(None, "token_exchange, client_credentials: resource to ask for (RFC 8707).")
    scope: str | None = knob(None, "token_exchange, client_credentials: scopes to ask for, with spaces between.")
    header: str = knob("Authorization", "static: name of the header.")
    value: SecretStr | None = knob(None, "static: value of the header, e.g. ${file:/run/secrets/backend}.")

    @field_validator("token_endpoint")
    @classmethod
    def _check_endpoint(cls, url: str | None) -> str | None:
        return None if url is None else secure_url(url)

    @field_validator("header")
    @classmethod
    def _check_header(cls, header: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", header):
            raise ValueError("must be an HTTP header name")
        if header.lower() in ("host", "content-length", "content-type", "transfer-encoding", "connection"):
            raise ValueError("is set by the gateway itself")
        return header

    _check_value = field_validator("value")(header_value)

    @model_validator(mode="after")
    def _check_mode(self, info: ValidationInfo) -> Credentials:
        return checked_mode(self, info)


class ListingCredentials(Section):
    """What the listing is asked with, where it is not what calls show. The rest is as backend.credentials has it: the
    client, the token endpoint, what tokens are asked for, the name of the header."""

    mode: str = knob("auto", "What the listing is asked with.")
    value: SecretStr | None = knob(None, "static: value of the header that backend.credentials names.")

    _check_value = field_validator("value")(header_value)

    @model_validator(mode="after")
    def _check_mode(self, info: ValidationInfo) -> ListingCredentials:
        return checked_mode(self, info)

    def over(self, calls: Credentials) -> Credentials:
        """Return the whole section, of the listing's own and of what is shared with ``calls``."""
        return calls.model_copy(update={"mode": self.mode, "value": self.value})


class ListingSettings(Section):
    """Where and how the backend's methods are listed."""

    dialect: Literal[
        "auto", "jsonrpc_mcp", "drupal", "openrpc", "smd", "describe", "plain", "introspection", "kodi", "mopidy",
        "help", "truenas", "ubus", "static", "custom",
    ] = knob("auto", "Form of the listing; auto finds it by asking for each in turn, cheapest first.")  # fmt: skip
    url: str | None = knob(None, "Where the listing is, if not where its dialect has it.")
    file: str | None = knob(
        None, "File with the listing for dialect: static: our short YAML, or an answer that was saved in any dialect."
    )
    documents: dict[str, str] = knob(
        dict,
        "Files with the documents that a $ref of the listing leads to, by the address in the $ref, e.g. "
        "{common.json: /etc/gateway/common.json}. Nothing is fetched.",
    )
    language: str | None = knob(
        None, "Accept-Language for the shared listing, for services that translate descriptions."
    )
    identity: Literal["auto", "caller", "shared"] = knob(
        "auto",
        "Whose methods are listed. caller: each caller's own, asked for with the caller's token. "
        "shared: those of the listing's credential, shown to everybody. "
        "auto: caller with a mode that shows a caller's token, or one had for it; else shared.",
    )
    custom: CustomListing = knob(
        CustomListing, "For dialect: custom, how to read the listing, e.g. {method: list, methods: '$.functions[*]'}."
    )
    timeout: Duration = knob(10.0, "Time for one listing, probing included.", gt=0, le=300)
    credentials: ListingCredentials = knob(ListingCredentials, "What the listing is asked with.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)

    @model_validator(mode="after")
    def _check_file(self) -> ListingSettings:
        if (self.dialect == "static") != (self.file is not None):
            raise ValueError("dialect: static and file come together")
        return self

    @model_validator(mode="after")
    def _check_custom(self) -> ListingSettings:
        if self.dialect != "custom" and self.custom != CustomListing():
            raise ValueError(f"custom is read with dialect: custom alone, and dialect is {self.dialect}")
        if self.dialect == "custom" and self.custom.methods is None:
            raise ValueError("dialect: custom needs custom.methods, a JSONPath to the entries such as $.functions[*]")
        return self


class Backend(Section):
    """The JSON-RPC service that the gateway fronts."""

    url: str = Field(
        description="The service's JSON-RPC endpoint, for example http://127.0.0.1/jsonrpc. Required.",
    )
    timeout: Duration = knob(
        30.0, "Deadline of a call, from the wait for a free connection to the last byte of the answer.", gt=0, le=3600
    )
    max_response: Size = knob(
        8 * 1024**2,
        "Largest answer, after decompression; also what the answers of one JSON-RPC batch may come to together. A "
        "listing may be larger, up to 16 MiB.",
        ge=1024,
        le=256 * 1024**2,
    )
    version: Literal["auto", "2.0", "1.0"] = knob(
        "auto",
        "JSON-RPC that the service speaks. 1.0: without the jsonrpc member, always with id and params, by position; an "
        "answer may be the bare result. auto: as asking for the listing finds out; 2.0 where there is nothing to ask.",
    )
    errors: Literal["cleaned", "passed"] = knob(
        "cleaned",
        "What /jsonrpc and /mcp/tools/{name} show of the service's own errors. cleaned: the message, with a code of "
        "the gateway's. passed: the service's own code and data, too, without stacks and secrets. "
        "MCP and REST show the message, whatever this says.",
    )
    connections: int = knob(100, "Most connections to the backend at a time.", ge=1, le=10_000)
    proxy: str | None = knob(None, "HTTP proxy on the way; the environment's proxies are ignored.")
    tls: Tls = knob(Tls, "TLS towards the backend.")
    params: Params = knob(Params, "How the backend takes its params.")
    credentials: Credentials = knob(Credentials, "What the gateway shows the backend.")
    listing: ListingSettings = knob(ListingSettings, "Where and how the methods are listed.")

    @field_validator("url", "proxy")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)

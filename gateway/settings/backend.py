"""Knobs of the way to the backend."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, JsonValue, Secret, SecretStr, field_validator, model_validator

from gateway.settings.knobs import Section, http_url, knob
from gateway.units import Duration, Size


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
        return None if url is None else http_url(url)

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
        return None if url is None else http_url(url)

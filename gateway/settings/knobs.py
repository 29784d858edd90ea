"""Define the parts of every section of the settings: the field of a knob, base classes, checks of values."""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def knob(default: Any, help: str, **bounds: Any) -> Any:
    """Return a pydantic field. A callable ``default`` is called for the default value."""
    if callable(default):
        return Field(default_factory=default, description=help, **bounds)
    return Field(default, description=help, **bounds)


class Section(BaseModel):
    """Hold one section, immutable and without unknown keys. Errors quote no values, which may be secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    def conflict(self) -> str:
        """Return why these knobs cannot stand together, "" where they can."""
        return ""

    @model_validator(mode="after")
    def _check_conflict(self) -> Self:
        if conflict := self.conflict():
            raise ValueError(conflict)
        return self

    def __eq__(self, other: object) -> bool:
        """Return whether all knobs are the same. The order within a map counts: of patterns, later ones win."""
        if not isinstance(other, Section) or not super().__eq__(other):
            return False
        return all(list(value) == list(getattr(other, name)) for name, value in self if isinstance(value, dict))


class Document(Section):
    """A structured value that counts as one knob: its members mean nothing alone, or few set them."""


def _mend(url: str) -> str:
    """Return what is wrong with host or port of a URL. Quotes an IPv6 address alone: all else may be a password."""
    found = re.match(r"(https?)://([0-9A-Fa-f:.]*?[^:/](?:%\w+)?)(:\d{2,5})?(?:/|$)", url)
    if found and found[2].count(":") > 1:
        return f"an IPv6 address needs brackets: {found[1]}://[{found[2]}]{found[3] or ''}/"
    return "an IPv6 address needs brackets: http://[::1]:8000/" if "[" in url else "its port is a number up to 65535"


def http_url(url: str) -> str:
    """Return the URL if it is http or https, without credentials and fragment. Raises :class:`ValueError`."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The library's text would quote a part of the URL, which may be a password.
        raise ValueError(f"is not a URL; {_mend(url)}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL" + _scheme_hint(url, parts.scheme))
    if parts.username is not None or parts.password is not None:
        where = "backend.credentials: {mode: basic, user: …, password: …}"
        raise ValueError(f"must not carry a user name or password; a service's stand in {where}")
    if parts.fragment:
        raise ValueError("must not have a #fragment")
    return url


HttpUrl = Annotated[str, AfterValidator(http_url)]


def _scheme_hint(url: str, scheme: str) -> str:
    """Return what to add for an address of a kind that other programs accept."""
    if url[:1] in "\"'\u201c\u2018`<":
        return ", without quotes around it"
    kinds = {"ws": "a WebSocket", "wss": "a WebSocket", "unix": "a Unix socket", "tcp": "a TCP socket"}
    if kind := kinds.get(scheme, "a Unix socket" if url.startswith("/") else ""):
        return f"; {kind} cannot be reached yet: give the service's HTTP address"
    return "" if "://" in url or not re.match(r"[\w.-]+(?::\d+)?(?:/|$)", url) else "; put http:// before it"


def checked(is_good: Callable[[Any], object], fault: str) -> AfterValidator:
    """Return a validator for :data:`Annotated` that raises ``fault`` for a value that is not good."""

    def check(value: Any) -> Any:
        if not is_good(value):
            raise ValueError(fault)
        return value

    return AfterValidator(check)


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, except member names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for child in value.values() if isinstance(value, dict) else value:
            yield from texts_in(child)


def is_loopback(host: str) -> bool:
    """Return whether a host to bind to is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False

"""Define the parts of every section of the settings: the field of a knob, base classes, checks of values."""

import ipaddress
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Secret, model_validator

NAME_PATTERN: Final = "[a-z][a-z0-9_]{0,31}"
"""Form of the names that operators give: of services, groups, and values of a login."""


def knob(default: Any, help: str, **bounds: Any) -> Any:
    """Return a pydantic field. A callable ``default`` is called for the default value."""
    if callable(default):
        return Field(default_factory=default, description=help, **bounds)
    return Field(default, description=help, **bounds)


class Section(BaseModel):
    """Hold one section, immutable and without unknown keys. Errors quote no values, which may be secret."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True, defer_build=True
    )

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


def http_url(url: str, schemes: tuple[str, ...] = ("http", "https")) -> str:
    """Return the URL if its scheme is one of ``schemes``, without credentials and fragment. Raises
    :class:`ValueError`."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The library's text would quote a part of the URL, which may be a password.
        raise ValueError(f"is not a URL; {_mend(url)}") from None
    if parts.scheme not in schemes or not parts.hostname:
        others = f", or begin with {'://, '.join(schemes[2:])}:// or unix:" if len(schemes) > 2 else ""
        raise ValueError(f"must be an http:// or https:// URL{others}{_scheme_hint(url)}")
    if parts.username is not None or parts.password is not None:
        where = "backend.credentials: {mode: basic, user: …, password: …}"
        raise ValueError(f"must not carry a user name or password; a service's stand in {where}")
    if parts.fragment:
        raise ValueError("must not have a #fragment")
    return url


WIRES: Final[Mapping[str, Literal["http", "websocket", "stream"]]] = {
    "http": "http", "https": "http", "unix+http": "http", "ws": "websocket", "wss": "websocket",
    "tcp": "stream", "tls": "stream", "unix": "stream",
}  # fmt: skip
"""Transport to a service, by the scheme of its URL."""
_MOST_PATH: Final = 107
"""Bytes of the path of a Unix socket (unix(7))."""
HttpUrl = Annotated[str, AfterValidator(http_url)]


def service_url(url: str) -> str:
    """Return the URL if it is one of a service: a scheme of :data:`WIRES`. Raises :class:`ValueError`."""
    scheme = url.partition(":")[0].lower()
    if scheme.startswith("unix"):
        return _unix_url(url, scheme)
    http_url(url, tuple(scheme for scheme in WIRES if not scheme.startswith("unix")))
    parts = urlsplit(url)
    if WIRES[scheme] == "stream" and (not parts.port or parts.path not in ("", "/") or parts.query):
        raise ValueError(f"must be {scheme}:// with a host and a port, and nothing behind them: {scheme}://host:1705")
    return url


def http_target(url: str) -> tuple[str, str | None]:
    """Return the URL that requests of HTTP have, and the path of the Unix socket that they go through, if any."""
    scheme, _, rest = url.partition(":")
    if scheme.lower() != "unix+http":
        return url, None
    path, _, target = rest.removeprefix("//").partition(":")
    return f"http://localhost{target or '/'}", unquote(path)


def _unix_url(url: str, scheme: str) -> str:
    target, path = (
        http_target(url) if scheme == "unix+http" else ("", unquote(url.partition(":")[2].removeprefix("//")))
    )
    if scheme not in WIRES or path is None or not re.fullmatch(r"/[^/?#][^?#]*", path) or "\0" in path:
        example = "unix:/run/service.sock, or unix+http:/run/service.sock:/rpc for HTTP"
        raise ValueError(f"must have the absolute path of a socket, for example {example}")
    if len(os.fsencode(path)) > _MOST_PATH:
        raise ValueError(f"has a path of more than {_MOST_PATH} bytes, which no socket can have")
    if target:
        http_url(target)
    return url


ServiceUrl = Annotated[str, AfterValidator(service_url)]


def _scheme_hint(url: str) -> str:
    """Return what to add for an address of a kind that other programs accept."""
    if url[:1] in "\"'\u201c\u2018`<":
        return ", without quotes around it"
    if url.startswith("/"):
        return "; put unix: before the path of a socket"
    return "" if "://" in url or not re.match(r"[\w.-]+(?::\d+)?(?:/|$)", url) else "; put http:// before it"


def checked(is_good: Callable[[Any], object], fault: str) -> AfterValidator:
    """Return a validator for :data:`Annotated` that raises ``fault`` for a value that is not good."""

    def check(value: Any) -> Any:
        if not is_good(value):
            raise ValueError(fault)
        return value

    return AfterValidator(check)


def all_checked(is_good: Callable[[str], object], fault: str) -> AfterValidator:
    """Return a validator for several texts. It names the first that is not good, or that ``is_good`` cannot read."""

    def check(texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            with suppress(ValueError):
                if is_good(text):
                    continue
            raise ValueError(f"{text} {fault}")
        return texts

    return AfterValidator(check)


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, secret or not, except member names."""
    if isinstance(value, Secret):
        value = value.get_secret_value()
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

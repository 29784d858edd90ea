"""Where the addresses in an issuer's documents may lead.

They are a stranger's word. The form of each is checked when the document is read, and so is an IP address that is
written out; a name is judged when it has been resolved for a connection, which then goes to exactly what was judged.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from gateway.outbound import Reach
from gateway.settings import Issuer, is_loopback

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME: Final = re.compile(r"[a-z0-9._-]+")
# Resolvers take 127.1, 0x7f000001 and 2130706433 for addresses, as browsers do (WHATWG URL, "ends in a number").
_NUMBER_LAST: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# IPv6 that ends in an IPv4 address: compatible and mapped (RFC 4291 §2.5.5), translated (RFC 2765), NAT64 (RFC 6052).
_ENDING_IN_IPV4: Final = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")


def check_address(url: Any, issuer: str, name: str) -> None:
    """Check that an address in a document is written as an https URL, or as an http URL where it and the issuer are on
    loopback, and that an IP address in it is one to ask. Raises :class:`ValueError`; ``name`` is the member's."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").rstrip("."), parts.port
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{name} is no URL") from None
    local = _on_loopback(issuer)
    if parts.scheme != "https" and not (parts.scheme == "http" and local and is_loopback(host)):
        raise ValueError(f"{name} is not https")
    # Parsers of URLs differ on blanks, backslashes and letters beyond ASCII; in a URI there are none (RFC 3986 §2).
    if parts.username is not None or not re.fullmatch(r"[!-\[\]-~]+", url):
        raise ValueError(f"{name} is no plain URL")
    if ":" in host or _NUMBER_LAST.fullmatch(host):
        reason = address_refusal(host, local=local)
    elif host == "localhost" and not local:
        reason = "points at this machine"
    else:
        reason = None if _NAME.fullmatch(host) else "is no plain URL"
    if reason is not None:
        raise ValueError(f"{name} {reason}")


def address_refusal(address: str, *, local: bool) -> str | None:
    """Why no connection is made to an IP address, None if one may be. ``local`` says that loopback is meant. An address
    that others are embedded in counts as each of them."""
    try:
        written = ipaddress.ip_address(address)
    except ValueError:
        return "has an address that is not in its usual form"
    for meant in (written, *_embedded_ipv4(written)):
        if meant.is_loopback and not local:
            return "points at this machine"
        if meant.is_link_local or meant.is_unspecified or meant.is_multicast:
            return "points at an address that no issuer has"
    return None


def reach_of_issuer(issuer: Issuer, *named: str | None) -> Reach:
    """Where connections on an issuer's behalf may lead. Its origin, its knobs and ``named`` are the operator's word,
    which a document of the same origin may repeat; all else is judged."""
    urls = (issuer.issuer, issuer.jwks_uri, issuer.introspection.endpoint, *named)
    refuses = partial(address_refusal, local=_on_loopback(issuer.issuer))
    return Reach(refuses, frozenset(url for url in urls if url is not None))


def _on_loopback(issuer: str) -> bool:
    return is_loopback(urlsplit(issuer).hostname or "")


def _embedded_ipv4(address: Address) -> Iterator[Address]:
    """The IPv4 addresses within an IPv6 one, also those of 6to4 (RFC 3056) and of Teredo's client (RFC 4380)."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    # A network may use a shorter prefix for its own NAT64 (RFC 8215), after which zeros come last.
    if any(address in network for network in _ENDING_IN_IPV4) or (address in _LOCAL_NAT64 and int(last)):
        yield last
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield address.teredo[1]
